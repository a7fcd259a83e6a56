"""Equilibria and implicit steps under constraints: closed forms, the explicit method, invariants."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.numerics.programs import quickly_compiled

HINGE = (0.5**0.5, 0.5**0.5, 0, 0)  # the z axis of a closure's frames along -y


def linkage(holds=("x", "z"), stiffness=0.0):
    """A passive four-bar in gravity: three links and a closure to the world."""
    b = un.Builder("linkage", gravity=(0, 0, -9.81))
    b.base("ground")
    parent, at = "ground", 0.0
    for name, length in (("crank", 0.3), ("coupler", 0.5), ("rocker", 0.4)):
        inertia = un.solids.cylinder_inertia(length, 0.01, length, "x")
        b.body(
            name,
            parent,
            un.Revolute((0, -1, 0), stiffness=stiffness),
            mass=length,
            com=(length / 2, 0, 0),
            inertia=inertia,
            position=(at, 0, 0),
        )
        parent, at = name, length
    b.add(un.rows.Closure("pin", "rocker", position=(0.4, 0, 0), other_position=(0.45, 0, 0), holds=holds))
    system = b.build()
    return system, un.assemble(system, system.state({"crank": 1.2, "coupler": -1.0, "rocker": -1.5}))


def beam(modes, **more):
    """A beam along x between a fixed clamp and one that slides along x: bending in the x-z plane."""
    b = un.Builder("beam", gravity=(0, 0, -9.81))
    b.base("ground")
    elastic = un.Rod(
        length=1.0,
        stiffness=(1, 1, 1, 1, 1, 1),
        inertia=(1e-4, 1e-4, 1e-4, 0, 0, 0),
        strains=("Ky",),
        modes=modes,
        **more,
    )
    b.body("end", "ground", elastic)
    b.add(un.rows.Closure("guide", "end", holds=("z", "ry")))
    return b.build()


def arch():
    """A rod whose tip is pinned, assembled."""
    b = un.Builder("arch")
    b.base("ground")
    soft = un.Rod(length=1.0, section=un.rods.Circle(0.03), E=1e6, density=1000, strains=("Kz",), modes=4, nodes=6)
    b.body("tip", "ground", soft, rotation=[[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    b.add(un.rows.Closure("pin", "tip", "ground", "spherical", other_position=(0.6, 0, 0.5)))
    system = b.build()
    return system, un.assemble(system, system.state({"tip.Kz1": 1.5}))


class TestStatics:
    def test_chain_of_two_links(self):
        """Two links hanging between two hooks: reactions from the balance of moments, by hand."""
        b = un.Builder("vee", gravity=(0, 0, -10.0))
        b.base("ground")
        for name, parent, at in (("left", "ground", 0.0), ("right", "left", 1.0)):
            b.body(name, parent, un.Revolute((0, -1, 0)), mass=2.0, com=(0.5, 0, 0), inertia=0.1, position=(at, 0, 0))
        b.add(un.rows.Closure("hook", "right", position=(1, 0, 0), other_position=(1.2, 0, 0), holds=("x", "z")))
        system = b.build()
        at = un.equilibrium(system, system.state({"left": -1.0, "right": 1.9}))
        angle = np.arccos(0.6)  # half of the span
        assert_allclose(at.state.q, [-angle, 2 * angle], atol=1e-9)
        # each hook carries a weight of 20 N; about the middle: H sin = 20 cos - 20 cos / 2
        assert_allclose(at.reactions, [10 * 0.6 / 0.8, 20], atol=1e-8)
        assert at.directions.shape == (2, 0)

    def test_loops_without_stress(self):
        """Springs relaxed where the loop is closed, and a beam straight between its clamps: no force remains.

        Under a weight that is small compared with the springs, the linkage deflects in proportion to it.
        """
        system, rest = linkage(stiffness=1.0)
        slack = system.replace_element("gravity", g=np.zeros(3)).replace_element(
            "springs", stiffness=np.array([2.0, 3.0, 4.0]), rest=rest.q
        )
        start = slack.state({"crank": 0.8, "coupler": -0.7, "rocker": -1.2})
        at = un.equilibrium(slack, start)
        assert_allclose(at.state.q, rest.q, atol=1e-9)
        assert_allclose(at.reactions, 0, atol=1e-9)
        assert at.stable and at.iterations < 20
        moved = []
        for weight in (1e-5, 3e-5):
            loaded = slack.replace_element("gravity", g=(0, 0, -weight))
            assert un.tangent_stiffness(loaded, rest).residual > 1e-6
            moved.append(un.equilibrium(loaded, start).state.q - rest.q)
        assert np.abs(moved[0]).max() > 1e-8
        assert_allclose(moved[1], 3 * moved[0], rtol=1e-3, atol=1e-10)
        straight = beam(8, nodes=20, order=6).replace_element("gravity", g=np.zeros(3))
        at = un.equilibrium(straight, straight.state(0.3 * np.cos(np.arange(8))))
        assert_allclose(at.state.q, 0, atol=1e-9)
        assert at.iterations < 20

    def test_linkage_hangs_where_its_energy_is_least(self):
        system, start = linkage()
        at = un.equilibrium(system, start)
        assert at.stable and at.residual < 1e-10
        step = at.directions[:, 0]

        def energy(s):
            moved = un.assemble(system, un.State(start.base, at.state.q + s * step, start.base_twist, start.v))
            return float(un.potential_energy(system, moved))

        e = 1e-3
        below, here, above = (energy(s) for s in (-e, 0.0, e))
        assert_allclose((above - below) / (2 * e), 0, atol=2e-6 * at.lowest)
        assert_allclose((above - 2 * here + below) / e**2, at.stiffness[0, 0], rtol=1e-4)

    def test_clamped_beam(self):
        system = beam(8, nodes=20, order=6)
        at = un.equilibrium(system)
        weight = 9.81e-4
        assert_allclose(at.reactions[0], weight / 2, rtol=1e-6)
        assert_allclose(abs(at.reactions[1]), weight / 12, rtol=1e-5)  # the moment at a clamp
        roots = np.array([4.730040744863, 7.853204624095])
        assert_allclose(np.sqrt(un.natural_modes(system, at).frequencies[:2]), roots * 10, rtol=1e-5)

    @pytest.mark.long
    def test_twisted_shaft(self):
        """Greenhill's torque: M L / EI = 2 x with tan x = x, whatever GJ is."""
        entry = gallery.load("helical-buckling")
        from undula.gallery.helical_buckling import critical

        p = {x.name: x.default for x in entry.parameters} | dict(modes=12, nodes=28, pull=0.0, GJ=1.3, EI=2.0)
        assert_allclose(critical(p) * 1.3 / 2.0, 2 * 4.493409457909064, rtol=1e-5)


class TestSteps:
    @pytest.mark.long
    def test_order_two(self):
        """A linkage against much shorter explicit steps of order four."""
        system, start = linkage()
        exact = un.run(system, start, t_end=0.4, dt=5e-4).data.position.values[-1]
        for method in (un.integrators.ImplicitMidpoint(), un.integrators.GeneralisedAlpha(0.8)):
            runs = [un.run(system, start, t_end=0.4, dt=dt, integrator=method) for dt in (4e-3, 2e-3)]
            errors = [np.abs(run.data.position.values[-1] - exact).max() for run in runs]
            assert 3.3 < errors[0] / errors[1] < 4.7
            assert errors[1] < 2e-3
            assert max(np.abs(run.data.constraint_residual.values).max() for run in runs) < 3e-9

    @pytest.mark.long
    def test_redundant_rows(self):
        """Duplicate rows change nothing."""
        method = un.integrators.ImplicitMidpoint()
        ends = []
        for holds in (("x", "z"), ("x", "y", "z", "rx", "rz")):
            system, start = linkage(holds)
            ends.append(np.asarray(un.simulate(system, start, jnp.asarray(2e-3), 50, integrator=method).q[-1]))
        assert_allclose(ends[0], ends[1], atol=1e-9)

    def test_skate(self):
        """A knife edge: on a slope it follows a cycloid (closed form) and conserves energy."""
        slope, spin, g = 0.3, 2.0, 9.81
        b = un.Builder("skate", gravity=(g * np.sin(slope), 0, -g * np.cos(slope)))
        b.base("blade", role="free", group="SE2", mass=1.0, inertia=0.1)
        b.add(un.rows.Skate("edge", "blade"))
        system = b.build()
        start = system.state(base_twist=(0, 0, 0, 0, 0, spin))
        run = un.run(system, start, t_end=2.0, dt=2e-3, integrator=un.integrators.ImplicitMidpoint())
        t, data, a = run.data.time.values, run.data, g * np.sin(slope)
        assert_allclose(data.base_position.values[:, 0], a / (2 * spin**2) * np.sin(spin * t) ** 2, atol=1e-5)
        assert_allclose(
            data.base_position.values[:, 1], a / (2 * spin**2) * (spin * t - np.sin(2 * spin * t) / 2), atol=1e-5
        )
        energy = (data.energy_kinetic + data.energy_potential).values
        assert np.ptp(energy) < 1e-5

    @pytest.mark.long
    def test_pinned_rod(self):
        """The pin does no work; steps are long compared with the vibrations."""
        system, start = arch()
        run = un.run(system, start, t_end=0.5, dt=5e-3)
        assert run.ok and run.data.iterations.values.max() > 1  # implicit by default
        assert_allclose(
            run.data.body_position.sel(body="tip").values, np.broadcast_to([0.6, 0, 0.5], (101, 3)), atol=1e-8
        )
        energy = (run.data.energy_kinetic + run.data.energy_potential).values
        assert np.ptp(energy) < 0.02 * run.data.energy_kinetic.values.max()

    def test_reactions(self, rng):
        """The same rod, assembled: its reactions do no work, and the pin does not accelerate."""
        system, state = arch()
        assert_allclose(
            quickly_compiled(un.kinematics.body_poses)(system, state).position[-1], [0.6, 0, 0.5], atol=1e-9
        )
        state = un.State(state.base, state.q, state.base_twist, jnp.asarray(rng.normal(size=4)))

        @quickly_compiled
        def seen(system, state):
            found = un.hybrid_dynamics(system, state, jnp.zeros(()))
            efforts = un.inverse_dynamics(system, found.state, found.acceleration).v
            tip = un.kinematics.body_accelerations(system, found.state, found.acceleration)[-1, :3]
            twist = un.kinematics.body_twists(system, found.state)[-1]
            return found, efforts, tip + jnp.cross(twist[3:], twist[:3]), twist

        found, efforts, acceleration, twist = seen(system, state)
        assert_allclose(twist[:3], 0, atol=1e-9)
        assert_allclose(acceleration, 0, atol=1e-8)
        assert np.abs(efforts).max() > 0.1 and abs(float(efforts @ found.state.v)) < 1e-9
