"""Boxes of integer indices: the arithmetic under plans and blocks. Pure; an axis runs from start to
stop, stop excluded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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
