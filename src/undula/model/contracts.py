"""What the methods of an element return, checked when the model is built: shapes are found without computing anything."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from undula.core.arrays import eye, zeros
from undula.core.errors import ModelError, UndulaError, reason
from undula.elements.along import Along, SectionView
from undula.elements.element import Element
from undula.elements.force import ForceModel
from undula.elements.plant import Plant
from undula.elements.row import RowModel
from undula.elements.site import Found
from undula.elements.view import SiteView, Slide, View, Whole
from undula.laws.law import Law

Shapes = list[tuple[int, ...]]

EXERTS = frozenset({"wrench", "effort", "pull", "stress"})
ACTS = EXERTS | {"inertia", "field", "energy"}


def some_view(element: Element, nv: int) -> View:
    """A view of the right shapes; `nv`: number of coordinates of the model."""
    c = zeros(len(element.coordinates))
    zero, six = zeros(3), zeros(6)

    def site(s):
        body = SiteView(eye(3), zero, zero, zero)
        if s.abscissa is None:
            return body
        here = body._replace(X=zeros(()), xi=six, dxi=six)
        if not isinstance(s.abscissa, Law | Found):
            return here
        rate = None if isinstance(s.abscissa, Found) else zeros(())
        return here._replace(dX=rate, slide=Slide(six, six, six, None))

    whole = Whole(eye(3), zero, six, zeros(nv), zeros(nv)) if element.wants_whole else None
    plant = Plant(len(element.coordinates)) if element.wants_plant else None
    return View(zeros(()), tuple(site(s) for s in element.sites), c, c, element.start(), whole, plant)


def check_force(element: ForceModel, does: tuple[str, ...], nv: int, rod: Any, what: str) -> None:
    """Raises a `ModelError` if a force model cannot act, or if a method returns something of another shape than it must.

    `does`: the methods that its class defines; `nv`: number of coordinates of the model; `rod`: plan of the rod that it
    acts along, or None.
    """
    _check_use(element, does, what)
    at = some_view(element, nv)
    views = _section_views(element, does, at, rod) if isinstance(element, Along) else {}
    s, c = len(element.sites), len(element.coordinates)
    wrench: Shapes = [(6,)] if isinstance(element, Along) else [(s, 6), (6,)] if s == 1 else [(s, 6)]
    inertia: Shapes = [(6, 6)] if isinstance(element, Along) else [(s, 6, 6), (6, 6)] if s == 1 else [(s, 6, 6)]
    shapes: dict[str, Shapes] = {"wrench": wrench, "effort": [(c,)], "pull": [(c,)], "stress": [(6,)], "energy": [()]}
    shapes["energy_density"] = [()]
    derived = {"energy"} if "energy_density" in does else set()
    for name in sorted((shapes.keys() & set(does)) - derived, key=lambda name: (name != "energy_density", name)):
        found = _returned(getattr(element, name), f"{name} of {what}", views.get(name, at))
        parts = found if name == "wrench" and isinstance(found, dict) else {"": found}
        for part, value in parts.items():
            _must_be(value, shapes[name], f"{name} of {what}" + (f", component '{part}'," if part else ""))
    if "inertia" in does:
        own = (views["tabulated"],) if isinstance(element, Along) else ()
        _must_be(_returned(element.inertia, f"inertia of {what}", *own), inertia, f"inertia of {what}")
    if "field" in does:
        _must_be(_returned(element.field, f"field of {what}", at.t), [(3,)], f"field of {what}")
    _check_memory(element, does, at, what)
    _check_observables(element, does, views.get("energy", at), what)


def _check_use(element: ForceModel, does: tuple[str, ...], what: str) -> None:
    own = type(element).__name__
    if not (ACTS & set(does) or element.observables):
        raise ModelError(f"{what} would do nothing: {own} defines none of {', '.join(sorted(ACTS))}.")
    if element.account == "conservative" and "energy" not in does and EXERTS & set(does):
        raise ModelError(
            f"{what} counts as conservative but {own} defines no energy; define `energy`, or let its power count as "
            "'surroundings', 'dissipative' or 'actuator'."
        )
    along = isinstance(element, Along)
    for name in ("wrench", "inertia"):
        if name in does and not (along or element.sites):
            raise ModelError(f"{what} has the method {name} but no sites: give `sites`, names of bodies or sites.")
    for name in ("effort", "pull"):
        if name in does and not element.coordinates:
            raise ModelError(f"{what} has the method {name} but no coordinates: give `coordinates`, their names.")
    check_found(element, does, what)


def check_found(element: Element, does: tuple[str, ...], what: str) -> None:
    """Refuses an unknown abscissa that nothing determines."""
    if any(isinstance(s.abscissa, Found) for s in element.sites) and not {"rate", "update", "settle"} & set(does):
        raise ModelError(
            f"the abscissa of {what} is unknown (`Found`), but {type(element).__name__} does not determine it: it must define "
            "`rate`, `update` or `settle`."
        )


def check_rows(element: RowModel, nv: int, what: str) -> None:
    """Refuses a position residual that depends on velocities."""
    at = some_view(element, nv)

    def gap(moving):
        sites = tuple(s._replace(V=V, W=W) for s, (V, W) in zip(at.sites, moving[0]))
        return element.gap(at._replace(sites=sites, v=moving[1]))

    moving = tuple((s.V, s.W) for s in at.sites), at.v
    _vector(_returned(gap, f"gap of {what}", moving), f"gap of {what}")
    jaxpr = jax.make_jaxpr(gap)(moving).jaxpr
    if _uses(jaxpr, set(jaxpr.invars)):
        raise ModelError(f"gap of {what} depends on velocities; rows that do belong into its method `rows`.")


def row_shapes(element: RowModel, nv: int, what: str) -> tuple[int, int]:
    """Numbers of gaps and of rows of a row model; refuses methods that cannot be computed or return no vectors."""
    at = some_view(element, nv)
    parts = ((method, f"{method.__name__} of {what}") for method in (element.gap, element.rows))
    gaps, rows = (_vector(_returned(method, words, at), words) for method, words in parts)
    return gaps, rows


def _vector(value: Any, what: str) -> int:
    """The length of a vector, refused if it is something else."""
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) != 1:
        found = "is missing: the method returns nothing" if value is None else f"has the shape {shape}"
        raise ModelError(f"{what} {found}; it must be a vector of JAX, one entry per row.")
    return shape[0]


def check_touch(element: RowModel, nv: int, what: str) -> None:
    """Refuses contact points, and laws of contact, whose methods return other shapes than they must."""
    at, k, law = some_view(element, nv), element.slots, element.law
    found = _returned(element.touch, f"touch of {what}", at)
    for name, shape in (("gap", (k,)), ("normal", (k, 3)), ("point", (k, 3)), ("radius", (k,))):
        _must_be(getattr(found, name, None), [shape], f"{name} of {what}")
    zero, one = zeros(3), zeros(())
    rows, words = law.rows, f"the law of {what}"
    given = _returned(law.directions, f"directions of {words}", zero, eye(3), one, zero)
    _must_be(given, [(rows, 6)], f"directions of {words}")
    projected = _returned(law.project, f"project of {words}", zeros(rows), one)
    _must_be(projected, [(rows,)], f"project of {words}")


def check_recorded(element: RowModel, does: tuple[str, ...], nv: int, rows: int, what: str) -> None:
    """Refuses observables that a row model does not return, and the reverse; `rows`: number of its rows."""
    at = some_view(element, nv)._replace(reaction=zeros(rows), effort=zeros(len(element.coordinates)))
    _check_observables(element, does, at, what)


def _uses(jaxpr: Any, given: set[Any]) -> bool:
    """Whether a traced function uses one of the given variables, or returns it."""
    for eqn in jaxpr.eqns:
        if given.isdisjoint(x for x in eqn.invars if not hasattr(x, "val")):
            continue
        inner = eqn.params.get("jaxpr")
        if inner is None or len(inner.jaxpr.invars) != len(eqn.invars):
            return True
        own = {x for x, outer in zip(inner.jaxpr.invars, eqn.invars) if not hasattr(outer, "val") and outer in given}
        if _uses(inner.jaxpr, own):
            return True
    return any(not hasattr(x, "val") and x in given for x in jaxpr.outvars)


def _section_views(element: Along, does: tuple[str, ...], at: View, rod: Any) -> dict[str, Any]:
    """The views of an element along a rod, by method; "tabulated": what it tabulates."""
    X = zeros(())
    table = _abstract(element.tabulate, X, rod)
    empty: Any = SiteView(None, None, None, None)  # type: ignore[arg-type]
    strained = empty._replace(X=X, xi=zeros(6), dxi=zeros(6))
    shared = dict(x=at.x, v=at.v, z=at.z, whole=at.whole)
    gauss = SectionView(at.t, X, strained, table, (), **shared)  # type: ignore[arg-type]
    total = _abstract(element.gather, gauss) if "gather" in does else ()
    zero = zeros(3)
    node = gauss._replace(section=strained._replace(R=eye(3), p=zero, V=zero, W=zero), total=total)
    whole = gauss._replace(X=None, section=empty, table=None, total=total)  # type: ignore[arg-type]
    full = gauss._replace(total=total)
    return {"stress": full, "energy_density": full, "wrench": node, "energy": whole, "tabulated": table}


def _check_memory(element: Element, does: tuple[str, ...], at: View, what: str) -> None:
    wanted = jax.tree.map(np.shape, at.z)
    for name, more in (("rate", ()), ("update", (zeros(()),)), ("settle", ())):
        if name in does:
            found = jax.tree.map(np.shape, _returned(getattr(element, name), f"{name} of {what}", at, *more))
            if found != wanted:
                raise ModelError(f"{name} of {what} has the shape {found}; that of its internal state is {wanted}.")


def _check_observables(element: Element, does: tuple[str, ...], at: Any, what: str) -> None:
    names = {x.name for x in element.observables}
    found = set(_returned(element.observe, f"observe of {what}", at)) if "observe" in does else set()
    integrated = {x.name for x in element.observables if x.integral in found}  # they need not be returned
    if names != found | integrated:
        listed, given = (", ".join(sorted(x)) or "none" for x in (names, found))
        raise ModelError(f"{what} declares the observables {listed}, and its method observe returns {given}.")


def _abstract(method: Callable[..., Any], *args: Any) -> Any:
    """The shapes that a method returns, for arguments of which some are no arrays."""
    import equinox as eqx

    return eqx.filter_eval_shape(method, *args)


def _returned(method: Callable[..., Any], what: str, *args: Any) -> Any:
    """The shapes that a method returns; refuses one that cannot be computed."""
    try:
        return _abstract(method, *args)  # the element's own arrays are traced, too
    except UndulaError:
        raise
    except Exception as error:
        raise ModelError(f"{what} cannot be computed: {reason(error)}.") from error


def _must_be(value: Any, shapes: Shapes, what: str) -> None:
    shape = getattr(value, "shape", None)
    if shape not in shapes:
        allowed = " or ".join(str(x) for x in shapes)
        found = f"has the shape {shape}"
        if value is None:
            found = "is missing: the method returns nothing"
        elif shape is None:
            found = f"is a {type(value).__name__}, which is no array of JAX (use jnp.stack or jnp.asarray)"
        raise ModelError(f"{what} {found}; it must be {allowed}.")
    if np.dtype(value.dtype).kind not in "fiub":
        raise ModelError(f"{what} has the type {value.dtype}; it must be one of real numbers.")
