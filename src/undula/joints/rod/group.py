"""Rods in the form used by the dynamics: pieces of one shape, evaluated together."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.joints.rod import magnus
from undula.numerics.pick import pick


class Pieces(eqx.Module):
    """Pieces of rods, stacked; all rods have the same strains and numbers of pieces, Gauss points and coordinates."""

    shapes: Float[Array, "rods gauss strains nodes modes"]
    """Strains of a unit of each coordinate at the Gauss points of each piece, for the strains that are not blocked"""
    reference: Float[Array, "rods gauss 6 nodes"]
    """Stress-free strains at the Gauss points"""
    steps: Float[Array, "rods nodes"]
    """Lengths of the pieces [m]"""
    strains: tuple[int, ...] = eqx.field(static=True)
    """The strains that are not blocked, of (Gx, Gy, Gz, Kx, Ky, Kz)"""
    present: tuple[int, ...] = eqx.field(static=True)
    """Those that are not identically zero"""
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Indices of each rod's coordinates among those of all rods, which are the last ones of a system"""
    total: int = eqx.field(static=True)
    """Number of coordinates of all rods"""

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
        """Unblocked strains at the Gauss points."""
        return pick_axis(self.reference, self.strains) + self.field(q)

    def whole(self, xi: Float[Array, "rods gauss strains nodes"]) -> Float[Array, "rods gauss 6 nodes"]:
        """All six strains at the Gauss points."""
        parts = [xi[:, :, self.strains.index(c)] if c in self.strains else self.reference[:, :, c] for c in range(6)]
        return jnp.stack(parts, 2)

    def whole_rates(self, dxi: Float[Array, "rods gauss strains nodes"]) -> Float[Array, "rods gauss 6 nodes"]:
        """Rates of all six strains at the Gauss points."""
        zero = 0 * self.reference[:, :, 0]
        return jnp.stack([dxi[:, :, self.strains.index(c)] if c in self.strains else zero for c in range(6)], 2)

    def bend(self, q: Float[Array, "rods modes"]) -> magnus.Bent:
        """The pieces in a configuration, as the functions below need them."""
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
        """Derivatives of the twists at constant rates."""
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


class RodGroup(Pieces):
    """Rods of one shape (numbers of nodes, Gauss points and coordinates), stacked."""

    weights: Float[Array, "rods nodes"]
    """Quadrature weights of the nodes [m]"""
    gauss_weights: Float[Array, "rods gauss nodes"]
    """Quadrature weights of the Gauss points of the pieces [m]"""
    gauss_abscissae: Float[Array, "rods gauss nodes"]
    """Abscissae of the Gauss points [m]"""
    abscissae: Float[Array, "rods sections"]
    """Abscissae of the root and the nodes [m]"""
    section_shapes: Float[Array, "rods strains sections modes"]
    section_reference: Float[Array, "rods 6 sections"]
    """`shapes` and `reference` there, for reported strains"""
    half_shapes: Float[Array, "rods gauss strains halves modes"]
    half_reference: Float[Array, "rods gauss 6 halves"]
    """`shapes` and `reference` on pieces of half the length: for estimates of the error"""
    length: Float[Array, "rods"]
    """[m]"""
    starts: Float[Array, "rods nodes"]
    """Where the pieces start, as fractions of the length"""
    constant: Float[Array, "rods 6"]
    """The stress-free strain, where it is constant"""
    links: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Links of the nodes"""
    rods: tuple[int, ...] = eqx.field(static=True)
    """Indices of the rods, in the order in which they were defined"""
    elastic: bool = eqx.field(static=True)
    """Whether some of their coordinates are not driven"""
    gauss: tuple[float, ...] = eqx.field(static=True)
    """Gauss points of a piece, as fractions"""
    bases: tuple[Any, ...] = eqx.field(static=True)
    points: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    functions: tuple[Any, ...] = eqx.field(static=True)
    """For each rod: the bases of its strains, or the points of an imposed field; the stress-free strain as a function of X"""

    def section_strains(self, q: Float[Array, "rods modes"]) -> Float[Array, "rods sections 6"]:
        """All six strains at the root and at the nodes."""
        return self._at_sections(q, self.section_reference)

    def section_strain_rates(self, v: Float[Array, "rods modes"]) -> Float[Array, "rods sections 6"]:
        """Rates of all six strains at the root and at the nodes."""
        return self._at_sections(v, 0 * self.section_reference)

    def _at_sections(self, x: Array, reference: Array) -> Array:
        own = (self.section_shapes * x[:, None, None, :]).sum(-1)
        parts = [reference[:, c] + (own[:, self.strains.index(c)] if c in self.strains else 0.0) for c in range(6)]
        return jnp.stack(parts, -1)


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
