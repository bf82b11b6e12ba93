"""Values of conditions: numbers, arrays over the face and functions, for one component, evaluated
on a region.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.boundary.conditions import Condition, Custom, Piecewise
from distarray.boundary.face import Face, Region
from distarray.errors import BoundaryError, shown
from distarray.layout import Component
from distarray.signatures import require_call


class ComponentFunction:
    """The values of one component of a function that may return a sequence over components."""

    def __init__(self, function: Callable[..., Any], component: Component) -> None:
        self.function, self.component = function, component

    def __call__(self, *arguments: Any) -> Any:
        result = self.function(*arguments)
        for index in self.component:
            if isinstance(result, list | tuple):
                result = result[index]
        return result


def condition_part(
    condition: Condition, face: Face, components: tuple[int, ...], index: Component
) -> Condition:
    """The condition as the component `index` (a prefix suffices) of an array with `components` sees
    it.
    """
    if isinstance(condition, Piecewise):
        first = condition_part(condition.first, face, components, index)
        second = condition_part(condition.second, face, components, index)
        return Piecewise(condition.mask, first, second)
    if isinstance(condition, Custom) or not index:
        return condition
    parts = {
        name: _value_part(getattr(condition, name), face, components, index, condition)
        for name in condition.value_fields
    }
    return dataclasses.replace(condition, **parts) if parts else condition  # type: ignore[type-var]


def _value_part(
    value: Any, face: Face, components: tuple[int, ...], index: Component, condition: Condition
) -> Any:
    if callable(value):
        return ComponentFunction(value, index)
    if isinstance(value, tuple):
        return _item_part(value, face, components, index, condition)
    if isinstance(value, np.ndarray) and value.ndim:
        return value[index] if _has_components(value, face, components, condition) else value
    return value


def _item_part(
    value: tuple[Any, ...],
    face: Face,
    components: tuple[int, ...],
    index: Component,
    condition: Condition,
) -> Any:
    if len(value) != components[0]:
        raise BoundaryError(
            f"{type(condition).__name__} on {face.name} has {len(value)} values for "
            f"{components[0]} components; "
            "give one value for all or one per component."
        )
    item = value[index[0]]
    if len(index) == 1:
        return item
    return _value_part(item, face, components[1:], index[1:], condition)


def _has_components(
    values: Any, face: Face, components: tuple[int, ...], condition: Condition
) -> bool:
    """Whether an array of values starts with component axes."""
    kind = type(condition).__name__
    if values.shape == components + face.shape:
        return True
    if values.shape == components == face.shape:
        raise BoundaryError(
            f"{kind} on {face.name} has an array of shape {values.shape}, which fits both the "
            "components and the "
            "face; give values per component as a list."
        )
    if values.shape in (components, face.shape):
        return bool(values.shape == components)
    raise BoundaryError(
        f"{kind} on {face.name} has an array of shape {values.shape}; it must have the shape of "
        "the face, "
        f"{face.shape}, or components first, {components + face.shape}."
    )


class FaceValue:
    """One value of a condition for one component: a number, an array over the face or a function of
    time and place.
    """

    def __init__(self, value: Any, face: Face, kind: str) -> None:
        self.face, self.kind = face, kind
        self.function = value if callable(value) else None
        if self.function is not None:
            require_signature(self.function, face, f"The function of {kind}", timed=True)
        self.constant: Any = None if callable(value) else self._face_array(value)

        if self.constant is not None:
            self._require_range(self.constant)

    def _require_range(self, values: Any) -> None:
        """Refuse a value on the face that integers of the array's type cannot hold."""
        dtype = self.face.layout.dtype
        if self.kind != "Dirichlet" or dtype.kind not in "iu" or not values.size:
            return
        limits, ends = np.iinfo(dtype), (values.real.min(), values.real.max())
        if not (ends[0] >= limits.min and ends[1] <= limits.max):
            raise BoundaryError(
                f"Dirichlet on {self.face.name} has values from {ends[0]} to {ends[1]}, which an "
                f"array of {dtype} cannot hold; give values from {limits.min} to {limits.max}."
            )

    def _face_array(self, value: Any) -> Any:
        try:
            values = np.asarray(value)
            fits = values.ndim == 0 or values.shape == self.face.shape
        except ValueError:
            fits = False
        if not fits or values.dtype.kind not in "biufc":
            given = (
                f"an array of shape {value.shape}"
                if isinstance(value, np.ndarray)
                else f"the values {shown(value)}"
            )
            raise BoundaryError(
                f"{self.kind} on {self.face.name} has {given}; give a number, a function f(t, "
                "*coords) or an array of "
                f"the shape of the face, {self.face.shape}."
            )
        return _widest(values)

    @property
    def time_dependent(self) -> bool:
        return self.function is not None

    def on(self, region: Region, time: float) -> Any:
        """float64 or complex128 values that broadcast to one layer of the region."""
        if self.function is None:
            return region.pick(self.constant) if self.constant.ndim else self.constant
        values = evaluate(self.function, region, (time,), f"The function of {self.kind}")
        self._require_range(values)
        return values


def require_signature(function: Callable[..., Any], face: Face, what: str, *, timed: bool) -> None:
    """Refuse a function that cannot be called with the time (if `timed`) and the coordinates. On
    all ranks, without calling it.
    """
    while isinstance(function, ComponentFunction):
        function = function.function
    axes = face.layout.ndim
    given = ("t",) * timed + tuple(face.names[:axes])
    require_call(
        function,
        f"{what} on {face.name}",
        given,
        name="f" if timed else "mask",
        cures={axes: "give it the time first"} if timed else {axes + 1: "leave the time out"},
        kind=BoundaryError,
    )


def evaluate(
    function: Callable[..., Any], region: Region, arguments: tuple[float, ...], what: str
) -> Any:
    """A user's function on the coordinates of a region, checked to broadcast to one layer of it."""
    given = function(*arguments, *region.coordinates)
    try:
        values = np.asarray(given)
    except ValueError:  # lists of unequal lengths
        values = np.asarray(None)
    values = _widest(values)
    try:
        return np.broadcast_to(values, region.plane)
    except ValueError:
        raise BoundaryError(
            f"{what} on {region.face.name} returned shape {values.shape} for face points of shape "
            f"{region.plane}; "
            "return a number or an array that broadcasts to them."
        ) from None


def _widest(values: Any) -> Any:
    """Booleans stay; other numbers in float64 or complex128, in which coefficients are computed."""
    if values.dtype.kind not in "biufc":
        raise BoundaryError(
            f"Values of boundary conditions must be numbers, not {shown(values)}; return numbers "
            "from their functions."
        )
    if values.dtype.kind == "b":
        return values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def cast(values: Any, dtype: np.dtype[Any], face: Face, kind: str) -> Any:
    """Coefficients in the array's dtype, rounded once; refused where they lose more than digits."""
    values = np.asarray(values)
    if values.dtype.kind == "c" and dtype.kind != "c":
        raise BoundaryError(
            f"{kind} on {face.name} has complex values for an array of {dtype}; give real values "
            "or make the array complex."
        )
    if (
        dtype.kind in "iu"
        and values.dtype.kind == "f"
        and not np.array_equal(values, np.rint(values))
    ):
        raise BoundaryError(
            f"{kind} on {face.name} gives fractions to an array of {dtype}; give whole numbers or "
            "make the array float."
        )
    return values.astype(dtype)
