"""Figures of the recorded values of elements, one per family: chosen by dimensions and units, not by names."""

from typing import Any

import numpy as np
import xarray as xr

from undula.record.dataset import LABELS
from undula.view import shapes
from undula.view.panels import AXES, MOST_LINES, draw_lines, heat_map, panels_over_time

OTHERS = (*LABELS, "body", "coordinate", "rod")  # components, and dimensions with figures of their own
MOST_PANELS = 8
HALVES = {"wrench": (("force", "N"), ("couple", "N m")), "twist": (("velocity", "m/s"), ("angular velocity", "rad/s"))}


def family_figures(data: xr.Dataset) -> dict[str, Any]:
    """For each family of elements, constraints and contacts, a figure of its recorded values that are not always zero."""
    families = [d for d in data.dims if d in data.coords and data[d].dtype.kind in "UO" and d not in OTHERS]
    return {str(f): figure for f in families if (figure := _figure(data, str(f))) is not None}


def _figure(data: xr.Dataset, family: str) -> Any:
    panels = [p for name, x in data.data_vars.items() if x.dims[:2] == ("time", family) for p in _panels(str(name), x)]
    if not panels:
        return None
    shown, names = panels[:MOST_PANELS], data[family].values.astype(str)
    heights = [min(1.2 + 0.06 * len(lines), 4.5) if len(lines) > MOST_LINES else 1.75 for _, lines in shown]
    words = family.replace("_", " ")
    more = f" ({len(panels) - len(shown)} more in the file)" if len(panels) > len(shown) else ""
    what = f"{words} {names[0]}" if len(names) == 1 and names[0] != words else words
    figure, axes = panels_over_time(data, f"{what}{more}", len(shown), heights=heights)
    for ax, (label, lines) in zip(axes, shown):
        t = data["time"].values
        if len(lines) > MOST_LINES:
            x = np.stack([values for values, _ in lines], 1)
            heat_map(figure, ax, t, x, [name for _, name in lines], None, label)
        else:
            styles = [{"color": AXES[k % 4], "ls": ("-", "--", ":")[k // 4 % 3]} for k in range(len(lines))]
            draw_lines(ax, t, [(x, name, style) for (x, name), style in zip(lines, styles)], label)
    return figure


def _panels(name: str, x: xr.DataArray) -> list[tuple[str, list[tuple[np.ndarray, str]]]]:
    """Panels of a variable: its label with the unit, and lines (values, name)."""
    words, unit = name.replace("_", " "), x.attrs.get("units", "")
    members = x[x.dims[1]].values.astype(str)
    values = shapes.tidy(x.values.astype(float))
    if values.ndim == 2:
        return _kept(f"{words}\n[{unit}]", [(values[:, k], name) for k, name in enumerate(members)])
    if values.ndim > 3 or x.dims[2] not in x.coords:
        return []
    dim, parts = str(x.dims[2]), [(words, unit, values, x[x.dims[2]].values.astype(str))]
    if dim in HALVES:
        labels = x[dim].values.astype(str)
        cut = zip(HALVES[dim], (slice(0, 3), slice(3, 6)))
        parts = [(f"{words}: {what}", u, values[:, :, part], labels[part]) for (what, u), part in cut]
    out = []
    for label, u, part, components in parts:
        if len(members) == 1:
            lines = [(part[:, 0, k], str(c)) for k, c in enumerate(components)]
        else:  # magnitudes: components of many members could not be told apart
            lines = [(np.linalg.norm(part[:, k], axis=-1), name) for k, name in enumerate(members)]
            label = f"|{label}|"
        out += _kept(f"{label}\n[{u}]", lines)
    return out


def _kept(label: str, lines: list[tuple[np.ndarray, str]]) -> list[tuple[str, list[tuple[np.ndarray, str]]]]:
    """One panel, or none if all values are zero or missing."""
    seen = [np.isfinite(x).any() and np.nanmax(np.abs(x)) > 0 for x, _ in lines]
    return [(label, lines)] if any(seen) else []
