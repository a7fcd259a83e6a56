"""Force models and laws that cannot be meant are refused with a sentence that names them."""

import numpy as np
import pytest

import undula as un

pytestmark = pytest.mark.usefixtures("wrong_types")
F, L = un.forces, un.laws
SIX = L.Constant(np.zeros(6))
WAVE = L.Sinusoid(1.0, 1.0)

REFUSED = {
    "kp": (lambda: F.ProportionalDerivative(-1.0, 1.0, 0.0), "ProportionalDerivative: kp = -1.0 is not allowed"),
    "kd": (lambda: F.ComputedTorque(1.0, [1.0, -1.0], 0.0), "ComputedTorque: kd = [1.0, -1.0] is not allowed"),
    "stiffness": (
        lambda: F.Follower("arm", SIX, -np.ones(6), np.ones(6)),
        "stiffness of the follower on the body 'arm'",
    ),
    "gain": (
        lambda: F.TwistFollower("arm", SIX, -np.ones(6), np.ones(6)),
        "gain of the twist follower on the body 'arm'",
    ),
    "K": (
        lambda: F.Impedance("arm", -np.eye(6), np.ones(6), SIX),
        "K of the impedance at the body 'arm' has a negative",
    ),
    "spring": (lambda: F.SpringDamper("arm", "arm", 1.0), "connects the body 'arm' with itself"),
    "cable": (lambda: F.SpringDamper("arm", "world", 1.0, pulls_only=1), "= 1; it must be True or False"),
    "function": (
        lambda: F.Load("arm", lambda t: t),
        "it must be un.laws.Function(<lambda>, shape=(3,)), with a function of t",
    ),
    "laws": (
        lambda: F.Load("arm", (0, 0, WAVE)),
        "it must be a vector law: un.laws.stack([...]) joins laws and numbers",
    ),
    "follows": (
        lambda: F.Load("arm", (0, 0, 1), follows="yes"),
        "follows of the load = 'yes'; it must be True or False",
    ),
    "site": (lambda: F.Load(3, (0, 0, 1)), "a load is attached to 3; it must be the name of a body, or a site"),
    "rod": (lambda: F.LineLoad({}, (0, 0, 1)), "rod of the line load = {}; it must be a name"),
    "field": (lambda: F.LineLoad("reed", lambda t: t), "is a function of (t); it must be a function of (X, t)"),
    "routing": (lambda: F.Tendon("cord", "reed", lambda X, t: X, 1.0), "it must be a function of (X)"),
    "end": (
        lambda: F.Tendon("cord", "reed", (0, 0), 1.0, end="tip"),
        "end of the tendon 'cord', a fraction of the rod's length",
    ),
    "host": (lambda: F.HostForce(lambda t: t, "arm"), "the function of a host force is a function of (t)"),
    "inertia": (
        lambda: F.AddedInertia("arm", "heavy"),
        "matrix of the added inertia on the body 'arm' = 'heavy' is not numeric",
    ),
    "number as law": (lambda: L.Function(3.0), "Function: fn = 3.0; it must be a function of t [s]"),
    "NumPy in a law": (lambda: L.Function(lambda t: np.sin(t)), "use jax.numpy instead of numpy"),
    "shape of a law": (lambda: L.Function(lambda t: t, (2,)), "returns the shape (); it must be (2,)"),
    "stack": (lambda: L.stack(WAVE), "stack: laws = Sinusoid"),
    "count": (lambda: L.TravellingWave(10**400, 1.0, 1.0, 1.0), "it must be a whole number of at most"),
    "periodic": (
        lambda: L.CubicSpline([0, 1, 2], [0, 1, 0], periodic=1),
        "CubicSpline: periodic = 1; it must be True or False",
    ),
    "an open file": (lambda: L.Sampled.from_csv(1), "path of a CSV file = 1; it must be the path of a file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)
