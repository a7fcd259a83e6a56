"""The stiff rod of Gotelli 2024, section 3.9.1; the 10 N printed there must be a misprint for a tenth of a newton."""

from undula.gallery import cantilever

SCENARIO = cantilever.scenario(
    name="cantilever-stiff",
    summary="A short rod hangs from a clamp, pulled aside by 0.1 N and let go; an explicit step would be microseconds",
    length=0.4,
    diameter=0.002,
    E=2e9,
    density=8000.0,
    force=0.1,
    modes=6,
    duration=1.0,
    dt=0.005,
    source="Gotelli 2024, section 3.9.1 (3 modes there, and 10 N, which is ours to correct)",
)
