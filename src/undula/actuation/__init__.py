"""Actuation: how the joints of a robot or animal are driven in time."""
