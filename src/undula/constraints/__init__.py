"""Constraints: rows in, class out; motion by kinematics where that is enough, by reduced dynamics where it is not."""
