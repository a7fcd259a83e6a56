"""Four elastic rods in PyElastica: two clamped, two flying.

Each rod has one function, which returns a dict:

    times    (m,)     sample times, every 0.01 s from 0
    tip      (m, 3)   the cantilever's free end, or the flying rod's loaded end
    far      (m, 3)   flying rods only: the other end
    momentum (m, 3)   flying rods only: linear momentum
    dt                the time step used
    steps             number of steps
    wall_per_second   wall seconds of the stepping loop per simulated second
                      (including sampling, excluding numba's compilation)

PyElastica's equations are those of Gazzola et al. 2018: a Cosserat rod whose
section shrinks when it is stretched (constant volume), so that the stiffnesses
fall with the dilatation e: internal force S sigma / e, internal couple
B kappa / e^3, inertia J / e.  For the cantilevers and the stiff flying rod
(e - 1 below 2e-3) that makes no difference; for the soft flying rod it does (its ends move by 0.1 m in
10 s).
"""

import time

import elastica as ea
import numba
import numpy as np
from scipy.integrate import solve_bvp

GRAVITY = 9.81
SAMPLE = 0.01  # s, interval between stored samples
SHEAR_FACTOR = 27.0 / 28.0  # PyElastica's own shear correction for a circular section

# Fraction of the linear stability limit 2 / omega_max that is used, found by
# trial at 50 elements.  The cantilevers are stable up to 1.00 of it and blow up at
# 1.05.  The flying rods blow up at once above 1.0 too, but between about 0.9 and 1.0 they do
# so slowly (the tumbling rod drives its fastest mode), so a smaller fraction is used.
CANTILEVER_SAFETY = 0.97
FLYING_SAFETY = 0.86


class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
    pass


# --------------------------------------------------------------------------------------
# Parameters


class Section:
    """Stiffnesses and inertias per length, in the frame (d1, d2, d3 = tangent)."""

    def __init__(self, shear, bend, mass, inertia):
        self.shear = np.array(shear, float)  # N: shear, shear, stretch
        self.bend = np.array(bend, float)  # N m^2: bending, bending, torsion
        self.mass = float(mass)  # kg / m
        self.inertia = np.array(inertia, float)  # kg m

    @classmethod
    def round(cls, diameter, density, youngs, shear_modulus=None):
        """A circular section; without shear_modulus, Poisson's ratio is 0.5."""
        shear_modulus = youngs / 3 if shear_modulus is None else shear_modulus
        area = np.pi * diameter**2 / 4
        second = np.pi * diameter**4 / 64
        ga = SHEAR_FACTOR * shear_modulus * area
        return cls(
            shear=(ga, ga, youngs * area),
            bend=(youngs * second, youngs * second, shear_modulus * 2 * second),
            mass=density * area,
            inertia=(density * second, density * second, density * 2 * second),
        )


SOFT_CANTILEVER = dict(length=10.0, section=Section.round(0.01, 7800.0, 1e11), tip_force=50.0)
STIFF_CANTILEVER = dict(length=0.4, section=Section.round(0.002, 8000.0, 2e9), tip_force=0.1)
# Force and moment are T(t) times these; T rises at 80 / s until t_peak and falls as fast.
SOFT_FLYING = dict(
    length=10.0,
    section=Section((1e4, 1e4, 1e4), (500.0, 500.0, 500.0), 1.0, (10.0, 10.0, 10.0)),
    start=(6.0, 0.0, 0.0),
    end=(0.0, 8.0, 0.0),
    t_peak=2.5,
    force=(1 / 10, 0.0, 0.0),
    moment=(0.0, -1 / 2, -1.0),
)
STIFF_FLYING = dict(
    length=1.0,
    section=Section.round(0.1, 1e3, 1e6),
    start=(0.6, 0.0, 0.0),
    end=(0.0, 0.8, 0.0),
    t_peak=0.25,
    force=(1 / 2, 0.0, 0.0),
    moment=(0.0, -1 / 40, -1 / 20),
)


@numba.njit(cache=True)
def load(t, t_peak):
    """T(t): 80 t up to t_peak, then back to 0 at 2 t_peak."""
    if t <= t_peak:
        return 80.0 * t
    if t <= 2 * t_peak:
        return 160.0 * t_peak - 80.0 * t
    return 0.0


def stable_step(section, dl):
    """2 / omega_max of the straight rod at rest on elements of length dl.

    The shortest wave of the mesh (sign changing from node to node) is the fastest one:
    axial, torsional, and bending coupled with shear.  The last contains the
    thickness-shear frequency sqrt(kGA / rho I), which does not depend on the mesh: for a
    slender rod it is by far the largest, and the step is about r / c_shear, not dl / c.
    """
    ga, ea_ = section.shear[0], section.shear[2]
    inertia = section.inertia
    axial = 4 * ea_ / (section.mass * dl**2)
    torsion = 4 * section.bend[2] / (inertia[2] * dl**2)
    # Unknowns: deflection and director angle, scaled by the roots of mass and inertia.
    deflection = 4 * ga / (section.mass * dl**2)
    angle = (ga + 4 * section.bend[0] / dl**2) / inertia[0]
    coupling = 2 * ga / (dl * np.sqrt(section.mass * inertia[0]))
    mean, half = 0.5 * (deflection + angle), 0.5 * (deflection - angle)
    bending = mean + np.hypot(half, coupling)
    return 2 / np.sqrt(max(axial, torsion, bending))


# --------------------------------------------------------------------------------------
# Static initial state of the cantilevers


def static_angle(length, section, tip_force, tol=1e-10):
    """theta(s), the angle from -z towards +x, of the hanging rod under its weight and tip_force.

    Kirchhoff's planar rod, EI theta'' = -F cos(theta) + w (L - s) sin(theta) with
    theta(0) = 0 and theta'(L) = 0; solved on s / L.
    """
    f = tip_force * length**2 / section.bend[0]
    w = section.mass * GRAVITY * length**3 / section.bend[0]

    def rhs(s, y):
        return np.vstack((y[1], -f * np.cos(y[0]) + w * (1 - s) * np.sin(y[0])))

    mesh = np.linspace(0, 1, 201)
    guess = np.vstack((np.tanh(5 * mesh), 5 / np.cosh(5 * mesh) ** 2))
    result = solve_bvp(rhs, lambda a, b: np.array([a[0], b[1]]), mesh, guess, tol=tol, max_nodes=100000)
    if not result.success:
        raise RuntimeError(result.message)
    return lambda s: result.sol(np.asarray(s) / length)[0]


def static_tip(length, section, tip_force):
    """(x, z) of the free end in the static initial state, without stretch and shear."""
    angle = static_angle(length, section, tip_force)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    theta = angle(0.5 * length * (nodes + 1))
    half = 0.5 * length
    return half * weights @ np.sin(theta), -half * weights @ np.cos(theta)


def cantilever_layout(length, section, tip_force, elements, plain_clamp=False):
    """Element length, first node and the static positions and directors.

    PyElastica clamps a rod by holding node 0 and the directors of element 0, and those
    directors belong to the element's middle: the rod is clamped dl / 2 below its end,
    which makes the scheme first order in dl.  So element 0 is laid across the clamp, from
    -dl/2 to dl/2, its middle at s = 0: second order, with the same boundary condition.
    plain_clamp keeps the usual layout, for comparison.
    """
    if plain_clamp:
        dl = length / elements
        first = 0.0
    else:
        dl = length / (elements - 0.5)
        first = -0.5 * dl
    mid = first + dl * (np.arange(elements) + 0.5)
    angle = static_angle(length, section, tip_force)
    theta = angle(np.clip(mid, 0, None))
    theta[0] = 0.0 if not plain_clamp else theta[0]

    zero, one = np.zeros(elements), np.ones(elements)
    directors = np.zeros((3, 3, elements))  # [d1, d2, d3], rows in world axes
    directors[0] = (zero, one, zero)
    directors[2] = (np.sin(theta), zero, -np.cos(theta))
    directors[1] = np.cross(directors[2].T, directors[0].T).T

    # Stretch and shear under the internal force, so that no axial wave starts at t = 0.
    hanging = section.mass * GRAVITY * (length - np.clip(mid, 0, None))
    force = np.array((tip_force * one, zero, -hanging))
    strain = np.einsum("ijk,jk->ik", directors, force) / section.shear[:, None]
    strain[2] += 1
    edges = dl * np.einsum("jik,jk->ik", directors, strain)
    positions = np.zeros((3, elements + 1))
    positions[2, 0] = -first
    positions[:, 1:] = positions[:, :1] + np.cumsum(edges, axis=1)
    return dl, positions, directors


# --------------------------------------------------------------------------------------
# PyElastica


def make_rod(section, start, direction, normal, elements, dl):
    """A straight CosseratRod with the given section."""
    rod = ea.CosseratRod.straight_rod(
        elements,
        np.array(start, float),
        np.array(direction, float),
        np.array(normal, float),
        base_length=elements * dl,
        base_radius=dl,  # a placeholder: the true section is set by hand below
        density=1e6,
        youngs_modulus=1e6,
    )
    rod.mass[:] = section.mass * dl
    rod.mass[[0, -1]] *= 0.5
    for i in range(3):
        rod.shear_matrix[i, i] = section.shear[i]
        rod.bend_matrix[i, i] = section.bend[i]
        rod.mass_second_moment_of_inertia[i, i] = section.inertia[i] * dl
        rod.inv_mass_second_moment_of_inertia[i, i] = 1 / (section.inertia[i] * dl)
    return rod


class EndLoad(ea.NoForces):
    """The flying rods' load T(t) on node 0 and element 0, dead in world axes.

    Placing the moment at the middle of the first element preserves the balance of total angular momentum and is
    second order in dl like the rest of the scheme.
    """

    def __init__(self, t_peak, force, moment):
        self.args = (t_peak, np.array(force, float), np.array(moment, float))

    def apply_forces(self, system, time=0.0):
        _end_load(
            system.external_forces,
            system.external_torques,
            system.director_collection,
            time,
            *self.args,
        )


@numba.njit(cache=True)
def _end_load(forces, torques, directors, t, t_peak, force, moment):
    size = load(t, t_peak)
    for i in range(3):
        forces[i, 0] += size * force[i]
        for j in range(3):  # PyElastica's torques are in the directors' frame
            torques[i, 0] += size * directors[i, j, 0] * moment[j]


def run(simulator, rod, dt_max, t_end, stepper=None):
    """Step to t_end; positions of both ends and the momentum every SAMPLE seconds.

    The step is the largest that is at most dt_max and divides SAMPLE.
    """
    simulator.finalize()
    stepper = ea.PositionVerlet() if stepper is None else stepper
    per_sample = int(np.ceil(SAMPLE / dt_max * (1 - 1e-12)))
    dt = SAMPLE / per_sample
    samples = round(t_end / SAMPLE)
    first = np.empty((samples + 1, 3))
    last = np.empty((samples + 1, 3))
    momentum = np.empty((samples + 1, 3))

    def store(k):
        first[k] = rod.position_collection[:, 0]
        last[k] = rod.position_collection[:, -1]
        momentum[k] = rod.velocity_collection @ rod.mass

    store(0)
    step = stepper.step
    t = np.float64(0)
    begin = time.perf_counter()
    for k in range(samples):
        t = np.float64(k * SAMPLE)  # avoids drift from summing times
        for _ in range(per_sample):
            t = step(simulator, t, dt)
        store(k + 1)
        # A blown-up rod would waste the rest of the run.
        if not np.abs(rod.dilatation - 1).max() < 0.5:
            raise FloatingPointError(f"unstable at t = {t:.4g} s with dt = {dt:.4g} s")
    wall = time.perf_counter() - begin
    return dict(
        times=np.arange(samples + 1) * SAMPLE,
        first=first,
        last=last,
        momentum=momentum,
        dt=dt,
        steps=samples * per_sample,
        wall_per_second=wall / (samples * SAMPLE),
    )


def cantilever(rod, t_end, elements=50, dt=None, plain_clamp=False, stepper=None):
    section = rod["section"]
    dl, positions, directors = cantilever_layout(**rod, elements=elements, plain_clamp=plain_clamp)
    simulator = Simulator()
    body = make_rod(section, positions[:, 0], (0, 0, -1), (0, 1, 0), elements, dl)
    # Bend it only now: the straight rod has defined the rest lengths and the zero rest curvature.
    body.position_collection[:] = positions
    body.director_collection[:] = directors
    if plain_clamp:  # the held directors are those of the clamp
        body.director_collection[..., 0] = np.array(((0, 1, 0), (1, 0, 0), (0, 0, -1.0)))
    simulator.append(body)
    simulator.constrain(body).using(ea.OneEndFixedBC, constrained_position_idx=(0,), constrained_director_idx=(0,))
    simulator.add_forcing_to(body).using(ea.GravityForces, acc_gravity=np.array((0, 0, -GRAVITY)))
    dt = CANTILEVER_SAFETY * stable_step(section, dl) if dt is None else dt
    result = run(simulator, body, dt, t_end, stepper)
    del result["first"], result["momentum"]
    result["tip"] = result.pop("last")
    return result


def flying(rod, t_end, elements=50, dt=None, stepper=None):
    section = rod["section"]
    dl = rod["length"] / elements
    start, end = np.array(rod["start"]), np.array(rod["end"])
    direction = (end - start) / np.linalg.norm(end - start)
    simulator = Simulator()
    body = make_rod(section, start, direction, (0, 0, 1), elements, dl)
    simulator.append(body)
    simulator.add_forcing_to(body).using(EndLoad, t_peak=rod["t_peak"], force=rod["force"], moment=rod["moment"])
    dt = FLYING_SAFETY * stable_step(section, dl) if dt is None else dt
    result = run(simulator, body, dt, t_end, stepper)
    result["tip"] = result.pop("first")
    result["far"] = result.pop("last")
    return result


def soft_cantilever(t_end, elements=50, **options):
    """10 m, released from a 50 N pull: the tip falls and whips."""
    return cantilever(SOFT_CANTILEVER, t_end, elements, **options)


def stiff_cantilever(t_end, elements=50, **options):
    """0.4 m, released from a 0.1 N pull."""
    return cantilever(STIFF_CANTILEVER, t_end, elements, **options)


def soft_flying(t_end, elements=50, **options):
    """Simo and Vu-Quoc's flying spaghetti in three dimensions."""
    return flying(SOFT_FLYING, t_end, elements, **options)


def stiff_flying(t_end, elements=50, **options):
    """1 m, 0.1 m thick, E = 1e6 Pa."""
    return flying(STIFF_FLYING, t_end, elements, **options)


RODS = dict(
    soft_cantilever=(soft_cantilever, 2.0),
    stiff_cantilever=(stiff_cantilever, 1.0),
    soft_flying=(soft_flying, 10.0),
    stiff_flying=(stiff_flying, 2.0),
)


def timings(elements=50, budget=10.0):
    """Wall seconds per simulated second of every rod, after one sample of warm-up."""
    for name, (simulate, t_end) in RODS.items():
        warm = simulate(SAMPLE, elements)  # numba compiles (or loads its cache) here
        warm = simulate(SAMPLE, elements)
        t_run = min(t_end, max(SAMPLE, SAMPLE * round(budget / warm["wall_per_second"] / SAMPLE)))
        result = simulate(t_run, elements)
        per_step = result["wall_per_second"] * result["dt"]
        print(
            f"{name:17s} {elements} elements  dt {result['dt']:.3e} s  "
            f"{result['wall_per_second']:9.3f} s/s  {per_step * 1e6:.1f} us/step  (over {t_run:.2f} s)",
            flush=True,
        )


if __name__ == "__main__":
    for rod in (SOFT_CANTILEVER, STIFF_CANTILEVER):
        print("static tip (x, z)", static_tip(**rod))
    timings()
