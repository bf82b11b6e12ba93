"""The helpers of `distarray.testing` find what they are for, on all ranks alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from distarray.testing import assert_equal, assert_same_on_all_ranks, process_grids, wipe_halo
from tests.devices import host

world = MPI.COMM_WORLD
SIZE = world.Get_size()
VALUES = np.arange(8.0 * 11).reshape(8, 11)


def test_process_grids_are_all_products() -> None:
    assert sorted(process_grids(4, 2)) == [(1, 4), (2, 2), (4, 1)]
    assert len(process_grids(8, 3)) == 10


def test_equal_arrays_pass_on_every_process_grid() -> None:
    for ranks in process_grids(SIZE, 2):
        assert_equal(da.asarray(VALUES, ranks=ranks), VALUES)


def test_one_wrong_value_fails_on_all_ranks() -> None:
    wrong = VALUES.copy()
    wrong[7, 10] += 1e-9
    u = da.asarray(VALUES, ranks=(SIZE, 1))
    with pytest.raises(AssertionError, match=r"1 of 88 values differ, the first at \(7, 10\)"):
        assert_equal(u, wrong)
    assert_equal(u, wrong, tolerance=1e-8)


def test_another_shape_fails() -> None:
    with pytest.raises(AssertionError, match=r"The shape is \(8, 11\), not \(8,\)"):
        assert_equal(da.asarray(VALUES, ranks=(SIZE, 1)), VALUES[:, 0])


def test_values_that_differ_between_ranks_are_found() -> None:
    assert_same_on_all_ranks(VALUES)
    assert_same_on_all_ranks("text")
    if SIZE > 1:
        with pytest.raises(AssertionError, match=rf"Ranks \[{SIZE - 1}\] have another value"):
            assert_same_on_all_ranks(np.float64(world.Get_rank() == SIZE - 1))


@da.stencil
def neighbours(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1]


def test_a_wiped_halo_is_gone_and_is_refreshed_when_read() -> None:
    grid = da.Grid(VALUES.shape, periodic=True)
    u, new = grid.zeros(), grid.zeros()
    u[...] = VALUES
    wipe_halo(u)
    edge = host(u.padded)
    assert np.isnan(edge[0]).all()
    assert np.isnan(edge[:, -1]).all()
    assert_equal(u, VALUES)
    neighbours(u, new)
    expected = np.roll(VALUES, -1, 0) + np.roll(VALUES, 1, 0)
    assert_equal(new, expected + np.roll(VALUES, -1, 1) + np.roll(VALUES, 1, 1))


def test_types_without_nan_are_wiped_too() -> None:
    grid = da.Grid((8, 8), periodic=True)
    for dtype, filler in ((bool, True), (np.int32, np.iinfo(np.int32).max)):
        u = grid.zeros(dtype)
        wipe_halo(u)
        assert host(u.padded)[0, 0] == filler
        assert_equal(u, np.zeros((8, 8), dtype))
