"""Samples, datasets and result files."""
