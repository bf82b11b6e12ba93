"""Functions of whole lines, one axis after the other, by plans that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.arguments import host_values, require_function
from distarray.array import DistArray
from distarray.arraylike import HostArray, read_only
from distarray.deferred import settle_readers
from distarray.elementwise import require_array, require_same_device
from distarray.errors import ArrayError, shown
from distarray.layout import Layout
from distarray.line_transforms import LineTransform
from distarray.pencils import LinePlan, Lines, LineWork, passes_of
from distarray.placement import axis_number
from distarray.redistribute import KeptPlans
from distarray.regions import Box

#: Plans kept to be run again, of each communicator: how many, and how many bytes of buffers on a
#: rank. That is more than redistributions may keep: a plan has buffers of a block's size for each
#: time that values travel, in a solution there and back, and a loop over time that solves in each
#: step should not make them anew. 1 GiB is for blocks of 256^3 numbers that travel four times.
_MOST_KEPT, _MOST_BYTES = 8, 1 << 30

#: A function of a block and of the indices where it lies.
LineFunction = Callable[[HostArray, tuple[slice, ...]], Any]
#: What is done with lines: one of these or several.
LineStep = LineFunction | LineTransform | Sequence[LineFunction | LineTransform]


def carry_out(works: Sequence[LineWork], array: DistArray, result: DistArray | None) -> DistArray:
    """Do works along grid axes, in their order, on the host. Collective.

    Parameters
    ----------
    works : sequence of LineWork
    array : DistArray
    result : DistArray, optional
        Takes what they make; by default an array of no grid, where the last work leaves the values.
        It may be `array`.
    """
    communicator = array.communicator
    kept: KeptPlans[LinePlan] | None = communicator.kept.get("lines")
    if kept is None:
        kept = communicator.kept["lines"] = KeptPlans(_MOST_KEPT, _MOST_BYTES)
    given, wanted = array.layout, None if result is None else result.layout
    plan = kept.get(
        (given, wanted, *((work.axis, work.length, work.dtype) for work in works)),
        lambda: LinePlan(passes_of(given, wanted, works, communicator.size), communicator),
    )
    if result is None:
        result = _placed(array, plan.result)
    settle_readers(result.block)
    backend = array.block.backend
    if backend.host:
        plan.run(works, array._owned, result._owned)
    else:
        values = np.empty(result.local_shape, result.dtype)
        plan.run(works, backend.to_host(array._owned), values)
        result._owned[...] = values
    result._written()
    return result


def _placed(array: DistArray, layout: Layout) -> DistArray:
    return array._place(layout, array.topology.divided(layout.decomposition))


def map_lines(
    array: DistArray,
    steps: Sequence[tuple[int | str, LineStep]],
    *,
    out: DistArray | None = None,
) -> DistArray:
    """Apply functions to blocks that are whole along one axis after the other. Collective.

    What several calls of `map_along` would do in several passes over memory is done part by part,
    and values travel between ranks as few times as the axes and the process grid allow.

    Parameters
    ----------
    array : DistArray
    steps : sequence of (axis, function)
        An axis is the number of a grid axis (components counted) or its name. A function gets a
        read-only host array with a part of this rank's values, components first, which is whole
        along the axis but not along others, and the ranges of global indices where it lies, one
        slice for each grid axis; its memory is used again afterwards. It returns one of the same
        shape, whose values are cast to the element type of `array`, and must do the same with each
        line whatever others it comes with.
        In place of a function there may be a `da.fft.LineTransform`, or a list of functions and
        transforms, which are done one after the other.
        On a device functions get a copy on the host.
    out : DistArray, optional
        Takes the result; of the shape and element type of `array`, on any process grid, and it may
        be `array` itself.

    Returns
    -------
    DistArray
        `out`, or an array of no grid over the process grid that leaves the last axis whole.

    Raises
    ------
    ArrayError
        No steps, an empty list, an axis that there is not, or `out` of another shape, element type
        or communicator; a transform of integers; a function that changes the shape of its block or
        makes complex values of real ones, on the ranks where it does alone, as errors of the
        function are.

    Examples
    --------
    >>> import distarray as da, numpy as np
    >>> u = da.asarray(np.ones((4, 3)))
    >>> sums = [(axis, lambda block, where, axis=axis: block.cumsum(axis)) for axis in (0, 1)]
    >>> da.map_lines(u, sums).gather()[-1]
    array([ 4.,  8., 12.])
    """
    require_array(array, "map_lines")
    if not isinstance(steps, Iterable):
        raise ArrayError(
            f"map_lines takes steps (axis, function), got {shown(steps)}; pass them in a list."
        )
    works = [_work(array, step) for step in steps]
    if not works:
        raise ArrayError("map_lines takes at least one step, got none; pass (axis, function).")
    if out is not None:
        require_array(out, "map_lines")
        require_same_device(out, array)
        if (out.shape, out.dtype) != (array.shape, array.dtype) or (
            out.communicator != array.communicator
        ):
            raise ArrayError(
                f"{out!r} cannot take what map_lines makes of {array!r}; use an array of its shape "
                "and element type on the same communicator."
            )
    return carry_out(works, array, out)


def _work(array: DistArray, step: Any) -> LineWork:
    if not isinstance(step, tuple | list) or len(step) != 2:
        raise ArrayError(f"A step of map_lines is (axis, function), got {shown(step)}; correct it.")
    number = axis_number(array, step[0])
    depth = len(array.components)
    if number < depth:
        raise ArrayError(
            f"Axis {number} of {array!r} holds components; give map_lines one of the axes behind."
        )
    axis = number - depth
    if not isinstance(step[1], tuple | list):
        return _single(array, axis, step[1])
    if not step[1]:
        raise ArrayError("A step of map_lines does something, got no function; leave it out.")
    length = array.layout.points[axis]
    works = tuple(_single(array, axis, function) for function in step[1])
    return _Chain(axis, length, array.dtype, works)


def _single(array: DistArray, axis: int, function: Any) -> LineWork:
    length = array.layout.points[axis]
    if isinstance(function, LineTransform):
        return function.along(axis, length, array.dtype)
    if function is LineTransform:
        raise ArrayError(
            "A transform as a step of map_lines has a name, got the class LineTransform itself; "
            "write LineTransform('dct')."
        )
    require_function(function, "map_lines", "block", "where")
    return _Function(axis, length, array.dtype, function)


@dataclass(frozen=True)
class _Chain:
    """Works along one axis, one after the other, as `LineWork`."""

    axis: int
    length: int
    dtype: np.dtype[Any]
    works: tuple[LineWork, ...]

    def __call__(self, lines: Lines, box: Box) -> Lines:
        for number, work in enumerate(self.works):
            if number and isinstance(self.works[number - 1], _Function):
                lines = Lines.of(lines.values, lines.axis, lines.room)
            lines = work(lines, box)
        return lines


@dataclass(frozen=True)
class _Function:
    """A user's function as `LineWork`."""

    axis: int
    length: int
    dtype: np.dtype[Any]
    function: LineFunction

    def __call__(self, lines: Lines, box: Box) -> Lines:
        given = lines.values
        with np.errstate(all="ignore"):
            values = host_values(
                self.function(read_only(given), box.slices()), "Values of a function of map_lines"
            )
        if values.dtype.kind == "c" and self.dtype.kind != "c":
            raise ArrayError(
                f"A function of map_lines made complex values for an array of {self.dtype}; return "
                "their real part."
            )
        if values.shape != given.shape:
            raise ArrayError(
                f"A function of map_lines made {values.shape} of a block of shape {given.shape}; "
                "return values of the shape it is given."
            )
        values = values.astype(self.dtype, copy=False)
        return Lines(lines.memory, values, lines.axis, lines.room, kept=True)
