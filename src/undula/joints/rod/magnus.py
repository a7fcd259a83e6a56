"""A short piece of a rod as a joint: from the strains at its Gauss points to a relative pose and its rates.

With g' = g xi^, the pose across a piece of length h is exp(psi), psi a Magnus series in the strains at 2 or 3 Gauss points
(order 4 or 6). The relative twist is T(psi) dpsi, T being the right-trivialised differential of exp. Everything is made of
brackets of se(3) and of power series in the squared angle: no branches, no trigonometric functions.

Here a vector of se(3) is a dictionary from its non-zero components to arrays over all pieces at once. Components that a
planar or inextensible rod does not have are then never computed, and everything else is arithmetic on long arrays.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array, namespace, ones
from undula.core.errors import is_traced
from undula.numerics.loops import unrolled

Screw = dict[int, Any]  # component 0..5 of (linear, angular) -> array over pieces; what is missing is zero

# Gauss points and weights on [0, 1]
_R3, _R15 = math.sqrt(3.0), math.sqrt(15.0)
GAUSS: dict[int, tuple[np.ndarray, np.ndarray]] = {
    4: (np.array([0.5 - _R3 / 6, 0.5 + _R3 / 6]), np.array([0.5, 0.5])),
    6: (np.array([0.5 - _R15 / 10, 0.5, 0.5 + _R15 / 10]), np.array([5, 8, 5]) / 18),
}

TERMS = 11  # of the series in the squared angle: accurate to rounding up to about 2 rad in one piece, to 1e-9 at pi


# Screws


def _add(*terms: tuple[Any, Screw]) -> Screw:
    """Sum of multiples of screws."""
    out: Screw = {}
    for factor, screw in terms:
        for i, x in screw.items():
            y = x if factor is None else factor * x
            out[i] = out[i] + y if i in out else y
    return out


def _cross(a: Screw, b: Screw, from_a: int, from_b: int, to: int, out: Screw) -> None:
    """Adds a cross product of the halves (0: linear, 3: angular) of two screws to a half of `out`."""
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for sign, m, n in ((1, j, k), (-1, k, j)):
            if from_a + m in a and from_b + n in b:
                product = a[from_a + m] * b[from_b + n]
                if to + i in out:
                    out[to + i] = out[to + i] + product if sign > 0 else out[to + i] - product
                else:
                    out[to + i] = product if sign > 0 else -product


def _keep(screw: Screw, one: Array) -> Screw:
    """The same, but computed once: XLA would fuse it into everything that uses it and recompute it there.

    XLA does not duplicate operations that it considers expensive, such as divisions; `one`: ones that it cannot fold.
    """
    return {i: x / one for i, x in screw.items()}


def _one(xi: Sequence[Screw]) -> Array:
    """Ones that the compiler cannot fold: the last strain is one that varies."""
    varying = list(xi[0].values())[-1]
    return 1.0 + 0.0 * jax.lax.stop_gradient(varying) if is_traced(varying) else ones(())


def bracket(a: Screw, b: Screw) -> Screw:
    """ad_a b."""
    out: Screw = {}
    _cross(a, b, 3, 0, 0, out)
    _cross(a, b, 0, 3, 0, out)
    _cross(a, b, 3, 3, 3, out)
    return out


def cobracket(eta: Screw, F: Screw) -> Screw:
    """ad_eta^T F."""
    out: Screw = {}
    _cross(F, eta, 0, 3, 0, out)
    _cross(F, eta, 0, 0, 3, out)
    _cross(F, eta, 3, 3, 3, out)
    return out


# The Magnus series


def increment(xi: Sequence[Screw], h: Any) -> Screw:
    """psi of the pieces. Frames multiply on the right, so brackets have the opposite sign to the usual formulas."""
    if len(xi) == 2:
        return _add((h / 2, _add((None, xi[0]), (None, xi[1]))), (_R3 / 12 * h**2, bracket(xi[0], xi[1])))
    a = _add((h, xi[1]))
    b = _add((_R15 / 3 * h, xi[2]), (-_R15 / 3 * h, xi[0]))
    c = _add((10 / 3 * h, xi[2]), (-20 / 3 * h, xi[1]), (10 / 3 * h, xi[0]))
    first = bracket(b, a)
    second = _add((-1 / 60, bracket(_add((2.0, c), (None, first)), a)))
    inner = _add((-20.0, a), (-1.0, c), (None, first))
    return _add((None, a), (1 / 12, c), (1 / 240, bracket(_add((None, b), (None, second)), inner)))


def _increment_forces(xi: Sequence[Screw], h: Array, y: Screw, wanted: tuple[int, ...]) -> list[Screw]:
    """The transpose of the derivative of `increment`: forces on the wanted strains, from a force y on psi."""
    if len(xi) == 2:
        k = _R3 / 12 * h**2
        first = _add((h / 2, y), (-k, cobracket(xi[1], y)))
        second = _add((h / 2, y), (k, cobracket(xi[0], y)))
        return [{i: s[i] for i in wanted if i in s} for s in (first, second)]
    free = [{i: x[i] for i in wanted if i in x} for x in xi]
    shape = next(iter(xi[0].values())).shape

    def psi(free):
        return increment([{**x, **f} for x, f in zip(xi, free)], h)

    out, pull = jax.vjp(psi, free)
    return pull({i: jnp.broadcast_to(y.get(i, 0.0), shape) for i in out})[0]


# The exponential and its differential


def _series(terms: list[float], x: Array) -> Array:
    out = terms[-1] * x + terms[-2]
    for a in reversed(terms[:-2]):
        out = out * x + a
    return out


_f = math.factorial
_T3 = [(-1) ** (k + 1) * (1 - k) / _f(2 * k) for k in range(2, TERMS + 2)]
_T4 = [(-1) ** k * (k - 1) / _f(2 * k + 1) for k in range(2, TERMS + 2)]


class Bent(NamedTuple):
    """Pieces in a configuration: strains at the Gauss points, psi, and functions of its squared angle x = t^2.

    - `sines`: sin t / t, (1 - cos t) / t^2, (t - sin t) / t^3.
    - `parts`: T1 to T4 of T = 1 - T1 ad + T2 ad^2 - T3 ad^3 + T4 ad^4, which ends there because ad (ad^2 + t^2)^2 = 0.

    Both are () if there is no rotation.
    """

    xi: list[Screw]
    psi: Screw
    one: Array
    sines: tuple[Array, ...]
    parts: tuple[Array, ...]


def bend(xi: list[Screw], h: Array) -> Bent:
    """Everything that depends only on the configuration."""
    one = _one(xi)
    return _bent(xi, _keep(increment(xi, h), one), one)


def _bent(xi: list[Screw], psi: Screw, one: Array) -> Bent:
    turns = [psi[i] * psi[i] for i in (3, 4, 5) if i in psi]
    if not turns:
        return Bent(xi, psi, one, (), ())
    x = sum(turns[1:], turns[0])
    # T3 and T4 by their series; all the others follow from them without cancellation
    T3, T4 = _series(_T3, x) / one, _series(_T4, x) / one
    B = (1 + 2 * x * T3 - (2 / 3) * x * x * T4) / (2 + x / 3)
    A, C = 2 * (B - x * T3), (B + 2 * x * T4) / 3
    return Bent(xi, psi, one, (A, B, C), (2 * B - A / 2, (5 * C - B) / 2, T3, T4))


def pose(bent: Bent, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """exp(psi) of pieces in an array of the given shape: rotations (*shape, 3, 3) and positions (*shape, 3)."""
    psi = bent.psi
    linear = {i: psi[i] for i in range(3) if i in psi}
    if not bent.sines:
        return namespace(psi).broadcast_to(np.eye(3), (*shape, 3, 3)), columns(
            [linear.get(i, 0.0) for i in range(3)], shape
        )
    a, b, c = bent.sines
    turn: Screw = {i: psi[i] for i in (3, 4, 5) if i in psi}
    once: Screw = {}
    twice: Screw = {}
    _cross(turn, linear, 3, 0, 0, once)
    _cross(turn, once, 3, 0, 0, twice)
    p = _add((None, linear), (b, once), (c, twice))
    w: list[Any] = [turn.get(3 + i) for i in range(3)]
    entries = []
    for i in range(3):
        for j in range(3):
            terms = []
            if i == j:  # 1 + b (w_i^2 - t^2)
                others = [y * y for k, y in enumerate(w) if k != i and y is not None]
                terms.append(1.0 - b * sum(others[1:], others[0]) if others else 1.0)
            else:
                k = 3 - i - j
                if w[k] is not None:
                    terms.append(a * w[k] if (j - i) % 3 == 2 else -(a * w[k]))
                if w[i] is not None and w[j] is not None:
                    terms.append(b * (w[i] * w[j]))
            entries.append(sum(terms[1:], terms[0]) if terms else 0.0)
    both = columns([*entries, *(p.get(i, 0.0) for i in range(3))], shape)
    return both[..., :9].reshape(*shape, 3, 3), both[..., 9:]


def columns(parts: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Arrays over pieces (or numbers) stacked along a new last axis.

    On a CPU by a loop, whose inputs are computed once, beforehand; a plain stack would recompute them for every
    element.
    """
    xp = namespace(parts)
    lanes = [xp.broadcast_to(x, shape) for x in parts]
    if xp is np or unrolled(2) > 1:
        return xp.stack(lanes, -1)
    out = jax.lax.map(lambda x: jnp.stack(x), tuple(x.reshape(-1) for x in lanes))
    return out.reshape(*shape, len(lanes))


def whole(screw: Screw, shape: tuple[int, ...]) -> Array:
    """A screw as one array (*shape, 6)."""
    return columns([screw.get(i, 0.0) for i in range(6)], shape)


def _horner(bent: Bent, y: Screw, product: Any) -> Screw:
    """y - T1 ad y + T2 ad^2 y - ..., by Horner's rule in ad."""
    psi, one = bent.psi, bent.one
    if not bent.parts:
        return _add((None, y), (-0.5, product(psi, y)))
    a, b, c, d = bent.parts
    z = _keep(_add((c, y), (-d, product(psi, y))), one)
    z = _keep(_add((b, y), (-1.0, product(psi, z))), one)
    z = _keep(_add((a, y), (-1.0, product(psi, z))), one)
    return _keep(_add((None, y), (-1.0, product(psi, z))), one)


def twist(bent: Bent, rate: list[Screw], h: Array) -> Screw:
    """Relative body twists across the pieces, for strains that change at `rate`; linear in `rate`."""
    return _horner(bent, _keep(_increment_rate(bent.xi, rate, h), bent.one), bracket)


def _increment_rate(xi: list[Screw], rate: list[Screw], h: Array) -> Screw:
    """Derivative of psi."""
    if len(xi) == 2:
        k = _R3 / 12 * h**2
        mean = _add((None, rate[0]), (None, rate[1]))
        return _add((h / 2, mean), (k, bracket(rate[0], xi[1])), (k, bracket(xi[0], rate[1])))
    free = [{i: x[i] for i in r} for x, r in zip(xi, rate)]
    return jax.jvp(lambda free: increment([{**x, **f} for x, f in zip(xi, free)], h), (free,), (rate,))[1]


def bias(bent: Bent, rate: list[Screw], h: Array) -> Screw:
    """Rates of `twist` while the strains change at a constant `rate`."""
    xi = bent.xi
    free = [{i: x[i] for i in r} for x, r in zip(xi, rate)]
    first = _keep(_increment_rate(xi, rate, h), bent.one)
    second = jax.jvp(lambda free: _increment_rate([{**x, **f} for x, f in zip(xi, free)], rate, h), (free,), (rate,))[1]
    # d/dt T(psi) psi' = T psi'' + T' psi', where psi'' comes from the brackets of the rates
    still = {i: x for i, x in bent.psi.items() if i not in first}

    def turned(moving):
        return _horner(_bent(xi, still | moving, bent.one), first, bracket)

    moving = {i: bent.psi.get(i, jnp.zeros_like(x)) for i, x in first.items()}
    _, part = jax.jvp(turned, (moving,), (first,))
    return _add((None, part), (None, _horner(bent, second, bracket))) if second else part


def strain_forces(bent: Bent, F: Screw, h: Array, wanted: tuple[int, ...]) -> list[Screw]:
    """The transpose of `twist`: forces on the wanted strains at the Gauss points, from the wrenches on the far ends."""
    return _increment_forces(bent.xi, h, _horner(bent, F, cobracket), wanted)
