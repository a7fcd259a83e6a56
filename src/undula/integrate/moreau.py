"""Moreau's midpoint rule for systems with contacts (document 003, section VII), in generalised coordinates.

Half a step with the velocities at the start leads to the middle of the step; there, the closed contacts, the inertia and the
forces are found. The velocities at the end satisfy the balance of impulses and the laws of contact; with them, the
second half of the step.
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from undula.balance.dynamics import efforts_of, inertia_over_base, relative
from undula.balance.reduced import slip_forces, unknown_velocities
from undula.balance.rows import Tree, rows_of, tree_of
from undula.contact.laws import ContactLaw
from undula.contact.record import ContactMemory, Step, added, nothing_yet
from undula.contact.solve.derivative import solved
from undula.contact.solve.instant import at_their_instants
from undula.contact.solve.share import at_rest, shared
from undula.contact.solve.solvers import AcceleratedProx, Block, ContactSolver, Problem, over_rows
from undula.contact.spheres import Touch, over_unknowns, touch
from undula.core.errors import UndulaError
from undula.forces.controllers import ProportionalDerivative
from undula.integrate.method import Integrator, Motion
from undula.lie import se3, so3
from undula.model.system import Acceleration, State, System, displaced
from undula.model.topology import Topology
from undula.numerics import dense
from undula.numerics.pick import pick, spread
from undula.numerics.row_space import decompose
from undula.numerics.small import cross, matmul, matvec, tmatvec
from undula.tree.driven import driven_motion, given_efforts, on_bodies

FEW = 4  # contacts that are closed at the same time in most steps of a robot that lifts its body
CLOSED = (
    4  # gaps below so many times what a body falls in a step are closed: contacts do not flicker, and share their load
)
TOUCHING = 1e-10  # a gap below is closed: what starts on the ground is not lifted off it by rounding [m]
LIFTED = 0.2  # part of a drift that is lifted in a step: smoothly, so that contacts stay closed
PAID = 0.25  # part of the kinetic energy that a step may take to lift what has drifted into a surface


class Moreau(Integrator):
    """Moreau's midpoint rule, with a solver of the contact problem; for systems without contacts too.

    Where rigid contacts do not determine how a load is shared (a flat robot on many spheres), they share it as supports of
    the same stiffness would: see `undula.contact.solve.share`.

    Springs, dampers, rods and proportional-derivative controllers are implicit, so that they do not limit the step. `theta`:
    1 takes them at the end of the step, which damps what a step cannot resolve; 1/2 in its middle, which keeps energy.
    """

    order: ClassVar[int] = 1
    solver: ContactSolver = AcceleratedProx()
    theta: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        if not 0.5 <= self.theta <= 1:
            raise UndulaError(f"theta = {self.theta}; it must be between 0.5 and 1.")

    def step(self, top, flow, t, state, dt):
        raise UndulaError("Moreau has no explicit step; use advance.")

    def begin(self, motion: Motion, t: Any, state: State, found: Any = None) -> ContactMemory:
        return nothing_yet(motion.system)

    def advance(self, motion, t, state, memory, dt, careful=False):
        system, links = motion.system, motion.links
        which = unknown_velocities(system)
        state = driven_motion(system, t, motion.ready(t, state))[0]
        state, middle = _half(system.topology, state, dt / 2)  # (72)
        middle, driven = driven_motion(system, t + dt / 2, middle)
        u = _stack(state)
        end = driven_motion(system, t + dt, State(middle.base, middle.q, state.base_twist, state.v))[0]
        ahead = _stack(end)  # driven velocities at the end of the step, the others as they were
        # of the base: axes that do not turn make V' = -Omega x V in the body's
        known = jnp.concatenate([driven.base + _turning(system.topology, middle.base_twist), (ahead - u)[6:] / dt])

        # forces and inertia in the middle
        rel = relative(system, links, middle)
        wrenches = None if motion.external is None else motion.external(t + dt / 2, system, middle)
        wrenches = on_bodies(system, links, t + dt / 2, middle, wrenches)
        wrench, needed = efforts_of(system, links, rel, middle, Acceleration(known[:6], known[6:]), wrenches)
        given = given_efforts(system, t + self.theta * dt, middle)
        tree = tree_of(system, links, middle, rel)
        force = jnp.concatenate([-wrench, given - needed])
        if system.slipping:
            force = force + slip_forces(system, t + dt / 2, middle, tree)[0]
        M = inertia_over_base(system, links, rel, (tree.link_R, tree.link_p), tuple(range(6)), which)
        stiffness, damping = implicit_part(system)
        more = self.theta * dt * (damping + dt / 2 * stiffness)
        H = M + _some(more, which)
        impulse = dt * force - jnp.concatenate(
            [jnp.zeros(6), dt**2 / 2 * (2 * self.theta - 1) * matvec(stiffness, u[6:])]
        )

        # impulses and velocities at the end; the work depends on how many contacts are closed
        touches = [touch(c, system, middle, tree, u) for c in system.contacts]
        fall = TOUCHING + dt**2 / 2 * jnp.sqrt((jax.lax.stop_gradient(system.gravity) ** 2).sum())
        closed = [(x.gap <= CLOSED * fall).astype(float) for x in touches]
        common = _Common(t + dt / 2, dt, fall, middle, tree, H, pick(impulse, which), u, ahead)
        rooms = _rooms(system)
        if len(rooms) == 1:
            gain, lift, solution = self._solve(system, common, touches, closed, memory, rooms[0])
        else:
            fits = jnp.stack([_fits(closed, room) for room in rooms])
            branches = [
                lambda _, room=room: self._solve(system, common, touches, closed, memory, room) for room in rooms
            ]
            gain, lift, solution = jax.lax.switch(jnp.argmax(fits), branches, None)

        # second half
        after = ahead + spread(gain, which, jnp.zeros(6 + system.nv))
        rates = State(middle.base, middle.q, after[:6], after[6:])
        up = spread(lift, which, jnp.zeros(6 + system.nv)) if system.contacts else None
        new = driven_motion(system, t + dt, _half(system.topology, rates, dt / 2, up)[1])[0]  # (83)
        change = (after - u) / dt + jnp.concatenate([_turning(system.topology, new.base_twist), jnp.zeros(system.nv)])
        whole = _blocks([c.law for c in system.contacts], tuple(len(c.bodies) for c in system.contacts))
        pushes = over_rows(whole, jnp.concatenate([*closed, jnp.zeros(0)])) > 0
        count = sum((x.sum() for x in closed), jnp.zeros(())).astype(int)
        found = solution.found
        return new, ContactMemory(
            jnp.where(pushes, found.P, memory.impulses),
            jnp.where(pushes, memory.impulses, 0.0),
            found.P / dt,
            found.memory,
            change,
            found.iterations,
            count,
            added(system, memory.since, solution, touches, count, dt, self.solver.tolerance),
        )

    def _solve(
        self,
        system: System,
        common: "_Common",
        touches: list[Touch],
        closed: list[Array],
        memory: ContactMemory,
        room: tuple[int, ...],
    ) -> tuple[Float[Array, "n"], Float[Array, "n"] | None, Step]:
        """Change of the unknown velocities, displacement out of what is touched, and what happened at all contacts, if no more
        are closed than there is `room` for."""
        which = unknown_velocities(system)
        columns, taken, gaps, free, laws, guesses, places, at = [], [], [], [], [], [], [], 0
        for c, x, is_closed, n in zip(system.contacts, touches, closed, room):
            m, k = len(c.bodies), c.rows
            guess, earlier = (x[at : at + m * k].reshape(k, m) for x in (memory.impulses, memory.earlier))
            change = jnp.where((earlier[0] > 0) & (guess[0] > 0), guess - earlier, 0.0)
            both = jnp.stack([guess, change])
            pushed = memory.forces[at : at + m] > 0  # in the step before
            at += m * k
            place = None if n == m else _places(is_closed, n)
            columns.append(over_unknowns(c, system, common.tree, x.rows, place))
            taken.append(is_closed if place is None else place.sum(1))
            gaps.append(x.gap if place is None else (place * x.gap).sum(1))
            free.append(~pushed if place is None else (place * pushed).sum(1) == 0)
            guesses.append((both if place is None else (both[:, :, None] * place).sum(-1)).reshape(2, -1))
            laws.append(c.law if place is None else jax.tree.map(lambda y, p=place: _taken(p, y), c.law))
            places.append(place)
        JT = jnp.concatenate([*columns, jnp.zeros((6 + system.nv, 0))], axis=1)
        blocks = _blocks(laws, room)
        U, right = dense.factor(common.H, jnp.concatenate([pick(JT, which), common.impulse[:, None]], axis=1))
        Z, w = right[:, :-1], right[:, -1]
        before, given = tmatvec(JT, common.u), tmatvec(JT, common.ahead)
        bound = jnp.zeros_like(w)
        if system.ideal:
            loose, w, bound = self._hold(system, common, U, which, Z, w)
            given, Z = given + tmatvec(Z, bound), loose
        problem = Problem(
            Z, w, given + _bounce(blocks, before), over_rows(blocks, jnp.concatenate([*taken, jnp.zeros(0)])), blocks
        )
        guess, change = jnp.concatenate([*guesses, jnp.zeros((2, 0))], axis=1)
        guess = shared(problem, jnp.where(at_rest(problem), guess, guess + change))
        found = solved(problem, jax.lax.stop_gradient(guess), jax.lax.stop_gradient(memory.step), self.solver)
        P = found.P
        if not blocks:
            gain = dense.back_substituted(U, (bound + w)[:, None])[:, 0]
            return gain, None, Step(found, jnp.zeros(0), jnp.zeros(()))
        P, effect, late, drift = at_their_instants(
            problem, P, jnp.concatenate(gaps), before, given, common.dt, common.fall
        )
        # half of P . (velocities before + behind), these being given + Z^T (w + Z P)
        work = ((P * (before + given)).sum() + (effect * (w + effect)).sum()) / 2
        lost = jnp.maximum(-work, 0.0)
        gain, lift = self._lifted(system, common, problem, U, late, drift, bound + w + effect, lost)
        # an impact: what did not push before comes faster than the forces of two steps, and the fall into a gap that counts as
        # closed, explain
        slow = CLOSED * common.fall / common.dt + 2 * jnp.abs(jnp.dot(w, problem.normals(Z)))
        hit = (jnp.concatenate(free) & (problem.normals(P) > 0) & (problem.normals(before) < -slow)).astype(float)
        parts, hits, at = [], [], 0
        for b, place in zip(blocks, places):
            own, now = b.take(P), hit[at : at + b.count]
            at += b.count
            parts.append((own if place is None else (own[:, :, None] * place).sum(1)).reshape(-1))
            hits.append(now if place is None else (now[:, None] * place).sum(0))
        return gain, lift, Step(found._replace(P=jnp.concatenate(parts)), jnp.concatenate(hits), work)

    def _lifted(
        self,
        system: System,
        common: "_Common",
        problem: Problem,
        U: Array,
        late: Array,
        drift: Array,
        pushed: Array,
        lost: Array,
    ) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """U^-1 `pushed`, the change of the velocities, and a displacement out of what bodies have gone into, without energy.

        `late`: U times what impulses would have moved the bodies by, had they acted when the impacts happened. Velocities
        along a curved surface leave it, too: down the slope of the sum of squares of such depths (`drift`), a part in each
        step. The work is taken from what the contacts dissipate (`lost`: what the bodies gained on their way in is part of
        it), then from the motion; a body at rest stays where it is.
        """
        which = unknown_velocities(system)
        N, scale = problem.normals(problem.Z), problem.normals(problem.metric())
        y = jnp.dot(N, drift / scale)
        reach = jnp.dot(y, N)
        y = late + LIFTED * y * jnp.minimum(_ratio((reach * drift).sum(), (reach * reach).sum()), 1.0)
        work = jnp.maximum(-(problem.w * y).sum() / common.dt, 0.0)
        gain, lift = dense.back_substituted(U, jnp.stack([pushed, y], axis=1)).T
        ahead = pick(common.ahead, which)
        after = ahead + gain
        if system.ideal or len(which) < 6 * (system.topology.base_role == "free") + system.nv:
            most, slower = lost, jnp.ones(())  # what is driven or held cannot be slowed down
        else:
            moving = U @ after
            kinetic = (moving * moving).sum() / 2
            most = lost + PAID * kinetic
            slower = jnp.sqrt(1 - _ratio(jnp.maximum(jnp.minimum(work, most) - lost, 0.0), kinetic))
        part = jnp.where(work > most, _ratio(most, work), 1.0)
        return slower * after - ahead, part * lift

    def _hold(self, system: System, common: "_Common", U: Array, which: np.ndarray, Z: Array, w: Array):
        """Constraints hold exactly: what they forbid is taken out of the problem of the contacts.

        In y = U (change of the velocities) they say Y^T y = c, with Y = U^-T A^T; the rest of y is orthogonal to Y.
        """
        rows = rows_of(system.ideal, system, common.middle, common.tree, common.t)
        Y = dense.forward_substituted(U, pick(rows.A.T, which))
        space = decompose(Y.T, least_squares=system.least_squares)
        bound = space.solve(-(matvec(rows.A, common.ahead) + rows.driven))
        Q = space.Q
        return Z - matmul(Q.T, matmul(Q, Z)), space.without(w), bound


class _Common(NamedTuple):
    """What does not depend on the contacts: the middle of the step, inertia, impulses of the forces, and velocities at the
    start (`u`) and at the end, if only what is driven changes (`ahead`); `fall` [m]: what falls so far in a step."""

    t: Any
    dt: Any
    fall: Any
    middle: State
    tree: Tree
    H: Float[Array, "n n"]
    impulse: Float[Array, "n"]
    u: Float[Array, "n"]
    ahead: Float[Array, "n"]


def _rooms(system: System) -> list[tuple[int, ...]]:
    """Numbers of contacts of each form that a step can be compiled for: few of all, then all of the first forms, all.

    Nothing is ever left out: the first that is large enough is taken. On a GPU all branches would be computed.
    """
    whole = tuple(len(c.bodies) for c in system.contacts)
    if jax.default_backend() == "gpu":
        return [whole]
    few = tuple(FEW if m > 2 * FEW else m for m in whole)
    return sorted({tuple(whole[:i] + few[i:]) for i in range(len(whole) + 1)})


def _fits(closed: list[Array], room: tuple[int, ...]) -> Bool[Array, ""]:
    """Whether the closed contacts of each form have room."""
    return jnp.all(jnp.stack([x.sum() <= n for x, n in zip(closed, room)]))


def _places(closed: Float[Array, "m"], room: int) -> Float[Array, "room m"]:
    """Ones that put the closed contacts into the first places, in their order."""
    rank = jnp.cumsum(closed)
    return (rank[None] == 1 + jnp.arange(room)[:, None]) * closed[None]


def _taken(place: Float[Array, "room m"], x: Float[Array, "m *n"]) -> Float[Array, "room *n"]:
    """Numbers of the contacts that have a place; places that are not taken get those of the first contact."""
    empty = 1 - place.sum(1)
    first = empty[:, None] * (jnp.arange(x.shape[0]) == 0)
    return jnp.tensordot(place + first, x, 1)


def _half(top: Topology, state: State, h: Any, lift: Array | None = None) -> tuple[State, State]:
    """(the state with the base's velocity in the axes that it has h later, the state then), at constant velocities.

    A free base moves straight on and turns at the same time; its velocities are kept in axes that do not turn.
    `lift` (6 + nv,): a displacement besides that of the velocities.
    """
    moves = h * _stack(state) if lift is None else h * _stack(state) + lift
    if top.base_role != "free":
        return state, displaced(top, state, moves[:6], moves[6:])
    turn = so3.exp(moves[3:6])
    later = se3.Pose(state.base.apply(moves[:3]), so3.normalise(so3.multiply(state.base.quaternion, turn)))
    back = so3.to_matrix(turn)
    twist = jnp.concatenate([tmatvec(back, state.base_twist[:3]), tmatvec(back, state.base_twist[3:])])
    moved = displaced(top, state, jnp.zeros(6), moves[6:])
    return State(state.base, state.q, twist, state.v), State(later, moved.q, twist, state.v)


def _turning(top: Topology, twist: Float[Array, "6"]) -> Float[Array, "6"]:
    """Rate of the components of a free base's velocity, if that is constant in the world."""
    if top.base_role != "free":
        return jnp.zeros(6)
    return jnp.concatenate([cross(twist[:3], twist[3:]), jnp.zeros(3)])


def _stack(state: State) -> Float[Array, "n"]:
    return jnp.concatenate([state.base_twist, state.v])


def _ratio(a: Float[Array, ""], b: Float[Array, ""]) -> Float[Array, ""]:
    """a / b, and 0 where b is 0."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)


def _some(matrix: Float[Array, "nv nv"], which: np.ndarray) -> Float[Array, "n n"]:
    """A matrix over the coordinates, over the unknown velocities."""
    whole = jnp.zeros((6 + matrix.shape[0],) * 2).at[6:, 6:].set(matrix)
    return whole[which][:, which]


def implicit_part(system: System) -> tuple[Float[Array, "nv nv"], Float[Array, "nv nv"]]:
    """Stiffness and damping matrices of springs, rods and proportional-derivative controllers; constant over a run."""
    kp, kd = system.stiffness, system.damping
    for drive in system.efforts:
        if isinstance(drive.law, ProportionalDerivative):
            which = np.array(drive.which)
            kp, kd = kp.at[which].add(drive.law.kp), kd.at[which].add(drive.law.kd)
    K, D = jnp.diag(kp), jnp.diag(kd)
    for g in system.rods:
        places = system.nv - g.total + np.array(g.coordinates)
        for k in range(len(places)):
            at = np.ix_(places[k], places[k])
            K, D = K.at[at].add(g.stiffness[k]), D.at[at].add(g.damping[k])
    return K, D


def _blocks(laws: list[ContactLaw], counts: tuple[int, ...]) -> tuple[Block, ...]:
    out, first = [], 0
    for law, count in zip(laws, counts):
        out.append(Block(law, first, count))
        first += count * out[-1].rows
    return tuple(out)


def _bounce(blocks: tuple[Block, ...], before: Float[Array, "rows"]) -> Float[Array, "rows"]:
    """What restitution adds to the velocities: its part of the normal ones at the start."""
    parts = [jnp.zeros(0)]
    for b in blocks:
        normal = b.law.restitution * jnp.minimum(b.take(before)[0], 0.0)
        parts.append(jnp.concatenate([normal, jnp.zeros((b.rows - 1) * b.count)]))
    return jnp.concatenate(parts)
