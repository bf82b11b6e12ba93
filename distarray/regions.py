"""Boxes of integer indices: the arithmetic under plans and blocks. Pure; an axis runs from start to
stop, stop excluded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Box:
    """A block of indices, half open on every axis; empty when some stop is not above its start."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> Box:
        """The box of all indices of an array of this shape."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def ndim(self) -> int:
        return len(self.start)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(0, hi - lo) for lo, hi in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def empty(self) -> bool:
        return any(hi <= lo for lo, hi in zip(self.start, self.stop, strict=True))

    def intersection(self, other: Box) -> Box:
        return Box(
            tuple(map(max, self.start, other.start)),
            tuple(map(min, self.stop, other.stop)),
        )

    def contains(self, other: Box) -> bool:
        """Whether every index of `other` lies in this box; an empty box lies in every box."""
        return other.empty or (
            all(a <= b for a, b in zip(self.start, other.start, strict=True))
            and all(a >= b for a, b in zip(self.stop, other.stop, strict=True))
        )

    def shift(self, offset: Sequence[int]) -> Box:
        return Box(
            tuple(a + d for a, d in zip(self.start, offset, strict=True)),
            tuple(a + d for a, d in zip(self.stop, offset, strict=True)),
        )

    def grow(self, low: Sequence[int], high: Sequence[int] | None = None) -> Box:
        """This box widened by `low` below and `high` above on each axis (negative widths shrink
        it).
        """
        return Box(
            tuple(a - d for a, d in zip(self.start, low, strict=True)),
            tuple(a + d for a, d in zip(self.stop, low if high is None else high, strict=True)),
        )

    def with_axis(self, axis: int, start: int, stop: int) -> Box:
        """This box with the extent of one axis replaced."""
        return Box(
            (*self.start[:axis], start, *self.start[axis + 1 :]),
            (*self.stop[:axis], stop, *self.stop[axis + 1 :]),
        )

    def slices(self, origin: Sequence[int] | None = None) -> tuple[slice, ...]:
        """Slices that select this box in an array whose first element has the index `origin`."""
        base = (0,) * self.ndim if origin is None else origin
        return tuple(
            slice(a - o, max(a, b) - o) for a, b, o in zip(self.start, self.stop, base, strict=True)
        )

    def difference(self, inner: Box) -> tuple[Box, ...]:
        """Disjoint boxes that cover this box without `inner`, thin slabs of axis 0 first."""
        inner = self.intersection(inner)
        if self.empty:
            return ()
        if inner.empty:
            return (self,)
        parts, rest = [], self
        for axis in range(self.ndim):
            parts.append(rest.with_axis(axis, rest.start[axis], inner.start[axis]))
            parts.append(rest.with_axis(axis, inner.stop[axis], rest.stop[axis]))
            rest = rest.with_axis(axis, inner.start[axis], inner.stop[axis])
        return tuple(part for part in parts if not part.empty)


def boxes_of(mask: Any, start: Sequence[int]) -> tuple[Box, ...]:
    """Disjoint boxes over the true points of a mask whose first element has the index `start`.

    They are runs along the last axis, joined along the axes before it where they are equal.
    """
    if not mask.size:
        return ()
    changes = np.diff(mask.reshape(-1, mask.shape[-1]), axis=1, prepend=False, append=False)
    row, column = np.nonzero(changes)  # of each row in turn: start, stop, start, stop, ...
    if not row.size:
        return ()
    *place, _ = np.unravel_index(row[::2] * mask.shape[-1], mask.shape)
    low = np.stack([*place, column[::2]])
    high = np.stack([*(index + 1 for index in place), column[1::2]])
    for axis in reversed(range(mask.ndim - 1)):
        low, high = _joined(low, high, axis)
    origin = np.array(start)[:, None]
    corners = zip((low + origin).T.tolist(), (high + origin).T.tolist(), strict=True)
    return tuple(Box(tuple(first), tuple(last)) for first, last in corners)


def _joined(low: Any, high: Any, axis: int) -> tuple[Any, Any]:
    """The corners of boxes, one a column, those joined that touch along an axis and agree along the
    others.
    """
    across = np.delete(np.concatenate([low, high]), [axis, axis + len(low)], axis=0)
    order = np.lexsort([low[axis], *across])
    low, high, across = low[:, order], high[:, order], across[:, order]
    touching = (across[:, 1:] == across[:, :-1]).all(axis=0) & (low[axis, 1:] == high[axis, :-1])
    first = np.flatnonzero(np.concatenate([[True], ~touching]))
    last = np.append(first[1:], low.shape[1]) - 1
    high[axis, first] = high[axis, last]
    return low[:, first], high[:, first]


def without(boxes: Iterable[Box], taken: Iterable[Box]) -> list[Box]:
    """Disjoint boxes that cover what of the disjoint `boxes` lies in none of `taken`."""
    left = [box for box in boxes if not box.empty]
    for box in taken:
        left = [piece for rest in left for piece in rest.difference(box)]
    return left
