"""NumPy functions of device arrays: ufuncs and a list of others; what is missing is an error that
names the cure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.backends import device_map
from distarray.backends.device_array import DeviceArray
from distarray.errors import UnsupportedError, shown

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend

#: Functions of which the host is asked where a view lies, since they take no values.
_VIEWS = frozenset(
    (
        np.moveaxis, np.flip, np.expand_dims, np.broadcast_to, np.transpose, np.squeeze,
        np.swapaxes,
    )
)  # fmt: skip
#: Functions of shapes and types alone.
_DESCRIPTIONS = frozenset(
    (
        np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj,
        np.may_share_memory, np.shares_memory, np.can_cast,
    )
)  # fmt: skip
#: Functions of each element alone.
_ELEMENTWISE = frozenset(
    (np.where, np.clip, np.round, np.around, np.angle, np.isclose, np.nan_to_num)
)


def call_ufunc(
    backend: AcceleratorBackend, ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """`__array_ufunc__` of device arrays. Local."""
    options = dict(options)
    outputs, where = options.pop("out", ()), options.pop("where", True)
    kept: dict[str, Any] = {
        name: options.pop(name) for name in ("dtype", "casting") if name in options
    }
    options.pop("order", None), options.pop("subok", None)
    if options or ufunc.signature is not None:
        what = f" with {min(options)}=" if options else ""
        raise UnsupportedError(
            f"numpy.{ufunc.__name__}{what} is not supported on device arrays; take their values "
            "by numpy.asarray."
        )
    if ufunc.nout > 1:
        return _several(backend, ufunc, inputs, outputs)
    if not outputs:
        if where is not True:
            raise UnsupportedError(
                f"numpy.{ufunc.__name__} with where= needs out= on device arrays; give it one."
            )
        return device_map.evaluated(backend, ufunc, inputs, kept)
    (target,) = outputs
    if not isinstance(target, DeviceArray):
        raise UnsupportedError(
            f"numpy.{ufunc.__name__} of device arrays needs a device array as out=, got "
            f"{shown(target)}; leave it out."
        )
    device_map.prepare(ufunc, inputs, target, where, kept)()
    return target


def _several(
    backend: AcceleratorBackend, ufunc: np.ufunc, inputs: Sequence[Any], outputs: Sequence[Any]
) -> Any:
    """A function of several results: of division by kernels, others on the host."""
    if outputs:
        raise UnsupportedError(
            f"numpy.{ufunc.__name__} with out= is not supported on device arrays; leave it out."
        )
    if ufunc is np.divmod:
        return (
            call_ufunc(backend, np.floor_divide, inputs, {}),
            call_ufunc(backend, np.remainder, inputs, {}),
        )
    with np.errstate(all="ignore"):
        results = ufunc(*(_on_host(value) for value in inputs))
    return tuple(map(backend.asarray, results))


def call_function(
    backend: AcceleratorBackend,
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """`__array_function__` of device arrays. Local.

    Raises
    ------
    UnsupportedError
        The function is not on the list.
    """
    if function in _DESCRIPTIONS:
        return function(*map(_shadow, args), **options)
    if function in _VIEWS:
        return _view(function, args, options)
    if function in _ELEMENTWISE:
        return _elementwise(backend, function, args, options)
    implementation = _TABLE.get(function)
    if implementation is None:
        raise UnsupportedError(
            f"{function.__module__}.{function.__name__} is not supported on device arrays; take "
            "their values by numpy.asarray."
        )
    return implementation(*args, **options)


def _shadow(value: Any) -> Any:
    return value.shadow if isinstance(value, DeviceArray) else value


def _on_host(value: Any) -> Any:
    return value.get() if isinstance(value, DeviceArray) else value


def _view(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    array = args[0]
    return DeviceArray(
        array.backend, array.allocation, function(array.shadow, *args[1:], **options)
    )


def _elementwise(
    backend: AcceleratorBackend,
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> DeviceArray:
    """By a kernel where all arguments are values; else on the host."""
    if options or any(value is None for value in args):
        with np.errstate(all="ignore"):
            computed = function(
                *map(_on_host, args), **{name: _on_host(v) for name, v in options.items()}
            )
        return backend.asarray(np.asarray(computed))
    return device_map.evaluated(backend, function, args)


def _copyto(
    target: DeviceArray, source: Any, casting: str = "same_kind", where: Any = True
) -> None:
    wanted = getattr(source, "dtype", None)
    if wanted is not None and not np.can_cast(wanted, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"numpy.copyto cannot cast {wanted} to {target.dtype} by the rule '{casting}'; convert "
            "the values by astype, or pass casting='unsafe'."
        )
    chosen = None if where is True else where
    device_map.prepare(np.copyto, [source], target, chosen)()


def _empty_like(prototype: DeviceArray, dtype: Any = None, **_: Any) -> DeviceArray:
    return prototype.backend.empty(prototype.shape, dtype or prototype.dtype)


def _full_like(a: DeviceArray, fill_value: Any, dtype: Any = None, **_: Any) -> DeviceArray:
    result = _empty_like(a, dtype)
    result.fill(fill_value)
    return result


def _concatenate(arrays: Sequence[DeviceArray], axis: int = 0) -> DeviceArray:
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    result = arrays[0].backend.empty(tuple(shape), np.result_type(*(a.dtype for a in arrays)))
    before: tuple[Any, ...] = (slice(None),) * (axis % len(shape))
    first = 0
    for array in arrays:
        stop = first + array.shape[axis]
        result[(*before, slice(first, stop))] = array
        first = stop
    return result


def _stack(arrays: Sequence[DeviceArray], axis: int = 0) -> DeviceArray:
    parts: Any = [np.expand_dims(array, axis) for array in arrays]
    return _concatenate(parts, axis)


_TABLE: dict[Any, Callable[..., Any]] = {
    np.copyto: _copyto,
    np.copy: lambda a: a.copy(),
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
    np.reshape: lambda a, *shape, **options: a.reshape(*shape, **options),
    np.ravel: lambda a: a.ravel(),
    np.empty_like: _empty_like,
    np.full_like: _full_like,
    np.zeros_like: lambda a, dtype=None, **_: _full_like(a, 0, dtype),
    np.ones_like: lambda a, dtype=None, **_: _full_like(a, 1, dtype),
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.array_equal: lambda a1, a2, **options: np.array_equal(_on_host(a1), _on_host(a2), **options),
}
