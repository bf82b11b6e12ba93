"""Elementwise NumPy functions on device arrays, as stencil programs of one line.

Types are NumPy's: Python numbers are weak, NumPy numbers keep their dtype, and the result is cast
into the target. Complex products and quotients follow the real expansion that kernels use. What the
stencil language does not have (complex square roots, powers of integers with an exponent that is an
array, ...) is computed on the host, which waits for the operands and uploads the result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.backends.base import BoxCopy
from distarray.backends.calls import nothing
from distarray.backends.device_array import DeviceArray, require_writeable
from distarray.backends.device_copies import overlap
from distarray.errors import ArrayError, StencilError, UnsupportedError, shown
from distarray.regions import Box
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import ArrayParameter, Program, WeakKind, kind_of
from distarray.stencil.launch import ArrayView, LaunchGeometry
from distarray.stencil.symbols import Value

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

HostArray = np.ndarray[Any, Any]
Function = Callable[..., Any]

#: Exponents that are written into the text: products or square roots stand for such powers, as
#: exact as the power. NumPy computes these by themselves too.
_FLOAT_EXPONENTS = frozenset((-1, 0, 0.5, 1, 2))
_WHOLE_EXPONENTS = range(65)


@dataclass(frozen=True)
class _Operand:
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


def prepare(
    function: Function,
    operands: Sequence[Any],
    target: DeviceArray,
    where: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[[], None]:
    """The call of an elementwise function into `target`; see `Backend.prepare_map`. Local.

    `options` are NumPy's `dtype` and `casting`. Host arrays among the operands are uploaded at
    once, with the values they have now.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As NumPy raises them for these operands.
    """
    require_writeable(target)
    backend, options = target.backend, dict(options or {})
    operands = [_taken(backend, operand) for operand in operands]
    if isinstance(function, np.ufunc):
        with np.errstate(all="ignore"):
            function(*map(sample, operands), **options, out=np.empty(1, target.dtype))
    mask = None if where is None or where is True else _mask(backend, where)
    _require_shapes([*operands, mask], target)
    if not target.size:
        return nothing
    call = _Call(function, tuple(operands), target, mask, options)
    return _by_kernel(call) or _HostMap(call)


@dataclass(frozen=True)
class _Call:
    """A function, what it is called with, and where its values go."""

    function: Function
    operands: tuple[Any, ...]
    target: DeviceArray
    mask: DeviceArray | None
    options: Mapping[str, Any]

    @property
    def arrays(self) -> list[DeviceArray]:
        """Arrays among the operands, the mask and the target."""
        found = [o for o in self.operands if isinstance(o, DeviceArray)]
        return [*found, self.target] if self.mask is None else [*found, self.mask, self.target]


def sample(value: Any) -> Any:
    """An operand of one element and the same type: what a function makes of it tells the type of
    its result, and what it refuses.
    """
    return np.ones(1, value.dtype) if isinstance(value, DeviceArray) else value


def _taken(backend: AcceleratorBackend, operand: Any) -> Any:
    """A device array or a number."""
    if isinstance(operand, DeviceArray):
        return operand
    if isinstance(operand, np.ndarray | list | tuple):
        host = np.asarray(operand)
        return backend.asarray(host) if host.ndim else host[()]
    if isinstance(operand, bool | int | float | complex | np.generic):
        return operand
    raise UnsupportedError(
        f"Device arrays do not combine with {shown(operand)}; use numbers, NumPy arrays or device "
        "arrays."
    )


def _mask(backend: AcceleratorBackend, where: Any) -> DeviceArray:
    mask = where if isinstance(where, DeviceArray) else backend.asarray(np.asarray(where))
    if mask.dtype != np.bool_:
        raise ArrayError(f"where= must be an array of truth values, got {mask.dtype}; compare.")
    return mask


def _require_shapes(operands: Sequence[Any], target: DeviceArray) -> None:
    for operand in operands:
        if isinstance(operand, DeviceArray):
            try:
                np.broadcast_to(operand.shadow, target.shape)
            except ValueError:
                raise ArrayError(
                    f"Values of shape {operand.shape} do not broadcast to an array of shape "
                    f"{target.shape}; match it."
                ) from None


# ---- on the device


class _Map:
    """A bound program of one line, over all elements."""

    def __init__(self, before: Sequence[Callable[[], None]], run: Callable[[], None]) -> None:
        self._before, self._run = tuple(before), run

    def __call__(self) -> None:
        for copy in self._before:
            copy()
        self._run()


def _by_kernel(call: _Call) -> Callable[[], None] | None:
    """The call by a kernel; None where there is none."""
    from distarray.backends.device_launch import DeviceLaunch

    arrays, described = call.arrays, _described(call)
    if not all(map(_addressable, arrays)) or not _fits(call):
        return None
    before: list[Callable[[], None]] = []
    settled = [_settled(array, call.target, before) for array in arrays[:-1]]
    views = _collapsed([*settled, call.target])
    dtype = call.options.get("dtype")
    program = _program(
        _Line(
            call.function,
            described,
            call.target.dtype,
            call.mask is not None,
            views[-1].ndim,
            None if dtype is None else np.dtype(dtype),
        )
    )
    if program is None:
        return None
    zeros = (0,) * program.ndim
    launch = DeviceLaunch(
        call.target.backend,
        program,
        [ArrayView(view, zeros, zeros) for view in views],
        LaunchGeometry(zeros, views[-1].shape, (False,) * program.ndim, None),
        constants=[
            _scalar(operand)
            for operand, what in zip(call.operands, described, strict=True)
            if what.varies
        ],
    )
    run = launch.prepared(((Box.of_shape(views[-1].shape), -1),), 0)
    return _Map(before, run) if before else run


def _described(call: _Call) -> tuple[_Operand, ...]:
    found = [_described_operand(operand) for operand in call.operands]
    if call.function is np.power and not isinstance(call.operands[1], DeviceArray | np.generic):
        base, exponent = map(sample, call.operands)
        written = _FLOAT_EXPONENTS if np.result_type(base).kind == "f" else _WHOLE_EXPONENTS
        if exponent in written:
            found[1] = _Operand(kind=kind_of(exponent), constant=exponent)
    return tuple(found)


def _described_operand(operand: Any) -> _Operand:
    if isinstance(operand, DeviceArray):
        return _Operand(dtype=operand.dtype)
    if isinstance(operand, np.generic):
        return _Operand(operand.dtype, _KINDS[operand.dtype.kind])
    return _Operand(kind=kind_of(operand))


_KINDS: dict[str, WeakKind] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def _scalar(value: Any) -> Any:
    """A number as a kernel takes it: integers as int64, of which unsigned ones keep the bits."""
    number = value.item() if isinstance(value, np.generic) else value
    return number - 2**64 if isinstance(number, int) and number >= 2**63 else number


def _fits(call: _Call) -> bool:
    """Whether Python integers fit the integers they meet; NumPy compares others exactly."""
    types = [o.dtype for o in call.operands if isinstance(o, DeviceArray | np.generic)]
    numbers = [o for o in call.operands if type(o) is int]
    meeting = np.result_type(*types) if types else np.dtype(np.int64)
    if meeting.kind not in "iu":
        meeting = np.dtype(np.int64)
    limits = np.iinfo(meeting)
    return all(limits.min <= number <= limits.max for number in numbers)


def _addressable(array: DeviceArray) -> bool:
    """Whether elements lie as kernels take them: aligned, at distances of whole elements."""
    return array.shadow.flags.aligned and not any(s % array.itemsize for s in array.strides)


def _settled(
    operand: DeviceArray, target: DeviceArray, before: list[Callable[[], None]]
) -> DeviceArray:
    """The operand, broadcast; a copy to be made before if writing the target changes elements of it
    that are still to be read.
    """
    seen = np.broadcast_to(operand.shadow, target.shape)
    same = operand.address == target.address and seen.strides == target.strides
    if not same and overlap(operand.shadow, target.shadow):
        copy = operand.backend.empty(operand.shape, operand.dtype)
        before.append(operand.backend.prepare_copies([BoxCopy(operand, copy)]))
        operand, seen = copy, np.broadcast_to(copy.shadow, target.shape)
    return DeviceArray(operand.backend, operand.allocation, seen)


def _collapsed(arrays: Sequence[DeviceArray]) -> list[DeviceArray]:
    """The arrays, of one shape, over as few axes as possible, those with the largest steps of the
    last array first.
    """
    shape, steps = arrays[-1].shape, arrays[-1].strides
    axes = sorted((a for a, n in enumerate(shape) if n > 1), key=lambda a: -abs(steps[a]))
    extents: list[int] = []
    strides: list[tuple[int, ...]] = []  # of each array
    for axis in axes:
        own = tuple(array.strides[axis] for array in arrays)
        if extents and strides[-1] == tuple(shape[axis] * step for step in own):
            extents[-1] *= shape[axis]
            strides[-1] = own
        else:
            extents.append(shape[axis])
            strides.append(own)
    if not extents:
        extents, strides = [1], [tuple(array.itemsize for array in arrays)]
    return [
        DeviceArray.on(
            array.backend,
            array.allocation,
            tuple(extents),
            array.dtype,
            offset=array.address - array.allocation.address,
            strides=tuple(step[number] for step in strides),
        )
        for number, array in enumerate(arrays)
    ]


# ---- programs


@dataclass(frozen=True)
class _Line:
    """What a program depends on: `target[0] = function(x0[0], s1, ...)`, perhaps where a mask says
    so, perhaps computed in another type.
    """

    function: Function
    operands: tuple[_Operand, ...]
    target: np.dtype[Any]
    masked: bool
    ndim: int
    dtype: np.dtype[Any] | None


@functools.lru_cache(maxsize=4096)
def _program(line: _Line) -> Program | None:
    """The program of one line; None if the stencil language lacks it."""
    from distarray.stencil.tracing import trace

    types = [(f"x{n}", o.dtype) for n, o in enumerate(line.operands) if o.kind is None]
    if line.masked:
        types.append(("mask", np.dtype(np.bool_)))
    types.append(("target", line.target))
    arrays = [ArrayParameter(name, dtype, (), (False,) * line.ndim) for name, dtype in types]  # type: ignore[arg-type]
    scalars = {f"s{n}": o.kind for n, o in enumerate(line.operands) if o.varies}
    kernel = _Kernel(line)
    kernel.__signature__ = inspect.Signature(
        [
            *(inspect.Parameter(a.name, inspect.Parameter.POSITIONAL_ONLY) for a in arrays),
            *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in scalars),
        ]
    )
    try:
        return trace(kernel, arrays, scalars, {}, ndim=line.ndim)  # type: ignore[arg-type]
    except (StencilError, TypeError):
        return None


class _Kernel:
    """A line as the function of a stencil kernel."""

    __signature__: inspect.Signature

    def __init__(self, line: _Line) -> None:
        self.__name__ = line.function.__name__
        self._line, self._here = line, (0,) * line.ndim

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


def _loop(line: _Line) -> tuple[np.dtype[Any], ...]:
    """The types in which NumPy computes for a result of the given one."""
    types = [operand.dtype or operand.kind for operand in line.operands]
    ufunc: Any = line.function
    resolved: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes(
        (*(np.dtype(np.bool_) if kind is bool else kind for kind in types), None),
        signature=(*(None for _ in types), line.dtype),
        casting="unsafe",
    )
    return resolved[: len(types)]


# ---- on the host


class _HostMap:
    """The call by NumPy: the host gets the operands and uploads the result."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def __call__(self) -> None:
        call, mask = self._call, self._call.mask
        values = [o.get() if isinstance(o, DeviceArray) else o for o in call.operands]
        if mask is None:
            chosen: Any = True
            result = np.empty(call.target.shape, call.target.dtype)
        else:
            chosen, result = mask.get(), call.target.get()
        with np.errstate(all="ignore"):
            computed = (
                values[0] if call.function is np.copyto else call.function(*values, **call.options)
            )
            np.copyto(result, computed, where=chosen, casting="unsafe")
        call.target.backend.assign(call.target, result)
