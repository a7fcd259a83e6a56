"""The version of the package: the one place where it is written. The build reads it from here."""

__version__ = "0.3.0"
