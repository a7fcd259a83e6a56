"""The recursions on trees: kinematics, inverse, composite and articulated scans, and what follows from them."""
