"""The values of a file, brought into the blocks of all ranks.

Each rank reads at the places of what it owns where the file system belongs to this machine, else
by MPI-IO; short runs are read by a team, see `teams`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm.base import BlockPiece, Communicator
from distarray.io import filesystem, place
from distarray.io.agreement import Noted, agreed
from distarray.io.boxes import (
    extent,
    has_long_rows,
    in_order,
    largest_piece,
    read_box,
    read_strided,
)
from distarray.io.checksums import Buffer, Checksums
from distarray.io.record import ArrayRecord
from distarray.io.teams import divided, exchange_of, owned_by
from distarray.io.tiles import chunks
from distarray.layout import Layout
from distarray.regions import Box

Values = np.ndarray[Any, Any]

#: Parts of which the disk is told before they are read.
AHEAD = 4


@dataclass(frozen=True)
class Incoming:
    """What is read into one array.

    Attributes
    ----------
    record : ArrayRecord
        As it is in the file.
    layout : Layout
        Of the array that is filled, whose element type may be another.
    box : Box
        What this rank owns.
    block : array
        The memory for it.
    host : bool
        Whether that is host memory.
    sums : Checksums or None
        Takes in what is read.
    """

    record: ArrayRecord
    layout: Layout
    box: Box
    block: Any
    host: bool
    sums: Checksums | None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.record.dtype)

    @property
    def plain(self) -> bool:
        """Whether the block holds, in host memory, the element type of the file."""
        return self.host and self.dtype == self.layout.dtype

    def boxes(self) -> Iterator[Box]:
        """What this rank owns in parts of bounded size: in the order of the file, unless they have
        to be looked at before they are stored. Local.
        """
        if self.plain:
            return in_order(self.box, self.dtype)
        return chunks(self.box, self.record.tile, largest_piece(self.dtype))

    def parts(self) -> Iterator[tuple[Box, Values]]:
        """These with memory that the next uses again; each is taken in when the next is asked for.
        Local.
        """
        buffer = Buffer()
        for box in self.boxes():
            values = buffer.array(box.shape, self.dtype)
            yield box, values
            if not self.plain:
                self._enter(box, values)
            self.store(box, values)
        if self.plain:
            self.enter_all()

    def enter_all(self) -> None:
        """Look at all that was stored. Local."""
        for box in chunks(self.box, self.record.tile, largest_piece(self.dtype)):
            self._enter(box, self.own(box))

    def own(self, box: Box) -> Values:
        """The memory for a part of what this rank owns, on the host."""
        return np.asarray(self.block[box.slices(self.box.start)])

    def _enter(self, box: Box, values: Values) -> None:
        if self.sums is not None:
            self.sums.add(box, values)

    def store(self, box: Box, values: Values) -> None:
        self.block[box.slices(self.box.start)] = values


def read_values(
    path: str,
    chosen: Sequence[ArrayRecord],
    arrays: Sequence[DistArray],
    sums: Sequence[Checksums] | None,
) -> None:
    """Fill arrays from a file; what is read enters the checksums. Collective.

    Raises
    ------
    FileError
        The file cannot be read or is too short. The same on all ranks.
    """
    if not arrays:
        return
    communicator = arrays[0].communicator
    here = _read_here(path, communicator)
    entered: Sequence[Checksums | None] = sums or [None] * len(arrays)
    with ExitStack() as stack:
        work = [
            Incoming(
                record,
                array.layout,
                owned_by(array.layout, communicator.rank),
                stack.enter_context(array.writing()),
                array.block.backend.host,
                one,
            )
            for record, array, one in zip(chosen, arrays, entered, strict=True)
        ]
        if here:
            _read_by_posix(path, work, communicator)
        else:
            _read_by_mpi(path, work, communicator)


def _read_here(path: str, communicator: Communicator) -> bool:
    """Whether each rank reads by the system's calls; else by MPI-IO. Collective."""
    found = communicator.size == 1 or filesystem.is_local(os.path.dirname(path))
    return bool(communicator.allreduce(np.array([found]), "min")[0])


def _divided(work: Sequence[Incoming]) -> tuple[list[Incoming], list[Incoming]]:
    """Arrays with long runs and with short ones. A team passes on values of the array's own element
    type in host memory, so that others count as long.
    """
    _, short = divided([one.layout for one in work])
    team = [k for k in short if work[k].plain]
    return [one for k, one in enumerate(work) if k not in team], [work[k] for k in team]


def _read_by_posix(path: str, work: Sequence[Incoming], communicator: Communicator) -> None:
    long, short = _divided(work)
    subject = f"The file '{path}' cannot be read"
    problem = Noted(subject)
    with ExitStack() as stack:
        with agreed(communicator, subject):
            descriptor = stack.enter_context(place.opened(path))
            _require_length(descriptor, work)
            for one in long:
                _read_long(descriptor, one)
        for one in short:
            exchange = exchange_of(one.layout, communicator)
            for box, values in exchange.scattered(one.store) if exchange else ():
                with problem.noted():
                    read_box(descriptor, one.record, box, values)
    problem.tell(communicator)
    with agreed(communicator, subject):
        for one in short:
            one.enter_all()


def _require_length(descriptor: int, work: Sequence[Incoming]) -> None:
    length = os.fstat(descriptor).st_size
    for one in work:
        end = one.record.offset + one.record.nbytes
        if length < end:
            raise EOFError(f"it has {length} bytes, one of its arrays ends at byte {end}")


def _read_long(descriptor: int, one: Incoming) -> None:
    """Read what this rank owns; while one part is copied, the disk goes on with those after it."""
    ahead = one.boxes()
    for box in itertools.islice(ahead, AHEAD):
        place.will_read(descriptor, *extent(one.record, box))
    direct = one.plain and has_long_rows(one.block)
    parts = ((box, one.own(box)) for box in one.boxes()) if direct else one.parts()
    read = read_strided if direct else read_box
    for box, values in parts:
        for following in itertools.islice(ahead, 1):
            place.will_read(descriptor, *extent(one.record, following))
        read(descriptor, one.record, box, values)
    if direct:
        one.enter_all()


def _read_by_mpi(path: str, work: Sequence[Incoming], communicator: Communicator) -> None:
    long, short = _divided(work)
    if long:
        own = ((one, box, values) for one in long for box, values in one.parts())
        communicator.read_blocks(path, _pieces(own))
    if short:
        team = (
            (one, box, values)
            for one in short
            if (exchange := exchange_of(one.layout, communicator)) is not None
            for box, values in exchange.scattered(one.store)
        )
        communicator.read_blocks(path, _pieces(team))
        with agreed(communicator, f"The file '{path}' cannot be read"):
            for one in short:
                one.enter_all()


def _pieces(parts: Iterator[tuple[Incoming, Box, Values]]) -> Iterator[BlockPiece]:
    for one, box, values in parts:
        yield BlockPiece(one.record.offset, one.record.shape, box, values)
