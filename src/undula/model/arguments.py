"""Checks of the arguments that public functions share: (system, state, ..., t).

They look at types and shapes, which are known when JAX traces a function, and cost nothing in compiled code.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from undula.core.errors import UndulaError, a_path, is_traced, real, shown, whole
from undula.model.state import Acceleration, State
from undula.model.system import System

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments that cannot be those of its names: `system`, `state`, `acceleration`, ..."""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    optional = {name for name, p in parameters.items() if p.default is None}
    takes = f"{function.__name__} takes ({', '.join(names)})"
    which = sorted((name for name in names if name in CHECKS), key=lambda name: CHECKS[name] is not _system)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(zip(names, args)) | kwargs
        system = given.get("system", given.get("old"))
        for name in which:
            if name in given and not (given[name] is None and name in optional):
                CHECKS[name](given[name], name, system, takes)
        return function(*args, **kwargs)

    return call


def _system(value: Any, name: str, system: Any, takes: str) -> None:
    if not isinstance(value, System):
        remedy = "a System: call its build() first" if hasattr(value, "build") else f"a System; {takes}"
        raise UndulaError(f"{name} = {_kind(value)}; it must be {remedy}.")


def _state(value: Any, name: str, system: Any, takes: str) -> None:
    if not isinstance(value, State):
        raise UndulaError(f"{name} = {_kind(value)}; it must be a State, such as system.state(position); {takes}.")
    refuse_other_state(system, value)


def _acceleration(value: Any, name: str, system: Any, takes: str) -> None:
    if not isinstance(value, Acceleration):
        raise UndulaError(f"{name} = {_kind(value)}; it must be an un.Acceleration(base, v); {takes}.")
    for part, x, size in (("base", value.base, 6), ("v", value.v, system.nv)):
        if np.shape(x) != (size,):
            raise UndulaError(f"{part} of the {name} has the shape {np.shape(x)}; it must be ({size},).")


def _of_shape(shape: Callable[[Any], tuple[int, ...]]) -> Callable[..., None]:
    def check(value: Any, name: str, system: Any, takes: str) -> None:
        wanted = shape(system)
        try:
            found = np.shape(value)
        except ValueError:
            found = None
        if found != wanted or isinstance(value, str):
            what = f"has the shape {found}" if found is not None else f"= {shown(value)}"
            raise UndulaError(f"{name} {what}; it must be {wanted}.")

    return check


def _time(value: Any, name: str, system: Any, takes: str) -> None:
    if isinstance(value, State):
        raise UndulaError(f"{name} = a State; it must be a time [s]: {takes}.")
    if getattr(value, "ndim", 0):
        raise UndulaError(f"{name} has the shape {np.shape(value)}; it must be one time [s] (for many, use un.batch).")
    real(value, name, unit="s")


def _integrator(value: Any, name: str, system: Any, takes: str) -> None:
    if isinstance(value, type) or not callable(getattr(value, "step", None)):
        made = f": {value.__name__}()" if isinstance(value, type) else ", e.g. un.integrators.RungeKutta4()"
        raise UndulaError(f"{name} = {shown(value)}; it must be an integrator{made}.")


def _tolerance(value: Any, name: str, system: Any, takes: str) -> None:
    real(value, name, above=0.0)


def _iterations(value: Any, name: str, system: Any, takes: str) -> None:
    whole(value, name, at_least=1)


def _name(value: Any, name: str, system: Any, takes: str) -> None:
    if not isinstance(value, str):
        raise UndulaError(f"{name} = {_kind(value)}; it must be a name; {takes}.")


def _path(value: Any, name: str, system: Any, takes: str) -> None:
    a_path(value, name)


CHECKS: dict[str, Callable[[Any, str, Any, str], None]] = {
    "system": _system,
    "state": _state,
    "acceleration": _acceleration,
    "dv": _of_shape(lambda system: (system.nv,)),
    "efforts": _of_shape(lambda system: (system.nv,)),
    "wrenches": _of_shape(lambda system: (len(system.topology.parents) + 1, 6)),
    "point": _of_shape(lambda system: (3,)),
    "t": _time,
    "t0": _time,
    "t_end": _time,
    "start": _time,
    "old": _system,
    "new": _system,
    "rod": _name,
    "path": _path,
    "integrator": _integrator,
    "tolerance": _tolerance,
    "max_iterations": _iterations,
    "body": _name,
}


def _kind(value: Any) -> str:
    """What was given, in short: a number, an array, or the name of its class."""
    if value is None or isinstance(value, str | bool | int | float | jax.Array | np.ndarray | np.generic | type | list):
        return shown(value)
    return f"a {type(value).__name__}"


def refuse_other_state(system: System, state: State) -> None:
    """Refuses a state whose arrays are not those of the system's states."""
    top = system.topology
    sizes = {"q": top.nq, "v": top.nv, "base_twist": 6}
    found = {name: np.shape(getattr(state, name)) for name in sizes}
    memory = jax.tree.map(np.shape, tuple(g.begin for g in system.groups if g.remembers))
    same = all(found[name] == (n,) for name, n in sizes.items())
    if same and (not state.z or jax.tree.map(np.shape, state.z) == memory):
        pose = np.shape(state.base.position), np.shape(state.base.quaternion)
        if pose != ((3,), (4,)):
            raise UndulaError(f"the base of the state has the shapes {pose}; they must be (3,) and (4,).")
        return
    if len(found["q"]) > 1:
        raise UndulaError(
            f"the state has arrays of the shape {found['q']}; it must be one state: for many, use un.batch."
        )
    raise UndulaError(
        f"the state does not belong to the system '{system.name}': it has {np.size(state.v)} coordinates and "
        f"{len(jax.tree.leaves(state.z))} internal states, the system has {top.nv} and {len(jax.tree.leaves(memory))}; "
        "take it from system.state(), or carry it over (un.carry_over)."
    )


def refuse_infinite_state(state: State, what: str) -> None:
    """Refuses a state that is not finite; a traced one is not checked."""
    parts = (
        ("base position", state.base.position),
        ("base quaternion", state.base.quaternion),
        ("position", state.q),
        ("base_twist", state.base_twist),
        ("velocity", state.v),
    )
    for name, value in parts:
        if not is_traced(value) and not np.all(np.isfinite(np.asarray(value))):
            raise UndulaError(f"{what} {name} = {np.asarray(value).tolist()} is not finite.")
