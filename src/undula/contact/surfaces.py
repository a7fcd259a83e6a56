"""What spheres and points of bodies can touch: surfaces fixed in the world, each a signed distance."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.model.errors import as_vector, positive

TURNS = 4  # of Newton's method to the nearest point of a height field


class Surface(eqx.Module):
    """A surface in the world. One of your own defines `distance`, and keeps its parameters in array fields."""

    @abc.abstractmethod
    def distance(self, x: Float[Array, "3"]) -> Float[Array, ""]:
        """Signed distance [m] of a point of the world, negative inside; its slope must be 1 where the surface is."""

    def normal(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Unit vector out of the surface, at the place of it that is nearest to x."""
        slope = jax.grad(self.distance)(x)
        return slope / jnp.sqrt((slope * slope).sum())


class Plane(Surface):
    """A plane through `point` [m] with the outward `normal`: the ground by default."""

    direction: Float[Array, "3"]
    point: Float[Array, "3"]

    def __init__(self, normal: Any = (0.0, 0.0, 1.0), point: Any = (0.0, 0.0, 0.0)):
        n = as_vector(normal, 3, "normal of the plane")
        size = jnp.sqrt((jnp.asarray(n) ** 2).sum())
        positive(size, "length of the normal of the plane")
        self.direction, self.point = jnp.asarray(n) / size, jnp.asarray(as_vector(point, 3, "point of the plane"))

    def distance(self, x):
        return (self.direction * (x - self.point)).sum()

    def normal(self, x):
        return self.direction


class HeightField(Surface):
    """Ground of the height z = `height`(x, y) [m], a smooth function that JAX can differentiate.

    The nearest point of the ground is found by Newton's method from the one below; exact unless the ground is hollowed more
    sharply than what touches it.
    """

    height: Callable[[Array, Array], Array] = eqx.field(static=True)

    def distance(self, x):
        foot = jax.lax.stop_gradient(self._foot(x))  # at the nearest point, moving it changes nothing in first order
        away = x - jnp.concatenate([foot, self.height(*foot)[None]])
        return (away * self._upward(foot)).sum()

    def normal(self, x):
        return self._upward(self._foot(x))

    def _upward(self, foot: Float[Array, "2"]) -> Float[Array, "3"]:
        """Unit normal above a point (x, y)."""
        a, b = jax.grad(self.height, (0, 1))(*foot)
        return jnp.stack([-a, -b, jnp.ones_like(a)]) * jax.lax.rsqrt(1 + a * a + b * b)

    def _foot(self, x: Float[Array, "3"]) -> Float[Array, "2"]:
        """(x, y) of the nearest point of the ground."""
        foot = x[:2]
        for _ in range(TURNS):
            z, (a, b) = jax.value_and_grad(self.height, (0, 1))(*foot)
            (aa, ab), (_, bb) = jax.hessian(self.height, (0, 1))(*foot)
            over = z - x[2]
            # gradient and Hessian of half the squared distance; where that is not convex, without the curvature
            slope = foot - x[:2] + over * jnp.stack([a, b])
            p, q, r = 1 + a * a + over * aa, a * b + over * ab, 1 + b * b + over * bb
            convex = (p > 0) & (p * r > q * q)
            p, q, r = (jnp.where(convex, new, old) for new, old in ((p, 1 + a * a), (q, a * b), (r, 1 + b * b)))
            foot = foot - jnp.stack([r * slope[0] - q * slope[1], p * slope[1] - q * slope[0]]) / (p * r - q * q)
        return foot


class _Round(Surface):
    """All that is within `radius` [m] of `centre`, in as many of the directions x, y, z as that has."""

    centre: Float[Array, "directions"]
    radius: Float[Array, ""]

    def distance(self, x):
        away = x[: self.centre.shape[0]] - self.centre
        return jnp.sqrt((away * away).sum()) - self.radius


class Post(_Round):
    """A vertical post of a `radius` [m] that stands at `place` (x, y) [m], as high as anything that touches it."""

    def __init__(self, place: Any, radius: Any):
        self.centre = jnp.asarray(as_vector(place, 2, "place of the post"))
        self.radius = _radius(radius, "radius of the post")


class Ball(_Round):
    """A sphere of a `radius` [m] fixed at `centre` [m]."""

    def __init__(self, centre: Any, radius: Any):
        self.centre = jnp.asarray(as_vector(centre, 3, "centre of the ball"))
        self.radius = _radius(radius, "radius of the ball")


def _radius(value: Any, what: str) -> Array:
    positive(value, what, "m")
    return jnp.asarray(as_vector(value, 0, what))
