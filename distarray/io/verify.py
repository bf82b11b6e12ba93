"""Whether a file still holds what was written: its digest and the checksums of its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.errors import FileError
from distarray.io import hdf5, place
from distarray.io.agreement import told
from distarray.io.checksums import (
    Buffer,
    Checksums,
    differences,
    is_sealed,
    read_table,
    tile_text,
)
from distarray.io.record import ArrayRecord, FileRecord
from distarray.io.tiles import chunks, joined, runs, shares, tile_counts
from distarray.regions import Box

Values = np.ndarray[Any, Any]

#: Bytes that are read or written at once; with its copies a small part of what a rank may hold.
CHUNK = 16 << 20
#: Bytes of a row from which it is given to the system as it lies in memory.
LONG_ROW = 1 << 10
#: Runs of bytes whose places are Python numbers at once: a list of all could be as large as these.
_RUNS = 4096


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    path : str
    record : FileRecord or None
        What the file says about itself; None where that cannot be read.
    tiles : int
        Number of tiles that were compared with their checksums.
    problems : tuple of str
        One sentence for each; none in a file that is whole.
    """

    path: str
    record: FileRecord | None
    tiles: int
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.problems


def verify(path: str) -> Verification:
    """Read a whole file and compare it with its digest and checksums. Local.

    Files of version 1 have neither; of them only the metadata are looked at.
    """
    for _ in range(2):
        before = place.identity(path)
        found = _verify(path)
        if place.identity(path) == before:
            return found
    return Verification(path, None, 0, (str(hdf5.replaced(path)),))


def _verify(path: str) -> Verification:
    """As `verify`, of a file that is not replaced meanwhile."""
    try:
        record = sound_record(path)
    except FileError as error:
        return Verification(path, None, 0, (str(error),))
    tiles = 0
    problems: list[str] = []
    for array in record.arrays if record.digest else ():
        stored = stored_table(path, array)
        tiles += stored.size
        problems += [
            str(hdf5.damaged(path, tile_text(array, index, found[index], stored[index])))
            for found, index in _damaged_tiles(path, array, stored, all_chunks(array))
        ]
    return Verification(path, record, tiles, tuple(problems))


def sound_record(path: str) -> FileRecord:
    """What a file says about itself, compared with its digest. Local.

    Raises
    ------
    FileError
        The file is missing, no file of this library, of a newer version or damaged.
    """
    record = hdf5.read_record(path)  # first what is wrong by its meaning: it says more
    if record.digest:
        require_seal(path, record)
    return record


@dataclass(frozen=True)
class Metadata:
    """What one file says outside its values.

    Attributes
    ----------
    record : FileRecord
    tables : dict of str to array
        The checksums of the tiles of each array; empty for files of version 1.
    identity : tuple of int
        Of the file, see `place.identity`.
    """

    record: FileRecord
    tables: dict[str, Values]
    identity: tuple[int, ...] | None


def sound_metadata(path: str) -> Metadata:
    """What a file says, compared with its digest, all of one and the same file. Local.

    Raises
    ------
    FileError
        As `sound_record`; or the file was replaced meanwhile, twice.
    """
    for _ in range(2):
        before = place.identity(path)
        try:
            record = sound_record(path)
            arrays = record.arrays if record.digest else ()
            tables = {array.name: stored_table(path, array) for array in arrays}
        except FileError:
            if place.identity(path) == before:
                raise
            continue
        if place.identity(path) == before:
            return Metadata(record, tables, before)
    raise hdf5.replaced(path)


def require_seal(path: str, record: FileRecord) -> None:
    """Raise FileError unless the bytes outside the values agree with the digest. Local."""
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        sealed = is_sealed(descriptor, record)
    if not sealed:
        raise hdf5.damaged(
            path,
            "its metadata differ from their digest, since bytes were lost or another program wrote "
            "into it",
        )


def stored_table(path: str, array: ArrayRecord) -> Values:
    """The checksums that a file holds for an array. Local."""
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        return read_table(descriptor, array)


def all_chunks(array: ArrayRecord) -> Iterator[Box]:
    """The whole array in parts that are read at once."""
    return _chunks(array, Box.of_shape(array.shape))


def _chunks(array: ArrayRecord, box: Box) -> Iterator[Box]:
    return chunks(box, array.tile, largest_piece(np.dtype(array.dtype)))


def largest_piece(dtype: np.dtype[Any]) -> int:
    """Elements that are read or written at once, unless one tile has more."""
    return CHUNK // dtype.itemsize


def check_share(
    path: str, record: FileRecord, tables: Sequence[Values], rank: int, size: int
) -> None:
    """Read one rank's share of all values back and compare it with the tables. Local.

    Most of it was written by another rank, where a rank's share is near what it owns.

    Raises
    ------
    FileError
        A tile differs; the first is named.
    """
    for k, (array, table) in enumerate(zip(record.arrays, tables, strict=True)):
        share = shares(tile_counts(array.shape, array.tile), (rank + 1 + k) % size, size)
        boxes = (
            chunk
            for tiles in share
            for chunk in _chunks(array, joined(tiles, array.shape, array.tile))
        )
        for found, index in _damaged_tiles(path, array, table, boxes):
            raise hdf5.damaged(path, tile_text(array, index, found[index], table[index]))


def _damaged_tiles(
    path: str, array: ArrayRecord, table: Values, boxes: Iterable[Box]
) -> Iterator[tuple[Values, tuple[int, ...]]]:
    """The tiles of some chunks that differ from the table, with the table that was found."""
    buffer, sums, read = Buffer(), Checksums(array, Buffer()), np.zeros(table.shape, np.bool_)
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        for box in boxes:
            values = buffer.array(box.shape, np.dtype(array.dtype))
            read_box(descriptor, array, box, values)
            sums.add(box, values)
            bounds = zip(box.start, box.stop, array.tile, strict=True)
            read[tuple(slice(a // edge, -(-b // edge)) for a, b, edge in bounds)] = True
    found = sums.finished(sums.table)
    return ((found, index) for index in differences(np.where(read, found, table), table))


def read_box(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """Fill a contiguous array with the values of a box as they lie in the file. Local."""
    for octets, offset in _byte_runs(array, box, values):
        place.read_at(descriptor, offset, octets)


def write_box(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """Write a contiguous array where the values of a box lie in the file, and let the disk begin
    with it. Local; any thread.
    """
    for octets, offset in _byte_runs(array, box, values):
        place.write_at(descriptor, offset, octets)
    place.begin_sync(descriptor, *extent(array, box))


def write_strided(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """As `write_box`, of values whose rows alone lie together in memory, without a copy. Local; any
    thread.
    """
    for rows, offset in _row_runs(array, box, values):
        place.write_rows(descriptor, offset, rows)
    place.begin_sync(descriptor, *extent(array, box))


def read_strided(descriptor: int, array: ArrayRecord, box: Box, values: Values) -> None:
    """As `read_box`, into memory whose rows alone lie together. Local."""
    for rows, offset in _row_runs(array, box, values):
        place.read_rows(descriptor, offset, rows)


def _row_runs(array: ArrayRecord, box: Box, values: Values) -> Iterator[tuple[list[Values], int]]:
    """The rows of a box in memory, run by run, with the place of each run in the file."""
    if box.empty:
        return
    rows = [values]
    for _ in range(values.ndim - 1):
        rows = [part for whole in rows for part in whole]
    firsts, count = runs(array.shape, box)
    each = count // box.shape[-1]
    for k, first in enumerate(firsts.tolist()):
        yield rows[k * each : (k + 1) * each], array.offset + first * values.itemsize


def has_long_rows(values: Values) -> bool:
    """Whether `write_strided` is worth while for these values."""
    row = values.shape[-1] * values.itemsize
    return row >= LONG_ROW and values.strides[-1] == values.itemsize


def extent(array: ArrayRecord, box: Box) -> tuple[int, int]:
    """The first byte of a box in the file, and the number of bytes to its last one. Local."""
    if box.empty:
        return array.offset, 0
    itemsize = np.dtype(array.dtype).itemsize
    first = sum(a * n for a, n in zip(box.start, _pitches(array), strict=True))
    last = sum((b - 1) * n for b, n in zip(box.stop, _pitches(array), strict=True))
    return array.offset + first * itemsize, (last - first + 1) * itemsize


def _pitches(array: ArrayRecord) -> tuple[int, ...]:
    """Elements from one index to the next along each axis."""
    return tuple(math.prod(array.shape[axis + 1 :]) for axis in range(len(array.shape)))


def _byte_runs(array: ArrayRecord, box: Box, values: Values) -> Iterator[tuple[Any, int]]:
    """The bytes of a box, run by run, with the place of each in the file."""
    firsts, count = runs(array.shape, box)
    itemsize = values.itemsize
    octets = values.reshape(-1).view(np.uint8).data
    length = count * itemsize
    for first in range(0, len(firsts), _RUNS):
        offsets = (array.offset + firsts[first : first + _RUNS] * itemsize).tolist()
        for k, offset in enumerate(offsets, first):
            yield octets[k * length : (k + 1) * length], offset
