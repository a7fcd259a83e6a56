"""Rods as the dynamics sees them: groups of one shape, evaluated together."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.lie.pick import pick
from undula.rods import magnus


class RodGroup(eqx.Module):
    """Rods of one shape (numbers of nodes, Gauss points and coordinates), stacked."""

    shapes: Float[Array, "rods nodes gauss 6 modes"]
    """Strain of a unit of each coordinate at the Gauss points of each piece"""
    reference: Float[Array, "rods nodes gauss 6"]
    steps: Float[Array, "rods nodes"]
    """Lengths of the pieces [m]"""
    stiffness: Float[Array, "rods modes modes"]
    damping: Float[Array, "rods modes modes"]
    links: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Their places among the coordinates of all the rods, which are the last ones of a system"""
    total: int = eqx.field(static=True)
    """How many there are of these"""

    def own(self, x: Float[Array, "n"]) -> Float[Array, "rods modes"]:
        """The rods' part of a configuration, of rates or of accelerations."""
        return pick(x[x.shape[0] - self.total :], np.array(self.coordinates))

    def field(self, x: Float[Array, "rods modes"]) -> Float[Array, "rods nodes gauss 6"]:
        """A Phi x at the Gauss points (2.31)."""
        return (self.shapes * x[:, None, None, None, :]).sum(-1)

    def cofield(self, forces: Float[Array, "rods nodes gauss 6"]) -> Float[Array, "rods modes"]:
        """The transpose of `field`."""
        return (self.shapes * forces[..., None]).sum((1, 2, 3))

    def strains(self, q: Float[Array, "nq"]) -> Float[Array, "rods nodes gauss 6"]:
        """Strains at the Gauss points."""
        return self.reference + self.field(self.own(q))

    def twists(self, xi: Array, rates: Float[Array, "rods modes"]) -> Float[Array, "rods nodes 6"]:
        """Relative body twists across the pieces."""
        return _each_piece(magnus.twist)(xi, self.field(rates), self.steps)

    def biases(self, xi: Array, rates: Float[Array, "rods modes"]) -> Float[Array, "rods nodes 6"]:
        """Their derivatives at constant rates."""
        return _each_piece(magnus.bias)(xi, self.field(rates), self.steps)

    def poses(self, xi: Array) -> tuple[Float[Array, "rods nodes 3 3"], Float[Array, "rods nodes 3"]]:
        """Relative poses across the pieces."""
        return _each_piece(lambda x, h: magnus.pose(magnus.increment(x, h)))(xi, self.steps)

    def project(self, xi: Array, F: Float[Array, "rods nodes 6"]) -> Float[Array, "rods modes"]:
        """Efforts conjugate to the coordinates, from the wrenches across the pieces (3.44)."""
        return self.cofield(_each_piece(magnus.strain_forces)(xi, F, self.steps))

    def elastic(self, q: Float[Array, "rods modes"], v: Float[Array, "rods modes"]) -> Float[Array, "rods modes"]:
        """K_ee q + D_ee q' of (2.40)."""
        return (self.stiffness * q[:, None]).sum(-1) + (self.damping * v[:, None]).sum(-1)

    def energy(self, q: Float[Array, "rods modes"]) -> Float[Array, ""]:
        """Elastic energy of all the rods [J]."""
        return (self.stiffness * q[:, None] * q[:, :, None]).sum() / 2

    def dissipated(self, v: Float[Array, "rods modes"]) -> Float[Array, ""]:
        """Power that the damping of all the rods takes [W]."""
        return (self.damping * v[:, None] * v[:, :, None]).sum()


def _each_piece(f: Any) -> Any:
    return jax.vmap(jax.vmap(f))


def scatter(groups: tuple[RodGroup, ...], parts: list[Array], size: int) -> Float[Array, "nv"]:
    """Values of the groups' coordinates in the order of a system's coordinates; zero for those of joints."""
    places = np.concatenate([np.array(g.coordinates).reshape(-1) for g in groups])
    joined = pick(jnp.concatenate([p.reshape(-1) for p in parts]), np.argsort(places))
    return jnp.concatenate([jnp.zeros(size - len(places)), joined])
