"""Box arithmetic against sets of indices."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distarray.regions import Box, boxes_of
from distarray.stencil.coverage import partition, tiles


def boxes(ndim):
    ends = st.tuples(st.integers(-3, 6), st.integers(0, 5))
    return st.lists(ends, min_size=ndim, max_size=ndim).map(
        lambda pairs: Box(tuple(a for a, _ in pairs), tuple(a + n for a, n in pairs))
    )


def indices(box):
    return set(itertools.product(*(range(a, b) for a, b in zip(box.start, box.stop, strict=True))))


@given(boxes(2), boxes(2))
def test_intersection_difference_and_containment(a, b):
    assert indices(a.intersection(b)) == indices(a) & indices(b)
    assert a.contains(b) == (indices(b) <= indices(a))
    pieces = [indices(piece) for piece in a.difference(b)]
    assert set().union(*pieces) == indices(a) - indices(b)
    assert sum(map(len, pieces)) == len(indices(a) - indices(b))


@given(boxes(3), st.sampled_from([1, 2, 3]), st.integers(0, 2**32 - 1))
def test_boxes_of_a_mask_cover_its_true_points_once(box, ndim, seed):
    box = Box(box.start[:ndim], box.stop[:ndim])
    mask = np.random.default_rng(seed).random(box.shape) < 0.6
    found = [index for part in boxes_of(mask, box.start) for index in indices(part)]
    expected = {tuple(index) for index in (np.argwhere(mask) + np.array(box.start)).tolist()}
    assert sorted(found) == sorted(expected)


@given(boxes(3))
def test_boxes_of_a_mask_are_joined(box):
    assert boxes_of(np.ones(box.shape, bool), box.start) == (() if box.empty else (box,))


@given(boxes(3))
def test_shape_size_and_slices(box):
    assert box.size == len(indices(box))
    assert box.empty == (box.size == 0)
    assert box.shift((1, 2, 3)).shape == box.shape
    assert box.slices(box.start) == tuple(slice(0, n) for n in box.shape)


@given(st.lists(boxes(2), min_size=1, max_size=3), st.one_of(st.none(), boxes(2)))
def test_partition_covers_each_box_once_with_the_mask_of_those_that_hold_it(found, without):
    left_out = set() if without is None else indices(without)
    masks = {}
    for piece, mask in partition([[box] for box in found], without):
        for point in indices(piece):
            assert point not in masks
            masks[point] = mask
    expected = {}
    for bit, box in enumerate(found):
        for point in indices(box) - left_out:
            expected[point] = expected.get(point, 0) | 1 << bit
    assert masks == expected


def test_the_remainder_of_a_core_is_one_slab_per_side():
    pieces = partition([[Box((0, 0, 0), (8, 8, 8))]], Box((1, 1, 1), (7, 7, 7)))
    assert len(pieces) == 6


@pytest.mark.parametrize(
    ("least", "most", "count"), [(1, 4, 4), (60, 4, 1), (30, 99, 3), (10**9, 9, 1)]
)
def test_tiles_cut_the_first_axis(least, most, count):
    box = Box((2, 0), (12, 10))
    found = tiles(box, least, most)
    assert len(found) == count
    assert set().union(*map(indices, found)) == indices(box)
