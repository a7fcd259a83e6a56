"""Sizes, energies and speeds of a motion, to which errors are related."""

from typing import NamedTuple

import numpy as np

from undula.model.system import System
from undula.record.sample import Sample

HUGE = 1e9  # the difference from what is infinite or not a number
STILL = 1e-3  # a motion through less than this part of the size of a system during a run counts as rest


class Scales(NamedTuple):
    """What errors are related to.

    - `way` [m], for places: the diagonal of the box that the bodies sweep.
    - `size` [m], for attitudes: the diagonal of the box that the bodies need at the start.
    - `energy` [J]: the largest kinetic energy plus the range of the potential energy, at least `rest`.
    - `rest` [J]: the kinetic energy of a motion so slow that it counts as rest.
    - `thickness` (bodies,) [m]: how far each body extends from its origin: its points move so far if it turns by 1 rad.
    """

    size: float
    way: float
    energy: float
    rest: float
    thickness: np.ndarray

    def differences(self, a: Sample, b: Sample) -> tuple[np.ndarray, np.ndarray]:
        """The relative differences of samples, one by one: of places or attitudes, the larger one; of kinetic energies."""
        with np.errstate(all="ignore"):
            places = np.linalg.norm(points_of(a) - points_of(b), axis=-1).max(1, initial=0.0)
            qa, qb = np.asarray(a.bodies.quaternion), np.asarray(b.bodies.quaternion)
            sign = np.where((qa * qb).sum(-1, keepdims=True) < 0, -1.0, 1.0)
            turns = (2 * np.linalg.norm(qa - sign * qb, axis=-1) * self.thickness).max(1, initial=0.0)
            energies = np.abs(np.asarray(a.energy_kinetic) - np.asarray(b.energy_kinetic))
            parts = np.stack(
                [_relative(places, self.way), _relative(turns, self.size), _relative(energies, self.energy)]
            )
        parts = np.where(np.isfinite(parts), parts, HUGE)
        return parts[:2].max(0), parts[2]


def _relative(x: np.ndarray, scale: float) -> np.ndarray:
    return x / scale if scale > 0 else np.zeros_like(x)


def points_of(samples: Sample) -> np.ndarray:
    """Origins of the bodies and sections of the rods, (times, points, 3) [m]."""
    parts = [np.asarray(samples.bodies.position)]
    parts += [np.asarray(x.position).reshape(len(parts[0]), -1, 3) for x in samples.rods]
    return np.concatenate(parts, axis=1)


def thickness_of(system: System) -> np.ndarray:
    """How far bodies extend from their origins, about: distance of the mass centre plus radius of gyration [m]."""
    mass = np.asarray(system.mass, dtype=float)
    heavy = mass > 0
    com = np.linalg.norm(np.asarray(system.com, dtype=float).reshape(len(mass), 3), axis=1)
    inertia = np.asarray(system.inertia, dtype=float).reshape(len(mass), 3, 3)
    largest = np.abs(np.linalg.eigvalsh(inertia)).max(1)
    return np.where(heavy, com + np.sqrt(largest / np.where(heavy, mass, 1.0)), 0.0)


def scales_of(system: System, samples: Sample) -> Scales:
    """Sizes and energies of a run."""
    points = points_of(samples)
    thickness = thickness_of(system)
    thick = float(thickness.max(initial=0.0))
    first = points[0]
    size = float(np.linalg.norm(np.ptp(first, axis=0))) + 2 * thick
    way = float(np.linalg.norm(np.ptp(points.reshape(-1, 3), axis=0))) + 2 * thick
    kinetic = np.asarray(samples.energy_kinetic)
    stored = np.asarray(samples.energy_stored) - kinetic
    energy = float(kinetic.max() + np.ptp(stored))
    time = float(samples.t[-1] - samples.t[0])
    slow = STILL * size / time if time > 0 else 0.0
    rest = float(np.asarray(system.mass).sum()) * slow**2 / 2
    return Scales(size, way, max(energy, rest), rest, thickness)
