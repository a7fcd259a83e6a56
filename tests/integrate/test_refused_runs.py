"""Runs, integrators, solvers and contacts that cannot be meant are refused with a sentence that names them."""

import jax.numpy as jnp
import numpy as np
import pytest

import undula as un

pytestmark = pytest.mark.usefixtures("wrong_types")
C, I = un.contact, un.integrators


@pytest.fixture(scope="module")
def system():
    b = un.Builder("wheel")
    b.base("hub", role="free", mass=1.0, inertia=0.1)
    b.body("arm", "hub", un.Revolute((0, 0, 1), motion=un.laws.Sinusoid(1.0, 1.0)), 1.0, (1, 0, 0), 0.1)
    return b.build()


def reed():
    b = un.Builder("reed")
    b.base("ground")
    b.body(
        "tip", "ground", un.Rod(section=un.rods.Circle(0.01), E=1e12, density=1e3, modes=1, nodes=3, strains=("Kz",))
    )
    return b.build()


RUNS = {
    "method": (
        lambda s: un.run(s, integrator="rk4"),
        "integrator = 'rk4'; it must be an integrator, e.g. un.integrators",
    ),
    "class": (
        lambda s: un.run(s, integrator=I.Moreau),
        "integrator = the class Moreau; it must be an integrator: Moreau()",
    ),
    "dt": (lambda s: un.run(s, dt="fast"), "dt = 'fast' is not allowed; it must be a time [s]"),
    "dt, array": (lambda s: un.run(s, dt=[0.1]), "dt = [0.1] is not allowed; it must be a time [s]"),
    "t_end": (lambda s: un.run(s, t_end=None), "t_end = None s is not allowed"),
    "save_every": (lambda s: un.run(s, dt=0.1, save_every="all"), "save_every = 'all' is not allowed"),
    "steps": (
        lambda s: un.simulate(s, s.state(), 0.1, 1.5),
        "steps = 1.5 is not allowed; it must be a whole number of at least 0",
    ),
    "steps back": (lambda s: un.advance(s, s.state(), 0.1, -1), "steps = -1 is not allowed"),
    "dt back": (lambda s: un.simulate(s, s.state(), -0.1, 2), "dt = -0.1 s is not allowed"),
    "no dt": (lambda s: un.simulate(s, s.state(), None, 2), "dt = None s is not allowed"),
    "reconstruction": (lambda s: un.geometry.reconstruct(s, un.Pose.identity(), 0.1, -1), "steps = -1 is not allowed"),
    "base": (lambda s: un.geometry.reconstruct(s, np.zeros(3), 0.1, 2), "base = [0.0, 0.0, 0.0]; it must be a pose"),
    "phase": (lambda s: un.run_phases(s, [1.0]), "phase 1 = 1.0; it must be an un.Phase"),
    "duration": (lambda s: un.Phase("long"), "duration of a phase = 'long' s is not allowed"),
    "stiff rod": (
        lambda s: un.run(reed(), t_end=0.02, dt=0.01, integrator=I.RungeKutta4()),
        "the rods of 'reed' are too stiff for RungeKutta4 with dt = 0.01 s, which must be below about",
    ),
}
METHODS = {
    "solver": (lambda: I.Moreau(5), "solver of Moreau's rule = 5; it must be a contact solver"),
    "theta": (
        lambda: I.Moreau(theta="late"),
        "theta = 'late' is not allowed; it must be a finite number between 0.5 and 1",
    ),
    "tolerance": (lambda: I.ImplicitMidpoint(tolerance=-1.0), "tolerance = -1.0 is not allowed"),
    "iterations": (lambda: I.ImplicitMidpoint(max_iterations=0), "max_iterations = 0 is not allowed"),
    "halvings": (
        lambda: I.ImplicitMidpoint(halvings=99),
        "halvings = 99 is not allowed; it must be a whole number of at most 30",
    ),
    "newton": (lambda: I.ImplicitMidpoint(newton=None), "newton = None; it must be one of modified, full"),
    "rho": (lambda: I.HHT(rho=np.nan), "rho = nan is not allowed"),
    "beta": (lambda: I.Newmark("a", 0.5), "beta = 'a' is not allowed"),
    "prox": (lambda: C.AcceleratedProx(tolerance=-1.0), "tolerance of a contact solver = -1.0 is not allowed"),
    "sweeps": (lambda: C.GaussSeidel(max_iterations=1.5), "max_iterations of a contact solver = 1.5 is not allowed"),
    "height": (lambda: C.HeightField(0.0), "height of a height field = 0.0; it must be a function of (x, y)"),
    "NumPy": (lambda: C.HeightField(lambda x, y: np.sin(x)), "use jax.numpy instead of numpy"),
    "vector": (lambda: C.HeightField(lambda x, y: jnp.stack([x, y])), "it has the shape (2,); it must be one number"),
    "along": (lambda: C.Coulomb(0.5, 0.1, along=(0, 0, 0)), "along = (0, 0, 0) is zero; it must be a direction"),
    "normal": (
        lambda: C.Contact("foot", "hub", C.Plane(), C.Coulomb(0.5, 0.1, along=(0, 0, 2), grounded=True)),
        "the friction of the contact 'foot' has the direction along = [0.0, 0.0, 2.0], which is the normal of its plane",
    ),
    "itself": (lambda: C.Contact("foot", "hub", "hub"), "the contact 'foot' connects the body 'hub' with itself"),
}


@pytest.mark.parametrize("case", RUNS)
def test_runs(system, case):
    call, words = RUNS[case]
    with pytest.raises(un.UndulaError) as found:
        call(system)
    assert words in str(found.value)


@pytest.mark.parametrize("case", METHODS)
def test_methods_and_contacts(case):
    call, words = METHODS[case]
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)


def test_a_height_that_is_a_plain_number_is_a_plane():
    field = C.HeightField(lambda x, y: 0.3)
    point = jnp.array([0.1, 0.2, 1.0])
    assert float(field.distance(point)) == pytest.approx(0.7) and np.asarray(field.normal(point)).tolist() == [0, 0, 1]


class Crooked(C.Surface):
    def distance(self, x):
        return x[2:]


def test_surfaces_of_ones_own_are_checked():
    b = un.Builder("ball")
    b.base("ball", role="free", mass=1.0, inertia=0.1)
    b.add(C.Contact("foot", "ball", Crooked(), radius=0.1))
    with pytest.raises(un.ModelError, match="touch of the contact 'foot' cannot be computed"):
        b.build()
