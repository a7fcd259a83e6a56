"""Motion laws: values against closed forms, derivatives against finite differences, refusals by their message."""

import undula.core.startup  # noqa: F401, I001  first: float64

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
from hypothesis import given, settings
from hypothesis import strategies as st

from undula.core.errors import UndulaError
from undula.laws import (
    Constant,
    CubicSpline,
    Function,
    Law,
    Polynomial,
    Product,
    Quintic,
    QuinticSpline,
    Retimed,
    Sampled,
    Sinusoid,
    SoftStart,
    Sum,
    TravellingWave,
    stack,
)
from undula.laws.combine import Negative

KNOTS = np.array([0.0, 0.4, 0.9, 1.7, 2.2, 2.6, 3.5, 4.0])
SAMPLES = np.random.default_rng(1).normal(size=(8, 3))
CLOSED = np.concatenate([SAMPLES[:-1], SAMPLES[:1]])


def swing(t):
    return jnp.exp(jnp.sin(t))


class Decay(Law):
    """A user-defined law with its own parameter."""

    pace: jax.Array

    @property
    def shape(self):
        return ()

    def value(self, t):
        return jnp.exp(-self.pace * t)


LAWS = {
    "constant vector": Constant([1.0, 2.0]),
    "sinusoid": Sinusoid(0.7, 2.0, 0.3, -0.1),
    "sinusoid vector": Sinusoid([0.7, -0.2, 1.1], 2.0, [0.1, 0.2, 0.3]),
    "wave": TravellingWave(5, 0.4, 3.0, 0.8, 0.2, 0.05),
    "wave, graded": TravellingWave(4, [0.1, 0.2, 0.3, 0.4], 3.0, 0.8),
    "polynomial": Polynomial([0.1, -0.4, 0.2, 0.05, -0.03, 0.002]),
    "polynomial vector": Polynomial([[0.1, 1.0], [-0.4, 2.0], [0.3, -0.5]]),
    "polynomial of degree 0": Polynomial([2.0]),
    "quintic": Quintic(0.2, 1.4, 0.5, 2.5),
    "quintic vector": Quintic(
        [0.2, 1.0], [1.4, -0.3], 0.5, 2.5, start_rate=0.3, end_rate=-0.5, end_acceleration=[0.0, 0.8]
    ),
    "cubic spline": CubicSpline(KNOTS, SAMPLES[:, 0]),
    "periodic spline": CubicSpline(KNOTS, CLOSED, periodic=True),
    "quintic spline vector": QuinticSpline(KNOTS, SAMPLES),
    "sampled": Sampled(KNOTS, SAMPLES, ["a", "b", "c"]),
    "soft start": SoftStart(2.0, 0.5),
    "function": Function(swing),
    "function vector": Function(lambda t: [jnp.sin(t), t**2], shape=(2,)),
    "user's": Decay(jnp.asarray(0.3)),
    "sum": Sinusoid(0.7, 2.0) + Polynomial([0.0, 1.0, 0.5]) + 2,
    "difference": [1.0, 2.0] - Sinusoid(0.7, 2.0),
    "product": SoftStart(2.0) * TravellingWave(3, 0.4, 3.0, 0.8),
    "negative": -Sinusoid(0.7, 2.0),
    "retimed": Retimed(TravellingWave(3, 0.4, 3.0, 0.8), Polynomial([0.1, 0.3, 0.1])),
    "stack": stack([Sinusoid(0.7, 2.0), Polynomial([0.0, 1.0]), Sinusoid(0.1, 3.0), 2.0]),
}
# Where a third or lower derivative jumps, differences across the jump are meaningless.
EDGES = np.concatenate([KNOTS, KNOTS - 4.0, KNOTS + 4.0, [0.5, 2.5, 2.0]])
GRID = np.linspace(-1.0, 5.0, 61) + 0.013
TIMES = GRID[np.min(np.abs(GRID[:, None] - EDGES), axis=1) > 5e-3]


@eqx.filter_jit
def batch(law, times):
    return jax.vmap(law)(times)


def at(law, times):
    """Value, rate and acceleration at many times; always padded to one length, to compile once per law."""
    padded = np.zeros(128)
    padded[: len(times)] = times
    return tuple(np.asarray(quantity)[: len(times)] for quantity in batch(law, padded))


def once(law, t):
    """Value, rate and acceleration at one time, by the same compiled function."""
    return np.array([quantity[0] for quantity in at(law, [t])])


def check_differences(law, times, tolerance=1e-6):
    """Each derivative is the (fourth-order) central difference of the previous quantity."""
    h = 1e-3
    around = [at(law, times + k * h) for k in (-2, -1, 1, 2)]
    _, rate, acceleration = at(law, times)
    for before, after in ((0, rate), (1, acceleration)):
        f = [np.asarray(q[before]) for q in around]
        difference = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        np.testing.assert_allclose(after, difference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LAWS)
def test_derivatives_are_those_of_the_value(name):
    assert len(TIMES) > 50
    check_differences(LAWS[name], TIMES)


@pytest.mark.parametrize("name", LAWS)
def test_shapes_dtype_and_finiteness_also_at_knots_and_ends(name):
    law = LAWS[name]
    for quantity in at(law, np.concatenate([EDGES, [1e6, -1e6]])):
        assert quantity.dtype == jnp.float64
        assert quantity.shape[1:] == law.shape
        assert np.all(np.isfinite(quantity[:-2] if name == "user's" else quantity))
    for t in (0.3, 1, np.float64(0.3), jnp.asarray(0.3)):
        found = jax.eval_shape(lambda t=t: law.value(t))
        assert found.shape == law.shape and found.dtype == jnp.float64


@pytest.mark.parametrize("name", ["quintic", "soft start", "cubic spline", "periodic spline", "product"])
def test_gradients_of_the_leaves_are_finite_at_knots_and_ends(name):
    law = LAWS[name]

    def total(law, t):
        return sum(jnp.sum(quantity) for quantity in law(t))

    gradients = jax.jit(jax.vmap(jax.grad(total), (None, 0)))(law, EDGES)
    assert jax.tree.structure(gradients) == jax.tree.structure(law)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))


@settings(max_examples=40, deadline=None)
@given(
    amplitude=st.floats(-3, 3),
    rate=st.floats(-5, 5),
    phase=st.floats(-10, 10),
    offset=st.floats(-3, 3),
    t=st.floats(-10, 10),
)
def test_sinusoid_closed_form(amplitude, rate, phase, offset, t):
    law = Sinusoid(amplitude, rate, phase, offset)
    angle = rate * t + phase
    expected = (
        offset + amplitude * np.sin(angle),
        amplitude * rate * np.cos(angle),
        -amplitude * rate**2 * np.sin(angle),
    )
    np.testing.assert_allclose(once(law, t), expected, rtol=1e-12, atol=1e-12)
    check_differences(law, np.array([t, t + 0.1]))


def test_travelling_wave_closed_form():
    law = TravellingWave(6, np.arange(1.0, 7.0), 3.0, 0.8, 0.2, 0.05)
    expected = [0.05 + (k + 1) * np.sin(3.0 * 0.7 - 0.8 * k + 0.2) for k in range(6)]
    np.testing.assert_allclose(law.value(0.7), expected, rtol=1e-14)
    # Joint k + 1 does what joint k did lag / rate seconds earlier.
    plain = TravellingWave(6, 1.0, 3.0, 0.8)
    np.testing.assert_allclose(plain.value(0.7)[1:], plain.value(0.7 - 0.8 / 3.0)[:-1], rtol=1e-13)


def test_polynomial_closed_form():
    coefficients = np.random.default_rng(2).normal(size=(6, 2))
    expected = np.polynomial.Polynomial(coefficients[:, 1])
    value, rate, acceleration = once(Polynomial(coefficients), 1.3)
    found = [value[1], rate[1], acceleration[1]]
    np.testing.assert_allclose(found, [expected.deriv(k)(1.3) for k in range(3)], rtol=1e-13)


def test_quintic_meets_its_boundary_conditions():
    law = Quintic(
        [1.0, 2.0],
        [3.0, -1.0],
        0.5,
        2.1,
        start_rate=0.4,
        end_rate=[-0.6, 0.1],
        start_acceleration=1.5,
        end_acceleration=[0.0, -2.0],
    )
    expected_start = [[1.0, 2.0], [0.4, 0.4], [1.5, 1.5]]
    expected_end = [[3.0, -1.0], [-0.6, 0.1], [0.0, -2.0]]
    np.testing.assert_allclose(once(law, 0.5), expected_start, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(once(law, 2.1), expected_end, rtol=1e-12, atol=1e-12)
    # Outside it continues at the end rate.
    np.testing.assert_allclose(once(law, 0.0), [[0.8, 1.8], [0.4, 0.4], [0.0, 0.0]], atol=1e-13)
    np.testing.assert_allclose(once(law, 3.1), [[2.4, -0.9], [-0.6, 0.1], [0.0, 0.0]], atol=1e-13)


def test_quintic_from_rest_to_rest_is_the_soft_step_and_holds_its_ends():
    law = Quintic(1.0, 3.0, 0.5, 2.5)
    s = (1.1 - 0.5) / 2.0
    np.testing.assert_allclose(once(law, 1.1)[0], 1.0 + 2.0 * (10 * s**3 - 15 * s**4 + 6 * s**5), rtol=1e-14)
    for t, end in ((-7.0, 1.0), (0.5, 1.0), (2.5, 3.0), (90.0, 3.0)):
        np.testing.assert_allclose(once(law, t), [end, 0.0, 0.0], atol=1e-13)
    same = 1.0 + 2.0 * SoftStart(2.0, 0.5)
    np.testing.assert_allclose(at(law, GRID), at(same, GRID), atol=1e-13)


def test_soft_start_is_continuous_to_the_acceleration():
    law = SoftStart(2.0, t0=0.5)
    np.testing.assert_allclose(once(law, 0.5), [0.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(once(law, 1.5), [0.5, 15 / 16, 0.0], atol=1e-14)
    np.testing.assert_allclose(once(law, 2.5), [1.0, 0.0, 0.0], atol=1e-14)
    eps = 1e-9
    for t in (0.5, 2.5):
        before, after = np.array(once(law, t - eps)), np.array(once(law, t + eps))
        np.testing.assert_allclose(before, after, atol=100 * eps)  # jerk 60 / duration³ at the ends


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("columns", [0, slice(None)])
def test_cubic_spline_is_that_of_scipy(periodic, columns):
    values = (CLOSED if periodic else SAMPLES)[:, columns]
    bc = "periodic" if periodic else "not-a-knot"
    reference = scipy.interpolate.CubicSpline(KNOTS, values, bc_type=bc)
    times = np.concatenate([np.linspace(0.0, 4.0, 97)[:-1], KNOTS[:-1]])
    found = at(CubicSpline(KNOTS, values, periodic), times)
    for k in range(3):
        np.testing.assert_allclose(found[k], reference(times, k), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [0, slice(None)])
@pytest.mark.parametrize("count", [6, 8])
def test_quintic_spline_is_that_of_scipy(count, columns):
    knots, values = KNOTS[:count], SAMPLES[:count, columns]
    reference = scipy.interpolate.make_interp_spline(knots, values, k=5)
    times = np.concatenate([np.linspace(0.0, knots[-1], 97), knots])
    found = at(QuinticSpline(knots, values), times)
    for k in range(3):
        np.testing.assert_allclose(found[k], reference(times, k), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [CubicSpline, QuinticSpline])
def test_spline_passes_its_samples_and_holds_its_ends(kind):
    law = kind(KNOTS, SAMPLES)
    np.testing.assert_allclose(at(law, KNOTS)[0], SAMPLES, atol=1e-12)
    for t, end in ((-0.5, SAMPLES[0]), (4.5, SAMPLES[-1])):
        value, rate, acceleration = once(law, t)
        np.testing.assert_allclose(value, end, atol=1e-12)
        assert not np.any(rate) and not np.any(acceleration)
    # At the end itself the rate is that of the motion, not that of the hold or the mean of both.
    assert np.all(np.abs(once(law, 4.0)[1] - once(law, 4.0 - 1e-9)[1]) < 1e-6) and np.all(once(law, 4.0)[1] != 0)


def test_periodic_spline_repeats():
    law = CubicSpline(KNOTS, CLOSED, periodic=True)
    for turn in (-8.0, 4.0, 400.0):
        for first, later in zip(at(law, TIMES), at(law, TIMES + turn)):
            np.testing.assert_allclose(later, first, atol=1e-9)


@pytest.mark.parametrize("count", [2, 3])
def test_short_cubic_splines_are_a_line_and_a_parabola(count):
    knots = np.array([0.0, 0.5, 2.0])[:count]
    law = CubicSpline(knots, knots ** (count - 1))
    np.testing.assert_allclose(once(law, 0.3)[0], 0.3 ** (count - 1), rtol=1e-13)


@pytest.mark.parametrize(
    "kind",
    [CubicSpline, QuinticSpline, lambda t, v: CubicSpline(t, v, periodic=True)],
    ids=["cubic", "quintic", "periodic"],
)
def test_spline_is_differentiable_in_its_samples(kind):
    weights = np.array([[1.0], [0.3], [0.1]])

    def traced(samples):
        return jnp.sum(weights * jnp.stack(kind(KNOTS, samples)(1.234)))

    def plain(samples):  # directly by SciPy
        return np.sum(weights * once(kind(KNOTS, samples), 1.234))

    value, gradient = jax.jit(jax.value_and_grad(traced))(CLOSED)
    np.testing.assert_allclose(value, plain(CLOSED), rtol=1e-10)
    # Linear in the samples: the gradient times any closed change is the change of the value.
    change = np.random.default_rng(3).normal(size=CLOSED.shape)
    change[-1] = change[0]
    np.testing.assert_allclose(np.sum(gradient * change), plain(change), rtol=1e-9)


def write(path, text):
    path.write_text(text)
    return path


def test_csv_round_trip(tmp_path):
    rows = [",".join(repr(float(x)) for x in [t, *row]) for t, row in zip(KNOTS, SAMPLES)]
    path = write(tmp_path / "gait.csv", "\ufefft, hip,knee,ankle\n" + "\n\n".join(rows) + "\n")
    law = Sampled.from_csv(path)
    assert law.names == ("hip", "knee", "ankle") and law.shape == (3,)
    reference = CubicSpline(KNOTS, SAMPLES)
    for found, expected in zip(at(law, TIMES), at(reference, TIMES)):
        np.testing.assert_array_equal(found, expected)
    picked = Sampled.from_csv(str(path), columns=["ankle", "hip"], time="t")
    assert picked.names == ("ankle", "hip")
    np.testing.assert_array_equal(once(picked, 1.1), once(reference, 1.1)[:, [2, 0]])
    single = Sampled.from_csv(path, columns="knee")
    assert single.shape == ()
    np.testing.assert_array_equal(once(single, 1.1), once(reference, 1.1)[:, 1])


def test_csv_with_the_time_in_another_column_text_beside_it_and_a_period(tmp_path):
    path = write(tmp_path / "gait.csv", "note,hip,clock\nleft,0.1,0\nright,0.5,1\n,0.2,2.5\n,0.1,3\n")
    law = Sampled.from_csv(path, columns=["hip"], time="clock", periodic=True)
    np.testing.assert_allclose(once(law, 4.0)[0], [0.5], atol=1e-14)


CSV_REFUSALS = {
    "empty": ("", {}, r"gait\.csv is empty"),
    "no header": ("0,1\n1,2\n", {}, r"first row is 0, 1; it must name"),
    "twice": ("t,a,a\n0,1,1\n1,2,2\n", {}, r"column 'a' occurs 2 times"),
    "no values": ("t\n0\n1\n", {}, r"no column of values beside the time column 't'"),
    "no column": ("t,a\n0,1\n1,2\n", {"columns": ["a", "b"]}, r"no column 'b'; its columns are t, a"),
    "no time": ("t,a\n0,1\n1,2\n", {"time": "clock"}, r"no column 'clock'; its columns are t, a"),
    "text": ("t,a\n0,1\n1,two\n", {}, r"line 3, column 'a': 'two' is not a finite number"),
    "nan": ("t,a,b\n0,1,1\n1,2,2\n2,3,nan\n", {}, r"line 4, column 'b': 'nan' is not a finite number"),
    "blank cell": ("t,a\n0,1\n\n1,\n", {}, r"line 4, column 'a': '' is not a finite number"),
    "ragged": ("t,a\n0,1\n1,2,3\n", {}, r"line 3: there are 3 cells; it must be 2"),
    "same time": ("t,a\n0,1\n1,2\n1,3\n", {}, r"line 4: t = 1\.0 s does not come after 1\.0 s"),
    "few": ("t,a\n0,1\n", {}, r"there are 1 rows of samples; at least 2"),
    "few, periodic": ("t,a\n0,1\n1,1\n", {"periodic": True}, r"there are 2 rows of samples; at least 3"),
    "open": (
        "t,a\n0,1\n1,2\n2,3\n",
        {"periodic": True},
        r"values\[-1\] = \[3\.0\] is not values\[0\] = \[1\.0\]",
    ),
}


@pytest.mark.parametrize("name", CSV_REFUSALS)
def test_csv_refusals_name_the_place(name, tmp_path):
    text, options, sentence = CSV_REFUSALS[name]
    with pytest.raises(UndulaError, match=sentence):
        Sampled.from_csv(write(tmp_path / "gait.csv", text), **options)


def test_csv_file_that_is_missing_or_not_text(tmp_path):
    with pytest.raises(UndulaError, match=r"There is no file .*absent\.csv"):
        Sampled.from_csv(tmp_path / "absent.csv")
    with pytest.raises(UndulaError, match="cannot be read as a CSV file"):
        Sampled.from_csv(tmp_path)
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UndulaError, match=r"picture\.csv cannot be read as a CSV file"):
        Sampled.from_csv(tmp_path / "picture.csv")


REFUSALS = {
    r"Constant: value = 'fast' is not numeric": lambda: Constant("fast"),
    r"Sinusoid: rate = nan is not finite": lambda: Sinusoid(1.0, np.nan),
    r"Sinusoid: amplitude has the shape \(1, 2\); it must be one number or a vector": (
        lambda: Sinusoid([[1.0, 2.0]], 1.0)
    ),
    r"Sinusoid: amplitude = \[\[1.0\], 2.0\] is not a rectangular array": lambda: Sinusoid([[1.0], 2.0], 1.0),
    r"Sinusoid: the shapes differ \(amplitude has \(3,\), phase has \(2,\)\)": (
        lambda: Sinusoid(np.ones(3), 1.0, np.ones(2))
    ),
    r"TravellingWave: count = 0 is not": lambda: TravellingWave(0, 1.0, 1.0, 1.0),
    r"TravellingWave: count = 2\.5 is not": lambda: TravellingWave(2.5, 1.0, 1.0, 1.0),
    r"TravellingWave: the shapes differ \(the law has \(4,\), amplitude has \(3,\)\)": (
        lambda: TravellingWave(4, np.ones(3), 1.0, 1.0)
    ),
    r"Polynomial: 7 coefficients were given; 1 to 6": lambda: Polynomial(np.ones(7)),
    r"Quintic: t1 = 1\.0 s does not come after t0 = 1\.0 s": lambda: Quintic(0.0, 1.0, 1.0, 1.0),
    r"Quintic: t0 has the shape \(1,\); it must be one number": lambda: Quintic(0.0, 1.0, [0.0], 1.0),
    r"Quintic: the shapes differ \(start has \(2,\), end_acceleration has \(3,\)\)": (
        lambda: Quintic(np.zeros(2), 1.0, 0.0, 1.0, end_acceleration=np.zeros(3))
    ),
    r"SoftStart: duration = 0\.0 s is not positive": lambda: SoftStart(0),
    r"CubicSpline: times\[2\] = 1\.0 s does not come after times\[1\] = 1\.5 s": (
        lambda: CubicSpline([0.0, 1.5, 1.0], np.ones(3))
    ),
    r"CubicSpline: values has 2 rows; it must be 3": lambda: CubicSpline([0.0, 1.0, 2.0], np.ones(2)),
    r"CubicSpline: 1 times were given; at least 2": lambda: CubicSpline([0.0], np.ones(1)),
    r"CubicSpline: values\[-1\] = 2\.0 is not values\[0\] = 1\.0": (
        lambda: CubicSpline([0, 1, 2], [1, 3, 2], periodic=True)
    ),
    r"CubicSpline: times are traced": (
        lambda: jax.grad(lambda x: CubicSpline([0.0, x, 2.0], np.ones(3)).value(0.0))(1.0)
    ),
    r"QuinticSpline: 5 times were given; at least 6": lambda: QuinticSpline(np.arange(5), np.ones(5)),
    r"Sampled: 2 names were given; it must be 3": lambda: Sampled(KNOTS, SAMPLES, ["a", "b"]),
    r"Function: fn = swing returns the shape \(\); it must be \(2,\)": lambda: Function(swing, (2,)),
    r"Function: fn = fn cannot be traced by JAX as a law": lambda: Function(_not_traceable()),
    r"Function: shape = \(2, 2\) is not allowed": lambda: Function(lambda t: jnp.ones((2, 2)), (2, 2)),
    r"Sum: no law was given": lambda: Sum(),
    r"Product: the shapes differ \(law 0 \(Constant\) has \(2,\), law 1 \(TravellingWave\) has \(3,\)\)": (
        lambda: np.ones(2) * TravellingWave(3, 1.0, 1.0, 1.0)
    ),
    r"Retimed: pace has the shape \(2,\)": lambda: Retimed(SoftStart(1.0), Constant([1.0, 2.0])),
    r"stack: law 1 \(Constant\) has the shape \(2,\)": lambda: stack([1.0, Constant([1.0, 2.0])]),
    r"stack: no law was given": lambda: stack([]),
    r"The time t has shape \(2,\); a law takes one number": lambda: SoftStart(1.0)(np.zeros(2)),
}


def _not_traceable():
    def fn(t):
        return float(t)

    return fn


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals_name_the_culprit(sentence):
    with pytest.raises(UndulaError, match=sentence):
        REFUSALS[sentence]()


def test_sums_and_products_follow_leibniz():
    a, b = Sinusoid([0.7, 0.3], 2.0, 0.1), Polynomial([0.2, -0.4, 0.3])
    (av, ar, aa), (bv, br, ba) = at(a, TIMES), at(b, TIMES)
    bv, br, ba = (x[:, None] for x in (bv, br, ba))
    expected = {
        "sum": (a + b, (av + bv, ar + br, aa + ba)),
        "difference": (a - b, (av - bv, ar - br, aa - ba)),
        "product": (a * b, (av * bv, ar * bv + av * br, aa * bv + 2 * ar * br + av * ba)),
        "negative": (-a, (-av, -ar, -aa)),
        "builtin sum": (sum([a, b, a]), (2 * av + bv, 2 * ar + br, 2 * aa + ba)),
    }
    for name, (law, quantities) in expected.items():
        assert law.shape == (2,)
        for found, quantity in zip(at(law, TIMES), quantities):
            np.testing.assert_allclose(found, quantity, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "number", [2, 2.5, np.float64(2.5), np.array([1.0, 2.5]), jnp.array([1.0, 2.5]), [1.0, 2.5]], ids=repr
)
def test_laws_combine_with_numbers_and_arrays_on_both_sides(number):
    law = Sinusoid([0.7, 0.3], 2.0)
    value, other = law.value(0.4), np.asarray(number)
    cases = {
        "+": ((law + number, number + law), (value + other, other + value)),
        "-": ((law - number, number - law), (value - other, other - value)),
        "*": ((law * number, number * law), (value * other, other * value)),
    }
    for sign, (laws, expected) in cases.items():
        for found, wanted in zip(laws, expected):
            assert isinstance(found, Law), sign
            np.testing.assert_allclose(found.value(0.4), wanted, rtol=1e-15, err_msg=sign)


def test_a_difference_adds_no_parameter():
    assert len(jax.tree.leaves(SoftStart(1.0) - SoftStart(2.0))) == 4
    assert isinstance(-SoftStart(1.0), Negative) and isinstance(SoftStart(1.0) * 2, Product)


PARAMETRIC = {
    "sinusoid": lambda x: Sinusoid(x, 1.0 + x, x**2, -x),
    "wave": lambda x: TravellingWave(3, x, 1.0 + x, 2 * x, x**2, [x, 1.0, 2.0]),
    "polynomial": lambda x: Polynomial([1.0, x, x**2]),
    "quintic": lambda x: Quintic(x, 2.0, 0.1 * x, 1.0 + x, end_rate=x),
    "soft start": lambda x: SoftStart(1.0 + x, 0.1 * x),
    "spline": lambda x: CubicSpline(KNOTS, x * x * SAMPLES),
    "retimed": lambda x: Retimed(Sinusoid(1.0, 2.0), Polynomial([0.0, x])),
    "product": lambda x: x * SoftStart(2.0) * Sinusoid(x, 2.0) + x,
    "stack": lambda x: stack([Sinusoid(x, 2.0), x, SoftStart(1.0 + x), Sinusoid(1.0, x)]),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_laws_built_under_grad_have_the_right_gradient(name):
    build = PARAMETRIC[name]

    def total(x):
        value, rate, acceleration = build(x)(0.77)
        return jnp.sum(value) + 0.5 * jnp.sum(rate) + 0.25 * jnp.sum(acceleration)

    f, h, x = jax.jit(total), 1e-3, 0.6
    difference = (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)
    found = jax.jit(jax.grad(total))(x)
    assert abs(found) > 1e-3
    np.testing.assert_allclose(found, difference, rtol=1e-7, atol=1e-8)


def test_gradient_with_respect_to_the_amplitude_leaf():
    law = TravellingWave(3, [0.1, 0.2, 0.3], 2.0, 0.5)
    gradient = eqx.filter_grad(lambda law: jnp.sum(law.value(0.4)))(law)
    np.testing.assert_allclose(gradient.amplitude, np.sin(0.8 - 0.5 * np.arange(3)), rtol=1e-13)


def test_laws_batch_over_parameters_and_pass_through_jit():
    rates = jnp.linspace(1.0, 2.0, 5)
    many = jax.vmap(lambda rate: SoftStart(2.0) * Sinusoid(0.5, rate))(rates)
    found = jax.jit(jax.vmap(lambda law: law(1.1)[1]))(many)
    expected = [once(SoftStart(2.0) * Sinusoid(0.5, rate), 1.1)[1] for rate in rates]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_no_law_can_be_changed():
    with pytest.raises(AttributeError):
        SoftStart(1.0).duration = 2.0


def test_stack_keeps_the_order_of_mixed_laws():
    laws = [
        Function(swing),
        Sinusoid(0.1, 1.0),
        SoftStart(2.0),
        Sinusoid(0.2, 2.0),
        Function(swing),
        Polynomial([1.0, 2.0]),
        3.0,
        Polynomial([1.0, 2.0, 3.0]),
        SoftStart(1.0) * Sinusoid(0.4, 1.0),
        Sinusoid(0.3, 3.0),
        CubicSpline(KNOTS, SAMPLES[:, 0]),
        Polynomial([4.0, 5.0]),
        CubicSpline(KNOTS, SAMPLES[:, 1]),
        Constant(7.0),
    ]
    joined = stack(laws)
    assert joined.shape == (14,)
    assert len(joined.batches) == 8
    singles = [law if isinstance(law, Law) else Constant(law) for law in laws]
    for k, quantity in enumerate(at(joined, TIMES)):
        expected = np.stack([at(law, TIMES)[k] for law in singles], axis=1)
        np.testing.assert_allclose(quantity, expected, rtol=1e-13, atol=1e-13)


def test_a_thousand_like_laws_are_one_operation():
    rng = np.random.default_rng(4)
    amplitudes, rates = rng.normal(size=(2, 1000))
    law = stack([Sinusoid(a, r) for a, r in zip(amplitudes, rates)])
    np.testing.assert_allclose(law.value(0.8), amplitudes * np.sin(rates * 0.8), rtol=1e-13)
    assert len(law.batches) == 1
    assert str(jax.make_jaxpr(law.value)(0.8)).count(" sin ") == 1


def test_retimed_follows_the_chain_rule():
    law, pace = Sinusoid([0.7, 0.2], 2.0, 0.1), Polynomial([0.3, 0.5, 0.2])
    for t in (0.0, 0.9, 2.0):
        s, rate, acceleration = once(pace, t)
        q, dq, ddq = once(law, s)
        expected = (q, dq * rate, ddq * rate**2 + dq * acceleration)
        np.testing.assert_allclose(once(Retimed(law, pace), t), expected, rtol=1e-13)
    delayed = Retimed(law, Polynomial([-0.25, 1.0]))
    np.testing.assert_allclose(once(delayed, 1.0), once(law, 0.75), rtol=1e-13)
