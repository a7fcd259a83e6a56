"""Division of the time of a run into steps and samples; needs no JAX, so that the command checks it at once."""

import math
from typing import Any, NamedTuple

from undula.core.errors import UndulaError, shown, whole

TIGHTEST, LOOSEST = 1e-10, 0.1  # tolerances allowed
ROUNDING = 1e-12  # a dt with a multiple this close to t_end, relative to it, is left unchanged


class Steps(NamedTuple):
    """Division of the time of a run: `count` steps of `dt` [s] from t0 [s] on, one sample every `stride` steps."""

    count: int  # type: ignore[assignment]  # hides tuple.count
    dt: float
    stride: int
    t0: float = 0.0

    def divided(self, n: int) -> "Steps":
        """The same with n steps in place of one, and samples at the same instants."""
        return Steps(n * self.count, self.dt / n, n * self.stride, self.t0)


def check_times(t_end: float, dt: float, save_every: int | None, t0: float = 0.0) -> Steps:
    """The steps of a run from t0 to `t_end` exactly [s]; raises `UndulaError` for invalid arguments.

    If dt does not divide t_end, all steps are slightly shorter, none longer: samples stay evenly spaced, and the method's
    memory of the last step fits the next.
    """
    t_end, dt, t0 = (_seconds(x, name) for x, name in ((t_end, "t_end"), (dt, "dt"), (t0, "t0")))
    if not math.isfinite(t0):
        raise UndulaError(f"t0 = {t0:g} s is not allowed; it must be finite.")
    if t0 and not (math.isfinite(t_end) and t_end > t0):
        raise UndulaError(f"t_end = {t_end:g} s is not allowed; it must be finite, and later than t0 = {t0:g} s.")
    t_end = t_end - t0
    for name, value in (("t_end", t_end), ("dt", dt)):
        if not (math.isfinite(value) and value > 0):
            raise UndulaError(f"{name} = {value:g} s is not allowed; it must be a positive, finite time.")
    if dt > t_end * (1 + 1e-9):
        raise UndulaError(f"dt = {dt:g} s is not allowed; it must not exceed t_end = {t_end:g} s.")
    if t_end / dt > 1e9:
        raise UndulaError(
            f"dt = {dt:g} s is not allowed; t_end = {t_end:g} s would take {t_end / dt:g} steps (at most 1e9)."
        )
    count = max(1, math.ceil(t_end / dt * (1 - 1e-9)))
    if abs(count * dt - t_end) > ROUNDING * t_end:
        dt = t_end / count
    if save_every is None:
        return Steps(count, dt, max(1, count // 500), t0)
    return Steps(count, dt, min(whole(save_every, "save_every", at_least=1), count), t0)


def _seconds(value: Any, name: str) -> float:
    """A time as a number, which may still be infinite."""
    good = not isinstance(value, bool | str | type) and hasattr(value, "__float__") and not getattr(value, "ndim", 0)
    try:
        if good:
            return float(value)
    except (TypeError, OverflowError):  # complex numbers, and whole ones that are too large
        pass
    raise UndulaError(f"{name} = {shown(value)} is not allowed; it must be a time [s].")


def check_tolerance(tolerance: float | None, dt: float | None) -> None:
    """Refuses a tolerance that no step can meet or that means nothing, and one beside a step."""
    if tolerance is None:
        return
    if dt is not None:
        raise UndulaError(
            f"dt = {dt:g} s and tolerance = {tolerance:g} cannot both be given: the tolerance chooses the step."
        )
    if not TIGHTEST <= tolerance <= LOOSEST:
        raise UndulaError(f"tolerance = {tolerance:g} is not allowed; it must be between {TIGHTEST:g} and {LOOSEST:g}.")
