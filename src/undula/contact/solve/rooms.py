"""Capacities for closed contacts: a step is compiled for a few of them, and for all."""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from undula.core.arrays import Array

FEW = 4  # enough for the closed contacts in most steps of a robot that lifts its body


def rooms(whole: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Numbers of contacts of each form that a step is compiled for: a few of each form, then all of the first forms, then all.

    No contact is ever left out: the first sufficient capacity is used. On a GPU all branches would run, so there is only one.
    """
    if jax.default_backend() == "gpu":
        return [whole]
    few = tuple(FEW if m > 2 * FEW else m for m in whole)
    return sorted({tuple(whole[:i] + few[i:]) for i in range(len(whole) + 1)})


def fits(closed: list[Array], room: tuple[int, ...]) -> Bool[Array, ""]:
    """Whether the closed contacts of each form fit."""
    return jnp.all(jnp.stack([x.sum() <= n for x, n in zip(closed, room)]))


def places_of(closed: Float[Array, "m"], room: int) -> Float[Array, "room m"]:
    """Selection matrix that puts the closed contacts into the first places, in order."""
    rank = jnp.cumsum(closed)
    return (rank[None] == 1 + jnp.arange(room)[:, None]) * closed[None]


def taken(place: Float[Array, "room m"], x: Float[Array, "m *n"]) -> Float[Array, "room *n"]:
    """Values of the selected contacts; empty places get those of the first contact."""
    empty = 1 - place.sum(1)
    first = empty[:, None] * (jnp.arange(x.shape[0]) == 0)
    return jnp.tensordot(place + first, x, 1)
