"""Values that a reverse pass over many steps stores."""

SOLUTION = "solution"  # name of the values to be stored rather than recomputed
