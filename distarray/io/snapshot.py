"""save and load: one HDF5 file, laid out by root, written and read by all ranks at byte offsets.

How a file is written is told in `write`. Until it is whole, a file of that name that was there
before stays as it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distarray import spans
from distarray.arguments import check_dtype, path_of
from distarray.array import DistArray
from distarray.comm.base import Communicator
from distarray.errors import (
    BackendError,
    CommunicationError,
    DistArrayError,
    FileError,
    UnsupportedError,
    clause,
    shown,
)
from distarray.grid import Grid
from distarray.io import attributes, checksums, conditions, header, place
from distarray.io.agreement import agreed, require_same
from distarray.io.checksums import Buffer, Checksums
from distarray.io.describe import grid_record
from distarray.io.read import read_values
from distarray.io.record import ArrayRecord, FileRecord
from distarray.io.verify import Metadata, sound_metadata
from distarray.io.write import begin_save


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
    method: str | None = None,
) -> None:
    """Write arrays of one grid into one HDF5 file. Collective.

    The file appears under its name only when it is whole, read back and on the disk; its bytes do
    not depend on the number of ranks. Besides the arrays, a rank needs less than 64 MiB for it.
    ParaView opens it, or, for arrays on faces and edges and on stretched grids, the small file
    NAME.xdmf that is put beside it.

    Parameters
    ----------
    path : path of the file, the same on all ranks
    arrays : dict of str to DistArray
        The names become the names of the datasets.
    step, time : int and float, optional
    attrs : dict, optional
        Numbers, strings, None, small arrays, lists and dicts of these.
    method : {"posix", "mpiio", "h5py", "root"}, optional
        How values come into the file, which has the same bytes each way: each rank writes for
        itself, by calls of the system or of MPI-IO (collective ones where the library has ROMIO, as
        MPICH has), or by an h5py that was built for MPI; or root writes what the others send. By
        default root where the file system does not keep what several processes write side by side
        (NFS and others), else the installed h5py's own way if it has one, else posix on a file
        system of this machine and MPI-IO on one of many.

    Raises
    ------
    FileError
        A name, value or array cannot be stored, or the file cannot be written. The same on all
        ranks.
    CommunicationError
        Ranks give different paths, steps, times, attributes or methods.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((8, 8))
    >>> da.save("start.h5", {"u": grid.zeros()}, step=0, time=0.0)
    """
    with spans.span("write", "save"):
        plan = begin_save(
            path, arrays, step=step, time=time, attrs=attrs, method=method, with_xdmf=True
        )
        plan.lay_out()
        try:
            plan.write(arrays.values())
            plan.finish()
        except BaseException:
            plan.abandon()
            raise


def load(
    path: str | os.PathLike[str],
    grid: Grid,
    *,
    names: Sequence[str] | None = None,
    dtype: Any = None,
) -> Snapshot:
    """Read a file written by `save` onto a grid of any number of ranks. Collective.

    Parameters
    ----------
    path : path of the file, the same on all ranks
    grid : Grid
        With the shape, bounds, axes and periodicity of the saved one.
    names : sequence of str, optional
        The arrays to read; all by default.
    dtype : dtype or dict of str to dtype, optional
        Other element types: one of real numbers for all arrays of real and complex numbers (which
        take the complex type of that precision), or one for each array that is named. Without it
        arrays have the element types that were saved.

    Returns
    -------
    Snapshot
        Arrays with the saved location, dtype, components and boundary. A boundary that was a
        function is an error at the first read until it is set again.

    Raises
    ------
    FileError
        The file is missing, damaged (its digest or the checksum of a tile that is read differs), of
        a newer version or does not fit the grid. The same on all ranks.
    CommunicationError
        Ranks give different paths, names or element types.
    """
    if not isinstance(grid, Grid):
        raise FileError(
            f"load takes a Grid as its second argument, received {shown(grid)}; pass one."
        )
    communicator = grid.communicator
    source, types, wanted = "", "", None
    with agreed(communicator, "The file cannot be read"):
        source = path_of(path, "load")
        if names is not None and not isinstance(names, Sequence):
            raise FileError(
                f"load takes a list of array names, received names={shown(names)}; pass one."
            )
        wanted = None if names is None else [_plain(name) for name in names]
        types = _types_text(dtype)
    require_same(communicator, "the file to be loaded", path=source, names=wanted, dtype=types)
    with spans.span("read", "load"):
        for _ in range(2):
            snapshot = _load(source, grid, names, dtype)
            if snapshot is not None:
                return snapshot
    raise header.replaced(source)


def _load(source: str, grid: Grid, names: Sequence[str] | None, dtype: Any) -> Snapshot | None:
    """What `load` returns; None if the file was replaced meanwhile. Collective."""
    communicator = grid.communicator
    metadata: Metadata | None = None
    record: FileRecord | None = None
    with agreed(communicator, f"The file '{source}' cannot be read"):
        if communicator.rank == 0:
            metadata = sound_metadata(source)
            record = metadata.record
    record = communicator.bcast(record)
    with agreed(communicator, f"The file '{source}' cannot be read"):
        _require_fit(source, record, grid)
        chosen = _choose(source, record, names)
        attrs = _attributes(source, record)
        dtypes = element_types(source, chosen, dtype)
    made = zip(chosen, dtypes, strict=True)
    arrays = {array.name: _create(source, grid, replace(array, dtype=to)) for array, to in made}
    scratch = Buffer()
    sums = [Checksums(array, scratch) for array in chosen]
    read_values(source, chosen, list(arrays.values()), sums)
    # The path was opened several times: by root, and by each rank for the values.
    if communicator.bcast(metadata is not None and place.identity(source) != metadata.identity):
        return None
    if record.digest:
        _compare(source, chosen, sums, metadata, communicator)
    return Snapshot(Arrays(source, arrays), record.step, record.time, attrs)


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
        attrs = attributes.loads(record.attrs)
        if not isinstance(attrs, dict):
            raise ValueError("no object")
        return attrs
    except (ValueError, TypeError) as error:
        raise header.damaged(path, f"its attributes are no JSON ({error})") from error


def element_types(path: str, chosen: Sequence[ArrayRecord], dtype: Any) -> tuple[str, ...]:
    """The element types that arrays of a file are read as. Local.

    Raises
    ------
    FileError
        No such type is known, or values would change their kind (complex to real, real to integer).
    """
    wanted = dict(dtype) if isinstance(dtype, Mapping) else {}
    for name in wanted:
        if name not in {array.name for array in chosen}:
            raise _missing(path, name, {array.name: array for array in chosen})
    common = None if dtype is None or isinstance(dtype, Mapping) else _dtype(dtype)
    if common is not None and common.kind != "f":
        raise FileError(
            f"load takes one real element type for all arrays, received dtype={common}; "
            "give a dict of names and element types for others."
        )
    found = []
    for array in chosen:
        old = new = np.dtype(array.dtype)
        if array.name in wanted:
            new = _dtype(wanted[array.name])
        elif common is not None and old.kind in "fc":
            new = common if old.kind == "f" else np.result_type(common, np.complex64)
        if not np.can_cast(old, new, "same_kind"):
            raise FileError(
                f"The array '{array.name}' of the file '{path}' is {old} and cannot be read as "
                f"{new}; load it as it is and convert it by astype."
            )
        found.append(new.str)
    return tuple(found)


def _types_text(dtype: Any) -> str:
    """Element types as plain text, that ranks compare; what is wrong is found later. Local."""
    if isinstance(dtype, Mapping):
        parts = sorted(f"{_plain(name)}: {_types_text(one)}" for name, one in dtype.items())
        return f"{{{', '.join(parts)}}}"
    try:
        return "None" if dtype is None else np.dtype(dtype).str
    except (TypeError, ValueError):
        return shown(dtype)


def _plain(name: Any) -> str:
    return name if isinstance(name, str) else shown(name)


def _dtype(value: Any) -> np.dtype[Any]:
    try:
        return check_dtype(attributes.numeric_dtype(np.dtype(value).str))
    except (UnsupportedError, TypeError, ValueError):
        raise FileError(
            "load takes an element type of bool, integers, float32, float64, complex64 or "
            f"complex128, received {shown(value)}; give one such as 'float32'."
        ) from None


def _create(path: str, grid: Grid, record: ArrayRecord) -> DistArray:
    """An array on the grid as the saved one was; the halo is at least the grid's."""
    try:
        saved = conditions.parse(path, record.name, record.boundary)
    except (FileError, ValueError, TypeError) as error:
        raise header.damaged(
            path, f"the boundary of '{record.name}' is not readable ({clause(error)})"
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
            f"({clause(error)}); use other ranks if its halo is wider than a block, else an older "
            "file."
        ) from error


def _compare(
    path: str,
    chosen: Sequence[ArrayRecord],
    sums: Sequence[Checksums],
    metadata: Metadata | None,
    communicator: Communicator,
) -> None:
    """Compare what all ranks read with the checksums, which root has. Collective."""
    own = [one.table for one in sums]
    flat = communicator.allreduce(checksums.combined(own), "xor")
    with agreed(communicator, f"The file '{path}' cannot be read"):
        if metadata is None:  # not on root
            return
        tables = checksums.divided(flat, own)
        for array, one, table in zip(chosen, sums, tables, strict=True):
            found, stored = one.finished(table), metadata.tables[array.name]
            for index in checksums.differences(found, stored):
                text = checksums.tile_text(array, index, found[index], stored[index])
                raise header.damaged(path, text)
