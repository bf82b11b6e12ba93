"""What one rank among 10,000 or 100,000 plans is what one among 1,000 does: counted in lines of
Python and bytes of memory, at a fixed block per rank, without MPI.
"""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.block import reads_of_offsets
from distarray.decomposition import Decomposition, choose_ranks
from distarray.halo.plan import HaloPlan
from distarray.io.checksums import Buffer, Checksums
from distarray.io.record import ArrayRecord
from distarray.io.teams import LARGEST, shared_axis, team_of
from distarray.io.tiles import shares, tile_counts, tile_shape, tiles_over
from distarray.layout import Layout
from distarray.pencils import passes_of
from distarray.transfer import Selection, TransferPlan
from tests.lines_run import lines_run
from tests.one_of_many import OneOfMany

#: Process grids of 8 to 100,000 ranks, in which a rank of the last three has 26 neighbours.
GRIDS = {8: (2, 2, 2), 1000: (10, 10, 10), 10_000: (25, 20, 20), 100_000: (50, 50, 40)}
BLOCK = 64
FLOAT = np.dtype(float)
#: Numbers differ in size, and so do the paths of blocks at different places.
SLACK = 1.05


def decomposition(ranks: Sequence[int]) -> Decomposition:
    return Decomposition([BLOCK * n for n in ranks], ranks, periodic=True, halo=1)


def layout(cuts: Decomposition, halo: int = 1) -> Layout:
    ndim = cuts.ndim
    return Layout(cuts, (False,) * ndim, (halo,) * ndim, (), np.dtype(float))


def inner_rank(cuts: Decomposition) -> int:
    """Far from the start: indices up to 256 take no memory."""
    return cuts.rank_at([n // 2 if n < 4 else n - 2 for n in cuts.ranks])


def cost(call: Callable[[], Any]) -> tuple[int, int]:
    """Lines that a call runs and the most bytes that it holds, once what is made once is made."""
    call()
    lines = lines_run(call)
    tracemalloc.start()
    try:
        kept = call()  # as long as it is measured
        peak = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    return lines, peak


def plan_halo(ranks: Sequence[int]) -> HaloPlan:
    """The plan of a kernel that reads all 26 neighbours, two fields at once."""
    cuts = decomposition(ranks)
    reads = reads_of_offsets({(): set(itertools.product((-1, 0, 1), repeat=3))})
    fields = [(layout(cuts), reads)] * 2
    return HaloPlan.build(cuts, cuts.coords(inner_rank(cuts)), fields)


def plan_coarser(ranks: Sequence[int]) -> Any:
    cuts = decomposition(ranks).coarsen(2, halo=1)
    return cuts, [(axis.cut_unevenly(2), axis.finer_cut_unevenly(2)) for axis in cuts.axes]


def plan_checkpoint(ranks: Sequence[int]) -> Any:
    """The tiles that a rank writes, and those that it reads back."""
    field = layout(decomposition(ranks))
    rank, size = inner_rank(field.decomposition), field.decomposition.size
    tile = tile_shape((), field.shape)
    counts = tile_counts(field.shape, tile)
    return list(tiles_over(field.owned(rank), tile)), list(shares(counts, rank, size))


def plan_program(ranks: Sequence[int]) -> Any:
    """A grid, arrays, a kernel, steps in tiles and a reduction, on one rank of so many."""
    cuts = decomposition(ranks)
    comm = OneOfMany(inner_rank(cuts), cuts.size)
    shape = [BLOCK // 4 * n for n in ranks]
    grid = da.Grid(shape, periodic=True, ranks=ranks, comm=comm, device="cpu")
    u, new = grid.from_function(lambda x, y, z: x + y + z), grid.empty()
    smooth(u, new)
    da.iterate(smooth, u, new, steps=4, tile=2)
    new.max()
    return grid.coarsen().zeros(), u, new


@da.stencil
def smooth(u: Any, new: Any) -> None:
    new[0, 0, 0] = 0.25 * (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, 0, -1])


PLANS = {
    "decomposition": decomposition,
    "coarser grid": plan_coarser,
    "halo": plan_halo,
    "checkpoint": plan_checkpoint,
    "program": plan_program,
}


@pytest.mark.parametrize("name", PLANS)
def test_neither_time_nor_memory_of_a_rank_grows_with_the_number_of_ranks(name: str) -> None:
    costs = {size: cost(lambda: PLANS[name](ranks)) for size, ranks in GRIDS.items()}  # noqa: B023
    lines, memory = costs[1000]
    # Tables of what the package keeps grow by leaps; a list of 10,000 ranks takes 80,000 bytes.
    spare = 2**16 if name == "program" else 2**11
    for size in (10_000, 100_000):
        assert costs[size][0] <= SLACK * lines, (name, costs)
        assert costs[size][1] <= SLACK * memory + spare, (name, costs)
    # Two ranks along a periodic axis are neighbours twice: there are fewer messages, not less work.
    assert costs[8][0] <= SLACK * lines
    assert lines <= 1.5 * costs[8][0], (name, costs)


@pytest.mark.parametrize("size", [1000, 10_000, 100_000])
def test_messages_of_a_halo_are_those_of_26_neighbours(size: int) -> None:
    """Six faces, twelve edges and eight corners of a block, twice 8 bytes a cell, pieces of 32
    bytes at least.
    """
    plan = plan_halo(GRIDS[size])
    sizes = sorted(message.nbytes for message in plan.sends)
    assert sizes == sorted([2 * 8 * BLOCK**2] * 6 + [2 * 8 * BLOCK] * 12 + [2 * 32] * 8)
    assert [m.nbytes for m in plan.receives] == [m.nbytes for m in plan.sends]


@pytest.mark.parametrize("side", [2, 30, 100, 300])
def test_lines_are_exchanged_with_a_row_of_the_process_grid(side: int) -> None:
    """On side x side ranks lines along each axis in turn take messages to side - 1 others, and to
    this rank itself: the square root of the number of ranks.
    """
    cuts = Decomposition((4 * side,) * 3, (side, side, 1))
    source, rank = layout(cuts, halo=0), inner_rank(cuts)
    works = [Work(axis, 4 * side) for axis in (2, 1, 0)]
    passes = passes_of(source, None, works, side**2)
    assert len(passes) == 3
    for one, other in itertools.pairwise(passes):
        plan = TransferPlan.build(one.after, other.before, Selection.all_of(source), rank)
        assert len(plan.sends) == len(plan.receives) == side
    lines = lines_run(
        lambda: TransferPlan.build(
            passes[0].after, passes[1].before, Selection.all_of(source), rank
        )
    )
    assert lines < 600 + 150 * side


@dataclass(frozen=True)
class Work:
    """Work on lines along an axis that changes nothing."""

    axis: int
    length: int
    dtype: np.dtype[Any] = FLOAT

    def __call__(self, lines: Any, box: Any) -> Any:
        return lines


@pytest.mark.parametrize("size", GRIDS)
def test_ranks_that_write_rows_together_are_limited(size: int) -> None:
    field = layout(decomposition(GRIDS[size]))
    axis = shared_axis(field)
    team = None if axis is None else team_of(field, inner_rank(field.decomposition), axis)
    assert team is not None
    assert len(team.members) <= LARGEST


def test_checksums_of_a_file_take_four_bytes_for_each_of_its_tiles() -> None:
    """On 10,000 ranks with blocks of 256^3 cells, 640,000 tiles of 64^3: the one table of a rank
    that is as long as the file, 2 % of such a block.
    """
    shape = tuple(256 * n for n in GRIDS[10_000])
    array = ArrayRecord("u", "<f8", None, (), shape, (0,) * 3, "{}")
    sums = Checksums(array, Buffer())
    assert sums.table.size == 640_000
    lines, peak = cost(lambda: sums.finished(sums.table))
    assert peak < 4 * sums.table.size + 2**15
    assert lines < 30 * 2**3  # groups of tiles of one size


@pytest.mark.parametrize("size", [8, 10_000, 98_280, 99_991, 100_000])
def test_the_choice_of_a_process_grid_takes_as_long_as_there_are_factors(size: int) -> None:
    """98,280 has more divisors, 128, than any number below 100,000 but one; 99,991 is a prime. The
    ordered products of three factors are tried, and divisors looked for up to the square root.
    """
    products = math.prod(math.comb(power + 2, 2) for power in powers(size))
    lines = lines_run(lambda: choose_ranks((size,) * 3, size, halo=0))
    assert lines <= 100 * products + 4 * len(divisors(size)) * math.isqrt(size)


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def powers(number: int) -> list[int]:
    """The exponents of the prime factors."""
    found = []
    for prime in range(2, number + 1):
        count = 0
        while number % prime == 0:
            number, count = number // prime, count + 1
        if count:
            found.append(count)
    return found
