"""Whether a file still holds what was written: its digest and the checksums of its tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.errors import FileError
from distarray.io import header, place
from distarray.io.agreement import told
from distarray.io.boxes import largest_piece, read_box
from distarray.io.checksums import (
    Buffer,
    Checksums,
    differences,
    is_sealed,
    read_table,
    tile_text,
)
from distarray.io.record import ArrayRecord, FileRecord
from distarray.io.tiles import chunks, joined, shares, tile_counts
from distarray.regions import Box

Values = np.ndarray[Any, Any]


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
    return Verification(path, None, 0, (str(header.replaced(path)),))


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
            str(header.damaged(path, tile_text(array, index, found[index], stored[index])))
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
    record = header.read_record(path)  # first what is wrong by its meaning: it says more
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
    raise header.replaced(path)


def require_seal(path: str, record: FileRecord) -> None:
    """Raise FileError unless the bytes outside the values agree with the digest. Local."""
    with told(f"The file '{path}' cannot be read"), place.opened(path) as descriptor:
        sealed = is_sealed(descriptor, record)
    if not sealed:
        raise header.damaged(
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
            raise header.damaged(path, tile_text(array, index, found[index], table[index]))


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
