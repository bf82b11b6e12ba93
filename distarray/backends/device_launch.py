"""A program bound to arrays of a device: all boxes of a run are computed at once.

What is handed to the device for a run is prepared once for each tuple of boxes. What the run reads
and writes is derived from the program for each box: of each component, the range around the box
shifted by the offsets read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distarray.arraylike import HostArray
from distarray.backends.calls import nothing
from distarray.backends.device_array import DeviceArray
from distarray.backends.device_executors import BoundProgram, Boxes, Calls, Kernels, Run
from distarray.backends.device_scalars import LaunchScalars
from distarray.backends.driver import Access
from distarray.regions import Box
from distarray.stencil import accumulators
from distarray.stencil.expression import COARSE, FINE, Expression, Program, Read, walk
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

#: Prepared runs that one launch keeps.
_KEPT = 1024


def bind(
    backend: AcceleratorBackend,
    program: Program,
    arrays: Sequence[ArrayView],
    geometry: LaunchGeometry,
) -> BoundLaunch:
    """The program on these arrays; see `launch.BoundLaunch`. Local."""
    scalars = LaunchScalars(backend, program)
    bound = BoundProgram(backend, program, tuple(arrays), geometry, scalars.memory)
    return DeviceLaunch(bound, scalars)


class DeviceLaunch:
    """A `BoundLaunch` on a device. All methods are Local; `partials` alone waits for the device."""

    def __init__(self, bound: BoundProgram, scalars: LaunchScalars) -> None:
        self._program, self._views = bound.program, bound.arrays
        self._geometry, self._scalars = bound.geometry, scalars
        make = Kernels if bound.backend.driver.compiles else Calls
        self._executor = make(bound)
        self._kept: dict[tuple[int, int], Run] = {}
        self._boxes: list[Any] = []  # kept alive, since runs are found by their identity
        self._single: dict[tuple[Box, int], Boxes] = {}

    def set_scalars(self, values: Sequence[Any]) -> None:
        """See `launch.BoundLaunch`. Local."""
        if values:
            self._scalars.set(values)

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        """See `launch.BoundLaunch`. Local."""
        boxes = self._single.get((box, mask))
        if boxes is None:
            boxes = self._single[box, mask] = ((box, mask),)
        self.run_boxes(boxes, colour)

    def run_boxes(self, boxes: Boxes, colour: int = 0) -> None:
        """Compute several boxes at once; see `run`. Local."""
        found = self._kept.get((id(boxes), colour))
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
                self._boxes.clear()
                self._single.clear()
            found = self._kept[id(boxes), colour] = self.prepared(boxes, colour)
            self._boxes.append(boxes)
        found()

    def prepared(self, boxes: Boxes, colour: int) -> Run:
        """The call that computes some boxes. Local."""
        filled = [(box, mask) for box, mask in boxes if not box.empty]
        if not filled:
            return nothing
        accesses = list(self._accesses(filled))
        return self._executor.prepared(filled, colour, accesses)

    def reset_reductions(self) -> None:
        """See `launch.BoundLaunch`. Local."""
        self._executor.reset_reductions()

    def partials(self) -> list[HostArray]:
        """See `launch.BoundLaunch`. Local; waits for the runs."""
        held = [result.get() for result in self._executor.results]
        return accumulators.joined(accumulators.of_program(self._program), held)

    def device_partials(self) -> list[DeviceArray]:
        """See `launch.BoundLaunch`. Local."""
        return self._executor.results

    # ---- what a run touches

    def _accesses(self, boxes: Boxes) -> Iterator[Access]:
        for box, mask in boxes:
            roots = []
            for bit, store in enumerate(self._program.stores):
                if mask >> bit & 1:
                    roots.append(store.value)
                    yield self._written(store.parameter, store.component, box)
            first = len(self._program.stores)
            roots += [
                reduction.value
                for bit, reduction in enumerate(self._program.reductions, first)
                if mask >> bit & 1
            ]
            yield from self._read(roots, box)

    def _written(self, parameter: int, component: tuple[int, ...], box: Box) -> Access:
        view = self._views[parameter]
        ranges = [(a, b, 1) for a, b in zip(box.start, box.stop, strict=True)]
        return _access(view, component, ranges, write=True)

    def _read(self, roots: Sequence[Expression], box: Box) -> Iterator[Access]:
        """For each component of an array the smallest range around all its reads."""
        found: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
        for node in walk(roots):
            if isinstance(node, Read):
                key = (node.parameter, node.component, node.relation, node.axis)
                found.setdefault(key, []).append(node.offsets)
        for (parameter, component, relation, axis), offsets in found.items():
            view = self._views[parameter]
            axes = range(box.ndim) if axis is None else (axis,)
            ranges = []
            for place, along in enumerate(axes):
                reached = [offset[place] for offset in offsets]
                related = self._program.arrays[parameter].along(along, relation)
                first, stop, step = self._range(view, place, along, box, related)
                moved = max(reached) - min(reached)
                step = step if moved == 0 else 1
                ranges.append((first + min(reached), stop + max(reached), step))
            yield _access(view, component, ranges, write=False)

    def _range(
        self, view: ArrayView, place: int, axis: int, box: Box, relation: str
    ) -> tuple[int, int, int]:
        """Local indices of the array, and their step, that a read at offset 0 visits."""
        first, stop, start = box.start[axis], box.stop[axis], self._geometry.start[axis]
        if relation == FINE:
            moved = 2 * start - view.start[place]
            return 2 * first + moved, 2 * stop + moved - 1, 2
        if relation == COARSE:
            source = view.start[place]
            return (first + start) // 2 - source, (stop - 1 + start) // 2 + 1 - source, 1
        return first, stop, 1


def _access(
    view: ArrayView,
    component: tuple[int, ...],
    ranges: Sequence[tuple[int, int, int]],
    *,
    write: bool,
) -> Access:
    """The access to ranges of local indices of a component."""
    memory: Any = view.memory
    part = memory.shadow[(*component, Ellipsis)]
    part = part[
        tuple(
            slice(max(first + origin, 0), max(stop + origin, 0), step)
            for (first, stop, step), origin in zip(ranges, view.origin, strict=True)
        )
    ]
    return DeviceArray(memory.backend, memory.allocation, part).access(write)
