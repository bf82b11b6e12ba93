"""Kernels of one line: what becomes of an elementwise function on arrays of given types and steps.

A `LineKernel` is made once for calls that differ in their numbers and in where the arrays lie only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.backends.device_array import DeviceArray
from distarray.backends.driver import Access, KernelText, Parameters
from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil import cuda, evaluate
from distarray.stencil.calls import as_dtype
from distarray.stencil.cuda import packing
from distarray.stencil.expression import ArrayParameter, Program, WeakKind
from distarray.stencil.launch import ArrayView, LaunchGeometry
from distarray.stencil.symbols import Value

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

Function = Callable[..., Any]
Steps = tuple[int, ...]


class Operand(NamedTuple):
    """What a program depends on of one operand: an array's or a NumPy number's dtype, the kind of a
    number, or a number that is written into the text.
    """

    dtype: np.dtype[Any] | None = None
    kind: WeakKind | None = None
    constant: Any = None

    @property
    def varies(self) -> bool:
        """Whether it is a number that the kernel is handed."""
        return self.kind is not None and self.constant is None


class Line(NamedTuple):
    """`target[0] = function(x0[0], s1, ...)`, perhaps where a mask says so, perhaps computed in
    another type.
    """

    function: Function
    operands: tuple[Operand, ...]
    target: np.dtype[Any]
    masked: bool
    dtype: np.dtype[Any] | None

    @property
    def arrays(self) -> list[tuple[str, Any]]:
        """Names and dtypes of the arrays: operands, the mask, the target."""
        found: list[tuple[str, Any]] = [
            (f"x{number}", operand.dtype)
            for number, operand in enumerate(self.operands)
            if operand.kind is None
        ]
        mask = [("mask", np.dtype(np.bool_))] if self.masked else []
        return [*found, *mask, ("target", self.target)]


class LineKernel:
    """The kernel of a line for arrays of one shape, each with its steps in bytes.

    Attributes
    ----------
    program : Program or None
        None if the stencil language lacks the function.
    """

    def __init__(
        self,
        backend: AcceleratorBackend,
        line: Line,
        shape: tuple[int, ...],
        steps: Sequence[Steps],
        *,
        aliased: bool,
    ) -> None:
        self._backend, self._sizes = backend, [dtype.itemsize for _, dtype in line.arrays]
        self._extents, self._steps = joined_axes(shape, steps, self._sizes)
        self._dtypes = [dtype for _, dtype in line.arrays]
        self.program = program_of(line, len(self._extents))
        if self.program is not None and backend.driver.compiles:
            self._generate(self.program, aliased)

    def _generate(self, program: Program, aliased: bool) -> None:
        elements = [
            [step // size for step in steps]
            for steps, size in zip(self._steps, self._sizes, strict=True)
        ]
        strided = self._extents[-1] > 1 and any(steps[-1] != 1 for steps in elements)
        wide = packing.wide([(self._extents, steps) for steps in elements])
        code = cuda.generate(program, aliased=aliased, wide=wide, strided=strided)
        layout = [step for steps in elements for step in (steps if strided else steps[:-1])]
        self._layout = np.array(layout or [0], np.int64)
        boxes = ((Box.of_shape(self._extents), -1),)
        self._launches = [
            (self._backend.driver.load(KernelText(*_fields(launch.kernel))), launch)
            for launch in packing.launches(code, boxes, (0,) * program.ndim)
        ]

    def bound(self, arrays: Sequence[DeviceArray], numbers: Sequence[Any]) -> Callable[[], None]:
        """The call on arrays, of which the last is written, with these numbers. Local."""
        program, driver = self.program, self._backend.driver
        if program is None:
            raise StencilError(
                "A function that the stencil language lacks has no kernel; call it on host arrays, "
                "taken by numpy.asarray."
            )
        last = len(arrays) - 1
        accesses = [
            Access(
                array.allocation, array.address, self._extents, self._steps[number],
                self._sizes[number], number == last,
            )
            for number, array in enumerate(arrays)
        ]  # fmt: skip
        if not driver.compiles:
            run = self._evaluation(program, arrays, numbers)
            return partial(driver.call, run, self._backend.compute, accesses, program.name)
        scalars = self._backend.kept_scalars.find(program, numbers)
        accesses.append(scalars.access(False))
        pointers = np.array([*(a.address for a in arrays), scalars.address], np.uint64)
        handed = [pointers[n : n + 1] for n in range(len(pointers))]
        calls = [
            partial(
                driver.launch, function, launch.grid, launch.block,
                Parameters([*handed, self._layout, launch.values]),
                self._backend.compute, accesses, program.name,
            )
            for function, launch in self._launches
        ]  # fmt: skip
        return calls[0] if len(calls) == 1 else partial(_all, calls)

    def _evaluation(
        self, program: Program, arrays: Sequence[DeviceArray], numbers: Sequence[Any]
    ) -> Callable[[], None]:
        """The same by NumPy."""
        zeros = (0,) * program.ndim
        views = []
        for array, dtype, steps in zip(arrays, self._dtypes, self._steps, strict=True):
            seen = DeviceArray.on(
                self._backend,
                array.allocation,
                self._extents,
                dtype,
                offset=array.address - array.allocation.address,
                strides=steps,
            )
            views.append(ArrayView(seen.shadow, zeros, zeros))
        geometry = LaunchGeometry(zeros, self._extents, (False,) * program.ndim, None)
        launch = evaluate.bind(program, views, geometry)
        launch.set_scalars(numbers)
        return partial(launch.run, Box.of_shape(self._extents))


def _all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _fields(kernel: Any) -> tuple[str, str, tuple[str, ...], bool]:
    return kernel.text, kernel.symbol, kernel.parameters, kernel.fast


def joined_axes(
    shape: tuple[int, ...], steps: Sequence[Steps], sizes: Sequence[int]
) -> tuple[tuple[int, ...], list[Steps]]:
    """Shape and steps over as few axes as possible, those with the largest steps of the last array
    first.
    """
    axes = sorted((a for a, n in enumerate(shape) if n > 1), key=lambda a: -abs(steps[-1][a]))
    extents: list[int] = []
    found: list[Steps] = []  # along each axis, of each array
    for axis in axes:
        own = tuple(array[axis] for array in steps)
        if extents and found[-1] == tuple(shape[axis] * step for step in own):
            extents[-1] *= shape[axis]
            found[-1] = own
        else:
            extents.append(shape[axis])
            found.append(own)
    if not extents:
        extents, found = [1], [tuple(sizes)]
    return tuple(extents), list(zip(*found, strict=True))


# ---- programs


@lru_cache(maxsize=4096)
def program_of(line: Line, ndim: int) -> Program | None:
    """The program of a line over some axes; None if the stencil language lacks it."""
    from distarray.stencil.tracing import trace

    arrays = [ArrayParameter(name, dtype, (), (False,) * ndim) for name, dtype in line.arrays]
    scalars: dict[str, Any] = {f"s{n}": o.kind for n, o in enumerate(line.operands) if o.varies}
    kernel = _Kernel(line, ndim)
    kernel.__signature__ = inspect.Signature(
        [
            *(inspect.Parameter(a.name, inspect.Parameter.POSITIONAL_ONLY) for a in arrays),
            *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in scalars),
        ]
    )
    try:
        return trace(kernel, arrays, scalars, {}, ndim=ndim)
    except (StencilError, TypeError):
        return None


class _Kernel:
    """A line as the function of a stencil kernel."""

    __signature__: inspect.Signature

    def __init__(self, line: Line, ndim: int) -> None:
        self.__name__ = line.function.__name__
        self._line, self._here = line, (0,) * ndim

    def __call__(self, *arrays: Any, **scalars: Any) -> None:
        line, here = self._line, self._here
        target, inputs = arrays[-1], iter(arrays)
        values = [self._value(place, inputs, scalars) for place in range(len(line.operands))]
        if line.dtype is not None:
            values = [
                value.astype(dtype) if isinstance(value, Value) else value
                for value, dtype in zip(values, _loop(line), strict=True)
            ]
        value = values[0] if line.function is np.copyto else line.function(*values)
        if line.target.kind not in "cb" and as_dtype(value.dtype).kind == "c":
            value = value.real
        if line.masked:
            value = np.where(next(inputs)[here], value.astype(line.target), target[here])
        target[here] = value

    def _value(self, place: int, arrays: Iterator[Any], scalars: Mapping[str, Any]) -> Any:
        operand = self._line.operands[place]
        if operand.constant is not None:
            return operand.constant
        if operand.kind is None:
            return next(arrays)[self._here]
        number = scalars[f"s{place}"]
        return number if operand.dtype is None else number.astype(operand.dtype)


def _loop(line: Line) -> tuple[np.dtype[Any], ...]:
    """The types in which NumPy computes for a result of the given one."""
    types = [operand.dtype or operand.kind for operand in line.operands]
    ufunc: Any = line.function
    resolved: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes(
        (*(np.dtype(np.bool_) if kind is bool else kind for kind in types), None),
        signature=(*(None for _ in types), line.dtype),
        casting="unsafe",
    )
    return resolved[: len(types)]
