"""A program bound to arrays of a device: one launch for all boxes of a run.

Tables and scalars lie in device memory. Scalars are uploaded when their bytes change, and values of
reductions that are on the device already are copied there, so that captured work stays valid. What
a run reads and writes is derived from the program for each box: of each component, the box shifted
by the offsets read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.backends.calls import nothing
from distarray.backends.device_array import DeviceArray
from distarray.backends.driver import Access
from distarray.regions import Box
from distarray.stencil import evaluate
from distarray.stencil.accumulators import of_reduction
from distarray.stencil.compile import joined
from distarray.stencil.expression import COARSE, FINE, Expression, Program, Read, walk
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

#: Boxes of one run, each with its mask of active outputs.
Boxes = Sequence[tuple[Box, int]]

#: Prepared runs that one launch keeps.
_KEPT = 1024


def bind(
    backend: AcceleratorBackend,
    program: Program,
    arrays: Sequence[ArrayView],
    geometry: LaunchGeometry,
) -> BoundLaunch:
    """The program on these arrays; see `launch.BoundLaunch`. Local."""
    return DeviceLaunch(backend, program, arrays, geometry)


class DeviceLaunch:
    """A `BoundLaunch` on a device.

    Parameters
    ----------
    constants : sequence of numbers, optional
        Values that the scalars keep.
    """

    def __init__(
        self,
        backend: AcceleratorBackend,
        program: Program,
        arrays: Sequence[ArrayView],
        geometry: LaunchGeometry,
        *,
        constants: Sequence[Any] | None = None,
    ) -> None:
        self._program, self._geometry = program, geometry
        self._views = tuple(arrays)
        self._accumulators = [
            accumulator
            for number, reduction in enumerate(program.reductions)
            for accumulator in of_reduction(number, reduction)
        ]
        results = [backend.empty((a.length,), a.dtype) for a in self._accumulators]
        self._executor = _Calls(backend, program, self._views, geometry, results)
        self._kept: dict[tuple[int, int], Callable[[], None]] = {}
        self._boxes: list[Any] = []  # kept alive, since runs are found by their identity
        self._single: dict[tuple[Box, int], Boxes] = {}
        if constants is not None:
            self._executor.set_scalars(constants)

    def set_scalars(self, values: Sequence[Any]) -> None:
        """Set the scalars of the next runs. Local.

        A value with an attribute `device_value`, an array of one element on this device or None,
        is taken from there.
        """
        self._executor.set_scalars(values)

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        boxes = self._single.get((box, mask))
        if boxes is None:
            boxes = self._single[box, mask] = ((box, mask),)
        self.run_boxes(boxes, colour)

    def run_boxes(self, boxes: Boxes, colour: int = 0) -> None:
        """Compute several boxes at once; see `run`. Local."""
        run = self._kept.get((id(boxes), colour))
        if run is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
                self._boxes.clear()
                self._single.clear()
            run = self._kept[id(boxes), colour] = self.prepared(boxes, colour)
            self._boxes.append(boxes)
        run()

    def prepared(self, boxes: Boxes, colour: int) -> Callable[[], None]:
        """The call that computes some boxes. Local."""
        filled = [(box, mask) for box, mask in boxes if not box.empty]
        if not filled:
            return nothing
        accesses = list(self._accesses(filled))
        return self._executor.prepared(filled, colour, accesses)

    def reset_reductions(self) -> None:
        self._executor.reset_reductions()

    def partials(self) -> list[np.ndarray[Any, Any]]:
        return joined(self._accumulators, [part.get() for part in self.device_partials()])

    def device_partials(self) -> list[DeviceArray]:
        """An array for each accumulator; see `BoundLaunch.device_partials`. Local."""
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
                first, stop, step = self._range(view, place, along, box, relation)
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


class _Calls:
    """The program by the reference executor, for simulated devices without a compiler."""

    def __init__(
        self,
        backend: AcceleratorBackend,
        program: Program,
        arrays: Sequence[ArrayView],
        geometry: LaunchGeometry,
        results: list[DeviceArray],
    ) -> None:
        self.results = results
        self._driver, self._compute = backend.driver, backend.compute
        self._program = program
        shadows = [ArrayView(_memory(view).shadow, view.origin, view.start) for view in arrays]
        self._launch = evaluate.bind(program, shadows, geometry)
        self._scalars: tuple[Any, ...] = ()
        self._scalar_accesses: tuple[Access, ...] = ()
        self._result_accesses = [result.access(True) for result in results]

    def set_scalars(self, values: Sequence[Any]) -> None:
        taken = [device_value(value) for value in values]
        self._scalars = tuple(
            found if found is not None else _plain(value)
            for value, found in zip(values, taken, strict=True)
        )
        self._scalar_accesses = tuple(found.access(False) for found in taken if found is not None)

    def prepared(self, boxes: Boxes, colour: int, accesses: Sequence[Access]) -> Callable[[], None]:
        return partial(self._give, boxes, colour, [*accesses, *self._result_accesses])

    def _give(self, boxes: Boxes, colour: int, accesses: Sequence[Access]) -> None:
        self._driver.call(
            partial(self._run, boxes, colour, self._scalars),
            self._compute,
            [*accesses, *self._scalar_accesses],
            self._program.name,
        )

    def _run(self, boxes: Boxes, colour: int, scalars: Sequence[Any]) -> None:
        self._launch.set_scalars(
            [v.shadow.reshape(-1)[0] if isinstance(v, DeviceArray) else v for v in scalars]
        )
        for box, mask in boxes:
            self._launch.run(box, mask, colour)
        self._keep()

    def reset_reductions(self) -> None:
        self._driver.call(
            self._reset, self._compute, self._result_accesses, f"reset of {self._program.name}"
        )

    def _reset(self) -> None:
        self._launch.reset_reductions()
        self._keep()

    def _keep(self) -> None:
        """Put the reductions into device memory."""
        held = [part for values in self._launch.partials() for part in _parts(values)]
        for memory, values in zip(self.results, held, strict=True):
            memory.shadow[...] = values


def _parts(values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What each accumulator holds of a partial result."""
    if values.dtype.kind == "c":
        return [values.real, values.imag]
    return list(values) if values.ndim == 2 else [values]


def _memory(view: ArrayView) -> DeviceArray:
    memory: DeviceArray = view.memory
    return memory


def device_value(value: Any) -> DeviceArray | None:
    """Where a scalar lies on the device, if it does."""
    found = getattr(value, "device_value", None)
    return found if isinstance(found, DeviceArray) else None


def _plain(value: Any) -> Any:
    """A number; a reduction under way is waited for."""
    return value.result() if hasattr(value, "result") else value
