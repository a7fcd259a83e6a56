"""Sections of flexible bodies: frames at abscissae that move and turn with the body, made for the sites that name them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from undula.core.errors import ModelError
from undula.elements.site import Site
from undula.joints.fixed import Fixed
from undula.joints.joint import Joint


class Sections(NamedTuple):
    """A body with sections from 0 to `length` [m]; `at` (X): position (3,) [m] of the section in the body, at rest, and the
    joints that displace and turn it, none of which has a coordinate of its own."""

    length: float
    at: Callable[[float], tuple[np.ndarray, Sequence[Joint]]]


class Frame(NamedTuple):
    """A massless body that a section needs: its name, its parent, the joint between them and where it is in the parent."""

    name: str
    parent: str
    joint: Joint
    position: Any


def section_name(site: Site) -> str:
    """The name of the body whose frame is that of the section that a site is on; its abscissa is a number."""
    return f"{site.body}@{float(site.abscissa):.9g}"


def frames_for(sites: Iterable[Site], sections: dict[str, Sections]) -> list[Frame]:
    """The frames of all sections that sites are on, each once."""
    out: list[Frame] = []
    known: set[str] = set()
    for site in sites:
        if site.abscissa is None or site.body not in sections:
            continue
        where = f"a site on the flexible body '{site.body}'"
        if not isinstance(site.abscissa, np.ndarray):
            raise ModelError(f"the abscissa of {where} must be a constant number; only rods can slide through a site.")
        X, length = float(site.abscissa), sections[site.body].length
        if not -1e-12 <= X <= length * (1 + 1e-12):
            raise ModelError(f"{where} is at X = {X:g} m; X must lie between 0 and {length:g} m.")
        name = section_name(site)
        if name not in known:
            known.add(name)
            out += _chain(name, site.body, *sections[site.body].at(X))
    return out


def _chain(name: str, body: str, position: np.ndarray, joints: Sequence[Joint]) -> list[Frame]:
    steps = list(joints) or [Fixed()]
    names = [*(f"{name}.{k}" for k in range(1, len(steps))), name]
    places = [position, *[np.zeros(3)] * (len(steps) - 1)]
    return [Frame(*x) for x in zip(names, [body, *names], steps, places)]
