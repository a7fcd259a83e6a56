"""Authoring of rods and of what acts on systems: loads, controllers, tendons and chambers. Part of `Builder`."""

from typing import Any

import jax.numpy as jnp

from undula.core.errors import ModelError, as_vector, positive
from undula.forces.loads import Follower, Load
from undula.forces.tendons import Along, Pressure, Tension, Winch, place
from undula.joints.rod.group import RodGroup
from undula.joints.rod.rod import RodPlan, pack
from undula.laws.law import Law, law_of
from undula.model.topology import Topology


class Acting:
    """What a builder knows of rods and of what acts on the system."""

    def __init__(self) -> None:
        self._rods: list[tuple[RodPlan, tuple[str, ...]]] = []
        self._along: list[tuple[str, str, Any, float, dict[str, Any]]] = []
        self._loads: list[tuple[str, Law, Law, Any, bool, bool]] = []
        self._followers: list[tuple[str, Law, Any, Any]] = []
        self._link: dict[str, int] = {}

    def load(
        self,
        body: str,
        force: Any = (0.0, 0.0, 0.0),
        couple: Any = (0.0, 0.0, 0.0),
        point: Any = (0.0, 0.0, 0.0),
        follows: bool = False,
        along: bool = False,
    ) -> None:
        """A force [N] and a couple [N m], numbers or laws of time, on a body at a `point` of its frame [m].

        `follows`: their components are those in the body's frame, not in the world. `along`: `body` is the tip of a rod, and
        they act on all of the rod, per length [N/m, N].
        """
        what = f"the load on '{body}'"
        laws = law_of(force, (3,), f"force of {what}"), law_of(couple, (3,), f"couple of {what}")
        self._loads.append((body, *laws, as_vector(point, 3, f"point of {what}"), follows, along))

    def follow(self, body: str, motion: Law, stiffness: Any, damping: Any) -> None:
        """A controller at a body: springs and dampers pull its frame along a motion.

        `motion`: position [m] and rotation vector [rad] in the world, a law of six components; `stiffness` (6,) and
        `damping` (6,) [N/m, N m/rad; times s] on the errors of pose and twist, in the body's frame.
        """
        what = f"the controller of '{body}'"
        if not isinstance(motion, Law) or motion.shape != (6,):
            raise ModelError(f"motion of {what} must be a law of six components.")
        gains = [as_vector(x, 6, f"{n} of {what}") for n, x in (("stiffness", stiffness), ("damping", damping))]
        self._followers.append((body, motion, *gains))

    def _following(self, top: Topology, body: str, motion: Law, stiffness: Any, damping: Any) -> Follower:
        if body not in top.bodies:
            raise ModelError(
                f"the controller of '{body}': there is no such body; the bodies are {', '.join(top.bodies)}."
            )
        return Follower(motion, jnp.asarray(stiffness), jnp.asarray(damping), top.bodies.index(body))

    def tendon(
        self,
        name: str,
        rod: str,
        routing: Any,
        tension: Any = None,
        length: Any = None,
        stiffness: Any = None,
        end: float = 1.0,
    ) -> None:
        """A tendon along a rod, fixed at the fraction `end` of its length; it slides without friction before.

        **Arguments:**

        - `routing`: its place (y, z) in the section [m], or a function of X [m] that gives it: straight, helical, converging.
        - `tension` [N], a number of at least 0 or a law, which is taken as it is: one that becomes negative pushes, and a run
          warns of it; or `length` [m], a number or a law, of a tendon that a winch winds: it is elastic
          with the `stiffness` [N/m], and slack when it is too long.
        """
        what = f"the tendon '{name}'"
        if (tension is None) == (length is None):
            raise ModelError(f"{what} must have either a tension or a length.")
        if (length is None) != (stiffness is None):
            raise ModelError(f"{what} must have a stiffness if, and only if, it has a length.")
        if tension is not None:
            options: dict[str, Any] = dict(law=law_of(tension, (), f"tension of {what}", low=0.0))
        else:
            positive(stiffness, f"stiffness of {what}", "N/m")
            options = dict(
                law=law_of(length, (), f"length of {what}", low=0.0), stiffness=jnp.asarray(stiffness, dtype=float)
            )
        self._along.append((name, rod, routing, end, options))

    def chamber(self, name: str, rod: str, routing: Any, area: Any, pressure: Any, end: float = 1.0) -> None:
        """A fluid chamber along a rod: its centre's `routing` as for a tendon, `area` [m^2], `pressure` [Pa] or a law."""
        what = f"the chamber '{name}'"
        positive(area, f"area of {what}", "m^2")
        options = dict(law=law_of(pressure, (), f"pressure of {what}"), area=jnp.asarray(area, dtype=float))
        self._along.append((name, rod, routing, end, options))

    def _plan(self, rod: str, what: str) -> RodPlan:
        names = [plan.name for plan, _ in self._rods]
        if rod not in names:
            raise ModelError(
                f"{what} acts on the rod '{rod}', which does not exist; the rods are {', '.join(names) or '(none)'}."
            )
        return self._rods[names.index(rod)][0]

    def _acting(self, groups: tuple[Any, ...], name: str, rod: str, routing: Any, end: float, options: dict) -> Along:
        kind = Winch if "stiffness" in options else Pressure if "area" in options else Tension
        what = f"the {'chamber' if kind is Pressure else 'tendon'} '{name}'"
        plan = self._plan(rod, what)
        offset, slope, weights = place(plan, routing, end, what)
        first = next(nodes[0] for p, nodes in self._rods if p is plan)
        at = [
            (g, m)
            for g, group in enumerate(groups)
            for m, links in enumerate(group.links)
            if links[0] == self._link[first]
        ]
        return kind(offset, slope, weights, name=name, group=at[0][0], member=at[0][1], **options)

    def _loading(
        self, top: Topology, body: str, force: Law, couple: Law, point: Any, follows: bool, along: bool
    ) -> Load:
        what = f"the load on '{body}'"
        if along:
            tips = [nodes[0].rpartition(".")[0] for _, nodes in self._rods]
            plan = self._rods[tips.index(body)][0] if body in tips else self._plan(body, what)
            nodes = next(nodes for p, nodes in self._rods if p is plan)
            weights = jnp.asarray(plan.weights * plan.rod.length)
            return Load(force, couple, jnp.asarray(point), weights, tuple(top.bodies.index(x) for x in nodes), follows)
        if body not in top.bodies:
            raise ModelError(f"{what}: there is no such body; the bodies are {', '.join(top.bodies)}.")
        return Load(force, couple, jnp.asarray(point), jnp.ones(1), (top.bodies.index(body),), follows)

    def _built(self, top: Topology) -> dict[str, Any]:
        """The parts of a `System` that are described here."""
        self._link = {name: int(link) for name, link in zip(top.bodies, top.link_of_body)}
        rods: tuple[RodGroup, ...] = pack(
            [plan for plan, _ in self._rods], [tuple(self._link[x] for x in nodes) for _, nodes in self._rods]
        )
        return dict(
            rods=rods,
            along=tuple(self._acting(rods, *x) for x in self._along),
            loads=tuple(self._loading(top, *x) for x in self._loads),
            followers=tuple(self._following(top, *x) for x in self._followers),
        )
