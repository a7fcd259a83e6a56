"""Rotations and poses as functions on arrays: `so3` (quaternions w, x, y, z) and `se3`."""

from undula.core.lazy import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
