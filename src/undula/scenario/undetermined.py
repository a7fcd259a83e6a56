"""Metrics that a run does not determine, and why."""

import math
from typing import Any


class Undetermined(float):
    """Not a number, for a `reason`: what a metric is if the run does not determine it.

    Arithmetic with it gives the same again, so that what depends on the metric has the reason, too.

        period = np.diff(beats).mean() if len(beats) > 1 else Undetermined("fewer than two beats in the run")
        return {"period": period, "frequency": 1 / period}
    """

    reason: str

    def __new__(cls, reason: str) -> "Undetermined":
        self = super().__new__(cls, math.nan)
        self.reason = reason
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [float(x) if isinstance(x, Undetermined) else x for x in inputs]
        out = getattr(ufunc, method)(*plain, **options)
        return self if isinstance(out, float) and math.isnan(out) else out


def _same(name: str) -> Any:
    plain = getattr(float, name)

    def result(self: Undetermined, *others: Any) -> Any:
        out = plain(self, *others)
        return self if isinstance(out, float) and math.isnan(out) else out

    return result


_NAMES = ("add", "sub", "mul", "truediv", "pow")
for _name in [f"__{x}{n}__" for n in _NAMES for x in ("", "r")] + ["__neg__", "__pos__", "__abs__"]:
    setattr(Undetermined, _name, _same(_name))


def reasons_of(metrics: dict[str, float]) -> dict[str, str]:
    """Why metrics are not finite numbers, by name."""
    out = {}
    for name, value in metrics.items():
        if isinstance(value, Undetermined):
            out[name] = value.reason
        elif math.isnan(value):
            out[name] = "the samples of this run do not determine it"
        elif math.isinf(value):
            out[name] = "it is infinite: something that it is divided by is zero, or it grows without bound"
    return out
