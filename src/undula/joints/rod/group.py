"""Rods as the dynamics sees them: groups of one shape, evaluated together."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.joints.rod import magnus
from undula.numerics.pick import pick


class RodGroup(eqx.Module):
    """Rods of one shape (numbers of nodes, Gauss points and coordinates), stacked."""

    shapes: Float[Array, "rods gauss strains nodes modes"]
    """Strains of a unit of each coordinate at the Gauss points of each piece, for the strains that are not blocked"""
    reference: Float[Array, "rods gauss 6 nodes"]
    """Strains without stress, there"""
    steps: Float[Array, "rods nodes"]
    """Lengths of the pieces [m]"""
    stiffness: Float[Array, "rods modes modes"]
    damping: Float[Array, "rods modes modes"]
    abscissae: Float[Array, "rods sections"]
    """Of the root and the nodes [m]"""
    section_shapes: Float[Array, "rods strains sections modes"]
    section_reference: Float[Array, "rods 6 sections"]
    """`shapes` and `reference` there: what is reported"""
    half_shapes: Float[Array, "rods gauss strains halves modes"]
    half_reference: Float[Array, "rods gauss 6 halves"]
    """`shapes` and `reference` on pieces of half the length: for estimates of the error"""
    strains: tuple[int, ...] = eqx.field(static=True)
    """The strains that are not blocked, of (Gx, Gy, Gz, Kx, Ky, Kz)"""
    present: tuple[int, ...] = eqx.field(static=True)
    """Those that are not zero throughout"""
    links: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Their places among the coordinates of all the rods, which are the last ones of a system"""
    total: int = eqx.field(static=True)
    """How many there are of these"""

    def own(self, x: Float[Array, "n"]) -> Float[Array, "rods modes"]:
        """The rods' part of a configuration, of rates or of accelerations."""
        return pick(x[x.shape[0] - self.total :], np.array(self.coordinates))

    def field(self, x: Float[Array, "rods modes"]) -> Float[Array, "rods gauss strains nodes"]:
        """A Phi x at the Gauss points (2.31), for the strains that are not blocked."""
        return (self.shapes * x[:, None, None, None, :]).sum(-1)

    def cofield(self, forces: Float[Array, "rods gauss strains nodes"]) -> Float[Array, "rods modes"]:
        """The transpose of `field`."""
        return (self.shapes * forces[..., None]).sum((1, 2, 3))

    def bent(self, q: Float[Array, "rods modes"]) -> Float[Array, "rods gauss strains nodes"]:
        """Strains at the Gauss points, those that are not blocked."""
        return pick_axis(self.reference, self.strains) + self.field(q)

    def whole(self, xi: Float[Array, "rods gauss strains nodes"]) -> Float[Array, "rods gauss 6 nodes"]:
        """All six strains at the Gauss points."""
        parts = [xi[:, :, self.strains.index(c)] if c in self.strains else self.reference[:, :, c] for c in range(6)]
        return jnp.stack(parts, 2)

    def bend(self, q: Float[Array, "rods modes"]) -> magnus.Bent:
        """The pieces in a configuration: what the functions below need of it."""
        return magnus.bend(self._screws(self.bent(q)), self.steps)

    def _screws(self, xi: Array) -> list[magnus.Screw]:
        """The strains at each Gauss point, as screws over all the pieces."""
        points = range(xi.shape[1])
        fixed = [{c: self.reference[:, g, c] for c in self.present if c not in self.strains} for g in points]
        return [f | r for f, r in zip(fixed, self._rates(xi))]

    def _rates(self, field: Array) -> list[magnus.Screw]:
        return [{c: field[:, g, k] for k, c in enumerate(self.strains)} for g in range(field.shape[1])]

    def twists(self, bent: magnus.Bent, rates: Float[Array, "rods modes"]) -> Float[Array, "rods nodes 6"]:
        """Relative body twists across the pieces."""
        twists = magnus.twist(bent, self._rates(self.field(rates)), self.steps)
        return magnus.whole(twists, self.steps.shape)

    def biases(self, bent: magnus.Bent, rates: Float[Array, "rods modes"]) -> Float[Array, "rods nodes 6"]:
        """Their derivatives at constant rates."""
        biases = magnus.bias(bent, self._rates(self.field(rates)), self.steps)
        return magnus.whole(biases, self.steps.shape)

    def poses(self, bent: magnus.Bent) -> tuple[Float[Array, "rods nodes 3 3"], Float[Array, "rods nodes 3"]]:
        """Relative poses across the pieces."""
        return magnus.pose(bent, self.steps.shape)

    def project(self, bent: magnus.Bent, F: Float[Array, "rods nodes 6"]) -> Float[Array, "rods modes"]:
        """Efforts conjugate to the coordinates, from the wrenches across the pieces (3.44)."""
        wrench = {i: F[..., i] for i in range(6)}
        forces = magnus.strain_forces(bent, wrench, self.steps, self.strains)
        stacked = magnus.columns([f.get(c, 0.0) for f in forces for c in self.strains], self.steps.shape)
        by_point = stacked.reshape(*self.steps.shape, len(forces), len(self.strains))
        return self.cofield(jnp.moveaxis(by_point, 1, -1))

    def elastic(self, q: Float[Array, "rods modes"], v: Float[Array, "rods modes"]) -> Float[Array, "rods modes"]:
        """K_ee q + D_ee q' of (2.40)."""
        return (self.stiffness * q[:, None]).sum(-1) + (self.damping * v[:, None]).sum(-1)

    def section_strains(self, q: Float[Array, "rods modes"]) -> Float[Array, "rods sections 6"]:
        """All six strains at the root and at the nodes."""
        own = (self.section_shapes * q[:, None, None, :]).sum(-1)
        parts = [
            self.section_reference[:, c] + (own[:, self.strains.index(c)] if c in self.strains else 0.0)
            for c in range(6)
        ]
        return jnp.stack(parts, -1)

    def energy(self, q: Float[Array, "rods modes"]) -> Float[Array, ""]:
        """Elastic energy of all the rods [J]."""
        return (self.stiffness * q[:, None] * q[:, :, None]).sum() / 2

    def dissipated(self, v: Float[Array, "rods modes"]) -> Float[Array, ""]:
        """Power that the damping of all the rods takes [W]."""
        return (self.damping * v[:, None] * v[:, :, None]).sum()


def pick_axis(
    x: Float[Array, "rods gauss 6 nodes"], which: tuple[int, ...]
) -> Float[Array, "rods gauss strains nodes"]:
    """Some of the six strains."""
    return jnp.stack([x[:, :, c] for c in which], 2)


def scatter(groups: tuple[RodGroup, ...], parts: list[Array], size: int) -> Float[Array, "nv"]:
    """Values of the groups' coordinates in the order of a system's coordinates; zero for those of joints."""
    places = np.concatenate([np.array(g.coordinates).reshape(-1) for g in groups])
    joined = pick(jnp.concatenate([p.reshape(-1) for p in parts]), np.argsort(places))
    return jnp.concatenate([jnp.zeros(size - len(places)), joined])
