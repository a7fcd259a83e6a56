"""Bodies so fast that they pass through thin obstacles between two steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.contact.carried import contact_count
from undula.model.packing import Group, member
from undula.model.sites import PackedSite
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.record.sample import Sample

POINTS = 1000  # on the way between two samples


class Passage(NamedTuple):
    """A contact whose body moves farther in a step than the obstacle on its way is thick.

    `name` of the contact; `t` [s] of the sample before; `way` [m] per step; `thickness` [m] of both shapes.
    """

    name: str
    t: float
    way: float
    thickness: float


def passage(system: System, samples: Sample, dt: float) -> Passage | None:
    """The first passage, judged by the straight ways between samples; None if there is none."""
    found = []
    names = iter(system.contact_names)
    for group in system.contacts:
        own = [next(names) for _ in range(contact_count(group))]
        form = jax.tree.map(np.asarray, group.form)  # in JAX, each of its operations would be compiled
        thickness = getattr(form, "thickness", None)
        if thickness is None or any(s.section is not None for s in group.sites):
            continue
        thick = np.broadcast_to(np.asarray(thickness, dtype=float), group.size)
        if np.isfinite(thick).any():
            thin = np.flatnonzero(np.isfinite(thick)).tolist()
            found += [_first(group, k, own[k], thick[k], samples, dt) for k in thin]
    return min((x for x in found if x is not None), key=lambda x: x.t, default=None)


def _first(group: Group, k: int, name: str, thickness: float, samples: Sample, dt: float) -> Passage | None:
    t = np.asarray(samples.t)
    centre = _places(samples, group.sites[0], k)
    other = _places(samples, group.sites[1], k) if len(group.sites) > 1 else np.zeros(3)
    at = centre - other
    way = np.linalg.norm(np.diff(at, axis=0), axis=1) / np.maximum(np.round(np.diff(t) / dt), 1)
    for i in np.flatnonzero(way > thickness):
        points = at[i] + np.linspace(0, 1, POINTS + 1)[:, None] * (at[i + 1] - at[i])
        if (_gaps(group, k, points) < 0).any():
            return Passage(name, float(t[i]), float(way[i]), float(thickness))
    return None


def _gaps(group: Group, k: int, points: np.ndarray) -> np.ndarray:
    """Gaps [m] of a contact, with its sphere's centre at some points: in the world, or relative to the other sphere's."""
    form: Any = member(group.form, k)
    if form.surface is None:
        return np.linalg.norm(points, axis=1) - float(form.radius + form.other_radius)
    return np.asarray(_distances(form.surface, points)) - float(form.radius)


@quickly_compiled
def _distances(surface: Any, points: Any) -> Any:
    return jax.vmap(surface.distance)(jnp.asarray(points))


def _places(samples: Sample, site: PackedSite, k: int) -> np.ndarray:
    """Positions (times, 3) [m] of a site of bodies, in the world."""
    offset = np.zeros(3) if site.position is None else np.asarray(site.position)[k]
    body = site.bodies[k]
    if body >= samples.bodies.position.shape[1]:
        return offset
    w, u = np.split(np.asarray(samples.bodies.quaternion[:, body]), [1], axis=1)
    turned = offset + 2 * np.cross(u, np.cross(u, offset) + w * offset)
    return np.asarray(samples.bodies.position[:, body]) + turned
