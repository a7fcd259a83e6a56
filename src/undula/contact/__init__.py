"""Unilateral contact with friction: what can touch, the laws of contact, and the solvers of the set-valued problem."""
