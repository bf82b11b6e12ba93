"""Time loops on a device as graphs: the work of whole rotation cycles, captured once and given
again by one call.

After as many steps as arrays rotate, every array is in its first place again. If a cycle also
leaves behind what the library knows of the arrays as it found it (fresh halos, filled layers), the
next one gives the device the same work: it is captured while it is called as usual, and launched
for the cycles after it. What the library knows is then brought to where single calls would have
left it.

A cycle is captured where all of its work is work of streams: on one rank, or over a transport whose
exchanges are; without reductions, scalars that are functions of the step, conditions that depend on
the time, and conditions that read other arrays. The time may be a scalar of a kernel: kernels read
scalars from device memory, to which they are brought before each launch. While a scalar comes from
device memory itself, as results of reductions do, nothing is captured: the copy would become part
of the graph. A graph that is there already may be launched.

NCCL takes messages of graphs and other messages for different ones. So ranks agree, by a small
message of the host, on what they do next, and again on whether a capture has worked on all of them.

A graph stays with the first kernel of the step for later loops, as long as the plans of all its
calls do.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray import spans
from distarray.backends.base import Graph
from distarray.block import Block, Filled
from distarray.errors import BackendError, RaceError
from distarray.progress import tell_once

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.kernels.apply import StencilKernel
    from distarray.kernels.plan import ApplyPlan

#: A graph holds at least so many steps, if the loop is long enough: launching one costs as much as
#: launching some kernels.
LEAST_STEPS = 4

#: One plan and the values of its scalars.
PlannedCall = tuple["ApplyPlan", list[Any]]


class Loop(Protocol):
    """A time loop, whose arrays have their first places again after every `cycle` steps."""

    cycle: int
    arrays: list[DistArray]

    def step(self, number: int) -> None:
        """Run one step and rotate. Collective."""
        ...

    def planned(self, number: int, arrays: Sequence[DistArray]) -> list[PlannedCall]:
        """The calls of a step with the arrays in these places. Collective."""
        ...

    def rotated(self, arrays: Sequence[DistArray]) -> list[DistArray]:
        """The arrays after one more step. Local."""
        ...

    def time(self, number: int) -> float:
        """The time at which a step begins. Local."""
        ...


@dataclass(frozen=True)
class _Known:
    """What the library knows of a block, but for its version."""

    fresh: Any
    points: object
    layers: object
    fills: frozenset[int]

    @classmethod
    def of(cls, block: Block) -> _Known:
        filled = block.filled
        return cls(dict(block.fresh), filled.points, filled.layers, frozenset(filled.fills))

    def restore(self, block: Block) -> None:
        block.fresh = dict(self.fresh)
        block.filled = Filled(self.points, self.layers, set(self.fills))


#: The first launch: what it computes was counted when it was captured.
_FIRST = spans.tally("graph")


@dataclass(eq=False)
class CapturedCycles:
    """A graph, and when and how it may be launched.

    Attributes
    ----------
    known : what the library knew of each block before, and knows again afterwards
    written : by how much each block's version grows
    kept : exchanges whose buffers the graph uses
    tally : what a launch comes to
    plans : of all calls, in order
    """

    graph: Graph
    known: list[_Known]
    written: list[int]
    kept: list[Any]
    tally: spans.Tally
    plans: list[weakref.ref[ApplyPlan]] = field(default_factory=list)

    def is_of(self, calls: Sequence[PlannedCall]) -> bool:
        """Whether these calls are those that were captured. Local."""
        return len(calls) == len(self.plans) and all(
            plan is kept() for (plan, _), kept in zip(calls, self.plans, strict=True)
        )


class _Next(IntEnum):
    """What a rank can do with the next steps. All ranks do the least of what they can."""

    NEVER = 0  # run them as usual, and all later ones
    SINGLE = 1  # run them as usual
    CAPTURE = 2
    LAUNCH = 3


class Replay:
    """Advances a loop by graphs where that is possible. Made for one loop; Collective.

    Parameters
    ----------
    loop : Loop
    kernel : StencilKernel
        Keeps the graph; the first of the step.
    key : hashable
        Tells loops over these arrays from others of the kernel.
    constant : bool
        Whether the scalars are the same in every step.
    longest : int
        Steps that one graph may hold.
    """

    def __init__(
        self, loop: Loop, kernel: StencilKernel, key: Hashable, *, constant: bool, longest: int
    ) -> None:
        self._loop, self._kernel = loop, kernel
        self._constant = constant
        cycles = max(1, min(-(-LEAST_STEPS // loop.cycle), longest // loop.cycle))
        self._steps = loop.cycle * (cycles if constant else 1)
        # A graph of several cycles calls its plans several times, all with the same scalars.
        self._key = key, self._steps
        self._seen: list[_Known] | None = None
        self._enabled = longest >= self._steps
        fields = _fields(loop.arrays)
        self._blocks = list({array.block.serial: array.block for array in fields}.values())
        self._backend = self._blocks[0].backend
        self._communicator = fields[0].communicator

    def advance(self, number: int, room: int) -> int:
        """Run up to `room` steps from step `number` on by graphs; gives how many, 0 if the next
        step has to be run as usual. Collective.
        """
        if not self._enabled or number % self._loop.cycle or room < self._steps:
            return 0
        known = [_Known.of(block) for block in self._blocks]
        calls = self._calls(number)
        captured = self._kernel.graphs.find(self._key)
        fits = captured is not None and captured.known == known and captured.is_of(calls)
        following = self._agreed(self._next(calls, fits=fits, repeated=known == self._seen))
        self._seen = known
        self._enabled = following is not _Next.NEVER
        if following is _Next.LAUNCH and captured is not None:
            return self._launch(captured, calls, number, room)
        return self._capture(calls, known, number) if following is _Next.CAPTURE else 0

    def _next(self, calls: Sequence[PlannedCall], *, fits: bool, repeated: bool) -> _Next:
        """What this rank can do. Local."""
        if fits:
            return _Next.LAUNCH
        if not repeated:
            return _Next.SINGLE
        return _Next.CAPTURE if self._may_capture(calls) else _Next.NEVER

    def _agreed(self, following: _Next) -> _Next:
        """What all ranks can do. Collective."""
        return _Next(self._least(following))

    def _least(self, number: int) -> int:
        """The least of the ranks' numbers. Collective."""
        if self._communicator.size == 1:
            return number
        return int(self._communicator.allreduce(np.array([number], np.int64), "min")[0])

    def _calls(self, number: int) -> list[PlannedCall]:
        """The calls of the next steps. Collective."""
        arrays, found = list(self._loop.arrays), []
        for ahead in range(self._steps):
            found += self._loop.planned(number + ahead, arrays)
            arrays = self._loop.rotated(arrays)
        return found

    def _launch(
        self, captured: CapturedCycles, calls: Sequence[PlannedCall], number: int, room: int
    ) -> int:
        """Launch a graph, whose calls these are, as often as there is room for. Collective.

        The plans of later calls are those of the first as long as all ranks are given the same
        kinds of scalars.
        """
        done = 0
        while done + self._steps <= room:
            if done and not self._constant:
                later = self._calls(number + done)
                if not captured.is_of(later):
                    break
                calls = later
            if not done or not self._constant:
                for plan, values in calls:
                    plan.set_scalars(values)
            self._launch_once(captured.graph, captured.tally)
            done += self._steps
            for block, written in zip(self._blocks, captured.written, strict=True):
                block.version += written
        for plan, _ in calls:
            plan.set_time(self._loop.time(number + done - 1))
        return done

    def _launch_once(self, graph: Graph, work: spans.Tally) -> None:
        start = spans.enter(work)
        graph.launch(self._backend.compute)
        spans.leave(work, start)

    def _capture(self, calls: Sequence[PlannedCall], known: list[_Known], number: int) -> int:
        """Call the next steps as usual while their work is captured, then launch it. Collective.

        Where that fails on some rank, nothing has happened on any.
        """
        versions = [block.version for block in self._blocks]
        arrays = list(self._loop.arrays)
        graph, error = self._captured(calls, number)
        if not self._worked_everywhere(graph, error):
            self._undo(arrays, versions, known)
            if error is not None and (
                isinstance(error, RaceError) or not isinstance(error, BackendError)
            ):
                raise error
            self._enabled = False
        if graph is None or not self._enabled:
            return 0
        self._launch_once(graph, _FIRST)
        captured = CapturedCycles(
            graph,
            known,
            [b.version - version for b, version in zip(self._blocks, versions, strict=True)],
            [exchange for plan, _ in calls for exchange in plan.exchanges],
            self._tally(calls),
        )
        if [_Known.of(block) for block in self._blocks] == known:
            self._keep(captured, calls)
        return self._steps

    def _tally(self, calls: Sequence[PlannedCall]) -> spans.Tally:
        work = [plan.tally for plan, _ in calls]
        cells, nbytes = sum(one.cells for one in work), sum(one.nbytes for one in work)
        name = self._kernel.name
        sweeps = sum(plan.program.name == name for plan, _ in calls)
        return spans.tally("graph", name, cells=cells, nbytes=nbytes, sweeps=sweeps)

    def _captured(
        self, calls: Sequence[PlannedCall], number: int
    ) -> tuple[Graph | None, BaseException | None]:
        """The work of the next steps, kept; or what went wrong. Local."""
        error: BaseException | None = None
        for plan, values in calls:
            plan.set_scalars(values)
        try:
            if not self._backend.begin_capture():
                return None, BackendError("The device captures no work; single calls are made.")
        except BackendError as refused:
            return None, refused
        try:
            for ahead in range(self._steps):
                self._loop.step(number + ahead)
        except BaseException as caught:  # an interrupt too: the capture has to end
            error = caught
        try:
            graph = self._backend.end_capture()
        except BackendError as caught:
            return None, error or caught
        return (graph if error is None else None), error

    def _worked_everywhere(self, graph: Graph | None, error: BaseException | None) -> bool:
        """Whether the capture has worked on all ranks; if not, one that knows why tells it, once.
        Collective.
        """
        rank, size = self._communicator.rank, self._communicator.size
        first = self._least(size if graph is not None else rank)
        if first == rank and isinstance(error, BackendError):
            tell_once(f"steps of iterate are given to the device one by one: {error}")
        return first == size

    def _undo(self, arrays: list[DistArray], versions: list[int], known: list[_Known]) -> None:
        """Bring what the library knows to where it was: none of the work has been done."""
        self._loop.arrays[:] = arrays
        for block, version, before in zip(self._blocks, versions, known, strict=True):
            block.version = version
            before.restore(block)

    def _may_capture(self, calls: Sequence[PlannedCall]) -> bool:
        """Whether all calls may be captured. Local.

        A plan called twice reads its scalars at one place, so they must be the same. A scalar that
        comes from device memory would be copied again, from there, by each launch.
        """
        plans = [plan for plan, _ in calls]
        single = len({id(plan) for plan in plans}) == len(plans)
        from_host = all(
            getattr(value, "device_value", None) is None for _, values in calls for value in values
        )
        return (single or self._constant) and from_host and all(plan.capturable for plan in plans)

    def _keep(self, captured: CapturedCycles, calls: Sequence[PlannedCall]) -> None:
        """Leave the graph with the kernel until one of its plans goes."""
        graphs, mine, key = weakref.ref(self._kernel.graphs), weakref.ref(captured), self._key

        def forget(_: weakref.ref[ApplyPlan]) -> None:
            kept = graphs()
            if kept is not None and kept.get(key) is mine():
                kept.pop(key, None)

        captured.plans = [weakref.ref(plan, forget) for plan, _ in calls]
        self._kernel.graphs.keep(key, captured)


def _fields(arrays: Sequence[Any]) -> list[DistArray]:
    """The arrays that have a block; profiles have none."""
    return [array for array in arrays if hasattr(array, "block")]
