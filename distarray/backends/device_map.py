"""Elementwise NumPy functions on device arrays, as kernels of one line.

Types are NumPy's: Python numbers are weak, NumPy numbers keep their dtype, and the result is cast
into the target. Complex products and quotients follow the real expansion that kernels use. What the
stencil language does not have (complex square roots, powers of integers with an exponent that is an
array, ...) is computed on the host, which waits for the operands and uploads the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.backends.base import BoxCopy
from distarray.backends.calls import nothing
from distarray.backends.device_array import DeviceArray, require_writeable
from distarray.backends.device_copies import overlap
from distarray.backends.device_lines import Function, Line, LineKernel, Operand, Steps
from distarray.errors import ArrayError, BackendError
from distarray.stencil.expression import WeakKind, kind_of

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

#: Exponents that are written into the text: products or square roots stand for such powers, as
#: exact as the power. NumPy computes these by themselves too.
_FLOAT_EXPONENTS = frozenset((-1, 0, 0.5, 1, 2))
_WHOLE_EXPONENTS = range(65)

_MOST_FORMS = 1024
_KINDS: dict[str, WeakKind] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


class _Call(NamedTuple):
    """A function, what it is called with, and where its values go."""

    function: Function
    operands: tuple[Any, ...]
    described: tuple[Operand, ...]
    target: DeviceArray
    mask: DeviceArray | None
    options: Mapping[str, Any]


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
    taken = tuple(_taken(target.backend, operand) for operand in operands)
    described = _described(function, taken)
    if isinstance(function, np.ufunc):
        _checked(function, taken, described, options or {}, target.dtype)
    mask = None if where is None or where is True else _mask(target.backend, where)
    return _prepared(_Call(function, taken, described, target, mask, options or {}))


def evaluated(
    backend: AcceleratorBackend,
    function: Function,
    operands: Sequence[Any],
    options: Mapping[str, Any] | None = None,
) -> DeviceArray:
    """The values of an elementwise function in a new array; see `prepare`. Local."""
    taken = tuple(_taken(backend, operand) for operand in operands)
    described = _described(function, taken)
    dtype = _checked(function, taken, described, options or {}, None)
    shapes = [operand.shape for operand in taken if isinstance(operand, DeviceArray)]
    shape = shapes[0] if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    target = backend.empty(shape, dtype)
    _prepared(_Call(function, taken, described, target, None, options or {}))()
    return target


def _taken(backend: AcceleratorBackend, operand: Any) -> Any:
    """An array of the backend or a number."""
    if isinstance(operand, DeviceArray):
        if operand.backend is backend:
            return operand
        raise BackendError(
            f"An array on {operand.backend.name!r} does not combine with one on another device, "
            f"{backend.name!r}; take its values by numpy.asarray."
        )
    if isinstance(operand, bool | int | float | complex):
        return operand
    host = np.asarray(operand)
    if host.ndim or host.dtype.kind not in _KINDS:
        return backend.asarray(host if isinstance(operand, list | tuple) else operand)
    return host[()]


def _mask(backend: AcceleratorBackend, where: Any) -> DeviceArray:
    mask = where if isinstance(where, DeviceArray) else backend.asarray(np.asarray(where))
    if mask.dtype != np.bool_:
        raise ArrayError(f"where= must be an array of truth values, got {mask.dtype}; compare.")
    return mask


# ---- types


def _described(function: Function, operands: Sequence[Any]) -> tuple[Operand, ...]:
    found = tuple(map(_described_operand, operands))
    if function is np.power and found[1].dtype is None:
        base, exponent = found[0].dtype, operands[1]
        floating = base is None or base.kind == "f" or isinstance(exponent, float)
        if exponent in (_FLOAT_EXPONENTS if floating else _WHOLE_EXPONENTS):
            return found[0], found[1]._replace(constant=exponent)
    return found


def _described_operand(operand: Any) -> Operand:
    if isinstance(operand, DeviceArray):
        return Operand(operand.dtype)
    if isinstance(operand, np.generic):
        return Operand(operand.dtype, _KINDS[operand.dtype.kind])
    return Operand(None, kind_of(operand))


def _checked(
    function: Function,
    operands: Sequence[Any],
    described: tuple[Operand, ...],
    options: Mapping[str, Any],
    target: np.dtype[Any] | None,
) -> np.dtype[Any]:
    """The type of the result, where NumPy takes such operands into such a target."""
    if _fit(operands):
        return _result_type(function, described, tuple(options.items()), target)
    samples = [np.ones(1, o.dtype) if isinstance(o, DeviceArray) else o for o in operands]
    return _sampled(function, samples, options, target)


@lru_cache(maxsize=4096)
def _result_type(
    function: Function,
    described: tuple[Operand, ...],
    options: tuple[tuple[str, Any], ...],
    target: np.dtype[Any] | None,
) -> np.dtype[Any]:
    samples = [
        operand.constant
        if operand.constant is not None
        else np.ones(1, operand.dtype)
        if operand.kind is None
        else (operand.kind if operand.dtype is None else operand.dtype.type)(1)
        for operand in described
    ]
    return _sampled(function, samples, dict(options), target)


def _sampled(
    function: Function,
    samples: Sequence[Any],
    options: Mapping[str, Any],
    target: np.dtype[Any] | None,
) -> np.dtype[Any]:
    """What a function makes of one element: its type, or what it refuses."""
    out = {} if target is None else {"out": np.empty(1, target)}
    with np.errstate(all="ignore"):
        dtype: np.dtype[Any] = function(*samples, **options, **out).dtype
    return dtype


def _fit(operands: Sequence[Any]) -> bool:
    """Whether Python integers fit the integers they meet; NumPy compares others exactly, or refuses
    them.
    """
    numbers = [operand for operand in operands if type(operand) is int]
    if not numbers:
        return True
    types = [o.dtype for o in operands if isinstance(o, DeviceArray | np.generic)]
    meeting = np.result_type(*types) if types else np.dtype(np.int64)
    limits = np.iinfo(meeting if meeting.kind in "iu" else np.int64)
    return all(limits.min <= number <= limits.max for number in numbers)


# ---- on the device


def _prepared(call: _Call) -> Callable[[], None]:
    arrays = [operand for operand in call.operands if isinstance(operand, DeviceArray)]
    if call.mask is not None:
        arrays.append(call.mask)
    arrays.append(call.target)
    steps = [_spread(array, call.target.shape) for array in arrays]
    if not call.target.size:
        return nothing
    form = None
    if all(map(_addressable, arrays)) and _fit(call.operands):
        before = _settle(arrays, steps)
        form = _form(call, arrays, steps)
    if form is None or form.program is None:
        return partial(_by_host, call)
    numbers = [
        _number(operand)
        for operand, what in zip(call.operands, call.described, strict=True)
        if what.varies
    ]
    run = form.bound(arrays, numbers)
    return partial(_in_order, [*before, run]) if before else run


def _in_order(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _spread(array: DeviceArray, shape: tuple[int, ...]) -> Steps:
    """Bytes between neighbours of an array that is broadcast."""
    if array.shape == shape:
        return array.strides
    own, missing = array.shape, len(shape) - array.ndim
    if missing < 0 or any(
        n not in (1, wanted) for n, wanted in zip(own, shape[missing:], strict=True)
    ):
        raise ArrayError(
            f"Values of shape {own} do not broadcast to an array of shape {shape}; match it."
        )
    steps = (step if n > 1 else 0 for n, step in zip(own, array.strides, strict=True))
    return (*(0,) * missing, *steps)


def _addressable(array: DeviceArray) -> bool:
    """Whether elements lie as kernels take them: aligned, at distances of whole elements."""
    size = array.itemsize
    return array.address % array.dtype.alignment == 0 and not any(s % size for s in array.strides)


def _settle(arrays: list[DeviceArray], steps: list[Steps]) -> list[Callable[[], None]]:
    """Put copies in the place of arrays of which writing the target changes elements that are still
    to be read; gives what makes the copies.
    """
    target = arrays[-1]
    before: list[Callable[[], None]] = []
    for number, array in enumerate(arrays[:-1]):
        if (
            array.allocation is not target.allocation
            or (array.address == target.address and steps[number] == steps[-1])
            or not overlap(array.shadow, target.shadow)
        ):
            continue
        arrays[number] = copy = array.backend.empty(array.shape, array.dtype)
        steps[number] = _spread(copy, target.shape)
        before.append(array.backend.prepare_copies([BoxCopy(array, copy)]))
    return before


def _form(call: _Call, arrays: Sequence[DeviceArray], steps: Sequence[Steps]) -> LineKernel:
    """The kernel for such arrays, kept for the next time."""
    target, dtype = call.target, call.options.get("dtype")
    line = Line(
        call.function,
        call.described,
        target.dtype,
        call.mask is not None,
        None if dtype is None else np.dtype(dtype),
    )
    aliased = any(array.allocation is target.allocation for array in arrays[:-1])
    key = (line, target.shape, *steps, aliased)
    forms = target.backend.forms
    found = forms.get(key)
    if found is None:
        if len(forms) >= _MOST_FORMS:
            forms.clear()
        found = forms[key] = LineKernel(target.backend, line, target.shape, steps, aliased=aliased)
    return found


def _number(value: Any) -> Any:
    """A number as a kernel takes it: integers as int64, of which unsigned ones keep the bits."""
    number = value.item() if isinstance(value, np.generic) else value
    return number - 2**64 if isinstance(number, int) and number >= 2**63 else number


# ---- on the host


def _by_host(call: _Call) -> None:
    """The host gets the operands, calls NumPy and uploads the result."""
    target, mask = call.target, call.mask
    values = [o.get() if isinstance(o, DeviceArray) else o for o in call.operands]
    if mask is None:
        chosen: Any = True
        result = np.empty(target.shape, target.dtype)
    else:
        chosen, result = mask.get(), target.get()
    with np.errstate(all="ignore"):
        computed = (
            values[0] if call.function is np.copyto else call.function(*values, **call.options)
        )
        np.copyto(result, computed, where=chosen, casting="unsafe")
    target.backend.assign(target, result)
