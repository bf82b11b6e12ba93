"""Rules of kernels and of iterate that depend on which points are computed, and plans over time.

Expected values come from NumPy on the whole array.
"""

from __future__ import annotations

import contextlib
import gc
import math
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray import spans
from distarray.kernels.recent import Recent
from distarray.testing import assert_equal
from tests.lines_run import lines_run
from tests.ranks.bits import random_values
from tests.ranks.common import SIZE
from tests.ranks.refusals import refuse

SELDOM = (2, 4)
N = 26


def line(values: Any, **options: Any) -> da.DistArray:
    """A field without conditions with these values."""
    field = da.Grid(values.shape[-1:]).empty(**options)
    field[...] = values
    return field


# ---- points that outputs and reductions share, or not


def test_a_reduction_does_not_shrink_the_outputs() -> None:
    @da.stencil
    def kernel(u: Any, new: Any, other: Any) -> Any:
        new[0] = 2.0 * u[0]
        other[0] = u[0] - u[-1]
        return (
            da.reduce.max(abs(u[1] - u[0])),
            da.reduce.sum(u[0], reproducible=True),
            da.reduce.min(u[-1] + u[1]),
        )

    values = random_values(N)
    u, new, other = line(values), line(0 * values), line(0 * values)
    greatest, total, least = kernel(u, new, other)
    assert_equal(new, 2.0 * values)
    assert_equal(other, np.concatenate([[0.0], values[1:] - values[:-1]]))
    assert float(greatest) == np.abs(values[1:] - values[:-1]).max()
    assert float(total) == float(u.sum(reproducible=True))
    assert float(least) == (values[:-2] + values[2:]).min()


def test_a_reduction_keeps_to_the_points_of_the_first_output() -> None:
    @da.stencil
    def kernel(u: Any, new: Any) -> Any:
        new[0] = u[-1]
        return da.reduce.sum(0.0 * u[0] + 1.0), da.reduce.sum(u[1] * 0.0 + 1.0)

    u = line(np.ones(N))
    own, narrower = kernel(u, u.copy())
    assert (float(own), float(narrower)) == (N - 1, N - 2)


def test_a_reduction_runs_over_the_grid_whatever_comes_first() -> None:
    @da.stencil
    def weighted(p: Any, u: Any) -> Any:
        return da.reduce.sum(p[0] * u[0, 0])

    @da.stencil
    def of_coarse(c: Any, f: Any) -> Any:
        return da.reduce.sum(f[0, 0] - c.coarse[0, 0]), da.reduce.sum(0 * f[0, 0] + 1)

    @da.stencil
    def of_fine(f: Any, c: Any) -> Any:
        return da.reduce.max(f.fine[1, 0] - c[0, 0])

    grid = da.Grid((24, 10))
    values = np.arange(240.0).reshape(24, 10)
    f, c = grid.empty(), grid.coarsen().empty()
    f[...], c[...] = values, 3.0 * values[:12, :5]
    profile = grid.profile(1, np.arange(10.0))
    assert float(weighted(profile, f)) == (np.arange(10.0) * values).sum()
    total, count = of_coarse(c, f)
    assert float(count) == 240
    assert float(total) == (values - np.kron(3.0 * values[:12, :5], np.ones((2, 2)))).sum()
    assert float(of_fine(f, c)) == (values[1::2, ::2] - 3.0 * values[:12, :5]).max()


def test_a_sum_has_the_same_bits_with_and_without_overlap() -> None:
    @da.stencil
    def kernel(u: Any, new: Any) -> Any:
        new[0, 0, 0] = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] - u[0, 0, -1]
        return da.reduce.sum(new[0, 0, 0] * 1.1)

    grid = da.Grid((40, 33, 31), periodic=True)
    u = grid.empty()
    u[...] = random_values(*grid.shape)
    new, found = grid.empty_like(u), set()
    for overlap in (True, False, None, None, None):
        u += 0.0  # stale again
        found.add(kernel.apply(u, new, overlap=overlap).result().tobytes())
    found.add(kernel(u, new).result().tobytes())  # nothing to exchange
    assert len(found) == 1


# ---- iterate


@da.stencil
def advance(u: Any, new: Any) -> None:
    new[1][0] = 0.5 * (u[1][1] + u[1][-1]) + u[0][0]


def test_what_no_kernel_of_a_step_writes_is_copied() -> None:
    values = random_values(2, N)
    state = [line(start, components=2) for start in (values, np.full((2, N), 7.0))]
    last = da.iterate(advance, *state, steps=5)
    expected = values.copy()
    for _ in range(5):
        before = expected[1].copy()
        expected[1, 1:-1] = 0.5 * (before[2:] + before[:-2]) + values[0, 1:-1]
    assert_equal(last, expected)


def test_points_that_one_kernel_of_a_step_computes_are_not_copied() -> None:
    @da.stencil
    def inner(u: Any, new: Any) -> None:
        new[0] = u[-1]

    @da.stencil
    def high(u: Any, new: Any) -> None:
        new[0] = u[1]

    values = random_values(N)
    u, new = line(values), line(np.full(N, 7.0))
    last = da.iterate([(inner, (0, 1)), (high, (0, 1))], u, new, steps=1)
    assert_equal(last, np.concatenate([values[1:], values[-2:-1]]))


def test_scalars_of_iterate_are_functions_of_the_step_unless_static() -> None:
    asked = []

    def rate(step: int) -> float:
        asked.append(step)
        return 0.5 + step

    @da.stencil(static=("flux",))
    def flow(u: Any, new: Any, *, flux: Any, r: Any) -> None:
        new[0] = u[0] + r * flux(u[0])

    values = random_values(N)
    last = da.iterate(
        flow, line(values), line(values), steps=3, flux=lambda v: 2.0 * v + 1.0, r=rate
    )
    assert asked == [0, 1, 2]
    for step in range(3):
        values = values + (0.5 + step) * (2.0 * values + 1.0)
    assert_equal(last, values)


def test_iterate_shows_progress_of_a_kernel_that_takes_a_profile_first() -> None:
    @da.stencil
    def weighted(p: Any, u: Any, new: Any) -> None:
        new[0] = p[0] * u[0]

    values = random_values(N)
    u = line(values)
    profile = u.grid.profile(0, np.arange(N) * 1.0)
    last = da.iterate(weighted, profile, u, u.copy(), steps=2, rotate=(1, 2), progress=True)
    assert_equal(last, values * np.arange(N) * np.arange(N))


def test_a_number_of_steps_is_no_truth_value() -> None:
    refuse(
        da.ArrayError,
        {
            "da.iterate(advance, u, new, steps=True)": (
                "steps of iterate must be a whole number from 0, got True; correct it."
            ),
        },
        {"advance": advance},
    )


# ---- plans


def heat(u: Any, new: Any, *, r: float) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Only what no reference cycle holds is freed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def plane(**options: Any) -> da.DistArray:
    return da.Grid((16, 14), periodic=(True, False)).zeros(
        boundary={"y-": da.Dirichlet(lambda t, x, y: t + x), "y+": da.Neumann(0.0)}, **options
    )


def test_memory_goes_with_the_arrays_and_plans_with_the_kernel() -> None:
    with without_collector():
        kernel = da.stencil(heat)
        kept, u, new = plane(), plane(), plane()
        for time in range(3):
            kernel(u, new, r=0.1, time=float(time))
            kernel(new, kept, r=0.1, time=float(time))
        plans = [weakref.ref(plan) for plan in kernel._plans.values()]
        gone = [weakref.ref(thing) for thing in (u.block, u.block.memory, new.block.memory)]
        del u
        assert [plan() is None for plan in plans] == [True, False]
        assert [thing() is None for thing in gone] == [True, True, False]
        kept_memory = weakref.ref(kept.block.memory)
        del kernel
        assert plans[1]() is None
        del new, kept
        assert gone[2]() is None
        assert kept_memory() is None


def test_one_plan_and_one_watch_per_array_however_often_conditions_change() -> None:
    kernel = da.stencil(heat)
    u, new = plane(), plane()
    for value in range(5):
        u.boundary["y+"] = da.Dirichlet(float(value))
        kernel(u, new, r=0.1)
    assert (len(kernel._plans), len(kernel._watched)) == (1, 2)
    assert weakref.getweakrefcount(u.block) <= 10


def test_plans_used_last_are_kept() -> None:
    kept = Recent[int, str](2)
    kept.keep(1, "one")
    kept.keep(2, "two")
    assert kept.find(1) == "one"
    kept.keep(3, "three")
    assert (kept.find(1), kept.find(2), kept.find(3)) == ("one", None, "three")


def test_static_values_that_compare_equal_are_told_apart() -> None:
    @da.stencil(static=("a", "b"))
    def kernel(u: Any, *, a: Any, b: Any) -> Any:
        return da.reduce.max(u[0] * 0 + (10 * (type(b[0]) is float) + (type(a) is bool)) + 0 * a), (
            da.reduce.max(u[0] * 0 + math.copysign(1.0, b[1]))
        )

    u = line(np.ones(N))
    for a, b, expected in (
        (1, (2, 0.0), (0, 1)),
        (True, (2, 0.0), (1, 1)),
        (1, (2.0, 0.0), (10, 1)),
        (1, (2, -0.0), (0, -1)),
        (1, (2, 0.0), (0, 1)),
    ):
        assert tuple(map(float, kernel(u, a=a, b=b))) == expected


def test_a_call_that_fails_under_way_leaves_no_exchange_behind() -> None:
    kernel = da.stencil(heat)
    values = random_values(16, 14)
    u = da.Grid((16, 14), periodic=True, ranks=(SIZE, 1)).empty()
    u[...] = values
    new = u.copy()
    plan, _ = kernel.prepare([u, new], {"r": 0.1})
    launch, plan._launch = plan._launch, _Interrupted(plan._launch)
    for overlap in (True, False):
        with pytest.raises(KeyboardInterrupt):
            kernel.apply(u, new, r=0.1, overlap=overlap)
        u += 0.0
    plan._launch = launch
    kernel(u, new, r=0.1)
    around = sum(np.roll(values, step, axis) for axis, step in ((0, -1), (0, 1)))
    for axis, step in ((1, -1), (1, 1)):
        around = around + np.roll(values, step, axis)
    assert_equal(new, values + 0.1 * (around - 4.0 * values), tolerance=1e-15)


class _Interrupted:
    """A launch during which the user presses Control-C."""

    def __init__(self, launch: Any) -> None:
        self.set_scalars = launch.set_scalars

    def run(self, *_: Any) -> None:
        raise KeyboardInterrupt

    run_boxes = run


def test_what_takes_time_is_recorded() -> None:
    u = da.Grid((16, 14), ranks=(SIZE, 1)).zeros(boundary={"y": da.Dirichlet(1.0)})
    new = u.copy()
    with spans.record() as recording:
        da.stencil(heat).apply(u, new, r=0.1, overlap=True)
    expected = ["pack", "send", "core", "wait", "exchange", "unpack", "fill", "remainder"]
    names = [event.name for event in recording.events]
    assert names == (expected if SIZE > 1 else ["fill", "block"])


def test_a_condition_that_fixes_half_a_face_costs_little_at_the_first_call() -> None:
    kernel = da.stencil(heat)
    for location in ("x", "y"):
        half = da.Piecewise(lambda *x: np.hypot(*x) < 0.6, da.Dirichlet(1.0), da.Neumann(0.0))
        grid = da.Grid((128, 128), ranks=(SIZE, 1))
        conditions = {location: half, "y" if location == "x" else "x": da.Neumann(0.0)}
        for _ in range(2):  # the first compiles what is not in the cache yet
            u = grid.zeros(location=location, boundary=conditions)
            new = u.copy()
            lines = lines_run(lambda: kernel.prepare([u, new], {"r": 0.1}))  # noqa: B023
        assert lines < 20_000


# ---- runs that go on


def test_a_run_that_goes_on_counts_its_steps_from_the_beginning() -> None:
    grid = da.Grid((N,), bounds=[(0.0, 1.0)])

    @da.stencil
    def drive(u, new, *, time, dt, push):
        new[0] = u[0] + dt * (u[1] - 2.0 * u[0] + u[-1]) + dt * time * push

    start, dt = 0.3, 0.1  # multiples that are rounded
    seen: list[tuple[int, float]] = []

    def begin() -> da.DistArray:
        u = grid.from_function(lambda x: x * x)
        u.boundary["x"] = da.Dirichlet(lambda t, x: math.sin(t))
        return u

    def run(u: da.DistArray, steps: int, **options: Any) -> da.DistArray:
        seen.clear()
        return da.iterate(
            drive, u, grid.empty_like(u), steps=steps, dt=dt, push=lambda m: 1.0 / (1 + m),
            callback=lambda steps, time, _: seen.append((steps, time)), every=5, **options,
        )  # fmt: skip

    whole = run(begin(), 30, time=start).gather()
    assert seen == [(m, start + m * dt) for m in range(5, 31, 5)]
    half = run(begin(), 13, time=start)
    gone_on = run(half, 17, time=start, first=13)
    assert seen == [(m, start + m * dt) for m in range(15, 31, 5)]
    assert_equal(gone_on, whole)

    @da.stencil
    def note(u, new, *, time):
        new[0] = time + 0.0 * u[0]

    u = grid.zeros()
    assert_equal(
        da.iterate(note, u, grid.empty_like(u), steps=1, time=start, dt=dt, first=7),
        np.full(N, start + 7 * dt),
    )
