"""`python -m undula` is the `undula` command."""

from undula.cli.app import main

if __name__ == "__main__":
    main()
