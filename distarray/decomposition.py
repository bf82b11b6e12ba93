"""How a grid is divided over ranks: index arithmetic without communication.

An axis of n cells over p parts is cut at `part * n // p`; a coarser grid is cut at the rounded-up
half of these cuts, so that both grids keep the same neighbours. On both, blocks differ by at most
one cell. Everything is a formula of the part's number: one rank among 10,000 costs what one among 8
costs.

Ranks number the process grid in C order: the last axis varies fastest. A decomposition may use
fewer ranks than there are; the ranks beyond it own nothing.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from distarray.errors import DecompositionError, shown
from distarray.regions import Box

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AxisPartition:
    """One axis cut into parts. `base` cells of the finest grid, `factor` base cells to a cell of
    this one.
    """

    base: int
    parts: int
    factor: int = 1

    @property
    def cells(self) -> int:
        return -(-self.base // self.factor)

    def start(self, part: int) -> int:
        return -(-(part * self.base // self.parts) // self.factor)

    def stop(self, part: int) -> int:
        return self.start(part + 1)

    def size(self, part: int) -> int:
        return self.stop(part) - self.start(part)

    def part_of(self, cell: int) -> int:
        """The part that owns a cell, or the point on its low side; the last one those beyond."""
        # cell >= start(part)  <=>  factor * cell >= part * base // parts  <=>  part * base <
        # (factor * cell + 1) * parts
        return min(self.parts - 1, ((self.factor * cell + 1) * self.parts - 1) // self.base)

    @property
    def narrowest(self) -> int:
        """Cells of the narrowest part."""
        # start(part) = (part * base + (factor - 1) * parts) // (factor * parts), a straight line
        # rounded down: parts differ by at most one cell, so that the mean decides.
        return self.cells // self.parts

    def coarsen(self, factor: int) -> AxisPartition:
        return AxisPartition(self.base, self.parts, self.factor * factor)

    def cut_unevenly(self, factor: int) -> bool:
        """Whether some block, or the axis, ends within a cell of the grid coarser by `factor`."""
        # Blocks differ by at most one cell: multiples of the factor are all equal.
        return factor > 1 and self.cells % (factor * self.parts) != 0

    def finer_cut_unevenly(self, factor: int) -> bool:
        """Whether the same holds for the grid that is finer by `factor` and this one."""
        if self.factor % factor:
            return False
        finer = AxisPartition(self.base, self.parts, self.factor // factor)
        return finer.cut_unevenly(factor)


@dataclass(frozen=True, init=False)
class Decomposition:
    """A grid of `shape` cells divided over a process grid of `ranks`. Local, as all its methods.

    Parameters
    ----------
    shape : sequence of int
        Cells along each axis.
    ranks : sequence of int
        Blocks along each axis.
    periodic : bool or sequence of bool
        Axes whose last cell is followed by the first.
    halo : int or sequence of int
        Narrowest block that is accepted along each axis.

    Raises
    ------
    DecompositionError
        More ranks than cells along an axis, or a block narrower than the halo.

    Examples
    --------
    >>> Decomposition((10, 7), (3, 1)).owned((1, 0))
    Box(start=(3, 0), stop=(6, 7))
    """

    axes: tuple[AxisPartition, ...]
    periodic: tuple[bool, ...]

    def __init__(
        self,
        shape: Sequence[int],
        ranks: Sequence[int],
        *,
        periodic: bool | Sequence[bool] = False,
        halo: int | Sequence[int] = 0,
    ) -> None:
        shape, ranks = _whole_numbers(shape, "shape"), _whole_numbers(ranks, "ranks")
        if len(shape) != len(ranks):
            raise DecompositionError(
                f"The process grid {ranks} has {len(ranks)} axes, the shape {shape} has "
                f"{len(shape)}; give one number of ranks per axis."
            )
        wrapped = per_axis(periodic, len(shape), truth, "periodic")
        for axis, (cells, parts) in enumerate(zip(shape, ranks, strict=True)):
            if cells < 0 or parts < 1:
                raise DecompositionError(
                    f"Axis {axis} has {cells} cells over {parts} ranks; cells must not be "
                    "negative and ranks must be at least 1."
                )
        self._set(tuple(map(AxisPartition, shape, ranks)), wrapped)
        widths = per_axis(halo, len(shape), operator.index, "halo")
        if min(widths, default=0) < 0:
            raise DecompositionError(
                f"Halo widths must not be negative, got halo={shown(halo)}; use 0 for none."
            )
        self.require(widths)

    def _set(self, axes: tuple[AxisPartition, ...], periodic: tuple[bool, ...]) -> None:
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "periodic", periodic)

    def require(self, halo: Sequence[int]) -> None:
        """Refuse blocks that are empty or narrower than `halo` cells.

        Raises
        ------
        DecompositionError
            There are such blocks.
        """
        for axis, (part, width) in enumerate(zip(self.axes, halo, strict=True)):
            if part.parts > 1 and part.parts > part.cells:
                raise DecompositionError(
                    f"Axis {axis} has {part.cells} cells, fewer than its {part.parts} ranks "
                    f"(ranks={self.ranks}); "
                    f"use at most {part.cells} ranks there."
                )
            if part.narrowest < width and (part.parts > 1 or self.periodic[axis]):
                raise DecompositionError(
                    f"Halo width {width} along axis {axis} exceeds the narrowest block, "
                    f"{part.narrowest} cells "
                    f"(ranks={self.ranks}); use {_advice(part, width)} or a smaller halo."
                )

    def narrowed(self, halo: Sequence[int]) -> tuple[int, ...]:
        """Halo widths as given where blocks are wide enough, else those of the narrowest block."""
        return tuple(
            min(width, axis.narrowest) if axis.parts > 1 or wraps else width
            for width, axis, wraps in zip(halo, self.axes, self.periodic, strict=True)
        )

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.cells for axis in self.axes)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The process grid: blocks along each axis."""
        return tuple(axis.parts for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of ranks that own a block."""
        return math.prod(self.ranks)

    def coords(self, rank: int) -> tuple[int, ...] | None:
        """Position of a rank in the process grid; None for a rank beyond it."""
        if not 0 <= rank < self.size:
            return None
        position = []
        for parts in reversed(self.ranks):
            rank, part = divmod(rank, parts)
            position.append(part)
        return tuple(reversed(position))

    def rank_at(self, coords: Sequence[int]) -> int:
        """The rank at a position in the process grid."""
        rank = 0
        for part, parts in zip(coords, self.ranks, strict=True):
            rank = rank * parts + part
        return rank

    def neighbour(self, coords: Sequence[int], direction: Sequence[int]) -> tuple[int, ...] | None:
        """Position of the block `direction` away, around periodic axes; None outside the domain."""
        found = []
        for part, step, axis, wraps in zip(
            coords, direction, self.axes, self.periodic, strict=True
        ):
            moved = part + step
            if not 0 <= moved < axis.parts:
                if not wraps:
                    return None
                moved %= axis.parts
            found.append(moved)
        return tuple(found)

    def points(self, staggered: Sequence[bool] | None = None) -> tuple[int, ...]:
        """Points along each axis: one more than cells on a staggered axis that is not periodic."""
        flags = (False,) * self.ndim if staggered is None else staggered
        return tuple(
            axis.cells + (1 if flag and not wraps else 0)
            for axis, flag, wraps in zip(self.axes, flags, self.periodic, strict=True)
        )

    def owned(self, coords: Sequence[int] | None, staggered: Sequence[bool] | None = None) -> Box:
        """Global indices of the cells, or points, that the block at `coords` owns. None owns
        nothing.
        """
        if coords is None:
            return Box((0,) * self.ndim, (0,) * self.ndim)
        points = self.points(staggered)
        start = tuple(axis.start(part) for axis, part in zip(self.axes, coords, strict=True))
        stop = tuple(
            count if part == axis.parts - 1 else axis.stop(part)
            for axis, part, count in zip(self.axes, coords, points, strict=True)
        )
        return Box(start, stop)

    def select(self, axes: Sequence[int]) -> Decomposition:
        """The decomposition of some of the axes, cut as they are here."""
        chosen = object.__new__(Decomposition)
        chosen._set(tuple(self.axes[a] for a in axes), tuple(self.periodic[a] for a in axes))
        return chosen

    def with_whole_axis(self, axis: int, cells: int) -> Decomposition:
        """This decomposition with one axis of another length, and not cut."""
        axes = (*self.axes[:axis], AxisPartition(cells, 1), *self.axes[axis + 1 :])
        changed = object.__new__(Decomposition)
        changed._set(axes, self.periodic)
        return changed

    def coarsen(self, factor: int | Sequence[int], halo: int | Sequence[int] = 0) -> Decomposition:
        """The decomposition of the grid coarser by `factor`, cut where this one is cut.

        Raises
        ------
        DecompositionError
            A coarse block is narrower than `halo`.
        """
        factors = per_axis(factor, self.ndim, operator.index, "factor")
        coarse = object.__new__(Decomposition)
        coarse._set(
            tuple(a.coarsen(f) for a, f in zip(self.axes, factors, strict=True)), self.periodic
        )
        coarse.require(per_axis(halo, self.ndim, operator.index, "halo"))
        return coarse


def _advice(part: AxisPartition, width: int) -> str:
    fewest = part.cells // width
    return f"at most {fewest} ranks there" if fewest >= 1 else f"at least {width} cells there"


def per_axis(value: Any, ndim: int, kind: Callable[[Any], T], name: str) -> tuple[T, ...]:
    """One value per axis, from a single value or from a sequence of them."""
    single = isinstance(value, str) or not hasattr(value, "__iter__")
    values = (value,) * ndim if single else tuple(value)
    if len(values) != ndim:
        raise DecompositionError(
            f"{name} has {len(values)} values for {ndim} axes; give one value or one per axis."
        )
    try:
        return tuple(map(kind, values))
    except TypeError:
        rule = "True or False" if kind is truth else "whole numbers"
        raise DecompositionError(
            f"{name} must be {rule}, one or one per axis, not {shown(value)}; correct it."
        ) from None


def truth(value: Any) -> bool:
    """A truth value that is meant as one; TypeError for texts, None and other numbers."""
    if isinstance(value, bool | np.bool_ | int) and value in (0, 1):
        return bool(value)
    raise TypeError


def _whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise DecompositionError(
            f"{name} of a decomposition must be whole numbers, one per axis, not {shown(values)}; "
            "correct it."
        ) from None


def factorisations(
    number: int, ndim: int, most: Sequence[int] | None = None
) -> Iterator[tuple[int, ...]]:
    """All ways to write `number` as an ordered product of `ndim` factors, each at most `most`."""
    limits = (number,) * ndim if most is None else tuple(most)
    if number > math.prod(limits):
        return
    if ndim == 1:
        yield (number,)
        return
    for first in _divisors(number):
        if first > limits[0]:
            return
        for rest in factorisations(number // first, ndim - 1, limits[1:]):
            yield (first, *rest)


def largest_factorisations(number: int, most: Sequence[int]) -> list[tuple[int, ...]]:
    """The ordered products of one factor per entry of `most`, at most that entry, whose value is
    the largest up to `number`.
    """
    for value in range(min(number, math.prod(most)), 1, -1):
        if found := list(factorisations(value, len(most), most)):
            return found
    return [(1,) * len(most)]


@functools.lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    """All divisors, from 1 up."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}))


def choose_ranks(
    shape: Sequence[int],
    size: int,
    *,
    ranks: Sequence[int] | None = None,
    periodic: bool | Sequence[bool] = False,
    halo: int | Sequence[int] = 1,
) -> tuple[int, ...]:
    """The process grid of `size` ranks with the least halo surface.

    `ranks` fixes some axes; 0 leaves an axis free. Grids whose blocks are narrower than the halo
    are passed over. Ties go to the grid that cuts the first axes, whose blocks stay contiguous in
    memory.

    Raises
    ------
    DecompositionError
        The fixed axes do not divide `size`, or no grid keeps every block as wide as the halo.
    """
    ndim = len(shape)
    fixed = (0,) * ndim if ranks is None else per_axis(ranks, ndim, operator.index, "ranks")
    width = per_axis(halo, ndim, operator.index, "halo")
    wraps = per_axis(periodic, ndim, truth, "periodic")
    if 0 not in fixed and math.prod(fixed) != size:
        raise DecompositionError(
            f"The process grid {fixed} has {math.prod(fixed)} ranks, the communicator has {size}; "
            "make their numbers equal or leave an axis free with 0."
        )
    matching = list(_completed(fixed, size))
    if not matching:
        raise DecompositionError(
            f"The process grid {fixed} cannot be completed to {size} ranks; its fixed axes must "
            f"divide {size}."
        )
    fitting = [grid for grid in matching if _fits(shape, grid, width, wraps)]
    if not fitting:
        # The message of the grid that would be taken if width did not matter tells the user what is
        # too narrow.
        best = min(matching, key=lambda grid: _surface(shape, grid, width, wraps))
        Decomposition(shape, best, periodic=wraps, halo=tuple(max(1, w) for w in width))
    return min(fitting, key=lambda grid: (_surface(shape, grid, width, wraps), [-g for g in grid]))


def _completed(fixed: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """The process grids of `size` ranks that have these numbers of ranks where they are not 0."""
    free = [axis for axis, parts in enumerate(fixed) if parts == 0]
    given = math.prod(parts for parts in fixed if parts)
    if min(fixed, default=1) < 0 or size % given:
        return
    if not free:
        yield from [tuple(fixed)] * (given == size)
        return
    for found in factorisations(size // given, len(free)):
        grid = list(fixed)
        for axis, parts in zip(free, found, strict=True):
            grid[axis] = parts
        yield tuple(grid)


def _fits(
    shape: Sequence[int], grid: Sequence[int], halo: Sequence[int], periodic: Sequence[bool]
) -> bool:
    return all(
        cells // parts >= (max(1, width) if parts > 1 else width if wraps else 0)
        for cells, parts, width, wraps in zip(shape, grid, halo, periodic, strict=True)
    )


def _surface(
    shape: Sequence[int], grid: Sequence[int], halo: Sequence[int], periodic: Sequence[bool]
) -> float:
    """Halo cells that an inner block receives."""
    block = [cells / parts for cells, parts in zip(shape, grid, strict=True)]
    volume = math.prod(block)
    return sum(
        (2 if parts > 2 or wraps else 1) * width * volume / extent
        for parts, width, extent, wraps in zip(grid, halo, block, periodic, strict=True)
        if parts > 1 and extent
    )
