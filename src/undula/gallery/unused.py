"""Refuses parameters that the chosen variant of an entry does not use."""

from collections.abc import Mapping, Sequence

import numpy as np

from undula.core.errors import UndulaError
from undula.scenario.scenario import Scenario


def refuse_unused(scenario: Scenario, p: dict, choice: str, only: Mapping[str, Sequence[str]]) -> None:
    """Refuses values other than the defaults of parameters that `p[choice]` does not use; `only`: which choices use them."""
    for x in scenario.parameters:
        if p[choice] in only.get(x.name, (p[choice],)) or np.array_equal(p[x.name], x.default):
            continue
        values = ", ".join(f"{value:g}" for value in np.ravel(p[x.name]))
        raise UndulaError(
            f"{x.name} = {values} is not allowed with {choice} = {p[choice]}, which does not use it; leave it out, or "
            f"set {choice} to {' or '.join(only[x.name])}."
        )
