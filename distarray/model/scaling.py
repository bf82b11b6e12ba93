"""Tables of predicted steps over the number of ranks. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from distarray.decomposition import Decomposition, choose_ranks
from distarray.errors import DecompositionError
from distarray.model.machine import Machine
from distarray.model.step import StepTime, slowest
from distarray.model.traffic import Loop, Traffic

#: Numbers of ranks of a table.
RANKS = (1, 8, 64, 512, 1000, 4096, 10_000)


@dataclass(frozen=True)
class Row:
    """One number of ranks: the slowest rank's work and time, and how the whole compares.

    Attributes
    ----------
    ranks, shape : tuple of int
        Process grid and cells along each axis.
    work : Traffic
    time : StepTime
    between : int
        Bytes that the rank sends to other nodes.
    efficiency : float
        Cells per second and rank, as a share of the first row's.
    """

    ranks: tuple[int, ...]
    shape: tuple[int, ...]
    work: Traffic
    time: StepTime
    between: int
    efficiency: float

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.ranks)

    @property
    def cells_per_second(self) -> float:
        """Of all ranks together."""
        return math.prod(self.shape) / self.time.seconds

    @property
    def hidden(self) -> float:
        """Share of the exchange that is hidden; nan without one."""
        exchange = self.time.exchange
        return self.time.hidden / exchange if exchange else math.nan

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            **asdict(self), "size": self.size, "seconds": self.time.seconds,
            "cells_per_second": self.cells_per_second,
        }  # fmt: skip


def weak(
    loop: Loop, machine: Machine, block: Sequence[int], periodic: Sequence[bool],
    sizes: Sequence[int] = RANKS,
) -> list[Row]:  # fmt: skip
    """Rows with one block for each rank: the grid grows with the number of ranks. Local."""
    grids = [balanced(size, len(block)) for size in sizes]
    shapes = [tuple(b * n for b, n in zip(block, ranks, strict=True)) for ranks in grids]
    return _rows(loop, machine, zip(grids, shapes, strict=True), periodic)


def strong(
    loop: Loop, machine: Machine, shape: Sequence[int], periodic: Sequence[bool],
    sizes: Sequence[int] = RANKS,
) -> list[Row]:  # fmt: skip
    """Rows with one grid, whose blocks become smaller; without the numbers of ranks that would make
    them narrower than the halo. Local.
    """
    found = []
    for size in sizes:
        try:
            ranks = choose_ranks(shape, size, periodic=periodic, halo=loop.halo)
        except DecompositionError:  # blocks narrower than the halo
            continue
        found.append((ranks, tuple(shape)))
    return _rows(loop, machine, iter(found), periodic)


def balanced(size: int, ndim: int) -> tuple[int, ...]:
    """The process grid whose axes are most alike. Local."""
    return choose_ranks((size,) * ndim, size, periodic=True, halo=1)


def _rows(
    loop: Loop,
    machine: Machine,
    cases: Iterator[tuple[tuple[int, ...], tuple[int, ...]]],
    periodic: Sequence[bool],
) -> list[Row]:
    rows: list[Row] = []
    for ranks, shape in cases:
        cuts = Decomposition(shape, ranks, periodic=periodic, halo=loop.halo)
        work, time = slowest(loop, cuts, machine)
        between = sum(n for other, n in work.sends if machine.link(work.rank, other) == "inter")
        rate = math.prod(shape) / time.seconds / cuts.size
        first = rows[0].cells_per_second / rows[0].size if rows else rate
        rows.append(Row(ranks, shape, work, time, between, rate / first))
    return rows
