"""One snapshot and one balance, and everything that is solved with them."""
