"""Samples as a labelled dataset: names, dimensions, units."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undula.elements.observable import Observable
from undula.joints.rod.basis import COMPONENTS
from undula.model.system import System
from undula.record.sample import ContactSample, Sample

if TYPE_CHECKING:
    import xarray as xr

LABELS: dict[str, tuple[str, ...]] = {
    "axis": ("x", "y", "z"),
    "quat": ("w", "x", "y", "z"),
    "twist": ("vx", "vy", "vz", "wx", "wy", "wz"),
    "wrench": ("fx", "fy", "fz", "cx", "cy", "cz"),
    "strain": COMPONENTS,
}
OVER = "since the previous sample"

Variable = tuple[tuple[str, ...], Any, str, str]  # dimensions, values, unit, meaning


def to_dataset(
    system: System,
    samples: Sample,
    attributes: dict[str, Any],
    observables: tuple[Observable, ...] = (),
    shown: dict[str, Any] | None = None,
    classes: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    events: Sequence[Any] | None = None,
) -> "xr.Dataset":
    """The samples of a run as variables of the result file.

    - `shown`: values of the integrator's `observables`; `classes` (times,): index of the class in `class_legend`.
    - `mask` (times, rows): which rows were on; `events`: with `t`, `what`, `impulses` and `energy` each. None: there are none.
    """
    import xarray as xr

    variables = _motion(system, samples) | _balances(system, samples)
    for x in observables:
        if shown and x.name in shown:
            variables[x.name] = ("time", *x.dims), shown[x.name], x.unit, x.long_name
    coords: dict[str, Any] = {
        "time": ("time", np.asarray(samples.t), {"units": "s"}),
        "body": list(system.body_names),
        "coordinate": np.array(system.coordinate_names, dtype=str),
        "constraint": np.array(system.row_names, dtype=str),
    }
    if samples.contacts is not None:
        variables |= _contacts(samples.contacts)
        coords["contact"] = np.array(system.contact_names, dtype=str)
    if system.rods:
        variables |= _rods(system, samples)
        coords["rod"] = np.array(system.labels.rods, dtype=str)
    if classes is not None:
        variables["class_index"] = (
            ("time",),
            classes,
            "1",
            "class of the system, an index into the attribute class_legend",
        )
        attributes = attributes | {"class_legend": json.dumps(attributes["class_legend"])}
    if mask is not None:
        missing = np.ones((len(mask), len(system.row_names) - mask.shape[1]))
        on = np.concatenate([np.asarray(mask), missing], axis=1)
        variables["constraint_active"] = (
            ("time", "constraint"),
            on,
            "1",
            "1 for rows that are on, 0 for those that are off",
        )
    if events is not None:
        variables |= _events(system, events)
        coords["event"] = np.array([e.what for e in events], dtype=str)
    found, families = _elements(system, samples)
    variables |= found
    coords |= families
    used = {d for dims, *_ in variables.values() for d in dims}
    coords |= {d: list(LABELS[d]) for d in LABELS if d in used or d != "strain"}
    return xr.Dataset(
        {name: (dims, np.asarray(x), {"units": u, "long_name": d}) for name, (dims, x, u, d) in variables.items()},
        coords=coords,
        attrs=attributes,
    ).assign(_of_coordinates(system))


def _events(system: System, events: Sequence[Any]) -> dict[str, Variable]:
    """Switches of rows, and the end of the run by its condition."""
    impulses = np.zeros((len(events), len(system.row_names)))
    for k, e in enumerate(events):
        impulses[k, : len(e.impulses)] = e.impulses
    words = "impulse of each row at each event: the least that the new rows ask for"
    return {
        "event_time": (("event",), np.array([e.t for e in events], dtype=float), "s", "instant of each event"),
        "event_impulse": (("event", "constraint"), impulses, "N s or N m s", words),
        "event_energy": (
            ("event",),
            np.array([e.energy for e in events], dtype=float),
            "J",
            "change of the stored energy by it",
        ),
        "event_loss": (
            ("event",),
            np.array([e.lost for e in events], dtype=float),
            "J",
            "energy lost at the rows: half the impulse times the velocity that it stops",
        ),
    }


def _of_coordinates(system: System) -> dict[str, Any]:
    """Role and units of the coordinates."""
    labels = system.labels
    words = {
        "role": (system.topology.roles, "role of each coordinate"),
        "unit": (labels.units, "unit of each coordinate"),
        "effort_unit": (labels.effort_units, "unit of the effort at each coordinate"),
    }
    return {n: (("coordinate",), np.array(x, dtype=str), {"long_name": d}) for n, (x, d) in words.items()}


def _motion(system: System, s: Sample) -> dict[str, Variable]:
    """The motion of the base, the coordinates and the bodies."""
    base, units = s.state.base, system.labels.units
    return {
        "base_position": (("time", "axis"), base.position, "m", "position of the reference body in the world"),
        "base_quaternion": (("time", "quat"), base.quaternion, "1", "attitude of the reference body in the world"),
        "base_twist": (("time", "twist"), s.state.base_twist, "m/s, rad/s", "body twist of the reference body"),
        "base_acceleration": (
            ("time", "twist"),
            s.acceleration.base,
            "m/s^2, rad/s^2",
            "derivatives of its components",
        ),
        "position": (("time", "coordinate"), s.position, _either(units) or "rad or m", "internal coordinates"),
        "velocity": (("time", "coordinate"), s.state.v, "per s", "internal velocities"),
        "acceleration": (("time", "coordinate"), s.acceleration.v, "per s^2", "internal accelerations"),
        "body_position": (("time", "body", "axis"), s.bodies.position, "m", "position of each body in the world"),
        "body_quaternion": (("time", "body", "quat"), s.bodies.quaternion, "1", "attitude of each body in the world"),
        "mass_centre": (("time", "axis"), s.mass_centre, "m", "centre of mass of the whole system in the world"),
    }


def _balances(system: System, s: Sample) -> dict[str, Variable]:
    """Efforts, reactions, energies and powers."""
    limited = system.choice is not None and system.choice.G is not None
    excess = {"reaction_excess": (("time",), s.excess, "N or N m", "largest violation of a limit on the reactions")}
    powers = "power of dampers and surroundings; for contacts, the mean since the previous sample"
    momentum = "momentum of the whole system: linear, and angular about the world's origin, in the world's axes"
    return {
        "base_wrench": (("time", "wrench"), s.base_wrench, "N, N m", "wrench of the world on the reference body"),
        "effort": (
            ("time", "coordinate"),
            s.efforts,
            _either(system.labels.effort_units) or "N m or N",
            "effort that the actuator of each coordinate supplies",
        ),
        "reaction": (("time", "constraint"), s.reactions, "N or N m", "multiplier of each row of the constraints"),
        "constraint_residual": (("time",), s.residual, "mixed", "largest violation of a constraint"),
        "constraint_rank": (("time",), s.rank, "1", "rank of the rows over the unknown velocities"),
        "momentum": (("time", "twist"), s.momentum, "kg m/s, kg m^2/s", momentum),
        "energy_kinetic": (("time",), s.energy_kinetic, "J", "kinetic energy"),
        "energy_potential": (("time",), s.energy_potential, "J", "energy of gravity, springs and other force models"),
        "power_actuators": (("time",), s.power_actuators, "W", "power of all actuators"),
        "power_external": (("time",), s.power_external, "W", powers),
    } | (excess if limited else {})


def _either(units: tuple[str, ...]) -> str:
    """The units that occur, in words."""
    *first, last = dict.fromkeys(units) or ("",)
    return f"{', '.join(first)} or {last}" if first else last


def _contacts(contacts: ContactSample) -> dict[str, Variable]:
    """Variables of the contacts."""
    each, on_body = ("time", "contact"), "of each contact on its body, in the world"
    impacts = np.asarray(contacts.impacts).astype(int)
    return {
        "contact_force": (
            (*each, "axis"),
            contacts.force,
            "N",
            f"force {on_body}, over the step that ends at each sample",
        ),
        "contact_impulse": ((*each, "axis"), contacts.impulse, "N s", f"impulse {on_body}, {OVER}"),
        "contact_force_mean": ((*each, "axis"), contacts.mean_force, "N", f"mean force {on_body}, {OVER}"),
        "contact_impacts": (each, impacts, "1", f"impacts of each contact {OVER}"),
        "contact_gap": (each, contacts.gap, "m", "gap of each contact"),
        "contact_slips": (each, np.asarray(contacts.slips).astype(int), "1", "1 for closed contacts that slip"),
    }


def _rods(system: System, s: Sample) -> dict[str, Variable]:
    """Fields along the rods; rods with fewer sections than others are padded with NaN."""
    members = sorted((rod, g, m) for g, group in enumerate(system.rods) for m, rod in enumerate(group.rods))
    largest = max(group.abscissae.shape[1] for group in system.rods)

    def padded(x):
        x = np.asarray(x)
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, largest - x.shape[-2]), (0, 0)], constant_values=np.nan)

    places = np.stack([padded(np.asarray(system.rods[g].abscissae)[m][:, None])[:, 0] for _, g, m in members])
    words = {
        "position": ("axis", "m", "position of each section in the world"),
        "strain": ("strain", "1, 1/m", "strain (Gx, Gy, Gz, Kx, Ky, Kz) of each section"),
        "stress": ("wrench", "N, N m", "internal wrench at each section, in its frame, positive as a tension"),
    }
    out: dict[str, Variable] = {
        "rod_abscissa": (
            ("rod", "section"),
            places,
            "m",
            "material abscissa of each section: the root and the nodes",
        )
    }
    for field, (last, unit, meaning) in words.items():
        values = np.stack([padded(getattr(s.rods[g], field)[:, m]) for _, g, m in members], axis=1)
        out[f"rod_{field}"] = ("time", "rod", "section", last), values, unit, meaning
    return out


def _elements(system: System, s: Sample) -> tuple[dict[str, Variable], dict[str, Any]]:
    """Observed values of elements, joined by family; values that a member of a family lacks are NaN."""
    families: dict[str, list[str]] = {}
    parts: dict[str, list[tuple[list[int], dict[str, Any], Any]]] = {}
    for group, (family, names), values in zip(system.groups, system.labels.elements, s.elements):
        if not values:
            continue
        values = _with_integrals(group.form.observables, s.t, values)
        known = families.setdefault(family, [])
        at = list(range(len(known), len(known) + len(names)))
        known += names
        parts.setdefault(family, []).append((at, values, group.form))
    out: dict[str, Variable] = {}
    for family, members in parts.items():
        for key in dict.fromkeys(k for _, values, _ in members for k in values):
            dims, unit, meaning = _described(family, key, members)
            shapes = [np.shape(values[key])[2:] for _, values, _ in members if key in values]
            whole = np.full((len(s.t), len(families[family]), *np.max(shapes, axis=0).astype(int)), np.nan)
            for at, values, _ in members:
                if key in values:
                    x = np.asarray(values[key])
                    index: Any = (slice(None), at, *(slice(n) for n in x.shape[2:]))
                    whole[index] = x
            out[f"{family}_{key}"] = ("time", family, *dims), whole, unit, meaning
    return out, {f: np.array(names, dtype=str) for f, names in families.items()}


def _with_integrals(observables: tuple[Observable, ...], t: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The observed values of a group, with those integrals that its elements leave to the run."""
    own = {x.name: antiderivative(t, values[x.integral]) for x in observables if x.integral and x.name not in values}
    return own | values


def integrates(system: System) -> bool:
    """Whether results contain integrals over time since the first sample."""
    return any(x.integral for group in system.groups for x in group.form.observables)


def antiderivative(t: Any, rate: Any) -> np.ndarray:
    """The integral of sampled values (times, ...) from the first sample on, through a cubic spline.

    Its error decreases with the fourth power of the sample spacing. From a value that is not finite on, it is NaN. Where two
    samples are of one instant, before and after a jump, the spline begins anew.
    """
    from scipy.interpolate import CubicSpline

    t, rate = np.asarray(t), np.asarray(rate)
    out = np.full(rate.shape, np.nan)
    good = np.isfinite(rate.reshape(len(t), -1)).all(1)
    n = len(t) if good.all() else int(np.argmin(good))
    ends = [*(np.flatnonzero(np.diff(t[:n]) <= 0) + 1), n]
    total = np.zeros(rate.shape[1:])
    for a, b in zip([0, *ends], ends):
        if b - a > 1:
            out[a:b] = total + CubicSpline(t[a:b], rate[a:b]).antiderivative()(t[a:b])
        elif b > a:
            out[a] = total
        if b > a:
            total = out[b - 1]
    return out


def _described(family: str, key: str, members: list[Any]) -> tuple[tuple[str, ...], str, str]:
    """Further dimensions, unit and meaning of an observed value of a family of elements."""
    for _, values, form in members:
        for x in form.observables:
            if x.name == key and key in values:
                return x.dims, x.unit, x.long_name
    rank = next(np.ndim(values[key]) for _, values, _ in members if key in values) - 2
    words = family.replace("_", " ")
    if key.endswith("wrench"):
        name = key.removesuffix("wrench").strip("_")
        several = (f"{family}_site",) * (rank - 1)
        return (
            (*several, "wrench"),
            "N, N m",
            f"wrench {name + ' ' if name else ''}of each {words} at its site, in its frame",
        )
    if key == "power":
        return (), "W", f"power of each {words}"
    return tuple(f"{family}_{key}_{k + 1}" for k in range(rank)), "mixed", f"internal state of each {words}"
