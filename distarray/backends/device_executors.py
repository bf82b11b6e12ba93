"""Two ways to run a bound program on a device: by generated CUDA text, or, on simulated devices
without a compiler, by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray import exact
from distarray.arraylike import HostArray
from distarray.backends import device_scalars
from distarray.backends.base import BoxCopy
from distarray.backends.device_array import DeviceArray
from distarray.backends.driver import Access, Extents, KernelText, Parameters
from distarray.regions import Box
from distarray.stencil import accumulators, cuda, evaluate
from distarray.stencil.accumulators import Accumulator
from distarray.stencil.cuda import packing
from distarray.stencil.expression import Program
from distarray.stencil.launch import ArrayView, LaunchGeometry
from distarray.stencil.memory import TableValues, origin, strides

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

#: Boxes of one run, each with its mask of active outputs.
Boxes = Sequence[tuple[Box, int]]
Run = Callable[[], None]


@dataclass(frozen=True, eq=False)
class BoundProgram:
    """A program and what it meets on a device.

    Attributes
    ----------
    backend : AcceleratorBackend
    program : Program
    arrays : tuple of ArrayView
        Memory of the device, one for each array of the program.
    geometry : LaunchGeometry
    scalars : DeviceArray
        The memory of the program's scalars.
    """

    backend: AcceleratorBackend
    program: Program
    arrays: tuple[ArrayView, ...]
    geometry: LaunchGeometry
    scalars: DeviceArray


class Executor:
    """What both have: memory of the scalars and of the results of reductions.

    Attributes
    ----------
    results : list of DeviceArray
        One for each accumulator, one after another in words of 8 bytes.
    """

    def __init__(self, bound: BoundProgram) -> None:
        self._backend = backend = bound.backend
        self._program, self._scalars = bound.program, bound.scalars
        self._accumulators = accumulators.of_program(bound.program)
        starts = [accumulator.cleared() for accumulator in self._accumulators]
        self.results: list[DeviceArray] = []
        self._clear: Run | None = None
        if starts:
            words = backend.empty((sum(start.size for start in starts),), np.int64)
            cleared = backend.asarray(np.concatenate([start.view(np.int64) for start in starts]))
            self._clear = backend.prepare_copies([BoxCopy(cleared, words)])
            self._words, first = words, 0
            for start in starts:
                self.results.append(words[first : first + start.size].view(start.dtype))
                first += start.size
            self._clear()

    def reset_reductions(self) -> None:
        """See `launch.BoundLaunch`. Local; work of the compute stream."""
        if self._clear is not None:
            self._clear()


class Kernels(Executor):
    """By generated CUDA text."""

    def __init__(self, bound: BoundProgram) -> None:
        super().__init__(bound)
        backend, program, arrays = bound.backend, bound.program, bound.arrays
        strided = any(map(_has_steps, arrays))
        self._geometry = bound.geometry
        self._code = cuda.generate(
            program,
            aliased=_aliased(program, arrays),
            wide=packing.wide([(v.memory.shape, strides([v], last=True)) for v in arrays]),
            strided=strided,
        )
        tables = [TableValues(table, arrays, bound.geometry) for table in self._code.tables]
        uploaded = [backend.asarray(table.values) for table in tables]
        layout = np.array(strides(arrays, last=strided) or [0], np.int64)
        self._values = [
            *(
                _pointer(view.memory.address + origin(program, number, view, bound.geometry))
                for number, view in enumerate(arrays)
            ),
            *(
                _pointer(memory.address + table.origin)
                for memory, table in zip(uploaded, tables, strict=True)
            ),
            _pointer(bound.scalars.address),
            layout,
        ]
        self._read = [memory.access(False) for memory in (*uploaded, bound.scalars)]
        self._scratch = backend.empty((0,), np.int64)

    def prepared(self, boxes: Boxes, colour: int, accesses: Sequence[Access]) -> Run:
        """The call that computes some boxes, which touches what the accesses say. Local."""
        launches = packing.launches(self._code, boxes, self._geometry.start, colour)
        words = max((launch.scratch for launch in launches), default=0)
        if words > self._scratch.size:
            self._scratch = self._backend.empty((words,), np.int64)
        return _Given(
            self._backend, [self._given(launch, accesses) for launch in launches], self._program
        )

    def _given(
        self, launch: packing.Launch, accesses: Sequence[Access]
    ) -> tuple[Any, Extents, Extents, Parameters, Sequence[Access]]:
        kernel, scratch = launch.kernel, _pointer(self._scratch.address)
        function = self._backend.driver.load(
            KernelText(kernel.text, kernel.symbol, kernel.parameters, kernel.fast)
        )
        if kernel is self._code.combine:
            values = [scratch, _pointer(self._words.address), launch.values]
            touched = [self._scratch.access(True), self._words.access(True)]
        else:
            values = [*self._values, launch.values]
            touched = [*accesses, *self._read]
            if self._accumulators:
                values.append(scratch)
                touched.append(self._scratch.access(True))
        return function, launch.grid, launch.block, Parameters(values), touched


class _Given:
    """Prepared launches, given to the compute stream by each call."""

    __slots__ = ("_compute", "_launch", "_launches", "_name")

    def __init__(
        self,
        backend: AcceleratorBackend,
        launches: Sequence[tuple[Any, Extents, Extents, Parameters, Sequence[Access]]],
        program: Program,
    ) -> None:
        self._launch, self._compute = backend.driver.launch, backend.compute
        self._launches, self._name = launches, program.name

    def __call__(self) -> None:
        for function, grid, block, parameters, accesses in self._launches:
            self._launch(function, grid, block, parameters, self._compute, accesses, self._name)


def _pointer(address: int) -> HostArray:
    return np.array([address % 2**64], np.uint64)


def _has_steps(view: ArrayView) -> bool:
    """Whether neighbours along the last axis lie apart."""
    memory = view.memory
    return bool(memory.shape[-1] > 1 and memory.strides[-1] != memory.itemsize)


def _aliased(program: Program, arrays: Sequence[ArrayView]) -> bool:
    """Whether a written array may overlap another argument."""
    written = {store.parameter for store in program.stores}
    return any(
        number != other
        and arrays[number].memory.allocation is view.memory.allocation
        and np.may_share_memory(arrays[number].memory.shadow, view.memory.shadow)
        for number in written
        for other, view in enumerate(arrays)
    )


class Calls(Executor):
    """By the reference executor."""

    def __init__(self, bound: BoundProgram) -> None:
        super().__init__(bound)
        shadows = [ArrayView(view.memory.shadow, view.origin, view.start) for view in bound.arrays]
        self._launch = evaluate.bind(bound.program, shadows, bound.geometry)

    def prepared(self, boxes: Boxes, colour: int, accesses: Sequence[Access]) -> Run:
        """As `Kernels.prepared`. Local."""
        touched = [*accesses, self._scalars.access(False)]
        if self.results:
            touched.append(self._words.access(True))
        return partial(
            self._backend.driver.call,
            partial(self._run, boxes, colour),
            self._backend.compute,
            touched,
            self._program.name,
        )

    def _run(self, boxes: Boxes, colour: int) -> None:
        """Add the boxes to what the results hold, as kernels do."""
        self._launch.set_scalars(device_scalars.read(self._program, self._scalars.shadow))
        self._launch.reset_reductions()
        for box, mask in boxes:
            self._launch.run(box, mask, colour)
        parts = [part for values in self._launch.partials() for part in _parts(values)]
        for accumulator, result, part in zip(self._accumulators, self.results, parts, strict=True):
            _merge(accumulator, result.shadow, part)


def _parts(values: HostArray) -> list[HostArray]:
    """What each accumulator holds of a partial result."""
    if values.dtype.kind == "c":
        return [values.real, values.imag]
    return list(values) if values.ndim == 2 else [values]


def _merge(accumulator: Accumulator, held: HostArray, part: Any) -> None:
    """Let a partial result enter what an accumulator holds."""
    if accumulator.exact:
        held[...] = exact.merged(held, part)
    elif accumulator.kind == "sum":
        with np.errstate(all="ignore"):
            held += part
    else:
        choose = np.minimum if accumulator.kind == "min" else np.maximum
        held[0], held[1] = choose(held[0], part[0]), max(held[1], part[1])
