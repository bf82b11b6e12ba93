"""Blocks of arrays between memory and a file, by MPI-IO.

Only `mpi` imports this, once it has loaded the library.

With ROMIO ranks open the file together, see their parts of an array through a view, and read and
write by collective calls. With other libraries each opens it alone and calls for itself, run by
run. Either way no call leaves ranks waiting for one that has met an error: errors are agreed on
between calls, by this file.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from mpi4py import MPI

from distarray.arraylike import HostArray
from distarray.comm.base import BlockPiece, Communicator, runs_of
from distarray.errors import DistArrayError, FileError, system_text
from distarray.regions import Box

#: What the versions of libraries that have ROMIO begin with or contain: MPICH also those of Cray.
_WITH_ROMIO = ("MPICH", "MVAPICH", "Intel(R) MPI")
#: Each rank moves its own part in a collective call. ROMIO would else pass parts to some ranks, in
#: rounds; one of these that meets an error leaves at once, and the others wait for it for ever.
#: Short runs were brought together before, see `io.teams`. Sieving would write the gaps as well.
_HINTS = {
    "romio_cb_write": "disable",
    "romio_cb_read": "disable",
    "romio_ds_write": "disable",
    "romio_ds_read": "disable",
}


def has_collective_files() -> bool:
    """Whether collective calls for files end on all ranks when one meets an error. Local.

    Those of ROMIO do, with its hints. Of Open MPI's OMPIO all ranks but one were seen to wait for
    ever, in opening a file and between two rounds of a write, and errors of a write were lost.
    """
    version = MPI.Get_library_version()
    return not version.startswith("Open MPI") and any(name in version for name in _WITH_ROMIO)


def write_blocks(
    communicator: Communicator, limit: int, path: str, pieces: Iterable[BlockPiece]
) -> None:
    """As `Communicator.write_blocks`, by calls of at most `limit` bytes. Collective."""
    _transfer(communicator, limit, _File(path, write=True), pieces)


def read_blocks(
    communicator: Communicator, limit: int, path: str, pieces: Iterable[BlockPiece]
) -> None:
    """As `Communicator.read_blocks`, by calls of at most `limit` bytes. Collective."""
    _transfer(communicator, limit, _File(path, write=False), pieces)


def _transfer(
    communicator: Communicator, limit: int, file: _File, pieces: Iterable[BlockPiece]
) -> None:
    """Move all pieces between memory and file. Collective.

    All ranks ask for their next pieces together, so that these may be made by messages among ranks.
    One that has nothing left goes on taking part, and all stop together once one has met an error,
    which is raised at the end.
    """
    together = has_collective_files()
    part_of, move = (_viewed, _move_together) if together else (_Part, _move_alone)
    errors = _FileErrors(file.subject)
    with contextlib.ExitStack() as stack:
        with errors.noted():
            stack.enter_context(file)
        communicator.agree(errors.first)
        with errors.noted():
            file.open(communicator.handle if together else MPI.COMM_SELF)
        communicator.agree(errors.first)
        following = iter(pieces)
        while True:
            parts: list[_Part] | None = None
            with errors.noted():
                piece = next(following, None)
                if piece is not None:
                    parts = [part_of(piece, box) for box in file.boxes(piece, limit)]
            state = [-1 if parts is None else len(parts), errors.first is not None]
            most, failed = communicator.allreduce(np.array(state, np.int64), "max").tolist()
            if failed or most < 0:
                break
            for k in range(most):
                part = parts[k] if parts is not None and k < len(parts) else None
                with errors.noted(), file.explained(part):
                    move(file, part)
        with errors.noted():
            file.mpi.Close()
    communicator.agree(errors.first)


class _Part(NamedTuple):
    """A box of a piece that is moved at once, and the bytes that it is in the file, seen from where
    the array begins.
    """

    piece: BlockPiece
    box: Box
    view: MPI.Datatype = MPI.BYTE


def _viewed(piece: BlockPiece, box: Box) -> _Part:
    element = MPI.BYTE.Create_contiguous(piece.values.itemsize)
    view = element.Create_subarray(list(piece.shape), list(box.shape), list(box.start)).Commit()
    element.Free()
    return _Part(piece, box, view)


def _move_alone(file: _File, part: _Part | None) -> None:
    """Read or write a part of this rank by a call for each of its runs. Local."""
    if part is None:
        return
    for offset, octets in runs_of(part.piece, part.box):
        _moved(file.mpi.Write_at if file.write else file.mpi.Read_at, octets, offset)


def _move_together(file: _File, part: _Part | None) -> None:
    """Read or write a part of each rank, or nothing, by one call of all. Collective."""
    octets = np.empty(0, np.uint8)
    # The first type, of which the other is made, must be the same on all ranks.
    if part is None:
        file.mpi.Set_view(0, MPI.BYTE, MPI.BYTE)
    else:
        piece, box, view = part
        file.mpi.Set_view(piece.offset, MPI.BYTE, view)
        view.Free()
        octets = piece.values[box.slices(piece.box.start)].reshape(-1).view(np.uint8)
    _moved(file.mpi.Write_all if file.write else file.mpi.Read_all, octets)


class _File:
    """A file that is open twice: plainly, which says what is wrong, and by MPI-IO."""

    def __init__(self, path: str, *, write: bool) -> None:
        self.path, self.write = path, write
        self.subject = f"The file '{path}' cannot be {'written' if write else 'read'}"

    def __enter__(self) -> Self:
        """Open it plainly. Local."""
        plain = os.O_RDWR if self.write else os.O_RDONLY
        with contextlib.ExitStack() as stack:
            self._descriptor = os.open(self.path, plain | os.O_CLOEXEC)
            stack.callback(os.close, self._descriptor)
            self._length = os.fstat(self._descriptor).st_size
            if self.write:
                self._probe()
            self._close = stack.pop_all().close
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def open(self, comm: MPI.Intracomm) -> None:
        """Open it by MPI-IO, as `mpi`. Collective over these ranks."""
        hints = MPI.Info.Create()
        for name, value in _HINTS.items():
            hints.Set(name, value)
        # MPICH takes what is before a colon, such as "ufs:", for the name of a driver.
        path, mode = os.path.abspath(self.path), MPI.MODE_WRONLY if self.write else MPI.MODE_RDONLY
        try:
            self.mpi = MPI.File.Open(comm, path, mode, hints)
        finally:
            hints.Free()

    def boxes(self, piece: BlockPiece, limit: int) -> list[Box]:
        """The boxes of at most `limit` bytes in which a piece is moved. Local."""
        end = piece.offset + math.prod(piece.shape) * piece.values.itemsize
        if not self.write and self._length < end:  # a library may read beyond and say nothing
            raise EOFError(f"it has {self._length} bytes, one of its arrays ends at byte {end}")
        return _slabs(piece.box, piece.values.itemsize, limit)

    @contextlib.contextmanager
    def explained(self, part: _Part | None) -> Iterator[None]:
        """Raise what the system says of a part that MPI could not write, which seldom says it."""
        try:
            yield
        except (MPI.Exception, EOFError):
            if self.write and part is not None:
                for offset, octets in runs_of(part.piece, part.box):
                    done = 0  # it takes the first bytes perhaps
                    while done < octets.size:
                        done += os.pwrite(self._descriptor, octets.data[done:], offset + done)
            raise

    def _probe(self) -> None:
        """Write the last byte as it is: a limit or a full disk is met before others wait."""
        last = max(self._length - 1, 0)
        os.pwrite(self._descriptor, os.pread(self._descriptor, 1, last), last)


def _moved(call: Callable[..., Any], octets: HostArray, *offset: int) -> None:
    """Read or write bytes, all of them."""
    status = MPI.Status()
    call(*offset, [octets, MPI.BYTE], status)
    count = status.Get_count(MPI.BYTE)
    if count != octets.size:
        raise EOFError(f"{count} of {octets.size} bytes were moved")


class _FileErrors:
    """Keeps the first error of a rank while it goes on taking part in collective calls."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.first: DistArrayError | None = None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        try:
            yield
        except DistArrayError as problem:
            self.first = self.first or problem
        except Exception as problem:  # whatever a rank meets, the others wait for it
            self.first = self.first or FileError(f"{self._subject}: {_text_of(problem)}")


def _text_of(problem: Exception) -> str:
    """What an error says, on one line, and its cure: MPICH tells of all calls within calls, the
    cause last.
    """
    if isinstance(problem, OSError) and problem.errno:
        return system_text(problem)
    text = str(problem)
    if isinstance(problem, MPI.Exception):
        text, *calls = problem.Get_error_string().strip().splitlines()
        text = calls[-1].rpartition(": ")[2] if calls else text
    return f"{text}; check the file, its folder and the free space."


def _slabs(box: Box, itemsize: int, limit: int) -> list[Box]:
    """The box cut into parts of at most `limit` bytes, in the order of memory."""
    if box.empty:
        return []
    if box.size * itemsize <= limit:
        return [box]
    axis = next(axis for axis, extent in enumerate(box.shape) if extent > 1)
    rows = max(1, limit * box.shape[axis] // (box.size * itemsize))
    first, last = box.start[axis], box.stop[axis]
    slabs = [box.with_axis(axis, i, min(i + rows, last)) for i in range(first, last, rows)]
    return [part for slab in slabs for part in _slabs(slab, itemsize, limit)]
