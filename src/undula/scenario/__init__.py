"""Scenarios: a system with parameters, ready to run."""
