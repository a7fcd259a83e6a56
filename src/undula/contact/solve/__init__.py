"""Solvers of the contact problem."""
