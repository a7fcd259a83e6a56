"""The version of the package, from its metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("undula")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"
