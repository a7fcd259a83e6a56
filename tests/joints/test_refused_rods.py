"""Rods and shapes that cannot be meant are refused with a sentence that names them, huge ones at once."""

import numpy as np
import pytest

import undula as un

pytestmark = pytest.mark.usefixtures("wrong_types")
ROUND = un.rods.Circle(0.01)
SKEW = np.diag([1.0] * 6) + 0.5 * np.eye(6, k=1)


def rod(**given):
    usual = dict(section=ROUND, E=1e6, density=1e3, modes=1, nodes=3)
    b = un.Builder("model")
    b.base("ground")
    b.body("tip", "ground", un.Rod(name="reed", **{**usual, **given}))
    return b.build()


def given_stiffness(**more):
    return rod(E=None, section=None, density=None, inertia=(1, 1, 1, 0.1, 0.05, 0.05), **more)


REFUSED = {
    "reference of zero": (
        lambda: rod(reference=np.zeros(6)),
        "reference of the rod 'reed' = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]",
    ),
    "backwards": (lambda: rod(reference=(-1, 0, 0, 0, 0, 0)), "its stretch Gx must be positive"),
    "reference (X, t)": (lambda: rod(reference=lambda X, t: X), "that changes with time is un.forces.StressFreeStrain"),
    "reference of 3": (lambda: rod(reference=lambda X: (1, 0, 0)), "reference of the rod 'reed' has the shape (3,)"),
    "stiffness": (lambda: given_stiffness(stiffness=SKEW), "is not symmetric: its entry (1, 2) is 0.5 and (2, 1) is 0"),
    "along X": (lambda: given_stiffness(stiffness=lambda X: SKEW), "stiffness of the rod 'reed' is not symmetric"),
    "inertia": (
        lambda: rod(E=None, section=None, density=None, stiffness=np.ones(6), inertia=(1, 1, 1, 0, 0, 0.1)),
        "inertia of the section of the rod 'reed' at X = 0.155 m has the principal moments 0, 0, 0.0376403",
    ),
    "section class": (lambda: rod(section=un.rods.Circle), "section of the rod 'reed' = the class Circle"),
    "section function": (lambda: rod(section=lambda X: X), "section of the rod 'reed' at X ="),
    "order": (lambda: rod(order=5), "order of the rod 'reed' = 5; it must be 4 or 6"),
    "modes": (
        lambda: rod(modes=1.5),
        "modes of the rod 'reed' = 1.5 is not allowed; it must be a whole number of at least 1",
    ),
    "nodes": (lambda: rod(nodes=1e5), "nodes of the rod 'reed' = 100000; at most 2000 are allowed"),
    "huge": (lambda: rod(nodes=10**6), "nodes of the rod 'reed' = 1000000; at most 2000 are allowed"),
    "product": (
        lambda: rod(nodes=1500, modes=400),
        "has 1500 nodes and 1200 coordinates; their product is at most 1000000",
    ),
    "drawn": (lambda: rod(drawn=0.1), "drawn of the rod 'reed' has the shape ()"),
    "diameter": (lambda: un.rods.Circle("thin"), "diameter of the section = 'thin' m; it must be positive"),
    "size": (lambda: un.rods.GivenSection(1.0, 1.0, 1.0, 1.0, (np.nan, 1.0)), "size of the section"),
    "corners": (lambda: un.rods.GivenBasis(1, lambda s: s, (0.5, 0.2)), "corners of a given basis = (0.5, 0.2)"),
    "shape": (lambda: un.Shape("box", (np.nan, 1, 1)), "size of the box = (nan, 1, 1); it must be 3 finite numbers"),
    "sphere": (lambda: un.Shape("sphere", 1.0), "size of the sphere = 1.0; it must be 1 finite number"),
    "negative": (lambda: un.Shape("capsule", (0.1, -1.0)), "size of the capsule = (0.1, -1.0) m; all must be positive"),
    "colour": (lambda: un.Shape("sphere", (1.0,), colour=(255, 0, 0)), "its parts must be between 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)
