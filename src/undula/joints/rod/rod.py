"""A Cosserat rod as a joint whose coordinates are strains (document 002, chapters 2 and 3).

The strain is xi(X) = xi_ref(X) + A Phi(X) q (2.31). The rod is divided at its nodes, the points of a Gauss-Radau
quadrature: a node is a body with the section's inertia times its weight, and the pose between two nodes is a Magnus
increment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from undula.joints.joint import Joint
from undula.joints.kind import Kind, Relative
from undula.joints.rod.basis import Basis
from undula.joints.rod.sections import Section

STRAIGHT = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _still(axis, second, q):
    return Relative(jnp.eye(3), jnp.zeros(3), jnp.zeros((6, 0)))


SEGMENT = Kind("segment", (), (), _still)  # a piece of a rod; its coordinates belong to the rod


@dataclass(frozen=True)
class Rod(Joint):
    """A Cosserat rod from the joint's frame (x along the rod) to the body that it carries: the section at its tip.

    In a builder, `body("tip", "hand", Rod(...))` adds the bodies `tip.1`, `tip.2`, ... at the nodes and `tip` at the
    end; each can carry bodies and rods. The coordinates are `tip.Kz1`, ...: a strain's coefficients on its basis [1/m
    or 1].

    **Arguments:**

    - `length` [m]; `section`: a `Circle`, `Annulus`, `Rectangle`, `Ellipse` or `GivenSection`, or a function of X [m] that
      returns one.
    - `E` [Pa], `G` [Pa] (E / 3 by default: incompressible), `density` [kg/m^3]. Instead of E and G, `stiffness` (6,) or
      (6, 6) [N, N m^2], over (Gx, Gy, Gz, Kx, Ky, Kz); instead of the density, `inertia` (6,) or (6, 6) [kg/m, kg, kg m], over
      (V, Omega), of a rigid section: [[m 1, -S^], [S^, J]] with the mass m, the first moments S and the moments J. Both are
      per unit length, constant or a function of X.
    - `mass` [kg/m], constant or a function of X: the part with weight of an `inertia` that is any symmetric positive
      matrix; the rest has no weight, like the added mass of a fluid. Without it, `inertia` must be that of a rigid
      section.
    - `damping`: time constant mu [s] of Kelvin-Voigt damping D = mu H (2.13), or a matrix like `stiffness` [N s, N m^2
      s].
    - `material`: a `rods.MaterialLaw`, e.g. `rods.NeoHookean()`, in place of linear elasticity; it may read the stiffness that
      E, G and the section, or `stiffness`, define.
    - `shear_factor`: of the shear stiffness G A (1 by default): a number, a pair (along y, along z), "cowper" (the formulas
      for circles, tubes and rectangles), or a function of X.
    - `strains`: "reissner", "extensible-kirchhoff", "kirchhoff", "torsion-free", "planar-kirchhoff" (bends about z),
      "planar-reissner" or "bar"; or some of the names Gx, Gy, Gz (stretch, shears), Kx (torsion), Ky, Kz (curvatures).
    - `modes`: number of functions (3 by default), for all strains or for each; `basis`: "legendre", "chebyshev",
      "monomial", "piecewise-constant", "piecewise-linear", "b-spline", or a `Basis` object, which has its own number of
      functions.
    - `reference`: stress-free strain (6,), or a function of X, for precurved and pretwisted rods: `rods.curved`,
      `rods.shape_through`.
    - `nodes`: their number, by default from the basis. `order` of the Magnus increments, 4 or 6.
    - `strain`: an imposed field, a function (X, t) -> (6,); the rod is then driven and has no basis.
    - `role`, `motion`, `effort`: as for any joint, over all the coordinates; efforts are in N m^2 (curvatures, torsion) and
      N m (stretch, shears).
    - `colour`, and `drawn`: full widths along y and z [m] of what a viewer shows; those of the section by default.

    Arguments that would have no effect are rejected.
    """

    length: Any = 1.0
    section: Section | Callable[[Any], Section] | None = None
    E: Any = None
    G: Any = None
    density: Any = None
    inertia: Any = None
    mass: Any = None
    strains: str | Sequence[str] = "kirchhoff"
    modes: Any = None
    basis: str | Basis = "legendre"
    reference: Any = STRAIGHT
    nodes: int | None = None
    order: int = 4
    strain: Callable[[Any, Any], Any] | None = None
    colour: tuple[float, ...] | None = None
    drawn: tuple[float, float] | None = None
    material: Any = None
    shear_factor: Any = None

    @property
    def kind(self) -> Kind:
        return SEGMENT


@dataclass(frozen=True)
class Segment(Joint):
    """The piece of a rod between two nodes; its coordinates are the rod's."""

    @property
    def kind(self) -> Kind:
        return SEGMENT
