"""Small dense algebra, row spaces, picks, loops, Newton's method, kernels and lanes: everything that XLA makes peculiar."""
