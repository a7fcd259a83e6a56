"""Description of a scenario in JSON types: what `undula show` prints."""

from typing import Any

from undula.balance.classes import classify
from undula.model.state import State
from undula.scenario.parameter import as_record
from undula.scenario.scenario import Scenario


def describe(scenario: Scenario) -> dict[str, Any]:
    """Parameters, bodies, joints, roles, class and times of a scenario with its default parameters; builds its system."""
    setup = scenario.setup()
    system = setup.system
    top, labels = system.topology, system.labels
    state = setup.state if isinstance(setup.state, State) else setup.state(system)
    found = classify(system, state)
    hidden = ("problem", "compatible")  # the class itself; a basis, which is arbitrary
    ranks = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(found).items() if k not in hidden}
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "source": scenario.source,
        "class": str(found),
        "ranks": ranks if system.constrained else None,
        "constraints": list(system.row_names),
        "t_end": setup.t_end,
        "dt": setup.dt,
        "parameters": [as_record(p) for p in scenario.parameters],
        "metrics": [{"name": name, "unit": unit} for name, unit in scenario.metric_units.items()],
        "base": {"name": labels.bodies[0], "role": top.base_role, "group": top.base_group},
        "bodies": [{"name": n, "mass": float(m)} for n, m in zip(labels.bodies, system.mass)],
        "joints": [
            {"name": n, "type": t, "parent": labels.bodies[p], "child": c}
            for n, t, p, c in zip(labels.joints, labels.joint_types, top.parents, labels.bodies[1:])
        ],
        "coordinates": [
            {"name": n, "role": r, "unit": u} for n, r, u in zip(labels.coordinates, top.roles, labels.units)
        ],
    }
