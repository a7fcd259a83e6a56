"""Rules that choose reactions and the efforts of led coordinates, where the balance of forces leaves them open."""

from undula.core.lazy import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
