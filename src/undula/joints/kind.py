"""A kind of joint: a map from coordinates to a relative pose and its rates.

A kind does not depend on trees. From its two constant vectors (`axis`, `second`) and its configuration q it gives, in
the joint's frame, the pose (R, p) of the child; the child's relative body twist is S v, and S' v (`bias`) is the part
of the relative acceleration that does not contain v'.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics.small import Mat3, Vec3, matmul, matvec

Configuration = Float[Array, "nq"]
Rates = Float[Array, "dof"]


class Relative(NamedTuple):
    """Relative motion across one joint: pose (R, p) and screw columns S (6 x dof)."""

    R: Array
    p: Array
    S: Array


class Chart(NamedTuple):
    """Maps between a configuration that is not a vector, such as a quaternion, and the reported coordinates x.

    `advance` moves q along a body increment; `bracket` is the Lie bracket of two increments.
    """

    advance: Callable[[Configuration, Rates], Configuration]
    to_x: Callable[[Configuration], Rates]
    from_x: Callable[[Rates], Configuration]
    rate: Callable[[Configuration], Float[Array, "dof dof"]]  # N with x' = N v
    velocity: Callable[[Rates, Rates], Rates]  # v from x and x'
    bracket: Callable[[Rates, Rates], Rates]


class Kind(NamedTuple):
    """One kind of joint; the functions act on a single joint. Create each kind once, at module level.

    - `suffixes`: appended to the joint's name to name its coordinates, "" for a single one; `units`: rad or m.
    - `relative` (axis, second, q): pose and screws; `bias` (axis, second, q, v): S' v, or None if that is zero.
    - `neutral`: its configuration at rest; `chart`: None if that is a vector of the coordinates themselves.
    - `second_is_axis`: whether `second` is a direction, whose length has no meaning.
    - `constants` (R0, axis, second) and `placed` (R0, p0, axis, second, constants, q): optional; for all joints of the
      kind at once, already placed in their parents, with precomputed constants.
    """

    name: str
    suffixes: tuple[str, ...]
    units: tuple[str, ...]
    relative: Callable[[Vec3, Vec3, Configuration], Relative]
    bias: Callable[[Vec3, Vec3, Configuration, Rates], Float[Array, "6"]] | None = None
    neutral: tuple[float, ...] = ()
    chart: Chart | None = None
    second_is_axis: bool = False
    constants: Callable[..., Any] | None = None
    placed: Callable[..., Relative] | None = None

    @property
    def dof(self) -> int:
        """Number of coordinates."""
        return len(self.suffixes)

    @property
    def nq(self) -> int:
        """Length of the configuration."""
        return self.dof if self.chart is None else len(self.neutral)


def columns(*parts: tuple[Array, Array]) -> Float[Array, "6 dof"]:
    """Screws from their (linear, angular) halves."""
    return jnp.stack([jnp.concatenate(c) for c in parts], axis=1)


def kind_of_pose(
    name: str,
    suffixes: tuple[str, ...],
    units: tuple[str, ...],
    pose: Callable[[Vec3, Vec3, Rates], tuple[Mat3, Vec3]],
) -> Kind:
    """A kind from its pose alone, (axis, second, q) -> (R, p): screws and bias are derived by differentiation.

    `suffixes` and `units` have one entry per coordinate, [rad] or [m].
    """

    def relative(axis, second, q):
        R, p = pose(axis, second, q)
        dR, dp = jax.jacfwd(lambda q: pose(axis, second, q))(q)
        turn = jnp.einsum("ji,jkd->ikd", R, dR)
        angular = jnp.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
        return Relative(R, p, jnp.concatenate([R.T @ dp, angular]))

    def bias(axis, second, q, v):
        return jax.jvp(lambda q: matvec(relative(axis, second, q).S, v), (q,), (v,))[1]

    return Kind(name, suffixes, units, relative, bias)


def place(R0: Array, p0: Array, relative: Relative) -> Relative:
    """The same relative motion seen from the parent body, where the joint's frame has the pose (R0, p0)."""
    return relative._replace(R=matmul(R0, relative.R), p=p0 + matvec(R0, relative.p))
