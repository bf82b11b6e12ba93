"""Graphs of the simulated device: work that is kept, and given to a stream again by each launch.

Capturing follows CUDA's rules. It starts with the compute stream; another stream takes part from
the moment at which it waits for an event that was recorded in the capture, and what it was given
must come before the end of the compute stream's work when the capture ends. Work of streams that do
not take part is no part of the graph. Within a graph only the kept order counts: what the
communication stream was given runs in a stream of the graph's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from distarray.backends.base import Stream
from distarray.backends.simulated.clocks import Clock, joined, with_count
from distarray.backends.simulated.schedule import (
    Schedule,
    SimulatedEvent,
    SimulatedStream,
    Work,
)
from distarray.errors import BackendError

#: Finds the stream of a launch that stands for a captured one.
Streams = Callable[[SimulatedStream], SimulatedStream]
#: What a launch does: with its streams and the clocks of its events.
Action = Callable[[Streams, dict[int, Clock]], None]


class Capture:
    """Work being kept. All methods are Local.

    Parameters
    ----------
    origin : SimulatedStream
        The stream that takes part from the beginning.
    lanes : int
        Number of streams.
    """

    def __init__(self, origin: SimulatedStream, lanes: int) -> None:
        self.origin = origin
        self.actions: list[Action] = []
        self._clocks: dict[SimulatedStream, Clock] = {origin: (0,) * lanes}
        self._marks: dict[SimulatedEvent, tuple[int, Clock]] = {}

    def has(self, stream: SimulatedStream) -> bool:
        """Whether a stream takes part. Local."""
        return stream in self._clocks

    def give(self, stream: SimulatedStream, work: Work) -> None:
        """Keep work of a stream that takes part. Local."""
        clock = self._clocks[stream]
        self._clocks[stream] = with_count(clock, stream.lane, clock[stream.lane] + 1)
        self.actions.append(partial(_give, stream, replace(work, captured=True)))

    def record(self, stream: SimulatedStream, event: SimulatedEvent) -> None:
        """Let an event stand, within the graph, for the work that a stream has so far. Local."""
        number = len(self.actions)
        self._marks[event] = (number, self._clocks[stream])
        event.captured = self
        self.actions.append(partial(_record, stream, number))

    def wait(self, stream: SimulatedStream, event: SimulatedEvent) -> None:
        """Let a stream wait for an event, and take part from now on. Local.

        Raises
        ------
        BackendError
            The event was recorded outside the graph.
        """
        if event.captured is None and event.clock is None:
            return
        if event.captured is not self:
            raise BackendError(
                f"The stream {stream.name} cannot wait, while its work is captured, for an event "
                "that was recorded outside the graph; record it again inside."
            )
        number, clock = self._marks[event]
        self._clocks[stream] = joined(self._clocks.get(stream, clock), clock)
        self.actions.append(partial(_wait, stream, number))

    def refusal(self, what: str) -> BackendError:
        """The error for what needs results of work that is only kept. Local."""
        return BackendError(
            f"The host cannot {what} while work is captured, since none of it runs; do it before "
            "or after the capture."
        )

    def finished(self, schedule: Schedule) -> SimulatedGraph:
        """The graph, once all of it comes before the end of the origin's work. Local.

        Raises
        ------
        BackendError
            A stream has work that the origin does not wait for.
        """
        end = self._clocks[self.origin]
        for stream, clock in self._clocks.items():
            if clock[stream.lane] > end[stream.lane]:
                raise BackendError(
                    f"A capture ended while stream {stream.name} had work that stream "
                    f"{self.origin.name} does not wait for; let it wait for an event recorded "
                    f"after that work."
                )
        return SimulatedGraph(schedule, self.origin, self.actions)


def _give(stream: SimulatedStream, work: Work, streams: Streams, _: dict[int, Clock]) -> None:
    streams(stream).give(work)


def _record(
    stream: SimulatedStream, number: int, streams: Streams, marks: dict[int, Clock]
) -> None:
    marks[number] = streams(stream).clock


def _wait(stream: SimulatedStream, number: int, streams: Streams, marks: dict[int, Clock]) -> None:
    target = streams(stream)
    target.clock = joined(target.clock, marks[number])


class SimulatedGraph:
    """Kept work, that can be given any number of times. Local."""

    def __init__(
        self, schedule: Schedule, origin: SimulatedStream, actions: Sequence[Action]
    ) -> None:
        self._schedule = schedule
        self._origin = origin
        self._actions = tuple(actions)

    def launch(self, stream: Stream) -> None:
        """Give the work to a stream again, with clocks of now. Local.

        Raises
        ------
        RaceError
            Work outside the graph conflicts with it, or two pieces within do.
        """
        target = cast("SimulatedStream", stream)
        inner = self._schedule.streams[-1]
        marks: dict[int, Clock] = {}

        def of_launch(captured: SimulatedStream) -> SimulatedStream:
            return target if captured is self._origin else inner

        for action in self._actions:
            action(of_launch, marks)
