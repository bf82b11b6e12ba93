"""What one rank computes and sends in a step of a loop, from the plans of the library. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from distarray.block import reads_of_offsets
from distarray.decomposition import Decomposition
from distarray.halo.plan import FieldRegions, HaloPlan
from distarray.layout import Layout
from distarray.regions import Box
from distarray.stencil import analysis
from distarray.stencil.expression import Program


@dataclass(frozen=True)
class Loop:
    """A step that is repeated.

    Attributes
    ----------
    name : str
    program : Program
    dtype : dtype
    rotate : positions of the arrays that change from step to step
        The halos of the others are fresh after the first step.
    reductions : int
        Sums over all ranks in a step.
    """

    name: str
    program: Program
    dtype: np.dtype
    rotate: tuple[int, ...]
    reductions: int = 0

    @property
    def bytes_per_cell(self) -> float:
        """That must move: each array read once, written once."""
        return analysis.bytes_per_cell(self.program)

    @property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """How far it reads below and above, along each axis."""
        widths = list(analysis.halo(self.program).values())
        return tuple(
            (max(w[axis][0] for w in widths), max(w[axis][1] for w in widths))
            for axis in range(self.program.ndim)
        )

    @property
    def halo(self) -> tuple[int, ...]:
        """Width of the halo along each axis."""
        return tuple(map(max, self.reach))


@dataclass(frozen=True)
class Traffic:
    """One step of one rank.

    Attributes
    ----------
    rank : int
    block : tuple of int
        Cells owned along each axis.
    memory : int
        Bytes of all arrays.
    core, remainder : int
        Cells computed during the exchange and after it.
    sends, receives : tuple of (rank, bytes)
    strips : tuple of (count, bytes)
        What lies together in arrays and is read or written when messages are packed and unpacked,
        or halos copied from the other end of a periodic axis that the rank holds whole.
    """

    rank: int
    block: tuple[int, ...]
    memory: int
    core: int
    remainder: int
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]
    strips: tuple[tuple[int, int], ...]


def traffic(loop: Loop, decomposition: Decomposition, rank: int) -> Traffic:
    """What a rank does in a step; the work does not grow with the number of ranks. Local."""
    fields = _fields(loop, decomposition)
    coords = decomposition.coords(rank)
    plan = HaloPlan.build(decomposition, coords, fields)
    owned = decomposition.owned(coords)
    core, computed = _core(loop, decomposition, rank, owned)
    return Traffic(
        rank=rank,
        block=owned.shape,
        memory=owned.size * loop.dtype.itemsize * len(loop.program.arrays),
        core=core.size,
        remainder=computed.size - core.size,
        sends=tuple((message.rank, message.nbytes) for message in plan.sends),
        receives=tuple((message.rank, message.nbytes) for message in plan.receives),
        strips=tuple(_strips(plan, loop.dtype.itemsize)),
    )


def _strips(plan: HaloPlan, itemsize: int) -> Iterator[tuple[int, int]]:
    """The rows of all boxes of memory that a plan names."""
    messages = (piece.box for m in (*plan.sends, *plan.receives) for piece in m.pieces)
    copies = (box for copy in plan.copies for box in (copy.source, copy.target))
    for box in (*messages, *copies):
        yield box.size // box.shape[-1], box.shape[-1] * itemsize


def _fields(loop: Loop, decomposition: Decomposition) -> list[FieldRegions]:
    """The arrays whose halos are stale at each step, and what is read of these."""
    ndim = decomposition.ndim
    layout = Layout(decomposition, (False,) * ndim, loop.halo, (), loop.dtype)
    found = []
    for position, offsets in enumerate(analysis.offsets(loop.program)):
        reads = reads_of_offsets(offsets)
        if reads and position in loop.rotate:
            found.append((layout, reads))
    return found


def _core(loop: Loop, decomposition: Decomposition, rank: int, owned: Box) -> tuple[Box, Box]:
    """The cells computed without messages, and all that are computed: not those next to an end of
    the domain.
    """
    core = computed = owned
    coords = decomposition.coords(rank) or ()
    for axis, (low, high) in enumerate(loop.reach):
        parts, wraps = decomposition.ranks[axis], decomposition.periodic[axis]
        first, last = coords[axis] == 0, coords[axis] == parts - 1
        start, stop = owned.start[axis], owned.stop[axis]
        ends = (low if first and not wraps else 0, high if last and not wraps else 0)
        computed = computed.with_axis(axis, start + ends[0], max(start + ends[0], stop - ends[1]))
        below, above = (low, high) if parts > 1 else ends
        core = core.with_axis(axis, start + below, max(start + below, stop - above))
    return core, computed


def sampled(size: int, most: int = 96) -> Sequence[int]:
    """All ranks, or so many spread over them by the golden ratio, which no pattern of blocks or
    nodes is in step with; corners among them. Local.
    """
    if size <= most:
        return range(size)
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    spread = (int(size * math.modf(n * ratio)[0]) for n in range(most - 1))
    return sorted({*spread, size - 1})
