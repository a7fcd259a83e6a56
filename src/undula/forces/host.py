"""Forces from an external program, called once per step on the host."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.callbacks import guarded
from undula.core.errors import ModelError, UndulaError, function_of, reason, shown
from undula.elements.force import ForceModel
from undula.elements.site import Site, as_site
from undula.elements.view import View


class HostForce(ForceModel):
    """Wrenches computed once per step by a Python function, e.g. another solver, a measurement or a table.

    They are held constant over each step. Differentiating through them raises an error. Since an outside solver cannot go
    back in time, a run with a host force does not estimate its error by repeating parts of itself.

    **Arguments:**

    - `function` (t, positions (s, 3) [m], rotations (s, 3, 3), twists (s, 6) [m/s, rad/s]) -> wrenches (s, 6) [N, N m] in the
      frames of the sites: NumPy in, NumPy out. It is called at the start of a run and after every step.
    - `sites`: body names or sites, one or a sequence of them.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    stiff: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False
    count: int = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], sites: str | Site | Sequence[str | Site], name: str | None = None):
        places = tuple(sites) if isinstance(sites, list | tuple) else (sites,)
        if not places:
            raise ModelError(f"a host force has sites = {shown(sites)}; it must have at least one.")
        function_of(function, ("t", "positions", "rotations", "twists"), "the function of a host force")
        self.name, self.coordinates = name, ()
        self.sites = tuple(as_site(x, "a host force") for x in places)
        self.function, self.count = function, len(self.sites)

    def start(self):
        return np.zeros((self.count, 6))

    def update(self, at: View, dt: Any) -> Float[Array, "s 6"]:
        p, R, twist = (jnp.stack([getattr(s, what) for s in at.sites]) for what in ("p", "R", "twist"))
        return _called(self.function, self.count, at.t, p, R, twist)

    def wrench(self, at):
        return at.z


def _called(function: Callable[..., Any], count: int, *args: Array) -> Float[Array, "s 6"]:
    shape = jax.ShapeDtypeStruct((count, 6), jnp.result_type(float))

    @jax.custom_jvp
    def call(*args):
        return jax.pure_callback(lambda *x: _computed(function, count, *x), shape, *args, vmap_method="sequential")

    @call.defjvp
    def refuse(primals, tangents):
        raise UndulaError("a host force cannot be differentiated: its function is called outside JAX.")

    return call(*args)


def _computed(function: Callable[..., Any], count: int, t: Any, *motion: Any) -> np.ndarray:
    """The wrenches that the function returns, checked."""
    what = f"the function of a host force, at t = {float(t):.6g} s,"

    def work() -> np.ndarray:
        try:
            out = np.asarray(function(np.asarray(t), *map(np.asarray, motion)), dtype=float).reshape(-1)
        except Exception as error:
            raise UndulaError(f"{what} failed: {reason(error)}.") from error
        if out.size != 6 * count:
            raise UndulaError(f"{what} returned {out.size} numbers; it must return {count} times 6.")
        if not np.all(np.isfinite(out)):
            raise UndulaError(f"{what} returned {shown(out.tolist())}; its numbers must be finite.")
        return out.reshape(count, 6)

    return guarded(work, (count, 6))
