"""Attributes of a result: its scenario, its origin, and the drawing data for viewers."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from undula.contact.carried import surroundings
from undula.core.version import __version__
from undula.model.system import System

if TYPE_CHECKING:
    import xarray as xr


def attributes_of(
    system: System, positions: np.ndarray, dt: float, integrator: str, status: str, message: str
) -> dict[str, Any]:
    """The attributes of a run; `positions` (times, bodies, 3) [m] of the bodies, for drawing the surroundings."""
    return dict(
        scenario=system.name,
        parameters="{}",  # overwritten by gallery entries
        integrator=integrator,
        dt=dt,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        device=jax.devices()[0].device_kind,
        dtype="float64",
        undula_version=__version__,
        status=status,
        message=message,
        shapes=json.dumps([[asdict(shape) for shape in shapes] for shapes in system.labels.shapes]),
        parents=json.dumps([-1, *system.topology.parents]),
        surroundings=json.dumps(surroundings(system, positions)),
    )


def class_names(data: "xr.Dataset") -> np.ndarray:
    """The class of the system at each sample of a run, in words: (times,), e.g. "under-constrained"."""
    legend = np.array([x.split(",")[0] for x in json.loads(data.attrs["class_legend"])])
    return legend[data.class_index.values]
