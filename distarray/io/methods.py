"""The methods by which the values of all ranks come into a file that is laid out.

    posix    each rank writes what it owns at its place: on a file system of this machine
    mpiio    as posix, by MPI-IO: on a file system of many machines; see `comm.mpi_files`
    h5py     by an h5py that was built for MPI
    root     ranks send, root writes: where several writers would lose bytes, see `by_root`

By posix and mpiio, ranks whose runs are short first bring their values together, see `teams`.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import FileError
from distarray.io import filesystem, hdf5, place
from distarray.io.agreement import Noted, agreed, told
from distarray.io.boxes import has_long_rows, in_order, write_box, write_strided
from distarray.io.by_root import write_by_root
from distarray.io.outgoing import Outgoing
from distarray.io.teams import divided
from distarray.regions import Box

Values = np.ndarray[Any, Any]

#: How values can come into a file.
METHODS = ("posix", "mpiio", "h5py", "root")


def check_method(method: str | None) -> None:
    """Refuse a method that there is not. Local.

    Raises
    ------
    FileError
        On this rank alone.
    """
    if method is not None and method not in METHODS:
        raise FileError(
            f"method must be one of {', '.join(METHODS)} or None, received {method!r}; "
            "None takes the fastest that is safe."
        )
    if method == "h5py" and not hdf5.is_parallel():
        raise FileError(
            "method='h5py' needs an h5py that was built for MPI, and the installed one is not; "
            "use method='mpiio', which writes the same bytes."
        )


def on_one_machine(communicator: Communicator) -> bool:
    """Whether all ranks run on machines of one name. Collective."""
    own = zlib.crc32(os.uname().nodename.encode())
    found = communicator.allreduce(np.array([own, -own], np.int64), "max")
    return int(found[0]) == -int(found[1])


def best_method(target: str, *, size: int, one_machine: bool) -> str:
    """The fastest method that is safe where the file lies. Local."""
    folder = os.path.dirname(target)
    if size == 1 or not filesystem.takes_many_writers(folder):
        return "root"
    if hdf5.is_parallel():
        return "h5py"
    if filesystem.is_local(folder):
        return "posix" if one_machine else "root"
    return "mpiio"


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
        write_by_root(job)


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
