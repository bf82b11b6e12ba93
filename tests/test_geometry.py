"""Positions and widths against their formulas."""

import numpy as np
import pytest

from distarray.geometry import AxisGeometry

every = np.arange(-3, 9, dtype=np.int64)


def test_uniform_positions_follow_from_the_global_index():
    axis = AxisGeometry(6, 1.0, 4.0, False)
    assert axis.spacing == 0.5
    assert np.array_equal(axis.centre_positions(every), 1.0 + (every + 0.5) * 0.5)
    assert np.array_equal(axis.point_positions(every), 1.0 + every * 0.5)
    assert np.array_equal(axis.widths(every), np.full(every.shape, 0.5))


def test_positions_wrap_around_a_periodic_axis():
    axis = AxisGeometry(6, 0.0, 3.0, True)
    assert np.array_equal(
        axis.centre_positions(np.array([-1, 6])), axis.centre_positions(np.array([5, 0]))
    )
    stretched = AxisGeometry(3, 0.0, 3.0, True, np.array([0.0, 0.5, 1.5, 3.0]))
    assert np.array_equal(stretched.widths(np.array([-1, 0, 1, 2, 3])), [1.5, 0.5, 1.0, 1.5, 0.5])
    assert np.array_equal(stretched.centre_distances(np.array([0, 1])), [1.0, 0.75])


def test_a_stretched_axis_is_mirrored_at_its_ends():
    faces = np.array([0.0, 1.0, 3.0, 7.0])
    axis = AxisGeometry(3, 0.0, 7.0, False, faces)
    assert axis.spacing is None
    assert np.array_equal(
        axis.point_positions(np.array([-2, -1, 0, 3, 4, 5])), [-3, -1, 0, 7, 11, 13]
    )
    assert np.array_equal(axis.widths(np.array([-2, -1, 0, 1, 2, 3, 4])), [2, 1, 1, 2, 4, 4, 2])
    assert np.array_equal(
        axis.centre_positions(np.array([-1, 0, 1, 2, 3])), [-0.5, 0.5, 2.0, 5.0, 9.0]
    )
    assert np.array_equal(axis.centre_distances(np.array([0, 1, 2, 3])), [1.0, 1.5, 3.0, 4.0])


@pytest.mark.parametrize("cells", [6, 7])
def test_coarsening_keeps_the_ends_and_joins_cells(cells):
    fine = AxisGeometry(cells, -1.0, 2.0, False)
    coarse = fine.coarsen(2)
    assert (coarse.cells, coarse.low, coarse.high) == ((cells + 1) // 2, -1.0, 2.0)
    widths = np.add.reduceat(fine.widths(np.arange(cells)), np.arange(0, cells, 2))
    assert np.allclose(coarse.widths(np.arange(coarse.cells)), widths, rtol=1e-15)
    assert (coarse.spacing is None) == (cells % 2 == 1)
