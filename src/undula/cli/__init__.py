"""The `undula` command."""
