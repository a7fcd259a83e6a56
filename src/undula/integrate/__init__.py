"""Time integration: one integrator per file, the run loop, the results."""
