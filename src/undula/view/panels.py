"""Parts of figures: panels over time, lines and heat maps, legends, titles.

matplotlib is imported when a figure is made, and only through its objects, so the caller's backend is unchanged.
"""

import textwrap
from typing import Any

import numpy as np
import xarray as xr

from undula.view import shapes

MOST_LINES = 12  # coordinates that can still be distinguished as lines
AXES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito: safe for colour-blind readers
INK, GREY, AROUND = "#222222", "#777777", "#D9D2C5"
FAMILIES = {"driven": "Oranges", "free": "Blues", "forced": "Purples"}
STYLE: dict[Any, Any] = {
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


def panels_over_time(
    data: xr.Dataset, what: str, count: int, height: float = 1.75, heights: Any = None
) -> tuple[Any, list]:
    """A figure with stacked panels over time; `height` of each [inch], or `heights`."""
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
    """Scenario and subject, then the class (and the message, if the run failed or is doubtful) in small print."""
    figure.suptitle(f"{data.attrs.get('scenario', 'run')}: {what}", fontsize=11.5, fontweight="bold", color=INK)
    notes = [str(data.attrs[name]) for name in ("class",) if name in data.attrs]
    if (status := str(data.attrs.get("status", "ok"))) != "ok":
        notes.append(f"{status}: {data.attrs.get('message', '')}")
    text = "\n".join(line for note in notes for line in textwrap.wrap(note, 84))
    ax.set_title(text, loc="left", fontsize=8, color=GREY, pad=6)


def draw_lines(ax: Any, t: np.ndarray, lines: list, label: str, floor: float = 0.0, legend: bool = True) -> None:
    """Draws (values, name, style) over time, with a legend on the right; a range below `floor` is not magnified."""
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
    if high - low <= least:  # a constant: matplotlib would magnify its last digit
        half = max(least, 0.1 * abs(high), 1e-6) if high - low > shapes.ZERO or high else 1.0
        ax.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)


def by_unit(data: xr.Dataset, shown: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """(unit, indices) of the coordinates shown, so that each axis has one unit."""
    units = data["unit"].values.astype(str) if "unit" in data else np.full(len(shown), "rad or m")
    parts = ((unit, np.flatnonzero(shown & (units == unit))) for unit in dict.fromkeys(units))
    return [(str(unit), which) for unit, which in parts if len(which)]


def coordinate_panels(data: xr.Dataset, what: str, panels: list, more: int = 0) -> tuple[Any, list]:
    """A figure with (label, variable, coordinates) panels, as lines or heat maps, and `more` panels below."""
    heights = [min(1.2 + 0.06 * len(which), 4.5) if len(which) > MOST_LINES else 1.9 for _, _, which in panels]
    figure, axes = panels_over_time(data, what, len(heights) + more, heights=[*heights, *[1.6] * more])
    t, roles = data["time"].values, data["role"].values.astype(str)
    for ax, (label, variable, which) in zip(axes, panels):
        x, names = shapes.tidy(data[variable].values)[:, which], data["coordinate"].values[which].astype(str)
        if len(which) > MOST_LINES:
            heat_map(figure, ax, t, x, names, roles[which], label)
        else:
            styles = _family_styles(roles[which])
            draw_lines(ax, t, [(x[:, k], names[k], s) for k, s in enumerate(styles)], label, legend=False)
            if variable != "velocity":  # the panel above has the same lines
                _role_legend(ax, roles[which])
    return figure, axes


def _role_legend(ax: Any, roles: np.ndarray) -> None:
    """A legend of the lines of a panel, sorted by the role of their coordinates."""
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
    """A style for each coordinate: the hue shows its role; shade, then dashes, distinguish coordinates of the same role."""
    import matplotlib as mpl

    styles, seen = [], dict.fromkeys(roles, 0)
    for role in roles:
        k, size = seen[role], min(int((roles == role).sum()), 4)
        seen[role] += 1
        shade = 0.9 - 0.5 * (k % 4) / max(size - 1, 1)
        colour = mpl.colormaps[FAMILIES.get(role, "Greys")](shade)
        styles.append({"color": colour, "ls": ("-", "--", ":")[k // 4 % 3]})
    return styles


def heat_map(figure: Any, ax: Any, t: np.ndarray, x: np.ndarray, names: Any, roles: Any, label: str) -> None:
    """Rows are coordinates or elements, named in the hue of their `roles`, if any; colours are values, white at zero."""
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
    if roles is None:
        return
    hue = {role: mpl.colormaps[FAMILIES.get(role, "Greys")](0.85) for role in dict.fromkeys(roles)}
    for tick, k in zip(ax.get_yticklabels(), rows):
        tick.set_color(hue[roles[k]])
    for row, (role, colour) in enumerate(hue.items()):
        ax.annotate(
            role,
            (-0.005, 1),
            (0, 3 + 10 * row),
            "axes fraction",
            "offset points",
            color=colour,
            ha="right",
            style="italic",
            fontsize=8,
        )


def map_axes(data: xr.Dataset, ratio: np.ndarray) -> tuple[Any, Any]:
    """A figure with one panel of equal scales; `ratio`: extents along its axes, the larger being 1."""
    from matplotlib.figure import Figure

    width, height = np.maximum(ratio * min(5.9 / ratio[0], 5.2 / ratio[1]), (4.2, 1.8))
    figure = Figure(figsize=(width + 1.6, height + 1.4), layout=_layout())
    ax = figure.subplots()
    ax.set_aspect("equal", adjustable="datalim")
    _title(figure, ax, data, "path and shape")
    return figure, ax


def time_colours(t: np.ndarray) -> tuple[Any, Any]:
    """Colours for instants, dark to light, without the yellow end, which is hard to see on white paper."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap, Normalize

    return Normalize(t[0], t[-1]), ListedColormap(mpl.colormaps["viridis"](np.linspace(0, 0.88, 256)))


def time_bar(figure: Any, ax: Any, norm: Any, colour: Any) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(ScalarMappable(norm, colour), ax=ax, pad=0.02, shrink=0.85, aspect=24)
    bar.set_label("time [s]")
    bar.outline.set_visible(False)
