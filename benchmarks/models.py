"""The benchmark models."""

import numpy as np

import undula as un


def chain(n: int, base: str = "fixed") -> un.System:
    """n equal links on n revolute joints about alternating axes, on a fixed or free base (data of the gallery's chain)."""
    m, l, r = 0.682, 0.122, 0.0525
    b = un.Builder(f"chain{n}")
    solid = dict(mass=m, com=(l / 2, 0, 0), inertia=un.solids.cylinder_inertia(m, r, l, "x"))
    b.base("base", role=base, **(solid if base == "free" else {}))
    for k in range(n):
        axis = (0, 0, 1) if k % 2 == 0 else (0, 1, 0)
        b.body(
            f"link{k}",
            "base" if k == 0 else f"link{k - 1}",
            un.Revolute(axis),
            position=(l if k else 0, 0, 0),
            **solid,
        )
    return b.build()


def random_state(system: un.System, seed: int = 0) -> un.State:
    """A state with random coordinates and velocities, and a random base if it is free."""
    rng = np.random.default_rng(seed)
    free = system.topology.base_role == "free"
    return system.state(
        position=rng.uniform(-1, 1, system.nv),
        velocity=rng.normal(size=system.nv),
        base_position=rng.normal(size=3) if free else None,
        base_quaternion=rng.normal(size=4) if free else None,
        base_twist=rng.normal(size=6) if free else None,
    )
