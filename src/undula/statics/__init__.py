"""Equilibria, their stability and their natural modes."""
