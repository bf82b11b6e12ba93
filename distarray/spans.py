"""Where time goes: work is counted as it ends, and recorded event by event while somebody asks.

Code that takes time makes a tally once and marks its work with it::

    packing = spans.tally("pack")         # once, where it is kept

    start = spans.enter(packing)
    ...                                   # pack
    spans.leave(packing, start)

    with spans.span("write"):             # the same, for code that is not called a million times
        ...

    with spans.record() as recording:
        kernel(u, new)
    recording.seconds("wait")

Names in use, in the order of one kernel call: `pack`, `send`, `core`, `wait`, `unpack`, `fill` and
`remainder`, or `block` for a core and remainder computed at once; `exchange` for the time from the
start of messages to their arrival; `graph` for many steps of a loop that a device is given at once,
`tile` for several that the CPU makes in one pass over memory; `reduce` for waiting for a reduction;
`expression` for a pass over the arrays of one; `write` and `read` for files, as far as they hold
the run (threads do not count). Times are seconds of `time.perf_counter()`. On a device they are
those in which the host gives the work: `pack` and `unpack` to the communication stream (what a rank
copies from itself, to compute), `send` and `wait` to the communication stream where the transport
needs no host, all others to compute. Recordings may be nested: each sees everything inside it. A
pair of calls costs eight lines of Python. Local.

On a GPU each piece of work is also a range of NVTX by its name and label, which Nsight shows beside
the kernels that were given in it: always, since a range costs a few tenths of a microsecond where
no profiler listens. Ranges nest as work does; `exchange` overlaps other work, and is a range that
is started and ended by its number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_clock = time.perf_counter

#: Work that goes on while other work begins and ends.
OVERLAPPING = ("exchange",)


class Tally:
    """What one kind of work has come to since the program started.

    Attributes
    ----------
    name, label : str
        What is done, and by or for whom: the name of a kernel.
    title : str
        Both.
    cells, nbytes, messages : int
        What one call computes, moves and sends on this rank.
    sweeps : float
        How often one call goes over all points of a kernel: as often as it makes steps, by its part
        for one of several colours, and not at all for a remainder, which counts with its core.
    calls : int
    seconds : float
    """

    __slots__ = (
        "calls", "cells", "label", "messages", "name", "nbytes", "seconds", "sweeps", "title",
    )  # fmt: skip

    def __init__(
        self, name: str, label: str, *, cells: int, nbytes: int, messages: int, sweeps: float
    ) -> None:
        self.name, self.label, self.sweeps = name, label, sweeps
        self.title = f"{name} {label}".rstrip()
        self.cells, self.nbytes, self.messages = cells, nbytes, messages
        self.calls, self.seconds = 0, 0.0


class Event(NamedTuple):
    """Something that took from `start` to `end`, in seconds."""

    name: str
    start: float
    end: float
    tally: Tally


#: All tallies of the process, by the arguments of `tally`.
_tallies: dict[tuple[Any, ...], Tally] = {}
#: The recordings under way. A tuple, so that testing it is the whole cost when there is none.
_recordings: tuple[Recording, ...] = ()
#: What shows ranges to a profiler, if anything does.
_ranges: Ranges | None = None


def tally(
    name: str,
    label: str = "",
    *,
    cells: int = 0,
    nbytes: int = 0,
    messages: int = 0,
    sweeps: float = 0.0,
) -> Tally:
    """The tally of this work, the same for the same arguments. Local."""
    key = (name, label, cells, nbytes, messages, sweeps)
    found = _tallies.get(key)
    if found is None:
        found = _tallies[key] = Tally(
            name, label, cells=cells, nbytes=nbytes, messages=messages, sweeps=sweeps
        )
    return found


def tallies() -> tuple[Tally, ...]:
    """All tallies, in the order in which they were made. Local."""
    return tuple(_tallies.values())


class Recording:
    """What happened while it was open.

    Attributes
    ----------
    began : float
    """

    def __init__(self) -> None:
        self.began = _clock()
        # Work, start and end of one event after the other: numbers are no work for the collector.
        self._kept: list[Any] = []

    def keep(self, work: Tally, start: float, end: float) -> None:
        """Note an event, unless it began earlier. Local."""
        if start >= self.began:
            self._kept += (work, start, end)

    @property
    def events(self) -> list[Event]:
        """What was noted, in the order in which it ended."""
        triples = zip(*(self._kept[place::3] for place in range(3)), strict=True)
        return [Event(work.name, start, end, work) for work, start, end in triples]

    def named(self, name: str) -> list[Event]:
        """The events of one name. Local."""
        return [event for event in self.events if event.name == name]

    def seconds(self, name: str) -> float:
        """The time spent in all events of one name. Local."""
        return sum(event.end - event.start for event in self.named(name))


class Ranges(threading.local):
    """Shows work to a profiler, in each thread for itself.

    Parameters
    ----------
    push, pop : functions
        Begin a range of a name inside those that are open; end the innermost.
    start, end : functions
        Begin a range of a name, which may overlap others; end the one for which that gave this
        number.
    """

    def __init__(
        self,
        push: Callable[[str], object],
        pop: Callable[[], object],
        start: Callable[[str], int],
        end: Callable[[int], object],
    ) -> None:
        self._push, self._pop, self._start, self._end = push, pop, start, end
        self._open: list[float] = []
        self._overlapping: dict[float, int] = {}

    def enter(self, work: Tally, start: float) -> None:
        """Begin the range of work that began at `start`. Local."""
        if work.name in OVERLAPPING:
            self._overlapping[start] = self._start(work.title)
        else:
            self._push(work.title)
            self._open.append(start)

    def leave(self, work: Tally, start: float) -> None:
        """End the range of this work, and those inside it that an error left open. Local."""
        if work.name in OVERLAPPING:
            if start in self._overlapping:
                self._end(self._overlapping.pop(start))
        elif start in self._open:
            last = None
            while last != start:
                self._pop()
                last = self._open.pop()


def show_ranges(ranges: Ranges | None) -> None:
    """Show all work from now on to a profiler; None to end that. Local."""
    global _ranges  # noqa: PLW0603 - the one of the process
    _ranges = ranges


def enter(work: Tally) -> float:
    """The start of work, to hand to `leave`. Local."""
    start = _clock()
    if _ranges is not None:
        _ranges.enter(work, start)
    return start


def leave(work: Tally, start: float) -> None:
    """The end of work that began at `start`. Local."""
    end = _clock()
    work.calls += 1
    work.seconds += end - start
    if _recordings:
        for recording in _recordings:
            recording.keep(work, start, end)
    if _ranges is not None:
        _ranges.leave(work, start)


class _Span:
    __slots__ = ("start", "tally")

    def __init__(self, work: Tally) -> None:
        self.tally = work

    def __enter__(self) -> None:
        self.start = enter(self.tally)

    def __exit__(self, *_: object) -> None:
        leave(self.tally, self.start)


def span(name: str, label: str = "") -> _Span:
    """Mark the body of a `with` statement as one piece of work. Local."""
    return _Span(tally(name, label))


@contextmanager
def record() -> Iterator[Recording]:
    """Record all events inside a `with` statement. Local."""
    global _recordings  # noqa: PLW0603 - the one sink of the process
    mine = Recording()
    _recordings = (*_recordings, mine)
    try:
        yield mine
    finally:
        _recordings = tuple(other for other in _recordings if other is not mine)
