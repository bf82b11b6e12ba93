"""Grids on one rank: geometry, locations, profiles, coarser grids, errors; and the pure choices of
process grids.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import distarray as da
from distarray.arguments import fewer_ranks
from distarray.array import DistArray
from distarray.errors import DistArrayError
from distarray.geometry import AxisGeometry
from distarray.placement import pencil_ranks
from tests import devices
from tests.devices import host


def test_attributes() -> None:
    grid = da.Grid((4, 6), bounds=[(0, 2), (1, 4)], periodic=(True, False), halo=(2, 1))
    assert (grid.shape, grid.ndim, grid.halo) == ((4, 6), 2, (2, 1))
    assert grid.spacing == (0.5, 0.5)
    assert grid.bounds == ((0.0, 2.0), (1.0, 4.0))
    assert grid.periodic == (True, False)
    assert (grid.ranks, grid.coords, grid.rank, grid.size) == ((1, 1), (0, 0), 0, 1)
    assert grid.is_root
    assert grid.local_slices == (slice(0, 4), slice(0, 6))
    assert grid.local_shape == (4, 6)
    assert grid.device == devices.current()
    assert isinstance(grid.decomposition, da.Decomposition)
    assert repr(grid).startswith("Grid(shape=(4, 6)")


def test_positions() -> None:
    grid = da.Grid((3, 4), bounds=[(-1, 1), (0, 8)], periodic=(False, True))
    x, y = grid.coordinates()
    assert (x.shape, y.shape) == ((3, 1), (1, 4))
    assert_array_equal(x.ravel(), -1 + (np.arange(3) + 0.5) * (2 / 3))
    x, y = grid.coordinates("xy")
    assert_array_equal(x.ravel(), -1 + np.arange(4) * (2 / 3))
    assert_array_equal(y.ravel(), [0.0, 2.0, 4.0, 6.0])


def test_stretched_axis() -> None:
    faces = np.array([0.0, 0.1, 0.3, 1.0])
    grid = da.Grid((2, 3), coordinates={"y": faces})
    assert grid.spacing == (0.5, None)
    assert grid.bounds[1] == (0.0, 1.0)
    assert_array_equal(grid.coordinates("y")[1].ravel(), faces)
    assert_array_equal(grid.coordinates()[1].ravel(), 0.5 * (faces[1:] + faces[:-1]))


def test_from_function_broadcasts_and_casts() -> None:
    grid = da.Grid((4, 2))
    assert_array_equal(grid.from_function(lambda x, y: 3).gather(), np.full((4, 2), 3.0))
    u = grid.from_function(lambda x, y: 4 * x, dtype=int)
    assert_array_equal(u.gather()[:, 0], [0, 1, 2, 3])
    v = grid.from_function(lambda x, y: (x, 2), components=2)
    assert_array_equal(v.gather()[1], np.full((4, 2), 2.0))
    w = grid.from_function(lambda x, y: ((x, y), [0, 1]), components=(2, 2))
    assert w.gather()[1, 1, 0, 0] == 1.0


def test_full() -> None:
    grid = da.Grid((4, 2))
    assert_array_equal(grid.full(2.5).gather(), np.full((4, 2), 2.5))
    assert grid.full(3, dtype=int).dtype == int
    assert grid.ones(components=(2,)).sum() == 16


@pytest.mark.parametrize("name", ["empty", "zeros", "ones", "full", "from_function"])
def test_options_of_arrays_may_be_given_by_position(name: str) -> None:
    grid = da.Grid((4, 6))
    first = {"full": (2.5,), "from_function": (lambda x, y: 2.5 + 0 * x,)}.get(name, ())
    u = getattr(grid, name)(*first, np.float32, (3,), "x", {"x": da.Dirichlet(1.0)}, (2, 0), "v")
    assert (u.dtype, u.shape, u.location, u.halo, u.name) == (
        np.float32,
        (3, 5, 6),
        "x",
        (2, 0),
        "v",
    )
    assert set(u.boundary) == {"x-", "x+"}
    given = list(inspect.signature(getattr(grid, name)).parameters.values())[len(first) :]
    assert [(p.name, p.default) for p in given] == [
        ("dtype", float),
        ("components", ()),
        ("location", None),
        ("boundary", None),
        ("halo", None),
        ("name", None),
    ]


def test_points_find_the_cells_around_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = da.Grid((4, 6))
    points = grid.points([[0.3, 0.4], [0.9, 0.1]])
    first = [points.sample(grid.from_function(lambda x, y: x + y, location="x"))]
    monkeypatch.setattr(AxisGeometry, "positions", None)
    for factor in (1.0, 2.0):
        u = grid.full(factor, location="x")
        assert_array_equal(points.sample(u), [factor, factor])
        points.add(u, 1.0)
    assert_array_equal(np.round(first[0], 12), [0.7, 1.0])


def test_zeros_are_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = da.Grid((4, 6))
    monkeypatch.setattr(DistArray, "__setitem__", None)
    for u in (grid.zeros(), da.zeros((3, 2)), grid.zeros_like(grid.zeros())):
        assert not host(u.block.memory).any()


def test_zeros_keep_values_fixed_on_faces() -> None:
    u = da.Grid((4, 2)).zeros(location="x", boundary={"x+": da.Dirichlet(3.0)})
    assert np.array_equal(u.gather()[:, 0], [0.0, 0.0, 0.0, 0.0, 3.0])
    assert np.array_equal(np.zeros_like(u).gather(), u.gather())


def test_profile() -> None:
    grid = da.Grid((4, 3), periodic=(True, False))
    profile = grid.profile("x", [1, 2, 3, 4])
    assert (profile.shape, profile.dtype, profile.profile_axis) == ((4,), np.dtype(int), 0)
    assert_array_equal(host(profile.memory), [4, 1, 2, 3, 4, 1])
    assert_array_equal(profile.gather(), [1, 2, 3, 4])
    assert not profile.staggered
    on_points = grid.profile(1, np.arange(4.0), halo=2)
    assert on_points.staggered
    assert_array_equal(host(on_points.memory), [0, 0, 0, 1, 2, 3, 3, 3])
    assert_array_equal(grid.profile(1, lambda y: 3 * y).values, [0.5, 1.5, 2.5])
    assert (len(profile), profile[1], repr(profile)) == (
        4,
        2,
        "Profile(axis='x', shape=(4,), dtype=int64)",
    )
    assert_array_equal(np.asarray(profile), [1, 2, 3, 4])
    with pytest.raises(ValueError, match="read-only"):
        profile.local[0] = 9


def test_coarsen() -> None:
    grid = da.Grid((8, 5), bounds=[(0, 1), (0, 10)])
    coarse = grid.coarsen()
    assert coarse.shape == (4, 3)
    assert coarse.spacing == (0.25, None)
    assert_array_equal(coarse.coordinates("y")[1].ravel(), [0.0, 4.0, 8.0, 10.0])
    assert grid.coarsen((4, 1)).shape == (2, 5)
    assert (grid.relation(coarse), coarse.relation(grid), grid.relation(grid)) == (-1, 1, 0)
    assert grid.relation(coarse.coarsen()) is None
    assert grid.relation(grid.coarsen((2, 1))) == -1
    assert grid.relation(grid.coarsen((4, 1))) is None
    assert grid.same_as(da.Grid((8, 5), bounds=[(0, 1), (0, 10)]))
    assert not grid.same_as(da.Grid((8, 5)))


def test_conditions_follow_to_a_coarser_grid() -> None:
    grid = da.Grid((8, 8))
    u = grid.ones(location="x", boundary={"x-": da.Dirichlet(3.0), "y+": da.Neumann(1.0)})
    coarse = grid.coarsen().empty_like(u)
    assert (coarse.shape, coarse.location) == ((5, 4), "x")
    assert list(coarse.boundary) == ["x-", "y+"]
    coarse.fill(1.0)
    assert_array_equal(coarse.gather()[:, 0], [3.0, 1.0, 1.0, 1.0, 1.0])


ERRORS: dict[str, tuple[type[Exception], str]] = {
    "da.Grid(())": (da.GridError, "one or more whole numbers"),
    "da.Grid((4, 0))": (da.GridError, "at least 1"),
    "da.Grid((4.5,))": (da.GridError, "whole numbers"),
    "da.Grid((4, 4), bounds=[(0, 1)])": (da.GridError, "1 entries for 2 axes"),
    "da.Grid((4,), bounds=[(1, 0)])": (da.GridError, "low below high"),
    "da.Grid((4,), bounds=[(0, np.inf)])": (da.GridError, "finite"),
    "da.Grid((4,), bounds=[3])": (da.GridError, "Bounds of axis x"),
    "da.Grid((4, 4), periodic=(True,))": (da.DecompositionError, "periodic has 1 values for 2"),
    "da.Grid((4,), halo=-1)": (da.GridError, "halo=-1"),
    "da.Grid((4,), halo=1.5)": (
        da.DecompositionError,
        "whole numbers, one or one per axis, not 1.5",
    ),
    "da.Grid((4,), halo=5, periodic=True)": (da.DecompositionError, "exceeds the narrowest block"),
    "da.Grid((4,), ranks=(2,))": (da.DecompositionError, "the communicator has 1"),
    "da.Grid((4,), device='gpu')": (da.BackendError, "device='gpu' is unknown"),
    "da.Grid((4,), device='tpu')": (da.BackendError, "unknown"),
    "da.Grid((4,) * 4)": (da.GridError, "names 3 axes of 4"),
    "da.Grid((4, 4), axes='aa')": (da.GridError, "different single letters"),
    "da.Grid((4, 4), axes=('a', 'b1'))": (da.GridError, "different single letters"),
    "da.Grid((4,), coordinates={'y': [0, 1]})": (da.GridError, "name the axis 'y'"),
    "da.Grid((4,), coordinates={'x': [0, 1]})": (da.GridError, "needs 5 face positions"),
    "da.Grid((2,), coordinates={'x': [0, 2, 1]})": (da.GridError, "increase"),
    "da.Grid((1,), coordinates={'x': [0, 1]}, bounds=[(0, 2)])": (da.GridError, "give one of both"),
    "da.Grid((4,), comm=3)": (da.CommunicationError, "mpi4py"),
    "grid.zeros(location='q')": (da.GridError, "distinct axes of x, y"),
    "grid.zeros(location='xx')": (da.GridError, "distinct axes of x, y"),
    "grid.zeros(location=0)": (da.GridError, "distinct axes of x, y"),
    "grid.zeros(components=(0,))": (da.GridError, "components="),
    "grid.zeros(components='ab')": (da.GridError, "components="),
    "grid.zeros(dtype=object)": (da.UnsupportedError, "not supported"),
    "grid.zeros(halo=7)": (da.DecompositionError, "exceeds the narrowest block"),
    "grid.zeros(boundary=3)": (da.BoundaryError, "mapping"),
    "grid.coarsen(0)": (da.GridError, "at least 1"),
    "grid.coarsen(ranks=(2, 1))": (da.DecompositionError, "does not fit the 1 ranks"),
    "grid.divided((2, 1))": (da.DecompositionError, "does not fit the 1 ranks"),
    "grid.profile('q', [1])": (da.GridError, "Axis 'q' is none of this grid's"),
    "grid.profile(2, [1])": (da.GridError, "use 0 to 1"),
    "grid.profile(0, [1])": (da.GridError, r"needs 6 values, got shape \(1,\)"),
    "grid.profile(1, [1])": (da.GridError, "needs 4 or 5 values"),
    "grid.from_function(lambda x, y: 1j)": (da.ArrayError, "take their real part"),
    "grid.from_function(lambda x, y: (x,), components=2)": (da.ArrayError, "1 values for 2"),
    "grid.from_function(lambda x, y: np.ones(9))": (da.ArrayError, "do not broadcast"),
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    kind, text = ERRORS[call]
    grid = da.Grid((6, 4), periodic=(True, False))
    with pytest.raises(kind, match=text):
        eval(call, {"da": da, "np": np, "grid": grid})


shapes = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


@given(shapes, st.integers(1, 64))
def test_fewer_ranks_fit(shape: tuple[int, ...], size: int) -> None:
    ranks = fewer_ranks(shape, size)
    assert 1 <= math.prod(ranks) <= size
    assert all(n <= cells for n, cells in zip(ranks, shape, strict=True))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), st.integers(1, 8))
def test_fewer_ranks_of_small_shapes(shape: tuple[int, ...], size: int) -> None:
    ranks = fewer_ranks(shape, size)
    assert all(n <= max(1, cells) for n, cells in zip(ranks, shape, strict=True))
    # As many ranks as possible: no larger product fits.
    best = max(
        math.prod(grid)
        for grid in np.ndindex(*(max(1, c) + 1 for c in shape))
        if 0 < math.prod(grid) <= size
    )
    assert math.prod(ranks) == best


def test_fewer_ranks_keeps_what_is_fixed() -> None:
    assert fewer_ranks((8, 8), 6, (3, 0)) == (3, 2)
    assert fewer_ranks((8, 8), 8, (3, 0)) == (3, 2)
    assert fewer_ranks((8, 8), 8, (2, 1)) == (2, 1)
    for wrong in ((9, 1), (-1, 2), (16, 0)):
        with pytest.raises(DistArrayError):
            fewer_ranks((8, 8), 8, wrong)


@given(shapes, st.integers(1, 16), st.data())
def test_pencils_are_whole_along_their_axes(shape: tuple[int, ...], size: int, data: Any) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    ranks = pencil_ranks(shape, (1,) * len(shape), size, (axis,))
    assert ranks[axis] == 1
    assert math.prod(ranks) <= size
    assert all(n <= cells for n, cells in zip(ranks, shape, strict=True))


def test_pencils_keep_the_cuts_of_other_axes() -> None:
    assert pencil_ranks((64, 64, 64), (2, 2, 2), 8, (0,)) in ((1, 2, 4), (1, 4, 2))
    assert pencil_ranks((64, 64, 64), (1, 4, 2), 8, (1,)) == (4, 1, 2)
    assert pencil_ranks((64, 64), (2, 4), 8, (0,)) == (1, 8)
    assert pencil_ranks((64, 3), (8, 1), 8, (0,)) == (1, 3)
