"""The soft rod of Gotelli 2024, section 3.9.1: ten metres of steel wire."""

from undula.gallery import cantilever

SCENARIO = cantilever.scenario(
    name="cantilever-soft",
    summary="Ten metres of steel wire hang from a clamp, pulled aside by 50 N and let go",
    length=10.0,
    diameter=0.01,
    E=1e11,
    density=7800.0,
    force=50.0,
    modes=6,
    duration=10.0,
    source="Gotelli 2024, section 3.9.1 (3 modes there)",
)
