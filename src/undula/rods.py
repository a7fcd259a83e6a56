"""What rods are made of: sections, bases of strains; the error of their nodes."""

from undula.core.lazy import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
