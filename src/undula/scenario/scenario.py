"""Gallery entries: descriptions of robots with their parameters. They contain no physics."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from undula.core.errors import UndulaError
from undula.core.phases import phase
from undula.core.steps import check_tolerance
from undula.integrate.method import Integrator
from undula.integrate.progress import OnSamples
from undula.integrate.run import Run, run
from undula.model.state import State
from undula.model.system import System
from undula.scenario.parameter import Parameter as Parameter, Value, check_values
from undula.scenario.undetermined import Undetermined, reasons_of

if TYPE_CHECKING:
    import xarray as xr


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
    - `metric_units`: the unit of each metric and fact, by name.
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    build: Callable[[dict[str, Any]], Setup]
    metrics: Callable[[Setup, "xr.Dataset"], dict[str, float]] = field(default=lambda setup, data: {})
    facts: Callable[[Setup], dict[str, float]] = field(default=lambda setup: {})
    metric_units: dict[str, str] = field(default_factory=dict)

    def values(self, given: dict[str, Any]) -> dict[str, Value]:
        """All parameters: those given, checked, and the defaults of the others."""
        return check_values(self.name, self.parameters, given)

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
    reproducible: bool = False,
) -> ScenarioRun:
    """Runs a gallery entry: `given` parameters by name, times in s; the entry provides everything that is not given.

    `progress`, `on_samples`, `tolerance` (instead of `dt`) and `reproducible` are those of `undula.run`.
    """
    check_tolerance(tolerance, dt)
    with phase("build"):
        setup = scenario.setup(**(given or {}))
    parameters = setup.parameters
    refine = dt is None and tolerance is None
    t_end = setup.t_end if t_end is None else t_end
    stride = save_every
    if tolerance is None:
        dt = setup.dt if dt is None else dt
        stride = setup.save_every if save_every is None else save_every
    with phase("start"):
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

    more: dict[str, Any] = dict(refine=refine, tolerance=tolerance, reproducible=reproducible)
    with phase("run"):
        result = run(setup.system, state, t_end, dt, stride, setup.integrator, progress, pass_on, **more)
    result.data.attrs |= own
    with phase("report"):
        metrics = scenario.facts(setup) | _measured(scenario, setup, result)
    if result.status in ("ok", "doubtful"):
        unknown = Undetermined("no part of the run could be repeated with a smaller step")
        metrics["error_estimate"] = unknown if math.isnan(result.error) else result.error
    numbers = {k: float(v) for k, v in metrics.items()}
    return ScenarioRun(scenario, parameters, setup, result, numbers, reasons_of(metrics))


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
