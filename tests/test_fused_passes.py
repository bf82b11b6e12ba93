"""How many passes expressions make, and assignments of them, and what memory they take."""

# ruff: noqa: F811

from __future__ import annotations

import functools
import gc
import operator
import sys
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import distarray as da
from distarray.fused import executor, node
from tests.devices import current
from tests.fused_tools import SHAPE, field, grid, how, passes, same, waits  # noqa: F401


def allocations(monkeypatch: pytest.MonkeyPatch, u: da.DistArray) -> list[int]:
    """The sizes of blocks that are made memory for from now on."""
    made: list[int] = []
    backend = type(u.block.backend)
    plain = backend.allocate

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        memory = plain(self, *args, **options)
        made.append(memory.size)
        return memory

    monkeypatch.setattr(backend, "allocate", counted)
    return made


# ---- assignment


def test_assignment_is_one_pass_without_memory(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    out, narrow = grid.zeros(), grid.zeros("float32")
    many = grid.zeros(components=(2,))
    made = allocations(monkeypatch, u)

    def compute() -> None:
        out[...] = 2 * u + v * v - 1

    assert passes(compute) == [99]
    narrow[...] = 2 * u + v / 3
    np.add(2 * u, v, out=many[1])
    out += 2 * v
    u[...] = 2 * u + v
    assert made == []
    assert_array_equal(narrow.gather(), (2 * a + b / 3).astype("float32"))
    assert_array_equal(many.gather(), np.stack([0 * a, 2 * a + b]))
    same(out, 2 * a + b * b - 1 + 2 * b)
    same(u, 2 * a + b)


def test_in_place_operators_are_one_pass(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    made = allocations(monkeypatch, u)

    def compute() -> None:
        nonlocal u
        u += 0.5 * (v - u * u)
        u -= np.sin(u) * u
        u *= u + 1

    done = passes(compute)
    a = a + 0.5 * (b - a * a)
    a = a - np.sin(a) * a
    a = a * (a + 1)
    np.testing.assert_allclose(u.gather(), a, rtol=1e-12)
    if sys.version_info < (3, 14):  # where an operand without a name can be told
        assert made == []
        assert done == [99] * 3


def test_in_place_operators_leave_what_has_a_name(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    r = 2 * u + 1
    kept = [u - 3, u * u]

    def named(s: da.DistArray) -> None:
        nonlocal u
        u += s
        same(s, a * 5)

    u += r
    same(r, 2 * a + 1)
    same(kept[0], a - 3)
    a = u.gather()
    named(u * 5)
    a = u.gather()
    kept[0] = u - 3
    u -= kept[0]
    same(kept[0], a - 3)
    a = u.gather()
    u = operator.iadd(u, 2 * u)
    same(u, a + 2 * a)
    u += u
    same(u, 2 * (a + 2 * a))


def test_assignment_to_what_is_read_elsewhere(grid: da.Grid, how: str) -> None:
    u, a = field(grid, components=(3,))
    u[...] = u[1] * u + 1
    same(u, a[1] * a + 1)
    a = u.gather()
    u[0] = u[2] + u[1] * 2
    a[0] = a[2] + a[1] * 2
    same(u, a)
    np.multiply(u, u[0], out=u)
    same(u, a * a[0])


def test_what_is_assigned_to_a_narrower_type_may_be_kept(grid: da.Grid, how: str) -> None:
    u, a = field(grid, "float32")
    r = u * np.float64(1 / 3)
    u[...] = r
    same(u, (a * np.float64(1 / 3)).astype("float32"))
    same(r, a * np.float64(1 / 3))


def test_what_is_assigned_may_be_kept(grid: da.Grid, how: str) -> None:
    for dtype in ("float64", "int64", "bool"):
        u, a = field(grid, dtype)
        r = u == 1 if dtype == "bool" else 2 * u + 1
        expected = a == 1 if dtype == "bool" else 2 * a + 1
        later = np.logical_not(r)
        u[...] = r
        same(u, expected)
        same(r, expected)
        u[...] = r
        u[...] = np.zeros(SHAPE, dtype)
        same(r, expected)
        same(later, np.logical_not(expected))


# ---- passes and memory


def test_an_expression_is_one_pass(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, a = field(grid)
    v, b = field(grid, seed=1)
    made = allocations(monkeypatch, u)
    found: list[da.DistArray] = []
    done = passes(lambda: found.append(2 * u + np.sin(v) * u - v / 3))
    assert done == []
    assert made == []
    done = passes(lambda: found[0].local)
    assert done == [99]
    assert len(set(made)) == 1
    assert passes(lambda: found[0].local) == []
    np.testing.assert_allclose(found[0].gather(), 2 * a + np.sin(b) * a - b / 3, rtol=1e-14)


def test_forms_are_compiled_once_they_have_come_often(
    grid: da.Grid, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []
    run = executor.run
    monkeypatch.setattr(executor, "run", lambda *args: ways.append(run(*args)))
    monkeypatch.setattr(executor, "CELLS_BEFORE_COMPILING", 3 * 99)
    monkeypatch.setattr(executor, "_seen", {})
    u, _ = field(grid)
    for number in range(5):
        (number * u + u).local  # noqa: B018
    if current() == "cpu":
        assert ways == ["in pieces"] * 3 + ["compiled"] * 2
        (u + 1).local  # noqa: B018
        assert len(ways) == 5  # a single function is NumPy's
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
        (2 * u + u).local  # noqa: B018
        assert ways[-1] == "in pieces"
    else:
        assert ways == ["compiled"] * 5


def test_what_is_dropped_is_never_computed(grid: da.Grid, how: str) -> None:
    u, values = field(grid)
    alive = weakref.ref(u.block)

    def drop(u: da.DistArray) -> None:
        for _ in range(5):
            assert waits(np.sin(u) + 1)

    assert passes(functools.partial(drop, u)) == []
    r = 2 * u + 1
    del u
    gc.collect()
    assert alive() is not None  # an expression keeps what it reads
    same(r, 2 * values + 1)
    gc.collect()
    assert alive() is None  # until it has its values


def test_parts_that_are_used_again(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    sine = np.sin(u)
    r, s = sine * 2 + u, sine * 3 - u
    assert len(passes(lambda: r.local)) == 2
    assert not waits(sine)  # costly, and it may be asked for
    assert len(passes(lambda: s.local)) == 1
    cheap = u * u
    r, s = cheap + 1 - u, cheap - 1 + u
    assert len(passes(lambda: r.local)) == 1
    assert waits(cheap)  # not costly
    assert len(passes(lambda: s.local)) == 2
    assert not waits(cheap)  # but needed for the second time
    same(r, a * a + 1 - a)
    same(s, a * a - 1 + a)
    both = u + 1
    same(both * both + both, (a + 1) * (a + 1) + (a + 1))


def test_long_sums_are_computed_in_parts(grid: da.Grid, how: str) -> None:
    u, a = field(grid)
    fields = [field(grid, seed=n) for n in range(30)]
    s, expected = u, a
    count = 0
    for _ in range(300):
        s, expected = s + u, expected + a
        deferred: Any = s.block.deferred
        assert deferred is None or deferred.steps <= node.MOST_STEPS
        count += deferred is None
    same(s, expected)
    s, expected = u, a
    for v, b in fields:
        s, expected = s * v + 1, expected * b + 1
        assert len(s.block.deferred.places) <= node.MOST_ARRAYS  # type: ignore[union-attr]
    same(s, expected)
    s, expected = u, a
    for _ in range(8):
        s, expected = s + s, expected + expected
    same(s, expected)


def test_an_expression_takes_memory_for_its_result_alone() -> None:
    grid = da.Grid((512, 512))
    if grid.device != "cpu":
        pytest.skip("counts memory of the host")
    u, v = grid.full(2.0), grid.full(3.0)
    (u - v / 3 + 1).local  # noqa: B018 - what is imported and kept at the first time
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        r = 2 * u + np.sin(v) * u - v / 3
        assert tracemalloc.get_traced_memory()[1] - before < r.nbytes // 20
        assert r[3, 4] == 2 * 2.0 + np.sin(3.0) * 2.0 - 3.0 / 3
        assert tracemalloc.get_traced_memory()[1] - before < 1.4 * r.nbytes
    finally:
        tracemalloc.stop()


def test_memory_of_results_is_used_again_when_nobody_sees_it() -> None:
    grid = da.Grid((512, 512), periodic=True)
    if grid.device != "cpu":
        pytest.skip("drivers keep memory themselves")

    @da.stencil
    def around(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0] + u[1, 0] + u[0, 1]

    u, new = grid.full(2.0), grid.zeros()
    r = 2 * u + 1
    around(r, new)
    kept = r.local[3:5]
    del r
    s = 3 * u + 1
    s.local  # noqa: B018
    assert_array_equal(kept, 5.0)  # what is seen is not overwritten
    del kept
    gc.collect()
    found = set()
    for number in range(6):
        t = number * u + 1
        assert_array_equal(t.local, 2.0 * number + 1)
        assert t.padded[0, 0] == t.padded[0, 5] == t.padded[7, -1] == 0
        found.add(t.local.ctypes.data)
        del t
    assert len(found) <= 2


def test_small_arrays_are_computed_at_once(grid: da.Grid) -> None:
    u, values = field(grid)
    r = 2 * u + 1
    assert not waits(r)
    same(r, 2 * values + 1)
