"""Moreau's midpoint rule for systems with contacts (document 003, section VII), in generalised coordinates.

Half a step with the velocities at the start leads to the middle of the step, where closed contacts, inertia and forces are
evaluated. The velocities at the end satisfy the balance of impulses and the contact laws; with them, the second half of the
step is made.
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.balance.assemble import field_of
from undula.balance.balance import Balance, inertia_over
from undula.balance.internal import advanced_states, internal_rates
from undula.balance.look import look_at
from undula.balance.reduced import slip_forces
from undula.balance.rows import rows_of
from undula.balance.stiffness import stiffness_of
from undula.contact.carried import Touched, contact_count, contact_rows, over_unknowns, touch
from undula.contact.record import ContactMemory, Step, added, nothing_yet
from undula.contact.solve.derivative import solved
from undula.contact.solve.instant import at_their_instants
from undula.contact.solve.lift import lifted
from undula.contact.solve.problem import Problem, blocks_of, bounce, movable, over_rows
from undula.contact.solve.rooms import fits, places_of, rooms, taken
from undula.contact.solve.share import at_rest, shared
from undula.contact.solve.solvers import AcceleratedProx, ContactSolver, Solved
from undula.core.arrays import Array
from undula.core.errors import instance, real
from undula.elements.element import changed
from undula.elements.observable import Observable
from undula.integrate.method import Integrator, Report, ready
from undula.lie import se3, so3
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, displaced
from undula.model.system import System
from undula.model.topology import Topology
from undula.numerics import dense
from undula.numerics.pick import pick, spread
from undula.numerics.row_space import decompose
from undula.numerics.small import cross, matmul, matvec, tmatvec
from undula.tree.driven import driven_motion
from undula.tree.snapshot import Snapshot

CLOSED = 4  # times the free fall in a step: smaller gaps are closed, so that contacts do not chatter, and share loads
TOUCHING = 1e-10  # a smaller gap is closed, so that rounding does not lift bodies that start on the ground [m]
OVER = "since the previous sample"


class Moreau(Integrator):
    """Moreau's midpoint rule with a contact solver; also for systems without contacts.

    Where rigid contact does not determine how a load is shared (a flat robot on many spheres), contacts share it as supports of
    equal stiffness would: see `undula.contact.solve.share`.

    Springs, dampers, rods and proportional-derivative controllers are treated implicitly, so that they do not limit the step,
    and so are other force models on coordinates or at one site of a body, linearised. `theta`: 1 evaluates them at the end of
    the step, which damps motions that the step cannot resolve; 1/2 in its middle, which conserves energy.
    """

    order: ClassVar[int] = 1
    takes: ClassVar[frozenset[str]] = frozenset({"unilateral", "stiff"})
    dissipates: ClassVar[bool] = True
    observables: ClassVar[tuple[Observable, ...]] = (
        Observable("iterations", "1", (), "iterations of the step that ends at each sample"),
        Observable("contacts_closed", "1", (), "number of closed contacts in the step that ends at each sample"),
        Observable("contact_residual", "1", (), f"largest residual of the laws, relative, {OVER}"),
        Observable("contact_penetration", "m", (), f"largest penetration {OVER}"),
        Observable("contact_closings", "1", (), f"number of closed contacts, summed over the steps {OVER}"),
    )
    solver: ContactSolver = AcceleratedProx()
    theta: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        instance(
            self.solver, ContactSolver, "solver of Moreau's rule", "a contact solver, e.g. un.contact.GaussSeidel()"
        )
        real(self.theta, "theta", 0.5, 1.0)

    def init(self, system: System, t: Any, state: State, found: Any = None) -> ContactMemory:
        return nothing_yet(system)

    def rested(self, carry: ContactMemory) -> ContactMemory:
        return carry.rested()

    def contacts(self, carry: ContactMemory) -> ContactMemory | None:
        return carry

    def observe(self, carry, report):
        out = {"iterations": report.iterations}
        if not carry.impulses.shape[-1]:
            return out
        return out | {
            "contacts_closed": carry.closed,
            "contact_residual": report.residual,
            "contact_penetration": report.penetration,
            "contact_closings": carry.since.closings,
        }

    def step(self, prepared: Prepared, t: Any, state: State, carry: ContactMemory, dt: Any, careful: bool = False):
        system = prepared.system
        top = system.topology
        which = top.unknown
        state = driven_motion(system, t, ready(prepared, t, state))[0]
        state, middle = _half(top, state, dt / 2)  # (72)
        middle, driven = driven_motion(system, t + dt / 2, middle)
        u = state.velocity
        end = driven_motion(system, t + dt, middle.with_velocity(u))[0]
        ahead = end.velocity  # driven velocities at the end of the step, the others as they were
        # base velocity constant in non-rotating axes: V' = -Omega x V in body axes
        known = jnp.concatenate([driven.base + _turning(top, middle.base_twist), (ahead - u)[6:] / dt])

        # forces and inertia in the middle
        snap = look_at(prepared, t + dt / 2, middle, Acceleration(known[:6], known[6:]), screws=True)
        balance = Balance.of(prepared, snap, t_actuators=t + self.theta * dt)
        stiffness = stiffness_of(prepared, snap)
        by_k, by_d = self.theta * dt * dt / 2, self.theta * dt
        late = dt / 2 * (2 * self.theta - 1)
        if stiffness.K_links is not None and snap.motion is not None:
            twists = jnp.concatenate([snap.motion.V, snap.motion.W], axis=1)
            balance = balance.pushed(-late * jax.vmap(matvec)(stiffness.K_links, twists))
        force = -balance.imbalance()
        if system.slipping:
            force = force + slip_forces(prepared, snap)[0]
        stiffer = changed(prepared, inertia=stiffness.stiffer(prepared.inertia, by_k, by_d))
        H = inertia_over(stiffer, snap, which) + stiffness.over(by_k, by_d, which)
        impulse = dt * force - jnp.concatenate([jnp.zeros(6), dt * late * stiffness.pulled(u[6:])])

        # impulses and velocities at the end; the cost depends on the number of closed contacts
        touches = [touch(prepared, snap, g, places, u) for g, places in prepared.grouped("unilateral")]
        fall = TOUCHING + dt**2 / 2 * _weight(prepared, t)
        closed = [(x.gap <= CLOSED * fall).astype(float) for *_, x in touches]
        common = _Common(prepared, t + dt / 2, dt, fall, snap, H, pick(impulse, which), u, ahead)
        whole = tuple(contact_count(g) for g in system.contacts)
        choices = rooms(whole)
        if len(choices) == 1:
            gain, lift, found = self._solve(common, touches, closed, carry, choices[0])
        else:
            enough = jnp.stack([fits(closed, room) for room in choices])
            branches = [lambda _, room=room: self._solve(common, touches, closed, carry, room) for room in choices]
            gain, lift, found = jax.lax.switch(jnp.argmax(enough), branches, None)

        # second half
        after = ahead + spread(gain, which, jnp.zeros(6 + system.nv))
        rates = middle.with_velocity(after)
        if middle.z:
            rates = rates.replace(z=advanced_states(middle.z, internal_rates(prepared, snap), dt))
        up = None if lift is None else spread(lift, which, jnp.zeros(6 + system.nv))
        new = driven_motion(system, t + dt, _half(top, rates, dt / 2, up)[1])[0]  # (83)
        change = (after - u) / dt + jnp.concatenate([_turning(top, new.base_twist), jnp.zeros(system.nv)])
        blocks = blocks_of([g.form.law for g in system.contacts], whole)
        pushes = over_rows(blocks, jnp.concatenate([*closed, jnp.zeros(0)])) > 0
        count = sum((x.sum() for x in closed), jnp.zeros(())).astype(int)
        solution = found.found
        memory = ContactMemory(
            jnp.where(pushes, solution.P, carry.impulses),
            jnp.where(pushes, carry.impulses, 0.0),
            solution.P / dt,
            solution.memory,
            change,
            count,
            added(system, carry.since, found, [x for *_, x in touches], count, dt),
        )
        deep = jnp.concatenate([-x.gap for *_, x in touches] or [jnp.zeros(1)]).max()
        left = jax.lax.stop_gradient(solution.residual)
        report = Report.make(
            iterations=solution.iterations,
            residual=left,
            unsolved=left > self.solver.tolerance,
            penetration=jax.lax.stop_gradient(deep),
        )
        return new, memory, report

    def _solve(
        self,
        common: "_Common",
        touches: list[Touched],
        closed: list[Array],
        memory: ContactMemory,
        room: tuple[int, ...],
    ) -> tuple[Float[Array, "n"], Float[Array, "n"] | None, Step]:
        """Change of the unknown velocities, displacement that removes penetration, and report on all contacts; at most `room`
        contacts of each form may be closed."""
        prepared, snap = common.prepared, common.snap
        system = prepared.system
        which = system.topology.unknown
        columns, chosen, gaps, free, laws, guesses, places, at = [], [], [], [], [], [], [], 0
        for (group, _, seen, x), is_closed, n in zip(touches, closed, room):
            m, k = contact_count(group), contact_rows(group)
            guess, earlier = (x[at : at + m * k].reshape(k, m) for x in (memory.impulses, memory.earlier))
            change = jnp.where((earlier[0] > 0) & (guess[0] > 0), guess - earlier, 0.0)
            both = jnp.stack([guess, change])
            pushed = memory.forces[at : at + m] > 0  # in the step before
            at += m * k
            place = None if n == m else places_of(is_closed, n)
            columns.append(over_unknowns(prepared, snap, group, seen, x.rows, place))
            chosen.append(is_closed if place is None else place.sum(1))
            gaps.append(x.gap if place is None else (place * x.gap).sum(1))
            free.append(~pushed if place is None else (place * pushed).sum(1) == 0)
            guesses.append((both if place is None else (both[:, :, None] * place).sum(-1)).reshape(2, -1))
            law = _repeated(group)
            laws.append(law if place is None else jax.tree.map(lambda y, p=place: taken(p, y), law))
            places.append(place)
        JT = jnp.concatenate([*columns, jnp.zeros((6 + system.nv, 0))], axis=1)
        blocks = blocks_of(laws, room)
        U, right = dense.factor(common.H, jnp.concatenate([pick(JT, which), common.impulse[:, None]], axis=1))
        Z, w = right[:, :-1], right[:, -1]
        before, given = tmatvec(JT, common.u), tmatvec(JT, common.ahead)
        bound = jnp.zeros_like(w)
        if system.ideal:
            loose, w, bound = _held(common, U, Z, w)
            given, Z = given + tmatvec(Z, bound), loose
        if not blocks:
            gain = dense.back_substituted(U, (bound + w)[:, None])[:, 0]
            nothing = Solved(jnp.zeros(0), memory.step, jnp.zeros((), int), jnp.zeros(()))
            return gain, None, Step(nothing, jnp.zeros(0), jnp.zeros(()))
        active = over_rows(blocks, jnp.concatenate([*chosen, jnp.zeros(0)])) * movable(Z)
        problem = Problem(Z, w, given + bounce(blocks, before), active, blocks)
        guess, change = jnp.concatenate([*guesses, jnp.zeros((2, 0))], axis=1)
        guess = shared(problem, jnp.where(at_rest(problem), guess, guess + change))
        found = solved(problem, jax.lax.stop_gradient(guess), jax.lax.stop_gradient(memory.step), self.solver)
        P = found.P
        P, effect, late, drift = at_their_instants(
            problem, P, jnp.concatenate(gaps), before, given, common.dt, common.fall
        )
        # half of P . (velocities before + after), the latter being given + Z^T (w + Z P)
        work = ((P * (before + given)).sum() + (effect * (w + effect)).sum()) / 2
        lost = jnp.maximum(-work, 0.0)
        # driven or constrained motion cannot be slowed down
        slows = not (system.ideal or len(which) < 6 * (system.topology.base_role == "free") + system.nv)
        gain, lift = lifted(
            problem, U, late, drift, bound + w + effect, pick(common.ahead, which), lost, common.dt, slows
        )
        # impact: a contact without force in the last step approaches faster than explained by the forces of two steps and the
        # fall through a gap that counts as closed
        slow = CLOSED * common.fall / common.dt + 2 * jnp.abs(jnp.dot(w, problem.normals(Z)))
        hit = (jnp.concatenate(free) & (problem.normals(P) > 0) & (problem.normals(before) < -slow)).astype(float)
        parts, hits, at = [], [], 0
        for b, place in zip(blocks, places):
            own, now = b.take(P), hit[at : at + b.count]
            at += b.count
            parts.append((own if place is None else (own[:, :, None] * place).sum(1)).reshape(-1))
            hits.append(now if place is None else (now[:, None] * place).sum(0))
        return gain, lift, Step(found._replace(P=jnp.concatenate(parts)), jnp.concatenate(hits), work)


class _Common(NamedTuple):
    """Data of a step that do not depend on the contacts: snapshot in its middle, inertia, impulses of the forces, velocities at
    the start (`u`) and at the end if only driven velocities change (`ahead`); `fall` [m]: distance of free fall in a step."""

    prepared: Prepared
    t: Any
    dt: Any
    fall: Any
    snap: Snapshot
    H: Float[Array, "n n"]
    impulse: Float[Array, "n"]
    u: Float[Array, "n"]
    ahead: Float[Array, "n"]


def _held(common: _Common, U: Array, Z: Array, w: Array) -> tuple[Array, Array, Array]:
    """Eliminates the constraints, which hold exactly, from the contact problem.

    In y = U (change of the velocities) they read Y^T y = c, with Y = U^-T A^T; the rest of y is orthogonal to Y.
    """
    system = common.prepared.system
    rows = rows_of(common.prepared, common.snap)
    Y = dense.forward_substituted(U, pick(rows.A.T, system.topology.unknown))
    space = decompose(Y.T, least_squares=system.least_squares)
    bound = space.solve(-(matvec(rows.A, common.ahead) + rows.driven))
    Q = space.Q
    return Z - matmul(Q.T, matmul(Q, Z)), space.without(w), bound


def _repeated(group: Any) -> Any:
    """The stacked law of a group, one entry per contact."""
    slots = group.form.slots
    return group.form.law if slots == 1 else jax.tree.map(lambda x: jnp.repeat(x, slots, axis=0), group.form.law)


def _weight(prepared: Prepared, t: Any) -> Array:
    """Magnitude of the uniform field [m/s^2]."""
    field = field_of(prepared, t)
    return jnp.zeros(()) if field is None else jnp.sqrt((jax.lax.stop_gradient(field) ** 2).sum())


def _half(top: Topology, state: State, h: Any, lift: Array | None = None) -> tuple[State, State]:
    """The present state with the base velocity in the base axes a time h later, and the state then, at constant velocities.

    A free base translates and rotates with velocities that are constant in non-rotating axes.
    `lift` (6 + nv,): a displacement in addition to that of the velocities.
    """
    moves = h * state.velocity if lift is None else h * state.velocity + lift
    if top.base_role != "free":
        return state, displaced(top, state, moves)
    turn = so3.exp(moves[3:6])
    later = se3.Pose(state.base.apply(moves[:3]), so3.normalise(so3.multiply(state.base.quaternion, turn)))
    back = so3.to_matrix(turn)
    twist = jnp.concatenate([tmatvec(back, state.base_twist[:3]), tmatvec(back, state.base_twist[3:])])
    moved = displaced(top, state, jnp.concatenate([jnp.zeros(6), moves[6:]]))
    return state.replace(base_twist=twist), state.replace(base=later, q=moved.q, base_twist=twist)


def _turning(top: Topology, twist: Float[Array, "6"]) -> Float[Array, "6"]:
    """Rate of the body-axis components of a free base's velocity that is constant in the world."""
    if top.base_role != "free":
        return jnp.zeros(6)
    return jnp.concatenate([cross(twist[:3], twist[3:]), jnp.zeros(3)])
