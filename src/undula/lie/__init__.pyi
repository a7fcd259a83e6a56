from . import se3 as se3, so3 as so3
