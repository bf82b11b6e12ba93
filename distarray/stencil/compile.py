"""Bind a traced kernel to the memory of one rank: as compiled C, or as NumPy where nothing
compiles.

Text is made once for equal programs and compiled once for equal text, so tracing a kernel again
costs no compilation. A launch prepares the arguments of each box once and is then one foreign call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Backend
from distarray.backends.calls import nothing, prepared
from distarray.regions import Box
from distarray.stencil import codegen, evaluate, memory
from distarray.stencil.accumulators import joined
from distarray.stencil.codegen import Code
from distarray.stencil.expression import Program
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry
from distarray.stencil.recording import record

#: Prepared boxes that one launch keeps.
_KEPT_BOXES = 4096


def bind_on_host(
    program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry, backend: Backend
) -> BoundLaunch:
    """A launch of the program on these arrays: compiled where the backend compiles, else NumPy.
    Local.

    Raises
    ------
    StencilError
        The kernel asks for positions and the arrays lie on no grid.
    BackendError
        The generated text does not compile.
    """
    if all(_rows_are_contiguous(view.memory) for view in arrays):
        code = codegen.generate(program, aliased=_aliased(program, arrays))
        record(code.text, code.symbol, fast=program.fast, ending=".c")
        function = backend.load(code.text, code.symbol, fast=program.fast)
        if function is not None:
            return NativeLaunch(program, code, function, arrays, geometry)
    return evaluate.bind(program, arrays, geometry)


def _rows_are_contiguous(memory: HostArray) -> bool:
    return memory.ndim > 0 and (memory.shape[-1] <= 1 or memory.strides[-1] == memory.itemsize)


def _aliased(program: Program, arrays: Sequence[ArrayView]) -> bool:
    """Whether a written array overlaps another argument."""
    written = {store.parameter for store in program.stores}
    return any(
        number != other and np.may_share_memory(arrays[number].memory, view.memory)
        for number in written
        for other, view in enumerate(arrays)
    )


class NativeLaunch:
    """A compiled kernel bound to memory; see `BoundLaunch`."""

    def __init__(
        self,
        program: Program,
        code: Code,
        function: Any,
        arrays: Sequence[ArrayView],
        geometry: LaunchGeometry,
    ) -> None:
        self._program, self._code, self._function = program, code, function
        self._ndim, self._start = program.ndim, geometry.start
        self._parity = sum(geometry.start) & 1
        self._views = tuple(arrays)
        tables = [memory.TableValues(table, arrays, geometry) for table in code.tables]
        addresses = [
            *(
                view.memory.ctypes.data + memory.origin(program, number, view, geometry)
                for number, view in enumerate(arrays)
            ),
            *(table.values.ctypes.data + table.origin for table in tables),
        ]
        self._memory = np.array([*(address % 2**64 for address in addresses), 0], np.uint64)
        self._layout = np.array([*memory.strides(arrays), 0], np.int64)
        self._tables = tables
        self._format = memory.scalar_format(program)
        self._scalars = bytearray(max(16, self._format.size))
        self._complex = any(kind is complex for _, kind in program.scalars)
        self._results = [accumulator.cleared() for accumulator in code.accumulators]
        self._result_table = np.array(
            [*(result.ctypes.data for result in self._results), 0], np.uint64
        )
        self._calls: dict[tuple[Box, int, int], Any] = {}
        # The same by the box's identity, which is faster to look up and kept alive.
        self._recent: dict[tuple[int, int, int], Any] = {}
        self._boxes: list[Box] = []

    def set_scalars(self, values: Sequence[complex]) -> None:
        self._format.pack_into(self._scalars, 0, *self._flat(values))

    def _flat(self, values: Sequence[complex]) -> Sequence[Any]:
        return memory.flat_scalars(self._program, values) if self._complex else values

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        call = self._recent.get((id(box), mask, colour))
        if call is None:
            call = self._call(box, mask, colour)
        call()

    def run_boxes(self, boxes: Sequence[tuple[Box, int]], colour: int = 0) -> None:
        for box, mask in boxes:
            self.run(box, mask, colour)

    # ---- for lists of boxes that run without Python, see `tiling`

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of the compiled function, and of the arrays and strides that it is handed."""
        function = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        return function, self._memory.ctypes.data, self._layout.ctypes.data

    @property
    def results_address(self) -> int:
        """Of the table of accumulators."""
        return self._result_table.ctypes.data

    @property
    def scalar_bytes(self) -> int:
        """Of the memory that scalars take."""
        return len(self._scalars)

    def packed(self, values: Sequence[complex]) -> bytes:
        """Scalars as they lie in that memory."""
        memory_ = bytearray(len(self._scalars))
        self._format.pack_into(memory_, 0, *self._flat(values))
        return bytes(memory_)

    def box_constants(self, mask: int, colour: int = 0) -> tuple[int, ...]:
        """What follows the bounds of a box."""
        return (mask, (colour + self._parity) & 1, *self._start)

    def reset_reductions(self) -> None:
        for result, accumulator in zip(self._results, self._code.accumulators, strict=True):
            result[:] = accumulator.cleared()

    def partials(self) -> list[HostArray]:
        return joined(self._code.accumulators, self._results)

    def device_partials(self) -> list[Any]:
        return []

    def _call(self, box: Box, mask: int, colour: int) -> Any:
        """The call for one box, kept for the next time."""
        if max(len(self._calls), len(self._recent)) >= _KEPT_BOXES:
            self._calls.clear()
            self._recent.clear()
            self._boxes.clear()
        call = self._calls.get((box, mask, colour))
        if call is None:
            call = nothing if box.empty else self._prepared(box, mask, colour)
            self._calls[box, mask, colour] = call
        self._recent[id(box), mask, colour] = call
        self._boxes.append(box)
        return call

    def _prepared(self, box: Box, mask: int, colour: int) -> Any:
        bounds = [bound for pair in zip(box.start, box.stop, strict=True) for bound in pair]
        table = np.array([*bounds, *self.box_constants(mask, colour)], np.int64)
        buffer = (ctypes.c_char * len(self._scalars)).from_buffer(self._scalars)
        return prepared(
            self._function,
            ctypes.c_void_p(self._memory.ctypes.data),
            ctypes.c_void_p(self._layout.ctypes.data),
            ctypes.c_void_p(ctypes.addressof(buffer)),
            ctypes.c_void_p(table.ctypes.data),
            ctypes.c_void_p(self._result_table.ctypes.data),
            kept=(table, buffer),
        )
