"""Many instances of one computation at once."""
