"""The reference executor: a program run with NumPy, one array operation at a time. Pure.

Slow and plainly right. Values of all active stores are computed before any is written, so a point
never sees what the same pass wrote. Complex products, quotients and moduli follow the written-down
real expansion (see `complexmath`), not NumPy's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.complexmath import product, quotient
from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil.calls import TRANSCENDENTAL, as_dtype
from distarray.stencil.expression import (
    COARSE,
    FINE,
    Call,
    Cast,
    Constant,
    Coordinate,
    Expression,
    Index,
    Program,
    Read,
    Scalar,
    Spacing,
    walk,
)
from distarray.stencil.launch import ArrayView, LaunchGeometry
from distarray.stencil.partials import Partial

#: The integer that a float becomes on its way to another, which then takes its low bits. This
#: defines conversions out of range, for compiled kernels too: `astype` to uint32 gives other values
#: at the end of a row than within it. uint64 is int64, but of 2**63 and more is int64 of the rest.
INTEGER_BY = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "int32"),
    **dict.fromkeys(("uint32", "int64"), "int64"),
    "uint64": "uint64",
}


def bind(program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry) -> NumpyLaunch:
    """The program bound to memory; the same interface as the compiled one. Local."""
    return NumpyLaunch(program, arrays, geometry)


class NumpyLaunch:
    """A `BoundLaunch` that computes with NumPy."""

    def __init__(
        self, program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry
    ) -> None:
        self.program = program
        self.arrays = tuple(arrays)
        self.geometry = geometry
        self._scalars: dict[str, Any] = {}
        self._partials = [Partial(reduction) for reduction in program.reductions]

    def set_scalars(self, values: Sequence[complex]) -> None:
        for (name, kind), value in zip(self.program.scalars, values, strict=True):
            number = value.real if kind is not complex and isinstance(value, complex) else value
            self._scalars[name] = as_dtype(kind).type(number)

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        if box.empty:
            return
        stores, first = self.program.stores, len(self.program.stores)
        active = [store for bit, store in enumerate(stores) if mask >> bit & 1]
        reducing = [p for bit, p in enumerate(self._partials, first) if mask >> bit & 1]
        roots = [store.value for store in active] + [p.reduction.value for p in reducing]
        values = self._evaluate(roots, box)
        chosen = self._colour(box, colour)
        for store in active:
            view = self.arrays[store.parameter]
            target = view.memory[store.component][box.slices([-o for o in view.origin])]
            np.copyto(target, values[id(store.value)], where=chosen)
        for partial in reducing:
            value = np.broadcast_to(values[id(partial.reduction.value)], box.shape)
            partial.add(value[chosen] if isinstance(chosen, np.ndarray) else value)

    def run_boxes(self, boxes: Sequence[tuple[Box, int]], colour: int = 0) -> None:
        for box, mask in boxes:
            self.run(box, mask, colour)

    def reset_reductions(self) -> None:
        for partial in self._partials:
            partial.reset()

    def partials(self) -> list[HostArray]:
        return [partial.result() for partial in self._partials]

    def device_partials(self) -> list[Any]:
        return []

    def _colour(self, box: Box, colour: int) -> HostArray | bool:
        """The points of a colour: those whose global indices have an even (0) or odd (1) sum."""
        if self.program.colours == 1:
            return True
        parity = sum(self._indices(box, axis) for axis in range(box.ndim)) % 2
        return np.asarray(parity == colour)

    def _evaluate(self, roots: Sequence[Expression], box: Box) -> dict[int, Any]:
        """The value of every node under `roots` over the box, by the node's id."""
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for node in walk(roots):
                operands = [values[id(operand)] for operand in node.operands]
                values[id(node)] = self._value(node, operands, box)
        return values

    def _value(self, node: Expression, operands: Sequence[Any], box: Box) -> Any:
        if isinstance(node, Call):
            return compute(node, operands)
        if isinstance(node, Cast):
            return convert(operands[0], as_dtype(node.dtype))
        if isinstance(node, Read):
            return self._read(node, box)
        if isinstance(node, Constant):
            return as_dtype(node.dtype).type(node.value)
        if isinstance(node, Scalar):
            return self._scalars[node.name]
        return self._position(node, box)

    # ---- positions

    def _indices(self, box: Box, axis: int) -> HostArray:
        """Global indices along an axis, shaped to broadcast over the box."""
        start = self.geometry.start[axis]
        numbers = np.arange(start + box.start[axis], start + box.stop[axis], dtype=np.int64)
        return numbers.reshape(-1, *(1,) * (box.ndim - axis - 1))

    def _position(self, node: Expression, box: Box) -> HostArray:
        if not isinstance(node, (Index, Coordinate, Spacing)):
            raise StencilError(f"Kernel {self.program.name} holds an unknown node, {node!r}.")
        indices = self._indices(box, node.axis)
        if isinstance(node, Index):
            cells = self.geometry.cells[node.axis]
            return indices % cells if self.geometry.periodic[node.axis] else indices
        if self.geometry.axes is None:
            raise StencilError(
                f"Kernel {self.program.name} uses da.coordinate or da.spacing, but its arrays lie "
                "on no grid; create them by grid.zeros or grid.from_function."
            )
        axis = self.geometry.axes[node.axis]
        place = axis.positions if isinstance(node, Coordinate) else axis.spacings
        return place(indices, node.staggered)

    # ---- memory

    def _read(self, node: Read, box: Box) -> HostArray:
        """What a read sees at each point of the box (a copy, so that stores cannot change it)."""
        view = self.arrays[node.parameter]
        memory = view.memory[node.component]
        axes = range(box.ndim) if node.axis is None else (node.axis,)
        places = [
            self._places(node, view, box, position, axis) for position, axis in enumerate(axes)
        ]
        for place, extent in zip(places, memory.shape, strict=True):
            if place[0] < 0 or place[-1] >= extent:
                name = self.program.arrays[node.parameter].name
                raise StencilError(
                    f"Kernel {self.program.name} reads {name} at {node.offsets} outside its memory "
                    f"from the points {box}; widen the halo."
                )
        values = _taken(memory, places)
        if node.axis is not None:
            values = values.reshape(-1, *(1,) * (box.ndim - node.axis - 1))
        return values

    def _places(
        self, node: Read, view: ArrayView, box: Box, position: int, axis: int
    ) -> range | HostArray:
        """Memory indices that a read visits along one axis."""
        first, stop = box.start[axis], box.stop[axis]
        start, source_start = self.geometry.start[axis], view.start[position]
        moved = view.origin[position] + node.offsets[position]
        relation = self.program.arrays[node.parameter].along(axis, node.relation)
        if relation == FINE:
            moved += 2 * start - source_start
            return range(2 * first + moved, 2 * stop + moved - 1, 2)
        if relation == COARSE:
            return np.arange(first + start, stop + start) // 2 + (moved - source_start)
        return range(first + moved, stop + moved)


def _taken(memory: HostArray, places: Sequence[range | HostArray]) -> HostArray:
    """A copy of the memory at some indices along each axis."""
    ranges = [place for place in places if isinstance(place, range)]
    if len(ranges) < len(places):
        chosen: HostArray = memory[np.ix_(*map(np.asarray, places))]
        return chosen
    return memory[tuple(slice(r.start, r.stop, r.step) for r in ranges)].copy()


# ---- arithmetic


def convert(value: Any, dtype: np.dtype[Any]) -> Any:
    """`astype`, for scalars too."""
    array = np.asarray(value)
    if array.dtype == dtype:
        return value
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    if array.dtype.kind == "f" and dtype.kind in "iu":
        array = _integers(array, INTEGER_BY[dtype.name])
    return array.astype(dtype)[()]


def _integers(values: HostArray, by: str) -> HostArray:
    """Floats as int32, int64 or uint64; see `INTEGER_BY`."""
    if by != "uint64":
        return values.astype(by)
    high = np.asarray(values >= 2.0**63)
    low = np.where(high, values - 2.0**63, values).astype(np.int64).astype(np.uint64)
    return np.asarray(low ^ (high.astype(np.uint64) << np.uint64(63)))


def compute(node: Call, operands: Sequence[Any]) -> Any:
    """The value of a call, its operands first converted to the dtype it computes in."""
    dtype = as_dtype(node.operation_dtype)
    if node.function == "where":
        condition, yes, no = operands
        return np.where(condition, convert(yes, dtype), convert(no, dtype))[()]
    converted = [convert(operand, dtype) for operand in operands]
    if dtype.kind == "c" and node.function in _COMPLEX:
        return _COMPLEX[node.function](*converted)
    if node.function in TRANSCENDENTAL:
        function = _CLOSE.get(node.function, getattr(np, node.function))
        return _transcendental(function, converted, dtype)
    return getattr(np, node.function)(*converted)


def _transcendental(
    function: Callable[..., Any], operands: Sequence[Any], dtype: np.dtype[Any]
) -> Any:
    """The value in float64, rounded: NumPy's float32 functions err by up to four ulp."""
    double = np.dtype(np.float64)
    return convert(function(*(convert(operand, double) for operand in operands)), dtype)


def _cube_root(x: Any) -> Any:
    """NumPy's, after a step of Newton's method: where it is that of the C library it errs by three
    ulp.
    """
    small = np.abs(x) < 2.0**-900
    scaled = np.where(small, x * 2.0**300, x)
    root = np.cbrt(scaled)
    with np.errstate(all="ignore"):
        precise = root.astype(np.longdouble)
        step = (precise**3 - scaled) / (3 * precise**2)
        better = np.where((root == 0) | ~np.isfinite(root), root, precise - step)
    return np.where(small, better * 2.0**-100, better).astype(np.float64)[()]


#: In place of functions of NumPy that may err by more than two ulp.
_CLOSE: dict[str, Callable[..., Any]] = {"cbrt": _cube_root}


def _absolute(value: Any) -> Any:
    return _transcendental(np.hypot, (value.real, value.imag), value.real.dtype)


_COMPLEX: dict[str, Callable[..., Any]] = {
    "multiply": product,
    "divide": quotient,
    "absolute": _absolute,
}
