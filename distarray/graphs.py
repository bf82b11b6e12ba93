"""Time loops on a device as graphs: the work of whole rotation cycles, captured once and given
again by one call.

After as many steps as arrays rotate, every array is in its first place again. If a cycle also
leaves behind what the library knows of the arrays as it found it (fresh halos, filled layers), the
next one gives the device the same work: it is captured while it is called as usual, and launched
for the cycles after it. What the library knows is then brought to where single calls would have
left it.

A cycle is captured where all of its work is work of streams: on one rank, or over a transport whose
exchanges are; without reductions, conditions that depend on the time, and conditions that read
other arrays. Scalars may change from step to step, since kernels read them from device memory, to
which they are uploaded before each launch.

A graph stays with the first kernel of the step for later loops, as long as the plans of all its
calls do.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from distarray import spans
from distarray.backends.base import Backend, Graph
from distarray.block import Block, Filled
from distarray.errors import BackendError, RaceError

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
        """The arrays after one more step."""
        ...

    def time(self, number: int) -> float:
        """The time at which a step begins."""
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


@dataclass(eq=False)
class CapturedCycles:
    """A graph, and when and how it may be launched.

    Attributes
    ----------
    steps : int
    known : what the library knew of each block before, and knows again afterwards
    written : by how much each block's version grows
    kept : exchanges whose buffers the graph uses
    plans : of all calls, in order
    """

    graph: Graph
    steps: int
    known: list[_Known]
    written: list[int]
    kept: list[Any]
    plans: list[weakref.ref[ApplyPlan]] = field(default_factory=list)

    def is_of(self, calls: Sequence[PlannedCall]) -> bool:
        """Whether these calls are those that were captured."""
        return len(calls) == len(self.plans) and all(
            plan is kept() for (plan, _), kept in zip(calls, self.plans, strict=True)
        )


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
        self._loop, self._kernel, self._key = loop, kernel, key
        self._constant = constant
        cycles = max(1, min(-(-LEAST_STEPS // loop.cycle), longest // loop.cycle))
        self._steps = loop.cycle * (cycles if constant else 1)
        self._seen: list[_Known] | None = None
        self._enabled = longest >= self._steps
        blocks = {array.block.serial: array.block for array in _fields(loop.arrays)}
        self._blocks = list(blocks.values())

    def advance(self, number: int, room: int) -> int:
        """Run up to `room` steps from step `number` on by graphs; gives how many, 0 if the next
        step has to be run as usual.
        """
        if not self._enabled or number % self._loop.cycle or room < self._steps:
            return 0
        known = [_Known.of(block) for block in self._blocks]
        captured = self._kernel.graphs.find(self._key)
        if captured is not None and captured.known == known and captured.steps <= room:
            done = self._launch(captured, number, room)
            if done:
                return done
        if known != self._seen:
            self._seen = known
            return 0
        return self._capture(known, number)

    def _calls(self, number: int, steps: int) -> list[PlannedCall]:
        """The calls of the next steps."""
        arrays, found = list(self._loop.arrays), []
        for ahead in range(steps):
            found += self._loop.planned(number + ahead, arrays)
            arrays = self._loop.rotated(arrays)
        return found

    def _launch(self, captured: CapturedCycles, number: int, room: int) -> int:
        """Launch a graph as often as there is room for, as long as it is that of the calls."""
        done, backend = 0, self._blocks[0].backend
        calls: list[PlannedCall] = []
        while done + captured.steps <= room:
            if not done or not self._constant:
                calls = self._calls(number + done, captured.steps)
                if not captured.is_of(calls):
                    break
                for plan, values in calls:
                    plan.set_scalars(values)
            start = spans.enter()
            captured.graph.launch(backend.compute)
            spans.leave("graph", start)
            done += captured.steps
            for block, written in zip(self._blocks, captured.written, strict=True):
                block.version += written
        if done:
            for plan, _ in calls:
                plan.set_time(self._loop.time(number + done - 1))
        return done

    def _capture(self, known: list[_Known], number: int) -> int:
        """Call the next steps as usual while their work is captured, then launch it."""
        calls = self._calls(number, self._steps)
        backend = self._blocks[0].backend
        self._enabled = self._may_capture(calls)
        if self._enabled:
            for plan, values in calls:
                plan.set_scalars(values)
            self._enabled = backend.begin_capture()
        if not self._enabled:
            return 0
        versions = [block.version for block in self._blocks]
        arrays = list(self._loop.arrays)
        graph, error = self._captured(number, backend)
        if graph is None:
            # None of the work is done: nothing has happened.
            self._loop.arrays[:] = arrays
            for block, version, before in zip(self._blocks, versions, known, strict=True):
                block.version = version
                before.restore(block)
            if error is not None and (
                isinstance(error, RaceError) or not isinstance(error, BackendError)
            ):
                raise error
            self._enabled = False
            return 0
        start = spans.enter()
        graph.launch(backend.compute)
        spans.leave("graph", start)
        captured = CapturedCycles(
            graph,
            self._steps,
            known,
            [b.version - version for b, version in zip(self._blocks, versions, strict=True)],
            [exchange for plan, _ in calls for exchange in plan.exchanges],
        )
        if [_Known.of(block) for block in self._blocks] == known:
            self._keep(captured, calls)
        return self._steps

    def _captured(self, number: int, backend: Backend) -> tuple[Graph | None, BaseException | None]:
        """The work of the next steps, kept by a capture that has begun; or what went wrong."""
        error: BaseException | None = None
        try:
            for ahead in range(self._steps):
                self._loop.step(number + ahead)
        except BaseException as caught:  # an interrupt too: the capture has to end
            error = caught
        try:
            graph = backend.end_capture()
        except BackendError as caught:
            return None, error or caught
        return (graph if error is None else None), error

    def _may_capture(self, calls: Sequence[PlannedCall]) -> bool:
        """Whether all calls may be captured. A plan called twice reads its scalars at one place, so
        they must be the same.
        """
        plans = [plan for plan, _ in calls]
        single = len({id(plan) for plan in plans}) == len(plans)
        return (single or self._constant) and all(plan.capturable for plan in plans)

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
