"""Errors, input checks, shapes to draw, and settings that must be made before JAX starts."""
