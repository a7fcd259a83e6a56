"""Wheeled vehicles of the gallery: samples at given instants, and an independent model of planar mechanisms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.numerics.programs import quickly_compiled

VEHICLES = (
    "unicycle",
    "two-axle",
    "three-axle",
    "car",
    "mecanum",
    "snake-acm",
    "snakeboard",
    "trikke",
    "mobile-manipulator",
)

COUNT = 13  # instants that are compared

PLANE = [0, 1, 5]  # of a twist: vx, vy and the yaw rate


def vehicle(name, **given):
    """The system of a gallery entry, without drawings: systems that differ in numbers only are then compiled once."""
    system = gallery.load(name).setup(**given).system
    return dataclasses.replace(system, labels=dataclasses.replace(system.labels, shapes=()))


def probe(system, times, states):
    """Samples at some instants, the rate of the energy along the motion, and the twists of the bodies."""
    return jax.tree.map(np.asarray, _probe(system, *strong((times, states))))


def strong(tree):
    """Arrays typed as by NumPy: weakly typed ones would make JAX recompile."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x, dtype=float)), tree)


@quickly_compiled
def _probe(system, times, states):

    def one(x):
        s = un.sample(system, x[1], x[0])

        def energy(twist, q, v):
            state = un.State(s.state.base, q, twist, v)
            return un.kinetic_energy(system, state) + un.potential_energy(system, state)

        now = s.state.base_twist, s.state.q, s.state.v
        gain = jax.jvp(energy, now, (s.acceleration.base, s.state.v, s.acceleration.v))[1]
        return s, gain, un.kinematics.body_twists(system, s.state)

    return jax.lax.map(one, (times, states))


solved = quickly_compiled(un.hybrid_dynamics)


@quickly_compiled
def _simulate(system, state, dt, stride):
    return jax.tree.map(lambda x: x[::stride], un.simulate(system, state, dt, (COUNT - 1) * stride))


def moved(system, state, dt, stride):
    """States, `stride` steps apart, of a motion from an admissible state."""
    return jax.tree.map(np.asarray, _simulate(system, strong(state), jnp.asarray(dt), stride))


def motion(system, state, dt, stride):
    """Samples of a motion from any state; as many as `instants` gives, so that it compiles once."""
    held = probe(system, np.zeros(COUNT), jax.tree.map(lambda x: np.stack([x] * COUNT), state))[0].state
    states = moved(system, jax.tree.map(lambda x: x[0], held), dt, stride)
    return probe(system, dt * stride * np.arange(COUNT), states)[0]


def instants(system, seed, count=COUNT, t_end=6.0):
    """Random times and level states; velocities need not be admissible: the library projects them."""
    rng = np.random.default_rng(seed)
    turned = rng.uniform(-np.pi, np.pi, count)
    zero = np.zeros(count)
    twist = np.zeros((count, 6))
    twist[:, PLANE] = rng.normal(size=(count, 3))
    base = un.Pose(
        jnp.asarray(np.stack([*rng.normal(size=(2, count)), zero], 1)),
        jnp.asarray(np.stack([np.cos(turned / 2), zero, zero, np.sin(turned / 2)], 1)),
    )
    q, v = 0.3 * rng.normal(size=(2, count, system.nv))
    return jnp.asarray(rng.uniform(0.2, t_end, count)), un.State(
        base, jnp.asarray(q), jnp.asarray(twist), jnp.asarray(v)
    )


def seen(system, seed=1):
    return probe(system, *instants(system, seed))


def yaw(quaternions):
    return np.unwrap(2 * np.arctan2(quaternions[:, 3], quaternions[:, 0]))


def wave(amplitude, rate, phase, t):
    """amplitude sin(rate t + phase) and its two rates."""
    s, c = np.sin(rate * t + phase), np.cos(rate * t + phase)
    return amplitude * s, amplitude * rate * c, -amplitude * rate**2 * s


class Plane:
    """A planar mechanism by Lagrange's equations with multipliers, in coordinates q = (x, y, heading) of its base.

    - `bodies`: (q, t) -> (n, 3) x, y of the mass centres and angles; `mass`, `inertia`: of the bodies.
    - `rows`: (q, t, moves) -> velocities that must vanish; moves(f) is the rate of a function f(q, t).
    """

    def __init__(self, bodies, mass, inertia, rows):
        weight = np.stack([mass, mass, inertia], 1)

        def rate(f, q, v, t):
            return jax.jvp(f, (q, t), (v, 1.0))[1]

        def kinetic(q, v, t):
            return (weight * rate(bodies, q, v, t) ** 2).sum() / 2

        def held(q, v, t):
            return rows(q, t, lambda f: rate(f, q, v, t))

        def accelerations(q, v, t):
            M = jax.hessian(kinetic, 1)(q, v, t)
            bias = rate(lambda q, t: jax.grad(kinetic, 1)(q, v, t), q, v, t) - jax.grad(kinetic, 0)(q, v, t)
            C = jax.jacobian(held, 1)(q, v, t)
            bias_rows = rate(lambda q, t: held(q, v, t), q, v, t)
            return M, bias, C, bias_rows, held(q, v, t)

        self.terms = quickly_compiled(accelerations)

    def check(self, samples):
        """Compares accelerations of the base, for the velocities found by the library."""
        for k, a in enumerate(yaw(samples.state.base.quaternion)):
            R = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
            q = np.array([*samples.state.base.position[k, :2], a])
            twist = samples.state.base_twist[k, PLANE]
            terms = self.terms(*(jnp.asarray(x) for x in (q, R @ twist, samples.t[k])))
            M, bias, C, bias_rows, held = (np.asarray(x) for x in terms)
            assert_allclose(held, 0, atol=1e-12)
            KKT = np.block([[M, -C.T], [C, np.zeros((len(C), len(C)))]])
            found = np.linalg.lstsq(KKT, -np.concatenate([bias, bias_rows]), rcond=1e-11)[0][:3]
            # the rate of the components in the body: R^T a - Omega x V
            expected = R.T @ found - np.array([-twist[2] * twist[1], twist[2] * twist[0], 0])
            assert_allclose(samples.acceleration.base[k, PLANE], expected, rtol=1e-9, atol=1e-9)


def place(q, x, y):
    """The point (x, y) of a frame q = (x, y, angle) in the world, with the frame's angle."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return jnp.stack([q[0] + c * x - s * y, q[1] + s * x + c * y, q[2]])


def turned(q, angle):
    return q.at[2].add(angle)


def sides(*frames):
    """Rows of wheels without side slip: velocities across the headings of frames (q, t) -> (x, y, angle)."""

    def across(at, going):
        return -jnp.sin(at[2]) * going[0] + jnp.cos(at[2]) * going[1]

    return lambda q, t, moves: jnp.stack([across(frame(q, t), moves(frame)) for frame in frames])


def base_frame(q, t):
    return q


def rolling_speeds(name, t):
    """R theta' of the wheels driven by rows (times the cosine of the roller angle), by name of the row."""
    if name == "unicycle":
        return {"left.roll": 0.1 * (3 + 3 * np.cos(t)), "right.roll": 0.1 * (3 - 3 * np.cos(t))}
    if name == "mecanum":
        ahead, aside = 0.08 * 10 * np.cos(t), -0.08 * 5 * np.sin(t)
        along, against = ahead + aside, ahead - aside
        speeds = {"front-left": against, "front-right": along, "rear-left": along, "rear-right": against}
        return {f"{x}.roller": v / np.sqrt(2) for x, v in speeds.items()}
    if name in ("car", "mobile-manipulator"):
        beta = 0.5 * np.sin(0.7 * t) if name == "car" else np.sin(t)
        x = np.clip(t / 2, 0, 1)
        xi = 10 * x**3 - 15 * x**4 + 6 * x**5 if name == "car" else 1.0
        right, left = (front_wheel(beta, sign) for sign in (1, -1))
        return {"front-right-wheel.roll": xi * right[1], "front-left-wheel.roll": xi * left[1]}
    return {}


def front_wheel(beta, sign, l=1.0, L=0.5):
    """Angle of a front wheel by the corrected compatibility relation, and R times its entry of B_aa (4.22)."""
    angle = np.arctan(np.tan(beta) / (1 + sign * L / (2 * l) * np.tan(beta)))
    b = np.tan(beta) / 2
    return angle, (1 + sign * (L / l) * b) * np.cos(angle) + np.sin(angle) * np.tan(beta)


HEAVY = ("mobile-manipulator", "car", "trikke", "three-axle")

GAIT = dict(phi_amplitude=0.6, phi_rate=1.3, phi_phase=0.4, psi_amplitude=0.9, psi_rate=1.7, psi_phase=-0.3)


@quickly_compiled
def locked_inertia(system, state):
    state, _ = un.kinematics.driven_motion(system, state, 0.0)
    return un.geometry.locomotion_inertia(system, state)[0]


def flat(I):
    return I / 2, I / 2, I
