"""Candidates timed in turn: the ways of messages x process grids x steps at a time.

All candidates are timed once in each round, so that other programs on the machine slow them alike.
Arrays are made anew for each process grid in each round: the memory needed is that of one. What is
far behind is left out of the third and later rounds: its best is then compared with the smallest
median, which one lucky measurement does not make.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition, choose_ranks, factorisations
from distarray.errors import DecompositionError
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.transports.choice import working
from distarray.tuning.kernels import Case
from distarray.tuning.steps import case_of
from distarray.tuning.store import TileChoice

#: Transport and process grid.
Placement = tuple[str, tuple[int, ...]]

#: Two candidates are as good where the medians differ by less: the earlier one is then taken.
ALIKE = 0.02


@dataclass(frozen=True)
class Problem:
    """What is timed.

    Attributes
    ----------
    case : Case
    reach : int
        How far its kernel reads along some axis.
    shape, periodic : one entry per axis
    dtype : str
    device : str
    steps, repeat : int
        Steps of one measurement, and measurements of each candidate.
    skip : float
        A candidate that takes so many times the best is left out after the second round.
    """

    case: Case
    reach: int
    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    dtype: str
    device: str
    steps: int
    repeat: int
    skip: float

    def grid(self, communicator: Communicator, ranks: Sequence[int], transport: str) -> Grid:
        """The grid of a candidate. Collective."""
        return Grid(
            self.shape, periodic=self.periodic, halo=self.reach, ranks=ranks,
            comm=communicator, device=self.device, transport=transport,
        )  # fmt: skip


@dataclass
class Candidate:
    """One way to run the problem, and the seconds per step of each measurement."""

    transport: str
    ranks: tuple[int, ...]
    tile: int
    seconds: list[float] = field(default_factory=list)
    #: Whether it was left out of later rounds.
    behind: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The range of the measurements, as a share of their median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


def process_grids(problem: Problem, size: int, most: int) -> list[tuple[int, ...]]:
    """The default process grid, then the others by the halo that the widest block receives; at most
    `most` of them, all with 0. Local.
    """
    shape, periodic, reach = problem.shape, problem.periodic, problem.reach
    default = choose_ranks(shape, size, periodic=periodic, halo=reach)
    others = []
    for ranks in factorisations(size, len(shape)):
        try:
            cuts = Decomposition(shape, ranks, periodic=periodic, halo=max(1, reach))
        except DecompositionError:
            continue
        if ranks != default:
            others.append((_surface(cuts), ranks))
    found = [default, *(ranks for _, ranks in sorted(others))]
    return found[:most] if most else found


def _surface(cuts: Decomposition) -> int:
    """Cells beside a block along the axes that are cut."""
    block = cuts.owned((0,) * cuts.ndim).shape
    return sum(
        int(np.prod(block)) // extent
        for extent, parts in zip(block, cuts.ranks, strict=True)
        if parts > 1
    )


def depths(problem: Problem, tiles: Sequence[int] | None) -> list[int]:
    """The numbers of steps at a time to try: 1 first, then multiples of the rotation; on devices 1
    alone. Local.
    """
    cycle = problem.case.cycle
    wanted = [cycle * n for n in (1, 2, 4, 8)] if tiles is None else sorted(set(tiles))
    if problem.device != "cpu":
        wanted = []
    return [1, *(tile for tile in wanted if tile > 1 and tile % cycle == 0)]


def transports(problem: Problem, communicator: Communicator) -> list[str]:
    """The ways of messages that work here, the default first. Collective."""
    grid = Grid((communicator.size,), comm=communicator, device=problem.device)
    return working(communicator, grid.backend) or ["auto"]


def measure(
    problem: Problem, communicator: Communicator, candidates: Sequence[Candidate]
) -> dict[Placement, TileChoice]:
    """Time all candidates. Collective.

    Returns
    -------
    dict
        How the loop of each transport and process grid is recognised.
    """
    cases: dict[Placement, TileChoice] = {}
    for round_ in range(problem.repeat):
        for key, group in _groups(candidates):
            _measure_group(problem, communicator, key, group, cases)
        if 1 <= round_ < problem.repeat - 1:
            limit = problem.skip * min(one.median for one in candidates)
            for one in candidates:
                one.behind = one.behind or min(one.seconds) > limit
    return cases


def _groups(
    candidates: Sequence[Candidate],
) -> Iterator[tuple[Placement, list[Candidate]]]:
    """The candidates still in, by what their arrays lie on."""
    groups: dict[Placement, list[Candidate]] = {}
    for one in candidates:
        if not one.behind:
            groups.setdefault((one.transport, one.ranks), []).append(one)
    yield from groups.items()


def _measure_group(
    problem: Problem,
    communicator: Communicator,
    key: Placement,
    group: Sequence[Candidate],
    cases: dict[Placement, TileChoice],
) -> None:
    """Time each candidate once on one set of arrays. Collective."""
    transport, ranks = key
    grid = problem.grid(communicator, ranks, transport)
    case = problem.case
    arrays = case.arrays(grid, problem.dtype)
    if key not in cases:
        program = case.kernel.prepare(arrays, dict(case.scalars), 0.0)[0].program
        positions = [range(len(arrays))]
        cases[key] = case_of(arrays[0], [program], positions, case.cycle)
    for one in group:
        # Compiles and plans.
        _run(problem, arrays, one.tile * case.cycle, one.tile)
        steps = max(one.tile, problem.steps - problem.steps % one.tile)
        communicator.barrier()
        start = time.perf_counter()
        _run(problem, arrays, steps, one.tile)
        seconds = np.array([(time.perf_counter() - start) / steps])
        one.seconds.append(float(communicator.allreduce(seconds, "max")[0]))


def _run(problem: Problem, arrays: Sequence[Any], steps: int, tile: int) -> None:
    case = problem.case
    iterate(case.kernel, *arrays, steps=steps, rotate=case.rotate, tile=tile, **case.scalars)
    arrays[0].block.backend.compute.synchronize()


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The fastest; of those that are as fast within `ALIKE`, the first. Local."""
    through = [one for one in candidates if not one.behind]
    limit = (1.0 + ALIKE) * min(one.median for one in through)
    return next(one for one in through if one.median <= limit)
