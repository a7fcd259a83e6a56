"""Interfaces of everything that is attached to a model: sites, views, elements, force models, row models."""

from undula.core.lazy import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
