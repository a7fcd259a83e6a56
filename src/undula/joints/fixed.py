"""The fixed joint."""

from dataclasses import dataclass

from undula.joints.joint import Joint


@dataclass(frozen=True, kw_only=True)
class Fixed(Joint):
    """No relative motion."""

    @property
    def kind(self) -> None:
        return None
