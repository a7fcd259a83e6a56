"""The stiff flying rod of Gotelli 2024; its load is lost with the figure, so that it is ours."""

import undula as un
from undula.gallery import flying_rod

SCENARIO = flying_rod.scenario(
    name="flying-rod-stiff",
    summary="A short thick rod in space, pushed and twisted at one end for half a second",
    source="Gotelli 2024, section 3.9.1 (the load is ours)",
    length=1.0,
    force=flying_rod.stiff_force,
    couple=flying_rod.stiff_couple,
    material=dict(section=un.rods.Circle(0.1), E=1e6, density=1e3),
    width=0.1,
    duration=2.0,
)
