"""When the rows of a constraint are on: by a schedule, as long as a reaction pushes, or by conditions."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, as_array
from undula.core.errors import ModelError, UndulaError, flag, function_of, instance, is_traced, reason, shown
from undula.elements.view import View


def watched_number(function: Callable[..., Any], arguments: tuple[Any, ...], what: str) -> Array:
    """The value of a user's condition, refused if it is not one number, whose sign can be watched."""
    wanted = "it must be one number, which reaches zero at the event"
    try:
        found = function(*arguments)
        value = None if found is None else jnp.asarray(found)
    except UndulaError:
        raise
    except Exception as error:
        raise UndulaError(f"{what} cannot be evaluated: {reason(error)}.") from error
    if value is None:
        raise UndulaError(f"{what} returns None; {wanted}.")
    if value.dtype == bool:
        raise UndulaError(f"{what} returns True or False; {wanted}, e.g. 0.5 - t for t > 0.5.")
    if value.shape != ():
        raise UndulaError(f"{what} returns an array of the shape {value.shape}; {wanted}.")
    return value


class Switching(eqx.Module):
    """When rows are on. A switch takes place where its value, positive before, reaches zero.

    - `on(t)`: whether the rows are on at the start of a run, at time t [s]; `times`: known instants of switches.
    - `release(form, at, reaction)`: the value watched while the rows are on; `engage(form, at)`: while they are off.
      `form`: the constraint, `at`: its view, `reaction`: of its rows. None: not watched.
    - `uses_reaction`: whether `release` needs the reactions.
    """

    uses_reaction: bool = eqx.field(static=True, default=False, kw_only=True)

    @abc.abstractmethod
    def on(self, t: Any) -> Any:
        """Whether the rows are on at the start of a run, or, if a schedule decides, at any time t [s]."""

    @property
    def times(self) -> np.ndarray:
        """Known instants of switches [s]."""
        return np.zeros(0)

    def release(self, form: Any, at: View, reaction: Float[Array, "r"]) -> Any:
        """The value watched while the rows are on, or None."""
        return None

    def engage(self, form: Any, at: View) -> Any:
        """The value watched while the rows are off, or None."""
        return None

    def resolved(self, labels: tuple[str, ...], what: str) -> "Switching":
        """The rule for a constraint whose rows have these labels."""
        return self


class Schedule(Switching):
    """On during the given intervals (start, end) of time [s], off otherwise; an end may be infinite."""

    starts: Float[Array, "n"]
    ends: Float[Array, "n"]

    def __init__(self, *intervals: Any):
        for pair in intervals:
            if not isinstance(pair, Sequence) or len(pair) != 2:
                raise ModelError(f"a schedule has the interval {shown(pair)}; it must be (start, end), in seconds.")
            if any(isinstance(x, str) or np.ndim(x) for x in pair):
                raise ModelError(f"a schedule has the interval {shown(pair)}; it must be two times [s].")
            if not any(is_traced(x) for x in pair) and not pair[0] < pair[1]:
                raise ModelError(f"a schedule has the interval {shown(pair)}; its start must come before its end.")
        self.starts, self.ends = (as_array([pair[k] for pair in intervals]) for k in (0, 1))
        self.uses_reaction = False

    def on(self, t: Any) -> Any:
        return ((t >= self.starts) & (t < self.ends)).any()

    @property
    def times(self) -> np.ndarray:
        both = np.concatenate([np.asarray(self.starts), np.asarray(self.ends)])
        return np.unique(both[np.isfinite(both)])


class WhilePushing(Switching):
    """On as long as the reaction of a row is positive (times `sign`); on again when its gap closes.

    **Arguments:**

    - `row`: label of the row, if there are several; its gap, times `sign`, is positive when it is open. A row that is not the
      rate of a gap does not come back.
    - `begins`: whether it is on at the start.
    """

    row: str = eqx.field(static=True)
    sign: int = eqx.field(static=True)
    begins: bool = eqx.field(static=True)
    index: int = eqx.field(static=True)

    def __init__(self, row: str = "", sign: int = 1, begins: bool = True):
        if not isinstance(sign, int | float) or isinstance(sign, bool) or sign not in (1, -1):
            raise ModelError(f"sign = {shown(sign)}; it must be 1 (pushes) or -1 (pulls).")
        flag(begins, "begins")
        instance(row, str, "row", "the label of a row")
        self.row, self.sign, self.begins, self.index, self.uses_reaction = row, sign, begins, 0, True

    def on(self, t: Any) -> Any:
        return np.asarray(self.begins)

    def release(self, form: Any, at: View, reaction: Float[Array, "r"]) -> Any:
        return self.sign * reaction[self.index]

    def engage(self, form: Any, at: View) -> Any:
        gap = form.gap(at)
        return self.sign * gap[self.index] if self.index < gap.shape[0] else None

    def resolved(self, labels: tuple[str, ...], what: str) -> "WhilePushing":
        if self.row not in labels and not (self.row == "" and len(labels) == 1):
            raise ModelError(f"{what} switches by its row '{self.row}'; its rows are {', '.join(map(repr, labels))}.")
        out = WhilePushing(self.row, self.sign, self.begins)
        object.__setattr__(out, "index", labels.index(self.row) if self.row in labels else 0)
        return out


class Condition(Switching):
    """On until `release` becomes zero or negative, off until `engage` does.

    **Arguments:**

    - `release`: a function (at, reaction) of the constraint's view and reactions; `engage`: a function (at). None: never.
    - `begins`: whether it is on at the start.
    """

    releases: Callable[..., Any] | None = eqx.field(static=True)
    engages: Callable[..., Any] | None = eqx.field(static=True)
    begins: bool = eqx.field(static=True)

    def __init__(
        self, release: Callable[..., Any] | None = None, engage: Callable[..., Any] | None = None, begins: bool = True
    ):
        for name, f in (("release", release), ("engage", engage)):
            if f is not None and not callable(f):
                raise ModelError(f"{name} = {shown(f)}; it must be a function.")
            if f is not None:
                function_of(f, ("at", "reaction") if name == "release" else ("at",), name)
        if release is None and engage is None:
            raise ModelError("a Condition without release and engage never switches.")
        flag(begins, "begins")
        self.releases, self.engages, self.begins, self.uses_reaction = release, engage, begins, release is not None

    def on(self, t: Any) -> Any:
        return np.asarray(self.begins)

    def release(self, form: Any, at: View, reaction: Float[Array, "r"]) -> Any:
        return (
            None if self.releases is None else watched_number(self.releases, (at, reaction), "release of a Condition")
        )

    def engage(self, form: Any, at: View) -> Any:
        return None if self.engages is None else watched_number(self.engages, (at,), "engage of a Condition")
