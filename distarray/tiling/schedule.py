"""In which order the points of a block are computed when several steps share a pass over memory.

All is in cells per axis. `low` and `high` are distances below and above a point. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from distarray.arraylike import HostArray

Widths = tuple[int, ...]


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

    def without(self, axes: Collection[int]) -> Application:
        """The same, as if it read nothing beyond its points along some axes."""

        def kept(widths: Widths) -> Widths:
            return tuple(0 if axis in axes else width for axis, width in enumerate(widths))

        reads = {a: (kept(low), kept(high)) for a, (low, high) in self.reads.items()}
        return Application(reads, self.writes)


def shifts(applications: Sequence[Application], ndim: int) -> list[Widths]:
    """By how much each application lags behind a tile's edges.

    It comes after all that makes what it reads beyond its points, and after all readers of what it
    overwrites.
    """
    found: list[Widths] = []
    lag: Widths = (0,) * ndim
    written: dict[int, Widths] = {}  # for each array the lag of its latest writer
    read: dict[int, Widths] = {}  # and the most that a reader so far holds a writer back
    for one in applications:
        above = [_sum(written[a], high) for a, (_, high) in one.reads.items() if a in written]
        below = [read[a] for a in one.writes if a in read]
        lag = _most([lag, *above, *below])
        for array, (low, _) in one.reads.items():
            read[array] = _most([_sum(lag, low), read.get(array, lag)])
        written |= dict.fromkeys(one.writes, lag)
        found.append(lag)
    return found


def _sum(one: Widths, other: Widths) -> Widths:
    return tuple(map(operator.add, one, other))


def _most(widths: Sequence[Widths]) -> Widths:
    """The largest of several widths along each axis."""
    return tuple(map(max, zip(*widths, strict=True)))


def margins(applications: Sequence[Application], ndim: int) -> list[tuple[Widths, Widths]]:
    """How many points beyond the owned ones each application computes, below and above, since later
    ones read them.
    """
    found: list[tuple[Widths, Widths]] = []
    nothing: Widths = (0,) * ndim
    read: dict[int, tuple[Widths, Widths]] = {}  # how far later ones read each array, owned or not
    for one in reversed(applications):
        wanted = [(nothing, nothing), *(read[a] for a in one.writes if a in read)]
        low, high = (_most([ends[side] for ends in wanted]) for side in (0, 1))
        for array, (below, above) in one.reads.items():
            _reach(read, array, (_sum(low, below), _sum(high, above)))
        found.append((low, high))
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
            _reach(found, array, (_sum(below, low), _sum(above, high)))
        written |= one.writes
    return found


def _reach(
    found: dict[int, tuple[Widths, Widths]], array: int, ends: tuple[Widths, Widths]
) -> None:
    """Note that an array is read as far as this, too."""
    nothing = (0,) * len(ends[0])
    low, high = found.get(array, (nothing, nothing))
    found[array] = _most([low, ends[0]]), _most([high, ends[1]])


def mirrored(applications: Sequence[Application]) -> list[Application]:
    """The same, seen from the other end of every axis."""
    return [
        Application({a: (high, low) for a, (low, high) in one.reads.items()}, one.writes)
        for one in applications
    ]


Ranges = tuple[HostArray, HostArray]  # first and last + 1 cell, for every tile of an axis


@dataclass(frozen=True)
class Cut:
    """An axis in tiles of `size` cells from `first` on.

    With `around`, the cells of a periodic axis that one rank holds whole, nothing is computed
    twice: the first tile begins for later applications as much further up as the others are shifted
    down, and one tile more, the seam, computes what is left at both ends.
    """

    first: int
    tiles: int
    size: int
    around: int = 0

    def ranges(self, start: int, stop: int, lag: int, lead: int) -> list[Ranges]:
        """Where an application computes the cells from `start` to `stop`: one range, and where the
        axis is closed, a second one at its low end.
        """
        edges = self.first + self.size * np.arange(self.tiles + 1)
        if not self.around:
            return [(np.maximum(edges[:-1] - lag, start), np.minimum(edges[1:] - lag, stop))]
        seam = stop - lag
        low = np.append(np.maximum(edges[:-1] - lag, start + lead), seam)
        high = np.append(np.minimum(edges[1:] - lag, seam), stop)
        nowhere = np.zeros(self.tiles, int)
        return [(low, high), (np.append(nowhere, start), np.append(nowhere, start + lead))]

    def in_seam(self) -> Ranges:
        """One cell in the seam, none elsewhere."""
        start = np.zeros(self.tiles + 1, int)
        stop = start.copy()
        stop[-1] = 1
        return start, stop


def cut(bounds: Sequence[tuple[int, int]], lags: Sequence[int], size: int, around: int) -> Cut:
    """An axis along which applications with these lags compute what lies between these bounds."""
    if around:
        return Cut(0, -(-around // size), size, around)
    first = min((low + lag for (low, _), lag in zip(bounds, lags, strict=True)), default=0)
    last = max((high + lag for (_, high), lag in zip(bounds, lags, strict=True)), default=0)
    return Cut(first, -(-max(0, last - first) // size), size)


@dataclass(frozen=True)
class Piece:
    """What is done in every tile, if its ranges are not empty there.

    Attributes
    ----------
    work : int
        Tells apart what is done.
    ranges : of each axis that is cut
    inner : (first, last + 1) of each axis that is not
    """

    work: int
    ranges: Sequence[Ranges]
    inner: Sequence[tuple[int, int]]


def entries(pieces: Sequence[Piece]) -> tuple[HostArray, HostArray, HostArray]:
    """All that is done, tile by tile.

    Returns
    -------
    ndarray, shape (n,)
        Which piece.
    ndarray, shape (n, axes, 2)
        First and last + 1 cell along each axis.
    ndarray, shape (n, axes that are cut)
        In which tile.
    """
    outer = len(pieces[0].ranges)
    shape = (*(len(start) for start, _ in pieces[0].ranges), len(pieces))
    bounds = np.empty((*shape, outer + len(pieces[0].inner), 2), np.int64)
    for number, piece in enumerate(pieces):
        for axis, ends in enumerate(piece.ranges):
            along = [1] * outer
            along[axis] = -1
            for side in (0, 1):
                bounds[..., number, axis, side] = ends[side].reshape(along)
        bounds[..., number, outer:, :] = np.reshape(piece.inner, (-1, 2))
    done = np.argwhere((bounds[..., 0] < bounds[..., 1]).all(axis=-1))
    return done[:, -1], bounds[tuple(done.T)], done[:, :-1]


def fronts(tiles: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """An order in which many tiles can be computed at the same time: a tile needs others that do
    not come after it along any axis, so that those with the same sum of places need none of each
    other.

    Parameters
    ----------
    tiles : ndarray, shape (n, axes)
        In which tile each entry is; entries of a tile follow each other.

    Returns
    -------
    order : ndarray, shape (n,)
        Of the entries.
    starts : ndarray
        Where in that order each tile starts, and the end.
    groups : ndarray
        Which of these is the first of each group of tiles, and the end.
    """
    order = np.argsort(tiles.sum(axis=1), kind="stable")
    ordered = tiles[order]
    new = np.ones(len(tiles), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    sums = ordered[starts].sum(axis=1)
    groups = np.flatnonzero(np.diff(sums, prepend=-1))
    return order, np.append(starts, len(tiles)), np.append(groups, len(starts))
