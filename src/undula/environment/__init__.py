"""What surrounds a system: loads on its bodies."""
