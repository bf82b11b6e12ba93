"""Halo plans without MPI: all ranks' plans are built and carried out by hand on NumPy arrays."""

from __future__ import annotations

import time
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray.block import reads_of_offsets
from distarray.decomposition import Decomposition
from distarray.errors import DecompositionError
from distarray.halo.plan import ALIGNMENT, HaloPlan
from distarray.layout import Layout

UNSET = -1


class Simulation:
    """All ranks of some fields: padded memories that hold global indices, the halo wiped."""

    def __init__(self, fields):
        self.fields = fields
        self.grid = fields[0][0].decomposition
        self.plans = [
            HaloPlan.build(self.grid, self.grid.coords(rank), fields)
            for rank in range(self.grid.size)
        ]
        self.memory = [
            [self.wiped(layout, r) for layout, _ in fields] for r in range(self.grid.size)
        ]

    def wiped(self, layout, rank):
        memory = np.full(layout.components + layout.padded(rank).shape, UNSET)
        whole = np.arange(np.prod(layout.shape)).reshape(layout.shape)
        owned = layout.owned(rank)
        inside = (..., *owned.slices(layout.padded(rank).start))
        memory[inside] = whole[(..., *owned.slices())]
        return memory

    def run(self):
        sent = {}
        for rank, plan in enumerate(self.plans):
            for message in plan.sends:
                assert (rank, message.rank) not in sent
                sent[rank, message.rank] = [
                    (
                        piece.offset,
                        self.memory[rank][piece.field][piece.component][piece.box.slices()],
                    )
                    for piece in message.pieces
                ]
        for rank, plan in enumerate(self.plans):
            for message in plan.receives:
                packed = sent.pop((message.rank, rank))
                for piece, (offset, values) in zip(message.pieces, packed, strict=True):
                    assert piece.offset == offset
                    target = self.memory[rank][piece.field][piece.component]
                    assert target[piece.box.slices()].shape == values.shape
                    target[piece.box.slices()] = values
            for copy in plan.copies:
                memory = self.memory[rank][copy.field][copy.component]
                memory[copy.target.slices()] = memory[copy.source.slices()]
        assert not sent
        return self

    def expected(self, rank, number):
        """By definition: a halo cell holds its global index if some owned point reads it."""
        layout, reads = self.fields[number]
        memory = self.wiped(layout, rank)
        whole = np.arange(np.prod(layout.shape)).reshape(layout.shape)
        owned, padded = layout.owned(rank), layout.padded(rank)
        for (component, direction), widths in reads.items():
            ranges = [
                range(lo - w, lo) if d < 0 else range(hi, hi + w) if d > 0 else range(lo, hi)
                for lo, hi, d, w in zip(owned.start, owned.stop, direction, widths, strict=True)
            ]
            for index in product(*ranges):
                inside = self.wrapped(layout, index)
                if inside is not None:
                    local = tuple(i - o for i, o in zip(index, padded.start, strict=True))
                    memory[component + local] = whole[component + inside]
        return memory

    @staticmethod
    def wrapped(layout, index):
        found = []
        for i, n, wraps in zip(index, layout.points, layout.decomposition.periodic, strict=True):
            if not wraps and not 0 <= i < n:
                return None
            found.append(i % n)
        return tuple(found)

    def check(self):
        for rank in range(self.grid.size):
            for number in range(len(self.fields)):
                assert np.array_equal(self.memory[rank][number], self.expected(rank, number))


@st.composite
def offset_sets(draw, halo):
    ranges = [st.integers(-width, width) for width in halo]
    return set(draw(st.lists(st.tuples(*ranges), min_size=1, max_size=5)))


@st.composite
def field_sets(draw):
    """One to three fields on one process grid, each with its own location, components and reads."""
    ndim = draw(st.integers(1, 3))
    halo = tuple(draw(st.integers(0, 3)) for _ in range(ndim))
    ranks = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    shape = tuple(
        parts * max(1, width) + draw(st.integers(0, 4))
        for parts, width in zip(ranks, halo, strict=True)
    )
    periodic = tuple(draw(st.booleans()) for _ in range(ndim))
    grid = Decomposition(shape, ranks, periodic=periodic, halo=halo)
    fields = []
    for _ in range(draw(st.integers(1, 3))):
        components = draw(st.sampled_from([(), (2,), (2, 2)]))
        staggered = tuple(draw(st.booleans()) for _ in range(ndim))
        dtype = np.dtype(draw(st.sampled_from(["f4", "f8", "c16", "?"])))
        chosen = [c for c in np.ndindex(*components) if draw(st.booleans())]
        offsets = {component: draw(offset_sets(halo)) for component in chosen}
        layout = Layout(grid, staggered, halo, components, dtype)
        fields.append((layout, reads_of_offsets(offsets)))
    return fields


@settings(max_examples=150, deadline=None)
@given(field_sets())
def test_exchange_fills_what_is_read_and_nothing_else(fields):
    Simulation(fields).run().check()


def field(shape, ranks, offsets, *, periodic=True, halo=1, dtype="f8", components=()):
    grid = Decomposition(shape, ranks, periodic=periodic, halo=halo)
    layout = Layout(grid, (False,) * len(shape), (halo,) * len(shape), components, np.dtype(dtype))
    per_component = {component: set(offsets) for component in np.ndindex(*components)}
    return layout, reads_of_offsets(per_component)


def plan_of(rank, *fields):
    grid = fields[0][0].decomposition
    return HaloPlan.build(grid, grid.coords(rank), fields)


STAR = [(1, 0), (-1, 0), (0, 1), (0, -1)]
SQUARE = [offset for offset in product((-1, 0, 1), repeat=2) if any(offset)]


def test_a_star_needs_faces_only_and_a_square_needs_corners():
    star = plan_of(4, field((9, 9), (3, 3), STAR))
    assert [message.rank for message in star.sends] == [1, 3, 5, 7]
    square = plan_of(4, field((9, 9), (3, 3), SQUARE))
    assert [message.rank for message in square.sends] == [0, 1, 2, 3, 5, 6, 7, 8]


def test_an_upwind_kernel_sends_one_way():
    plan = plan_of(1, field((12,), (4,), [(-2,), (-1,)], halo=2))
    assert [message.rank for message in plan.receives] == [0]
    assert [message.rank for message in plan.sends] == [2]
    assert sum(message.nbytes for message in plan.sends) == 2 * 8 + (-2 * 8) % ALIGNMENT


def test_two_ranks_on_a_periodic_axis_send_one_message_with_both_sides():
    plan = plan_of(0, field((8, 4), (2, 1), STAR))
    assert [(message.rank, len(message.pieces)) for message in plan.sends] == [(1, 2)]
    assert len(plan.copies) == 2


def test_all_fields_and_components_share_one_message():
    fields = [
        field((8, 4), (2, 1), STAR, components=(3,)),
        field((8, 4), (2, 1), STAR, dtype="f4"),
    ]
    [message] = plan_of(0, *fields).sends
    assert [(p.field, p.component) for p in message.pieces] == [
        (0, (0,)),
        (0, (1,)),
        (0, (2,)),
        (1, ()),
    ] * 2
    assert all(piece.offset % ALIGNMENT == 0 for piece in message.pieces)


def test_nothing_lies_beyond_a_boundary():
    plan = plan_of(0, field((8,), (2,), [(-1,), (1,)], periodic=False))
    assert [message.rank for message in plan.receives] == [1]
    assert len(plan.receives[0].pieces) == 1
    assert not plan.copies


def test_a_rank_without_a_block_has_an_empty_plan():
    layout, reads = field((8,), (2,), [(1,)])
    assert HaloPlan.build(layout.decomposition, None, [(layout, reads)]) == HaloPlan((), (), ())


def test_coarser_grids_of_the_same_process_grid_join_the_message():
    fine, reads = field((16, 8), (4, 1), STAR)
    coarse = Layout(fine.decomposition.coarsen(2), (False, False), (1, 1), (), np.dtype("f8"))
    Simulation([(fine, reads), (coarse, reads)]).run().check()


def test_a_region_wider_than_the_halo_is_refused():
    layout, _ = field((8,), (2,), [(1,)])
    with pytest.raises(
        DecompositionError,
        match=r"^A halo region in direction \(1,\) is \(2,\) cells wide, "
        r"wider than the halo \(1,\); "
        r"create the array with a wider halo\.$",
    ):
        HaloPlan.build(layout.decomposition, (0,), [(layout, reads_of_offsets({(): {(2,)}}))])


def cost(ranks, rank):
    """Seconds (least of several) and peak bytes of building one rank's plan."""
    cube = [offset for offset in product((-1, 0, 1), repeat=3) if any(offset)]
    one = field(tuple(8 * parts for parts in ranks), ranks, cube)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        plan = plan_of(rank, one)
        seconds.append(time.perf_counter() - start)
    assert len(plan.sends) == len({message.rank for message in plan.sends})
    tracemalloc.start()
    plan_of(rank, one)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak, len(plan.sends)


def test_one_rank_among_ten_thousand_costs_what_one_among_few_costs():
    few, many = cost((3, 3, 3), 13), cost((20, 25, 20), 5000)
    assert few[2] == many[2] == 26
    assert many[1] < 1.5 * few[1]
    # The same work is done; only a time that grew with the number of ranks would exceed this.
    assert many[0] < 20 * few[0]
