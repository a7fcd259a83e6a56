"""The class of a system: which of the field's problems it is (document 000, Table 3.1)."""

from undula.model.system import System


def classify(system: System) -> str:
    """A few words: what moves the system and which model gives its net motion."""
    top = system.topology
    roles = set(top.roles)
    if roles == {"driven"}:
        shape = "driven shape"
    elif "driven" in roles:
        shape = "partly driven shape"
    elif roles:
        shape = "free shape"
    else:
        shape = "no shape"
    if top.base_role == "fixed":
        problem = (
            "inverse dynamics"
            if roles == {"driven"}
            else "forward dynamics"
            if "driven" not in roles
            else "hybrid dynamics"
        )
        return f"manipulator, fixed base, {shape}: {problem}"
    if top.base_role == "driven":
        problem = "inverse dynamics" if roles <= {"driven"} else "hybrid dynamics"
        return f"manipulator, base driven in {top.base_group}, {shape}: {problem}"
    weightless = not any(float(x) for x in system.gravity)
    if roles == {"driven"}:
        model = (
            "mechanical connection from rest, locomotion dynamics otherwise" if weightless else "locomotion dynamics"
        )
    else:
        model = "general dynamics" if roles else "rigid-body dynamics"
    return f"unconstrained, base free in {top.base_group}, {shape}: {model}"
