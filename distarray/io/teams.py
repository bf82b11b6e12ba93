"""Short rows of a file that several ranks share, brought together so that each moves long runs.

Where the last axes of a grid are cut, what a rank owns lies in the file in many short runs, between
those of other ranks. Ranks with the same place along the first axes, a team, own a box of whole
rows together. It is cut into pieces, whatever the blocks; in each round every member gets one piece
from the others to write it, or has read one and gives it to the others:

    round 0   piece 0 -> member 0, piece 1 -> member 1, ...
    round 1   the next pieces

A round moves at most `ROUND` bytes of a team. Messages go between members alone, and each round
makes one step of a generator on each of them, so that they may take part in other calls together
between two rounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.comm.base import Communicator
from distarray.io.checksums import Buffer
from distarray.io.tiles import chunks
from distarray.layout import Layout
from distarray.regions import Box

Values = np.ndarray[Any, Any]
#: Fills contiguous memory with what this rank owns of a box.
Fetch = Callable[[Box, Values], None]
#: Takes in values of a box that this rank owns.
Store = Callable[[Box, Values], None]

#: Bytes of a run from which it is moved as it is: below, the call for it takes most of the time.
LEAST = 16 << 10
#: Bytes of all pieces of a round together: what one rank may have to send at once.
ROUND = 16 << 20
#: Most members of a team.
LARGEST = 64


@dataclass(frozen=True)
class Team:
    """Ranks that own a box of whole rows together: what each owns, components first."""

    members: tuple[int, ...]
    boxes: tuple[Box, ...]

    @property
    def whole(self) -> Box:
        """The box that they own together."""
        corners = [box for box in self.boxes if not box.empty] or [self.boxes[0]]
        return Box(
            tuple(map(min, zip(*(box.start for box in corners), strict=True))),
            tuple(map(max, zip(*(box.stop for box in corners), strict=True))),
        )


def shared_axis(layout: Layout) -> int | None:
    """The first of the axes along which ranks form teams; None where runs are long enough, or teams
    would not make them longer. The same on all ranks. Local.
    """
    cuts = layout.decomposition
    first = layout.ndim
    while (
        first > 0 and _run(layout, first) < LEAST and math.prod(cuts.ranks[first - 1 :]) <= LARGEST
    ):
        first -= 1
    return first if math.prod(cuts.ranks[first:]) > 1 else None


def _run(layout: Layout, first: int) -> int:
    """Bytes of the shortest run, if ranks share what lies along the axes from this one on."""
    narrowest = layout.decomposition.axes[first - 1].narrowest
    return math.prod(layout.points[first:]) * narrowest * layout.dtype.itemsize


def team_of(layout: Layout, rank: int, first: int) -> Team | None:
    """The team of a rank; None for one that owns nothing. Local."""
    cuts = layout.decomposition
    coords = cuts.coords(rank)
    if coords is None:
        return None
    ends = itertools.product(*map(range, cuts.ranks[first:]))
    members = tuple(cuts.rank_at((*coords[:first], *end)) for end in ends)
    return Team(members, tuple(owned_by(layout, member) for member in members))


def owned_by(layout: Layout, rank: int) -> Box:
    """What a rank owns of an array, components first. Local."""
    own, components = layout.owned(rank), layout.components
    return Box((0,) * len(components) + own.start, components + own.stop)


def rounds(team: Team, itemsize: int) -> Iterator[tuple[Box, ...]]:
    """The pieces of each round, one for each member; the last may be empty. Local."""
    whole, count = team.whole, len(team.members)
    largest = max(1, ROUND // (count * itemsize))
    pieces = chunks(whole, (1,) * whole.ndim, largest)
    nothing = Box(whole.start, whole.start)
    while batch := tuple(itertools.islice(pieces, count)):
        yield batch + (nothing,) * (count - len(batch))


class Exchange:
    """One array of a team, between owned blocks and pieces of the file.

    Parameters
    ----------
    team : Team
    communicator : Communicator
        Of which `team.members` are ranks; this rank is one of them.
    dtype : dtype
    """

    def __init__(self, team: Team, communicator: Communicator, dtype: np.dtype[Any]) -> None:
        self._team = team
        self._communicator = communicator
        self._dtype = dtype
        self._me = team.members.index(communicator.rank)
        self._own, self._other, self._piece = Buffer(), Buffer(), Buffer()

    def gathered(self, fetch: Fetch) -> Iterator[tuple[Box, Values]]:
        """The pieces that this rank writes, one each round, with their values. An error of `fetch`
        is raised once the round is over. Collective over the team.
        """
        for pieces in rounds(self._team, self._dtype.itemsize):
            mine = [piece.intersection(self._team.boxes[self._me]) for piece in pieces]
            sent = self._parts(mine, self._own)
            problem: Exception | None = None
            try:
                for box, part in zip(mine, sent, strict=True):
                    if part.size:
                        fetch(box, part)
            except Exception as error:  # the other members wait for this one
                problem = error
            piece = pieces[self._me]
            values = self._piece.array(piece.shape, self._dtype)
            theirs, received = self._theirs(piece)
            self._exchange(sent, received)
            if problem is not None:
                raise problem
            received[self._me] = sent[self._me]
            for box, part in zip(theirs, received, strict=True):
                if part.size:
                    values[box.slices(piece.start)] = part
            yield piece, values

    def scattered(self, store: Store) -> Iterator[tuple[Box, Values]]:
        """The pieces that this rank reads, one each round, with the memory for their values, which
        must be filled before the next step; all that this rank owns is handed to `store`. An error
        of `store` is raised once the round is over. Collective over the team.
        """
        for pieces in rounds(self._team, self._dtype.itemsize):
            piece = pieces[self._me]
            values = self._piece.array(piece.shape, self._dtype)
            yield piece, values
            theirs, sent = self._theirs(piece)
            for box, part in zip(theirs, sent, strict=True):
                if part.size:
                    part[...] = values[box.slices(piece.start)]
            mine = [one.intersection(self._team.boxes[self._me]) for one in pieces]
            received = self._parts(mine, self._own)
            self._exchange(sent, received)
            received[self._me] = sent[self._me]
            for box, part in zip(mine, received, strict=True):
                if part.size:
                    store(box, part)

    def _theirs(self, piece: Box) -> tuple[list[Box], list[Values]]:
        """What each member owns of a piece, and memory for it."""
        boxes = [piece.intersection(box) for box in self._team.boxes]
        return boxes, self._parts(boxes, self._other)

    def _parts(self, boxes: list[Box], buffer: Buffer) -> list[Values]:
        """Memory for the values of boxes, one after the other."""
        stops = list(itertools.accumulate(box.size for box in boxes))
        flat = buffer.array((stops[-1],), self._dtype)
        return [
            flat[stop - box.size : stop].reshape(box.shape)
            for stop, box in zip(stops, boxes, strict=True)
        ]

    def _exchange(self, sent: list[Values], received: list[Values]) -> None:
        def others(parts: list[Values]) -> list[tuple[int, Values]]:
            return [
                (member, part.reshape(-1).view(np.uint8))
                for member, part in zip(self._team.members, parts, strict=True)
                if part.size and member != self._communicator.rank
            ]

        self._communicator.exchange(others(sent), others(received))


def exchange_of(layout: Layout, communicator: Communicator) -> Exchange | None:
    """What brings short runs of an array together on this rank. Local."""
    first = shared_axis(layout)
    team = None if first is None else team_of(layout, communicator.rank, first)
    return None if team is None else Exchange(team, communicator, layout.dtype)


def divided(layouts: Sequence[Layout]) -> tuple[list[int], list[int]]:
    """Numbers of the arrays with long runs, and of those with short ones. The same on all ranks."""
    short = [k for k, layout in enumerate(layouts) if shared_axis(layout) is not None]
    return [k for k in range(len(layouts)) if k not in short], short
