"""Rules that choose reactions and efforts where the balance of forces leaves them open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, any_traced, as_array, namespace, ones, stacked, zeros
from undula.core.errors import UndulaError, a_name, as_vector, instance, is_traced, names_of, numbers, real, shown
from undula.laws.law import Law


@dataclass(frozen=True)
class Bound:
    """Limits of reactions: `low` <= reaction <= `high` [N or N m] for rows, or all rows of constraints, by name."""

    rows: str | Sequence[str]
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True)
class Cone:
    """Friction: the reactions of the rows `sideways` (one or two) stay within `mu` times that of the row `normal`, which does
    not pull.

    With two rows the circle is replaced by the polygon inside it with 16 sides, at most 2 % smaller.
    """

    normal: str
    sideways: str | Sequence[str]
    mu: Any


@dataclass(frozen=True)
class Least:
    """The reactions and efforts with the least weighted sum of squares, among all that balance the motion.

    **Arguments:** the sum is that of

    - `reactions` times (reaction - wanted)^2 over the rows: a number, or a dictionary by row or constraint (others: 1);
    - `efforts` times effort^2 over driven and led coordinates: a number [1 / m^2 for torques beside forces, because newtons and
      newton metres are added], or a dictionary by coordinate (others: 0);
    - `power` times (effort * velocity)^2 over the same coordinates [s^2 / m^2].

    - `wanted`: a law of time or an array, over all rows, in the order of `System.row_names` [N or N m].
    - `limits`: `Bound`s and `Cone`s. If they cannot all be met, the largest violation is minimised and recorded.
    - `margin`: largest admissible reactions by row or constraint [N or N m]; the largest ratio of a reaction to this number
      is minimised first, then the sum.

    `Least()` gives the least reactions; `Least(reactions=0, efforts=1)` the least efforts.
    """

    reactions: Any = 1.0
    efforts: Any = 0.0
    power: Any = 0.0
    wanted: Any = None
    limits: Sequence[Bound | Cone] = ()
    margin: dict[str, float] | None = None


@dataclass(frozen=True)
class Projected:
    """The recursion of document 000, (3.73) to (3.85), as printed: each wheeled body transmits to its parent only the part of
    its wrench along its own admissible motions.

    This loses the lateral reactions that a wheeled body transmits, so that efforts do not balance the motion: use it to compare
    with the document. Reactions and powers recorded are those of `Least()`.
    """


class Choice(eqx.Module):
    """A rule in packed form, over the rows that hold (k) and the coordinates (nv).

    - `efforts`, `power`: weights; `wanted`: a law of the wanted reactions, or None.
    - `G` (b, k), `h` (b,): limits G reactions <= h; `margin` (k,): admissible reactions, infinite where not given, or None.
    """

    efforts: Float[Array, "nv"]
    power: Float[Array, ""]
    wanted: Law | Array | None
    G: Float[Array, "b k"] | None
    h: Float[Array, "b"] | None
    margin: Float[Array, "k"] | None
    projected: bool = eqx.field(static=True)


SIDES = 16  # of the polygon that replaces a friction circle


def choice_of(
    rule: Any, rows: tuple[str, ...], coordinates: tuple[str, ...], held: np.ndarray
) -> tuple[Array, Choice | None]:
    """Weights of the reactions and the packed rule; `held`: which coordinates are driven or led."""
    if isinstance(rule, Projected):
        nothing = zeros(len(coordinates)), zeros(())
        return ones(len(rows)), Choice(*nothing, None, None, None, None, True)
    if not isinstance(rule, Least):
        raise UndulaError(f"rule = {shown(rule)}; it must be a rule of un.reactions, e.g. Least(efforts=1.0).")
    weights = _by_name(rule.reactions, rows, 1.0, "reactions", "row")
    efforts = _by_name(rule.efforts, coordinates, 0.0, "efforts", "coordinate")
    for name, x in zip(coordinates, np.broadcast_to(held, len(coordinates))):
        if isinstance(rule.efforts, dict) and name in rule.efforts and not x:
            raise UndulaError(
                f"efforts has a weight for '{name}', which is neither driven nor led: its effort is given."
            )
    power = as_vector(rule.power, 0, "power")
    _not_negative("power", power)
    if not rows:
        raise UndulaError(
            "the system has no constraints, so that there are no reactions to choose; leave the rule out."
        )
    if (
        not is_traced(weights)
        and not is_traced(efforts)
        and not is_traced(power)
        and not np.any(np.asarray(weights) > 0)
    ):
        if not (np.any(np.asarray(efforts) > 0) or np.any(np.asarray(power) > 0)):
            raise UndulaError("all weights of the rule are zero; one of reactions, efforts, power must be positive.")
        if not np.any(held & ((np.asarray(efforts) > 0) | (np.asarray(power) > 0))):
            raise UndulaError(
                "no coordinate that the rule weighs is driven or led, so that there are no efforts to choose; give reactions a "
                "weight."
            )
    G, h = _limits(rule.limits, rows)
    margin = None
    if rule.margin is not None:
        if isinstance(rule.margin, dict) and not rule.margin:
            raise UndulaError("margin is empty; it must give a largest admissible reaction by row or constraint.")
        margin = _by_name(rule.margin, rows, np.inf, "margin", "row")
        if not is_traced(margin) and not np.all(np.asarray(margin) > 0):
            raise UndulaError(f"margin = {shown(rule.margin)}; admissible reactions must be positive.")
    wanted = rule.wanted
    if wanted is not None and not isinstance(wanted, Law):
        wanted = as_array(wanted) if any_traced(wanted) else numbers(wanted, "wanted")
    shape = None if wanted is None else wanted.shape
    if shape not in (None, (len(rows),)):
        raise UndulaError(f"wanted has the shape {shape}; it must be ({len(rows)},), one number per row.")
    return weights, Choice(efforts * np.asarray(held, dtype=float), power, wanted, G, h, margin, False)


def rows_named(name: str, rows: tuple[str, ...], what: str) -> list[int]:
    """Indices of the row of this name, or of all rows of the constraint of this name."""
    a_name(name, f"the name of a row in {what}")
    which = [k for k, row in enumerate(rows) if row == name or row.startswith(f"{name}.")]
    if not which:
        raise UndulaError(f"{what} names '{name}'; the rows that hold are {', '.join(rows) or '(none)'}.")
    return which


def _not_negative(what: str, x: Any) -> None:
    if not is_traced(x) and not np.all(numbers(x, what) >= 0):
        raise UndulaError(f"{what} = {np.asarray(x).tolist()}; weights must be numbers of at least 0.")


def _by_name(value: Any, names: tuple[str, ...], rest: float, what: str, kind: str) -> Array:
    """One number per name, from a number or a dictionary."""
    if not isinstance(value, dict):
        number = as_array(real(value, what))
        number = namespace(number).broadcast_to(number, (len(names),))
        _not_negative(what, number)
        return number
    out: list[Any] = [rest] * len(names)
    for name, x in value.items():
        _not_negative(f"{what}['{name}']", x)
        if kind == "coordinate" and name not in names:
            raise UndulaError(f"{what} names '{name}'; the coordinates are {', '.join(names) or '(none)'}.")
        which = [names.index(name)] if kind == "coordinate" else rows_named(name, names, what)
        for k in which:
            out[k] = x
    return stacked(out) if out else zeros(0)


def _limits(limits: Sequence[Any], rows: tuple[str, ...]) -> tuple[Array | None, Array | None]:
    """The limits as G reactions <= h."""
    G: list[Any] = []
    h: list[Any] = []
    for x in instance(limits, list | tuple, "limits", "a sequence of Bounds and Cones"):
        if isinstance(x, Bound):
            for end in (x.low, x.high):
                if not (isinstance(end, float) and np.isinf(end)):
                    real(end, f"a limit of the bound on {shown(x.rows)}")
            if not any_traced(x.low, x.high):
                if (x.low, x.high) == (-np.inf, np.inf):
                    raise UndulaError(f"the bound on {shown(x.rows)} limits nothing; give low or high.")
                if not x.low < x.high:
                    raise UndulaError(
                        f"low = {x.low}, high = {x.high} of the bound on {shown(x.rows)}; low must be less than high."
                    )
            for name in names_of(x.rows, "rows of a bound"):
                for k in rows_named(name, rows, "a bound"):
                    for sign, end in ((1.0, x.high), (-1.0, -x.low)):
                        if is_traced(end) or end < np.inf:
                            G.append(sign * np.eye(len(rows))[k])
                            h.append(end)
        elif isinstance(x, Cone):
            names = names_of(x.sideways, "rows sideways of a cone")
            at = [rows_named(name, rows, "a cone") for name in (x.normal, *names)]
            if len(names) not in (1, 2) or any(len(k) != 1 for k in at):
                raise UndulaError(f"the cone on '{x.normal}' must have one normal row and one or two rows sideways.")
            real(x.mu, f"mu of the cone on '{x.normal}'", low=0.0)
            normal = np.eye(len(rows))[at[0][0]]
            across = [np.eye(len(rows))[k[0]] for k in at[1:]]
            angles = np.pi * np.arange(2) if len(across) == 1 else 2 * np.pi * np.arange(SIDES) / SIDES
            inside = 1.0 if len(across) == 1 else np.cos(np.pi / SIDES)  # from the centre to a side
            for a in angles:
                push = np.cos(a) * across[0] + (np.sin(a) * across[1] if len(across) == 2 else 0.0)
                G.append(push - inside * x.mu * normal)
                h.append(0.0)
            G.append(-normal)
            h.append(0.0)
        else:
            raise UndulaError(f"limits contains {shown(x)}; it must contain Bounds and Cones.")
    if not G:
        return None, None
    return stacked(G), stacked(h)
