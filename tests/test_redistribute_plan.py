"""Transfers between placements: every rank's plan, carried out by hand without MPI."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray.decomposition import Decomposition
from distarray.errors import ArrayError
from distarray.layout import Layout
from distarray.redistribute import KeptPlans
from distarray.transfer import Selection, Stride, TransferPlan


def layout(shape, ranks, staggered=None, periodic=False):
    flags = staggered or (False,) * len(shape)
    grid = Decomposition(shape, ranks, periodic=periodic)
    return Layout(grid, flags, (0,) * len(shape), (), np.dtype(int))


def carry_out(source, target, selection, values, into):
    """What all ranks together make of `into`; every share must be sent as it is received."""
    sizes = source.decomposition.size, target.decomposition.size
    plans = [TransferPlan.build(source, target, selection, rank) for rank in range(max(sizes))]
    for rank, plan in enumerate(plans):
        assert list(plan.sends) == sorted(plan.sends, key=lambda share: share.rank)
        for share in plan.receives:
            [sent] = [s for s in plans[share.rank].sends if s.rank == rank]
            assert sent.box == share.box
            for counters in product(*map(range, share.box.start, share.box.stop)):
                here = indices(selection.source, counters)
                there = indices(selection.target, counters)
                assert inside(source.owned(share.rank), here)
                assert inside(target.owned(rank), there)
                into[there] = values[here]
    assert sum(len(p.sends) for p in plans) == sum(len(p.receives) for p in plans)
    return into


def indices(side, counters):
    remaining = iter(counters)
    return tuple(
        along if isinstance(along, int) else along.start + along.step * next(remaining)
        for along in side
    )


def inside(box, index):
    return all(a <= i < b for a, i, b in zip(box.start, index, box.stop, strict=True))


@st.composite
def placements(draw, shape, staggered):
    ranks = tuple(draw(st.integers(1, min(4, cells))) for cells in shape)
    return layout(shape, ranks, staggered)


@st.composite
def redistributions(draw):
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(ndim))
    staggered = tuple(draw(st.booleans()) for _ in range(ndim))
    return draw(placements(shape, staggered)), draw(placements(shape, staggered))


@given(redistributions())
def test_a_change_of_process_grid_moves_every_point_once(pair):
    source, target = pair
    values = np.arange(np.prod(source.points)).reshape(source.points)
    moved = carry_out(source, target, Selection.all_of(source), values, np.full_like(values, -1))
    assert np.array_equal(moved, values)


@st.composite
def indexings(draw):
    """A source, basic indices into it and a placement of the result."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(ndim))
    source = draw(placements(shape, tuple(draw(st.booleans()) for _ in range(ndim))))
    index = []
    for count in source.points:
        if draw(st.booleans()) and len(index) < ndim - 1:
            index.append(draw(st.integers(0, count - 1)))
        else:
            first, last = draw(st.integers(0, count)), draw(st.integers(0, count))
            step = draw(st.sampled_from([1, 2, 3, 5, -1, -2, -4]))
            index.append(slice(first, last, step))
    return source, tuple(index), draw(st.integers(1, 4))


def stride(index, count):
    if isinstance(index, int):
        return index
    chosen = range(count)[index]
    return Stride(chosen.start, chosen.step, len(chosen))


@settings(deadline=None)
@given(indexings(), st.booleans())
def test_indexing_and_assignment_agree_with_numpy(case, assign):
    array, index, parts = case
    whole = np.arange(np.prod(array.points)).reshape(array.points)
    part = whole[index]
    ranks = tuple(min(parts, max(1, extent)) for extent in part.shape)
    dense = layout(part.shape, ranks)
    strided_side = tuple(map(stride, index, array.points))
    dense_side = tuple(Stride(0, 1, extent) for extent in part.shape)
    if assign:
        values = np.arange(part.size).reshape(part.shape) + 1000
        expected = whole.copy()
        expected[index] = values
        selection = Selection(dense_side, strided_side)
        assert np.array_equal(carry_out(dense, array, selection, values, whole.copy()), expected)
    else:
        selection = Selection(strided_side, dense_side)
        got = carry_out(array, dense, selection, whole, np.full(part.shape, -1))
        assert np.array_equal(got, part)


def test_a_step_of_zero_repeats_one_index():
    source, target = layout((6,), (3,)), layout((5,), (2,))
    selection = Selection((Stride(4, 0, 5),), (Stride(0, 1, 5),))
    got = carry_out(source, target, selection, np.arange(6), np.full(5, -1))
    assert got.tolist() == [4] * 5


def test_unequal_counts_are_refused():
    with pytest.raises(
        ArrayError, match=r"^A selection of \(3,\) points cannot go to \(4,\) points"
    ):
        Selection((Stride(0, 1, 3),), (Stride(0, 1, 4),))


def test_one_rank_among_many_shares_with_few():
    source = layout((10_000, 64), (10_000, 1))
    plan = TransferPlan.build(source, source, Selection.all_of(source), 5000)
    assert [share.rank for share in plan.sends] == [5000]
    coarser = layout((10_000, 64), (5_000, 2))
    plan = TransferPlan.build(source, coarser, Selection.all_of(source), 5000)
    assert [share.rank for share in plan.sends] == [5000, 5001]
    assert [share.rank for share in plan.receives] == [5000, 5001]


@dataclass
class Sized:
    """Stands for a redistribution whose buffers have this size."""

    nbytes: int


def test_kept_redistributions_are_bounded_by_number_and_bytes() -> None:
    kept = KeptPlans(most=3, most_bytes=100)
    first = kept.get("first", lambda: Sized(40))
    kept.get("second", lambda: Sized(40))
    assert kept.get("first", lambda: Sized(0)) is first
    kept.get("third", lambda: Sized(40))  # beyond 100 bytes: "second" waited longest
    assert kept.nbytes == 80
    assert kept.get("first", lambda: Sized(0)) is first
    assert kept.get("second", lambda: Sized(1)).nbytes == 1
    assert kept.get("too large", lambda: Sized(101)).nbytes == 101
    assert (len(kept), kept.nbytes) == (3, 81)
    for number in range(5):
        kept.get(number, lambda: Sized(0))
    assert (len(kept), kept.nbytes) == (3, 0)
