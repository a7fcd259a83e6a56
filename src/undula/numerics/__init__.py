"""Small dense algebra, row spaces, static indexing, loops, Newton's method, kernels and lanes, written to suit XLA."""
