"""Batches as lanes: every scalar of a computation becomes one vector over the instances.

`jax.vmap` adds an axis to every small array of a recursion, and a GPU then spends its time moving those arrays through
memory. `lanes(f)` instead replays the program of f with unrolled loops and with each array split into its scalars, each
of which is a vector of instances: only vector arithmetic remains, which XLA fuses into a few kernels. Constant zeros
and ones (an axis along z, a planar inertia) are folded away.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

BLOCK = 32  # instances per program of a fused kernel: one warp

# elementwise operations, by the name of the function in jax.numpy (for lanes) and in NumPy (for known numbers)
ELEMENTWISE = {
    "neg": "negative", "sin": "sin", "cos": "cos", "tan": "tan", "sqrt": "sqrt", "exp": "exp", "log": "log", "abs": "abs",
    "sign": "sign", "tanh": "tanh", "atan2": "arctan2", "asin": "arcsin", "acos": "arccos", "square": "square",
    "max": "maximum", "min": "minimum", "pow": "power", "rem": "fmod",
    "not": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
SAME = ("stop_gradient", "copy", "copy_p")
MOVES = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "concatenate", "rev", "pad",
         "tile", "stack", "unstack", "gather", "dynamic_slice", "dynamic_update_slice", "scatter", "split")  # fmt: skip
CALLS = {"pjit": "jaxpr", "jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat": "jaxpr",
         "checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}  # fmt: skip


def lanes(f: Callable, fused: bool | None = None) -> Callable:
    """f over a batch: every array of its arguments and results has the instances as an additional *last* axis.

    Equivalent to `jax.vmap(f, in_axes=-1, out_axes=-1)`, to rounding. Arguments without a batch axis are closed over,
    and must not be traced for a fused kernel. Intended for functions with small arrays and fixed loops, and for large
    batches.

    **Arguments:**

    - `fused`: whether to turn the whole function into one GPU kernel (Pallas on Triton) instead of leaving fusion to
      XLA; by default, on a GPU. A kernel cannot be differentiated: differentiate f first.
    """

    def batched(*args):
        leaves, tree = jax.tree.flatten(args)
        leaves = [jnp.asarray(x) for x in leaves]
        single = [jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in leaves]
        closed, shape = jax.make_jaxpr(f, return_shape=True)(*jax.tree.unflatten(tree, single))

        def replay(parts):
            return _replay(closed.jaxpr, [_apart(c) for c in closed.consts], parts)

        results = [v.aval for v in closed.jaxpr.outvars]
        as_kernel = jax.default_backend() == "gpu" if fused is None else fused
        if as_kernel:
            joined = _kernel(replay, leaves, results)
        else:
            size = leaves[0].shape[-1]
            joined = [_join(x, aval, size) for x, aval in zip(replay([_lanes_of(x) for x in leaves]), results)]
        return jax.tree.unflatten(jax.tree.structure(shape), joined)

    return batched


class Program:
    """The program of a function, traced for arrays shaped like `examples`, that runs on scalars that are lanes."""

    def __init__(self, f: Callable, *examples: Any):
        self._closed = jax.make_jaxpr(f)(*examples)

    @property
    def closes_over_traced(self) -> bool:
        """Whether it has constants that are not known at trace time."""
        return any(isinstance(c, jax.core.Tracer) for c in self._closed.consts)

    @property
    def used(self) -> list[bool]:
        """Whether the program depends on each array of its arguments."""
        jaxpr = self._closed.jaxpr
        read = {v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
        read |= {v for v in jaxpr.outvars if not isinstance(v, Literal)}
        return [v in read for v in jaxpr.invars]

    def __call__(self, scalars: list) -> list[np.ndarray]:
        """Results as object arrays of scalars, from the scalars of all arguments in order."""
        left = iter(scalars)
        parts = [_fill(v.aval.shape, list(itertools.islice(left, v.aval.size))) for v in self._closed.jaxpr.invars]
        return _replay(self._closed.jaxpr, [_apart(c) for c in self._closed.consts], parts)


def _kernel(replay: Callable, leaves: list, results: list) -> list:
    """The replayed program as one kernel: each thread reads the scalars of one instance once and writes its results."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    size = leaves[0].shape[-1]
    padded = -(-size // BLOCK) * BLOCK

    def flat(x):
        return jnp.pad(x.reshape(-1, size), ((0, 0), (0, padded - size)))

    rows = [int(np.prod(a.shape)) for a in results]

    def kernel(*refs):
        inputs, outputs = refs[: len(leaves)], refs[len(leaves) :]
        parts = [_fill(x.shape[:-1], [ref[k, :] for k in range(ref.shape[0])]) for x, ref in zip(leaves, inputs)]
        for part, ref, aval in zip(replay(parts), outputs, results):
            for k, value in enumerate(part.ravel()):
                ref[k, :] = jnp.broadcast_to(jnp.asarray(value, aval.dtype), (BLOCK,))

    def block(rows):
        return pl.BlockSpec((rows, BLOCK), lambda i: (0, i))

    out = pl.pallas_call(
        kernel,
        grid=(padded // BLOCK,),
        in_specs=[block(int(np.prod(x.shape[:-1]))) for x in leaves],
        out_specs=[block(r) for r in rows],
        out_shape=[jax.ShapeDtypeStruct((r, padded), a.dtype) for r, a in zip(rows, results)],
        compiler_params=triton.CompilerParams(num_warps=BLOCK // 32),
    )(*map(flat, leaves))
    return [x[:, :size].reshape(*a.shape, size) for x, a in zip(out, results)]


def _apart(x: Any) -> np.ndarray:
    """An array without lanes as an object array of its scalars, as numbers where these are known."""
    if isinstance(x, jax.core.Tracer):
        return _fill(x.shape, [x[i] for i in np.ndindex(x.shape)])
    x = np.asarray(x)
    return _fill(x.shape, list(x.ravel()))  # NumPy scalars, because Python numbers would lose the type


def _lanes_of(x: Any) -> np.ndarray:
    return _fill(x.shape[:-1], [x[i] for i in np.ndindex(x.shape[:-1])])


def _fill(shape: tuple[int, ...], values: list) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    for i, value in zip(np.ndindex(shape), values):
        out[i] = value
    return out


def _join(x: np.ndarray, aval: Any, size: int) -> Any:
    flat = [jnp.broadcast_to(jnp.asarray(v, aval.dtype), (size,)) for v in x.ravel()]
    return jnp.stack(flat).reshape(*aval.shape, size) if flat else jnp.zeros((*aval.shape, size), aval.dtype)


def _known(x: Any) -> bool:
    return not isinstance(x, jax.Array | jax.core.Tracer)


def _typed(x: Any, kind: Any) -> Any:
    """A known number, converted to the type that it has in the program.

    Python numbers are weakly typed: Triton would compute a lane made only of them in float32.
    """
    return kind(x) if _known(x) and type(x) is not kind else x


def _elementwise(name: str, *values: Any) -> Any:
    """An operation on scalars; known numbers are evaluated here and become constants of the program."""
    return getattr(np if all(map(_known, values)) else jnp, ELEMENTWISE[name])(*values)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x) if _known(x) else jax.lax.rsqrt(x)


def _add(a, b):
    return b if _known(a) and a == 0 else a if _known(b) and b == 0 else a + b


def _sub(a, b):
    return a if _known(b) and b == 0 else -b if _known(a) and a == 0 else a - b


def _mul(a, b):
    for x, y in ((a, b), (b, a)):
        if _known(x):
            if x == 0:
                return 0.0
            if x == 1:
                return y
            if x == -1:
                return -y
    return a * b


def _div(a, b):
    return 0.0 if _known(a) and a == 0 else a if _known(b) and b == 1 else a / b


def _choose(which, *cases):
    if _known(which):
        return cases[int(which)]
    return jnp.where(which, cases[1], cases[0])


FOLDED: dict[str, Callable] = {
    "add": _add, "add_any": _add, "sub": _sub, "mul": _mul, "div": _div, "select_n": _choose, "rsqrt": _rsqrt,
    **{name: functools.partial(_elementwise, name) for name in ELEMENTWISE},
    **{name: lambda x: x for name in SAME},
}  # fmt: skip


def _map(f: Callable, *arrays: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return _fill(shape, [f(*values) for values in zip(*(np.broadcast_to(a, shape).ravel() for a in arrays))])


def _replay(jaxpr: Any, consts: list[np.ndarray], args: list[np.ndarray]) -> list[np.ndarray]:
    env: dict[Any, np.ndarray] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))

    def read(v):
        return _apart(v.val) if isinstance(v, Literal) else env[v]

    for eqn in jaxpr.eqns:
        with np.errstate(all="ignore"):  # known numbers that are not finite: as in JAX, without a warning
            out = _apply(eqn, [read(v) for v in eqn.invars])
        for v, x in zip(eqn.outvars, out):
            kind = v.aval.dtype.type
            env[v] = _fill(x.shape, [_typed(value, kind) for value in x.ravel()])
    return [read(v) for v in jaxpr.outvars]


def _apply(eqn: Any, x: list[np.ndarray]) -> list[np.ndarray]:
    name, params = eqn.primitive.name, eqn.params
    if name in FOLDED:
        return [_map(FOLDED[name], *x)]
    if name == "integer_pow":
        return [_map(lambda a: a ** params["y"], *x)]
    if name == "convert_element_type":
        kind = np.dtype(params["new_dtype"]).type
        return [_map(lambda a: kind(a) if _known(a) else a.astype(kind), *x)]
    if name == "iota":
        with jax.ensure_compile_time_eval():
            return [_apart(jax.device_get(eqn.primitive.bind(**params)))]
    if name == "reduce_sum":
        return [_reduce(x[0], tuple(int(a) for a in params["axes"]))]
    if name == "dot_general":
        return [_dot(x[0], x[1], params["dimension_numbers"])]
    if name in ("scatter-add", "scatter_add"):
        return [_scatter_add(eqn, *x)]
    if name in MOVES:
        return _move(eqn, x)
    if name == "scan":
        return _scan(eqn, x)
    if name in CALLS:
        return _replay(*_inner(params[CALLS[name]]), x)
    raise NotImplementedError(f"the operation '{name}' is not supported on lanes; use jax.vmap for this function.")


def _reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    moved = np.moveaxis(x, axes, range(len(axes)))
    rest = moved.shape[len(axes) :]
    rows = moved.reshape(-1, *rest)
    total = _fill(rest, [0.0] * int(np.prod(rest)))
    for i in range(len(rows)):
        total = _map(_add, total, _fill(rest, list(rows[i : i + 1].ravel())))  # an array even if it is a scalar
    return total


def _dot(a: np.ndarray, b: np.ndarray, numbers: Any) -> np.ndarray:
    (ca, cb), (ba, _) = numbers
    if ba or len(ca) != 1:
        raise NotImplementedError("only products over one axis, without batch axes, are supported on lanes.")
    a, b = np.moveaxis(a, ca[0], -1), np.moveaxis(b, cb[0], 0)
    left = a.reshape(*a.shape[:-1], *(1,) * (b.ndim - 1), a.shape[-1])
    return _reduce(_map(_mul, left, np.moveaxis(b, 0, -1)), (left.ndim - 1,))


def _move(eqn: Any, x: list[np.ndarray]) -> list[np.ndarray]:
    """An operation that only moves data: applied to the indices of the scalars, then to the scalars."""
    count = {"concatenate": len(x), "stack": len(x), "pad": 2, "dynamic_update_slice": 2}.get(eqn.primitive.name, 1)
    which = (0, 2) if eqn.primitive.name == "scatter" else tuple(range(count))
    pool: list[Any] = []
    numbers: list[Any] = []
    for k, part in enumerate(x):
        if k in which:
            numbers.append(np.arange(len(pool), len(pool) + part.size, dtype=np.int32).reshape(part.shape))
            pool += list(part.ravel())
        else:  # indices: they must be known
            numbers.append(np.array(part.tolist(), dtype=eqn.invars[k].aval.dtype))
    params = dict(eqn.params)
    if eqn.primitive.name == "gather":
        params["fill_value"] = None
    with jax.ensure_compile_time_eval():
        moved = jax.device_get(eqn.primitive.bind(*map(jnp.asarray, numbers), **params))
    outs = moved if eqn.primitive.multiple_results else [moved]
    return [_fill(np.shape(m), [pool[i] for i in np.asarray(m).ravel()]) for m in outs]


def _scatter_add(eqn: Any, operand: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    total = operand.copy()
    with jax.ensure_compile_time_eval():
        where, base = jnp.asarray(np.array(indices.tolist(), dtype=np.int32)), jnp.zeros(operand.shape)
        for i in np.ndindex(updates.shape):
            hit = np.zeros(updates.shape)
            hit[i] = 1.0
            lands = np.asarray(eqn.primitive.bind(base, where, jnp.asarray(hit), **eqn.params))
            for j in zip(*np.nonzero(lands)):
                total[j] = _add(total[j], updates[i])
    return total


def _scan(eqn: Any, x: list[np.ndarray]) -> list[np.ndarray]:
    params = eqn.params
    inner, own = _inner(params["jaxpr"])
    length = params["length"]
    # JAX versions name the parts of a scan's arguments differently; their shapes tell them apart
    mapped = sum(a.aval.shape != b.aval.shape for a, b in zip(eqn.invars, inner.invars))
    nk = sum(a.aval.shape == b.aval.shape for a, b in zip(eqn.outvars, inner.outvars))
    nc = len(x) - mapped - nk
    consts, carry, xs = x[:nc], x[nc : nc + nk], x[nc + nk :]
    rows: dict[int, list[np.ndarray]] = {}
    for i in range(length - 1, -1, -1) if params["reverse"] else range(length):
        # an array even if a row is a scalar
        turn = [_fill(part.shape[1:], list(part[i : i + 1].ravel())) for part in xs]
        out = _replay(inner, own, [*consts, *carry, *turn])
        carry, rows[i] = out[:nk], out[nk:]
    ys = [
        _fill(
            (length, *v.aval.shape),
            [y for i in range(length) for y in rows[i][k].ravel()],
        )
        for k, v in enumerate(inner.outvars[nk:])
    ]
    return [*carry, *ys]


def _inner(program: Any) -> tuple[Any, list[np.ndarray]]:
    """The program inside an operation, closed or not, and its constants."""
    return getattr(program, "jaxpr", program), [_apart(c) for c in getattr(program, "consts", ())]
