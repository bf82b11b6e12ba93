"""Cuts, owners and process grids against brute force."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distarray.decomposition import AxisPartition, Decomposition, choose_ranks, factorisations
from distarray.errors import DecompositionError
from tests.lines_run import lines_run

axes = st.builds(AxisPartition, st.integers(1, 60), st.integers(1, 9), st.sampled_from([1, 2, 4]))


@given(axes)
def test_parts_follow_each_other_and_cover_the_axis(axis):
    cuts = [axis.start(part) for part in range(axis.parts + 1)]
    assert cuts[0] == 0
    assert cuts[-1] == axis.cells
    assert cuts == sorted(cuts)
    sizes = [b - a for a, b in itertools.pairwise(cuts)]
    assert axis.narrowest == min(sizes)
    assert max(sizes) - min(sizes) <= 1


@given(axes)
def test_every_cell_has_the_owner_whose_range_holds_it(axis):
    for cell in range(axis.cells):
        part = axis.part_of(cell)
        assert axis.start(part) <= cell < axis.stop(part)
    assert axis.part_of(axis.cells) == axis.parts - 1


@given(axes, st.integers(1, 4))
def test_an_axis_is_cut_evenly_if_all_cuts_are_multiples(axis, factor):
    cuts = [axis.start(part) for part in range(axis.parts + 1)]
    assert axis.cut_unevenly(factor) == any(cut % factor for cut in cuts)


@given(st.integers(1, 60), st.integers(1, 9))
def test_a_coarse_cell_belongs_to_the_owner_of_its_first_fine_cell(cells, parts):
    fine = AxisPartition(cells, parts)
    coarse = fine.coarsen(2)
    for cell in range(coarse.cells):
        owners = [p for p in range(parts) if coarse.start(p) <= cell < coarse.stop(p)]
        assert owners == [fine.part_of(2 * cell)]
    ends = [fine.stop(part) for part in range(parts)]
    assert fine.cut_unevenly(2) == any(end % 2 for end in ends)
    assert coarse.finer_cut_unevenly(2) == fine.cut_unevenly(2)


shapes = st.lists(st.integers(1, 12), min_size=1, max_size=3)


@given(st.data(), shapes)
def test_owned_boxes_tile_the_points_of_every_location(data, shape):
    ranks = [data.draw(st.integers(1, min(3, n))) for n in shape]
    periodic = [data.draw(st.booleans()) for _ in shape]
    staggered = [data.draw(st.booleans()) for _ in shape]
    decomposition = Decomposition(shape, ranks, periodic=periodic)
    points = tuple(n + (s and not p) for n, s, p in zip(shape, staggered, periodic, strict=True))
    assert decomposition.points(staggered) == points
    seen = {}
    for rank in range(decomposition.size):
        coords = decomposition.coords(rank)
        assert decomposition.rank_at(coords) == rank
        box = decomposition.owned(coords, staggered)
        assert not box.empty
        seen[rank] = box
    assert sum(box.size for box in seen.values()) == math.prod(points)
    for a, b in itertools.combinations(seen.values(), 2):
        assert a.intersection(b).empty


def test_a_rank_beyond_the_process_grid_owns_nothing():
    decomposition = Decomposition((4, 4), (2, 1))
    assert decomposition.coords(2) is None
    assert decomposition.owned(None).empty


def test_neighbours_wrap_on_periodic_axes_only():
    decomposition = Decomposition((6, 6), (3, 2), periodic=(True, False))
    assert decomposition.neighbour((0, 0), (-1, 0)) == (2, 0)
    assert decomposition.neighbour((0, 0), (0, -1)) is None
    assert decomposition.neighbour((2, 0), (1, 1)) == (0, 1)


@given(st.integers(1, 48), st.integers(1, 3))
def test_factorisations_are_all_ordered_products(number, ndim):
    found = list(factorisations(number, ndim))
    assert len(set(found)) == len(found)
    assert all(math.prod(grid) == number for grid in found)
    divisors = sum(1 for d in range(1, number + 1) if number % d == 0)
    assert ndim != 2 or len(found) == divisors


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((64, 64, 64), 8, (2, 2, 2)),
        ((1024, 16, 16), 8, (8, 1, 1)),
        ((64, 64), 4, (2, 2)),
        ((64, 64), 2, (2, 1)),
        ((100,), 5, (5,)),
    ],
)
def test_the_default_process_grid_has_the_least_surface(shape, size, expected):
    assert choose_ranks(shape, size) == expected


def test_fixed_axes_are_kept_and_narrow_blocks_passed_over():
    assert choose_ranks((64, 64, 64), 8, ranks=(0, 4, 0)) == (2, 4, 1)
    assert choose_ranks((64, 3), 4, halo=2) == (4, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Decomposition((8, 8), (4, 1), halo=3),
            "Halo width 3 along axis 0 exceeds the narrowest block, 2 cells (ranks=(4, 1)); "
            "use at most 2 ranks there or a smaller halo.",
        ),
        (
            lambda: Decomposition((2,), (1,), periodic=True, halo=3),
            "Halo width 3 along axis 0 exceeds the narrowest block, 2 cells (ranks=(1,)); "
            "use at least 3 cells there or a smaller halo.",
        ),
        (
            lambda: Decomposition((3, 8), (4, 1)),
            "Axis 0 has 3 cells, fewer than its 4 ranks (ranks=(4, 1)); use at most 3 ranks there.",
        ),
        (
            lambda: Decomposition((3, 8), (1,)),
            "The process grid (1,) has 1 axes, the shape (3, 8) has 2; give one number of ranks "
            "per axis.",
        ),
        (
            lambda: Decomposition((3,), (0,)),
            "Axis 0 has 3 cells over 0 ranks; cells must not be negative and ranks must be at "
            "least 1.",
        ),
        (
            lambda: choose_ranks((8, 8), 8, ranks=(2, 2)),
            "The process grid (2, 2) has 4 ranks, the communicator has 8; make their numbers "
            "equal or leave an axis free with 0.",
        ),
        (
            lambda: choose_ranks((8, 8), 8, ranks=(3, 0)),
            "The process grid (3, 0) cannot be completed to 8 ranks; its fixed axes must divide 8.",
        ),
        (
            lambda: Decomposition((8, 8), (1, 1), periodic=(True,)),
            "periodic has 1 values for 2 axes; give one value or one per axis.",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(DecompositionError) as raised:
        call()
    assert str(raised.value) == message


def test_one_rank_among_ten_thousand_costs_what_one_among_eight_costs():
    """Counted in lines of Python, not in seconds."""

    def plan(shape, ranks, rank):
        decomposition = Decomposition(shape, ranks, periodic=True, halo=2)
        coords = decomposition.coords(rank)
        decomposition.owned(coords)
        decomposition.neighbour(coords, (1, -1, 0))

    few = lines_run(lambda: plan((512, 512, 512), (2, 2, 2), 5))
    many = lines_run(lambda: plan((4096, 4096, 4096), (25, 20, 20), 5000))
    assert few == many


def test_halos_are_narrowed_to_the_blocks_that_have_neighbours():
    narrow = Decomposition((7, 2, 2), (3, 1, 1), periodic=(False, True, False))
    assert narrow.narrowed((5, 5, 5)) == (2, 2, 5)
    assert narrow.narrowed((1, 0, 3)) == (1, 0, 3)
