"""The version of the package, defined only here; the build reads it from this file."""

__version__ = "0.4.0"
