"""In which order the points of a block are computed when several steps share a pass over memory.

All is in cells per axis. `low` and `high` are distances below and above a point. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from distarray.regions import Box

Widths = tuple[int, ...]
#: Boxes to compute, each with a mask of stores.
MaskedBoxes = Sequence[tuple[Box, int]]


@dataclass(frozen=True)
class Application:
    """One kernel of one step.

    Attributes
    ----------
    reads : dict of array to (low, high)
        How far it reads each array, named by a number of its memory.
    writes : frozenset of arrays
    """

    reads: Mapping[int, tuple[Widths, Widths]]
    writes: frozenset[int] = field(default_factory=frozenset)


def shifts(applications: Sequence[Application], ndim: int) -> list[Widths]:
    """By how much each application lags behind a tile's edges.

    It comes after all that makes what it reads beyond its points, and after all readers of what it
    overwrites.
    """
    found: list[list[int]] = []
    for number, one in enumerate(applications):
        least = [0] * ndim
        for other, lag in zip(applications[:number], found, strict=True):
            for axis in range(ndim):
                above = [high[axis] for a, (_, high) in one.reads.items() if a in other.writes]
                below = [low[axis] for a, (low, _) in other.reads.items() if a in one.writes]
                least[axis] = max(least[axis], lag[axis] + max([0, *above, *below]))
        found.append(least)
    return [tuple(lag) for lag in found]


def margins(applications: Sequence[Application], ndim: int) -> list[tuple[Widths, Widths]]:
    """How many points beyond the owned ones each application computes, below and above, since later
    ones read them.
    """
    found: list[tuple[Widths, Widths]] = []
    for number in reversed(range(len(applications))):
        low, high = [0] * ndim, [0] * ndim
        for later, beyond in zip(applications[number + 1 :], reversed(found), strict=True):
            for array, reach in later.reads.items():
                if array in applications[number].writes:
                    for axis in range(ndim):
                        low[axis] = max(low[axis], beyond[0][axis] + reach[0][axis])
                        high[axis] = max(high[axis], beyond[1][axis] + reach[1][axis])
        found.append((tuple(low), tuple(high)))
    return found[::-1]


def needs(
    applications: Sequence[Application], ndim: int, *, whole: bool
) -> dict[int, tuple[Widths, Widths]]:
    """How much of each array's halo must be fresh before the first application.

    `whole` says that applications compute every point: then a reader sees nothing of what was there
    before the first writer.
    """
    found: dict[int, tuple[Widths, Widths]] = {}
    written: set[int] = set()
    for one, (below, above) in zip(applications, margins(applications, ndim), strict=True):
        for array, (low, high) in one.reads.items():
            if whole and array in written:
                continue
            before = found.get(array, ((0,) * ndim, (0,) * ndim))
            found[array] = (
                tuple(map(max, before[0], map(sum, zip(below, low, strict=True)))),
                tuple(map(max, before[1], map(sum, zip(above, high, strict=True)))),
            )
        written |= one.writes
    return found


@dataclass(frozen=True)
class Entry:
    """A box that one application computes."""

    application: int
    box: Box
    mask: int


def entries(
    boxes: Sequence[MaskedBoxes], lags: Sequence[Widths], sizes: Sequence[int]
) -> Iterator[Entry]:
    """All boxes in the order in which they are computed.

    Parameters
    ----------
    boxes : for each application, what it computes
    lags : of `shifts`
    sizes : cells of a tile along the first axes; the others are not cut
    """
    cuts = [_cuts(boxes, lags, axis, size) for axis, size in enumerate(sizes)]
    for tile in itertools.product(*cuts):
        for number, (masked, lag) in enumerate(zip(boxes, lags, strict=True)):
            for whole, mask in masked:
                box = whole
                for axis, (start, stop) in enumerate(tile):
                    low = max(whole.start[axis], start - lag[axis])
                    high = min(whole.stop[axis], stop - lag[axis])
                    box = box.with_axis(axis, low, high)
                if not box.empty:
                    yield Entry(number, box, mask)


def _cuts(
    boxes: Sequence[MaskedBoxes], lags: Sequence[Widths], axis: int, size: int
) -> list[tuple[int, int]]:
    """The ranges of all tiles along an axis, before they are shifted."""
    ranges = [
        (box.start[axis] + lag[axis], box.stop[axis] + lag[axis])
        for masked, lag in zip(boxes, lags, strict=True)
        for box, _ in masked
        if not box.empty
    ]
    if not ranges:
        return []
    first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
    return [(start, start + size) for start in range(first, last, size)]
