"""The joints a tree is computed with: maps from coordinates to a relative pose and its rates.

A kind knows nothing of trees. From its two constant vectors (`axis`, `second`), its configuration q and its rates v it
gives, in the joint frame, the pose (R, p) of the child; the child's relative body twist is S v, and c = S' v is the
part of the relative acceleration that does not contain v'. `advance` moves q along a body increment u (so that
quaternions stay unit), and `bracket` is the Lie bracket of two increments, zero for coordinates that simply add.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.lie import se3, so3
from undula.numerics.small import Vec3, cross, matmul, matvec, tmatvec

Configuration = Float[Array, "nq"]
Rates = Float[Array, "dof"]


class Relative(NamedTuple):
    """Relative motion across one joint: pose (R, p), screw columns S (6 x dof) and c = S' v (6).

    Pieces of rods have no columns: their twist follows from `bent`, what each group of rods knows of its configuration.
    """

    R: Array
    p: Array
    S: Array
    c: Array
    bent: tuple[Any, ...] = ()


class Kind(NamedTuple):
    """One computational kind of joint; the functions act on a single joint."""

    name: str
    suffixes: tuple[str, ...]  # one a coordinate; "" for a single one
    units: tuple[str, ...]
    nq: int
    neutral: tuple[float, ...]
    relative: Callable[[Vec3, Vec3, Configuration, Rates], Relative]
    advance: Callable[[Configuration, Rates], Configuration]
    to_chart: Callable[[Configuration], Rates]  # the coordinates that are reported: they add, or are exponential
    from_chart: Callable[[Rates], Configuration]
    chart_rate: Callable[[Configuration], Float[Array, "dof dof"]]  # N with chart' = N v
    from_chart_rate: Callable[[Rates, Rates], Rates]  # v of a chart's value and rate
    bracket: Callable[[Rates, Rates], Rates] | None

    @property
    def dof(self) -> int:
        return len(self.suffixes)


def _columns(*columns: tuple[Array, Array]) -> Array:
    return jnp.stack([jnp.concatenate(c) for c in columns], axis=1)


def _screw(axis, second, q, v):
    # revolute: (axis, 0); prismatic: (0, axis); helical: (axis, pitch * axis): one screw, constant in the child
    return Relative(so3.about_axis(axis, q[0]), second * q[0], _columns((second, axis)), jnp.zeros(6))


def _cylindrical(axis, second, q, v):
    o = jnp.zeros(3)
    return Relative(so3.about_axis(axis, q[0]), axis * q[1], _columns((o, axis), (axis, o)), jnp.zeros(6))


def _universal(axis, second, q, v):
    Rb = so3.about_axis(second, q[1])
    first = tmatvec(Rb, axis)
    o = jnp.zeros(3)
    c = jnp.concatenate([o, cross(first, second) * (v[0] * v[1])])
    return Relative(matmul(so3.about_axis(axis, q[0]), Rb), o, _columns((o, first), (o, second)), c)


def _spherical(axis, second, q, v):
    S = jnp.concatenate([jnp.zeros((3, 3)), jnp.eye(3)])
    return Relative(so3.to_matrix(q), jnp.zeros(3), S, jnp.zeros(6))


def _planar(axis, second, q, v):
    z = jnp.array([0.0, 0.0, 1.0])
    R = so3.about_axis(z, q[2])
    o, rate = jnp.zeros(3), tmatvec(R, jnp.concatenate([v[:2], jnp.zeros(1)]))
    c = jnp.concatenate([-v[2] * cross(z, rate), o])
    return Relative(R, jnp.concatenate([q[:2], jnp.zeros(1)]), _columns((R[0], o), (R[1], o), (o, z)), c)


def _free(axis, second, q, v):
    return Relative(so3.to_matrix(q[3:]), q[:3], jnp.eye(6), jnp.zeros(6))


def _still(axis, second, q, v):
    return Relative(jnp.eye(3), jnp.zeros(3), jnp.zeros((6, 0)), jnp.zeros(6))


def _add(q, u):
    return q + u


def _same(q):
    return q


def _second(x, dx):
    return dx


def _rates_are_velocities(q):
    return jnp.eye(q.shape[0])


def _turn(q, u):
    return so3.normalise(so3.multiply(q, so3.exp(u)))


def _move(q, u):
    g = se3.Pose(q[:3], q[3:]) @ se3.exp(u)
    return jnp.concatenate([g.position, so3.normalise(g.quaternion)])


def _free_chart(q):
    return jnp.concatenate([q[:3], so3.log(q[3:])])


def _free_chart_rate(q):
    o = jnp.zeros((3, 3))
    return jnp.block([[so3.to_matrix(q[3:]), o], [o, so3.dexp_inverse(so3.log(q[3:]))]])


def _spherical_velocity(x, dx):
    return matvec(so3.dexp(x), dx)


def _free_velocity(x, dx):
    R = so3.to_matrix(so3.exp(x[3:]))
    return jnp.concatenate([tmatvec(R, dx[:3]), matvec(so3.dexp(x[3:]), dx[3:])])


def _adding(name, suffixes, units, relative) -> Kind:
    n = len(suffixes)
    neutral = (0.0,) * n
    return Kind(name, suffixes, units, n, neutral, relative, _add, _same, _same, _rates_are_velocities, _second, None)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _adding("screw", ("",), ("rad or m",), _screw),
        _adding("cylindrical", ("angle", "slide"), ("rad", "m"), _cylindrical),
        _adding("universal", ("first", "second"), ("rad", "rad"), _universal),
        _adding("planar", ("x", "y", "angle"), ("m", "m", "rad"), _planar),
        _adding("segment", (), (), _still),  # a piece of a rod; its coordinates belong to the rod
        _adding("strain", ("",), ("1/m",), _still),  # a coordinate of a rod
        Kind(
            "spherical",
            ("rx", "ry", "rz"),
            ("rad", "rad", "rad"),
            4,
            (1.0, 0.0, 0.0, 0.0),
            _spherical,
            _turn,
            so3.log,
            so3.exp,
            lambda q: so3.dexp_inverse(so3.log(q)),
            _spherical_velocity,
            cross,
        ),
        Kind(
            "free",
            ("x", "y", "z", "rx", "ry", "rz"),
            ("m", "m", "m", "rad", "rad", "rad"),
            7,
            (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
            _free,
            _move,
            _free_chart,
            lambda x: jnp.concatenate([x[:3], so3.exp(x[3:])]),
            _free_chart_rate,
            _free_velocity,
            se3.bracket,
        ),
    )
}


def place(R0: Array, p0: Array, relative: Relative) -> Relative:
    """The same relative motion seen from the parent body, where the joint frame has the pose (R0, p0)."""
    return relative._replace(R=matmul(R0, relative.R), p=p0 + matvec(R0, relative.p))
