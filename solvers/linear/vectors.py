"""The vectors that a method works on: like the iterate, with its conditions made homogeneous.

An operator that reads beyond a face sees there what the conditions of its argument say. With
inhomogeneous ones it is affine, `A(u) = L u + g`; a method needs g once, in the first residual, and
L everywhere else. L is the operator on arrays whose conditions are homogeneous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da

#: Attributes in which arrays are alike that the same kernels' plans serve.
_PLACEMENT = (
    "grid", "communicator", "shape", "components", "location", "dtype", "halo", "ranks", "device"
)  # fmt: skip

#: Of an array its placement and its conditions by side.
Kind = tuple[tuple[Any, ...], dict[str, Any]]


def homogeneous(condition: Any) -> Any:
    """The condition with zero in the place of its value: itself if it is homogeneous already, and
    if it is Custom. A tuple has one for each component. Local.
    """
    if isinstance(condition, tuple):
        parts = tuple(map(homogeneous, condition))
        return condition if all(map(_same, parts, condition)) else parts
    if isinstance(condition, da.Piecewise):
        first, second = homogeneous(condition.first), homogeneous(condition.second)
        if first is condition.first and second is condition.second:
            return condition
        return da.Piecewise(condition.mask, first, second)
    if isinstance(condition, da.Robin):
        return condition if _is_zero(condition.c) else da.Robin(condition.a, condition.b, 0.0)
    if isinstance(condition, da.Dirichlet | da.Neumann):
        return condition if _is_zero(condition.value) else type(condition)(0.0)
    return condition


def kind(array: da.DistArray) -> Kind:
    """What `zeros_like` keeps of an array. Local."""
    placement = tuple(getattr(array, name) for name in _PLACEMENT)
    return placement, dict(array.boundary or {})


def same(one: Kind, other: Kind) -> bool:
    """Whether placements are equal and conditions the very same. Local."""
    (placement, conditions), (other_placement, others) = one, other
    return (
        placement == other_placement
        and conditions.keys() == others.keys()
        and all(_same(condition, others[side]) for side, condition in conditions.items())
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two conditions are one; of tuples, one for each component, all of them."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other


def _is_zero(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_zero, value))
    return not callable(value) and not np.any(value)


def changes(array: da.DistArray) -> dict[str, Any]:
    """The sides whose conditions are inhomogeneous, with the homogeneous ones. Local."""
    found = {}
    for side, condition in (array.boundary or {}).items():
        instead = homogeneous(condition)
        if instead is not condition:
            found[side] = instead
    return found


def zeros_like(array: da.DistArray) -> da.DistArray:
    """Zeros of the same type, placement and conditions. Collective."""
    if array.grid is not None:
        return array.grid.zeros_like(array)
    copied = array.copy()
    copied.fill(0)
    return copied
