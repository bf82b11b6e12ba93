"""Where time goes: work is counted as it ends, and recorded event by event while somebody asks.

Code that takes time makes a tally once and marks its work with it::

    packing = spans.tally("pack")         # once, where it is kept

    start = spans.enter()
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
pair of calls costs four lines of Python. Local.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_clock = time.perf_counter

#: Start of a piece of work, to hand to `leave`. Local.
enter: Callable[[], float] = _clock


class Tally:
    """What one kind of work has come to since the program started.

    Attributes
    ----------
    name, label : str
        What is done, and by or for whom: the name of a kernel.
    cells, nbytes, messages : int
        What one call computes, moves and sends on this rank.
    calls : int
    seconds : float
    """

    __slots__ = ("calls", "cells", "label", "messages", "name", "nbytes", "seconds")

    def __init__(self, name: str, label: str, cells: int, nbytes: int, messages: int) -> None:
        self.name, self.label = name, label
        self.cells, self.nbytes, self.messages = cells, nbytes, messages
        self.calls, self.seconds = 0, 0.0


class Event(NamedTuple):
    """Something that took from `start` to `end`, in seconds."""

    name: str
    start: float
    end: float
    tally: Tally


#: All tallies of the process, by their name, label and what a call moves.
_tallies: dict[tuple[str, str, int, int, int], Tally] = {}
#: The recordings under way. A tuple, so that testing it is the whole cost when there is none.
_recordings: tuple[Recording, ...] = ()


def tally(
    name: str, label: str = "", *, cells: int = 0, nbytes: int = 0, messages: int = 0
) -> Tally:
    """The tally of this work, the same for the same arguments. Local."""
    key = (name, label, cells, nbytes, messages)
    found = _tallies.get(key)
    if found is None:
        found = _tallies[key] = Tally(*key)
    return found


def tallies() -> tuple[Tally, ...]:
    """All tallies, in the order in which they were made. Local."""
    return tuple(_tallies.values())


class Recording:
    """What happened while it was open.

    Attributes
    ----------
    began : float
    events : list of Event, in the order in which they ended
    """

    def __init__(self) -> None:
        self.began = _clock()
        self.events: list[Event] = []

    def named(self, name: str) -> list[Event]:
        """The events of one name. Local."""
        return [event for event in self.events if event.name == name]

    def seconds(self, name: str) -> float:
        """The time spent in all events of one name. Local."""
        return sum(event.end - event.start for event in self.named(name))


def leave(work: Tally, start: float) -> None:
    """The end of work that began at `start`. Local."""
    end = _clock()
    work.calls += 1
    work.seconds += end - start
    if _recordings:
        event = Event(work.name, start, end, work)
        for recording in _recordings:
            if start >= recording.began:
                recording.events.append(event)


class _Span:
    __slots__ = ("start", "tally")

    def __init__(self, work: Tally) -> None:
        self.tally = work

    def __enter__(self) -> None:
        self.start = enter()

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
