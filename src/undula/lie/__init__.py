"""Lie groups SO(3) and SE(3), written on plain arrays so that hot loops compile into straight code."""
