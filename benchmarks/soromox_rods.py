"""The two cantilevers in SoRoMoX: geometric variable strain (GVS), bending only.

Model: one GVS segment clamped at its base, with one strain component, the curvature in the plane
of the motion, as a Legendre series of the given order (order + 1 coordinates).  Stretch, shear
and torsion are left out (a Kirchhoff rod, with rotary inertia): with them explicit integrators would have to
resolve waves that are orders of magnitude faster.  Kinematics by the 4th order Magnus
expansion between Gauss points, dense mass matrix, Coriolis terms included.  No damping.

Integrator: Diffrax's, through SoRoMoX's own rollout_to: by default Tsit5 (5th order explicit) with a
constant step, SoRoMoX's default, or any other solver with step control.

Each function returns a dict: times, tip (m, 3), dt (or None), wall_per_second (the compiled
rollout, second call), compile_seconds (first call minus second), omega_max (at the start).
"""

import os

# One thread, as for the other programs; must be set before jax is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import functools
import time

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from soromox.systems.components import JointSpec, LinkSpec
from soromox.systems.gvs import GVS, GVSSegment, StrainBasisSpec
from soromox.systems.system_state import SystemState

GRAVITY = 9.81
SAMPLE = 0.01

SOFT = dict(length=10.0, radius=0.005, density=7800.0, youngs=1e11, tip_force=50.0)
STIFF = dict(length=0.4, radius=0.001, density=8000.0, youngs=2e9, tip_force=0.1)
RODS = dict(soft=SOFT, stiff=STIFF)


def make(rod, order, gauss):
    """The GVS model; its x axis is that of the rod, rotated about +y so that it hangs along -z."""
    segment = GVSSegment(
        link=LinkSpec.circular(
            length=rod["length"],
            radius=rod["radius"],
            density=rod["density"],
            reference_strain=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            young_modulus=rod["youngs"],
            shear_modulus=rod["youngs"] / 3,
        ),
        joint=JointSpec(type="fixed"),
        basis=StrainBasisSpec(type="legendre", strain_selector=("kappa_y",), basis_order=order),
        num_gauss_points=gauss,
    )
    half = np.sqrt(0.5)
    return GVS.from_segments(
        [segment],
        gravity=jnp.array((0.0, 0.0, -GRAVITY)),
        base_pose=jnp.array((0.0, half, 0.0, half, 0.0, 0.0, 0.0)),
        # Coordinates of order 1 for the length of either rod.
        scale_rotational_basis_by_length=True,
    )


def tip_of(robot, q):
    return robot._homogeneous_forward_kinematics(q, robot.length)[:3, 3]


def static(robot, rod):
    """Coordinates at rest under weight and tip force: Newton on the potential energy.

    The force is increased in stages, which keeps Newton's method close to the solution.
    """

    def energy(q, force):
        return 0.5 * q @ robot.stiffness_matrix() @ q + robot.gravitational_energy(q) - force * tip_of(robot, q)[0]

    gradient = jax.jit(jax.grad(energy))
    hessian = jax.jit(jax.jacfwd(jax.grad(energy)))
    q = jnp.zeros(robot.num_velocities)
    for force in rod["tip_force"] * np.linspace(0.05, 1, 20):
        for _ in range(50):
            change = jnp.linalg.solve(hessian(q, force), gradient(q, force))
            q = q - change
            if jnp.abs(change).max() < 1e-11:
                break
    return q


@functools.cache
def prepare(name, order, gauss):
    """Model, static initial state and largest frequency; cached, since compilation takes half a minute."""
    robot = make(RODS[name], order, gauss)
    q0 = static(robot, RODS[name])
    mass, stiff = robot.inertia_matrix(q0), robot.stiffness_matrix()
    omega = np.sqrt(np.linalg.eigvals(np.linalg.solve(mass, stiff)).real.max())
    return robot, q0, float(omega)


def cantilever(name, t_end, order, gauss=None, dt=None, solver=None, tolerance=None):
    """dt None: 1.0 / omega_max (a stable step).  tolerance: step control instead of a constant dt."""
    gauss = order + 8 if gauss is None else gauss
    robot, q0, omega = prepare(name, order, gauss)
    # Constant steps must hit the samples exactly: between steps Tsit5 interpolates only at 4th order.
    dt = 1.0 / omega if dt is None else dt
    dt = SAMPLE / np.ceil(SAMPLE / dt * (1 - 1e-12))
    times = jnp.arange(round(t_end / SAMPLE) + 1) * SAMPLE
    if tolerance is None:
        controller = diffrax.ConstantStepSize()
    else:
        controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)

    @eqx.filter_jit
    def roll(y0, dt):
        state = robot.rollout_to(
            SystemState(t=jnp.array(0.0), y=y0),
            t1=t_end,
            solver_dt=dt,
            save_ts=times,
            solver=solver,
            stepsize_controller=controller,
        )
        return state.y

    y0 = jnp.concatenate((q0, jnp.zeros_like(q0)))
    walls = []
    for _ in range(2):  # the first call compiles
        begin = time.perf_counter()
        ys = jax.block_until_ready(roll(y0, jnp.array(dt)))
        walls.append(time.perf_counter() - begin)

    n = q0.shape[0]

    @jax.jit
    def total(y):
        q, v = y[:n], y[n:]
        return (
            0.5 * v @ robot.inertia_matrix(q) @ v
            + 0.5 * q @ robot.stiffness_matrix() @ q
            + robot.gravitational_energy(q)
        )

    tips = jax.jit(jax.vmap(lambda y: tip_of(robot, y[:n])))(ys)
    at_rest = total(jnp.zeros_like(y0))
    first, last = total(ys[0]), total(ys[-1])
    return dict(
        times=np.asarray(times),
        tip=np.asarray(tips),
        dt=None if tolerance else float(dt),
        wall_per_second=walls[1] / t_end,
        compile_seconds=walls[0] - walls[1],
        omega_max=omega,
        energy_drift=float((last - first) / (first - at_rest)),
    )


def soft_cantilever(t_end, order=12, **options):
    return cantilever("soft", t_end, order, **options)


def stiff_cantilever(t_end, order=12, **options):
    return cantilever("stiff", t_end, order, **options)


if __name__ == "__main__":
    # name, order, step [s]: found to be the quickest on these rods at PyElastica's accuracy with 50 elements
    import sys

    name, order, dt = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    result = cantilever(name, 0.5, order, dt=dt)
    print(result["wall_per_second"], result["compile_seconds"])
