"""The soft flying rod of Simo and Vu-Quoc, in three dimensions."""

from undula.gallery import flying_rod

SCENARIO = flying_rod.scenario(
    name="flying-rod-soft",
    summary="The flying spaghetti: a soft rod in space, pushed and twisted at one end for five seconds",
    source="Gotelli 2024, section 3.9.1; load law of Simo & Vu-Quoc 1988, its signs ours",
    length=10.0,
    force=flying_rod.soft_force,
    couple=flying_rod.soft_couple,
    material=dict(stiffness=(1e4, 1e4, 1e4, 500.0, 500.0, 500.0), inertia=(1.0, 1.0, 1.0, 10.0, 10.0, 10.0)),
    width=0.15,
    duration=10.0,
)
