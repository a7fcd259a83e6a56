"""Elements that cannot work are refused when a model is built, in one sentence that names them."""

import jax.numpy as jnp
import pytest

import undula as un


def built(*elements, rod=False):
    b = un.Builder("model")
    b.base("body", role="free", mass=1.0, inertia=0.1)
    b.body("arm", "body", un.Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    if rod:
        soft = un.Rod(name="reed", length=1.0, section=un.rods.Circle(0.01), E=1e6, density=1e3, modes=2, nodes=4)
        b.body("tip", "body", soft)
    b.add(*elements)
    return b.build()


class Misspelt(un.ForceModel):
    def wrenches(self, at):
        return jnp.zeros(6)


class Short(un.ForceModel):
    def wrench(self, at):
        return {"drag": jnp.zeros(5)}


class Silent(un.ForceModel):
    def wrench(self, at):
        pass


class Pull(un.ForceModel):
    def effort(self, at):
        return jnp.zeros(3)


class Unbalanced(un.ForceModel):
    account = "conservative"

    def wrench(self, at):
        return jnp.zeros(6)


class Small(un.ForceModel):
    def inertia(self):
        return jnp.eye(5)


class Other(un.Sensor):
    def observe(self, at):
        return {"speed": jnp.zeros(())}


class Forgetful(un.Actuator):
    def start(self):
        return jnp.zeros(2)

    def rate(self, at):
        return jnp.zeros(3)

    def wrench(self, at):
        return jnp.zeros(6)


class Muscle(un.Along):
    def stress(self, at):
        return jnp.zeros(3)


class Fast(un.RowModel):
    def gap(self, at):
        return at.sites[0].V[:1]


class Turning(un.RowModel):
    def gap(self, at):
        return jnp.sin(at.sites[0].velocity(jnp.ones(3)))


@pytest.mark.parametrize(
    "element, words",
    [
        (Misspelt(sites="body"), "the misspelt 'misspelt1' would do nothing: Misspelt defines none of effort, energy"),
        (Short(), "the short 'short1' has the method wrench but no sites"),
        (
            Short(sites="body"),
            r"wrench of the short 'short1', component 'drag', has the shape \(5,\); it must be \(1, 6\)",
        ),
        (Silent(sites="body"), "wrench of the silent 'silent1' is missing: the method returns nothing"),
        (Pull(sites="body"), "the pull 'pull1' has the method effort but no coordinates"),
        (Pull(coordinates="arm"), r"effort of the pull 'pull1' has the shape \(3,\); it must be \(1,\)"),
        (Unbalanced(sites="body"), "'unbalanced1' counts as conservative but Unbalanced defines no energy"),
        (Small(sites="body"), r"inertia of the small 'small1' has the shape \(5, 5\)"),
        (
            Other("eye", "body"),
            "the other 'eye' declares the observables abscissa, .*, and its method observe returns speed",
        ),
        (
            Forgetful(sites="body"),
            r"rate of the forgetful 'forgetful1' has the shape \(3,\); that of its internal state",
        ),
        (Fast(sites="body", name="row"), "gap of the fast 'row' depends on velocities"),
        (Turning(sites="body", name="row"), "gap of the turning 'row' depends on velocities"),
    ],
)
def test_refused(element, words):
    with pytest.raises(un.ModelError, match=words):
        built(element)


def test_refused_on_rods():
    with pytest.raises(un.ModelError, match=r"stress of the muscle 'muscle1' has the shape \(3,\); it must be \(6,\)"):
        built(Muscle(rod="reed"), rod=True)
    with pytest.raises(
        un.ModelError, match=r"the abscissa of the load 'load1' is unknown .* Load does not determine it"
    ):
        built(un.forces.Load(un.on("reed", un.Found(0.5)), (0, 0, 1.0)), rod=True)
    b = un.Builder("rod")
    b.base("ground")
    b.body("tip", "ground", un.Rod(name="reed", stiffness=[1] * 6, inertia=(1, 1, 1, 1, 0.1, 0.1), modes=1, nodes=3))
    with pytest.raises(
        un.ModelError, match=r"inertia of the section of the rod 'reed' at X = 0\.155 m has the principal"
    ):
        b.build()


class Shaken(un.ForceModel):
    """A constant field and a constant inertia, without parameters."""

    def field(self, t):
        return jnp.array([0.0, 0.0, 2.0])

    def inertia(self):
        return jnp.diag(jnp.array([0.0, 0, 1.0, 0, 0, 0]))


def test_classes_without_parameters_work():
    system = built(Shaken(sites="body"))
    bare = built()
    assert float(un.mass_matrix(system, system.state())[2, 2]) == 3.0
    assert float(un.gravity_efforts(system, system.state())[2]) == pytest.approx((9.81 - 2.0) * 2.0)
    assert float(un.gravity_efforts(bare, bare.state())[2]) == pytest.approx(9.81 * 2.0)


def test_a_load_that_leaves_its_rod_ends_the_run():
    """At 2 m/s it is at the end of the rod after 0.5 s; the samples before are kept."""
    b = un.Builder("reed", gravity=(0, 0, 0))
    b.base("ground")
    reed = un.Rod(
        name="reed", length=1.0, stiffness=[1] * 6, inertia=(1, 1, 1, 0, 0, 0), strains=("Ky",), modes=1, nodes=2
    )
    b.body("tip", "ground", reed)
    b.add(un.forces.Load(un.on("reed", un.laws.Polynomial([0.0, 2.0])), (0, 0, 1e-3)))
    run = un.run(b.build(), t_end=1.0, dt=0.05, save_every=1, integrator=un.integrators.RungeKutta4())
    assert run.status == "failed"
    assert "at t = 0.55 s the load 'load1' had left its rod: X = 1.1 m, the length is 1 m." in run.message
    assert run.data.sizes["time"] == 11
