"""What a program has computed, moved and waited for so far, beside what the machine can do.

The figures come from the tallies of `spans`, which count all work since the program started, so
that nothing has to be switched on. Ranks add theirs up by reductions: a report of ten thousand
ranks is as long, and takes as many messages, as one of two.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from distarray import spans
from distarray.comm import default
from distarray.comm.base import Communicator
from distarray.errors import ArrayError, shown
from distarray.tuning import store

#: What is computed; the others are communication and files.
_COMPUTE = ("core", "remainder", "block", "graph", "tile", "expression")
#: Bytes of the array that is copied to learn what the memory can do: more than caches hold.
_COPIED = 1 << 26
_REPEATS = 3
_MOST = sys.float_info.max


@dataclass(frozen=True)
class KernelReport:
    """One kernel, of all ranks together.

    Attributes
    ----------
    name : str
    calls : int
        The most passes over memory that a rank made.
    steps : int
        The most times that a rank computed the points of the kernel: as many as passes, but for
        those that make several steps or one colour. What a pass over several kernels comes to, is
        said of the first of them.
    cells : int
        Computed, by all ranks.
    seconds : float
        Of the rank that took longest.
    cells_per_second : float
    bandwidth : float
        Bytes per second and rank that had to move: each array read once, written once.
    share : float
        Of the bandwidth at which arrays are copied; above 1 where the cache serves.
    """

    name: str
    calls: int
    steps: int
    cells: int
    seconds: float
    cells_per_second: float
    bandwidth: float
    share: float


@dataclass(frozen=True)
class Report:
    """What all ranks did; `print(report)` or `da.log(report)` shows it as a table.

    Attributes
    ----------
    ranks : int
    kernels : tuple of KernelReport
        The costliest first.
    copy_bandwidth : float
        Bytes per second, read and written, at which a rank copies an array while all do: the mean.
    imbalance : float
        By how much of the mean the rank that computed longest exceeds it.
    exchanges, messages, nbytes : int
        Exchanges of a rank that has most, and messages and bytes sent by all ranks.
    messages_per_exchange, bytes_per_exchange : float
        Of a rank, on average.
    steps : int
        Of the kernel that made most: those of the time loop, if a step of it calls that kernel
        once.
    messages_per_step, bytes_per_step : float
        Of a rank, on average.
    waited : float
        Seconds that a rank waited for messages, on average.
    hidden : float
        Share of the time with messages under way in which the rank did not wait for them; nan
        without messages.
    slowest : int
        The rank that computed longest.
    memory : int
        Bytes of host memory at their peak, of the rank that had most.
    tuned : tuple of str
        What was chosen by measuring, such as "tile 8 for heat": kept by `python -m distarray tune`,
        or found by a trial in this program; on rank 0, where ranks differ.
    """

    ranks: int
    kernels: tuple[KernelReport, ...]
    copy_bandwidth: float
    imbalance: float
    exchanges: int
    messages: int
    nbytes: int
    messages_per_exchange: float
    bytes_per_exchange: float
    steps: int
    messages_per_step: float
    bytes_per_step: float
    waited: float
    hidden: float
    slowest: int
    memory: int
    tuned: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain values, for JSON. Local."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{'kernel':<24}{'passes':>9}{'steps':>9}{'cells':>12}{'time':>10}{'cells/s':>11}"
            f"{'GB/s a rank':>13}{'of copying':>12}"
        ]
        lines += [
            f"{k.name[:23]:<24}{k.calls:>9}{k.steps:>9}{k.cells:>12.4g}{k.seconds:>9.3g}s"
            f"{k.cells_per_second:>11.3g}{k.bandwidth / 1e9:>13.3g}{k.share:>11.0%}"
            for k in self.kernels
        ]
        lines += [
            f"Copying an array: {self.copy_bandwidth / 1e9:.3g} GB/s a rank, read and written",
            f"Load: rank {self.slowest} computed longest, {self.imbalance:.1%} above the mean of "
            f"{_counted(self.ranks, 'rank')}",
            self._communication(),
            f"Memory: at most {self.memory / 2**20:.0f} MiB on a host process",
            *(f"Tuned: {text}" for text in self.tuned),
        ]
        return "\n".join(lines)

    def _communication(self) -> str:
        if not self.messages:
            return "Communication: no halo messages"
        step = (
            f", in a step {self.messages_per_step:.3g} and {self.bytes_per_step:.3g}"
            if self.steps
            else ""
        )
        return (
            f"Communication: {_counted(self.exchanges, 'exchange')}, each "
            f"{_counted(self.messages_per_exchange, 'message')} and "
            f"{_counted(self.bytes_per_exchange, 'byte')} a rank{step}; {self.hidden:.0%} of the "
            f"time under way hidden, {self.waited:.3g} s waited"
        )


def _counted(number: float, noun: str) -> str:
    """As "1 message" and "1.5 messages"."""
    text = f"{number:.3g}" if isinstance(number, float) else f"{number}"
    return f"{text} {noun}{'s' * (text != '1')}"


def report(comm: Any = None, *, copy_bandwidth: float | None = None) -> Report:
    """What the program has done so far. Collective.

    Takes about a tenth of a second, in which all ranks copy an array to learn the speed of their
    memory, unless that is given. What a device does counts with the time in which the host gives
    it the work, so that the bandwidth of kernels is meaningful on the CPU only.

    Parameters
    ----------
    comm : mpi4py communicator or Communicator, optional
        Whose ranks are added up; by default those of the world if there is one.
    copy_bandwidth : float, optional
        What an earlier report found, above 0. All ranks give it, or none.

    Raises
    ------
    ArrayError
        A bandwidth that is no number above 0.

    Examples
    --------
    >>> import distarray as da
    >>> u = da.Grid((8, 8), periodic=True).ones()
    >>> @da.stencil
    ... def mean(u, new):
    ...     new[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])
    >>> mean(u, u.copy())
    >>> da.report().kernels[-1].name
    'mean'
    """
    communicator = default(comm)
    if copy_bandwidth is not None:
        copy_bandwidth = _checked(copy_bandwidth)
    tallies = [one for one in spans.tallies() if one.calls]
    bandwidth = _copy_bandwidth(communicator) if copy_bandwidth is None else copy_bandwidth
    computed = _seconds(tallies, _COMPUTE)
    total, most = _sum(communicator, [computed]), _most(communicator, [computed])
    slowest = communicator.rank if computed == most[0] else communicator.size
    exchanges = [one for one in tallies if one.name == "exchange"]
    sent = [
        sum(one.calls for one in exchanges),
        sum(one.calls * one.messages for one in exchanges),
        sum(one.calls * one.nbytes for one in exchanges),
        _seconds(exchanges),
        _seconds(tallies, ("wait",)),
    ]
    count, messages, nbytes, under_way, waited = _sum(communicator, sent)
    mean = total[0] / communicator.size
    kernels = _kernels(communicator, tallies, bandwidth)
    steps = max((kernel.steps for kernel in kernels), default=0)
    each = 1.0 / (steps * communicator.size) if steps else 0.0
    return Report(
        ranks=communicator.size,
        kernels=kernels,
        copy_bandwidth=bandwidth,
        imbalance=most[0] / mean - 1.0 if mean else 0.0,
        exchanges=int(_most(communicator, sent[:1])[0]),
        messages=int(messages),
        nbytes=int(nbytes),
        messages_per_exchange=messages / count if count else 0.0,
        bytes_per_exchange=nbytes / count if count else 0.0,
        steps=steps,
        messages_per_step=messages * each,
        bytes_per_step=nbytes * each,
        waited=waited / communicator.size,
        hidden=1.0 - waited / under_way if under_way else float("nan"),
        slowest=-int(_most(communicator, [-slowest])[0]),
        memory=int(_most(communicator, [_peak_memory()])[0]),
        tuned=communicator.bcast(store.used()),  # groups of ranks may have measured otherwise
    )


def _checked(bandwidth: Any) -> float:
    number = isinstance(bandwidth, int | float | np.integer | np.floating)
    if not number or isinstance(bandwidth, bool) or not 0.0 < bandwidth <= _MOST:
        raise ArrayError(
            f"copy_bandwidth of report must be a number above 0, got {shown(bandwidth)}; pass what "
            "an earlier report found, or leave it out."
        )
    return float(bandwidth)


def _kernels(
    communicator: Communicator, tallies: Sequence[spans.Tally], copying: float
) -> tuple[KernelReport, ...]:
    """The kernels that rank 0 knows, the costliest first: all ranks call the same."""
    own: dict[str, list[float]] = {}
    none = [0.0] * 5
    for one in tallies:
        if one.name in _COMPUTE and one.label:
            per_call = (one.name != "remainder", one.sweeps, one.cells, one.nbytes)
            work = (*(one.calls * number for number in per_call), one.seconds)
            before = own.get(one.label, none)
            own[one.label] = [a + b for a, b in zip(before, work, strict=True)]
    names: list[str] = communicator.bcast(list(own))
    values = [number for name in names for number in own.get(name, none)]
    sums, most = _sum(communicator, values), _most(communicator, values)
    rows = []
    for number, name in enumerate(names):
        mine = slice(5 * number, 5 * number + 5)
        (calls, steps, _, _, seconds), (_, _, cells, nbytes, _) = most[mine], sums[mine]
        rate = 1.0 / seconds if seconds else 0.0
        speed = nbytes * rate / communicator.size
        rows.append(
            KernelReport(
                name=name,
                calls=int(calls),
                steps=round(steps),
                cells=int(cells),
                seconds=seconds,
                cells_per_second=cells * rate,
                bandwidth=speed,
                share=speed / copying,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _seconds(tallies: Iterable[spans.Tally], names: Sequence[str] = ()) -> float:
    return sum(one.seconds for one in tallies if not names or one.name in names)


def _sum(communicator: Communicator, values: Sequence[float]) -> list[float]:
    return [float(v) for v in communicator.allreduce(np.array(values, float), "sum")]


def _most(communicator: Communicator, values: Sequence[float]) -> list[float]:
    return [float(v) for v in communicator.allreduce(np.array(values, float), "max")]


def _copy_bandwidth(communicator: Communicator) -> float:
    """Bytes per second, read and written, of one rank while all copy. Collective."""
    source, target = np.ones(_COPIED, np.uint8), np.zeros(_COPIED, np.uint8)
    communicator.barrier()
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return _sum(communicator, [2 * _COPIED / best])[0] / communicator.size


def _peak_memory() -> int:
    """Bytes of host memory that this process held at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
