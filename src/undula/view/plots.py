"""Standard figures of a run, as PNG files.

matplotlib is imported when a figure is made, and only through its objects, so the caller's backend is unchanged.
"""

import io
import json
import os
import textwrap
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from undula.core.errors import OutputError, a_dataset, a_path
from undula.model.labels import EFFORT_UNITS
from undula.record.netcdf import reason, replacing, write_bytes
from undula.view import shapes
from undula.view.checked import check_poses, check_signals
from undula.view.families import family_figures
from undula.view.panels import (
    AROUND,
    AXES,
    GREY,
    INK,
    MOST_LINES,
    STYLE,
    by_unit,
    coordinate_panels,
    draw_lines,
    map_axes,
    panels_over_time,
    time_bar,
    time_colours,
)

STICKS = 8  # instants of the stick figure


def write_figures(data: xr.Dataset, folder: str | os.PathLike) -> list[Path]:
    """Writes the standard figures of a run into a folder (created if needed) and returns their paths.

    - `motion.png`: position, attitude and twist of the base, those components that move; none for a fixed base.
    - `path.png`: the path of the base, stick figures at some instants and the surroundings, in the plane of largest extent.
    - `coordinates.png`: internal coordinates and velocities; none without them.
    - `efforts.png`: nonzero efforts, and nonzero components of the wrench on the base.
    - `classes.png`: the class of the system over time, if it changes, and the events.
    - `energy.png`: the energies, and their rate compared with the power of actuators and surroundings.
    - one figure per family of elements, with its name: the recorded values; among them `constraint.png` and `contact.png`.

    A run without samples has no figures. Either all figures are written or, if one cannot be, none.
    """
    a_dataset(data, "data")
    a_path(folder, "folder")
    import matplotlib as mpl

    draw = {
        "motion": _motion,
        "path": _path,
        "coordinates": _coordinates,
        "efforts": _efforts,
        "classes": _classes,
        "energy": _energy,
    }
    pictures = {}
    check_poses(data)
    check_signals(data)
    with mpl.rc_context(STYLE):
        made = {name: make(data) for name, make in draw.items()} | family_figures(data) if data.sizes["time"] else {}
        for name, figure in made.items():
            if figure is not None:
                pictures[f"{name}.png"] = io.BytesIO()
                figure.savefig(pictures[f"{name}.png"], format="png")
    return _write_all(pictures, Path(folder))


def _write_all(pictures: dict[str, io.BytesIO], folder: Path) -> list[Path]:
    """Writes all pictures to temporary files before the first is moved into place; on failure, new folders are removed."""
    made = [p for p in (folder, *folder.absolute().parents) if not p.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            for name, picture in pictures.items():
                write_bytes(stack.enter_context(replacing(folder / name)), picture.getbuffer())
    except (OSError, OutputError) as problem:
        for path in made:
            with suppress(OSError):
                path.rmdir()
        if isinstance(problem, OSError):
            raise OutputError(f"cannot write figures into {folder}: {reason(problem)}.") from None
        raise
    return [folder / name for name in pictures]


# The figures. Each function returns a figure, or None if there is nothing to see.


_AXIS_COLOURS = dict(zip("xyz", AXES))


def _motion(data: xr.Dataset) -> Any:
    t, position = data["time"].values, shapes.tidy(data["base_position"].values)
    turned, names, label = shapes.attitude(data["base_quaternion"].values)
    twist = shapes.tidy(data["base_twist"].values)
    low, high = shapes.bounds(data)
    groups = [
        ("position [m]", position, list("xyz"), shapes.moving(position, float(np.max(high - low)))),
        (label, turned, names, np.full(len(names), shapes.moving(turned, 1.0).any())),
        ("velocity [m/s]", twist[:, :3], ["vx", "vy", "vz"], shapes.present(twist[:, :3])),
        ("angular velocity\n[rad/s]", twist[:, 3:], ["ωx", "ωy", "ωz"], shapes.present(twist[:, 3:])),
    ]
    shown = [g for g in groups if g[3].any()]
    if not shown:
        return None
    figure, axes = panels_over_time(data, "net motion of the base", len(shown))
    for ax, (label, x, names, mask) in zip(axes, shown):
        lines = [(x[:, k], names[k], {"color": _AXIS_COLOURS.get(names[k][-1], INK)}) for k in np.flatnonzero(mask)]
        draw_lines(ax, t, lines, label)
    return figure


def _path(data: xr.Dataset) -> Any:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Polygon

    lines, origins = shapes.sticks(data)
    base, t = data["base_position"].values, data["time"].values
    cloud = np.concatenate([origins.reshape(-1, 3), lines.reshape(-1, 3)])
    i, j = shapes.view_plane(cloud)
    low, high = cloud.min(0), cloud.max(0)
    size = float((high - low).max())
    size = 1.0 if size < shapes.ZERO else size  # everything in one point: axes of a readable size
    figure, ax = map_axes(data, np.maximum((high - low)[[i, j]] / size, 0.1))
    norm, colour = time_colours(t)
    for shape in shapes.surroundings(data):
        edge, line = shapes.outline(shape, i, j), shape["kind"] == "relief"
        if len(edge):  # an artist, so that the limits stay those of the robot
            ax.add_artist(Polygon(edge, closed=not line, fill=not line, color=AROUND, lw=2 * line, zorder=0))
    moves = bool(shapes.moving(base, size).any())
    if moves:
        ax.plot(base[:, i], base[:, j], color=GREY, lw=1.2, zorder=1, label="path of the base")
    for k in shapes.instants(t, STICKS):
        c = colour(norm(t[k]))
        ax.add_collection(
            LineCollection(lines[k][:, :, [i, j]], colors=[c], linewidths=2.2, capstyle="round", zorder=2)
        )
        ax.plot(*origins[k][1:, [i, j]].T, "o", ms=3.2, mfc="white", mec=c, mew=1, zorder=3)
        ax.plot(*origins[k][0, [i, j]], "s", ms=5, color=c, zorder=4)
    ax.plot([], [], "s", ms=5, color=GREY, label="base")
    half = 0.54 * np.maximum(high - low, 0.1 * size)
    for k, limit, name in ((i, ax.set_xlim, ax.set_xlabel), (j, ax.set_ylim, ax.set_ylabel)):
        limit((low[k] + high[k]) / 2 - half[k], (low[k] + high[k]) / 2 + half[k], auto=True)  # free to widen
        name(f"{'xyz'[k]} [m]")
    ax.legend(loc="upper right", bbox_to_anchor=(1, -0.7 / figure.get_figheight()), ncols=2, borderaxespad=0)
    if len(t) > 1:
        time_bar(figure, ax, norm, colour)
    return figure


def _coordinates(data: xr.Dataset) -> Any:
    parts = by_unit(data, np.ones(data.sizes["coordinate"], bool))
    rates = (("coordinates", "position", ""), ("velocities", "velocity", "/s"))
    panels = [(f"{what} [{unit}{per}]", name, which) for unit, which in parts for what, name, per in rates]
    return coordinate_panels(data, "internal coordinates", panels)[0] if panels else None


def _efforts(data: xr.Dataset) -> Any:
    effort = shapes.tidy(data["effort"].values)
    wrench = shapes.tidy(data["base_wrench"].values if "base_wrench" in data else np.zeros((len(effort), 6)))
    acting = shapes.present(effort) if effort.size else np.zeros(0, bool)
    parts = by_unit(data, acting | (acting.sum() > MOST_LINES))
    panels = [(f"efforts [{EFFORT_UNITS.get(unit, 'N m or N')}]", "effort", which) for unit, which in parts]
    base = [("force on the base\n[N]", slice(0, 3), "f"), ("couple on the base\n[N m]", slice(3, 6), "c")]
    base = [b for b in base if shapes.present(wrench)[b[1]].any()]
    if not panels and not base:
        return None
    figure, axes = coordinate_panels(data, "efforts" if panels else "wrench on the base", panels, len(base))
    for ax, (label, part, letter) in zip(axes[len(panels) :], base):
        x = wrench[:, part]
        lines = [(x[:, k], letter + a, {"color": AXES[k]}) for k, a in enumerate("xyz") if shapes.present(x)[k]]
        draw_lines(ax, data["time"].values, lines, label)
    return figure


def _classes(data: xr.Dataset) -> Any:
    legend = json.loads(data.attrs.get("class_legend", "[]"))
    if "class_index" not in data or (len(legend) < 2 and not data.sizes.get("event", 0)):
        return None
    t, index = data["time"].values, data["class_index"].values
    figure, (ax,) = panels_over_time(data, "class of the system", 1, height=1.0 + 0.35 * len(legend))
    ax.step(t, index, where="post", color=INK, lw=1.6)
    ax.set_yticks(range(len(legend)), [textwrap.fill(x, 44) for x in legend], fontsize=7)
    ax.set_ylim(-0.5, len(legend) - 0.5)
    events = zip(data["event_time"].values, data["event"].values) if "event_time" in data else ()
    for when, what in events:
        ax.axvline(when, color=AXES[1], lw=0.8, ls=":")
        if data.sizes["event"] <= MOST_LINES:
            ax.annotate(
                str(what), (when, 0.5), xycoords=("data", "axes fraction"), xytext=(3, 0), rotation=90, va="center",
                textcoords="offset points", fontsize=6, color=AXES[1],
            )  # fmt: skip
    return figure


def _energy(data: xr.Dataset) -> Any:
    t = data["time"].values
    kinetic, potential = (
        shapes.tidy(data["energy_kinetic"].values),
        shapes.tidy(data["energy_potential"].values),
    )
    total = kinetic + potential
    figure, axes = panels_over_time(data, "energy", 2, height=2.3)
    energies = [(kinetic, "kinetic", {"color": AXES[0]}), (potential, "potential", {"color": AXES[1]})]
    draw_lines(axes[0], t, [*energies, (total, "total", {"color": INK, "ls": "--"})], "energy [J]")
    supplied = np.stack([shapes.tidy(data[n].values) for n in ("power_actuators", "power_external")], 1)
    names = np.array(["actuators", "surroundings"])[shapes.present(supplied)]
    # energy jumps at impacts: with contacts, powers are means since the previous sample, and so is the rate
    rate = shapes.mean_rate(t, total) if "contact_impulse" in data else shapes.energy_rate(t, total)
    lines = [(rate, "dE/dt of the total", {"color": "#BBBBBB", "lw": 4.5})]
    if len(names) == 2:
        lines += [(x, n, {"color": c}) for x, n, c in zip(supplied.T, names, AXES[2:])]
    label = names[0] if len(names) == 1 else "sum" if len(names) else "supplied"
    lines.append((supplied.sum(1), label, {"color": INK, "ls": "--"}))
    exchanged = float(np.nan_to_num(np.abs(shapes.energy_rate(t, kinetic))).max())  # with the potential energy
    slow = 1e-6 * float(np.abs(total).max()) / max(float(t[-1] - t[0]), shapes.ZERO) if len(t) > 1 else 0.0
    draw_lines(axes[1], t, lines, "power [W]", floor=max(1e-3 * exchanged, slow))
    return figure
