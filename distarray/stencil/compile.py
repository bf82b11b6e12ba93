"""Bind a traced kernel to the memory of one rank: as compiled C, or as NumPy where nothing
compiles.

Text is made once for equal programs and compiled once for equal text, so tracing a kernel again
costs no compilation. A launch prepares the arguments of each box once and is then one foreign call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray import exact
from distarray.backends.base import Backend
from distarray.backends.calls import nothing, prepared
from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil import codegen, evaluate
from distarray.stencil.codegen import Code
from distarray.stencil.expression import Program
from distarray.stencil.frame import Table
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry

Array = np.ndarray[Any, Any]

#: Prepared boxes that one launch keeps.
_KEPT_BOXES = 4096
_SCALAR_FORMATS = {bool: "q8x", int: "q8x", float: "d8x", complex: "dd"}


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
        function = backend.load(code.text, code.symbol, fast=program.fast)
        if function is not None:
            return NativeLaunch(program, code, function, arrays, geometry)
    return evaluate.bind(program, arrays, geometry)


def _rows_are_contiguous(memory: Array) -> bool:
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
        tables = [_Table(table, arrays, geometry) for table in code.tables]
        addresses = [_origin(program, number, view, geometry) for number, view in enumerate(arrays)]
        self._memory = np.array([*addresses, *(table.address for table in tables), 0], np.uint64)
        self._layout = np.array([*_strides(arrays), 0], np.int64)
        self._tables = tables
        self._format = struct.Struct(
            "=" + "".join(_SCALAR_FORMATS[kind] for _, kind in program.scalars)
        )
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
        if self._complex:
            values = _flat(values, [kind for _, kind in self._program.scalars])
        self._format.pack_into(self._scalars, 0, *values)

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        call = self._recent.get((id(box), mask, colour))
        if call is None:
            call = self._call(box, mask, colour)
        call()

    def reset_reductions(self) -> None:
        for result, accumulator in zip(self._results, self._code.accumulators, strict=True):
            result[:] = accumulator.cleared()

    def partials(self) -> list[Array]:
        groups: list[list[Array]] = [[] for _ in self._program.reductions]
        for result, accumulator in zip(self._results, self._code.accumulators, strict=True):
            groups[accumulator.reduction].append(result)
        return [_joined(parts) for parts in groups]

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
        table = np.array([*bounds, mask, (colour + self._parity) & 1, *self._start], np.int64)
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


def _joined(parts: list[Array]) -> Array:
    """The partial result of one reduction; of a complex sum from its two parts."""
    if parts[0].size == exact.LENGTH:
        limbs = exact.carried(np.stack(parts))
        return limbs if len(parts) == 2 else limbs[0]
    return parts[0].copy() if len(parts) == 1 else parts[0] + 1j * parts[1]


def _flat(values: Sequence[complex], kinds: Sequence[type]) -> list[Any]:
    """Complex scalars as two numbers."""
    flat: list[Any] = []
    for value, kind in zip(values, kinds, strict=True):
        flat += [complex(value).real, complex(value).imag] if kind is complex else [value]
    return flat


def _origin(program: Program, number: int, view: ArrayView, geometry: LaunchGeometry) -> int:
    """The address that the kernel calls index 0 of component 0.

    A fine array is read at 2 l + d and a coarse one at global // 2 + d, so their addresses are
    shifted accordingly.
    """
    array, memory = program.arrays[number], view.memory
    grid = memory.strides[len(array.components) :]
    start = geometry.start if array.profile_axis is None else (geometry.start[array.profile_axis],)
    if array.level > 0:
        index = [o + 2 * s - t for o, s, t in zip(view.origin, start, view.start, strict=True)]
    elif array.level < 0:
        index = [o - t for o, t in zip(view.origin, view.start, strict=True)]
    else:
        index = list(view.origin)
    offset = sum(i * stride for i, stride in zip(index, grid, strict=True))
    return int(memory.ctypes.data + offset) % 2**64


def _strides(arrays: Sequence[ArrayView]) -> list[int]:
    """Strides in elements of all arrays, each without its last axis."""
    return [
        stride // view.memory.itemsize for view in arrays for stride in view.memory.strides[:-1]
    ]


class _Table:
    """Values over an axis as far as the arrays reach; `address` is that of local index 0."""

    def __init__(self, table: Table, arrays: Sequence[ArrayView], geometry: LaunchGeometry) -> None:
        kind, axis, staggered = table
        low, high = _reach(arrays, axis, geometry)
        indices = np.arange(low, high, dtype=np.int64) + geometry.start[axis]
        self.values = _positions(kind, indices, axis, staggered, geometry)
        self.address = self.values.ctypes.data - low * self.values.itemsize


def _reach(arrays: Sequence[ArrayView], axis: int, geometry: LaunchGeometry) -> tuple[int, int]:
    """Local indices that any array of the iteration grid holds along an axis."""
    ndim = len(geometry.start)
    own = [view for view in arrays if len(view.origin) == ndim]
    low = min((-view.origin[axis] for view in own), default=0)
    extents = [
        view.memory.shape[view.memory.ndim - ndim + axis] - view.origin[axis] for view in own
    ]
    return low, max(extents, default=geometry.cells[axis]) + 1


def _positions(
    kind: str, indices: Array, axis: int, staggered: bool, geometry: LaunchGeometry
) -> Array:
    if kind == "index":
        return indices % max(geometry.cells[axis], 1) if geometry.periodic[axis] else indices
    if geometry.axes is None:
        raise StencilError(
            "A kernel uses da.coordinate or da.spacing on arrays that lie on no grid; create them "
            "with a da.Grid."
        )
    along = geometry.axes[axis]
    found = (
        along.positions(indices, staggered)
        if kind == "coordinate"
        else along.spacings(indices, staggered)
    )
    return np.ascontiguousarray(found, np.float64)
