"""Checks of the data that figures and pages need: made before anything is drawn, refused in one sentence.

A file may come from another program, be edited, or be damaged but still readable.
"""

import json
from typing import Any

import numpy as np
import xarray as xr

from undula.core.errors import UndulaError

LARGEST = 1e30  # a larger number is not meaningful, and overflows in single precision
SKEW = 1e-3  # deviation of a quaternion from unit length that is refused

POSES = {
    "base_position": ("time", "axis"),
    "base_quaternion": ("time", "quat"),
    "body_position": ("time", "body", "axis"),
    "body_quaternion": ("time", "body", "quat"),
}
SIGNALS = {
    "base_twist": ("time", "twist"),
    "position": ("time", "coordinate"),
    "velocity": ("time", "coordinate"),
    "effort": ("time", "coordinate"),
    "energy_kinetic": ("time",),
    "energy_potential": ("time",),
    "power_actuators": ("time",),
    "power_external": ("time",),
}
SIZES = {"axis": 3, "quat": 4, "twist": 6, "wrench": 6}
SURROUNDINGS: dict[str, dict[str, int]] = {  # how many numbers each part has; 0: a single number, not in a list
    "plane": {"normal": 3, "point": 3},
    "post": {"place": 2, "radius": 0},
    "ball": {"centre": 3, "radius": 0},
    "relief": {"x": 2, "y": 2},
}


def check_poses(data: xr.Dataset) -> None:
    """Refuses a run whose times or poses cannot be drawn."""
    _check(data, {"time": ("time",), **POSES})
    for name, size in SIZES.items():
        if data.sizes.get(name, size) != size:
            raise UndulaError(
                f"the run cannot be drawn: its dimension {name} is {data.sizes[name]}; it must be {size}."
            )
    if not data.sizes["body"]:
        raise UndulaError("the run cannot be drawn: it has no bodies.")
    t = data["time"].values
    if (back := np.flatnonzero(np.diff(t) <= 0)).size:
        k = int(back[0])
        raise UndulaError(
            f"the run cannot be drawn: its time must increase, and t = {t[k + 1]:g} s follows t = {t[k]:g} s."
        )
    for name in ("base_quaternion", "body_quaternion"):
        length = np.linalg.norm(data[name].values, axis=-1)
        if (bad := np.argwhere(np.abs(length - 1) > SKEW)).size:
            raise UndulaError(
                f"the run cannot be drawn: a quaternion of {name} at t = {t[bad[0][0]]:g} s has the length "
                f"{length[tuple(bad[0])]:.3g}; it must be 1."
            )


def check_signals(data: xr.Dataset) -> None:
    """Refuses a run whose coordinates, efforts or energies cannot be drawn."""
    more = {"base_wrench": ("time", "wrench")} if "base_wrench" in data else {}
    _check(data, {**SIGNALS, **more})
    for name in ("role", *(n for n in ("unit",) if n in data)):
        if name not in data or data[name].dims != ("coordinate",):
            raise UndulaError(f"the run cannot be drawn: it lacks {name} (coordinate).")


def _check(data: xr.Dataset, wanted: dict[str, tuple[str, ...]]) -> None:
    for name, dims in wanted.items():
        if name not in data.variables or data[name].dims != dims:
            raise UndulaError(f"the run cannot be drawn: it lacks {name} ({', '.join(dims)}).")
        x = data[name].values
        if x.dtype.kind not in "fiu":
            raise UndulaError(f"the run cannot be drawn: {name} does not consist of numbers.")
        missing = np.isnan(x.astype(float)) & ("phase" in data and "coordinate" in dims)  # in phases of another system
        bad = np.argwhere(~((np.abs(x.astype(float)) < LARGEST) | missing))
        if bad.size:
            k = bad[0][0]
            when = "" if name == "time" else f" at t = {data['time'].values[k]:g} s"
            raise UndulaError(f"the run cannot be drawn: {name} is {x[tuple(bad[0])]:g}{when} (sample {k}).")


# Attributes in JSON.


def parsed(data: xr.Dataset, name: str) -> list[Any]:
    """The list in an attribute; empty if there is no such attribute."""
    try:
        value = json.loads(data.attrs.get(name, "[]"))
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise UndulaError(f"the run cannot be drawn: its attribute {name} is not a list in JSON.")
    return value


def numbers(value: Any, count: int, what: str) -> list[float]:
    """`count` finite numbers of an attribute (0: a single number, not in a list)."""
    given = [value] if count == 0 else value
    good = isinstance(given, list) and len(given) == max(count, 1)
    if not good or not all(isinstance(x, int | float) and abs(x) < LARGEST for x in given):
        words = "one number" if count == 0 else f"{count} numbers"
        raise UndulaError(f"the run cannot be drawn: {what} is {_shortened(value)}; it must be {words}.")
    return [float(x) for x in given]


def check_shape(shape: Any, sizes: dict[str, int], what: str) -> None:
    """Refuses what is not a shape (see `undula.Shape`)."""
    kind = shape.get("kind") if isinstance(shape, dict) else None
    size = shape.get("size") if isinstance(shape, dict) else None
    if not isinstance(kind, str) or kind not in sizes or not isinstance(size, list) or len(size) != sizes[kind]:
        known = ", ".join(f"{kind} ({n})" for kind, n in sizes.items())
        shown = f"the shape {_shortened(kind)} of size {_shortened(size)}"
        raise UndulaError(f"cannot draw {shown}; the kinds (and how many sizes) are {known}.")
    if min(numbers(size, sizes[kind], f"the size of {what}")) < 0:
        raise UndulaError(f"the run cannot be drawn: the size of {what} is {size}; it must not be negative.")
    numbers(shape.get("position"), 3, f"the position of {what}")
    q = numbers(shape.get("quaternion"), 4, f"the quaternion of {what}")
    if float(np.linalg.norm(q)) < SKEW:
        raise UndulaError(f"the run cannot be drawn: the quaternion of {what} is {q}; it must not be zero.")
    if shape.get("colour") is not None:
        colour = numbers(shape["colour"], 3, f"the colour of {what}")
        if not all(0 <= x <= 1 for x in colour):
            raise UndulaError(f"the run cannot be drawn: the colour of {what} is {colour}; it must be from 0 to 1.")


def check_surface(surface: Any) -> None:
    """Refuses what is not a surface (see `undula.Surface.drawing`)."""
    kind = surface.get("kind") if isinstance(surface, dict) else None
    if not isinstance(kind, str) or kind not in SURROUNDINGS:
        raise UndulaError(
            f"cannot draw surroundings of the kind {_shortened(kind)}; the kinds are {', '.join(SURROUNDINGS)}."
        )
    for part, count in SURROUNDINGS[kind].items():
        found = numbers(surface.get(part), count, f"{part} of a {kind} of the surroundings")
        if part == "radius" and found[0] <= 0:
            raise UndulaError(f"the run cannot be drawn: the radius of a {kind} is {found[0]:g}; it must be positive.")
    if kind == "plane" and abs(float(np.linalg.norm(surface["normal"])) - 1) > SKEW:
        raise UndulaError(
            f"the run cannot be drawn: the normal of a plane is {surface['normal']}; its length must be 1."
        )
    if kind == "relief":
        try:
            z = np.array(surface.get("z"), float)
        except (TypeError, ValueError):
            z = np.zeros(0)
        if z.ndim != 2 or min(z.shape) < 2 or (np.abs(z[np.isfinite(z)]) > LARGEST).any():
            raise UndulaError("the run cannot be drawn: the heights z of a relief are not a table of numbers.")


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
