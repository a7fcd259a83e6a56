"""Inertias of homogeneous solids."""

from undula.core.lazy import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
