"""Reading and writing: URDF, scenario parameters."""
