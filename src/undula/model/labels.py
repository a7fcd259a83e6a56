"""Names, units and shapes of a system, for results and messages; computations do not need them."""

from dataclasses import dataclass, field, fields

from undula.core.shapes import Shape

EFFORT_UNITS = {"rad": "N m", "m": "N", "1": "N m", "1/m": "N m^2"}  # power divided by rate


@dataclass(frozen=True, eq=True)
class Labels:
    """Names in the order of a system's arrays.

    - `rows`: constraint rows, first those that hold, then those that slip; `contacts`: possible contacts.
    - `elements`: for each packed group, the family and the names of its members.
    - `lower`, `upper`: limits of the coordinates [rad or m]; `shapes`: drawn for each body.
    """

    name: str = ""
    bodies: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    joint_types: tuple[str, ...] = ()  # as the user wrote them: Revolute, Universal, ...
    coordinates: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    rods: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()
    elements: tuple[tuple[str, tuple[str, ...]], ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    shapes: tuple[tuple[Shape, ...], ...] = ()
    _hash: list = field(default_factory=list, compare=False, repr=False)

    def __hash__(self) -> int:
        if not self._hash:
            self._hash.append(hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare)))
        return self._hash[0]

    @property
    def effort_units(self) -> tuple[str, ...]:
        """Unit of the effort at each coordinate."""
        return tuple(EFFORT_UNITS[unit] for unit in self.units)
