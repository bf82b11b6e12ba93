"""The vectors that a method works on: like the iterate, with its conditions made homogeneous.

An operator that reads beyond a face sees there what the conditions of its argument say. With
inhomogeneous ones it is affine, `A(u) = L u + g`; a method needs g once, in the first residual, and
L everywhere else. L is the operator on arrays whose conditions are homogeneous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da


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


def _same(one: Any, other: Any) -> bool:
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
