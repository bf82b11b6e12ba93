"""Actions timed in turn on the ranks of a communicator."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from distarray.comm import Communicator

Act = Callable[[], object]


@dataclass(frozen=True)
class Sizes:
    """What a run measures: sizes, and how often.

    Attributes
    ----------
    cells : int
        Along each axis of large cubes.
    block : int
        Along each axis of the block of a rank whose halo is exchanged.
    steps : int
        Of a loop, in one measurement.
    repeat : int
        Measurements of each action, of which the median is taken.
    mebibytes : int
        Of a checkpoint.
    folder : str or None
        For its file.
    """

    cells: int
    block: int
    steps: int
    repeat: int
    mebibytes: int
    folder: str | None


def in_turn(
    communicator: Communicator,
    repeat: int,
    acts: Mapping[str, Act],
    *,
    calls: int = 1,
    single: tuple[str, ...] = (),
) -> dict[str, float]:
    """The median time of each action, after one round to warm up. Collective.

    Parameters
    ----------
    acts : mapping of name to action
        All ranks begin each together, and the slowest counts.
    calls : int
        Of an action, in one measurement; its time is that of one.
    single : names of actions
        Of which ranks do their own: the mean counts.
    """
    times = np.zeros((repeat + 1, len(acts)))
    for round_ in range(repeat + 1):
        for number, act in enumerate(acts.values()):
            communicator.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                act()
            times[round_, number] = (time.perf_counter() - began) / calls
    slowest = communicator.allreduce(times, "max")
    mean = communicator.allreduce(times, "sum") / communicator.size
    return {
        name: statistics.median(float(t) for t in (mean if name in single else slowest)[1:, number])
        for number, name in enumerate(acts)
    }


@contextmanager
def pinned(rank: int) -> Iterator[None]:
    """Keep this process on one core, where the system lets it. Local."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def load() -> float | None:
    """The load average of the last minute, where the system tells it. Local."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # a system without it, or one that hides it
        return None


def load_line(start: float | None, end: float | None) -> str:
    """How busy the machine was, as far as the system tells it. Local."""
    if start is None or end is None:
        return "load average unknown"
    return f"load average {start:.2f} at the start, {end:.2f} at the end, {os.cpu_count()} cores"
