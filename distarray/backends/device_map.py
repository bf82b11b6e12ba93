"""Elementwise NumPy functions on device arrays, as stencil programs of one line.

Types are NumPy's: Python numbers are weak, NumPy numbers keep their dtype, and the result is cast
into the target. Complex products and quotients follow the real expansion that kernels use. What the
stencil language does not have (complex square roots, powers of integers with an exponent that is an
array, ...) is computed on the host, which waits for the operands and uploads the result.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
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

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

HostArray = np.ndarray[Any, Any]
Function = Callable[..., Any]

_MOST_SCALARS = 256
#: Exponents that are written into the text: products or square roots stand for such powers, as
#: exact as the power. NumPy computes these by themselves too.
_FLOAT_EXPONENTS = frozenset((-1, 0, 0.5, 1, 2))
_WHOLE_EXPONENTS = range(65)


class KeptScalars:
    """Scalars in device memory, by their bytes: numbers that recur are uploaded once."""

    def __init__(self, backend: AcceleratorBackend) -> None:
        self._backend = backend
        self._kept: OrderedDict[bytes, DeviceArray] = OrderedDict()

    def find(self, values: bytes) -> DeviceArray:
        """Memory that holds these bytes, not to be written. Local."""
        found = self._kept.get(values)
        if found is None:
            found = self._backend.asarray(np.frombuffer(values, np.uint8))
            self._kept[values] = found
            if len(self._kept) > _MOST_SCALARS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(values)
        return found


@dataclass(frozen=True)
class _Operand:
    """What a program depends on of one operand: an array's or a NumPy number's dtype, the kind of a
    number, or a number that is written into the text.
    """

    dtype: np.dtype[Any] | None = None
    kind: WeakKind | None = None
    constant: Any = None


def prepare(
    backend: AcceleratorBackend,
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
    options = dict(options or {})
    operands = [_taken(backend, operand) for operand in operands]
    if isinstance(function, np.ufunc):
        with np.errstate(all="ignore"):
            function(*map(sample, operands), **options, out=np.empty(1, target.dtype))
    mask = None if where is None or where is True else _mask(backend, where)
    _require_shapes([*operands, mask], target)
    if not target.size:
        return nothing
    call = _by_kernel(backend, function, operands, target, mask, options)
    return call or _HostMap(backend, function, operands, target, mask, options)


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


def _by_kernel(
    backend: AcceleratorBackend,
    function: Function,
    operands: Sequence[Any],
    target: DeviceArray,
    mask: DeviceArray | None,
    options: Mapping[str, Any],
) -> Callable[[], None] | None:
    """The call by a kernel; None where there is none."""
    from distarray.backends.device_launch import DeviceLaunch

    arrays = [o for o in operands if isinstance(o, DeviceArray)]
    arrays += [target] if mask is None else [mask, target]
    described = [_described(function, operands, place) for place in range(len(operands))]
    if not all(map(_addressable, arrays)) or not _fits(function, operands, target):
        return None
    before: list[Callable[[], None]] = []
    settled = [_settled(array, target, before) for array in arrays[:-1]]
    views = _collapsed([*settled, target])
    program = _program(
        function,
        tuple(described),
        target.dtype,
        mask is not None,
        views[-1].ndim,
        options.get("dtype") and np.dtype(options["dtype"]),
    )
    if program is None:
        return None
    zeros = (0,) * program.ndim
    launch = DeviceLaunch(
        backend,
        program,
        [ArrayView(view, zeros, zeros) for view in views],
        LaunchGeometry(zeros, views[-1].shape, (False,) * program.ndim, None),
        constants=[
            _scalar(operand)
            for operand, what in zip(operands, described, strict=True)
            if not isinstance(operand, DeviceArray) and what.constant is None
        ],
    )
    run = launch.prepared(((Box.of_shape(views[-1].shape), -1),), 0)
    return _Map(before, run) if before else run


def _described(function: Function, operands: Sequence[Any], place: int) -> _Operand:
    operand = operands[place]
    if isinstance(operand, DeviceArray):
        return _Operand(dtype=operand.dtype)
    if function is np.power and place == 1 and not isinstance(operand, np.generic):
        floating = _sample_type(operands[0]).kind == "f"
        if operand in (_FLOAT_EXPONENTS if floating else _WHOLE_EXPONENTS):
            return _Operand(kind=kind_of(operand), constant=operand)
    kind = kind_of(operand) if not isinstance(operand, np.generic) else _kind(operand.dtype)
    return _Operand(operand.dtype if isinstance(operand, np.generic) else None, kind)


def _sample_type(value: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.result_type(sample(value))
    return dtype


def _kind(dtype: np.dtype[Any]) -> WeakKind:
    kinds: dict[str, WeakKind] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    return kinds[dtype.kind]


def _scalar(value: Any) -> Any:
    """A number as a kernel takes it: integers as int64, of which unsigned ones keep the bits."""
    number = value.item() if isinstance(value, np.generic) else value
    return number - 2**64 if isinstance(number, int) and number >= 2**63 else number


def _fits(function: Function, operands: Sequence[Any], target: DeviceArray) -> bool:
    """Whether Python integers fit the integers they meet; NumPy compares others exactly."""
    types = [o.dtype for o in operands if isinstance(o, DeviceArray | np.generic)]
    numbers = [o for o in operands if type(o) is int]
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


@functools.lru_cache(maxsize=4096)
def _program(
    function: Function,
    operands: tuple[_Operand, ...],
    target: np.dtype[Any],
    masked: bool,
    ndim: int,
    dtype: np.dtype[Any] | None,
) -> Program | None:
    """The program of a function of such operands; None if the stencil language lacks it."""
    from distarray.stencil.tracing import trace

    def parameter(name: str, dtype: np.dtype[Any]) -> ArrayParameter:
        return ArrayParameter(name, dtype, (), (False,) * ndim)

    arrays = [
        parameter(f"x{place}", operand.dtype)
        for place, operand in enumerate(operands)
        if operand.dtype is not None and operand.kind is None
    ]
    arrays += [parameter("mask", np.dtype(np.bool_))] * masked + [parameter("target", target)]
    scalars = {
        f"s{place}": operand.kind
        for place, operand in enumerate(operands)
        if operand.kind is not None and operand.constant is None
    }
    kernel = _Line(function, operands, dtype, masked, ndim)
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


class _Line:
    """The kernel's function: `target[0] = function(x0[0], s1, ...)`."""

    __signature__: inspect.Signature

    def __init__(
        self,
        function: Function,
        operands: tuple[_Operand, ...],
        dtype: np.dtype[Any] | None,
        masked: bool,
        ndim: int,
    ) -> None:
        self.__name__ = function.__name__
        self._function, self._operands, self._masked = function, operands, masked
        self._here = (0,) * ndim
        self._types = None if dtype is None else _loop(function, operands, dtype)

    def __call__(self, *arrays: Any, **scalars: Any) -> None:
        target, inputs = arrays[-1], iter(arrays)
        values = [self._value(place, inputs, scalars) for place in range(len(self._operands))]
        if self._types is not None:
            values = [
                v.astype(kind) if hasattr(v, "astype") else v
                for v, kind in zip(values, self._types, strict=True)
            ]
        value = values[0] if self._function is np.copyto else self._function(*values)
        if target.dtype.kind not in "cb" and as_dtype(value.dtype).kind == "c":
            value = value.real
        if self._masked:
            value = np.where(
                next(inputs)[self._here], value.astype(target.dtype), target[self._here]
            )
        target[self._here] = value

    def _value(self, place: int, arrays: Any, scalars: Mapping[str, Any]) -> Any:
        operand = self._operands[place]
        if operand.constant is not None:
            return operand.constant
        if operand.kind is None:
            return next(arrays)[self._here]
        number = scalars[f"s{place}"]
        return number if operand.dtype is None else number.astype(operand.dtype)


def _loop(
    function: Any, operands: tuple[_Operand, ...], dtype: np.dtype[Any]
) -> tuple[np.dtype[Any], ...]:
    """The types in which NumPy computes for a result of this one."""
    types = [operand.dtype or operand.kind or type(operand.constant) for operand in operands]
    resolved = function.resolve_dtypes(
        (*(np.dtype(np.bool_) if kind is bool else kind for kind in types), None),
        signature=(*(None for _ in types), dtype),
        casting="unsafe",
    )
    found: tuple[np.dtype[Any], ...] = resolved[: len(types)]
    return found


# ---- on the host


class _HostMap:
    """The call by NumPy: the host gets the operands and uploads the result."""

    def __init__(
        self,
        backend: AcceleratorBackend,
        function: Function,
        operands: Sequence[Any],
        target: DeviceArray,
        mask: DeviceArray | None,
        options: Mapping[str, Any],
    ) -> None:
        self._backend, self._function, self._operands = backend, function, tuple(operands)
        self._target, self._mask, self._options = target, mask, dict(options)

    def __call__(self) -> None:
        values = [_on_host(operand) for operand in self._operands]
        chosen: Any = True if self._mask is None else self._mask.get()
        result = (
            self._target.get()
            if self._mask is not None
            else np.empty(self._target.shape, self._target.dtype)
        )
        with np.errstate(all="ignore"):
            if self._function is np.copyto:
                np.copyto(result, values[0], where=chosen, casting="unsafe")
            else:
                computed = self._function(*values, **self._options)
                np.copyto(result, computed, where=chosen, casting="unsafe")
        self._backend.assign(self._target, result)


def _on_host(operand: Any) -> Any:
    return operand.get() if isinstance(operand, DeviceArray) else operand
