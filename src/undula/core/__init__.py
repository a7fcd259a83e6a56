"""Errors, checks of input, drawn shapes, and what must happen before JAX starts."""
