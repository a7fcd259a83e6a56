"""A torque-free asymmetric body that flips about its middle axis (the Dzhanibekov effect)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    b = un.Builder("free-body", gravity=(0, 0, 0))
    b.base(
        "body",
        role="free",
        mass=p["mass"],
        inertia=p["inertia"],
        shapes=[
            un.Shape("cylinder", (0.04, 0.5), (0.0, 0.15, 0.0), (0.5**0.5, -(0.5**0.5), 0, 0), (0.85, 0.65, 0.2)),
            un.Shape("box", (0.7, 0.08, 0.08), (0.0, -0.1, 0.0), colour=(0.85, 0.65, 0.2)),
        ],
    )
    system = b.build()
    twist = np.concatenate([np.zeros(3), p["spin"]])
    return Setup(system, system.state(base_twist=twist), t_end=20.0, dt=2e-3)


def metrics(setup: Setup, data) -> dict[str, float]:
    rates = data.base_twist.values[:, 3:]
    signs = np.sign(rates[:, np.abs(rates[0]).argmax()])  # of the spin about the body axis that it started about
    momenta = measures.angular_momentum(data)
    return {
        "flips": float(np.count_nonzero(np.diff(signs[signs != 0]))),
        "energy_drift": measures.energy_drift(data),
        "momentum_drift": np.abs(momenta - momenta[0]).max(),
    }


SCENARIO = Scenario(
    name="free-body",
    summary="A torque-free asymmetric body flips about its middle axis (Dzhanibekov)",
    source="Ali 2011, section 2.3 (Poincare equations of one body)",
    parameters=(
        Parameter("mass", 1.0, "kg", "mass", low=0, open_low=True),
        Parameter("inertia", (0.01, 0.02, 0.025), "kg m^2", "principal inertias", low=0, open_low=True),
        Parameter("spin", (0.01, 5.0, 0.01), "rad/s", "initial angular velocity, body axes"),
    ),
    build=build,
    metrics=metrics,
    metric_units={"flips": "1", "energy_drift": "J", "momentum_drift": "kg m^2/s"},
)
