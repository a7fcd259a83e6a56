"""Scans along a tree whose links are numbered depth first; in a chain they are plain scans."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from undula.model.slots import SlotPlan
from undula.numerics.loops import unrolled

Tree = Any


def _unroll(xs: Tree) -> int:
    return unrolled(jax.tree.leaves(xs)[0].shape[0])


def _get(buffer: Tree, i) -> Tree:
    return jax.tree.map(lambda b: jax.lax.dynamic_index_in_dim(b, i, keepdims=False), buffer)


def _set(buffer: Tree, i, value: Tree) -> Tree:
    return jax.tree.map(lambda b, x: jax.lax.dynamic_update_index_in_dim(b, x, i, 0), buffer, value)


def outward(step: Callable[[Tree, Tree], tuple[Tree, Tree]], root: Tree, xs: Tree, slots: SlotPlan) -> Tree:
    """From the root to the leaves: `step(parent_state, x) -> (state, y)`; returns the ys, stacked by link."""
    if slots.count == 0:
        return jax.lax.scan(step, root, xs, unroll=_unroll(xs))[1]

    # slots 1..count keep the states of links with further children to come; the last one is never read
    discard = slots.count + 1
    kept = jax.tree.map(lambda r: jnp.zeros((slots.count + 2, *r.shape), r.dtype).at[slots.root_write].set(r), root)
    read = jnp.asarray(slots.read)
    write = jnp.where(slots.write == 0, discard, slots.write)

    def body(carry, x):
        last, kept = carry
        r, w, x = x
        parent = jax.tree.map(lambda a, b: jnp.where(r == 0, a, b), last, _get(kept, r))
        state, y = step(parent, x)
        return (state, _set(kept, w, state)), y

    return jax.lax.scan(body, (root, kept), (read, write, xs), unroll=_unroll(xs))[1]


def inward(step: Callable[[Tree, Tree], tuple[Tree, Tree]], zero: Tree, xs: Tree, slots: SlotPlan) -> tuple[Tree, Tree]:
    """From the leaves to the root: `step(sum_over_children, x) -> (to_parent, y)`; returns (sum at the root, ys)."""
    if slots.count == 0:
        return jax.lax.scan(step, zero, xs, reverse=True, unroll=_unroll(xs))

    kept = jax.tree.map(lambda z: jnp.zeros((slots.count + 1, *z.shape), z.dtype), zero)

    def body(carry, x):
        last, kept = carry
        r, w, x = x
        # slot 0 stays zero, so that it adds nothing for links with a single child
        total = jax.tree.map(jnp.add, last, _get(kept, w))
        kept = _set(kept, w, zero)
        up, y = step(total, x)
        late = jax.tree.map(lambda k, u: jnp.where(r == 0, k, k + u), _get(kept, r), up)
        last = jax.tree.map(lambda u: jnp.where(r == 0, u, 0.0), up)
        return (last, _set(kept, r, late)), y

    plan = jnp.asarray(slots.read), jnp.asarray(slots.write)
    (last, kept), ys = jax.lax.scan(body, (zero, kept), (*plan, xs), reverse=True, unroll=_unroll(xs))
    return jax.tree.map(lambda a, b: a + b[slots.root_write], last, kept), ys
