"""Constants that an operator maps to zero: found, and removed from vectors.

The Poisson equation with Neumann or periodic sides alone determines its solution up to a constant,
and has one only if the mean of its right-hand side is zero. Of an array with components each may
have such a constant, or all together one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import distarray as da
from solvers.linear import kernels

if TYPE_CHECKING:
    from solvers.linear.system import System

#: Components whose common constant is mapped to zero.
Group = tuple[tuple[int, ...], ...]

#: |A 1| of a null vector is at most so many units of rounding of |A v|, v a rough vector.
_ROUNDING = 16.0


def find(system: System) -> tuple[Group, ...]:
    """The groups of components whose constants the operator maps to zero. Collective."""
    parts = list(np.ndindex(*system.components))
    found = tuple((part,) for part in parts if _is_null(system, (part,)))
    everything = tuple(parts)
    if found or len(parts) == 1:
        return found
    return (everything,) if _is_null(system, everything) else ()


def whole(components: tuple[int, ...]) -> tuple[Group, ...]:
    """Each component's constant. Local."""
    return tuple((part,) for part in np.ndindex(*components))


def _is_null(system: System, group: Group) -> bool:
    """Whether the operator maps the constant of a group to zero, but for rounding."""
    u, image = system.borrowed
    kernels.indicate(u, components=system.components, selected=group)
    system.apply(u, image)
    size = float(system.inner(image, image))
    if size == 0.0:
        return True
    kernels.probe(u, components=system.components)
    system.apply(u, image)
    scale = float(system.inner(image, image))
    return size <= (_ROUNDING * system.rounding) ** 2 * scale


def is_left_null(system: System, groups: tuple[Group, ...]) -> bool:
    """Whether what the operator gives has zero mean in every group, but for rounding: then only
    such a right-hand side has a solution. Collective.
    """
    u, image = system.borrowed
    kernels.probe(u, components=system.components)
    system.apply(u, image)
    size = float(system.inner(image, image))
    points = image.size
    sums = [abs(complex(_total(system, image, group))) for group in groups]
    return all(total**2 <= system.rounding * points * size for total in sums)


def means(system: System, u: da.DistArray, groups: tuple[Group, ...]) -> list[Any]:
    """The mean of each group of components. Collective."""
    return [_total(system, u, group).result() / _count(u, group) for group in groups]


def remove(system: System, u: da.DistArray, groups: tuple[Group, ...]) -> float | None:
    """Subtract the mean of each group; |u|^2 afterwards, None without groups. Collective."""
    square = None
    for group, total in _totals(system, u, groups):
        square = kernels.remove_mean(
            u,
            selected=group,
            total=total,
            count=_count(u, group),
            **system.static,
        )
    return None if square is None else float(square)


def _totals(
    system: System, u: da.DistArray, groups: tuple[Group, ...]
) -> Iterator[tuple[Group, Any]]:
    for group in groups:
        yield group, _total(system, u, group)


def _total(system: System, u: da.DistArray, group: Group) -> Any:
    return kernels.total(u, selected=group, **system.static)


def _count(u: da.DistArray, group: Group) -> float:
    """The points of a group."""
    return float(u.size // max(1, int(np.prod(u.components))) * len(group))
