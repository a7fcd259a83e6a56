"""Nonsense ends in one clear sentence: every argument tried with everything that it is not, and calls in any order.

A long test: 10000 cases. Every case must end in a result, a warning, or an `UndulaError` (exit status 2 or 3 of the
command) whose message is one sentence; never in another error, a hang or a silent NaN.
"""

import random
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import undula as un
from nonsense import BASE, BODY, CONSTRUCTORS, CONTROLLERS, ELEMENTS, JOINTS, MORE, NONSENSE, model
from undula.model.system import PARAMETERS

pytestmark = pytest.mark.usefixtures("wrong_types")


def one_sentence(error: un.UndulaError) -> None:
    text = str(error)
    assert text.strip() and "\n" not in text and text.rstrip().endswith(".") and len(text) < 900, text
    assert " at 0x" not in text, text


def refused_or_done(call) -> bool:
    """Whether a call was accepted; anything but a result or a sentence is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except un.UndulaError as error:
            one_sentence(error)
            return False
    return True


def built(*elements, extra=lambda b: None, rod=True):
    b = model(rod)
    extra(b)
    b.add(*elements)
    return b.build()


def jointed(kind, arguments):
    made = kind(**arguments)
    joint = un.Revolute(mimic=made) if kind is un.joints.Mimic else made
    return built(extra=lambda b: b.body("new", "body", joint, mass=1.0, inertia=0.1), rod=False)


def based(**arguments):
    b = un.Builder("model")
    b.base(**arguments)
    b.body("arm", arguments["name"], un.Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    return b.build()


def bodied(**arguments):
    return built(extra=lambda b: b.body(**arguments), rod=False)


FAMILIES = {
    "constructors": [(kind, good, kind) for kind, good in CONSTRUCTORS],
    "elements": [(kind, good, lambda _kind=kind, **a: built(_kind(**a))) for kind, good in ELEMENTS],
    "controllers": [
        (kind, good, lambda _kind=kind, **a: built(extra=lambda b: b.force("arm", _kind(**a))))
        for kind, good in CONTROLLERS
    ],
    "joints": [(kind, good, lambda _kind=kind, **a: jointed(_kind, a)) for kind, good in JOINTS],
    "more": [(kind, good, kind) for kind, good in MORE],
    "bodies": [
        (bodied, {**BODY, "joint": un.Revolute((0, 0, 1))}, bodied),
        (based, BASE, based),
    ],
}
SHARE = {"more": 700, "constructors": 2400, "elements": 2200, "controllers": 300, "joints": 1500, "bodies": 700}


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_argument(family):
    """Each valid set of arguments is accepted; then one of them, or two, are replaced by nonsense."""
    for kind, good, make in FAMILIES[family]:
        if kind != un.laws.Sampled.from_csv:  # there is no such file
            assert refused_or_done(lambda make=make, good=good: make(**good)), kind
    cases = [(make, good, k) for _, good, make in FAMILIES[family] for k in good]
    chosen = random.Random(family)
    for _ in range(SHARE[family]):
        make, good, k = chosen.choice(cases)
        given = {**good, k: chosen.choice(NONSENSE)}
        if chosen.random() < 0.2 and k != "name":
            given[chosen.choice([other for other in good if other != "name"])] = chosen.choice(NONSENSE)
        refused_or_done(lambda make=make, given=given: make(**given))


names = st.sampled_from(["body", "arm", "tip", "reed", "hand", "world", "", "nobody"])
values = st.sampled_from(NONSENSE)
numbers = st.one_of(st.floats(0.01, 2.0), st.floats(), values)
joints = st.one_of(
    st.builds(lambda axis: un.Revolute(axis), st.sampled_from([(0, 0, 1), (1, 0, 0), (0, 0, 0)])),
    st.builds(lambda role: un.Prismatic(role=role), st.sampled_from(["free", "driven", "forced", "led", "stuck"])),
    st.just(un.Fixed()),
    st.just(un.Spherical()),
    st.builds(lambda leader: un.Revolute(mimic=un.joints.Mimic(leader)), names),
    values,
)
laws = st.one_of(st.just(un.laws.Sinusoid(1.0, 1.0)), values)
calls = st.one_of(
    st.tuples(st.just("base"), names, st.sampled_from(["fixed", "free", "driven"]), numbers),
    st.tuples(st.just("body"), names, names, joints, numbers),
    st.tuples(st.just("body"), names, names, st.just(un.Revolute((0, 1, 0))), st.just(1.0)),
    st.tuples(st.sampled_from(["drive", "force"]), names, laws),
    st.tuples(st.just("lead"), names),
    st.tuples(st.just("add"), names, names),
)


def play(steps):
    """The builder after some calls in any order, and the built system."""
    b = un.Builder("played")
    for name, *rest in steps:
        if name == "base":
            b.base(rest[0], role=rest[1], mass=rest[2], inertia=0.1)
        elif name == "body":
            b.body(rest[0], rest[1], rest[2], mass=rest[3], com=(0, 0, -0.1), inertia=0.1)
        elif name == "add":
            b.add(un.rows.Closure("loop", *rest), un.forces.Load(rest[0], (0, 0, 1.0)))
        else:
            getattr(b, name)(*rest)
    return b.build()


@pytest.mark.long
@hypothesis.settings(max_examples=1000, deadline=None)
@hypothesis.given(st.lists(calls, min_size=1, max_size=6))
def test_calls_in_any_order(steps):
    """Parents that do not exist, duplicate names, cycles, two bases, laws without coordinates."""
    refused_or_done(lambda: play([("base", "body", "free", 1.0), *steps]))


@pytest.mark.long
def test_numbers_of_a_built_system():
    """`replace`, `replace_element`, `state` and the names of rows and elements."""
    spring = un.forces.SpringDamper("arm", "world", 1.0, name="spring")
    system = built(spring, un.rows.Wheel("wheel", "body").slipping(un.rows.Viscous(1.0)))
    states = ("position", "velocity", "base_position", "base_quaternion", "base_twist")
    ways = [lambda v, k=k: system.replace(**{k: v}) for k in PARAMETERS]
    ways += [
        lambda v, k=k: system.replace_element("spring", **{k: v}) for k in ("stiffness", "damping", "rest", "nothing")
    ]
    ways += [lambda v: system.replace_element("gravity", g=v), lambda v: system.replace_element("wheel", law=v)]
    ways += [lambda v, k=k: system.state(**{k: v}) for k in states]
    ways += [lambda v: system.state({"arm": v}), system.with_rows, system.with_reactions, system.element, system.body]
    for way in ways:
        for value in NONSENSE:
            refused_or_done(lambda way=way, value=value: way(value))


RUNS = dict(t_end=0.02, dt=0.005, save_every=2, integrator=un.integrators.RungeKutta4(), t0=0.0)


@pytest.mark.long
def test_runs():
    """Arguments of a run; the few that are accepted end with a status, and samples that are finite or a reason."""
    system = built(rod=False)
    chosen = random.Random("runs")
    for _ in range(300):
        k = chosen.choice([*RUNS, "state", "system"])
        given = {"system": system, "state": system.state(), **RUNS, k: chosen.choice(NONSENSE)}
        length = given["t_end"]
        if isinstance(length, float) and 1 < length < 1e6:
            given["dt"] = length / 4  # few steps

        def call(given=given):
            result = un.run(**given)
            finite = all(np.all(np.isfinite(x)) for x in (result.state.q, result.state.v))
            assert finite or result.status == "failed", result.message
            assert result.message.endswith(".")

        refused_or_done(call)


WORDS = [
    "nan",
    "inf",
    "-1",
    "0",
    "",
    "abc",
    "1e300",
    "1e-300",
    "1,2",
    "1,2,3",
    "true",
    "--",
    "é",
    "0x10",
    " 1 ",
    "1e",
    "None",
]
OPTIONS = [
    "--t-end",
    "--dt",
    "--save-every",
    "--set",
    "--out",
    "--plot",
    "--html",
    "--port",
    "--json",
    "--quiet",
    "--nothing",
]
KEYS = ["length", "mass", "angles", "damping", "n", "nothing", ""]


@pytest.mark.long
def test_the_command(undula, here):
    """Words in the places of the command's arguments: exit status 2 and one sentence, nothing written."""
    (here / "text.nc").write_text("no data")
    (here / "folder").mkdir()
    before = sorted(x.name for x in here.iterdir())
    chosen = random.Random("command")
    for _ in range(600):
        command = chosen.choice(["run", "run", "run", "show", "plot", "view", "list", "doctor", "walk", ""])
        subject = chosen.choice(["double-pendulum", "chain", "duoble-pendulum", "text.nc", "none.nc", "folder", ""])
        arguments = [command, subject]
        for option in chosen.sample(OPTIONS, chosen.randint(1, 3)):
            arguments.append(option)
            if option == "--set":
                arguments.append(f"{chosen.choice(KEYS)}={chosen.choice(WORDS)}")
            elif option in ("--out", "--plot", "--html"):
                arguments.append(chosen.choice(["folder", "text.nc/x", "no/x.nc", "/proc/x.nc", "x.txt", ""]))
            elif option not in ("--json", "--quiet"):
                arguments.append(chosen.choice(WORDS))
        # one argument that is refused in any case, so that no case computes
        arguments.append(chosen.choice(["--nothing", "--dt=abc", "--t-end=nan", "--set=nothing"]))
        status, out, err = undula(*arguments)
        assert status == 2 and not out, (arguments, out, err)
        assert err.strip() and err.count("\n") == 1 and "Traceback" not in err, (arguments, err)
    assert sorted(x.name for x in here.iterdir()) == before
