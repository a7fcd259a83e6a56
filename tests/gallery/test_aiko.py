"""The snake robot Aiko against other formulations: absolute coordinates, MuJoCo, the laws as printed."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undula as un
from undula import gallery
from undula.balance.limits import check_references
from undula.scenario.scenario import run_scenario

G = 9.81


def defaults(name, **changes):
    return {x.name: x.default for x in gallery.load(name).parameters} | changes


@eqx.filter_jit
def advanced(system, state, dt, steps, method):
    """State after some steps; numbers are arrays, so that changing them does not recompile."""
    return un.advance(system, state, dt, steps, integrator=method)[0]


def after(setup, dt, seconds):
    """Centre of mass after some time [m]."""
    end = advanced(
        setup.system, setup.state, jnp.asarray(dt), jnp.asarray(round(seconds / dt)), un.integrators.Moreau()
    )
    return np.asarray(un.kinematics.centre_of_mass(setup.system, end))


@eqx.filter_jit
def _path(system, state, dt, every, samples):
    method = un.integrators.Moreau()

    def sample(carry, k):
        carry = un.advance(system, carry[0], dt, every, k * every * dt, method, carry[1])[:2]
        return carry, un.kinematics.centre_of_mass(system, carry[0])

    memory = method.init(system, 0.0, state)
    return jax.lax.scan(sample, (state, memory), jnp.arange(samples))[1]


def path(setup, per_second, seconds):
    """Centre of mass every tenth of a second [m], with the given number of steps in each."""
    dt, every = jnp.asarray(1 / per_second), jnp.asarray(per_second // 10)
    return np.asarray(_path(setup.system, setup.state, dt, every, round(10 * seconds)))


# Document 003 in NumPy: each link is a separate body, connected to the next one by rows.


def skew(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def turn(a):
    """Rotation by a vector (Rodrigues)."""
    angle = np.linalg.norm(a)
    if angle < 1e-12:
        return np.eye(3) + skew(a)
    A = skew(a / angle)
    return np.eye(3) + np.sin(angle) * A + (1 - np.cos(angle)) * A @ A


def of_quaternion(q):
    w, x, y, z = q
    K = skew([x, y, z])
    return np.eye(3) + 2 * w * K + 2 * K @ K


class At(NamedTuple):
    """A state of the robot, as NumPy arrays."""

    position: np.ndarray
    quaternion: np.ndarray
    q: np.ndarray
    twist: np.ndarray
    v: np.ndarray

    @staticmethod
    def of(s):
        return At(*(np.asarray(x) for x in (s.base.position, s.base.quaternion, s.q, s.base_twist, s.v)))

    @staticmethod
    def sample(data, k):
        names = "base_position", "base_quaternion", "position", "base_twist", "velocity"
        return At(*(data[x].values[k] for x in names))


def places(p, at):
    """Centres (n, 3) and rotations (n, 3, 3) of the links: base, then rotations about z and about -y at each joint."""
    R, x = [of_quaternion(at.quaternion)], [at.position]
    half = np.array([p["length"] / 2, 0, 0])
    for h, v in at.q.reshape(-1, 2):
        R.append(R[-1] @ turn(np.array([0, 0, h])) @ turn(np.array([0, -v, 0])))
        x.append(x[-1] - R[-2] @ half - R[-1] @ half)
    return np.array(x), np.array(R)


def reference(p, t):
    """Angles and rates (joints, 2) of the gait, (70) and (71)."""
    k = np.arange(p["n"] - 1)
    angle, rate = [], []
    for way, first in (("h", 0.0), ("v", p["phase_0"])):
        a, w, phase = p[f"amplitude_{way}"], p[f"rate_{way}"], k * p[f"phase_{way}"] + first
        angle.append(a * np.sin(w * t + phase))
        rate.append(a * w * np.cos(w * t + phase))
    return np.stack(angle, 1), np.stack(rate, 1)


def spheres(p, x, R):
    """Gaps (2n,) above the plane z = 0, and arms from the link centres to the contact points."""
    arms = np.array(
        [R[i, :, 0] * s - [0, 0, p["radius"]] for i in range(p["n"]) for s in (p["sphere_offset"], -p["sphere_offset"])]
    )
    return (np.repeat(x, 2, 0) + arms)[:, 2], arms


def tangents(R):
    """Unit vectors along and across a link, on the plane."""
    along = R[:, 0] * [1, 1, 0]
    along /= np.linalg.norm(along)
    return along, np.cross([0, 0, 1], along)


class Absolute:
    """Aiko with six velocities per link (of its centre and angular, both in the world) and four rows per joint."""

    def __init__(self, p, x, R, velocity, spin):
        self.p, self.x, self.R = p, x.copy(), R.copy()
        n = p["n"]
        self.u = np.stack([np.concatenate([velocity + np.cross(spin, c - x[0]), spin]) for c in x]).reshape(-1)
        self.P = np.zeros((2 * n, 3))
        self.inertia = np.diag([p["inertia_long"], p["inertia_across"], p["inertia_across"]])
        self.gains = [np.tile([p[f"{k}_h"], p[f"{k}_v"]], n - 1) for k in ("kp", "kd")]

    def moved(self, h):
        u = self.u.reshape(-1, 6)
        return self.x + h * u[:, :3], np.array([turn(h * w) @ R for w, R in zip(u[:, 3:], self.R)])

    def step(self, t, dt):
        p, n, half = self.p, self.p["n"], np.array([self.p["length"] / 2, 0, 0])
        self.x, self.R = self.moved(dt / 2)  # (72)
        x, R = self.x, self.R
        M, force = np.zeros((6 * n, 6 * n)), np.zeros(6 * n)
        for i in range(n):
            at, w, I = 6 * i, self.u[6 * i + 3 : 6 * i + 6], R[i] @ self.inertia @ R[i].T
            m = p["mass"] / n
            M[at : at + 3, at : at + 3], M[at + 3 : at + 6, at + 3 : at + 6] = m * np.eye(3), I
            force[at + 2], force[at + 3 : at + 6] = -m * G, -np.cross(w, I @ w)
        # joints: the ends coincide, z of the link in front is perpendicular to y of the one behind; angles and their rates
        W, D, angle = np.zeros((4 * (n - 1), 6 * n)), np.zeros((2 * (n - 1), 6 * n)), []
        for i in range(n - 1):
            a, b, z, y = 6 * i, 6 * i + 6, R[i][:, 2], R[i + 1][:, 1]
            W[4 * i : 4 * i + 3, a : a + 6] = np.hstack([np.eye(3), skew(R[i] @ half)])
            W[4 * i : 4 * i + 3, b : b + 6] = np.hstack([-np.eye(3), skew(R[i + 1] @ half)])
            W[4 * i + 3, a + 3 : a + 6], W[4 * i + 3, b + 3 : b + 6] = np.cross(z, y), -np.cross(z, y)
            for k, axis in enumerate((z, -y)):
                D[2 * i + k, b + 3 : b + 6], D[2 * i + k, a + 3 : a + 6] = axis, -axis
            behind, ahead = R[i].T @ y, R[i + 1].T @ z
            angle += [np.arctan2(-behind[0], behind[1]), np.arctan2(ahead[0], ahead[2])]
        kp, kd = self.gains  # controllers at the end of the step: angle + dt/2 (rate at the end)
        wanted, rate = (a.reshape(-1) for a in reference(p, t + dt))
        H = M + dt * D.T @ ((kd + dt / 2 * kp)[:, None] * D)
        right = M @ self.u + dt * force + dt * D.T @ (-kp * (np.array(angle) - wanted) + kd * rate)
        # contacts: rows of the normal, and of the friction times its coefficients
        gap, arms = spheres(p, x, R)
        closed = np.flatnonzero(gap <= 1e-10)
        J = np.zeros((3 * len(closed), 6 * n))
        for k, c in enumerate(closed):
            along, across = tangents(R[c // 2])
            for row, way in enumerate((np.array([0, 0, 1.0]), p["mu_x"] * along, p["mu_y"] * across)):
                J[3 * k + row, 6 * (c // 2) : 6 * (c // 2) + 6] = np.concatenate([way, np.cross(arms[c], way)])
        rows = len(W)
        whole = np.block([[H, W.T], [W, np.zeros((rows, rows))]])
        out = np.linalg.solve(whole, np.vstack([np.column_stack([J.T, right]), np.zeros((rows, len(J) + 1))]))
        free, back = out[: 6 * n, -1], out[: 6 * n, :-1]
        P = gauss_seidel(J @ back, J @ free, self.P[closed].reshape(-1))
        self.P[closed] = P.reshape(-1, 3)
        self.u = free + back @ P
        self.x, self.R = self.moved(dt / 2)  # (83)


def gauss_seidel(D, g, P):
    """-(D P + g) is in the normal cone of the set of P: no tension, friction in a disc; contact by contact."""
    for _ in range(2000):
        before = P.copy()
        for k in range(0, len(P), 3):
            P[k] = max(0.0, P[k] - (D[k] @ P + g[k]) / D[k, k])
            size = max(D[k + 1, k + 1], D[k + 2, k + 2])
            f = P[k + 1 : k + 3] - (D[k + 1 : k + 3] @ P + g[k + 1 : k + 3]) / size
            P[k + 1 : k + 3] = f * min(1.0, P[k] / max(np.hypot(*f), 1e-300))
        if np.abs(P - before).max(initial=0.0) < 1e-10:
            break
    return P


def thrown(n, **more):
    """(parameters, system, state): a robot in the shape of its gait, in motion, tilted, just above the ground."""
    changed = dict(n=n, amplitude_v=0.3, rate_h=6.0, rate_v=8.0, phase_0=1.0, **more)
    p = defaults("aiko-lateral", **changed)
    system = gallery.load("aiko-lateral").setup(**changed).system

    def state(height):
        return system.state(
            reference(p, 0.0)[0].reshape(-1),
            base_position=(0, 0, height),
            base_quaternion=(np.cos(0.05), 0, np.sin(0.05), 0),
            base_twist=(0.5, 0.2, -0.3, 0.5, 0.3, 1.0),
        )

    return p, system, state(1e-4 - spheres(p, *places(p, At.of(state(0.0))))[0].min())


@pytest.mark.long
def test_absolute_coordinates():
    """The same motion as with one body per link, rows per joint and another solver, through impacts, sticking and slipping.

    Both are first order but enforce different things in a step: the joint rows hold at its midpoint, so that joints
    in absolute coordinates open in proportion to their rotation in a step, and penetration from an impact remains.
    The difference is of the size of these depths and decreases with the step.
    """
    p, system, start = thrown(4)
    x, R = places(p, At.of(start))
    exact = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=1e-10, max_iterations=10_000))
    differences = []
    for dt in (1e-3, 1.25e-4):
        run = un.run(system, start, t_end=0.1, dt=dt, save_every=50, integrator=exact)
        assert run.ok
        other = Absolute(p, x, R, *(np.asarray(start.base_twist).reshape(2, 3) @ R[0].T))
        for k in range(round(0.1 / dt)):
            other.step(k * dt, dt)
        mine = places(p, At.sample(run.data, -1))
        assert np.abs(other.x - x).max() > 0.03 and other.P[:, 0].max() / dt > 10
        differences.append(np.abs(mine[0] - other.x).max())
        assert differences[-1] < 3 * float(run.data.contact_penetration.max())
    assert differences[1] < min(3e-4, 0.4 * differences[0])


class TestMotion:
    @pytest.mark.long
    def test_mujoco(self):
        """Mean velocity over a period of sidewinding, by MuJoCo with stiff contacts; isotropic friction, as it has no other."""
        from mujoco_aiko import Twin

        period = 2 * np.pi / defaults("aiko-sidewinding")["rate_h"]
        path = Twin("aiko-sidewinding", 1 + period, stiff=True).centres()
        theirs = (path[-1] - path[4000]) / period
        setup = gallery.load("aiko-sidewinding").setup()
        ours = (after(setup, 1e-3, 1 + period) - after(setup, 1e-3, 1.0)) / period
        assert theirs[1] > 0.05
        assert np.linalg.norm((ours - theirs)[:2]) < 0.1 * theirs[1]

    @pytest.mark.long
    @pytest.mark.parametrize("name", ["aiko-lateral", "aiko-lateral-isotropic"])
    def test_converges(self, name):
        """Errors of a flat robot's path are proportional to the step."""
        setup, steps = gallery.load(name).setup(), (500, 1000, 2000, 16_000)
        *paths, finest = (path(setup, per_second, 2.0) for per_second in steps)
        errors = [np.linalg.norm(x - finest, axis=1).max() for x in paths]
        assert errors[0] < 0.06 * np.ptp(finest, axis=0).max()
        assert errors[1] < 0.7 * errors[0] and errors[2] < 0.45 * errors[0]  # order one: 0.5 and 0.25

    @pytest.mark.long
    def test_converges_through_impacts(self):
        """A robot that lifts its links and sets them down; and the velocity obtained with steps of 1 ms."""
        setup = gallery.load("aiko-sidewinding").setup()
        *paths, finest = (path(setup, per_second, 4.5) for per_second in (4000, 16_000, 32_000))
        coarse, fine = (np.sqrt(((x - finest) ** 2).sum(1).mean()) for x in paths)
        assert coarse < 0.03 * np.ptp(finest, axis=0).max() and fine < 0.8 * coarse
        velocity = [after(setup, dt, 5.5)[1] - after(setup, dt, 1.0)[1] for dt in (1 / 1000, 1 / 4000)]
        assert abs(velocity[0] / velocity[1] - 1) < 0.035


class TestLaws:
    """Orthotropic friction in every step of a robot thrown onto the ground, against the laws as printed."""

    @pytest.fixture(scope="class")
    @classmethod
    def motion(cls):
        """Parameters and data; for each step and contact: (normal, along, across) of the force and of the velocity."""
        p, system, start = thrown(6, mu_x=0.4, mu_y=0.8)
        exact = un.integrators.Moreau(un.contact.GaussSeidel(tolerance=1e-9, max_iterations=10_000))
        run = un.run(system, start, t_end=0.2, dt=2.5e-4, save_every=1, integrator=exact)
        assert run.ok
        data = run.data
        pushed = data.contact_force.values
        force, velocity = [], []
        for k in range(data.sizes["time"] - 1):
            before, end = At.sample(data, k), At.sample(data, k + 1)
            x, R = places(p, half_way(before, 1.25e-4))
            _, R_end = places(p, end)
            u = link_velocities(p, R, end)
            _, arms = spheres(p, x, R)
            for c in range(2 * p["n"]):
                i = c // 2
                force.append([pushed[k + 1, c, 2], *(pushed[k + 1, c] @ way for way in tangents(R_end[i]))])
                v = u[i, :3] + np.cross(u[i, 3:], arms[c])
                velocity.append([v[2], *(v @ way for way in tangents(R[i]))])
        shape = data.sizes["time"] - 1, 2 * p["n"], 3
        return p, data, np.reshape(force, shape), np.reshape(velocity, shape)

    def test_no_pull(self, motion):
        _, _, force, velocity = motion
        pushing = force[..., 0] > 0
        assert (force[..., 0] >= 0).all() and pushing.sum() > 200
        assert np.abs(velocity[..., 0][pushing]).max() < 1e-6  # a pushing contact stays closed

    def test_friction(self, motion):
        p, _, force, velocity = motion
        mu, scale = np.array([p["mu_x"], p["mu_y"]]), force.max()
        normal, friction, slip = force[..., 0], force[..., 1:], velocity[..., 1:]
        assert (friction * slip).sum(-1).max() < 1e-9 * scale  # it never supplies power
        assert (np.linalg.norm(friction / mu, axis=-1) <= normal + 1e-9 * scale).all()  # it is inside the ellipse
        size = np.linalg.norm(mu * slip, axis=-1)
        pushing = normal > 1e-3 * scale
        slides, sticks = pushing & (size > 1e-5), pushing & (size < 1e-7)
        assert min(slides.sum(), sticks.sum()) > 30
        # the point of the ellipse with maximum dissipation: the slip is normal to the ellipse there
        most = -normal[..., None] * mu**2 * slip / np.maximum(size, 1e-12)[..., None]
        assert np.abs(friction - most)[slides].max() < 1e-6 * scale
        within = np.linalg.norm(friction / mu, axis=-1)[sticks] / normal[sticks]
        assert within.min() < 0.9  # sticking contacts carry the required force, not the maximum

    def test_vertical_momentum(self, motion):
        """Normal forces minus the weight change the vertical momentum."""
        p, data, force, _ = motion
        dt = data.attrs["dt"]
        at = [At.sample(data, k) for k in range(data.sizes["time"])]
        speed = [link_velocities(p, places(p, x)[1], x)[:, 2].mean() for x in at]
        gained = p["mass"] * (np.array(speed)[1:] - speed[0])
        given = dt * np.cumsum(force[..., 0].sum(1) - p["mass"] * G)
        assert np.ptp(gained) > 1.0  # kg m/s
        assert np.abs(gained - given).max() < 0.012 * np.ptp(gained)


def half_way(at, h):
    """The state after a time h at constant velocities: the base moves straight while rotating."""
    V, W = at.twist[:3], at.twist[3:]
    size = np.linalg.norm(W)
    a, b = np.cos(size * h / 2), np.sin(size * h / 2) * W / size
    w, r = at.quaternion[0], at.quaternion[1:]
    turned = np.array([w * a - r @ b, *(w * b + a * r + np.cross(r, b))])
    return At(at.position + h * of_quaternion(at.quaternion) @ V, turned, at.q + h * at.v, at.twist, at.v)


def link_velocities(p, R, at):
    """(n, 6): velocities of the links' centres and angular velocities, in the world, where R rotates the links."""
    own, half = of_quaternion(at.quaternion), np.array([p["length"] / 2, 0, 0])
    v, w = own @ at.twist[:3], own @ at.twist[3:]
    out = [np.concatenate([v, w])]
    for i, (h, b) in enumerate(at.v.reshape(-1, 2)):
        v = v - np.cross(w, R[i] @ half)
        w = w + h * R[i][:, 2] - b * R[i + 1][:, 1]
        v = v - np.cross(w, R[i + 1] @ half)
        out.append(np.concatenate([v, w]))
    return np.array(out)


class TestRefusals:
    """Steps that are too long are reported before a run, or when it has failed."""

    def arm(self, kp, reference):
        b = un.Builder("arm")
        b.base("ground")
        b.body("arm", "ground", un.Revolute((0, -1, 0)), mass=1.0, com=(0.5, 0, 0), inertia=0.01)
        b.force("arm", un.forces.ProportionalDerivative(kp, 1.0, reference))
        return b.build()

    @pytest.mark.parametrize(
        "reference, words",
        [
            (un.laws.Function(lambda t: 1 / (0.5 - t)), "of 'arm' is inf at t = 0.5 s; it must be finite"),
            (
                un.laws.Function(lambda t: jnp.exp(60 * t)),
                r"is 1\S* at t = 0\.3\S* s; it must be finite, and below 1e\+09",
            ),
            (un.laws.Function(lambda t: jnp.nan * t), "is nan at t = 0 s; it must be finite"),
            # as fast as the steps: it has the same value in every step
            (un.laws.Sinusoid(0.5, 200 * np.pi), "is too fast for dt = 0.01 s, .*; dt must be at most 0.0016 s"),
        ],
    )
    def test_references(self, reference, words):
        with pytest.raises(un.UndulaError, match=words):
            un.run(self.arm(100.0, reference), t_end=1.0, dt=0.01)

    def test_gait(self):
        with pytest.raises(un.UndulaError, match=r"controller of 'link2\.first' is too fast for dt = 0\.00025 s"):
            run_scenario(gallery.load("aiko-sidewinding"), {"rate_h": 1e4, "n": 3})

    def test_what_a_step_can_follow_is_not_refused(self):
        """A rotation at a constant rate, a jump, and a wave of three steps per radian."""
        reference = un.laws.Delayed(un.laws.Polynomial([0.0, 300.0]), 0.5), un.laws.Sinusoid(0.5, 33.0)
        for law in reference:
            check_references(self.arm(1.0, law), 100, 0.01)

    def test_stiff(self):
        """A controller too stiff for an explicit step; sqrt(1e4 / 0.26) = 196 rad/s by hand."""
        run = un.run(self.arm(1e4, 0.3), t_end=5.0, dt=0.02, save_every=1)
        assert run.status == "failed" and run.data.sizes["time"] > 2
        assert "too stiff for RungeKutta4 with dt = 0.02 s: dt must be below about 0.01 s" in run.message
        with pytest.raises(un.UndulaError, match="kp = nan is not finite"):
            self.arm(np.nan, 0.0)


class TestElsewhere:
    @pytest.mark.long
    def test_posts_push_it_forward(self):
        """The gait that moves backward by friction alone; the posts' push balances the ground's drag, a part of mu m g."""
        setup = gallery.load("aiko-obstacles").setup()
        run = un.run(setup.system, setup.state(setup.system), t_end=1.4, dt=2e-3, save_every=1)
        assert run.ok
        moved = run.data.body_position.values.mean(1)
        assert moved[-1, 0] - moved[0, 0] > 0.1
        posts = run.data.contact.str.endswith(".1").values
        push, drag = (run.data.contact_force.values[350:, x, 0].sum(1).mean() for x in (posts, ~posts))
        assert 0.2 < push / (0.2 * 7.5 * G) < 1.0 and drag == pytest.approx(-push, rel=0.2)

    @pytest.mark.parametrize(
        "slope, changed, expected",
        [
            (0.3, dict(mu_x=0.0, mu_y=1e-9, heading=0.4), -np.sin(0.3)),  # whatever the gait
            pytest.param(
                0.3, dict(amplitude_h=0.0), 0.1 * np.cos(0.3) - np.sin(0.3), marks=pytest.mark.long
            ),  # straight, down along its links
            (0.09, dict(amplitude_h=0.0), 0.0),  # tan(slope) < 0.1
        ],
    )
    def test_slope(self, slope, changed, expected):
        """Its centre of mass moves like a block: acceleration up the slope over g, none across."""
        p = defaults("aiko-slope", n=4, slope=slope, **changed)
        setup = gallery.load("aiko-slope").setup(n=4, slope=slope, **changed)
        run = un.run(setup.system, setup.state, t_end=0.3, dt=1e-3)
        assert run.ok
        data = run.data
        moved = np.subtract(*(places(p, At.sample(data, k))[0].mean(0) for k in (-1, 0)))
        up = np.array([np.cos(slope), 0, np.sin(slope)])
        assert moved @ up == pytest.approx(expected * G * 0.3**2 / 2, abs=1e-4)
        assert np.abs(moved - up * (moved @ up)).max() < 1e-4
