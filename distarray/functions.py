"""NumPy functions that work on distributed arrays, by an explicit list; any other is an error that
names the cure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from distarray.arraylike import is_array
from distarray.elementwise import map_array, map_values
from distarray.errors import UnsupportedError
from distarray.reductions import axes_of

if TYPE_CHECKING:
    from distarray.array import DistArray

F = TypeVar("F", bound=Callable[..., Any])

_TABLE: dict[Callable[..., Any], Callable[..., Any]] = {}


def call(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """`__array_function__` of arrays.

    Raises
    ------
    UnsupportedError
        The function has no distributed form here.
    """
    name = f"{function.__module__}.{function.__name__}"
    if function not in _TABLE:
        raise UnsupportedError(
            f"{name} is not supported on distributed arrays; call gather() and apply it to the "
            "result."
        )
    implementation = _TABLE[function]
    try:
        _signature(implementation).bind(*args, **options)
    except TypeError as error:
        raise UnsupportedError(
            f"{name} with these arguments is not supported on distributed arrays ({error}); "
            "leave the optional ones out."
        ) from None
    return implementation(*args, **options)


#: The parameters that a function takes; finding them takes ten times as long as to compare.
_signature = functools.cache(inspect.signature)


def _registered(*functions: Callable[..., Any]) -> Callable[[F], F]:
    def register(implementation: F) -> F:
        for function in functions:
            _TABLE[function] = implementation
        return implementation

    return register


#: Functions that are a method of the array of the same parameters.
_METHODS = (
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "std",
    "var",
    "argmin",
    "argmax",
    "any",
    "all",
    "copy",
)


def register_methods(array_type: type[DistArray]) -> None:
    """Put the functions that are methods into the list."""
    for name in _METHODS:
        _TABLE[getattr(np, name)] = getattr(array_type, name)
    _TABLE[np.amin], _TABLE[np.amax] = array_type.min, array_type.max


_ELEMENTWISE = (np.real, np.imag, np.angle, np.isclose, np.nan_to_num, np.round, np.around)
for _function in _ELEMENTWISE:
    _TABLE[_function] = functools.partial(map_values, _function)


@_registered(np.where)
def _where(condition: Any, x: Any, y: Any) -> DistArray:
    return map_array(np.where, condition, x, y)


@_registered(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> DistArray:
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is None or high is None:
        if low is high:
            return map_array(np.positive, a)
        return map_array(*((np.minimum, a, high) if low is None else (np.maximum, a, low)))
    return map_array(np.clip, a, low, high)


@_registered(np.shape)
def _shape(a: DistArray) -> tuple[int, ...]:
    return a.shape


@_registered(np.ndim)
def _ndim(a: DistArray) -> int:
    return a.ndim


@_registered(np.size)
def _size(a: DistArray, axis: int | None = None) -> int:
    return a.size if axis is None else a.shape[axes_of(a, axis)[0]]


@_registered(np.iscomplexobj)
def _iscomplexobj(x: DistArray) -> bool:
    return x.dtype.kind == "c"


@_registered(np.isrealobj)
def _isrealobj(x: DistArray) -> bool:
    return x.dtype.kind != "c"


@_registered(np.result_type)
def _result_type(*operands: Any) -> np.dtype[Any]:
    return np.result_type(*(o.dtype if is_array(o) else o for o in operands))


@_registered(np.empty_like)
def _empty_like(prototype: DistArray, dtype: Any = None) -> DistArray:
    result: DistArray = prototype._like(dtype)
    result._take_conditions(prototype)
    return result


@_registered(np.full_like)
def _full_like(a: DistArray, fill_value: Any, dtype: Any = None) -> DistArray:
    result = _empty_like(a, dtype)
    result.fill(fill_value)
    return result


@_registered(np.zeros_like)
def _zeros_like(a: DistArray, dtype: Any = None) -> DistArray:
    return _full_like(a, 0, dtype)


@_registered(np.ones_like)
def _ones_like(a: DistArray, dtype: Any = None) -> DistArray:
    return _full_like(a, 1, dtype)


@_registered(np.allclose)
def _allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    return bool(map_values(np.isclose, a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


@_registered(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    if np.shape(a1) != np.shape(a2):
        return False
    equal = a1 == a2
    if equal_nan:
        equal = equal | (np.isnan(a1) & np.isnan(a2))
    return bool(equal.all())
