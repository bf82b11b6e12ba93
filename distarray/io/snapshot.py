"""save and load: one HDF5 file, laid out by root, written and read by all ranks at byte offsets.

The executed order of a save: every rank checks its arguments; root lays out NAME.partial with the
serial h5py and closes it; every rank writes its blocks there through the communicator, which also
flushes them to disk; when all agree that they have, root renames the file. Until then a file of
that name that was there before stays as it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import (
    BackendError,
    CommunicationError,
    DistArrayError,
    FileError,
    shown,
)
from distarray.grid import Grid
from distarray.io import conditions, hdf5, place, plain
from distarray.io.describe import describe, grid_of, grid_record, path_of
from distarray.io.record import ArrayRecord, FileRecord, batches
from distarray.regions import Box

#: Bytes per rank that are copied and handed to the file system at once.
BATCH = 64 << 20


class Arrays(dict[str, DistArray]):
    """The arrays of a file by name; one that is not there is an error that names those that are."""

    def __init__(self, path: str, arrays: Mapping[str, DistArray]) -> None:
        super().__init__(arrays)
        self._path = path

    def __missing__(self, name: str) -> DistArray:
        raise _missing(self._path, name, self)


@dataclass(frozen=True)
class Snapshot:
    """What `load` returns.

    Attributes
    ----------
    arrays : dict of str to DistArray
    step : int or None
    time : float or None
    attrs : dict
    """

    arrays: dict[str, DistArray]
    step: int | None
    time: float | None
    attrs: dict[str, Any]


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, DistArray],
    *,
    step: int | None = None,
    time: float | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays of one grid into one HDF5 file. Collective.

    The file appears under its name only when it is whole; its bytes do not depend on the number of
    ranks.

    Parameters
    ----------
    path : path of the file, the same on all ranks
    arrays : dict of str to DistArray
        The names become the names of the datasets.
    step, time : int and float, optional
    attrs : dict, optional
        Numbers, strings, None, small arrays, lists and dicts of these.

    Raises
    ------
    FileError
        A name, value or array cannot be stored, or the file cannot be written. The same on all
        ranks.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((8, 8))
    >>> da.save("start.h5", {"u": grid.zeros()}, step=0, time=0.0)
    """
    grid = grid_of(arrays)
    communicator = grid.communicator
    target = ""
    with agreed(communicator, "The file cannot be saved"):
        target = path_of(path, "save")
        record = describe(grid, arrays, step, time, attrs)
    with agreed(communicator, f"The file '{target}' cannot be replaced"):
        if communicator.rank == 0:
            target = place.resolve(target)
    target = communicator.bcast(target)
    partial = f"{target}.partial"
    try:
        _write(partial, record, arrays, communicator)
        with agreed(communicator, f"The file '{target}' cannot be put in place"):
            if communicator.rank == 0:
                os.replace(partial, target)
                place.flush(os.path.dirname(target) or ".")
    except BaseException:
        if communicator.rank == 0:
            place.discard(partial)
        raise


def load(
    path: str | os.PathLike[str], grid: Grid, *, names: Sequence[str] | None = None
) -> Snapshot:
    """Read a file written by `save` onto a grid of any number of ranks. Collective.

    Parameters
    ----------
    path : path of the file, the same on all ranks
    grid : Grid
        With the shape, bounds, axes and periodicity of the saved one.
    names : sequence of str, optional
        The arrays to read; all by default.

    Returns
    -------
    Snapshot
        Arrays with the saved location, dtype, components and boundary. A boundary that was a
        function is an error at the first read until it is set again.

    Raises
    ------
    FileError
        The file is missing, damaged, of a newer version or does not fit the grid. The same on all
        ranks.
    """
    if not isinstance(grid, Grid):
        raise FileError(
            f"load takes a Grid as its second argument, received {shown(grid)}; pass one."
        )
    communicator = grid.communicator
    record: FileRecord | None = None
    source = ""
    with agreed(communicator, "The file cannot be read"):
        source = path_of(path, "load")
        if names is not None and not isinstance(names, Sequence):
            raise FileError(
                f"load takes a list of array names, received names={shown(names)}; pass one."
            )
    with agreed(communicator, f"The file '{source}' cannot be read"):
        if communicator.rank == 0:
            record = hdf5.read_record(source)
    record = communicator.bcast(record)
    with agreed(communicator, f"The file '{source}' cannot be read"):
        _require_fit(source, record, grid)
        chosen = _choose(source, record, names)
        attrs = _attributes(source, record)
    arrays = {array.name: _create(source, grid, array) for array in chosen}
    _read(source, chosen, arrays, communicator)
    return Snapshot(Arrays(source, arrays), record.step, record.time, attrs)


@contextlib.contextmanager
def agreed(communicator: Communicator, subject: str) -> Iterator[None]:
    """Run the body and raise its error, if any rank has one, on all ranks. Collective.

    The body itself must not communicate: a rank that has failed in it would be waited for.
    """
    problem: DistArrayError | None = None
    try:
        yield
    except DistArrayError as error:
        problem = error
    except OSError as error:
        problem = FileError(f"{subject}: {error.strerror or error}.")
    except Exception as error:  # whatever it is, the other ranks wait in `agree`
        problem = FileError(f"{subject}: {type(error).__name__}, {_clause(error)}.")
        problem.__cause__ = error
    communicator.agree(problem)


def _clause(error: Exception) -> str:
    """What an error says, on one line and without its full stop, to be part of a sentence."""
    try:
        return " ".join(str(error).split()).rstrip(".")
    except Exception:  # an error of a user's class that cannot be written must not stop a rank
        return "without a text"


# Writing.


def _write(
    partial: str, record: FileRecord, arrays: Mapping[str, DistArray], communicator: Communicator
) -> None:
    """Lay the file out on root, write all blocks, flush. Collective."""
    offsets: tuple[int, ...] = ()
    with agreed(communicator, f"The file '{partial}' cannot be created"):
        if communicator.rank == 0:
            offsets = hdf5.lay_out(partial, record)
    layout = tuple((array.name, array.dtype, array.shape) for array in record.arrays)
    root_layout, offsets = communicator.bcast((layout, offsets))
    with agreed(communicator, f"The file '{partial}' cannot be written"):
        if layout != root_layout:
            raise FileError(
                f"Ranks save different arrays: one has {layout}, root has {root_layout}; "
                "pass the same on all."
            )
    values = list(arrays.values())
    for batch in batches([array.nbytes // communicator.size for array in record.arrays], BATCH):
        pieces: list[BlockPiece] = []
        with agreed(communicator, f"The file '{partial}' cannot be written"):
            for k in batch:
                array = record.arrays[k].at(offsets[k])
                pieces.append(_piece(array, values[k], _host(values[k])))
        communicator.write_blocks(partial, pieces)
    with agreed(communicator, f"The file '{partial}' cannot be flushed to disk"):
        place.flush(partial)


def _piece(record: ArrayRecord, array: DistArray, values: np.ndarray[Any, Any]) -> BlockPiece:
    """This rank's part of an array in the file, with the memory it is written from or read into."""
    owned, components = array.block.owned, record.components
    box = Box((0,) * len(components) + owned.start, components + owned.stop)
    return BlockPiece(record.offset, record.shape, box, values)


def _host(array: DistArray) -> np.ndarray[Any, Any]:
    """The owned values as a contiguous host array."""
    return np.ascontiguousarray(array.block.backend.to_host(array.local))


# Reading.


def _missing(path: str, name: str, present: Mapping[str, Any]) -> FileError:
    return FileError(
        f"The file '{path}' has no array '{name}'; it holds {', '.join(present) or 'none'}."
    )


def _require_fit(path: str, record: FileRecord, grid: Grid) -> None:
    if difference := record.grid.mismatch(grid_record(grid)):
        raise FileError(
            f"The file '{path}' has {difference}; "
            "load it onto a grid like the one it was saved from."
        )


def _choose(path: str, record: FileRecord, names: Sequence[str] | None) -> tuple[ArrayRecord, ...]:
    if names is None:
        return record.arrays
    present = {array.name: array for array in record.arrays}
    for name in (names,) if isinstance(names, str) else names:
        if name not in present:
            raise _missing(path, name, present)
    return tuple(
        present[name] for name in dict.fromkeys((names,) if isinstance(names, str) else names)
    )


def _attributes(path: str, record: FileRecord) -> dict[str, Any]:
    try:
        attrs = plain.loads(record.attrs)
        if not isinstance(attrs, dict):
            raise ValueError("no object")
        return attrs
    except (ValueError, TypeError) as error:
        raise hdf5.damaged(path, f"its attributes are no JSON ({error})") from error


def _create(path: str, grid: Grid, record: ArrayRecord) -> DistArray:
    """An array on the grid as the saved one was; the halo is at least the grid's."""
    try:
        saved = conditions.parse(path, record.name, record.boundary)
    except (FileError, ValueError, TypeError) as error:
        raise hdf5.damaged(
            path, f"the boundary of '{record.name}' is not readable ({_clause(error)})"
        ) from error
    try:
        return grid.empty(
            np.dtype(record.dtype),
            components=record.components,
            location=record.location,
            boundary=saved,
            halo=tuple(map(max, record.halo, grid.halo)),
            name=record.name,
        )
    except (BackendError, CommunicationError):
        raise
    except (DistArrayError, ValueError, TypeError) as error:
        raise FileError(
            f"The array '{record.name}' of the file '{path}' cannot be made on this grid "
            f"({_clause(error)}); use other ranks if its halo is wider than a block, else an older "
            "file."
        ) from error


def _read(
    path: str,
    records: Sequence[ArrayRecord],
    arrays: Mapping[str, DistArray],
    communicator: Communicator,
) -> None:
    for batch in batches([record.nbytes // communicator.size for record in records], BATCH):
        chosen = [(records[k], arrays[records[k].name]) for k in batch]
        buffers = [np.empty(array.local_shape, array.dtype) for _, array in chosen]
        pieces = [_piece(*pair, buffer) for pair, buffer in zip(chosen, buffers, strict=True)]
        communicator.read_blocks(path, pieces)
        for (_, array), buffer in zip(chosen, buffers, strict=True):
            with array.writing() as block:
                block[...] = buffer
