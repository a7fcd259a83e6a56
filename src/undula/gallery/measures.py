"""Numbers that several gallery entries report of a run, all through the library's own functions."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

import undula as un
from undula.scenario.undetermined import Undetermined

if TYPE_CHECKING:
    import xarray as xr


def at_rest(system: un.System) -> un.State:
    """The initial state with zero momentum in the base's group, the driven coordinates moving as their laws say."""
    return _at_rest(system, system.state())


@un.compiled
def _at_rest(system: un.System, state: un.State) -> un.State:
    state, _ = un.kinematics.driven_motion(system, state, 0.0)
    return state.replace(base_twist=un.geometry.resting_twist(system, state))


def net_rotation(data: "xr.Dataset", samples: tuple[int, int] = (0, -1)) -> float:
    """Angle [rad] of the reference body's rotation between two samples, from 0 to pi."""
    from scipy.spatial.transform import Rotation

    a, b = (Rotation.from_quat(data.base_quaternion.values[k], scalar_first=True) for k in samples)
    return float((a.inv() * b).magnitude())


def angular_momentum(data: "xr.Dataset", about: str = "centre") -> np.ndarray:
    """Norm [kg m^2/s] of the angular momentum at each sample, about the centre of mass or the "base"'s origin."""
    point = data.mass_centre if about == "centre" else data.base_position
    linear, angular = np.split(data.momentum.values, 2, axis=1)
    return np.linalg.norm(angular - np.cross(point.values, linear), axis=1)


def energy_drift(data: "xr.Dataset") -> float:
    """Largest change [J] of the total energy since the start."""
    energy = (data.energy_kinetic + data.energy_potential).values
    return float(np.abs(energy - energy[0]).max())


def energy_error(data: "xr.Dataset") -> float:
    """Largest difference [J] between the energy gained since the start and the work of actuators, dampers and surroundings.

    The powers are integrated through a spline of the samples, so that it tends to zero with the fourth power of their spacing.
    """
    from scipy.interpolate import CubicSpline

    energy = (data.energy_kinetic + data.energy_potential).values
    power = (data.power_actuators + data.power_external).values
    t = data.time.values
    if len(t) < 4:
        return float(np.abs(energy - energy[0]).max())
    work = CubicSpline(t, power).antiderivative()
    return float(np.abs(energy - energy[0] - work(t)).max())


def work_between_events(data: "xr.Dataset", power: str) -> float:
    """Integral [J] of a recorded power over a run with events, at which it jumps: a spline for each part between two events."""
    from scipy.interpolate import CubicSpline

    t, values = data.time.values, data[power].values
    ends = np.unique(np.clip([t[0], *data.event_time.values, t[-1]], t[0], t[-1]))
    work = 0.0
    for a, b in itertools.pairwise(ends):
        # a sample at an event has the power after it
        inside = (t >= a) & ((t < b) | (b == t[-1]))
        if inside.sum() > 1:
            work += float(CubicSpline(t[inside], values[inside]).integrate(a, b))
        elif inside.any():
            work += float(values[inside][0] * (b - a))
    return work


def yaw(data: "xr.Dataset") -> np.ndarray:
    """Heading [rad] of a reference body that stays level, at each sample: the angle about z, without jumps."""
    w, _, _, z = data.base_quaternion.values.T
    return np.unwrap(2 * np.arctan2(z, w))


JOURNEY_UNITS = {"x": "m", "y": "m", "heading": "rad", "path_length": "m", "constraint_residual": "m/s"}


def journey(data: "xr.Dataset") -> dict[str, float]:
    """Where a vehicle on the ground has come [m, rad], how long its way was [m], and how well its constraints held."""
    position, heading = data.base_position.values, yaw(data)
    return {
        "x": float(position[-1, 0] - position[0, 0]),
        "y": float(position[-1, 1] - position[0, 1]),
        "heading": float(heading[-1] - heading[0]),
        "path_length": float(np.linalg.norm(np.diff(position, axis=0), axis=1).sum()),
        "constraint_residual": float(data.constraint_residual.values.max()),
    }


def headings(data: "xr.Dataset", body: str, axis: int = 0, plane: tuple[int, int] = (0, 2)) -> np.ndarray:
    """Angle [rad] of an axis of a body in a plane of the world (from the first to the second direction), without jumps."""
    from scipy.spatial.transform import Rotation

    R = Rotation.from_quat(data.body_quaternion.sel(body=body).values, scalar_first=True).as_matrix()
    return np.unwrap(np.arctan2(R[:, plane[1], axis], R[:, plane[0], axis]))


def halt(t: np.ndarray, speed: np.ndarray) -> float:
    """When [s] what friction slows comes to rest: between two samples, at the deceleration before, if it does."""
    size = np.abs(speed)
    moving = np.flatnonzero(size > 1e-4 * size.max())
    last = moving[-1] if len(moving) else 0
    if last == len(t) - 1:
        return Undetermined("it is still moving at the end of the run")
    if last == 0:
        return float(t[0])
    return float(t[last] + size[last] * (t[last] - t[last - 1]) / (size[last - 1] - size[last]))
