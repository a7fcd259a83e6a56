"""Constraints and slip laws that cannot be meant are refused with a sentence that names them."""

import numpy as np
import pytest

import undula as un

pytestmark = pytest.mark.usefixtures("wrong_types")
R, L = un.rows, un.laws
STILL = L.Constant(np.zeros(3))

REFUSED = {
    "viscous": (lambda: R.Viscous(-1.0), "coefficient of a viscous slip law = -1.0; it must be at least 0"),
    "viscous, nan": (lambda: R.Viscous([1.0, np.nan]), "coefficient of a viscous slip law = [1.0, nan] is not finite"),
    "viscous, word": (lambda: R.Viscous("a"), "coefficient of a viscous slip law = 'a' is not numeric"),
    "itself": (lambda: R.Closure("c", "arm", "arm", position=(0, 0, 1)), "connects the body 'arm' with itself"),
    "plane of itself": (lambda: R.PointOnPlane("p", "arm", other="arm"), "connects the body 'arm' with itself"),
    "kind": (
        lambda: R.Closure("c", "arm", kind=3),
        "kind of the constraint 'c' = 3; it must be one of fixed, revolute",
    ),
    "holds": (
        lambda: R.Closure("c", "arm", holds=()),
        "the constraint 'c' holds (); it must be some of x, y, z, rx, ry, rz",
    ),
    "twice": (lambda: R.Anchor("c", "arm", holds=("x", "x")), "each once"),
    "swapped": (lambda: R.PrescribedPoint("p", STILL, "arm"), "the arguments are (name, body, motion, point)"),
    "swapped motion": (
        lambda: R.PrescribedPoint("p", "arm", (0, 0, 0), STILL),
        "position of the constraint 'p' = Constant",
    ),
    "numbers": (
        lambda: R.PrescribedPoint("p", "arm", (0, 0, 0)),
        "it must be un.laws.Constant((0, 0, 0)), if it is constant",
    ),
    "shape": (
        lambda: R.PrescribedFrame("p", "arm", STILL),
        "the motion of the constraint 'p' has the shape (3,); it must be (6,)",
    ),
    "roll": (
        lambda: R.Wheel("w", "arm", roll=np.nan),
        "roll of the wheel 'w' = nan; it must be a coordinate, a law or None",
    ),
    "side": (lambda: R.Wheel("w", "arm", side=1), "side of the wheel 'w' = 1; it must be True or False"),
    "spins": (
        lambda: R.RollingDisc("d", "arm", 0.1, spins="no"),
        "spins of the wheel = 'no'; it must be True or False",
    ),
    "coupled twice": (lambda: R.Coupling("g", ("a", "a"), (1, 2)), "name each only once"),
    "sees": (lambda: R.Latch("l", "arm", sees="foot"), "sees of the constraint 'l' = 'foot'; it must be a sequence"),
    "schedule": (lambda: R.Schedule(("a", "b")), "it must be two times [s]"),
    "sign": (lambda: R.WhilePushing(sign=True), "sign = True; it must be 1 (pushes) or -1 (pulls)"),
    "condition": (
        lambda: R.Condition(lambda at: at.t),
        "release is a function of (at); it must be a function of (at, reaction)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)


def two_links(motion, position=None, **constraint):
    b = un.Builder("links")
    b.base("ground")
    b.body("a", "ground", un.Revolute((0, 1, 0)), 1.0, (0.5, 0, 0), 0.1)
    b.body("b", "a", un.Revolute((0, 1, 0)), 1.0, (0.5, 0, 0), 0.1, position=(1, 0, 0))
    if constraint:
        b.add(R.Closure("loop", "b", position=(1, 0, 0), **constraint))
    else:
        b.add(R.PrescribedPoint("tip", "b", L.Constant(motion), point=(1, 0, 0), holds="xz"))
    system = b.build()
    return un.assemble(system, system.state(position))


def test_a_straight_chain_is_assembled():
    """Its tip cannot move along the chain to first order: by the law of cosines it must bend by acos(0.75) twice."""
    state = two_links([1.5, 0.0])
    assert abs(abs(state.q[0]) - np.arccos(0.75)) < 1e-9 and abs(state.q[1] + 2 * state.q[0]) < 1e-9
    again = two_links([1.5, 0.0])
    np.testing.assert_array_equal(state.q, again.q)


def test_what_cannot_be_assembled_says_what_would_help():
    with pytest.raises(
        un.UndulaError, match=r"tip.x by 0\.5 .* from 4 other starts nearby; give a state that nearly closes"
    ):
        two_links([2.5, 0.0])
    with pytest.raises(
        un.UndulaError, match=r"the frames of loop are turned against each other: give .*`other_rotation`"
    ):
        two_links(None, [0.5, -1.0], kind="revolute", other_position=(1.2, 0, 0))


def test_a_driven_motion_that_becomes_incompatible_names_its_rows():
    """From 0.5 s on, the second joint lifts the tip off its plane."""
    b = un.Builder("links")
    b.base("ground")
    b.body("a", "ground", un.Revolute((0, 1, 0)), 1.0, (0.5, 0, 0), 0.1)
    b.body("b", "a", un.Revolute((0, 1, 0)), 1.0, (0.5, 0, 0), 0.1, position=(1, 0, 0))
    b.drive("a", L.Constant(0.5))
    b.drive("b", L.Delayed(L.Polynomial([-0.125, 0.75, -1.5, 1.0]), 0.5) - 1.0)
    b.add(R.PointOnPlane("floor", "b", point=(1, 0, 0)))
    run = un.run(b.build(), t_end=0.7, dt=0.02, save_every=1)
    assert run.status == "failed" and ", of floor by" in run.message and "not compatible" in run.message
