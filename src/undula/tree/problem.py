"""The hybrid problem on links and joint rates, with its derivatives by implicit differentiation.

Some accelerations are known and the efforts there unknown; elsewhere it is the other way round. The solution comes from
the articulated or the composite recursion; its derivatives do not go through them. It satisfies the inverse dynamics

    ID(inputs, accelerations) = efforts          at the unknown rates and base directions

so that its derivative needs one derivative of ID, which is a cheap recursion, and one solve with the same inertia:
three times cheaper in reverse mode than a transposed elimination, and much faster to compile.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.inertia import Blocks, Rigid
from undula.model.links import JointNumbers
from undula.model.topology import Topology
from undula.numerics.checkpoint import SOLUTION
from undula.numerics.small import matvec
from undula.tree.articulated import articulated, solve_base
from undula.tree.composite import composites, locked_inertia
from undula.tree.frames import link_frames
from undula.tree.inverse import newton_euler, project, span
from undula.tree.relative import Relative, by_link, by_rate, joint_bias, relative_motion


class Roles(NamedTuple):
    """What is unknown (static): base directions, and joint rates as a tuple of booleans."""

    top: Topology
    base: tuple[int, ...]
    unknown: tuple[bool, ...]


class Inputs(NamedTuple):
    """Everything that is given. Rates are joint rates, mimics included; the base is in its own frame, less gravity."""

    joints: tuple[JointNumbers, ...]
    inertia: Rigid | Blocks
    armature: Float[Array, "rates"] | None
    q: Array
    v: Float[Array, "rates"]
    dv: Float[Array, "rates"]  # where it is known
    effort: Float[Array, "rates"]  # where it is known; springs and dampers included
    eta0: Float[Array, "6"]
    deta0: Float[Array, "6"]  # where it is known, less gravity
    external: Float[Array, "links 6"] | None


class Outputs(NamedTuple):
    """Accelerations (the base's less gravity) and efforts everywhere; `wrench` is that of the world on the base."""

    deta0: Float[Array, "6"]
    dv: Float[Array, "rates"]
    effort: Float[Array, "rates"]
    wrench: Float[Array, "6"]


def inverse(top: Topology, given: Inputs, deta0: Array, dv: Array) -> tuple[Array, Array]:
    """Base wrench and efforts of the joint rates for these accelerations."""
    rel, rate, gain = _moved(top, given, dv)
    F = newton_euler(top.slots, given.inertia, rel, given.eta0, deta0, rate, gain, given.external)
    return F[0], _efforts(top, given, rel, F, dv)


def _moved(top: Topology, given: Inputs, dv: Array) -> tuple[Relative, Array, Array]:
    """Relative poses, twists S v and accelerations S v' + S' v across the joints."""
    rel = relative_motion(top, given.joints, given.q)
    rate, gain = span(rel.S, by_link(top, given.v)), span(rel.S, by_link(top, dv))
    bias = joint_bias(top, given.joints, given.q, given.v)
    return rel, rate, gain if bias is None else gain + bias


def _efforts(top: Topology, given: Inputs, rel: Relative, F: Array, dv: Array) -> Array:
    out = by_rate(top, project(rel.S, F[1:]))
    return out if given.armature is None else out + given.armature * dv


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def solve(roles: Roles, given: Inputs) -> Outputs:
    """The unknown accelerations, and the efforts that go with them."""
    top, inertia = roles.top, given.inertia
    free, unknown = _masks(roles)
    start = given.deta0 * (1 - free), jnp.where(unknown, 0.0, given.dv)
    if unknown.any():
        rel = relative_motion(top, given.joints, given.q)
        bias = joint_bias(top, given.joints, given.q, given.v)
        v, gains, efforts = (by_link(top, x) for x in (given.v, start[1], given.effort))
        armature = None if given.armature is None else by_link(top, given.armature)
        which = by_link_mask(top, unknown)
        out = articulated(
            top,
            inertia,
            rel,
            bias,
            roles.base,
            given.eta0,
            start[0],
            v,
            gains,
            efforts,
            which,
            given.external,
            armature,
        )
        return Outputs(out.deta0, by_rate(top, out.dv), by_rate(top, out.effort), out.wrench0)
    rel, rate, gain = _moved(top, given, start[1])
    deta0 = start[0]
    if roles.base:
        # the locomotion model M_o+ eta_o' = F_o+ (3.18), F_o+ from a recursion with eta_o' = 0 (3.28)
        F = newton_euler(top.slots, inertia, rel, given.eta0, deta0, rate, gain, given.external)
        R, p = link_frames(top, rel, jnp.eye(3), jnp.zeros(3))
        M = locked_inertia(composites(top, inertia, R, p))
        deta0 = solve_base(M, F[0] - matvec(M, deta0), roles.base, deta0)
    F = newton_euler(top.slots, inertia, rel, given.eta0, deta0, rate, gain, given.external)
    return Outputs(deta0, start[1], _efforts(top, given, rel, F, start[1]), F[0])


@solve.defjvp
def _solve_jvp(roles: Roles, primals: tuple[Inputs], tangents: tuple[Inputs]):
    (given,), (change,) = primals, tangents
    found = jax.tree.map(lambda x: checkpoint_name(x, SOLUTION), solve(roles, given))
    free, unknown = _masks(roles)

    def at_fixed_accelerations(given):
        deta0 = jnp.where(free, found.deta0, given.deta0)
        dv = jnp.where(unknown, found.dv, given.dv)
        return inverse(roles.top, given, deta0, dv)

    _, (dwrench, deffort) = jax.jvp(at_fixed_accelerations, (given,), (change,))
    still = _at_rest(given)

    def inertia(x):  # the mass matrix of the unknown rates
        wrench, effort = inverse(roles.top, still, free * x[:6], unknown * x[6:])
        return jnp.concatenate([free * wrench, unknown * effort])

    def invert(_, right):
        n = len(roles.top.link_parents)
        push = jnp.concatenate([right[None, :6], jnp.zeros((n, 6))]) if roles.base else None
        out = solve(roles, still._replace(effort=right[6:], external=push))
        return jnp.concatenate([free * out.deta0, unknown * out.dv])

    # one vector: JAX transposes a linear solve only if all of its right-hand side is being differentiated
    right = jnp.concatenate([-(free * dwrench), unknown * (change.effort - deffort)])
    gains = jax.lax.custom_linear_solve(inertia, right, invert, symmetric=True)
    gain0, gain = gains[:6], gains[6:]
    more_wrench, more_effort = inverse(roles.top, still, gain0, gain)
    # what is known must not seem to depend on the rest: in `grad` of `vmap` of `jit`, JAX gives a result the batch axis of its
    # derivative only after it has traced everything that follows
    return found, Outputs(
        jnp.where(free, gain0, change.deta0) if free.any() else change.deta0,
        jnp.where(unknown, gain, change.dv) if unknown.any() else change.dv,
        deffort + more_effort,
        dwrench + more_wrench,
    )


def _masks(roles: Roles) -> tuple[np.ndarray, np.ndarray]:
    free = np.zeros(6, bool)
    free[list(roles.base)] = True
    return free, np.array(roles.unknown, dtype=bool)


def _at_rest(given: Inputs) -> Inputs:
    """The same configuration without velocities, gravity, efforts or known accelerations: what is left is linear."""
    zero = jnp.zeros_like
    return given._replace(
        v=zero(given.v),
        dv=zero(given.dv),
        effort=zero(given.effort),
        eta0=zero(given.eta0),
        deta0=zero(given.deta0),
        external=None,
    )


def by_link_mask(top: Topology, mask: np.ndarray) -> Array:
    """Booleans of the joint rates as one padded row per joint; padding is False."""
    out = np.zeros((len(top.link_parents), top.columns), bool)
    out[top.rate_link - 1, top.rate_column] = mask
    return jnp.asarray(out)
