"""The gallery: systems of the documents, each described in one file."""

from importlib import import_module
from typing import TYPE_CHECKING

from undula.core.errors import UndulaError

if TYPE_CHECKING:
    from undula.scenario.scenario import Scenario

# one module an entry, loaded when it is asked for
NAMES = (
    "satellite",
    "falling-cat",
    "space-arm",
    "robot-arm",
    "double-pendulum",
    "free-body",
    "chain",
    "unicycle",
    "segway",
    "two-axle",
    "three-axle",
    "car",
    "mecanum",
    "snake-acm",
    "snakeboard",
    "trikke",
    "mobile-manipulator",
    "bicycle-whipple",
    "mobile-pendulum",
    "bicycle",
    "soft-snakeboard",
    "four-bar",
    "hexapod",
    "rolling-disc",
    "cantilever-soft",
    "cantilever-stiff",
    "flying-rod-soft",
    "flying-rod-stiff",
    "pendulum-rod",
    "elastica",
    "heavy-column",
    "helical-buckling",
    "tendon-finger",
    "tendon-spatial",
    "drones-payload",
    "rod-tree",
    "aiko-lateral",
    "aiko-lateral-isotropic",
    "aiko-sidewinding",
    "aiko-obstacles",
    "aiko-slope",
    "block-on-slope",
    "bouncing-ball",
    "rolling-ball",
    "woodpecker",
    "hopper",
    "climber",
    "skater",
    "biped",
    "walker",
)


def load(name: str) -> "Scenario":
    """The gallery entry of that name."""
    if name not in NAMES:
        raise UndulaError(f"there is no scenario '{name}'; the gallery has {', '.join(NAMES)}.")
    return import_module(f"undula.gallery.{name.replace('-', '_')}").SCENARIO
