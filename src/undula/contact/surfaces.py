"""What spheres and points of bodies can touch: surfaces fixed in the world, each a signed distance."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError, as_vector, positive
from undula.numerics.quick import quickly_compiled

RELIEF = 48  # cells along each side of a relief
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

    def looks(self, low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
        """What a viewer draws of it, given the corners [m] of the box that the bodies moved in: dictionaries for JSON.

        Their `kind` is "plane" (normal, point), "post" (place, radius), "ball" (centre, radius) or "relief" (x, y: the ends of
        its sides; z: a row of heights along y for each x, null where there is nothing). By default, a relief: the surface
        as seen from above.
        """
        x, y = (np.linspace(low[i], high[i], RELIEF + 1) for i in (0, 1))
        z = np.linspace(high[2], low[2], RELIEF + 1)
        d = np.asarray(_distances(self, *np.meshgrid(x, y, z, indexing="ij")))
        first = np.argmax(d < 0, axis=-1)  # the highest level that is inside
        above = np.maximum(first - 1, 0)
        inside, outside = (np.take_along_axis(d, k[..., None], -1)[..., 0] for k in (first, above))
        part = np.where(first > 0, outside / np.where(first > 0, outside - inside, 1.0), 0.0)
        heights = z[above] + part * (z[first] - z[above])
        seen = inside < 0
        return [_relief(low, high, np.where(seen, heights, np.nan))] if seen.any() else []


@quickly_compiled
def _distances(surface: Surface, x: Any, y: Any, z: Any) -> Any:
    points = jnp.stack([x, y, z], -1).reshape(-1, 3)
    return jax.vmap(surface.distance)(points).reshape(x.shape)


def _relief(low: np.ndarray, high: np.ndarray, z: np.ndarray) -> dict[str, Any]:
    rows = [[None if np.isnan(v) else float(f"{v:.5g}") for v in row] for row in z]
    return {"kind": "relief", "x": [float(low[0]), float(high[0])], "y": [float(low[1]), float(high[1])], "z": rows}


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

    def looks(self, low, high):
        return [{"kind": "plane", "normal": self.direction.tolist(), "point": self.point.tolist()}]


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

    def looks(self, low, high):
        x, y = np.meshgrid(*(np.linspace(low[i], high[i], RELIEF + 1) for i in (0, 1)), indexing="ij")
        return [_relief(low, high, np.asarray(jax.vmap(jax.vmap(self.height))(x, y), dtype=float))]


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

    def looks(self, low, high):
        return [{"kind": "post", "place": self.centre.tolist(), "radius": float(self.radius)}]


class Posts(Surface):
    """Vertical posts at `places` (x, y) [m], of one `radius` or one each [m]: what is near touches the nearest of them.

    One contact serves for all of them, so that a step costs as much as with one post; they must stand so far apart that
    a sphere does not touch two at a time.
    """

    places: Float[Array, "posts 2"]
    radii: Float[Array, "posts"]

    def __init__(self, places: Any, radius: Any):
        if np.ndim(places) != 2 or len(places) == 0:
            raise ModelError(f"places of the posts = {places}; it must be one (x, y) or more.")
        self.places = jnp.asarray([as_vector(x, 2, "place of a post") for x in places])
        sizes = np.broadcast_to(radius, len(self.places)) if np.ndim(radius) == 0 else radius
        if len(sizes) != len(self.places):
            raise ModelError(f"radii of the posts: {len(sizes)} were given; there are {len(self.places)} posts.")
        self.radii = jnp.stack([_radius(x, "radius of a post") for x in sizes])

    def distance(self, x):
        return self._ways(x)[0].min()

    def normal(self, x):
        distance, away = self._ways(x)
        nearest = jnp.arange(len(distance)) == jnp.argmin(distance)
        way = (away * nearest[:, None]).sum(0)
        return jnp.concatenate([way * jax.lax.rsqrt((way * way).sum()), jnp.zeros(1)])

    def _ways(self, x: Float[Array, "3"]) -> tuple[Float[Array, "posts"], Float[Array, "posts 2"]]:
        """Distance from each post, and the way from its centre."""
        away = x[:2] - self.places
        return jnp.sqrt((away * away).sum(1)) - self.radii, away

    def looks(self, low, high):
        each = zip(self.places.tolist(), self.radii.tolist())
        return [{"kind": "post", "place": place, "radius": radius} for place, radius in each]


class Ball(_Round):
    """A sphere of a `radius` [m] fixed at `centre` [m]."""

    def __init__(self, centre: Any, radius: Any):
        self.centre = jnp.asarray(as_vector(centre, 3, "centre of the ball"))
        self.radius = _radius(radius, "radius of the ball")

    def looks(self, low, high):
        return [{"kind": "ball", "centre": self.centre.tolist(), "radius": float(self.radius)}]


def _radius(value: Any, what: str) -> Array:
    positive(value, what, "m")
    return jnp.asarray(as_vector(value, 0, what))
