"""Grids and arrays on several ranks, against NumPy on the gathered arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import distarray as da
from tests.devices import host
from tests.ranks.common import SIZE, process_grids, refused

SELDOM = (2, 4, 8)
SHAPE = (11, 9)
LOCATIONS = (None, "x", "y", "xy")


def grids(shape: tuple[int, ...] = SHAPE, **options: Any) -> Iterator[da.Grid]:
    """Grids of one shape over all process grids of this number of ranks."""
    for ranks in process_grids(len(shape)):
        yield da.Grid(shape, ranks=ranks, **options)


def global_index(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=float).reshape(shape)


def test_blocks_cover_every_location_once() -> None:
    for grid, location, periodic in itertools.product(grids(), LOCATIONS, (False, True)):
        field = da.Grid(SHAPE, ranks=grid.ranks, periodic=(periodic, False))
        u = field.zeros(location=location, components=(2,))
        expected = [n + (name in (location or "")) for n, name in zip(SHAPE, "xy", strict=True)]
        if periodic:
            expected[0] = SHAPE[0]
        assert u.shape == (2, *expected)
        assert u.local.shape == u.local_shape
        u += 1
        assert u.sum() == 2 * np.prod(expected)
        assert u.size == 2 * np.prod(expected)
        assert u.gather().shape == u.shape


def test_positions_do_not_depend_on_the_process_grid() -> None:
    faces = np.linspace(0.0, 1.0, SHAPE[1] + 1) ** 2
    x = 1.0 + (np.arange(SHAPE[0]) + 0.5) * (2.0 / SHAPE[0])
    for grid in grids(bounds=[(1.0, 3.0), (0.0, 1.0)], coordinates={"y": faces}):
        u = grid.from_function(lambda x, y: (x, y), components=(2,))
        assert_array_equal(u.gather()[0], np.broadcast_to(x[:, None], SHAPE))
        assert_array_equal(u.gather()[1], np.broadcast_to(0.5 * (faces[1:] + faces[:-1]), SHAPE))
        on_faces = grid.from_function(lambda x, y: y + 0 * x, location="y")
        assert_array_equal(on_faces.gather(), np.broadcast_to(faces, (SHAPE[0], SHAPE[1] + 1)))
        assert grid.spacing == (2.0 / SHAPE[0], None)


def test_gather_to_one_rank() -> None:
    for grid in grids():
        u = grid.empty()
        u[...] = global_index(SHAPE)
        root = SIZE - 1
        values = u.gather(root=root)
        assert (values is None) == (grid.rank != root)
        if values is not None:
            assert_array_equal(values, global_index(SHAPE))
        assert_array_equal(u.gather()[u.local_slices], host(u.local))


def test_operators() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, *SHAPE)), rng.normal(size=SHAPE)
    for grid in grids():
        u, v = grid.empty(components=(3,)), grid.empty()
        u[...], v[...] = a, b
        assert_array_equal((u * v - 2 / u).gather(), a * b - 2 / a)
        assert_array_equal((u[1] < v).gather(), a[1] < b)
        assert_array_equal(np.hypot(u, b).gather(), np.hypot(a, b))
        assert_array_equal(np.where(u > 0, u, v).gather(), np.where(a > 0, a, b))
        assert_array_equal(np.clip(u, -0.5, 0.5).gather(), np.clip(a, -0.5, 0.5))
        quotient, rest = np.divmod(u, v)
        assert_array_equal(quotient.gather(), a // b)
        assert_array_equal(rest.gather(), a % b)
        before = u
        u += v
        assert u is before
        assert_array_equal(u.gather(), a + b)
        np.multiply(v, 3.0, out=v)
        assert_array_equal(v.gather(), 3.0 * b)
        assert (u + v).grid is grid
        assert not (u + v).boundary


def test_reductions() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(-5, 6, size=(2, *SHAPE)).astype(float)
    for grid in grids():
        u = grid.empty(components=(2,))
        u[...] = values
        compare_reductions(u, values)


def test_reductions_of_arrays_with_fewer_blocks_than_ranks() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-5, 6, size=(5, 4)).astype(float)
    for ranks in ((1, 1), (min(SIZE, 5), 1), (1, 2)):
        if np.prod(ranks) <= SIZE:
            compare_reductions(da.asarray(values, ranks=ranks), values)


def compare_reductions(u: da.DistArray, values: np.ndarray[Any, Any]) -> None:
    single: list[Any] = [None, *range(u.ndim)]
    pairs = list(itertools.combinations(range(u.ndim), 2))[-2:] if u.ndim > 2 else []
    names = ["prod", "min", "any", "all", "mean", "argmin", "argmax"]
    choices = list(itertools.product(single, names))
    choices += list(itertools.product([*single, *pairs], ("sum", "max")))
    for axis, name in choices:
        compare(getattr(u, name)(axis=axis), getattr(values, name)(axis=axis))
    for axis in [*single, *pairs]:
        compare(u.var(axis=axis), values.var(axis=axis), 1e-14)
        compare(u.sum(axis=axis, reproducible=True), values.sum(axis=axis))
    compare(u.std(axis=-1), values.std(axis=-1), 1e-14)
    compare(u.mean(axis=0, reproducible=True), values.mean(axis=0))


def compare(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    if np.ndim(expected):
        assert isinstance(found, da.DistArray)
        found = found.gather()
    assert found.dtype == expected.dtype
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_nan_goes_through_min_and_max_from_any_rank() -> None:
    for grid, place in itertools.product(grids(), ((0, 0), (10, 8), (5, 4))):
        u = grid.ones(dtype=np.float32)
        u[place] = np.nan
        assert np.isnan(u.min())
        assert np.isnan(u.max())
        assert u.min().dtype == np.float32
        flat = int(np.ravel_multi_index(place, SHAPE))
        assert u.argmin() == u.argmax() == flat
        assert np.isnan(da.begin_max(u).result())
        values = np.ones(SHAPE, np.float32)
        values[place] = np.nan
        assert_array_equal(u.max(axis=0).gather(), values.max(axis=0))
        assert_array_equal(u.argmax(axis=1).gather(), values.argmax(axis=1))


def test_ties_take_the_smallest_index() -> None:
    for grid in grids():
        u = grid.zeros()
        u[3:, 2] = 7.0
        assert u.argmax() == 3 * SHAPE[1] + 2
        assert u.argmin() == 0
        assert_array_equal(u.argmax(axis=0).gather(), [0, 0, 3, 0, 0, 0, 0, 0, 0])
    line = da.Grid((9,)).from_function(lambda x: (x - 0.5) ** 2)
    for axis in (None, 0, -1):
        assert (line.argmin(axis=axis), line.argmax(axis=axis)) == (4, 0)


def test_pending_values() -> None:
    for grid in grids():
        u = grid.ones()
        pending = da.begin_sum(u)
        if grid.rank == SIZE - 1:
            assert pending.result() == np.prod(SHAPE)
        for number in range(100):
            da.begin_max(u * number)  # dropped unread
        many = [da.begin_min(u * number) for number in range(100)]
        if grid.rank == 0:
            assert [float(value) for value in reversed(many)] == list(range(99, -1, -1))
        assert float(da.begin_dot(u, 2 * u)) == 2 * np.prod(SHAPE)
        assert float(da.begin_norm(u)) == np.sqrt(np.prod(SHAPE))
        assert bool(da.begin_all(u))
        assert u.mean() == float(da.begin_mean(u)) == float(da.begin_prod(u)) == 1.0


def test_indexing_and_assignment() -> None:
    values = np.random.default_rng(4).normal(size=(2, *SHAPE))
    indices: list[Any] = [
        (0,),
        (slice(None), 3),
        (1, slice(2, 9, 3), slice(None, None, -2)),
        (Ellipsis, -1),
        (slice(None), 5, 5),
        (1, 2, 3),
        (0, slice(3, 3)),
        (slice(1, 2),),
        (slice(None), slice(10, 2, -1), slice(4)),
    ]
    for grid, index in itertools.product(grids(), indices):
        u = grid.empty(components=(2,))
        u[...] = values
        found = u[index]
        found = found.gather() if isinstance(found, da.DistArray) else found
        assert_array_equal(found, values[index])
        expected = values.copy()
        new = np.arange(values[index].size, dtype=float).reshape(values[index].shape)
        expected[index] = new
        u[index] = new
        assert_array_equal(u.gather(), expected)
        if new.ndim > 1:
            source = da.asarray(-new) if isinstance(index[0], int) else None
            if source is not None:
                u[index] = source
                expected[index] = -new
        u[index] += 1
        expected[index] += 1
        assert_array_equal(u.gather(), expected)


def test_assignment_moves_values_between_ranks() -> None:
    for grid in grids():
        u = grid.empty()
        u[...] = global_index(SHAPE)
        expected = global_index(SHAPE)
        u[1:5] = u[6:10]
        expected[1:5] = expected[6:10].copy()
        assert_array_equal(u.gather(), expected)
        u[...] = u[::-1, ::-1]
        assert_array_equal(u.gather(), expected[::-1, ::-1])
        v = grid.zeros(components=(2,))
        v[1, 2:4] = u[0:2]
        assert_array_equal(v.gather()[1, 2:4], expected[::-1, ::-1][0:2])
        assert v.sum() == expected[::-1, ::-1][0:2].sum()


def test_redistribute() -> None:
    for grid, target in itertools.product(grids(), process_grids(2)):
        u = grid.empty(components=(2,), location="x", boundary={"y": da.Neumann(0.0)}, name="u")
        u[...] = global_index(u.shape)
        moved = u.redistribute(ranks=target)
        assert moved.ranks == target
        assert moved.location == "x"
        assert list(moved.boundary) == ["y-", "y+"]
        assert moved.name == "u"
        assert_array_equal(moved.gather(), u.gather())
        back = (moved + 1).redistribute(like=u)
        assert_array_equal((back - u).gather(), np.ones(u.shape))
        one = u[1].redistribute(ranks=(1, 1))
        assert_array_equal(one.gather(), u.gather()[1])
        assert (one.local_shape == one.shape) == (grid.rank == 0)


def test_plain_arrays() -> None:
    values = global_index((7, 5))
    for ranks in process_grids(2, largest=(7, 5)):
        u = da.asarray(values, ranks=ranks)
        assert u.ranks == ranks
        assert_array_equal((2 * u).gather(), 2 * values)
        v = da.from_root(values if u.communicator.rank == SIZE - 1 else None, root=SIZE - 1)
        assert_array_equal(v.redistribute(like=u).gather(), values)
        assert da.dot(u, v.redistribute(like=u)) == np.sum(values * values)
    for shape in ((2,), (1, 3), (0, 4), (3, 0)):
        assert da.ones(shape).sum() == np.prod(shape)
        assert da.ones(shape).gather().shape == shape
    field = da.Grid(SHAPE).zeros(location="x", components=(2,))
    u = da.from_root(global_index(field.shape), like=field)
    assert u.location == "x"
    assert_array_equal(u.gather(), global_index(field.shape))


def test_map_along() -> None:
    values = np.random.default_rng(5).integers(0, 9, size=(2, *SHAPE)).astype(float)
    for grid in grids():
        u = grid.empty(components=(2,))
        u[...] = values
        for axis in range(3):
            found = da.map_along(u, axis, lambda block, axis=axis: np.cumsum(block, axis))
            assert_array_equal(found.gather(), np.cumsum(values, axis))
            assert_array_equal(found.redistribute(like=u).gather(), np.cumsum(values, axis))
            kept = found.copy()
            kept.fill(0.0)
            assert da.map_along(u, axis, np.negative, out=kept) is kept
            assert_array_equal(kept.gather(), -values)
            kept[...] = u  # the axis whole, by a plan that is kept
            u[...] = da.map_along(kept, axis, np.negative, out=kept)
            assert_array_equal(u.gather(), -values)
            u[...] = values
        found = da.map_along(u, "y", lambda block: block.astype(np.complex64) * 1j)
        assert found.dtype == np.complex64
        assert_array_equal(found.gather(), (values * 1j).astype(np.complex64))


def test_coarsen_follows_the_cuts() -> None:
    for grid in grids((16, 24), periodic=(True, False)):
        coarse = grid.coarsen()
        assert coarse.shape == (8, 12)
        assert coarse.ranks == grid.ranks
        assert grid.relation(coarse) == -1
        assert coarse.relation(grid) == 1
        u = coarse.from_function(lambda x, y: x + 0 * y)
        assert_array_equal(u.gather()[:, 0], (np.arange(8) + 0.5) / 8)
        small = grid.coarsen(4, ranks=(1, 1))
        assert small.shape == (4, 6)
        assert small.ones().sum() == 24
        assert (small.ones().local.size == 24) == (grid.rank == 0)


def test_profiles() -> None:
    values = np.arange(SHAPE[1]) ** 2.0
    for grid in grids(periodic=(False, True)):
        profile = grid.profile("y", values)
        first = grid.local_slices[1].start
        padded = np.arange(first - 1, grid.local_slices[1].stop + 1) % SHAPE[1]
        assert_array_equal(host(profile.memory), values[padded])
        assert_array_equal(host(profile.local), values[grid.local_slices[1]])
        assert_array_equal((grid.ones() * profile).gather(), np.broadcast_to(values, SHAPE))
        u = grid.ones(components=(2,))
        u[...] = profile
        assert_array_equal(u.gather(), np.broadcast_to(values, (2, *SHAPE)))
        mean = u[0].mean(axis=0)
        assert_array_equal(grid.profile(1, mean).gather(), values)


def test_local_on_one_rank_does_not_hang_or_change_tracking() -> None:
    grid = da.Grid(SHAPE, periodic=True)

    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 1]

    u = grid.empty()
    u[...] = global_index(SHAPE)
    new = grid.empty_like(u)
    shift(u, new)
    if grid.rank == 0:
        for view in (u.local, u.padded):
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 1.0
        assert host(u.local)[0, 0] == 0.0
    shift(u, new)
    assert_array_equal(new.gather(), np.roll(global_index(SHAPE), (1, -1), (0, 1)))
    with u.writing() as block:
        block[...] = block + 1
    shift(u, new)
    assert_array_equal(new.gather(), np.roll(global_index(SHAPE) + 1, (1, -1), (0, 1)))


def test_a_new_time_is_needed_by_no_write() -> None:
    for grid in grids():
        u = grid.zeros(location="x", boundary={"x-": da.Dirichlet(2.0), "x+": da.Dirichlet(3.0)})
        expected = np.zeros(u.shape)
        expected[0], expected[-1] = 2.0, 3.0
        assert_array_equal(u.gather(), expected)
        u += 1
        expected[1:-1] = 1.0
        assert_array_equal(u.gather(), expected)
        u[...] = 9.0
        expected[1:-1] = 9.0
        assert_array_equal(u.copy().gather(), expected)
        assert_array_equal((u * 2).gather(), expected * 2)


def test_messages_are_the_same_on_all_ranks() -> None:
    grid = da.Grid(SHAPE)
    u = grid.zeros()
    refused(da.IndexingError, "outside axis 0", lambda: u[11])
    refused(da.ArrayError, "differ in shape or location", lambda: u + grid.zeros(location="x"))
    refused(
        da.ArrayError, "different grids", lambda: u + da.Grid(SHAPE, bounds=[(0, 2)] * 2).ones()
    )
    refused(da.ArrayError, "do not broadcast", lambda: grid.from_function(lambda x, y: x[:0] + y))
    refused(da.ArrayError, "names no rank", lambda: u.gather(root=SIZE))
    refused(
        da.DecompositionError,
        "or a smaller halo",
        lambda: da.Grid((4 * SIZE, 4), halo=5, ranks=(SIZE, 1), periodic=True),
    )
    refused(da.DecompositionError, "does not fit", lambda: da.zeros((100,), ranks=(SIZE + 1,)))
    refused(da.ArrayError, "same shape", lambda: u.redistribute(like=da.zeros((3, 3))))
    if SIZE > 1:
        refused(da.UnsupportedError, "gather()", lambda: np.asarray(u))
