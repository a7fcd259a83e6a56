"""Standard figures of a run, as PNG files.

matplotlib is imported when a figure is made, and only its objects are used: the caller's backend stays.
"""

import io
import os
import textwrap
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from undula.core.errors import OutputError
from undula.model.topology import EFFORT_UNITS
from undula.record.netcdf import reason, replacing, write_bytes
from undula.view import shapes
from undula.view.checked import check_poses, check_signals

MOST_LINES = 12  # coordinates that can still be told apart as lines
STICKS = 8  # instants of the stick figure
AXES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito: safe for colour-blind readers
INK, GREY, AROUND = "#222222", "#777777", "#D9D2C5"
FAMILIES = {"driven": "Oranges", "free": "Blues", "forced": "Purples"}
STYLE = {
    "font.size": 9.5,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-3, 4),
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.usetex": False,
    "text.parse_math": False,  # names may contain a dollar sign
    "savefig.dpi": 160,
}


def write_figures(data: xr.Dataset, folder: str | os.PathLike) -> list[Path]:
    """Writes the standard figures of a run into a folder (made if needed) and returns their paths.

    - `motion.png`: position, attitude and twist of the base, what moves of it; none for a fixed base.
    - `path.png`: the path of the base, stick figures at some instants and what could be touched, where most happens.
    - `coordinates.png`: internal coordinates and velocities; none without them.
    - `efforts.png`: efforts and the wrench on the base, what is not zero of them.
    - `energy.png`: the energies, and their rate against the power of actuators and surroundings.

    A run without samples has no figures. All of them are written or, if one cannot be, none.
    """
    import matplotlib as mpl

    draw = {
        "motion": _motion,
        "path": _path,
        "coordinates": _coordinates,
        "efforts": _efforts,
        "energy": _energy,
    }
    pictures = {}
    check_poses(data)
    check_signals(data)
    with mpl.rc_context(STYLE):
        for name, make in draw.items() if data.sizes["time"] else ():
            figure = make(data)
            if figure is not None:
                pictures[f"{name}.png"] = io.BytesIO()
                figure.savefig(pictures[f"{name}.png"], format="png")
    return _write_all(pictures, Path(folder))


def _write_all(pictures: dict[str, io.BytesIO], folder: Path) -> list[Path]:
    """Writes every picture beside its place before the first takes it; a folder that was made for nothing goes."""
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


# The figures. Each function returns a figure, or nothing if there is nothing to see.


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
    figure, axes = _panels(data, "net motion of the base", len(shown))
    for ax, (label, x, names, mask) in zip(axes, shown):
        lines = [(x[:, k], names[k], {"color": _AXIS_COLOURS.get(names[k][-1], INK)}) for k in np.flatnonzero(mask)]
        _lines(ax, t, lines, label)
    return figure


def _path(data: xr.Dataset) -> Any:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Polygon

    lines, origins = shapes.sticks(data)
    base, t = data["base_position"].values, data["time"].values
    cloud = np.concatenate([origins.reshape(-1, 3), lines.reshape(-1, 3)])
    i, j = shapes.view_plane(cloud)
    low, high = cloud.min(0), cloud.max(0)
    size = max(float((high - low).max()), shapes.ZERO)
    figure, ax = _map_axes(data, np.maximum((high - low)[[i, j]] / size, 0.1))
    norm, colour = _time_colours(t)
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
        _time_bar(figure, ax, norm, colour)
    return figure


def _coordinates(data: xr.Dataset) -> Any:
    parts = _by_unit(data, np.ones(data.sizes["coordinate"], bool))
    rates = (("coordinates", "position", ""), ("velocities", "velocity", "/s"))
    panels = [(f"{what} [{unit}{per}]", name, which) for unit, which in parts for what, name, per in rates]
    return _coordinate_panels(data, "internal coordinates", panels)[0] if panels else None


def _efforts(data: xr.Dataset) -> Any:
    effort = shapes.tidy(data["effort"].values)
    wrench = shapes.tidy(data["base_wrench"].values if "base_wrench" in data else np.zeros((len(effort), 6)))
    acting = shapes.present(effort) if effort.size else np.zeros(0, bool)
    parts = _by_unit(data, acting | (acting.sum() > MOST_LINES))
    panels = [(f"efforts [{EFFORT_UNITS.get(unit, 'N m or N')}]", "effort", which) for unit, which in parts]
    base = [("force on the base\n[N]", slice(0, 3), "f"), ("couple on the base\n[N m]", slice(3, 6), "c")]
    base = [b for b in base if shapes.present(wrench)[b[1]].any()]
    if not panels and not base:
        return None
    figure, axes = _coordinate_panels(data, "efforts" if panels else "wrench on the base", panels, len(base))
    for ax, (label, part, letter) in zip(axes[len(panels) :], base):
        x = wrench[:, part]
        lines = [(x[:, k], letter + a, {"color": AXES[k]}) for k, a in enumerate("xyz") if shapes.present(x)[k]]
        _lines(ax, data["time"].values, lines, label)
    return figure


def _energy(data: xr.Dataset) -> Any:
    t = data["time"].values
    kinetic, potential = (
        shapes.tidy(data["energy_kinetic"].values),
        shapes.tidy(data["energy_potential"].values),
    )
    total = kinetic + potential
    figure, axes = _panels(data, "energy", 2, height=2.3)
    energies = [(kinetic, "kinetic", {"color": AXES[0]}), (potential, "potential", {"color": AXES[1]})]
    _lines(axes[0], t, [*energies, (total, "total", {"color": INK, "ls": "--"})], "energy [J]")
    supplied = np.stack([shapes.tidy(data[n].values) for n in ("power_actuators", "power_external")], 1)
    names = np.array(["actuators", "surroundings"])[shapes.present(supplied)]
    # impacts make it jump: with contacts, powers are means since the sample before, and so is the rate
    rate = shapes.mean_rate(t, total) if "contact_impulse" in data else shapes.energy_rate(t, total)
    lines = [(rate, "dE/dt of the total", {"color": "#BBBBBB", "lw": 4.5})]
    if len(names) == 2:
        lines += [(x, n, {"color": c}) for x, n, c in zip(supplied.T, names, AXES[2:])]
    label = names[0] if len(names) == 1 else "sum" if len(names) else "supplied"
    lines.append((supplied.sum(1), label, {"color": INK, "ls": "--"}))
    exchanged = float(np.nan_to_num(np.abs(shapes.energy_rate(t, kinetic))).max())  # with the potential one
    slow = 1e-6 * float(np.abs(total).max()) / max(float(t[-1] - t[0]), shapes.ZERO) if len(t) > 1 else 0.0
    _lines(axes[1], t, lines, "power [W]", floor=max(1e-3 * exchanged, slow))
    return figure


# Pieces of figures.


def _panels(data: xr.Dataset, what: str, count: int, height: float = 1.75, heights: Any = None) -> tuple[Any, list]:
    """A figure with panels over time, one above the other; `height` of each [inch], or `heights`."""
    from matplotlib.figure import Figure

    heights = [height] * count if heights is None else heights
    figure = Figure(figsize=(7.5, sum(heights) + 1.1), layout=_layout())
    axes = figure.subplots(count, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    _title(figure, axes[0], data, what)
    t = data["time"].values
    axes[-1].set_xlabel("time [s]")
    if len(t) > 1:
        axes[-1].set_xlim(t[0], t[-1])
    figure.align_ylabels(axes)
    return figure, list(axes)


def _layout() -> Any:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.09)


def _title(figure: Any, ax: Any, data: xr.Dataset, what: str) -> None:
    """Scenario and subject, then the class (and what went wrong, if the run failed or is doubtful) in small print."""
    figure.suptitle(f"{data.attrs.get('scenario', 'run')}: {what}", fontsize=11.5, fontweight="bold", color=INK)
    notes = [str(data.attrs[name]) for name in ("class",) if name in data.attrs]
    if (status := str(data.attrs.get("status", "ok"))) != "ok":
        notes.append(f"{status}: {data.attrs.get('message', '')}")
    text = "\n".join(line for note in notes for line in textwrap.wrap(note, 84))
    ax.set_title(text, loc="left", fontsize=8, color=GREY, pad=6)


def _lines(ax: Any, t: np.ndarray, lines: list, label: str, floor: float = 0.0, legend: bool = True) -> None:
    """Draws (values, name, style) over time, a legend on the right; a range below `floor` is not blown up."""
    marker = {"marker": "o", "ms": 3.5} if len(t) < 4 else {}
    for x, name, style in lines:
        ax.plot(t, x, label=name, **marker, **style)
    ax.set_ylabel(label)
    if legend:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.6, borderaxespad=0.4)
    values = np.concatenate([np.ravel(x) for x, _, _ in lines])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    least = max(floor, shapes.TINY * max(abs(low), abs(high)))
    if high - low <= least:  # a constant: matplotlib would show its last digit
        half = max(least, 0.1 * abs(high), 1e-6) if high - low > shapes.ZERO or high else 1.0
        ax.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)


def _by_unit(data: xr.Dataset, shown: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """(unit, indices) of the coordinates that are shown, so that one axis has one unit."""
    units = data["unit"].values.astype(str) if "unit" in data else np.full(len(shown), "rad or m")
    parts = ((unit, np.flatnonzero(shown & (units == unit))) for unit in dict.fromkeys(units))
    return [(str(unit), which) for unit, which in parts if len(which)]


def _coordinate_panels(data: xr.Dataset, what: str, panels: list, more: int = 0) -> tuple[Any, list]:
    """A figure with (label, variable, coordinates) panels, as lines or heat maps, and `more` panels below."""
    heights = [min(1.2 + 0.06 * len(which), 4.5) if len(which) > MOST_LINES else 1.9 for _, _, which in panels]
    figure, axes = _panels(data, what, len(heights) + more, heights=[*heights, *[1.6] * more])
    t, roles = data["time"].values, data["role"].values.astype(str)
    for ax, (label, variable, which) in zip(axes, panels):
        x, names = shapes.tidy(data[variable].values)[:, which], data["coordinate"].values[which].astype(str)
        if len(which) > MOST_LINES:
            _heat_map(figure, ax, t, x, names, roles[which], label)
        else:
            styles = _family_styles(roles[which])
            _lines(ax, t, [(x[:, k], names[k], s) for k, s in enumerate(styles)], label, legend=False)
            if variable != "velocity":  # the panel above has the same lines
                _role_legend(ax, roles[which])
    return figure, axes


def _role_legend(ax: Any, roles: np.ndarray) -> None:
    """The lines of a panel, sorted by the role of their coordinates."""
    from matplotlib.lines import Line2D

    entries = []
    for role in dict.fromkeys(roles):
        entries.append(Line2D([], [], ls="none", label=role))
        entries += [line for line, r in zip(ax.get_lines(), roles) if r == role]
    tight = {"labelspacing": 0.25, "fontsize": 8} if len(entries) > 8 else {}
    legend = ax.legend(handles=entries, loc="upper left", bbox_to_anchor=(1, 1.05), handlelength=1.6, **tight)
    for entry, text in zip(entries, legend.get_texts()):
        if entry.get_linestyle() == "None":
            text.set(fontstyle="italic", color=GREY, x=-22)


def _family_styles(roles: np.ndarray) -> list[dict]:
    """A style for each coordinate: the hue is its role; shade, then dashes, tell members apart."""
    import matplotlib as mpl

    styles, seen = [], dict.fromkeys(roles, 0)
    for role in roles:
        k, size = seen[role], min(int((roles == role).sum()), 4)
        seen[role] += 1
        shade = 0.9 - 0.5 * (k % 4) / max(size - 1, 1)
        colour = mpl.colormaps[FAMILIES.get(role, "Greys")](shade)
        styles.append({"color": colour, "ls": ("-", "--", ":")[k // 4 % 3]})
    return styles


def _heat_map(figure: Any, ax: Any, t: np.ndarray, x: np.ndarray, names: Any, roles: Any, label: str) -> None:
    """Rows are coordinates, named in the hue of their role; colours are values, white at zero."""
    import matplotlib as mpl

    limit, beyond = shapes.colour_limit(x)
    half = np.diff(t) / 2 if len(t) > 1 else np.array([0.5])
    edges = np.concatenate([[t[0] - half[0]], t[:-1] + half[: len(t) - 1], [t[-1] + half[-1]]])
    mesh = ax.pcolormesh(edges, np.arange(len(names) + 1) - 0.5, x.T, cmap="RdBu_r", vmin=-limit, vmax=limit)
    bar = figure.colorbar(mesh, ax=ax, extend="both" if beyond else "neither", pad=0.015, aspect=18)
    bar.set_label(label)
    bar.outline.set_visible(False)
    ax.grid(False)
    ax.invert_yaxis()
    rows = np.arange(0, len(names), max(1, -(-len(names) // 16)))
    ax.set_yticks(rows, [names[k] for k in rows], fontsize=7.5)
    hue = {role: mpl.colormaps[FAMILIES.get(role, "Greys")](0.85) for role in dict.fromkeys(roles)}
    for tick, k in zip(ax.get_yticklabels(), rows):
        tick.set_color(hue[roles[k]])
    for k, (role, colour) in enumerate(hue.items()):
        ax.annotate(
            role,
            (-0.005, 1),
            (0, 3 + 10 * k),
            "axes fraction",
            "offset points",
            color=colour,
            ha="right",
            style="italic",
            fontsize=8,
        )


def _map_axes(data: xr.Dataset, ratio: np.ndarray) -> tuple[Any, Any]:
    """A figure with one panel of equal scales; `ratio`: extents along its axes, the larger 1."""
    from matplotlib.figure import Figure

    width, height = np.maximum(ratio * min(5.9 / ratio[0], 5.2 / ratio[1]), (4.2, 1.8))
    figure = Figure(figsize=(width + 1.6, height + 1.4), layout=_layout())
    ax = figure.subplots()
    ax.set_aspect("equal", adjustable="datalim")
    _title(figure, ax, data, "path and shape")
    return figure, ax


def _time_colours(t: np.ndarray) -> tuple[Any, Any]:
    """Colours for instants, dark to light, without the yellow end that white paper swallows."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap, Normalize

    return Normalize(t[0], t[-1]), ListedColormap(mpl.colormaps["viridis"](np.linspace(0, 0.88, 256)))


def _time_bar(figure: Any, ax: Any, norm: Any, colour: Any) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(ScalarMappable(norm, colour), ax=ax, pad=0.02, shrink=0.85, aspect=24)
    bar.set_label("time [s]")
    bar.outline.set_visible(False)
