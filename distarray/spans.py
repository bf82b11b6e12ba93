"""The sink that timings are recorded into.

Code that takes time marks it; nothing is kept unless somebody records::

    start = spans.enter()
    ...                                   # pack
    spans.leave("pack", start)

    with spans.span("solve"):             # the same, for code that is not called a million times
        ...

    with spans.record() as recording:
        kernel(u, new)
    recording.seconds("wait")

Names in use, in the order of one kernel call: `pack`, `send`, `core`, `wait`, `unpack`, `fill` and
`remainder`, or `block` for a core and remainder computed at once; `graph` for many steps of a loop
that a device is given at once. Times are seconds of `time.perf_counter()`. On a device they are
those in which the host gives the work: `pack` and `unpack` to the communication stream (what a rank
copies from itself, to compute), `send` and `wait` to the communication stream where the transport
needs no host, all others to compute. Recordings may be nested: each sees everything inside it.
While nobody records, a pair of calls costs less than a microsecond. Local.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_clock = time.perf_counter

#: The recordings under way. A tuple, so that testing it is the whole cost when there is none.
_recordings: tuple[Recording, ...] = ()


class Event(NamedTuple):
    """Something that took from `start` to `end`, in seconds."""

    name: str
    start: float
    end: float


class Recording:
    """What happened while it was open.

    Attributes
    ----------
    events : list of Event, in the order in which they ended
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def named(self, name: str) -> list[Event]:
        """The events of one name. Local."""
        return [event for event in self.events if event.name == name]

    def seconds(self, name: str) -> float:
        """The time spent in all events of one name. Local."""
        return sum(event.end - event.start for event in self.named(name))


def enter() -> float:
    """The start of an event; hand it to `leave`. 0.0 when nobody records. Local."""
    return _clock() if _recordings else 0.0


def leave(name: str, start: float) -> None:
    """The end of an event that began at `start`. Local."""
    if _recordings and start:
        event = Event(name, start, _clock())
        for recording in _recordings:
            recording.events.append(event)


class _Span:
    __slots__ = ("name", "start")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.start = enter()

    def __exit__(self, *_: object) -> None:
        leave(self.name, self.start)


def span(name: str) -> _Span:
    """Mark the body of a `with` statement as one event. Local."""
    return _Span(name)


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
