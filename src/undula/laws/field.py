"""Fields along a rod: vectors as functions of the abscissa X and of time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import UndulaError, function_of, reason
from undula.laws.law import Law, law_of


class Field(eqx.Module):
    """A vector as a function of X [m] and t [s]; made by `field_of`."""

    law: Law | None
    function: Any
    plain: Callable[[Any, Any], Any] | None = eqx.field(static=True)

    def value(self, X: Any, t: Any) -> Float[Array, "n"]:
        """The vector at X [m] and t [s]."""
        if self.law is not None:
            return self.law.value(t)
        function = self.function if self.plain is None else self.plain
        return jnp.asarray(function(X, t), dtype=float)


def field_of(given: Any, size: int, what: str) -> Field:
    """The field given by a user: a function (X, t) -> (size,), a law of time, or a constant vector.

    A function with parameters to be differentiated must be a pytree, such as an `equinox.Module`.
    """
    if isinstance(given, Law) or not callable(given):
        return Field(law_of(given, (size,), what), None, None)
    function_of(given, ("X", "t"), what)
    parametric = bool(jax.tree.leaves(given)) and not jax.tree_util.all_leaves([given])
    out = Field(None, given, None) if parametric else Field(None, None, given)
    try:
        shape = jax.eval_shape(out.value, *[jax.ShapeDtypeStruct((), float)] * 2).shape
    except Exception as error:
        raise UndulaError(f"{what} cannot be computed: {reason(error)}.") from error
    if shape != (size,):
        raise UndulaError(f"{what} has the shape {shape}; it must be ({size},).")
    return out
