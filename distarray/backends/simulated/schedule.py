"""Streams and events of the simulated device: work that is put off for as long as it may be.

A stream's work waits in a queue until somebody must see its effects. Then the work that has to come
before is run, and nothing else, in a random order that keeps what streams and events declare. Each
piece of work has a vector clock: how much of every stream, its own included, comes before it. What
the host has waited for comes before all that it gives from then on.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from distarray.backends.base import Event
from distarray.backends.driver import Access
from distarray.backends.simulated.clocks import Clock, joined, with_count
from distarray.backends.simulated.memory import Memory, Record
from distarray.backends.simulated.races import HOST, race
from distarray.errors import BackendError

if TYPE_CHECKING:
    from distarray.backends.simulated.capture import Capture

#: Pieces of work that wait at most; beyond, some are run.
LIMIT = 2000
#: Memory that is allocated at most before all that waits, and holds memory, is run.
MOST_BYTES = 1 << 28


@dataclass(slots=True)
class Work:
    """What a stream is given.

    Attributes
    ----------
    function : callable
        Does it.
    accesses : sequence of Access
        What it touches, on the device and in pinned memory.
    name : str
        For reports.
    prepare : callable, optional
        Called when the work is given, once all that comes before it has run, with `captured`.
    captured : bool
        Whether a graph gives it.
    """

    function: Callable[[], object]
    accesses: Sequence[Access]
    name: str
    prepare: Callable[[bool], None] | None = None
    captured: bool = False


class Waiting(NamedTuple):
    """Work that has not run, the clock of what comes before it, and the memory that it touches."""

    clock: Clock
    function: Callable[[], object]
    name: str
    memories: list[Memory]


class SimulatedEvent:
    """A mark in the work of a stream."""

    __slots__ = ("_schedule", "captured", "clock")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        #: What comes before the mark; None before it was recorded.
        self.clock: Clock | None = None
        #: The capture in which it was recorded last.
        self.captured: object | None = None

    def synchronize(self) -> None:
        """Run what comes before the mark. Local."""
        self._refuse_captured()
        if self.clock is not None:
            self._schedule.synchronize(self.clock)

    def done(self) -> bool:
        """Whether all before the mark has run; if not, some of it is run now. Local."""
        self._refuse_captured()
        if self.clock is None:
            return True
        if self._schedule.covers(self.clock):
            self._schedule.synchronize(self.clock)
            return True
        self._schedule.run_one(self.clock)
        return False

    def _refuse_captured(self) -> None:
        if self.captured is not None:
            raise BackendError(
                "The host cannot wait for an event that was recorded while work was captured; "
                "record it again outside the graph."
            )


class SimulatedStream:
    """A queue of work; see `base.Stream`. All methods are Local.

    Attributes
    ----------
    lane : int
        Its place in clocks.
    pointer : int
        Its handle, as other libraries take it.
    clock : tuple of int
        What comes before the next piece of work.
    queue : deque
        Work that has not run.
    """

    def __init__(self, schedule: Schedule, name: str, lane: int) -> None:
        self.name = name
        self.lane = lane
        self.pointer = lane + 1
        self.clock: Clock = ()
        self.queue: deque[Waiting] = deque()
        #: What the host knew when `clock` last took it in.
        self.host: Clock = ()
        self._schedule = schedule

    def record(self, event: Event) -> None:
        """Let the event stand for all work given so far, in a capture for what it keeps. Local."""
        mark = cast("SimulatedEvent", event)
        capture = self._schedule.capture
        if capture is not None and capture.has(self):
            capture.record(self, mark)
        else:
            mark.clock = self.clock
            mark.captured = None

    def wait(self, event: Event) -> None:
        """Let what is given from now on come after the event. Local.

        Raises
        ------
        BackendError
            The event was recorded within a capture, and this is outside.
        """
        mark = cast("SimulatedEvent", event)
        capture = self._schedule.capture
        if capture is not None and (capture.has(self) or mark.captured is capture):
            capture.wait(self, mark)
        elif mark.captured is not None:
            raise BackendError(
                f"The stream {self.name} cannot wait for an event that was recorded while work was "
                "captured; record it again outside the graph."
            )
        elif mark.clock is not None:
            self.clock = joined(self.clock, mark.clock)

    def synchronize(self) -> None:
        """Run all work given to this stream, and what that waits for. Local.

        Raises
        ------
        BackendError
            The stream's work is being captured.
        """
        capture = self._schedule.capture
        if capture is not None and capture.has(self):
            raise capture.refusal(f"wait for the stream {self.name}")
        self._schedule.synchronize(self.clock)

    def give(self, work: Work) -> None:
        """Put work off, or keep it for a graph. Local.

        Raises
        ------
        RaceError
            Work that conflicts with it has no order with it.
        """
        capture = self._schedule.capture
        if capture is not None and capture.has(self):
            capture.give(self, work)
        else:
            self._schedule.give(self, work)


@dataclass
class Statistics:
    """Counts since the device was made.

    Attributes
    ----------
    given, run : int
        Pieces of work.
    waiting : int
        Most pieces that waited at once.
    synchronizations : int
        Times that the host waited.
    """

    given: int = 0
    run: int = 0
    waiting: int = 0
    synchronizations: int = 0


class Schedule:
    """The streams of a device and what has run.

    Parameters
    ----------
    names : sequence of str
        Of the streams.
    seed : int
        Of the order in which work runs where it is free.
    """

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self.streams = [SimulatedStream(self, name, lane) for lane, name in enumerate(names)]
        self.lanes = len(names)
        nothing = (0,) * self.lanes
        for stream in self.streams:
            stream.clock = nothing
        #: What the host knows to be done.
        self.host: Clock = nothing
        self.capture: Capture | None = None
        self.statistics = Statistics()
        self._ran = list(nothing)
        self._random = Random(seed)
        self._running: str | None = None
        self._allocated = 0

    def random(self) -> float:
        """A number from 0 to 1, of the seed's sequence. Local."""
        return self._random.random()

    def give(self, stream: SimulatedStream, work: Work) -> None:
        """Put work of a stream off; see `SimulatedStream.give`. Local."""
        lane, name = stream.lane, work.name
        if stream.host is not self.host:
            stream.host = self.host
            stream.clock = joined(stream.clock, self.host)
        clock = stream.clock
        memories = [cast("Memory", access.allocation).memory for access in work.accesses]
        for access, memory in zip(work.accesses, memories, strict=True):
            found = memory.unordered(access, clock, lane)
            if found is not None:
                raise self._race(name, stream.name, access, found)
        if work.prepare is not None:
            self.run_until(clock)
            work.prepare(work.captured)
        # Work that waits keeps memory, but keeps it from nobody else.
        stream.queue.append(Waiting(clock, work.function, name, memories))
        index, known = clock[lane] + 1, self.host[lane]
        stream.clock = with_count(clock, lane, index)
        for access, memory in zip(work.accesses, memories, strict=True):
            memory.add(access, lane, index, name, known)
        self._count()

    def _count(self) -> None:
        statistics = self.statistics
        statistics.given += 1
        waiting = statistics.given - statistics.run
        statistics.waiting = max(statistics.waiting, waiting)
        if waiting > LIMIT:
            everything = self._everything()
            for _ in range(LIMIT // 2):
                self.run_one(everything)

    def allocated(self, nbytes: int) -> None:
        """Run what waits if it may hold back too much memory, now that more is taken. Local."""
        self._allocated += nbytes
        if self._allocated > MOST_BYTES:
            self._allocated = 0
            self.run_until(self._everything())

    def check_host(self, access: Access, what: str) -> None:
        """Raise if the host touches memory that work may still use. Local."""
        found = cast("Memory", access.allocation).memory.unordered(access, self.host, -1)
        if found is not None:
            raise self._race(what, HOST, access, found)

    def _race(
        self, name: str, stream: str, access: Access, found: tuple[int, Record]
    ) -> BackendError:
        lane, record = found
        return race(
            later=name,
            later_stream=stream,
            later_writes=access.write,
            earlier=record.name,
            earlier_stream=self.streams[lane].name,
            earlier_writes=record.write,
            place=cast("Memory", access.allocation).memory.kind,
        )

    def synchronize(self, clock: Clock) -> None:
        """Let the host wait for what comes before a clock. Local."""
        self.statistics.synchronizations += 1
        self.run_until(clock)
        self.host = joined(self.host, clock)

    def finish(self) -> None:
        """Run everything. Local."""
        self.synchronize(self._everything())

    def _everything(self) -> Clock:
        return tuple(stream.clock[stream.lane] for stream in self.streams)

    def covers(self, clock: Clock) -> bool:
        """Whether all that comes before a clock has run. Local."""
        return all(map(operator.ge, self._ran, clock))

    def run_until(self, clock: Clock) -> None:
        """Run what comes before a clock and has not run yet, and nothing else. Local."""
        while self.run_one(clock):
            pass

    def run_one(self, clock: Clock) -> bool:
        """Run one piece of what comes before a clock; whether there was one. Local."""
        ran = self._ran
        free = [
            stream
            for stream in self.streams
            if ran[stream.lane] < clock[stream.lane] and self.covers(stream.queue[0].clock)
        ]
        if not free:
            return False
        self._run(free[0] if len(free) == 1 else self._random.choice(free))
        return True

    def _run(self, stream: SimulatedStream) -> None:
        if self._running is not None:
            raise BackendError(
                f"'{self._running}' is work of a stream and cannot wait for other work; let the "
                "host wait before it gives the work."
            )
        work = stream.queue.popleft()
        self._ran[stream.lane] += 1
        self.statistics.run += 1
        self._running = work.name
        try:
            work.function()
        except Exception as error:
            error.add_note(f"(while '{work.name}' ran on stream {stream.name})")
            raise
        finally:
            self._running = None
