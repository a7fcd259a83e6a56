"""Parameters of scenarios: what can be set, and the check of values. Needs no JAX: the command refuses bad values at once."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from undula.core.errors import UndulaError

Value = float | int | bool | str | tuple[float, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a scenario: a number, a vector, a switch or a word; its type is that of the default."""

    name: str
    default: Value
    unit: str
    meaning: str
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False  # whether `low` itself is excluded
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The valid values in words."""
        if self.choices:
            return f"one of {', '.join(c or '(nothing)' for c in self.choices)}"
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return "a word"
        words = f"{len(self.default)} numbers" if isinstance(self.default, tuple) else ""
        kind = words or ("a whole number" if isinstance(self.default, int) else "a number")
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        lower = f"{'>' if self.open_low else '>='} {self.low:g}{unit}" if self.low > -math.inf else ""
        upper = f"<= {self.high:g}{unit}" if self.high < math.inf else ""
        limits = " and ".join(x for x in (lower, upper) if x)
        return f"{kind}{', each' if words and limits else ''} {limits}".strip() if limits else kind

    def parse(self, value: Any) -> Value:
        """A value from the command line (text) or from Python, checked; raises `UndulaError` if it is not allowed."""
        try:
            out = self._convert(value)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(value) from None
        numbers = out if isinstance(out, tuple) else (out,)
        if self.choices and out not in self.choices:
            raise self._refusal(value)
        for x in numbers:
            if isinstance(x, str | bool):
                continue
            if not math.isfinite(x) or x < self.low or x > self.high or (self.open_low and x == self.low):
                raise self._refusal(value)
        return out

    def _convert(self, value: Any) -> Value:
        if isinstance(self.default, bool):
            word = str(value).strip().lower()
            return word == "true" if word in ("true", "false") else _fail()
        if isinstance(self.default, str):
            return value.strip() if isinstance(value, str) else _fail()
        if isinstance(self.default, tuple):
            parts = value.split(",") if isinstance(value, str) else list(value)
            out = tuple(float(x) for x in parts)
            return out if len(out) == len(self.default) else _fail()
        if isinstance(value, bool):
            return _fail()
        number = float(value)
        if isinstance(self.default, int):
            return int(number) if number == int(number) else _fail()
        return number

    def _refusal(self, value: Any) -> UndulaError:
        return UndulaError(f"{self.name} = {value} is not allowed; it must be {self.allowed}.")


def _fail() -> Any:
    raise ValueError


def check_values(scenario: str, parameters: Iterable[Parameter], given: dict[str, Any]) -> dict[str, Value]:
    """All parameters of a scenario: those given, checked, and the defaults of the others."""
    known = {p.name: p for p in parameters}
    for name in given:
        if name not in known:
            raise UndulaError(f"scenario '{scenario}' has no parameter '{name}'; it has {', '.join(known) or 'none'}.")
    return {name: p.parse(given[name]) if name in given else p.default for name, p in known.items()}


def as_record(parameter: Parameter) -> dict[str, Any]:
    """A parameter in JSON types; an infinite limit is None."""
    p = parameter
    return {
        "name": p.name,
        "default": list(p.default) if isinstance(p.default, tuple) else p.default,
        "unit": p.unit,
        "meaning": p.meaning,
        "allowed": p.allowed,
        "low": p.low if math.isfinite(p.low) else None,
        "high": p.high if math.isfinite(p.high) else None,
        "open_low": p.open_low,
        "choices": list(p.choices),
    }


def from_record(record: dict[str, Any]) -> Parameter:
    """The parameter that `as_record` wrote down."""
    r = record
    return Parameter(
        name=r["name"],
        default=tuple(r["default"]) if isinstance(r["default"], list) else r["default"],
        unit=r["unit"],
        meaning=r["meaning"],
        low=-math.inf if r["low"] is None else r["low"],
        high=math.inf if r["high"] is None else r["high"],
        open_low=r["open_low"],
        choices=tuple(r["choices"]),
    )
