"""Surfaces fixed in the world that spheres and points of bodies can touch, each given by a signed distance."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, namespace, stacked
from undula.core.errors import ModelError, as_vector, function_of, numbers, positive, reason, shown
from undula.numerics.programs import quickly_compiled

RELIEF = 48  # cells along each side of a relief
NEWTON_STEPS = 4  # towards the nearest point of a height field


class Surface(eqx.Module):
    """A surface in the world. A custom surface defines `distance` and keeps its parameters in array fields."""

    @abc.abstractmethod
    def distance(self, x: Float[Array, "3"]) -> Float[Array, ""]:
        """Signed distance [m] of a point of the world, negative inside; its gradient must have norm 1 at the surface."""

    @property
    def thickness(self) -> Any:
        """Length [m] of the way through its thinnest part, which a fast body may miss in a step; infinite for ground."""
        return np.inf

    def normal(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Unit outward normal of the surface at its point nearest to x."""
        slope = jax.grad(self.distance)(x)
        return slope / jnp.sqrt((slope * slope).sum())

    def drawing(self, low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
        """How a viewer draws it, given the corners [m] of the box in which the bodies moved: dictionaries for JSON.

        Their `kind` is "plane" (normal, point), "post" (place, radius), "ball" (centre, radius) or "relief" (x, y: the ends
        of its sides; z: one row of heights along y for each x, null where there is no surface). By default, a relief: the
        surface as seen from above.
        """
        x, y = (np.linspace(low[i], high[i], RELIEF + 1) for i in (0, 1))
        z = np.linspace(high[2], low[2], RELIEF + 1)
        d = np.asarray(_distances(self, *np.meshgrid(x, y, z, indexing="ij")))
        first = np.argmax(d < 0, axis=-1)  # the highest level inside
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
        xp = namespace(n)
        size = xp.sqrt((n**2).sum())
        positive(size, "length of the normal of the plane")
        self.direction, self.point = n / size, as_vector(point, 3, "point of the plane")

    def distance(self, x):
        return (self.direction * (x - self.point)).sum()

    def normal(self, x):
        return self.direction

    def drawing(self, low, high):
        return [{"kind": "plane", "normal": self.direction.tolist(), "point": self.point.tolist()}]


class HeightField(Surface):
    """Ground of height z = `height`(x, y) [m], a smooth function that JAX can differentiate.

    Newton's method finds the nearest point of the ground, starting vertically below; it is exact unless a hollow of the ground
    is more sharply curved than the sphere touching it.
    """

    height: Callable[[Array, Array], Array] = eqx.field(static=True)

    def __check_init__(self):
        function_of(self.height, ("x", "y"), "height of a height field")
        zero = jax.ShapeDtypeStruct((), float)
        try:
            shape = jax.eval_shape(jax.grad(self._height), zero, zero).shape
        except Exception as error:
            raise ModelError(f"height of a height field cannot be computed: {reason(error)}.") from error
        assert shape == ()

    def _height(self, x: Array, y: Array) -> Float[Array, ""]:
        """The height [m] at (x, y), which may be given as a plain number."""
        z = jnp.asarray(self.height(x, y), dtype=float)
        if z.shape:
            raise ModelError(f"it has the shape {z.shape}; it must be one number")
        return z

    def distance(self, x):
        foot = jax.lax.stop_gradient(
            self._foot(x)
        )  # moving the nearest point changes the distance to second order only
        away = x - jnp.concatenate([foot, self._height(*foot)[None]])
        return (away * self._upward(foot)).sum()

    def normal(self, x):
        return self._upward(self._foot(x))

    def _upward(self, foot: Float[Array, "2"]) -> Float[Array, "3"]:
        """Unit normal above a point (x, y)."""
        a, b = jax.grad(self._height, (0, 1))(*foot)
        return jnp.stack([-a, -b, jnp.ones_like(a)]) * jax.lax.rsqrt(1 + a * a + b * b)

    def _foot(self, x: Float[Array, "3"]) -> Float[Array, "2"]:
        """(x, y) of the nearest point of the ground."""
        foot = x[:2]
        for _ in range(NEWTON_STEPS):
            z, (a, b) = jax.value_and_grad(self._height, (0, 1))(*foot)
            (aa, ab), (_, bb) = jax.hessian(self._height, (0, 1))(*foot)
            over = z - x[2]
            # gradient and Hessian of half the squared distance; where that is not convex, the curvature is left out
            slope = foot - x[:2] + over * jnp.stack([a, b])
            p, q, r = 1 + a * a + over * aa, a * b + over * ab, 1 + b * b + over * bb
            convex = (p > 0) & (p * r > q * q)
            p, q, r = (jnp.where(convex, new, old) for new, old in ((p, 1 + a * a), (q, a * b), (r, 1 + b * b)))
            foot = foot - jnp.stack([r * slope[0] - q * slope[1], p * slope[1] - q * slope[0]]) / (p * r - q * q)
        return foot

    def drawing(self, low, high):
        x, y = np.meshgrid(*(np.linspace(low[i], high[i], RELIEF + 1) for i in (0, 1)), indexing="ij")
        heights: Callable[..., Any] = jax.vmap(jax.vmap(self._height))
        return [_relief(low, high, np.asarray(heights(x, y), dtype=float))]


class _Round(Surface):
    """All points within `radius` [m] of `centre`, measured in the first two or all three of x, y, z, as `centre` has."""

    centre: Float[Array, "directions"]
    radius: Float[Array, ""]

    @property
    def thickness(self):
        return 2 * self.radius

    def distance(self, x):
        away = x[: self.centre.shape[0]] - self.centre
        return jnp.sqrt((away * away).sum()) - self.radius


class Post(_Round):
    """An infinitely tall vertical post of a `radius` [m] at `place` (x, y) [m]."""

    def __init__(self, place: Any, radius: Any):
        self.centre = as_vector(place, 2, "place of the post")
        self.radius = _radius(radius, "radius of the post")

    def drawing(self, low, high):
        return [{"kind": "post", "place": self.centre.tolist(), "radius": float(self.radius)}]


class Posts(Surface):
    """Vertical posts at `places` (x, y) [m], with one common `radius` or one each [m]; a sphere touches the nearest post.

    One contact serves all of them, so a step costs as much as with one post; they must be far enough apart that a sphere
    never touches two at once.
    """

    places: Float[Array, "posts 2"]
    radii: Float[Array, "posts"]

    def __init__(self, places: Any, radius: Any):
        if numbers(places, "places of the posts").ndim != 2 or len(places) == 0:
            raise ModelError(f"places of the posts = {shown(places)}; it must be one (x, y) or more.")
        self.places = stacked([as_vector(x, 2, "place of a post") for x in places])
        several = isinstance(radius, list | tuple) or getattr(radius, "ndim", 0) > 0
        sizes = radius if several else [radius] * len(self.places)
        if len(sizes) != len(self.places):
            raise ModelError(f"radii of the posts: {len(sizes)} were given; there are {len(self.places)} posts.")
        self.radii = stacked([_radius(x, "radius of a post") for x in sizes])

    @property
    def thickness(self):
        return 2 * self.radii.min(-1)

    def distance(self, x):
        return self._clearances(x)[0].min()

    def normal(self, x):
        distance, away = self._clearances(x)
        nearest = jnp.arange(len(distance)) == jnp.argmin(distance)
        outward = (away * nearest[:, None]).sum(0)
        return jnp.concatenate([outward * jax.lax.rsqrt((outward * outward).sum()), jnp.zeros(1)])

    def _clearances(self, x: Float[Array, "3"]) -> tuple[Float[Array, "posts"], Float[Array, "posts 2"]]:
        """Distance from each post, and vector from its centre."""
        away = x[:2] - self.places
        return jnp.sqrt((away * away).sum(1)) - self.radii, away

    def drawing(self, low, high):
        each = zip(self.places.tolist(), self.radii.tolist())
        return [{"kind": "post", "place": place, "radius": radius} for place, radius in each]


class Sphere(_Round):
    """A sphere of a `radius` [m] fixed at `centre` [m]."""

    def __init__(self, centre: Any, radius: Any):
        self.centre = as_vector(centre, 3, "centre of the ball")
        self.radius = _radius(radius, "radius of the ball")

    def drawing(self, low, high):
        return [{"kind": "ball", "centre": self.centre.tolist(), "radius": float(self.radius)}]


def _radius(value: Any, what: str) -> Array:
    positive(value, what, "m")
    return as_vector(value, 0, what)
