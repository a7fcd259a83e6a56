"""Joints: maps from coordinates to relative pose, twist and acceleration."""
