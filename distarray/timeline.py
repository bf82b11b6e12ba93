"""A timeline of a program, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

One process for each rank, with a row for each stream: what is computed, what is done for messages,
how long these are under way, reductions, files. The times are those of `spans`; the clocks of all
ranks are set by a barrier at the end, so that rows of different machines agree to about the time
that a message takes.

The file has the Trace Event Format, as one JSON object: "traceEvents" holds complete events
(ph "X", ts and dur in microseconds) and the names of processes and threads (ph "M").
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from distarray import spans
from distarray.arguments import path_of
from distarray.comm import default
from distarray.comm.failure import is_failing
from distarray.errors import FileError
from distarray.progress import tell_once

#: Rows of a rank, from the top, and the events in each.
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("compute", ("core", "remainder", "block", "fill", "graph", "tile", "expression")),
    ("communication", ("pack", "send", "wait", "unpack")),
    ("messages under way", ("exchange",)),
    ("reductions", ("reduce",)),
    ("files", ("write", "read")),
    ("other", ()),
)
_ROW_OF = {name: number for number, (_, names) in enumerate(ROWS) for name in names}
_OTHER = len(ROWS) - 1


class Timeline:
    """Records what ranks do and writes it to one file. Creation is Local.

    Parameters
    ----------
    path : path
        The file, replaced as a whole at the end.
    comm : mpi4py communicator or Communicator, optional
        Whose ranks are shown; by default those of the world if there is one.
    """

    def __init__(self, path: str | os.PathLike[str], comm: Any = None) -> None:
        self._path, self._comm = Path(path_of(path, "timeline")), comm
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        self._stack = ExitStack()

    def __enter__(self) -> Timeline:
        """Begin to record. Collective.

        Raises
        ------
        FileError
            The file cannot be written. The same on all ranks.
        """
        communicator = default(self._comm)
        error: Exception | None = None
        if communicator.rank == 0:
            try:
                self._partial.write_bytes(b"")
            except OSError as failure:
                error = _refusal(self._path, failure)
        communicator.agree(error)
        self.begin()
        return self

    def begin(self) -> None:
        """Begin to record. Local."""
        self._recording = self._stack.enter_context(spans.record())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the file, unless an error ends the block: the other ranks may not come here then.
        Collective.
        """
        if error is None:
            self.end()
            return
        self._stack.close()
        if default(self._comm).rank == 0:
            self._partial.unlink(missing_ok=True)

    def end(self) -> None:
        """Write the file. Collective.

        Raises
        ------
        FileError
            It cannot be written. The same on all ranks.
        """
        self._stack.close()
        self._communicator = communicator = default(self._comm)
        lines = _lines(self._recording, communicator.rank, self._zero()).encode()
        lengths = communicator.allgather(len(lines))
        failure: FileError | None = None
        if communicator.rank == 0:
            try:
                self._put_together(lines, lengths)
            except OSError as error:
                failure = _refusal(self._path, error)
        else:
            communicator.exchange([(0, np.frombuffer(lines, np.uint8))], [])
        communicator.agree(failure)

    def _zero(self) -> float:
        """The time of this rank's clock at which that of the timeline is zero. Collective."""
        self._communicator.barrier()
        now = time.perf_counter()
        elapsed = np.array([now - self._recording.began])
        return now - float(self._communicator.allreduce(elapsed, "max")[0])

    def _put_together(self, own: bytes, lengths: Sequence[int]) -> None:
        """Write what all ranks have, one after the other. On rank 0."""
        failure: OSError | None = None
        with ExitStack() as stack:
            file = _Pieces(stack, self._partial)
            file.add(b'{"displayTimeUnit": "ms", "traceEvents": [\n')
            file.add(own)
            for rank, length in enumerate(lengths[1:], start=1):
                piece = np.empty(length, np.uint8)
                self._communicator.exchange([], [(rank, piece)])
                file.add(b",\n" + piece.tobytes())
            file.add(b"\n]}\n")
            failure = file.failure
        if failure is not None:
            self._partial.unlink(missing_ok=True)
            raise failure
        self._partial.replace(self._path)


class _Pieces:
    """A file that takes pieces to the end, whatever happens to it: other ranks send theirs."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self.failure: OSError | None = None
        self._file: IO[bytes] | None = None
        try:
            self._file = stack.enter_context(path.open("wb", buffering=0))
        except OSError as error:
            self.failure = error

    def add(self, piece: bytes) -> None:
        """Write a piece, unless one before it could not be written."""
        if self._file is None or self.failure is not None:
            return
        try:
            rest = memoryview(piece)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.failure = error


def _lines(recording: spans.Recording, rank: int, zero: float) -> str:
    """The events of one rank, as they stand in the list of the file."""
    names = [
        {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}},
        {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}},
        *(
            {"ph": "M", "name": "thread_name", "pid": rank, "tid": row, "args": {"name": name}}
            for row, (name, _) in enumerate(ROWS)
        ),
    ]
    events = [_event(event, zero, rank) for event in recording.events]
    return ",\n".join(map(json.dumps, [*names, *events]))


def _event(event: spans.Event, zero: float, rank: int) -> dict[str, Any]:
    work = event.tally
    moved = {"cells": work.cells, "bytes": work.nbytes, "messages": work.messages}
    return {
        "ph": "X",
        "name": work.title,
        "cat": event.name,
        "pid": rank,
        "tid": _ROW_OF.get(event.name, _OTHER),
        "ts": round((event.start - zero) * 1e6, 3),
        "dur": round((event.end - event.start) * 1e6, 3),
        "args": {name: number for name, number in moved.items() if number},
    }


def _refusal(path: Path, error: OSError) -> FileError:
    return FileError(
        f"The timeline '{path}' cannot be written: {error.strerror or error}; choose a file in a "
        "folder that takes files."
    )


def timeline(path: str | os.PathLike[str], comm: Any = None) -> Timeline:
    """Record what ranks do in the body of a `with` statement, and write it to one file that
    Perfetto shows. Local; to enter and to leave the body is Collective.

    The variable DISTARRAY_TIMELINE=FILE does the same for a whole program.

    Parameters
    ----------
    path : path
        The file (JSON), replaced as a whole at the end; none is written if an error ends the body.
    comm : mpi4py communicator or Communicator, optional
        Whose ranks are shown; by default those of the world if there is one.

    Raises
    ------
    FileError
        The file cannot be written. The same on all ranks.

    Examples
    --------
    >>> import distarray as da, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> u = da.Grid((8, 8), periodic=True).ones()
    >>> @da.stencil
    ... def mean(u, new):
    ...     new[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])
    >>> with da.timeline(folder / "trace.json"):
    ...     mean(u, u.copy())
    >>> (folder / "trace.json").stat().st_size > 0
    True
    """
    return Timeline(path, comm)


def begin_for_program(path: str) -> None:
    """Record the whole program, and write a file when it ends well. Local."""
    whole = Timeline(path)
    whole.begin()
    atexit.register(_end_of_program, whole)


def _end_of_program(whole: Timeline) -> None:
    """Write the timeline, unless the program fails: it ends without meeting."""
    if not is_failing() and not hasattr(sys, "last_value"):
        try:
            whole.end()
        except FileError as error:
            if default().rank == 0:
                tell_once(str(error))
