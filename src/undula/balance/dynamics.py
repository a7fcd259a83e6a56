"""Dynamics of a system in a state: the functions that users call. All can be jitted, vmapped and differentiated.

Generalised velocities are ordered as (base directions, coordinates): the components of the base twist that a free
base's group leaves free (none for a fixed or driven base), then the internal coordinates.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.joints.kind import Relative
from undula.joints.rod.group import scatter
from undula.lie.se3 import push_wrench
from undula.model.links import (
    Links,
    coordinate_efforts,
    joint_configuration,
    joint_rates,
    link_efforts,
    link_rates,
    links_of,
    placement_in_bodies,
    relative_of,
)
from undula.model.system import Acceleration, State, System, chart_force, reported_position
from undula.numerics import dense
from undula.numerics.pick import pick, spread
from undula.numerics.small import hat, matmul
from undula.tree.composite import composites, coupling, inertia_of_columns, locked_inertia
from undula.tree.inverse import gravity_as_acceleration, newton_euler
from undula.tree.problem import Inputs, Roles, solve


class Efforts(NamedTuple):
    """What a motion takes.

    - `base`: (6,) wrench that the world must exert on the reference body, in its frame [N, N m].
    - `v`: (nv,) effort of each coordinate's actuator [N m or N]; springs and dampers are already taken into account.
    - `wrenches`: (bodies, 6) wrench that its parent exerts on each body, in the body's frame [N, N m].
    """

    base: Float[Array, "6"]
    v: Float[Array, "nv"]
    wrenches: Float[Array, "bodies 6"]


def relative(system: System, links: Links, state: State) -> Relative:
    """Relative motion across all the joints."""
    return relative_of(system, links.joints, state.q, state.v)


def passive_efforts(system: System, state: State) -> Float[Array, "nv"]:
    """Efforts of the springs and dampers on the coordinates [N m or N]."""
    stretch = reported_position(system.topology, state.q) - system.rest
    out = -chart_force(system.topology, state.q, system.stiffness * stretch) - system.damping * state.v
    if not system.rods:
        return out
    parts = [g.elastic(g.own(state.q), g.own(state.v)) for g in system.rods]
    return out - scatter(system.rods, parts, system.nv)


def _external_on_links(system: System, links: Links, external: Array | None) -> Array | None:
    """Wrenches on bodies gathered on their links."""
    top = system.topology
    if external is None or not top.fixed_levels:
        return external
    pushed = jax.vmap(push_wrench)(links.body_rotation, links.body_position, external)
    # no scatter: the first body of each link, and a product with zeros and ones for the others
    first = np.unique(top.link_of_body, return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(top.bodies)), first)
    belongs = top.link_of_body[rest] == np.arange(len(first))[:, None]
    return pick(pushed, first) + matmul(jnp.asarray(belongs, dtype=float), pick(pushed, rest))


def inverse_dynamics(
    system: System,
    state: State,
    acceleration: Acceleration,
    external: Float[Array, "bodies 6"] | None = None,
    links: Links | None = None,
) -> Efforts:
    """Efforts that a given motion takes, whatever the roles (document 000, section 3.2).

    **Arguments:**

    - `state`, `acceleration`: the motion; `acceleration.base` is the derivative of the components of the base twist.
    - `external`: (bodies, 6) wrenches of the surroundings on the bodies, in their frames [N, N m]; gravity is added.
    - `links`: `links_of(system)`, if it was computed before.
    """
    top = system.topology
    links = links_of(system) if links is None else links
    rel = relative(system, links, state)
    F, tau = _newton_euler(system, links, rel, state, acceleration, external)
    wrenches = F if not top.fixed_levels else _body_wrenches(system, state, acceleration, external)
    return Efforts(F[0], tau, wrenches)


def _newton_euler(system, links, rel, state, acceleration, external) -> tuple[Array, Array]:
    """Wrenches on the links, and the efforts of the actuators."""
    top = system.topology
    deta0 = acceleration.base + gravity_as_acceleration(state.base.rotation, system.gravity)
    rate, gain = link_rates(system, rel, state.v), link_rates(system, rel, acceleration.v)
    on_links = _external_on_links(system, links, external)
    F = newton_euler(
        top.slots, links.mass, links.moment, links.inertia, rel, state.base_twist, deta0, rate, gain, on_links
    )
    tau = link_efforts(system, rel, F[1:])
    return F, tau - passive_efforts(system, state)


def efforts_at_rest(
    system: System, links: Links, state: State, external: Array | None
) -> tuple[Float[Array, "6"], Float[Array, "nv"]]:
    """Base wrench and actuator efforts that hold the configuration of a state still."""
    rel = relative_of(system, links.joints, state.q, None)
    top, none = system.topology, jnp.zeros_like(rel.c)
    down = gravity_as_acceleration(state.base.rotation, system.gravity)
    masses = links.mass, links.moment, links.inertia
    on_links = _external_on_links(system, links, external)
    F = newton_euler(top.slots, *masses, rel, jnp.zeros(6), down, none, none, on_links)
    still = State(state.base, state.q, jnp.zeros(6), jnp.zeros(system.nv))
    return F[0], link_efforts(system, rel, F[1:]) - passive_efforts(system, still)


def link_wrenches(
    system: System, links: Links, rel: Relative, state: State, acceleration: Acceleration, external: Array | None
) -> Float[Array, "links 6"]:
    """Wrench that its parent exerts on each link, in the link's frame."""
    return _newton_euler(system, links, rel, state, acceleration, external)[0]


def efforts_of(
    system: System, links: Links, rel: Relative, state: State, acceleration: Acceleration, external: Array | None
) -> tuple[Float[Array, "6"], Float[Array, "nv"]]:
    """Base wrench and actuator efforts of `inverse_dynamics`, for relative motions that are already known."""
    F, tau = _newton_euler(system, links, rel, state, acceleration, external)
    return F[0], tau


def _body_wrenches(system: System, state: State, acceleration: Acceleration, external: Array | None) -> Array:
    """Wrenches between bodies, fixed joints included: the same recursion over bodies instead of links."""
    top = system.topology
    moment = system.mass[:, None] * system.com
    inertia = system.inertia - jax.vmap(lambda s, c: matmul(hat(s), hat(c)))(moment, system.com)
    moving = relative_of(system, placement_in_bodies(system), state.q, state.v)
    n, k = len(top.joints), top.columns
    j = top.moving
    rel = Relative(
        system.joint_rotation.at[j].set(moving.R),
        system.joint_position.at[j].set(moving.p),
        jnp.zeros((n, 6, k)).at[j].set(moving.S),
        jnp.zeros((n, 6)).at[j].set(moving.c),
    )
    rate, gain = (jnp.zeros((n, 6)).at[j].set(link_rates(system, moving, x)) for x in (state.v, acceleration.v))
    deta0 = acceleration.base + gravity_as_acceleration(state.base.rotation, system.gravity)
    return newton_euler(
        top.body_slots, system.mass, moment, inertia, rel, state.base_twist, deta0, rate, gain, external
    )


def bias(system: System, state: State, external: Float[Array, "bodies 6"] | None = None) -> Float[Array, "n"]:
    """Generalised efforts at zero acceleration: Coriolis, centrifugal, gravity, springs and dampers [N m or N]."""
    efforts = inverse_dynamics(system, state, _still(system), external)
    return jnp.concatenate([efforts.base[_directions(system)], efforts.v])


def gravity_efforts(system: System, state: State) -> Float[Array, "n"]:
    """Generalised efforts that hold the system still against gravity alone [N m or N]."""
    still = State(state.base, state.q, jnp.zeros(6), jnp.zeros(system.nv))
    efforts = inverse_dynamics(system, still, _still(system))
    return jnp.concatenate([efforts.base[_directions(system)], efforts.v + passive_efforts(system, still)])


def _still(system: System) -> Acceleration:
    return Acceleration(jnp.zeros(6), jnp.zeros(system.nv))


def _directions(system: System) -> np.ndarray:
    return np.array(system.topology.base_directions, dtype=int)


def _momenta(system: System, links: Links, rel: Relative, frames: tuple[Array, Array] | None = None):
    """Locked inertia (6, 6); screws (rates, 6) and momenta (rates, 6) of unit joint rates, about the base's origin."""
    top = system.topology
    composite = composites(top, links, rel, frames)
    return locked_inertia(composite), *coupling(top, composite)


def mass_matrix(system: System, state: State) -> Float[Array, "n n"]:
    """Mass matrix over (base directions, coordinates) [kg, kg m, kg m^2]."""
    links = links_of(system)
    return inertia_over_base(system, links, relative(system, links, state), None, system.topology.base_directions)


def inertia_over_base(
    system: System,
    links: Links,
    rel: Relative,
    frames: tuple[Array, Array] | None,
    base: tuple[int, ...],
    which: np.ndarray | None = None,
) -> Float[Array, "n n"]:
    """Mass matrix over some components of the base twist, and the coordinates; `frames` of the links, if known.

    `which`: the rows and columns that are wanted, all by default; the cost grows with their square only.
    """
    top, m = system.topology, len(base)
    if system.rods:
        columns = np.concatenate([np.array(base, dtype=int), 6 + np.arange(system.nv)])
        return _inertia_by_columns(system, links, rel, columns if which is None else columns[which])
    locked, S, P = _momenta(system, links, rel, frames)
    h = np.array(base, dtype=int)
    S, P = jnp.concatenate([pick(jnp.eye(6), h), S]), jnp.concatenate([pick(locked, h), P])
    above = np.ones((len(S), len(S)), bool)  # the base carries everything
    above[m:, :m] = False
    above[m:, m:] = top.ancestry
    if which is not None and not top.mimics:
        return inertia_of_columns(above[np.ix_(which, which)], pick(S, which), pick(P, which))
    M = inertia_of_columns(above, S, P)
    if top.mimics:
        E = jnp.eye(m + system.nv)[np.concatenate([np.arange(m), m + np.asarray(top.leaders)])]
        E = E * jnp.concatenate([jnp.ones(m), system.mimic_scale])[:, None]
        M = E.T @ M @ E
    return M if which is None else pick(pick(M, which).T, which)


def _inertia_by_columns(system: System, links: Links, rel: Relative, which: np.ndarray) -> Float[Array, "n n"]:
    """Mass matrix over some of (base twist, coordinates): the efforts of unit accelerations, because they are linear."""
    top = system.topology
    still = rel._replace(c=jnp.zeros_like(rel.c))
    masses = links.mass, links.moment, links.inertia
    none = jnp.zeros_like(rel.c)

    def column(unit):
        F = newton_euler(
            top.slots, *masses, still, jnp.zeros(6), unit[:6], none, link_rates(system, still, unit[6:]), None
        )
        return pick(jnp.concatenate([F[0], link_efforts(system, still, F[1:])]), which)

    return jax.vmap(column)(jnp.asarray(np.eye(6 + system.nv)[which]))


def locomotion_inertia(system: System, state: State) -> tuple[Float[Array, "6 6"], Float[Array, "6 nv"]]:
    """Locked inertia M_o+ and coupling oM_r: momentum in the base's frame = M_o+ eta_o + oM_r v (3.31)."""
    links = links_of(system)
    if system.rods:
        M = inertia_over_base(system, links, relative(system, links, state), None, tuple(range(6)))
        return M[:6, :6], M[:6, 6:]
    locked, _, P = _momenta(system, links, relative(system, links, state))
    return locked, jax.vmap(lambda column: coordinate_efforts(system, column), 1)(P).reshape(6, system.nv)


def locomotion_force(
    system: System, state: State, dv: Float[Array, "nv"], external: Float[Array, "bodies 6"] | None = None
) -> Float[Array, "6"]:
    """F_o+ of (3.18): the wrench with M_o+ eta_o' = F_o+, for shape accelerations dv."""
    return -inverse_dynamics(system, state, Acceleration(jnp.zeros(6), dv), external).base


def forward_dynamics(
    system: System,
    state: State,
    efforts: Float[Array, "nv"],
    external: Float[Array, "bodies 6"] | None = None,
) -> Acceleration:
    """Accelerations under given actuator efforts [N m or N], all coordinates moving freely, whatever their roles.

    A free base moves in its group; a fixed or driven base does not accelerate.
    """
    top = system.topology
    unknown = np.ones(system.nv, bool)
    known = _still(system)
    return solve_dynamics(system, links_of(system), state, known, efforts, unknown, top.base_directions, external)[0]


def solve_dynamics(
    system: System,
    links: Links,
    state: State,
    known: Acceleration,
    efforts: Float[Array, "nv"],
    unknown: np.ndarray,
    base: tuple[int, ...],
    external: Float[Array, "bodies 6"] | None = None,
) -> tuple[Acceleration, Float[Array, "nv"], Float[Array, "6"]]:
    """The hybrid problem: accelerations where they are unknown, actuator efforts and the base wrench everywhere.

    `unknown` (static) marks the coordinates whose effort is given in `efforts`; the accelerations of the others, and of
    the base except in its directions `base`, are given in `known`.
    """
    top = system.topology
    if system.rods or (top.mimics and unknown[np.asarray(top.leaders)[np.asarray(top.mimics)]].any()):
        return _dense(system, links, state, known, efforts, unknown, base, external)
    leaders = np.asarray(top.leaders, dtype=int)
    passive = passive_efforts(system, state)
    given = Inputs(
        links,
        joint_configuration(system, state.q),
        joint_rates(system, state.v),
        joint_rates(system, jnp.where(unknown, 0.0, known.v)),
        # mimics are driven here, so that only coordinates' own rates have given efforts
        (efforts + passive)[leaders] if top.mimics else efforts + passive,
        state.base.rotation,
        system.gravity,
        state.base_twist,
        known.base,
        _external_on_links(system, links, external),
    )
    out = solve(Roles(top, base, tuple(bool(x) for x in unknown[leaders])), given)
    acceleration = Acceleration(out.deta0, out.dv[top.own_rates] if top.mimics else out.dv)
    return acceleration, coordinate_efforts(system, out.effort) - passive, out.wrench


def _dense(system, links, state, known, efforts, unknown, base, external):
    """The hybrid problem through the mass matrix: for mimics of a coordinate that moves freely, and for rods."""
    h = np.array(base, dtype=int)
    rel = relative(system, links, state)
    start = Acceleration(spread(jnp.zeros(len(h)), h, known.base), jnp.where(unknown, 0.0, known.v))
    wrench, needed = efforts_of(system, links, rel, state, start, external)
    f = np.concatenate([h, 6 + np.flatnonzero(unknown)]).astype(int)
    if len(f) == 0:
        return start, needed, wrench
    M = inertia_over_base(system, links, rel, None, tuple(range(6)), f)
    right = pick(jnp.concatenate([-wrench, efforts - needed]), f)
    gain = spread(dense.solve(M, right, symmetric=True), f, jnp.zeros(6 + system.nv))
    acceleration = Acceleration(start.base + gain[:6], start.v + gain[6:])
    wrench, needed = efforts_of(system, links, rel, state, acceleration, external)
    return acceleration, needed, wrench
