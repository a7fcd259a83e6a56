"""Plots and 3D pages."""
