"""The checks that all refusals share: what is accepted alike, what is refused, and what the sentence says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undula as un
from undula.core.errors import (
    as_vector,
    flag,
    function_of,
    names_of,
    not_negative,
    positive,
    real,
    reason,
    shown,
    whole,
)

pytestmark = pytest.mark.usefixtures("wrong_types")

TWO = [2, 2.0, np.float32(2), np.int64(2), np.array(2), jnp.asarray(2.0), jnp.asarray(2)]


@pytest.mark.parametrize("two", TWO, ids=lambda x: type(x).__name__)
def test_numbers_of_all_kinds_are_accepted_alike(two):
    assert float(as_vector(two, 0, "x")) == float(real(two, "x")) == whole(two, "x") == 2


def test_vectors_of_all_kinds_are_accepted_alike():
    for value in (
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2]),
        jnp.array([1.0, 2.0]),
        [jnp.asarray(1.0), np.float32(2)],
        range(1, 3),
    ):
        np.testing.assert_array_equal(as_vector(value, 2, "x"), [1.0, 2.0])


def test_traced_values_are_not_checked():
    jax.jit(lambda x: (real(x, "x", above=1.0), not_negative(x, "x"), as_vector(x, 0, "x")))(-1.0)


def test_known_arrays_are_checked_while_something_else_is_traced():
    one = jnp.asarray(1.0)

    def f(x):
        real(one, "one", 0.0, 2.0), whole(one, "one"), positive(one, "one"), not_negative(one, "one")
        with pytest.raises(un.UndulaError, match=r"one = 1\.0 is not allowed"):
            real(one, "one", above=1.0)
        return x

    jax.jit(f)(2.0)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: as_vector("1.0", 0, "mass"), "mass = '1.0' is not numeric."),
        (lambda: as_vector(True, 0, "mass"), "mass = True is not numeric."),
        (lambda: as_vector(1j, 0, "mass"), "mass = 1j is not numeric."),
        (lambda: as_vector(10**400, 0, "mass"), "is not numeric."),
        (lambda: as_vector([1, np.inf], 2, "axis"), "axis = [1.0, inf] is not finite."),
        (lambda: as_vector([[1], [2, 3]], 2, "axis"), "axis = [[1], [2, 3]] is not numeric."),
        (
            lambda: real(np.nan, "dt", above=0, unit="s"),
            "dt = nan s is not allowed; it must be a finite number greater than 0.",
        ),
        (lambda: real("1", "rho", 0, 1), "rho = '1' is not allowed; it must be a finite number between 0 and 1."),
        (lambda: real([1.0], "rho"), "rho = [1.0] is not allowed; it must be a finite number."),
        (lambda: whole(1.5, "steps"), "steps = 1.5 is not allowed; it must be a whole number of at least 0."),
        (lambda: whole(10**12, "steps"), "it must be a whole number of at most 2147483647."),
        (lambda: flag(1, "follows"), "follows = 1; it must be True or False."),
        (lambda: names_of(["a", 3], "rows"), "rows = 3; it must be a name."),
        (lambda: function_of(lambda t: t, ("t", "x"), "f"), "f is a function of (t); it must be a function of (t, x)."),
        (lambda: function_of(float, ("t",), "f"), "f = the class float; it must be a function of (t)."),
    ],
)
def test_sentences(call, words):
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)


def test_values_are_shown_on_one_short_line():
    assert shown(np.arange(3)) == "[0, 1, 2]" and "(99,)" in shown(np.zeros(99))
    assert shown(lambda t: t) == "the function <lambda>"
    assert len(shown("x" * 999)) < 210 and "0x" not in shown(object()) and "\n" not in shown(un.site("a"))


def test_functions_that_jax_cannot_trace_are_explained():
    def failing(function):
        try:
            jax.eval_shape(function, jnp.zeros(()))
        except Exception as error:
            return reason(error)

    assert "jax.numpy instead of numpy" in failing(lambda x: np.sin(x))
    assert "jnp.where" in failing(lambda x: x if x > 0 else -x)
    assert "division by zero" in failing(lambda x: 1 / 0)
