"""Functions that compile themselves once, and programs that are kept between processes."""

import functools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from undula.core import cache
from undula.lie.so3 import exp
from undula.numerics import programs, store
from undula.numerics.fingerprint import Fingerprint, Unkeyable
from undula.numerics.programs import Program, compiled, quickly_compiled


class Spring(eqx.Module):
    """A law with a number, a static number, and a static function."""

    k: np.ndarray
    power: int = eqx.field(static=True, default=1)
    shape: object = eqx.field(static=True, default=None)

    def force(self, x):
        return -self.k * (x if self.shape is None else self.shape(x)) ** self.power


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of programs, in a process that has none; without JAX's own cache, whose programs are not kept."""
    monkeypatch.setenv("UNDULA_CACHE", str(tmp_path / "cache"))
    programs.forget()
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield tmp_path / "cache" / "programs"
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()
    store.finish()
    programs.forget()


@pytest.fixture
def traces(monkeypatch):
    """Names of the functions that are traced."""
    found = []
    real = Program._lowered
    monkeypatch.setattr(Program, "_lowered", lambda self, *args: found.append(self.name) or real(self, *args))
    return found


def test_numbers_and_times_do_not_compile_again(folder, traces):
    @compiled
    def force(spring, x, t=0.0):
        return spring.force(x) + t

    for k, x, t in ((2.0, 3.0, 0.5), (4.0, 1.0, 1), (1.0, -1.0, 0.0)):
        assert force(Spring(np.asarray(k)), np.asarray(x), t) == -k * x + t
        assert force(Spring(jnp.asarray(k)), x, t=t) == -k * x + t
    assert len(traces) == 2  # by position and by name
    assert force(Spring(np.asarray(2.0), power=2), np.asarray(3.0), 0.0) == -18.0  # static
    assert len(traces) == 3


def test_transformations_see_the_function_itself():
    @quickly_compiled
    def energy(spring, x):
        return (spring.k * x**2).sum() / 2

    spring, x = Spring(np.asarray(3.0)), np.array([1.0, 2.0])
    assert_allclose(jax.grad(lambda x: energy(spring, x))(x), 3.0 * x)
    assert_allclose(jax.vmap(lambda k: energy(Spring(k), x))(np.array([1.0, 2.0])), [2.5, 5.0])
    assert_allclose(jax.jit(energy)(spring, x), 7.5)
    assert_allclose(jax.jvp(lambda k: energy(Spring(k), x), (3.0,), (1.0,))[1], 2.5)
    with jax.disable_jit():
        assert energy(spring, x) == 7.5


def test_results_keep_their_form(folder):
    @compiled
    def parts(x):
        return {"twice": 2 * x, "name": "x"}, Spring(x, shape=None), (None, 3)

    for _ in range(2):  # compiled, then from the file
        out, spring, rest = parts(np.asarray(2.0))
        assert out["twice"] == 4.0 and out["name"] == "x" and spring.k == 2.0 and rest == (None, 3)
        store.finish()
        programs.forget()


def test_programs_are_kept_and_found_again(folder, traces):
    @compiled
    def double(x):
        return 2 * x

    assert double(np.arange(3.0)).tolist() == [0, 2, 4]
    store.finish()
    assert len(list(folder.glob("*.program"))) == 1
    programs.forget()
    assert double(np.arange(3.0)).tolist() == [0, 2, 4]
    assert len(traces) == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied", "another"])
def test_damaged_programs_are_made_again(folder, traces, damage):
    @compiled
    def double(x):
        return 2 * x

    double(np.arange(3.0))
    store.finish()
    (path,) = folder.glob("*.program")
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(
        {
            "truncated": good[:middle],
            "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
            "emptied": b"",
            "another": b"something else",
        }[damage]
    )
    programs.forget()
    assert double(np.arange(3.0)).tolist() == [0, 2, 4]
    assert len(traces) == 2
    store.finish()
    assert path.read_bytes()[:16] == good[:16]  # written anew


def test_functions_count_by_what_they_do(folder):
    def key(x):
        one = Fingerprint()
        one.arguments(x)
        return one.digest()

    rows = np.arange(2.0)

    def law(gain, table=rows):
        return Spring(np.asarray(1.0), shape=lambda x: gain * x + table[0])

    assert key(law(2.0)) == key(law(2.0))
    assert key(law(2.0)) != key(law(3.0))
    assert key(law(2.0)) != key(law(2.0, np.ones(2)))
    assert key(Spring(np.asarray(1.0))) == key(Spring(np.asarray(5.0)))
    assert key(Spring(np.asarray(1.0))) != key(Spring(np.ones(2)))
    assert key(Spring(np.asarray(1.0), shape=np.sin)) != key(Spring(np.asarray(1.0), shape=np.cos))
    with pytest.raises(Unkeyable):
        key(Spring(np.asarray(1.0), shape=object()))


def test_functions_of_the_same_name_do_not_share_programs(folder):
    """Lambdas, derivatives and closures are told apart by what they do, in this process and in the folder."""
    for _ in range(2):
        for power in (2.0, 3.0):
            assert compiled(lambda x, power=power: x**power)(2.0) == 2.0**power
            assert compiled(lambda x: x**power)(2.0) == 2.0**power  # noqa: B023
            assert compiled(jax.grad(lambda x: x**power))(2.0) == power * 2.0 ** (power - 1)  # noqa: B023
        assert compiled(lambda x: x + 1)(2.0) == 3.0
        store.finish()
        programs.forget()


def test_what_cannot_be_kept_still_runs(folder):
    class Odd:
        def __call__(self, x):
            return x + 1

    @compiled
    def call(spring, x):
        return spring.force(x)

    assert call(Spring(np.asarray(1.0), shape=Odd().__call__), 1.0) == -2.0

    @compiled
    def host(x):
        return jax.pure_callback(lambda x: np.sin(x), jax.ShapeDtypeStruct((), float), x)

    assert host(np.asarray(0.5)) == np.sin(0.5)
    store.finish()
    assert len(list(folder.glob("*.program"))) <= 1  # a callback means nothing in another process


FRESH = """
import sys, numpy as np, jax.numpy as jnp
sys.path.insert(0, {path!r})
from undula.numerics import programs, store
from kept import solve
if len(sys.argv) > 1:
    programs.Program._lowered = None  # nothing may be traced
print(float(solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])).sum()))
"""


def fresh_process(tmp_path, *words):
    (tmp_path / "kept.py").write_text(
        "import jax.numpy as jnp\nfrom undula.numerics.programs import compiled\n"
        "@compiled\ndef solve(A, b):\n    return jnp.linalg.solve(A, b) + jnp.linalg.eigh(A)[0] * 0\n"
    )
    command = [sys.executable, "-c", FRESH.format(path=str(tmp_path)), *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ)


def test_programs_with_lapack_run_in_a_fresh_process(folder, tmp_path):
    """Two processes write the same file at once; a third runs it without tracing anything."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: fresh_process(tmp_path), range(2)))
    assert [float(x.stdout) for x in both] == [2.0, 2.0], both[0].stderr
    assert not list(folder.glob("*.part"))
    third = fresh_process(tmp_path, "again")
    assert third.returncode == 0 and float(third.stdout) == 2.0, third.stderr


def test_programs_from_the_cache_of_jax_are_not_written_again(folder, tmp_path, monkeypatch):
    """XLA would leave out functions of them: the third process would fail with what the second has written."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    for name in ("one", "other", "other"):
        monkeypatch.setenv("UNDULA_CACHE", str(tmp_path / name))
        done = fresh_process(tmp_path)
        assert done.returncode == 0 and float(done.stdout) == 2.0, done.stderr
    assert len(list(tmp_path.glob("one/programs/*.program"))) == 1
    assert not list(tmp_path.glob("other/programs/*.program"))


def test_the_cache_can_be_turned_off(folder, monkeypatch):
    monkeypatch.setenv("UNDULA_CACHE", "off")
    assert store.folder() is None and cache.cache_folder() is None

    @compiled
    def double(x):
        return 2 * x

    assert double(np.asarray(2.0)) == 4.0
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_folders_of_others_are_not_used(tmp_path, monkeypatch):
    """Loading a program runs its code."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs").chmod(0o777)
    monkeypatch.setenv("UNDULA_CACHE", str(tmp_path))
    assert store.folder() is None
    (tmp_path / "programs").chmod(0o700)
    store._usable.cache_clear()
    assert store.folder() == tmp_path / "programs"


def test_kept_programs_stay_within_a_limit(tmp_path):
    for k in range(10):  # the first were used most recently
        file = tmp_path / f"{k}.program"
        file.write_bytes(bytes(100))
        os.utime(file, (2000 - k, 1000))
    (tmp_path / "else").write_bytes(bytes(5000))
    cache.trim(tmp_path, "*.program", limit=1000)
    assert len(list(tmp_path.iterdir())) == 11
    cache.trim(tmp_path, "*.program", limit=999)
    assert sorted(x.name for x in tmp_path.iterdir()) == [*(f"{k}.program" for k in range(4)), "else"]


FACTOR, TABLE = 1.0, np.ones(2)


def from_globals(x):
    return FACTOR * TABLE[0] * x


class Reads(eqx.Module):
    """A class of the user, with a method that reads a global."""

    def shape(self, x):
        return FACTOR * x


class Holds:
    """An object that has no description, and may be changed."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


@pytest.mark.parametrize("cache", ["kept", "off"])
def test_what_a_function_depends_on_may_change_between_calls(folder, monkeypatch, cache):
    """Globals, arrays changed in place, cells, objects: the same function, with the same key, is compiled again."""
    if cache == "off":
        monkeypatch.setenv("UNDULA_CACHE", "off")
    nested = jax.jit(from_globals)  # JAX alone would not trace it again
    cell = [2.0]
    holds = Holds(2.0)
    here = sys.modules[__name__]

    @compiled
    def force(spring, x):
        return spring.force(x)

    def forces():
        kinds = (from_globals, nested, lambda x: cell[0] * x, holds)
        return [-float(force(Spring(np.asarray(1.0), shape=f), 1.0)) for f in kinds]

    springs = forces  # new springs around the same functions, but for the lambda
    assert springs() == [1, 1, 2, 2]
    monkeypatch.setattr(here, "FACTOR", 3.0)
    assert springs() == [3, 3, 2, 2]
    monkeypatch.setattr(here, "TABLE", np.full(2, 2.0))
    TABLE[0] = 5.0
    cell[0], holds.factor = 7.0, 8.0
    assert springs() == [15, 15, 7, 8]

    @compiled
    def shape(reads, x):
        return reads.shape(x)

    assert shape(Reads(), 1.0) == 3.0
    monkeypatch.setattr(here, "FACTOR", 4.0)
    assert shape(Reads(), 1.0) == 4.0
    monkeypatch.setattr(Reads, "shape", lambda self, x: 9.0 * x)
    assert shape(Reads(), 1.0) == 9.0


def test_closures_over_what_is_differentiated(folder):
    @compiled
    def force(spring, x):
        return spring.force(x)

    assert jax.grad(lambda k: force(Spring(np.asarray(1.0), shape=lambda x: k * x), 2.0))(3.0) == -2.0


def variants():
    """Pairs of objects that differ in what they do, though they look alike."""

    def times(k):
        return lambda x: x * k

    def rule(k):
        f = jax.custom_jvp(times(1.0))
        f.defjvp(lambda x, dx: (x[0], k * dx[0]))
        return f

    def typed(source, file):
        space = {"eqx": eqx, "__name__": "__main__"}
        exec(compile(f"class K(eqx.Module):\n    def f(self, x): return {source}", file, "exec"), space)
        return space["K"]()

    def noted(k):
        f = times(1.0)
        f.k = k
        return f

    @dataclass
    class Record:
        a: float = field(default=0.0, compare=False)

    class Wrapper:
        def __init__(self, k):
            functools.update_wrapper(self, rule)
            self.k = k

    def extended(k):
        record = Record()
        record.k = k
        return record

    yield "shapes in a tuple", times((np.ones((2, 3)),)), times((np.ones((3, 2)),))
    yield "types in a list", times([np.zeros(2)]), times([np.zeros(2, int)])
    yield "scalars", times((np.int64(0),)), times((np.float64(0),))
    yield "a class typed into a prompt", typed("x", "<stdin>"), typed("2 * x", "<stdin>")
    yield "fields that are not compared", Record(1.0), Record(2.0)
    yield "attributes besides the fields", extended(1.0), extended(2.0)
    yield "attributes of a function", noted(1.0), noted(2.0)
    yield "wrappers of the user", Wrapper(1.0), Wrapper(2.0)
    yield "the name of another function", *(functools.wraps(np.hypot)(times(k)) for k in (1.0, 2.0))
    yield "methods of built-in objects", times({1: 2}.get), times({1: 3}.get)
    yield "methods of arrays", times(np.ones(2).dot), times(np.zeros(2).dot)
    yield "rules of derivatives", rule(1.0), rule(2.0)
    yield "vectorised functions", np.vectorize(times(1.0)), np.vectorize(times(2.0))
    yield "masks", times(np.ma.array([1.0], mask=[0])), times(np.ma.array([1.0], mask=[1]))
    yield "imports", *(eval(f"lambda x: __import__('undula').K{k}") for k in "ab")


@pytest.mark.parametrize("one, other", [pytest.param(a, b, id=name) for name, a, b in variants()])
def test_what_looks_alike_is_told_apart(one, other):
    """By its digest, or because it has none."""

    def key(x):
        fingerprint = Fingerprint()
        try:
            fingerprint.value(x)
        except Unkeyable:
            return object()
        return fingerprint.digest()

    assert key(one) != key(other)


def test_installed_packages_are_known_by_name():
    """Following all that a function of SciPy calls takes longer than compiling; wrappers of type checks are not followed."""

    def law(t):
        return minimize(lambda x: x**2 + t, 0.0).fun

    one = Fingerprint()
    one.value(law)
    assert one.users == [law] and len(one._seen) < 20
    wrapped = jaxtyping.jaxtyped(typechecker=None)(exp)
    other = Fingerprint()
    other.value(wrapped)
    assert wrapped is not exp and not other.users


def test_what_a_function_imports_is_not_seen(folder):
    def law(x):
        import test_programs

        return x + test_programs.FACTOR

    with pytest.raises(Unkeyable):
        Fingerprint().value(law)


def test_programs_under_another_name_are_not_used(folder, traces):
    @compiled
    def double(x):
        return 2 * x

    for size in (2, 3):
        double(np.ones(size))
    store.finish()
    one, other = folder.glob("*.program")
    content = one.read_bytes(), other.read_bytes()
    one.write_bytes(content[1])
    other.write_bytes(content[0])
    programs.forget()
    assert [double(np.ones(size)).sum() for size in (2, 3)] == [4, 6]
    assert len(traces) == 4
