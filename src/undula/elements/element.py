"""Base class of everything that is attached to a model."""

import copy
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array
from undula.core.errors import ModelError, a_name, flag, instance, shown
from undula.elements.observable import Observable
from undula.elements.site import Found, Site, as_site
from undula.elements.view import View


class Element(eqx.Module):
    """Something attached to a model: a force model, a row model. Its parameters are array fields, which can be differentiated.

    - `name`: its name in results and error messages; None: it is named after its family.
    - `sites`: where it is attached, bodies by name or `Site`s, one or a sequence of them; `coordinates`: names of the
      coordinates that it sees or acts on, one or a sequence.

    A class without a constructor takes these as keyword arguments: `Drag(2.0, sites="hull")`.

    Methods that a class does not define cost nothing: they are not traced.
    """

    name: str | None = eqx.field(static=True, default=None, kw_only=True)
    sites: tuple[Site, ...] = eqx.field(default=(), kw_only=True, converter=lambda x: _as_sites(x))
    coordinates: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True, converter=lambda x: _as_names(x))

    wants_whole: ClassVar[bool] = False  # whether views contain the state of the whole system
    wants_plant: ClassVar[bool] = False  # whether they contain its dynamics, for force models only
    repeatable: ClassVar[bool] = True  # whether a run may go back in time, to repeat parts with smaller steps
    observables: ClassVar[tuple[Observable, ...]] = ()
    only_authored: ClassVar[tuple[str, ...]] = ()  # fields needed only while a model is built, not in computations
    not_negative: ClassVar[tuple[str, ...]] = ()  # fields that may not be negative
    positive: ClassVar[tuple[str, ...]] = ()  # fields that must be positive

    def __check_init__(self):
        """Refuses names that are no words, and switches that are neither True nor False."""
        what = f"the {self.family().replace('_', ' ')}"
        if self.name is not None:
            a_name(self.name, f"name of {what}")
        for f in fields(self):
            if f.type is bool:
                flag(getattr(self, f.name), f"{f.name} of {what}")
            elif f.type is str:
                instance(getattr(self, f.name), str, f"{f.name} of {what}", "a name")

    def __repr__(self) -> str:  # in one line, for error messages
        return eqx.tree_pformat(self, width=10_000)

    @classmethod
    def family(cls) -> str:
        """The name under which results list it: that of its class, in lower case with underscores."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    # Internal states: memory of a controller, an unknown abscissa, the activation of a muscle

    def start(self) -> Any:
        """The internal state z at the beginning of a run: an array, or a tree of arrays.

        By default the unknown abscissae of the sites; a class with further states appends them.
        """
        found = [s.abscissa.start for s in self.sites if isinstance(s.abscissa, Found)]
        return found[0] if len(found) == 1 else tuple(found)

    def rate(self, at: View) -> Any:
        """z' [per s], which is integrated together with the motion."""
        raise NotImplementedError

    def update(self, at: View, dt: Any) -> Any:
        """z after a step of dt [s] (0 at the beginning of a run): for sampled states, or those held during a step."""
        raise NotImplementedError

    def settle(self, at: View) -> Any:
        """z corrected for drift before a step."""
        raise NotImplementedError

    # Recording

    def observe(self, at: View) -> dict[str, Array]:
        """Values of the `observables`, by name."""
        return {}

    def remark(self, t: np.ndarray, values: dict[str, np.ndarray]) -> str:
        """A warning after a run, in one sentence, from the recorded `values` (times, ...) by name; "" if there is none.

        It must not contain the name of the element, which is put before it.
        """
        return ""

    # Checks

    def check(self, model: Any) -> None:
        """Raises a `ModelError` if the element does not fit the model; called once, when the model is built.

        `model` provides the `bodies`, `coordinates` and `rods` of the model by name.
        """


def _as_sites(value: Any) -> tuple[Site, ...]:
    if isinstance(value, str | Site):
        value = (value,)
    if not isinstance(value, Sequence):
        raise ModelError(f"sites = {shown(value)}; they must be names of bodies, or sites.")
    return tuple(as_site(x, "an element") for x in value)


def _as_names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(x, str) for x in names):
        raise ModelError(f"coordinates = {shown(value)}; they must be names.")
    return tuple(names)


def state_rate(element: Element, at: View) -> Any:
    """z' of an element; zero if its class does not define it."""
    return jax.tree.map(jnp.zeros_like, at.z) if type(element).rate is Element.rate else element.rate(at)


def changed(element: Any, **fields: Any) -> Any:
    """A copy with some fields replaced; unlike `dataclasses.replace`, it does not call the constructor."""
    out = copy.copy(element)
    for name, value in fields.items():
        object.__setattr__(out, name, value)
    return out


def defined(element: Element, base: type) -> tuple[str, ...]:
    """Names of the methods of a base class that the element's class defines itself."""
    names = {n for cls in base.__mro__ if issubclass(cls, Element) for n, f in vars(cls).items() if callable(f)}
    own = type(element)
    return tuple(sorted(n for n in names if not n.startswith("__") and getattr(own, n) is not getattr(base, n)))
