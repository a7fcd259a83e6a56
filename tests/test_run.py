"""Runs as a whole: when they end, what they call themselves, what they keep between samples."""

import os

import jax

import undula as un
from undula.command import cache
from undula.integrate import base


def ball(height=0.5, restitution=0.8, **given):
    """A ball of 1 kg above the ground: (system, state)."""
    b = un.Builder("ball")
    b.base("ball", role="free", mass=1.0, inertia=un.sphere_inertia(1.0, 0.1))
    b.contact("ground", "ball", un.Plane(), un.Coulomb(0.3, restitution=restitution), radius=0.1)
    system = b.build()
    return system, system.state(base_position=(0, 0, 0.1 + height), **given)


def test_links_are_computed_inside_compiled_functions_alone(monkeypatch):
    """Outside, each of their operations would be a program of its own to compile."""
    outside = []
    links_of = base.links_of

    def watched(system):
        outside.append(not isinstance(system.mass, jax.core.Tracer))
        return links_of(system)

    monkeypatch.setattr(base, "links_of", watched)
    assert un.run(*ball(), t_end=0.01, dt=1e-3).ok
    assert not any(outside)


def test_kept_programs_stay_within_a_limit(tmp_path):
    for k in range(10):  # the first were used last
        file = tmp_path / f"{k}-cache"
        file.write_bytes(bytes(100))
        os.utime(file, (2000 - k, 1000))
    (tmp_path / "else").write_bytes(bytes(5000))
    cache.trim(tmp_path, most=1000)
    assert len(list(tmp_path.iterdir())) == 11
    cache.trim(tmp_path, most=999)
    assert sorted(x.name for x in tmp_path.iterdir()) == [*(f"{k}-cache" for k in range(4)), "else"]
