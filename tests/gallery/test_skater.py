"""The skater: closed forms of glide, flight and spin, and the impulse of the landing from the masses."""

import itertools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline

import undula as un
from undula import gallery
from undula.gallery.catalogue import description
from undula.scenario.scenario import run_scenario

G = 9.81
BLADE, HIPS, TRUNK, ARM, REACH = 1.5, 24.0, 27.0, 4.0, 0.65
MASS = BLADE + HIPS + TRUNK + 2 * ARM


def entry(dt=None, save_every=None, **given):
    done = run_scenario(gallery.load("skater"), given, dt=dt, save_every=save_every)
    assert done.run.ok, done.run.message
    return done


@pytest.fixture(scope="module")
def jump():
    """A jump that lands across the blade, so that it also has a sideways impulse."""
    return entry(spin=4.0, dt=2.5e-4, save_every=4)


def inertia_about_axis(lowered):
    """Of the whole about the vertical axis, with the arms lowered by an angle [rad]."""
    along, across = ARM * 0.04**2 / 2, ARM * (3 * 0.04**2 + REACH**2) / 12
    c = np.cos(lowered)
    arms = 2 * (ARM * (0.17 + REACH / 2 * c) ** 2 + across * c**2 + along * (1 - c**2))
    return 0.01 + HIPS * 0.14**2 / 2 + TRUNK * 0.15**2 / 2 + arms


def in_flight(data):
    up, down = data.event_time.values
    t = data.time.values
    return t, up, down, (t > up) & (t < down)


def test_classes(jump):
    data = jump.run.data
    legend = json.loads(data.attrs["class_legend"])
    _, _, _, air = in_flight(data)
    words = np.array(legend)[data.class_index.values]
    assert all(x.startswith("unconstrained") for x in words[air])
    assert all(x.startswith("under-constrained") for x in words[~air])
    assert legend[0] == description("skater")["class"]


def test_flight_is_ballistic(jump):
    data = jump.run.data
    t, up, down, air = in_flight(data)
    z = data.mass_centre.values[:, 2]
    # momentum / mass just before take-off, from the samples on the ice
    ice = (t < up) & (t > up - 0.02)
    speed = np.polyval(np.polyfit(t[ice] - up, data.momentum.values[ice, 2] / MASS, 4), 0.0)
    start = np.polyval(np.polyfit(t[ice] - up, z[ice], 4), 0.0)
    fall = t[air] - up
    assert_allclose(z[air], start + speed * fall - G / 2 * fall**2, rtol=0, atol=1e-6)
    assert_allclose(jump.metrics["jump_height"], speed**2 / (2 * G), rtol=1e-5)
    assert_allclose(jump.metrics["flight_time"], down - up)


def test_take_off_is_where_the_ice_no_longer_pushes(jump):
    """The reaction there is the mass times the acceleration of the mass centre, from the leg's law, plus the weight."""
    data = jump.run.data
    up = data.event_time.values[0]
    s = (up - 0.9) / 0.26
    bend = 0.45 * (60 * s - 180 * s**2 + 120 * s**3) / 0.26**2
    assert_allclose((HIPS + TRUNK + 2 * ARM) * bend, -MASS * G, rtol=1e-9)


def test_momentum_in_flight(jump):
    data = jump.run.data
    _, _, _, air = in_flight(data)
    linear, angular = np.split(data.momentum.values[air], 2, axis=1)
    about = angular - np.cross(data.mass_centre.values[air], linear)
    assert np.ptp(about[:, 2]) < 1e-9
    assert np.abs(about[:, :2]).max() < 1e-9  # all is symmetric about the axis
    assert np.ptp(linear[:, :2], axis=0).max() < 1e-9


def test_spin_ratio_is_the_ratio_of_inertias():
    """Without a twist; the arms are still when they are lowered, from 1.22 s to 1.43 s."""
    found = entry(twist=0.0).metrics["spin_ratio"]
    assert_allclose(found, inertia_about_axis(0.0) / inertia_about_axis(1.45), rtol=1e-9)


def test_landing_impulse(jump):
    """Against the least impulse of a rigid body: the joints are still at that instant, and the axis is above the blade.

    The lever of the sideways impulse about the axis is then zero: it stops the velocity across the blade and leaves the spin.
    """
    data = jump.run.data
    t, _, down, air = in_flight(data)
    last = np.flatnonzero(air)[-4:]
    late = t[last] - down
    v = data.momentum.values[last, :3] / MASS
    w, _, _, z = data.base_quaternion.values[last].T
    heading = np.unwrap(2 * np.arctan2(z, w))
    at = np.polyval(np.polyfit(late, heading, 3), 0.0)
    left = np.array([-np.sin(at), np.cos(at)])
    vz = np.polyval(np.polyfit(late, v[:, 2], 1), 0.0)
    side = v[-1, :2] @ left
    A = np.array([[0, 0, 1.0, 0], [*left, 0, 0]])  # over (x, y, z, yaw)
    M = np.diag([MASS, MASS, MASS, inertia_about_axis(0.0)])
    impulse = -np.linalg.solve(A @ np.linalg.inv(M) @ A.T, [vz, side])
    assert_allclose(data.event_impulse.values[1], impulse, rtol=1e-5)
    assert abs(impulse[1]) > 10  # it does land across
    assert_allclose(jump.metrics["landing_loss"], MASS * (vz**2 + side**2) / 2, rtol=1e-5)


def test_energy(jump):
    """Work of the joints = change of energy + loss of the landing."""
    data = jump.run.data
    t, power = data.time.values, data.power_actuators.values
    energy = (data.energy_kinetic + data.energy_potential).values
    # the power is smooth between the instants at which laws begin and end, all of them samples, and the events
    ends = np.unique([0, 0.3, 0.88, 0.9, 1.07, 1.16, 1.22, 1.43, 1.58, 2.4, *data.event_time.values])
    work = 0.0
    for a, b in itertools.pairwise(ends):
        inside = (t > a - 1e-9) & (t < b + 1e-9)
        work += CubicSpline(t[inside], power[inside]).integrate(a, b)
    assert abs(energy[-1] - energy[0] - work + jump.metrics["landing_loss"]) < 5e-6
    assert_allclose(jump.metrics["work"], work, rtol=1e-5)


def test_skier():
    """Straight down a slope, without a jump."""
    slope = 0.3
    data = entry(slope=slope, spin=0.0, stroke=0.0, twist=0.0, pull=0.0).run.data
    t, x = data.time.values, data.base_position.values
    assert data.sizes["event"] == 0
    assert_allclose(x[:, 0], 1.5 * t + G * np.sin(slope) * t**2 / 2, rtol=1e-9, atol=1e-12)
    assert np.abs(x[:, 1:]).max() < 1e-12
    assert_allclose(data.reaction.values[:, 0], MASS * G * np.cos(slope), rtol=1e-9)


def test_blade_on_the_ground():
    """The row `height` of a skate, at another height than zero."""
    b = un.Builder("board")
    b.base("board", role="free", mass=1.0, inertia=0.1, position=(0, 0, 0.2))
    b.add(un.rows.Skate("edge", "board", ground=0.2))
    system = b.build()
    assert system.row_names == ("edge.height", "edge.side")
    data = un.run(system, system.state(base_twist=jnp.array([1.0, 0, 0, 0, 0, 2.0])), t_end=0.1, dt=1e-2).data
    assert_allclose(data.reaction.values[:, 0], G, rtol=1e-9)
    assert_allclose(data.reaction.values[:, 1], 2.0, rtol=1e-6)  # along the curve


def test_longest_flight():
    """Bending by 0.6 m is faster than free fall, so that the blade leaves the ice before the jump, too."""
    done = entry(stroke=0.6)
    events = done.run.data.event_time.values
    spans = np.diff(events)[::2]
    assert len(spans) > 1 and spans[0] < spans.max()
    assert done.metrics["flight_time"] == spans.max()
    still = entry(speed=0.0, spin=0.0)
    assert still.reasons["spin_ratio"] == "it does not turn at take-off"
    assert still.metrics["flight_time"] > 0.5
