"""The contact problem: impulses P and velocities g = Z^T (w + Z P) + offset with -g in N_C(P), contact by contact.

Z comes from the factorisation of the inertia (H = U^T U, Z = U^-T J^T), so that the matrix G = Z^T Z of the problem is never
formed. P is a solution if and only if it is the projection of P - r g onto C, for any r > 0 (document 003, (77)-(79)).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.contact.laws import ContactLaw
from undula.core.arrays import Array

NO_MOTION = 1e-20  # relative to the largest compliance of all rows; a smaller one is rounding error


class Block(NamedTuple):
    """Contacts with the same law in the vector of rows: `count` contacts, from row `first` on, all normal rows first."""

    law: ContactLaw
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def rows(self) -> int:
        return 1 + self.law.rows

    def take(self, x: Array) -> Float[Array, "rows count"]:
        """Their part of a vector over all rows."""
        return x[self.first : self.first + self.count * self.rows].reshape(self.rows, self.count)


def over_rows(blocks: tuple[Block, ...], x: Float[Array, "contacts"]) -> Float[Array, "rows"]:
    """One number per contact, repeated for each of its rows."""
    parts, at = [jnp.zeros(0)], 0
    for b in blocks:
        parts.append(jnp.tile(x[at : at + b.count], b.rows))
        at += b.count
    return jnp.concatenate(parts)


class Problem(NamedTuple):
    """The input of a solver. `closed` (rows,): 1 for rows of closed contacts, 0 for rows whose impulse must be zero."""

    Z: Float[Array, "n rows"]
    w: Float[Array, "n"]
    offset: Float[Array, "rows"]
    closed: Float[Array, "rows"]
    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.Z.shape[1]

    def effect(self, P: Float[Array, "rows"]) -> Float[Array, "n"]:
        """Z P."""
        return jnp.dot(self.Z, P)  # faster than a sum of products at this size

    def velocities(self, y: Float[Array, "n"]) -> Float[Array, "rows"]:
        """Z^T y + offset."""
        return jnp.dot(y, self.Z) + self.offset

    def project(self, x: Float[Array, "rows"]) -> Float[Array, "rows"]:
        """The nearest admissible impulses: first the normal ones, on which the others depend."""
        parts = []
        for b in self.blocks:
            own = b.take(x)
            normal = jnp.maximum(own[0], 0.0)
            rest = jax.vmap(lambda law, p, n: law.project(p, n), (0, -1, 0), -1)(b.law, own[1:], normal)
            parts.append(jnp.concatenate([normal, rest.reshape(-1)]))
        return self.closed * (parts[0] if len(parts) == 1 else jnp.concatenate(parts))

    def normals(self, x: Float[Array, "*n rows"]) -> Float[Array, "*n contacts"]:
        """The entries of the normal rows."""
        return jnp.concatenate([x[..., b.first : b.first + b.count] for b in self.blocks], axis=-1)

    def metric(self) -> Float[Array, "rows"]:
        """Diagonal of G, averaged over rows projected together, so that it does not depend on the choice of tangents."""
        diagonal = (self.Z * self.Z).sum(0)
        parts = []
        for b in self.blocks:
            own, columns, at = b.take(diagonal), [], 0
            for size in (1, *b.law.blocks):
                columns += [own[at : at + size].mean(0)] * size
                at += size
            parts.append(jnp.concatenate(columns))
        whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return jnp.where(whole > 0, whole, 1.0)

    def scale(self, P: Float[Array, "rows"]) -> Float[Array, ""]:
        """Magnitude of the largest impulse."""
        return jnp.abs(P).max(initial=0.0)


def blocks_of(laws: list[ContactLaw], counts: tuple[int, ...]) -> tuple[Block, ...]:
    """Consecutive blocks of contacts, from their stacked laws and their numbers of contacts."""
    out: list[Block] = []
    first = 0
    for law, count in zip(laws, counts):
        out.append(Block(law, first, count))
        first += count * out[-1].rows
    return tuple(out)


def movable(Z: Float[Array, "n rows"]) -> Float[Array, "rows"]:
    """1 for rows along which a contact can move, 0 where the compliance is rounding error and impulses would be arbitrary."""
    diagonal = (Z * Z).sum(0)
    return (diagonal >= NO_MOTION * diagonal.max()).astype(float)


def bounce(blocks: tuple[Block, ...], before: Float[Array, "rows"]) -> Float[Array, "rows"]:
    """Contribution of restitution to the velocities: a fraction of the normal velocities at the start."""
    parts = [jnp.zeros(0)]
    for b in blocks:
        normal = b.law.restitution * jnp.minimum(b.take(before)[0], 0.0)
        parts.append(jnp.concatenate([normal, jnp.zeros((b.rows - 1) * b.count)]))
    return jnp.concatenate(parts)
