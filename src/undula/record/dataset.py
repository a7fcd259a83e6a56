"""Samples as a labelled dataset: names, dimensions, units."""

from typing import TYPE_CHECKING, Any

import numpy as np

from undula.contact.record import ContactMemory
from undula.integrate.loop import ContactSample, Sample
from undula.joints.rod.basis import COMPONENTS
from undula.model.system import System

if TYPE_CHECKING:
    import xarray as xr

AXIS = ("x", "y", "z")
QUAT = ("w", "x", "y", "z")
TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
WRENCH = ("fx", "fy", "fz", "cx", "cy", "cz")


def to_dataset(system: System, samples: Sample, attributes: dict[str, Any], noted: Any = ()) -> "xr.Dataset":
    """The samples of a run, in the variables of the result file; `noted`: what the integrator remembered at each."""
    import xarray as xr

    s, top = samples, system.topology
    variables: dict[str, tuple[tuple[str, ...], Any, str, str]] = {
        "base_position": (
            ("time", "axis"),
            s.state.base.position,
            "m",
            "position of the reference body in the world",
        ),
        "base_quaternion": (
            ("time", "quat"),
            s.state.base.quaternion,
            "1",
            "attitude of the reference body in the world",
        ),
        "base_twist": (
            ("time", "twist"),
            s.state.base_twist,
            "m/s, rad/s",
            "body twist of the reference body",
        ),
        "base_acceleration": (
            ("time", "twist"),
            s.acceleration.base,
            "m/s^2, rad/s^2",
            "derivatives of its components",
        ),
        "base_wrench": (
            ("time", "wrench"),
            s.base_wrench,
            "N, N m",
            "wrench of the world on the reference body",
        ),
        "position": (("time", "coordinate"), s.position, _either(top.units) or "rad or m", "internal coordinates"),
        "velocity": (("time", "coordinate"), s.state.v, "per s", "internal velocities"),
        "acceleration": (
            ("time", "coordinate"),
            s.acceleration.v,
            "per s^2",
            "internal accelerations",
        ),
        "effort": (
            ("time", "coordinate"),
            s.efforts,
            _either(top.effort_units) or "N m or N",
            "effort that the actuator of each coordinate supplies",
        ),
        "body_position": (
            ("time", "body", "axis"),
            s.bodies.position,
            "m",
            "position of each body in the world",
        ),
        "body_quaternion": (
            ("time", "body", "quat"),
            s.bodies.quaternion,
            "1",
            "attitude of each body in the world",
        ),
        "reaction": (("time", "constraint"), s.reactions, "N or N m", "multiplier of each row of the constraints"),
        "constraint_residual": (("time",), s.residual, "mixed", "largest violation of a constraint"),
        "constraint_rank": (("time",), s.rank, "1", "rank of the rows over the unknown velocities"),
        "energy_kinetic": (("time",), s.energy_kinetic, "J", "kinetic energy"),
        "energy_potential": (("time",), s.energy_potential, "J", "energy of gravity and springs"),
        "power_actuators": (("time",), s.power_actuators, "W", "power of all the actuators"),
        "power_external": (
            ("time",),
            s.power_external,
            "W",
            "power of dampers and surroundings; of contacts, the mean since the sample before",
        ),
    }
    if noted:
        iterations = noted.iterations if isinstance(noted, ContactMemory) else noted[0]
        variables["iterations"] = (("time",), iterations, "1", "iterations of the step that ends at each sample")
    if s.contacts is not None:
        variables |= _contacts(s.contacts, noted)
    data = xr.Dataset(
        {name: (dims, np.asarray(x), {"units": u, "long_name": d}) for name, (dims, x, u, d) in variables.items()},
        coords={
            "time": ("time", np.asarray(s.t), {"units": "s"}),
            "axis": list(AXIS),
            "quat": list(QUAT),
            "twist": list(TWIST),
            "wrench": list(WRENCH),
            "body": list(system.body_names),
            "coordinate": np.array(system.coordinate_names, dtype=str),
            "constraint": np.array(system.row_names, dtype=str),
        }
        | ({"contact": np.array(system.contact_names, dtype=str)} if system.contacts else {}),
        attrs=attributes,
    )
    data["role"] = (
        ("coordinate",),
        np.array(system.topology.roles, dtype=str),
        {"long_name": "role of each coordinate"},
    )
    if system.rods:
        _add_rods(data, system, s.rods)
    if system.along:
        names = np.array([a.name for a in system.along], dtype=str)
        data = data.assign_coords(actuator=names)
        sizes, measures = (np.asarray(x) for x in s.along)
        data["intensity"] = (
            ("time", "actuator"),
            sizes,
            {"units": "N or Pa", "long_name": "tension of each tendon, pressure of each chamber"},
        )
        data["measure"] = (
            ("time", "actuator"),
            measures,
            {"units": "m or m^3", "long_name": "length of each tendon inside its rod, volume of each chamber"},
        )
    data["unit"] = (
        ("coordinate",),
        np.array(system.topology.units, dtype=str),
        {"long_name": "unit of each coordinate"},
    )
    data["effort_unit"] = (
        ("coordinate",),
        np.array(top.effort_units, dtype=str),
        {"long_name": "unit of the effort at each coordinate"},
    )
    return data


def _either(units: tuple[str, ...]) -> str:
    """The units that occur, as words."""
    *first, last = dict.fromkeys(units) or ("",)
    return f"{', '.join(first)} or {last}" if first else last


def _contacts(contacts: ContactSample, noted: ContactMemory) -> dict[str, tuple[tuple[str, ...], Any, str, str]]:
    """Variables of the contacts, and of their solution."""
    over = "since the sample before"
    return {
        "contact_force": (
            ("time", "contact", "axis"),
            contacts.force,
            "N",
            "force of each contact on its body, in the world, over the step that ends at each sample",
        ),
        "contact_impulse": (
            ("time", "contact", "axis"),
            contacts.impulse,
            "N s",
            f"impulse of each contact on its body, in the world, {over}",
        ),
        "contact_force_mean": (
            ("time", "contact", "axis"),
            contacts.mean_force,
            "N",
            f"mean force of each contact on its body, in the world, {over}",
        ),
        "contact_impacts": (
            ("time", "contact"),
            np.asarray(contacts.impacts).astype(int),
            "1",
            f"impacts of each contact {over}",
        ),
        "contact_gap": (("time", "contact"), contacts.gap, "m", "gap of each contact"),
        "contacts_closed": (
            ("time",),
            noted.closed,
            "1",
            "number of closed contacts in the step that ends at each sample",
        ),
        "contact_residual": (
            ("time",),
            noted.since.worst[:, 0],
            "1",
            f"largest residual of the laws, relative, {over}",
        ),
        "contact_penetration": (("time",), noted.since.worst[:, 1], "m", f"largest penetration {over}"),
        "contact_closings": (("time",), noted.since.closings, "1", f"sum of the closed contacts over the steps {over}"),
    }


def _add_rods(data: "xr.Dataset", system: System, groups: Any) -> None:
    """Fields along the rods; rods with fewer sections than others are filled with NaN."""
    names = {min(links): name for name, links in system.rod_links.items()}
    members = sorted((links[0], g, m) for g, group in enumerate(system.rods) for m, links in enumerate(group.links))
    most = max(group.abscissae.shape[1] for group in system.rods)

    def padded(x):
        x = np.asarray(x)
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, most - x.shape[-2]), (0, 0)], constant_values=np.nan)

    data["rod_abscissa"] = (
        ("rod", "section"),
        np.stack([padded(np.asarray(system.rods[g].abscissae)[m][:, None])[:, 0] for _, g, m in members]),
        {"units": "m", "long_name": "material abscissa of each section: the root and the nodes"},
    )
    words = {
        "position": ("axis", "m", "position of each section in the world"),
        "strain": ("strain", "1, 1/m", "strain (Gx, Gy, Gz, Kx, Ky, Kz) of each section"),
        "stress": ("wrench", "N, N m", "internal wrench at each section, in its frame, in the convention of a tension"),
    }
    for field, (last, unit, meaning) in words.items():
        values = np.stack([padded(getattr(groups[g], field)[:, m]) for _, g, m in members], axis=1)
        data[f"rod_{field}"] = (("time", "rod", "section", last), values, {"units": unit, "long_name": meaning})
    data.coords["rod"] = np.array([names[first] for first, _, _ in members], dtype=str)
    data.coords["strain"] = list(COMPONENTS)
