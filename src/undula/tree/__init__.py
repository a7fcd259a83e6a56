"""Recursions on trees: kinematics, inverse, composite and articulated scans."""
