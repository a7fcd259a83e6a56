"""The accelerated solver as one GPU kernel: one program per problem, with the columns of Z in registers.

As a loop of XLA kernels, every iteration would read Z twice from memory, and a batch would wait for its slowest problem. Here
Z is read once. The kernel's arrays have sizes that are powers of two and cannot be sliced or concatenated, so vectors over the
rows are lists of arrays over the contacts, one per kind of rows: the n-th rows of all contacts of a block. The padding is open
contacts.
"""

import functools
import operator
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.contact.solve.accelerated import accelerated
from undula.core.arrays import Array
from undula.numerics.kernels import MAX_NUMBERS, places, power_of_two, warps
from undula.numerics.lanes import Program

if TYPE_CHECKING:
    from undula.contact.solve.problem import Block, Problem

KINDS = 6  # limit on the kinds of rows: each needs registers, and with twice as many the kernel is slower than the loop


class _Shape(NamedTuple):
    """Sizes of the kernel's arrays; first row and number of contacts of each kind of rows."""

    unknowns: int
    contacts: int
    kinds: list[tuple[int, int]]

    @property
    def numbers(self) -> int:
        return len(self.kinds) * self.unknowns * self.contacts


def takes(problem: "Problem") -> bool:
    """Whether the kernel can solve the problem: it must be small, with few kinds of rows and laws that can run on lanes."""
    if problem.Z.size == 0:
        return False
    shape = _shape(problem)
    if shape.numbers > MAX_NUMBERS or len(shape.kinds) > KINDS:
        return False
    lane = jax.ShapeDtypeStruct((shape.contacts,), problem.Z.dtype)
    try:
        laws = [_law(b) for b in problem.blocks]
        for law in laws:
            jax.eval_shape(law.run, [lane] * len(law.needed), [lane] * law.rows, lane)
    except Exception:  # a custom law may do anything
        return False
    numbers = [problem.Z, problem.w, problem.offset, problem.closed, *(x for law in laws for x in law.needed)]
    known = not any(law.program.closes_over_traced for law in laws)
    return known and all(x.dtype == problem.Z.dtype for x in numbers)


def solve(
    problem: "Problem",
    D: Array,
    guess: Array,
    memory: Array,
    tolerance: float,
    max_iterations: int,
    interpret: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """The same result as `accelerated`; requires `takes(problem)`. `interpret`: runs slowly, without a GPU."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    shape, laws = _shape(problem), [_law(b) for b in problem.blocks]
    numbers = [law.needed for law in laws]
    dtype = problem.Z.dtype

    def kernel(Z, w, offset, closed, D, guess, memory, numbers, P, step, count, residual):
        lane = jax.lax.iota(jnp.int32, shape.contacts)
        unknown, column = places(shape.unknowns, shape.contacts)

        def rows(ref, other=0.0):
            return [triton.load(ref.at[first + lane], mask=lane < n, other=other) for first, n in shape.kinds]

        def vector(ref, size):
            place = jax.lax.iota(jnp.int32, size)
            return triton.load(ref.at[place], mask=place < ref.shape[0], other=0.0)

        packed = _Packed(
            [
                triton.load(Z.at[unknown, first + column], mask=(unknown < Z.shape[0]) & (column < n), other=0.0)
                for first, n in shape.kinds
            ],
            vector(w, shape.unknowns),
            rows(offset),
            rows(closed),
            [lane < n for _, n in shape.kinds],
            problem.size,
            laws,
            [[vector(ref, shape.contacts) for ref in own] for own in numbers],
        )
        out = accelerated(packed, rows(D, 1.0), rows(guess), memory[0], tolerance, max_iterations)
        for x, (first, n) in zip(out[0], shape.kinds):
            place = jnp.where(lane < n, first + lane, problem.size)  # padding is not stored
            triton.store(P.at[place], x, mask=lane < n)
        step[0], count[0], residual[0] = out[1:]

    sizes = (problem.size, dtype), (1, dtype), (1, jnp.zeros((), int).dtype), (1, dtype)
    P, *rest = pl.pallas_call(
        kernel,
        grid=(1,),
        out_shape=[jax.ShapeDtypeStruct((n,), kind) for n, kind in sizes],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=warps(shape.numbers)),
    )(problem.Z, problem.w, problem.offset, problem.closed, D, guess, memory[None], numbers)
    return P, *(x[0] for x in rest)


class _Packed(NamedTuple):
    """A problem inside the kernel; lists over the kinds of rows."""

    columns: list[Array]  # (unknowns, contacts)
    w: Array
    offset: list[Array]
    closed: list[Array]
    real: list[Array]  # False for padding
    size: int
    laws: list["_Law"]
    numbers: list[list[Array]]  # of the laws, over the contacts

    def effect(self, P: list[Array]) -> Array:
        return functools.reduce(operator.add, [Z * p[None] for Z, p in zip(self.columns, P)]).sum(1)

    def velocities(self, y: Array) -> list[Array]:
        return [(Z * y[:, None]).sum(0) + offset for Z, offset in zip(self.columns, self.offset)]

    def project(self, x: list[Array]) -> list[Array]:
        parts: list[Array] = []
        for law, numbers in zip(self.laws, self.numbers):
            normal, *rest = x[len(parts) : len(parts) + 1 + law.rows]
            normal = jnp.maximum(normal, 0.0)
            parts += [normal, *law.run(numbers, rest, normal)]
        return [jnp.where(real, closed * p, 0.0) for real, closed, p in zip(self.real, self.closed, parts)]


class _Law(NamedTuple):
    """The projection of a block's law, with one lane per contact."""

    program: Program
    rows: int
    numbers: list[Array | None]  # of the law, each over the contacts; None where the projection does not depend on it

    @property
    def needed(self) -> list[Array]:
        return [x for x in self.numbers if x is not None]

    def run(self, numbers: list[Array], impulse: list[Array], normal: Array) -> list[Array]:
        """The nearest admissible impulses, from the needed numbers, the impulses and the normal impulse."""
        left = iter(numbers)
        lanes = [np.nan if x is None else next(left) for x in self.numbers]
        (out,) = self.program([*lanes, *impulse, normal])
        return [jnp.broadcast_to(jnp.asarray(x, normal.dtype), normal.shape) for x in out.ravel()]


def _law(b: "Block") -> _Law:
    leaves, tree = jax.tree.flatten(b.law)
    single = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves]
    impulse, normal = (jax.ShapeDtypeStruct(s, leaves[0].dtype) for s in ((b.law.rows,), ()))
    program = Program(lambda x, p, n: jax.tree.unflatten(tree, x).project(p, n), single, impulse, normal)
    numbers: list[Array | None] = []
    for x, used in zip(leaves, program.used):
        flat = x.reshape(b.count, -1)
        numbers += [flat[:, j] if used else None for j in range(flat.shape[1])]
    return _Law(program, b.law.rows, numbers)


def _shape(problem: "Problem") -> _Shape:
    kinds = [(b.first + k * b.count, b.count) for b in problem.blocks for k in range(b.rows)]
    return _Shape(power_of_two(problem.Z.shape[0]), power_of_two(max(n for _, n in kinds)), kinds)
