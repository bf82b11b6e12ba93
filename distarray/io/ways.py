"""The ways in which the values of all ranks come into a file that is laid out, and out of it.

    posix    each rank writes what it owns at its place: on a file system of this machine
    mpiio    together by MPI-IO: where many machines write, which its locks keep apart
    h5py     as mpiio, by an h5py that was built for MPI
    root     ranks send, root writes: where several writers would lose bytes

By posix and mpiio, ranks whose runs are short first bring their values together, see `rows`. In the
way of root, a rank visits the parts of the file that it has a share in and sends them in the order
of the file; root receives these from all, also after an error, which is told at the end.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import DistArrayError
from distarray.io import hdf5, place, rows
from distarray.io.agreement import agreed, told
from distarray.io.checksums import Buffer
from distarray.io.record import FileRecord
from distarray.io.tiles import chunks
from distarray.io.verify import has_long_rows, largest_piece, write_box, write_strided
from distarray.layout import Layout
from distarray.regions import Box

Values = np.ndarray[Any, Any]

Guard = Callable[[], AbstractContextManager[None]]

#: How values can come into a file.
METHODS = ("posix", "mpiio", "h5py", "root")
#: Bytes that are moved at once in the order of the file; they stay in the caches of a core.
PIECE = 8 << 20


@dataclass(frozen=True)
class Outgoing:
    """What is written.

    Attributes
    ----------
    path : str
        The file, laid out.
    record : FileRecord
    communicator : Communicator
    layouts : tuple of Layout
        Of each array.
    boxes : tuple of Box
        What this rank owns of each, components first.
    memory : tuple of array or None
        What this rank owns of each; None where that lies on a device.
    fetch : function (k, box, values)
        Fills contiguous memory with what this rank owns of a box of array k.
    enter : function (k, box, values)
        Looks at these values, each once: checksums.
    """

    path: str
    record: FileRecord
    communicator: Communicator
    layouts: tuple[Layout, ...]
    boxes: tuple[Box, ...]
    memory: tuple[Values | None, ...]
    fetch: Callable[[int, Box, Values], None]
    enter: Callable[[int, Box, Values], None]

    @property
    def subject(self) -> str:
        return f"The file '{self.path}' cannot be written"

    def parts(self, numbers: Sequence[int]) -> Iterator[tuple[int, Box, Values]]:
        """What this rank owns of some arrays, in parts of bounded size: the number of the array,
        the box and its values, which are overwritten by the next. All is entered. Local.

        What lies in host memory comes in the order of the file, and is entered when the disk has
        it all; what comes from a device is entered on its way.
        """
        buffer = Buffer()
        for k in numbers:
            array, memory = self.record.arrays[k], self.memory[k]
            dtype = np.dtype(array.dtype)
            parts = _tiles_of(self, k) if memory is None else in_order(self.boxes[k], dtype)
            for box in parts:
                values = buffer.array(box.shape, dtype)
                with told(self.subject):
                    self.fetch(k, box, values)
                    if memory is None:
                        self.enter(k, box, values)
                yield k, box, values
            if memory is not None:
                self.look_at((k,))

    def look_at(self, numbers: Sequence[int]) -> None:
        """Enter what this rank owns of some arrays. Local; on any thread."""
        buffer = Buffer()
        for k in numbers:
            memory, own = self.memory[k], self.boxes[k]
            for box in _tiles_of(self, k):
                with told(self.subject):
                    if memory is None:
                        values = buffer.array(box.shape, np.dtype(self.record.arrays[k].dtype))
                        self.fetch(k, box, values)
                    else:
                        values = memory[box.slices(own.start)]
                    self.enter(k, box, values)

    def gathered(self, k: int, guard: Guard) -> Iterator[tuple[Box, Values]]:
        """Pieces of array k that this rank writes for its team; `guard` is what values are fetched
        in. Collective over the team.
        """
        exchange = exchange_of(self.layouts[k], self.communicator)
        if exchange is None:
            return iter(())

        def fetch(box: Box, values: Values) -> None:
            with guard():
                self.fetch(k, box, values)

        return exchange.gathered(fetch)


def _tiles_of(job: Outgoing, k: int) -> Iterator[Box]:
    """What this rank owns of array k, cut between tiles."""
    array = job.record.arrays[k]
    return chunks(job.boxes[k], array.tile, largest_piece(np.dtype(array.dtype)))


def in_order(box: Box, dtype: np.dtype[Any]) -> Iterator[Box]:
    """A box cut into pieces in the order of the file, of runs as long as they can be. Local."""
    largest = max(1, min(PIECE // dtype.itemsize, largest_piece(dtype)))
    return chunks(box, (1,) * box.ndim, largest)


def exchange_of(layout: Layout, communicator: Communicator) -> rows.Exchange | None:
    """What brings short runs of an array together on this rank. Local."""
    first = rows.shared_axis(layout)
    team = None if first is None else rows.team_of(layout, communicator.rank, first)
    return None if team is None else rows.Exchange(team, communicator, layout.dtype)


def divided(layouts: Sequence[Layout]) -> tuple[list[int], list[int]]:
    """Numbers of the arrays with long runs, and of those with short ones. The same on all ranks."""
    short = [k for k, layout in enumerate(layouts) if rows.shared_axis(layout) is not None]
    return [k for k in range(len(layouts)) if k not in short], short


def write_all(job: Outgoing, method: str) -> None:
    """Write the values of all ranks. Collective."""
    if job.communicator.size == 1:
        write_here(job)
    elif method == "posix":
        _write_by_posix(job)
    elif method == "mpiio":
        _write_by_mpi(job)
    elif method == "h5py":
        pieces = _pieces(job, job.parts(range(len(job.boxes))))
        hdf5.write_blocks(job.path, job.record, job.communicator, pieces)
    else:
        _write_by_root(job)


def write_here(job: Outgoing, numbers: Sequence[int] | None = None) -> None:
    """Write what this rank owns of some arrays, or all, by this rank alone. Local; any thread."""
    chosen = range(len(job.boxes)) if numbers is None else numbers
    with told(job.subject), place.opened(job.path, write=True) as descriptor:
        for k in chosen:
            array, memory, own = job.record.arrays[k], job.memory[k], job.boxes[k]
            if memory is not None and has_long_rows(memory):
                for box in in_order(own, memory.dtype):
                    write_strided(descriptor, array, box, memory[box.slices(own.start)])
                job.look_at((k,))
            else:
                for _, box, values in job.parts((k,)):
                    write_box(descriptor, array, box, values)


def _enter(job: Outgoing, numbers: Sequence[int]) -> None:
    """Look at values that are then sent to other ranks. Collective."""
    with agreed(job.communicator, job.subject):
        job.look_at(numbers)


class Noted:
    """Keeps the first error of a rank that goes on, since others wait for what it sends."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.first: DistArrayError | None = None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        try:
            with told(self._subject):
                yield
        except DistArrayError as error:
            self.first = self.first or error

    def tell(self, communicator: Communicator) -> None:
        """Raise it on all ranks. Collective."""
        communicator.agree(self.first)


def _write_by_posix(job: Outgoing) -> None:
    long, short = divided(job.layouts)
    with agreed(job.communicator, job.subject):
        write_here(job, long)
    if not short:
        return
    _enter(job, short)
    problem = Noted(job.subject)
    with ExitStack() as stack:
        with agreed(job.communicator, job.subject):
            descriptor = stack.enter_context(place.opened(job.path, write=True))
        for k in short:
            for box, values in job.gathered(k, problem.noted):
                with problem.noted():
                    if problem.first is None:
                        write_box(descriptor, job.record.arrays[k], box, values)
    problem.tell(job.communicator)


def _write_by_mpi(job: Outgoing) -> None:
    long, short = divided(job.layouts)
    if long:
        job.communicator.write_blocks(job.path, _pieces(job, job.parts(long)))
    if short:
        _enter(job, short)
        guard = functools.partial(told, job.subject)
        gathered = ((k, box, values) for k in short for box, values in job.gathered(k, guard))
        job.communicator.write_blocks(job.path, _pieces(job, gathered))


def _pieces(job: Outgoing, parts: Iterator[tuple[int, Box, Values]]) -> Iterator[BlockPiece]:
    for k, box, values in parts:
        array = job.record.arrays[k]
        yield BlockPiece(array.offset, array.shape, box, values)


# By root.


def _write_by_root(job: Outgoing) -> None:
    """Bring one part of the file after the other to root, which writes it. Collective."""
    problem = Noted(job.subject)
    if job.communicator.rank:
        _send_to_root(job, problem)
    else:
        _write_as_root(job, problem)
    problem.tell(job.communicator)


def _whole_parts(job: Outgoing, k: int, over: Box | None = None) -> Iterator[Box]:
    array = job.record.arrays[k]
    limit = largest_piece(np.dtype(array.dtype))
    return chunks(Box.of_shape(array.shape), array.tile, limit, over=over)


def _send_to_root(job: Outgoing, problem: Noted) -> None:
    buffer = Buffer()
    for k, own in enumerate(job.boxes):
        for chunk in _whole_parts(job, k, own):
            values = _own_part(job, k, chunk.intersection(own), buffer, problem)
            job.communicator.exchange([(0, values)], [])


def _own_part(job: Outgoing, k: int, box: Box, buffer: Buffer, problem: Noted) -> Values:
    values = buffer.array(box.shape, np.dtype(job.record.arrays[k].dtype))
    with problem.noted():
        job.fetch(k, box, values)
        job.enter(k, box, values)
    return values


def _write_as_root(job: Outgoing, problem: Noted) -> None:
    own, received, joined = Buffer(), Buffer(), Buffer()
    with ExitStack() as stack:
        descriptor = -1
        with problem.noted():
            descriptor = stack.enter_context(place.opened(job.path, write=True))
        for k, array in enumerate(job.record.arrays):
            dtype = np.dtype(array.dtype)
            for chunk in _whole_parts(job, k):
                parts: list[tuple[Box, Values]] = []
                mine = chunk.intersection(job.boxes[k])
                if not mine.empty:
                    parts.append((mine, _own_part(job, k, mine, own, problem)))
                others = list(_others(job.layouts[k], chunk))
                flat = received.array((sum(box.size for _, box in others),), dtype)
                transfers, first = [], 0
                for rank, box in others:
                    values = flat[first : first + box.size].reshape(box.shape)
                    first += box.size
                    transfers.append((rank, values))
                    parts.append((box, values))
                job.communicator.exchange([], transfers)
                with problem.noted():
                    if problem.first is None:
                        write_box(descriptor, array, chunk, _joined(chunk, parts, joined))


def _others(layout: Layout, chunk: Box) -> Iterator[tuple[int, Box]]:
    """The ranks other than root that own a part of a box, with these parts. Local."""
    cuts, axes = layout.decomposition, len(layout.components)
    spans = zip(cuts.axes, chunk.start[axes:], chunk.stop[axes:], strict=True)
    ranges = (range(axis.part_of(a), axis.part_of(b - 1) + 1) for axis, a, b in spans)
    for coords in itertools.product(*ranges):
        rank = cuts.rank_at(coords)
        box = chunk.intersection(rows.owned_by(layout, rank))
        if rank and not box.empty:
            yield rank, box


def _joined(chunk: Box, parts: Sequence[tuple[Box, Values]], buffer: Buffer) -> Values:
    """A part of the file as one contiguous array, made of what ranks own of it."""
    if len(parts) == 1:
        return parts[0][1]
    whole = buffer.array(chunk.shape, parts[0][1].dtype)
    for box, values in parts:
        whole[box.slices(chunk.start)] = values
    return whole
