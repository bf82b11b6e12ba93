"""The inputs of the model measured on this machine, and steps measured beside their predictions.

Measured is what the model takes, by the means of the package: copies of arrays of several sizes
while all ranks copy; messages between pairs of ranks, both ways at once, of several sizes; steps on
a block of a few cells, alone and on all ranks; and one larger block alone, which says what share of
the speed of copies the kernel has. All other steps are predicted from these.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from distarray.comm import SerialCommunicator
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition, factorisations
from distarray.errors import DecompositionError
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.model.machine import Link, Machine
from distarray.model.step import slowest, step_time
from distarray.model.traffic import Loop, traffic
from distarray.tuning.kernels import Case

#: Bytes, of both arrays together, that are copied.
_COPIED = (1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 25, 1 << 27)
#: Bytes of messages.
_SENT = (8, 1 << 13, 1 << 15, 1 << 17, 1 << 19)
#: Cells along each axis of blocks: so few that the call is all, and the one that gives the share.
_TINY, _LARGE = 6, 96
#: Seconds that one measurement takes at least, and measurements of which the median counts.
_LEAST, _REPEAT = 0.03, 5


@dataclass(frozen=True)
class Comparison:
    """One loop, predicted and measured: seconds of a step of the slowest rank."""

    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {**asdict(self), "ratio": self.ratio}


def this_machine(case: Case, loop: Loop, communicator: Communicator) -> Machine:
    """The inputs as measured. Collective."""
    memory = tuple((float(n), _copy_speed(n, communicator)) for n in _COPIED)
    call = _mean(_step(case, loop, _TINY, SerialCommunicator()), communicator)
    overhead = 0.0
    link = Link(0.0, memory[-1][1] / 2)  # a rank alone sends nothing; a copy is read and written
    if communicator.size > 1:
        link = _link(communicator)
        overhead = max(0.0, _step(case, loop, _TINY, communicator) - call - link.latency)
    machine = Machine(
        name="this machine",
        memory=memory,
        share=1.0,
        intra=link,
        inter=link,
        ranks_per_node=communicator.size,
        overhead=overhead / _messages(loop, communicator),
        call=call,
        line=64,
        overlap=0.0,  # cores move the bytes of messages here
    )
    return replace(machine, share=_share(case, loop, machine, communicator))


def compare(
    case: Case,
    loop: Loop,
    machine: Machine,
    communicator: Communicator,
    shapes: Sequence[Sequence[int]],
) -> list[Comparison]:
    """Steps on all ranks, predicted and measured, for each shape and each way to cut one axis or
    several. Collective.
    """
    found = []
    for shape in shapes:
        for ranks in factorisations(communicator.size, len(shape)):
            try:
                cuts = Decomposition(shape, ranks, periodic=True, halo=loop.halo)
            except DecompositionError:
                continue
            _, predicted = slowest(loop, cuts, machine)
            seconds = _measured(case, loop, shape, communicator, ranks)
            found.append(Comparison(tuple(shape), ranks, predicted.seconds, seconds))
    return found


def steadiness(machine: Machine, communicator: Communicator) -> float:
    """The speed of the largest copies now, as a share of what was measured. Collective."""
    nbytes, speed = machine.memory[-1]
    return _copy_speed(int(nbytes), communicator) / speed


def _messages(loop: Loop, communicator: Communicator) -> int:
    """Messages of a rank in a step on a small block."""
    cuts = _cut(loop, _TINY, communicator.size)
    return max(1, len(traffic(loop, cuts, 0).sends))


def _cut(loop: Loop, cells: int, size: int) -> Decomposition:
    """Blocks of so many cells along each axis, at least of two halos, cut along the first."""
    block = [max(cells, 2 * width) for width in loop.halo]
    ranks = (size, *(1 for _ in block[1:]))
    return Decomposition((block[0] * size, *block[1:]), ranks, periodic=True, halo=loop.halo)


def _step(case: Case, loop: Loop, cells: int, communicator: Communicator) -> float:
    cuts = _cut(loop, cells, communicator.size)
    return _measured(case, loop, cuts.shape, communicator, cuts.ranks)


def _measured(
    case: Case, loop: Loop, shape: Sequence[int], communicator: Communicator, ranks: Sequence[int]
) -> float:
    """Seconds of a step of the slowest rank. Collective."""
    grid = Grid(shape, periodic=True, halo=loop.halo, ranks=ranks, comm=communicator, device="cpu")
    arrays = case.arrays(grid, loop.dtype)

    def run(steps: int) -> None:
        iterate(case.kernel, *arrays, steps=steps, rotate=case.rotate, tile=1, **case.scalars)

    return _timed(run, communicator)


def _share(case: Case, loop: Loop, machine: Machine, communicator: Communicator) -> float:
    """The share of the speed of copies that the kernel has, on one block alone while all ranks
    have one.
    """
    alone = SerialCommunicator()
    cuts = _cut(loop, _LARGE, 1)
    communicator.barrier()
    seconds = _measured(case, loop, cuts.shape, alone, cuts.ranks)
    parts = step_time(loop, traffic(loop, cuts, 0), machine, 1)
    compute = parts.core + parts.remainder
    share = compute / max(seconds - (parts.seconds - compute), 1e-3 * seconds)
    return _mean(share, communicator)


def _copy_speed(nbytes: int, communicator: Communicator) -> float:
    """Bytes per second, read and written, of a rank while all copy: the mean. Collective."""
    source = np.ones(nbytes // 2, np.uint8)
    target = source.copy()

    def run(times: int) -> None:
        for _ in range(times):
            np.copyto(target, source)

    return nbytes / _timed(run, communicator)


def _link(communicator: Communicator) -> Link:
    """Latency and bandwidth of messages between pairs of ranks, both ways at once. Collective.

    The bandwidth is that of the bytes beyond the shortest message, from the largest ones.
    """
    rank, size = communicator.rank, communicator.size
    other = rank ^ 1
    seconds = []
    for nbytes in _SENT:
        pair = [] if other >= size else [(other, np.zeros(nbytes, np.uint8))]
        exchange = communicator.prepare_exchange(
            pair, [(o, np.zeros(nbytes, np.uint8)) for o, _ in pair]
        )

        def run(times: int, exchange: Any = exchange) -> None:
            for _ in range(times):
                exchange.start().wait()

        seconds.append(_timed(run, communicator))
    slope = (seconds[-1] - seconds[0]) / (_SENT[-1] - _SENT[0])
    return Link(seconds[0], 1.0 / max(slope, 1e-15))


def _timed(run: Callable[[int], None], communicator: Communicator) -> float:
    """Seconds of one of many: the median of measurements of the slowest rank. Collective."""
    times = 2
    run(times)  # plans, and what the caches hold
    while True:  # as often as to take long enough; ranks agree on it
        start = time.perf_counter()
        run(times)
        if _most(time.perf_counter() - start, communicator) >= _LEAST:
            break
        times *= 4
    found = []
    for _ in range(_REPEAT):
        communicator.barrier()
        start = time.perf_counter()
        run(times)
        found.append(_most(time.perf_counter() - start, communicator) / times)
    return statistics.median(found)


def _most(value: float, communicator: Communicator) -> float:
    return float(communicator.allreduce(np.array([value]), "max")[0])


def _mean(value: float, communicator: Communicator) -> float:
    return float(communicator.allreduce(np.array([value]), "sum")[0]) / communicator.size
