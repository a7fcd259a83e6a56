"""undula: locomotion dynamics of robots and animals that change shape.

Start with `Builder` or `load_urdf`, then `run`. The most used names are here; families of them are in `laws`, `forces`, `rows`,
`contact`, `rods`, `integrators`, `geometry`, ... Each name has one place: the stub beside this file lists them. They are
imported when they are first used.
"""

from undula.core import early as _early  # noqa: F401, I001  (before all that is slow to import)

from undula.core.lazy import attach as _attach

from undula.core import startup as _startup  # noqa: F401  (sets what JAX reads when it starts)
from undula.core.version import __version__ as __version__

__getattr__, __dir__, __all__ = _attach(__name__, __file__)
