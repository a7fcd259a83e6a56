"""Stress-free shapes of rods, and the nodes of rods: against circles, helices and their own quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un

MATERIAL = dict(section=un.rods.Circle(0.01), E=1e6, density=1e3)


def system(shape, **more):
    b = un.Builder("curl", gravity=(0, 0, 0))
    b.base("ground")
    own = un.Rod(length=shape.length, reference=shape, **(MATERIAL | more))
    b.body("tip", "ground", own, position=shape.position, rotation=shape.rotation)
    return b.build()


def helix(count, turns=1.5):
    a = np.linspace(0, 2 * np.pi * turns, count)
    return np.stack([1 + 0.2 * np.cos(a), 0.2 * np.sin(a), 0.03 * a], 1)


class TestShapeThrough:
    def test_helix(self):
        """Curvature r/(r^2 + h^2), length of the curve; the frame turns by minus the torsion, so that Kx = 0."""
        points = helix(60)
        shape = un.rods.shape_through(points, y=(-1, 0, 0))
        size = np.hypot(0.2, 0.03)
        assert_allclose(shape.length, 3 * np.pi * size, rtol=1e-5)
        inside = np.linspace(0.2, 0.8, 7) * shape.length
        K = np.array([shape(X) for X in inside])
        assert_allclose(K[:, :4], [[1, 0, 0, 0]] * 7, atol=0)
        assert_allclose(np.hypot(K[:, 4], K[:, 5]), 0.2 / size**2, rtol=4e-3)  # h^2 / 24 = 1e-3 for a spline
        turned = np.unwrap(np.arctan2(-K[:, 4], K[:, 5]))  # angle of the normal in the section
        assert_allclose(np.diff(turned), 0.03 / size**2 * np.diff(inside), rtol=2e-2)
        assert_allclose(jax.vmap(shape)(jnp.asarray(inside)), K, atol=1e-12)

    def test_rod_passes_through_the_points(self):
        points = helix(13)
        shape = un.rods.shape_through(points)
        built = system(shape, nodes=80, order=6)
        state = built.state()
        for X, point in zip(shape.at[1:-1:4], points[1:-1:4]):
            seen = un.kinematics.site_view(built, state, un.on("tip", float(X)))
            assert_allclose(seen.p, point, atol=3e-4)
        end = un.kinematics.body_poses(built, state).position[-1]
        assert_allclose(end, points[-1], atol=5e-4)
        with pytest.raises(un.ModelError, match=r"the rod 'tip' with 10 nodes misses point \d+ of its shape by"):
            system(shape, nodes=10)

    def test_deviation_is_that_of_the_rod(self):
        """Of an arc through three points, which the spline cannot follow as a circle, but meets."""
        points = np.array([[0, 0, 0], [0.1, 0.05, 0], [0.2, 0, 0.0]])
        shape = un.rods.shape_through(points)
        built = system(shape)
        end = un.kinematics.body_poses(built, built.state()).position[-1]
        assert np.linalg.norm(end - points[-1]) <= shape.tolerance

    def test_straight_lines(self):
        for count in (2, 5):
            shape = un.rods.shape_through(np.linspace([1, 2, 3], [1, 2, 5], count))
            assert_allclose([shape(X) for X in (0.0, 1.0, 2.0)], [[1, 0, 0, 0, 0, 0]] * 3, atol=1e-12)
            assert_allclose(shape.length, 2.0)
            assert_allclose(shape.rotation[:, 0], [0, 0, 1])
            assert_allclose(shape.rotation.T @ shape.rotation, np.eye(3), atol=1e-14)

    @pytest.mark.parametrize(
        ("points", "options", "said"),
        [
            ([[0, 0, 0]], {}, r"have the shape \(1, 3\)"),
            (np.zeros((4, 2)), {}, r"have the shape \(4, 2\)"),
            ([[0, 0, 0], [1, 0, 0], [1, 0, 0]], {}, "points 2 and 3 of a shape are the same"),
            ([[0, 0, 0], [1, 0, 0]], {"y": (1, 0, 0)}, "it must not be zero or along the start"),
            ([[0, 0, 0], [1, 0, 0]], {"y": (1, 0)}, "y of a shape has the shape .2,.; it must be 3 numbers"),
            ([[0, 0, 0], [1, 0, 0]], {"tolerance": 0.0}, "tolerance of a shape = 0.0 m; it must be positive"),
        ],
    )
    def test_refusals(self, points, options, said):
        with pytest.raises(un.ModelError, match=said):
            un.rods.shape_through(points, **options)

    def test_length_must_be_that_of_the_shape(self):
        shape = un.rods.shape_through([[0, 0, 0], [1, 0, 0]])
        with pytest.raises(un.ModelError, match=r"length of the rod 'tip' = 2.0 m; that of its shape is 1.0"):
            un.Builder("x").body("tip", "ground", un.Rod(length=2.0, reference=shape, **MATERIAL))


class TestCurved:
    def test_arc(self):
        """Kz = 2 over 1 m: an arc of 2 rad; the function, the number and the triple agree."""
        for curvature in (2.0, lambda X: 2.0, (0.0, 0.0, 2.0)):
            b = un.Builder("arc", gravity=(0, 0, 0))
            b.base("ground")
            b.body("tip", "ground", un.Rod(length=1.0, reference=un.rods.curved(curvature), **MATERIAL))
            built = b.build()
            end = un.kinematics.body_poses(built, built.state()).position[-1]
            assert_allclose(end, [np.sin(2) / 2, (1 - np.cos(2)) / 2, 0], atol=1e-12)

    def test_clothoid(self):
        from scipy.special import fresnel

        b = un.Builder("clothoid", gravity=(0, 0, 0))
        b.base("ground")
        spiral = un.rods.curved(lambda X: np.pi * X)  # the angle is pi X^2 / 2
        b.body("tip", "ground", un.Rod(length=1.0, reference=spiral, nodes=20, order=6, **MATERIAL))
        built = b.build()
        end = un.kinematics.body_poses(built, built.state()).position[-1]
        assert_allclose(end[:2], fresnel(1.0)[::-1], atol=1e-9)

    def test_refusal(self):
        with pytest.raises(un.ModelError, match=r"the curvature of a rod has the shape \(2,\)"):
            un.rods.curved((1.0, 2.0))


class TestNodes:
    def test_quadrature(self):
        """Exact for polynomials; bodies carried in between add nodes without weight."""
        b = un.Builder("pair", gravity=(0, 0, 0))
        b.base("ground")
        b.body("tip", "ground", un.Rod(name="arm", length=0.7, nodes=6, **MATERIAL))
        b.body("eye", un.on("arm", 0.3), un.Fixed(), mass=0.1)
        b.body("end", "ground", un.Rod(name="leg", length=2.0, nodes=4, **MATERIAL))
        built = b.build()
        for name, length, count in (("arm", 0.7, 7), ("leg", 2.0, 4)):
            nodes = un.rods.nodes(built, name)
            assert nodes.abscissae.shape == nodes.weights.shape == (count,) and len(nodes.bodies) == count
            for power in range(6):
                total = (nodes.weights * nodes.abscissae**power).sum()
                assert_allclose(total, length ** (power + 1) / (power + 1), rtol=1e-12)
            at = [
                float(un.kinematics.body_poses(built, built.state()).position[built.body(x), 0]) for x in nodes.bodies
            ]
            assert_allclose(at, nodes.abscissae, atol=1e-12)
        assert float(un.rods.nodes(built, "arm").weights.min()) == 0
        with pytest.raises(un.UndulaError, match="'pair' has no rod 'wing'; its rods are arm, leg"):
            un.rods.nodes(built, "wing")
