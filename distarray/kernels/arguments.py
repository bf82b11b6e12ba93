"""What a kernel is called with: numbers sorted by kind, and arrays as the tracer sees them."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.elementwise import require_same_device
from distarray.errors import StencilError, shown
from distarray.pending import Pending
from distarray.profile import Profile
from distarray.stencil.expression import ArrayParameter, WeakKind
from distarray.stencil.tracing import KernelSignature

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.grid import Grid

_KINDS: dict[type, WeakKind] = {
    bool: bool,
    int: int,
    float: float,
    complex: complex,
    np.float64: float,
}
_FIRST, _LAST = -(2**63), 2**63 - 1
_ABSTRACT_KINDS: tuple[tuple[Any, WeakKind], ...] = (
    ((bool, np.bool_), bool),
    (numbers.Integral, int),
    (numbers.Real, float),
    (numbers.Complex, complex),
)


class Scalars:
    """The keyword-only parameters of a kernel.

    Attributes
    ----------
    symbolic, static : tuple of str
        Those that may change from call to call, and those that keep their Python values while the
        function is traced.
    """

    def __init__(self, signature: KernelSignature, static: Sequence[str]) -> None:
        self._kernel, self._names, self._defaults = (
            signature.name, signature.scalars, signature.defaults,
        )  # fmt: skip
        self.static = tuple([static] if isinstance(static, str) else static)
        self.symbolic = tuple(name for name in self._names if name not in self.static)
        for name in self.static:
            if name not in self._names:
                raise StencilError(
                    f"Kernel {self._kernel} marks {name!r} as static, which is none of its "
                    f"keyword-only parameters ({', '.join(self._names) or 'it has none'}); put it "
                    "behind a * in the definition."
                )
        if "overlap" in self._names:
            raise StencilError(
                f"Kernel {self._kernel} names a scalar 'overlap', which is an option of apply; "
                "choose another name."
            )

    def sort(
        self, given: dict[str, Any], time: float | None
    ) -> tuple[list[Any], tuple[WeakKind, ...], tuple[Any, ...]]:
        """Values of the symbolic scalars, their kinds, and the values of the static ones."""
        if time is not None and "time" in self._names:
            given["time"] = time
        values, kinds, defaults = [], [], self._defaults
        try:
            for name in self.symbolic:
                value = given.pop(name) if name in given else defaults[name]
                kind = _KINDS.get(type(value))
                if kind is None or (kind is int and not _FIRST <= value <= _LAST):
                    value, kind = self._number(name, value)
                values.append(value)
                kinds.append(kind)
            statics = tuple(
                [given.pop(name) if name in given else defaults[name] for name in self.static]
            )
        except KeyError as error:
            unknown = ", ".join(name for name in given if name not in self._names)
            raise StencilError(
                f"Kernel {self._kernel} needs the scalar {error}, which was not given"
                f"{f' (got {unknown})' if unknown else ''}; call it with {error.args[0]}=value."
            ) from None
        if given:
            raise StencilError(
                f"Kernel {self._kernel} has no scalar named {next(iter(given))!r}; its scalars, "
                f"those after a `*`, are: {', '.join(self._names) or 'none'}."
            )
        return values, tuple(kinds), statics

    def _number(self, name: str, value: Any) -> tuple[Any, WeakKind]:
        """The value of a scalar that is no plain Python number, and its kind."""
        if isinstance(value, Pending):
            if value.device_value is not None:  # launches take it from there
                return value, complex if value.dtype.kind == "c" else float
            value = value.result()
        elif isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        for abstract, kind in _ABSTRACT_KINDS:
            if isinstance(value, abstract) and (kind is not int or _FIRST <= value <= _LAST):
                return kind(value), kind
        raise StencilError(
            f"Kernel {self._kernel} got {name}={shown(value)}, but a scalar must be a number; "
            "pass one, or an array as a positional argument."
        )

    def identity(self, statics: tuple[Any, ...]) -> Hashable:
        """What tells the values of static scalars from others that a trace may tell apart."""
        if not statics:
            return ()
        try:
            hash(statics)
        except TypeError:
            raise StencilError(
                f"Kernel {self._kernel} got static values {shown(statics)}, which cannot be told "
                "apart by a hash; pass numbers, strings or tuples."
            ) from None
        return _told_apart(statics)


def _told_apart(value: Any) -> Hashable:
    """A key that differs for 2, 2.0 and True, and for 0.0 and -0.0, which compare equal."""
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple(map(_told_apart, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_told_apart, value))
    return kind, repr(value) if isinstance(value, float | complex | np.inexact) else value


# ---- arrays


def memory_of(argument: Any) -> Hashable:
    """What tells the memory of an argument from all others; that of a component is the whole
    array's.
    """
    return argument.key if isinstance(argument, Profile) else argument.block.serial


def distinct_grids(fields: Sequence[DistArray]) -> list[DistArray]:
    """One array for each grid among the arrays, in their order."""
    found: list[DistArray] = []
    for array in fields:
        if all(_level(reference, array) != 0 for reference in found):
            found.append(array)
    return found


def _level(reference: DistArray, array: Any) -> int | None:
    """0 for arrays placed alike, 1 if `array` lies on the next finer grid, -1 on the next coarser,
    None if unrelated.
    """
    if reference.grid is None or array.grid is None:
        alike = (
            reference.grid is array.grid
            and reference.layout.decomposition == array.layout.decomposition
        )
        return 0 if alike and reference.communicator == array.communicator else None
    return reference.grid.relation(array.grid)


def _difference(array: Any, reference: DistArray) -> str:
    """What tells the grids of unrelated arrays apart."""
    owners: tuple[Any, Any]
    cells: tuple[Any, Any]
    if array.grid is None or reference.grid is None:
        if array.grid is not reference.grid:
            return f"only the {'first' if reference.grid is None else 'second'} was made by a grid"
        owners, cells = (array, reference), (array.layout, reference.layout)
    else:
        owners = cells = (array.grid, reference.grid)
    if owners[0].communicator != owners[1].communicator:
        return "they are shared by different communicators"
    found = _unlike(("shape", "periodic", "ranks"), *(owner.decomposition for owner in cells))
    if array.grid is not None:
        found += _unlike(("axes", "bounds"), *owners) or _moved(*owners)
    if found:
        return f"their grids differ in {', '.join(found)}"
    return "their cells are divided over the ranks differently"


def _unlike(names: Sequence[str], one: Any, other: Any) -> list[str]:
    """Attributes that differ, with both values."""
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    return [f"{name} ({mine} and {theirs})" for name, mine, theirs in pairs if mine != theirs]


def _moved(one: Grid, other: Grid) -> list[str]:
    """Axes of equal bounds, cells and periodicity whose cells lie elsewhere."""
    if _unlike(("shape", "periodic"), one, other):
        return []
    axes = zip(one.axes, one.geometry, other.geometry, strict=True)
    moved = [name for name, mine, theirs in axes if not mine.same_as(theirs)]
    return [f"the positions of cells along {', '.join(moved)}"] if moved else []


def parameters(
    kernel: str, names: Sequence[str], arrays: Sequence[Any], reference: DistArray
) -> tuple[ArrayParameter, ...]:
    """What the tracer needs to know of each argument, seen from the grid of `reference`."""
    found = []
    for name, array in zip(names, arrays, strict=True):
        level = _level(reference, array)
        if level is None:
            require_same_device(array, reference)
            raise StencilError(
                f"Kernel {kernel} got arrays of different grids: {name} is {array!r}, beside "
                f"{reference!r}, and {_difference(array, reference)}; use arrays of one grid, or "
                "of grids related by coarsen()."
            )
        kept = reference.grid.kept_axes(array.grid) if level and reference.grid is not None else ()
        if isinstance(array, Profile):
            parameter = ArrayParameter(name, array.dtype, (), None, array.profile_axis, level, kept)
        else:
            layout = array.layout
            parameter = ArrayParameter(
                name, layout.dtype, layout.components, layout.staggered, None, level, kept
            )
        found.append(parameter)
    return tuple(found)
