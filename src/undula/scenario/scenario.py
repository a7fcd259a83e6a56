"""Gallery entries: descriptions of robots with their parameters. They contain no physics."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from undula.core.errors import UndulaError
from undula.integrate.method import Integrator
from undula.integrate.progress import OnSamples
from undula.integrate.run import Run, run
from undula.integrate.start import check_tolerance
from undula.model.state import State
from undula.model.system import System
from undula.scenario.undetermined import Undetermined, reasons_of

if TYPE_CHECKING:
    import xarray as xr

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
            parts = value.split(",") if isinstance(value, str) else np.asarray(value).tolist()
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


@dataclass(frozen=True)
class Setup:
    """A scenario with its parameters inserted, ready to run. Times in s.

    `state` may be a function of the system, called at the start of the run: a free system's state of zero momentum, for
    instance, must be computed.
    """

    system: System
    state: State | Callable[[System], State]
    t_end: float
    dt: float
    save_every: int | None = None
    integrator: Integrator | None = None
    parameters: dict[str, Any] = field(default_factory=dict)  # filled in by `Scenario.setup`


@dataclass(frozen=True)
class Scenario:
    """A gallery entry.

    - `source`: document and section; `parameters`: what can be set.
    - `build`: parameters by name -> `Setup`; `metrics`: (setup, samples) -> numbers by name; `facts`: setup -> metrics that do
      not depend on the run and are reported even if it fails at once. What a run does not determine is `Undetermined`.
    - `kind`: the class that `classify` finds for the default parameters, so that lists need not compute it.
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    build: Callable[[dict[str, Any]], Setup]
    metrics: Callable[[Setup, "xr.Dataset"], dict[str, float]] = field(default=lambda setup, data: {})
    facts: Callable[[Setup], dict[str, float]] = field(default=lambda setup: {})
    kind: str = ""

    def values(self, given: dict[str, Any]) -> dict[str, Value]:
        """All parameters: those given, checked, and the defaults of the others."""
        known = {p.name: p for p in self.parameters}
        for name in given:
            if name not in known:
                raise UndulaError(
                    f"scenario '{self.name}' has no parameter '{name}'; it has {', '.join(known) or 'none'}."
                )
        return {name: p.parse(given[name]) if name in given else p.default for name, p in known.items()}

    def setup(self, **given: Any) -> Setup:
        """The scenario with these parameters inserted."""
        values = self.values(given)
        try:
            return replace(self.build(values), parameters=values)
        except ArithmeticError as error:  # an overflow or a division by zero
            words = ", ".join(f"{name} = {values[name]}" for name in given) or "its parameters"
            raise UndulaError(
                f"'{self.name}' cannot be built with {words}: these numbers are too large or too small to compute with "
                f"({type(error).__name__})."
            ) from None


@dataclass(frozen=True)
class ScenarioRun:
    """A run of a gallery entry with its parameters and metrics; `reasons`: why metrics are not finite numbers, by name."""

    scenario: Scenario
    parameters: dict[str, Value]
    setup: Setup
    run: Run
    metrics: dict[str, float]
    reasons: dict[str, str] = field(default_factory=dict)


def run_scenario(
    scenario: Scenario,
    given: dict[str, Any] | None = None,
    t_end: float | None = None,
    dt: float | None = None,
    save_every: int | None = None,
    progress: Callable[[float], None] | None = None,
    on_samples: OnSamples | None = None,
    tolerance: float | None = None,
) -> ScenarioRun:
    """Runs a gallery entry: `given` parameters by name, times in s; the entry provides everything that is not given.

    `progress`, `on_samples` and `tolerance`, which chooses the step in place of `dt`, are those of `undula.run`.
    """
    check_tolerance(tolerance, dt)
    setup = scenario.setup(**(given or {}))
    parameters = setup.parameters
    refine = dt is None and tolerance is None
    t_end = setup.t_end if t_end is None else t_end
    stride = save_every
    if tolerance is None:
        dt = setup.dt if dt is None else dt
        stride = setup.save_every if save_every is None else save_every
    state = setup.state if isinstance(setup.state, State) else setup.state(setup.system)
    own = {
        "scenario": scenario.name,
        "parameters": json.dumps(parameters),
        "summary": scenario.summary,
        "source": scenario.source,
    }

    def pass_on(count: int, since: Callable[[int], "xr.Dataset"]) -> None:
        if on_samples is not None:
            on_samples(count, lambda first: since(first).assign_attrs(own))

    more: dict[str, Any] = dict(refine=refine, tolerance=tolerance)
    result = run(setup.system, state, t_end, dt, stride, setup.integrator, progress, pass_on, **more)
    result.data.attrs |= own
    metrics = scenario.facts(setup) | _measured(scenario, setup, result)
    if result.status in ("ok", "doubtful"):
        unknown = Undetermined("no part of the run could be repeated with a smaller step")
        metrics["error_estimate"] = unknown if math.isnan(result.error) else result.error
    return ScenarioRun(
        scenario, parameters, setup, result, {k: float(v) for k, v in metrics.items()}, reasons_of(metrics)
    )


def _measured(scenario: Scenario, setup: Setup, result: Run) -> dict[str, float]:
    """The metrics of a run; those of a failed run may need samples that it does not have."""
    if not result.data.sizes["time"]:
        return {}
    try:
        return scenario.metrics(setup, result.data)
    except (ArithmeticError, IndexError, ValueError):
        if result.status in ("ok", "doubtful"):
            raise
        return {}
