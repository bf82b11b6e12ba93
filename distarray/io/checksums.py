"""Checksums of tiles that many ranks compute together, and the digest of everything else. No MPI.

CRC-32 is affine over XOR: for parts of a tile that are zero outside their own elements,

    crc(whole) = crc(zeros) ^ XOR over parts of (crc(part) ^ crc(zeros)),

so that every rank works on what it owns, and the tables of all ranks combined by XOR do not depend
on how the tile was cut. The digest is BLAKE2b over all bytes of a file that are neither values of
arrays nor the digest itself; it covers the tables.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from distarray.io import crc, place
from distarray.io.record import ArrayRecord, FileRecord
from distarray.io.tiles import Index, equal_tiles, tile_box, tile_counts, tiles_over
from distarray.regions import Box

Values = np.ndarray[Any, Any]

#: Bytes of the digest of a file.
DIGEST_SIZE = 32
_READ = 1 << 20


class Buffer:
    """Memory that is used again for one chunk after the other."""

    def __init__(self) -> None:
        self._octets = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
        """A contiguous array; what was handed out before is overwritten."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self._octets.size < count:
            self._octets = np.empty(count, np.uint8)
        return self._octets[:count].view(dtype).reshape(shape)


class Checksums:
    """The table of an array as far as one rank knows it.

    Parameters
    ----------
    array : ArrayRecord
    scratch : Buffer
        Memory for one tile, which the tables of all arrays of a file share.

    Attributes
    ----------
    table : uint32 array, one element per tile; to be combined with those of other ranks by XOR
    """

    def __init__(self, array: ArrayRecord, scratch: Buffer) -> None:
        self._shape = array.shape
        self._tile = array.tile
        self._itemsize = np.dtype(array.dtype).itemsize
        self._scratch = scratch
        self.table = np.zeros(tile_counts(array.shape, array.tile), np.uint32)

    def add(self, box: Box, values: Values) -> None:
        """Take in the values of a box of the array; every element once. Local."""
        for index in tiles_over(box, self._tile):
            whole = tile_box(index, self._shape, self._tile)
            part = whole.intersection(box)
            tile = self._tile_of(whole, part, values[part.slices(box.start)])
            self.table[index] ^= np.uint32(crc.of_values(tile) ^ crc.of_zeros(tile.nbytes))

    def _tile_of(self, whole: Box, part: Box, inside: Values) -> Values:
        """A tile that is zero but for the values of a part of it."""
        if part == whole:
            return inside
        tile = self._scratch.array(whole.shape, inside.dtype)
        tile.reshape(-1).view(np.uint8)[...] = 0
        tile[part.slices(whole.start)] = inside
        return tile

    def finished(self, combined: Values) -> Values:
        """The checksums of whole tiles, from the combined tables of all ranks. Local."""
        found = combined.astype(np.uint32)
        for tiles, cells in equal_tiles(self._shape, self._tile):
            found[tiles.slices()] ^= np.uint32(crc.of_zeros(cells * self._itemsize))
        return found


def combined(tables: Sequence[Values]) -> Values:
    """Tables one after the other in one array, to be sent together. Local."""
    return np.concatenate([np.zeros(0, np.uint32), *(table.reshape(-1) for table in tables)])


def divided(flat: Values, like: Sequence[Values]) -> list[Values]:
    """The tables of which `combined` made one array. Local."""
    stops = np.cumsum([table.size for table in like], dtype=np.int64)
    return [
        flat[stop - table.size : stop].reshape(table.shape)
        for stop, table in zip(stops, like, strict=True)
    ]


def differences(found: Values, stored: Values) -> Iterator[Index]:
    """Indices of the tiles whose checksums differ, in C order."""
    return (tuple(map(int, index)) for index in np.argwhere(found != stored))


def tile_text(array: ArrayRecord, index: Index, found: int, stored: int) -> str:
    """What is wrong with a tile; part of a sentence."""
    box = tile_box(index, array.shape, array.tile)
    place_ = ", ".join(f"{a}:{b}" for a, b in zip(box.start, box.stop, strict=True))
    return (
        f"tile {index} of the array '{array.name}', elements [{place_}], has checksum "
        f"{int(found):08x} where {int(stored):08x} was written"
    )


# In the file.


def write_tables(descriptor: int, record: FileRecord, tables: Sequence[Values]) -> None:
    """Write the tables of all arrays where the file keeps them. Local."""
    for array, table in zip(record.arrays, tables, strict=True):
        if table.size:
            place.write_at(descriptor, array.checksums, np.ascontiguousarray(table, "<u4"))


def read_table(descriptor: int, array: ArrayRecord) -> Values:
    """The table of an array as the file keeps it. Local."""
    table = np.zeros(tile_counts(array.shape, array.tile), "<u4")
    if table.size:
        place.read_at(descriptor, array.checksums, table)
    return table


def seal(descriptor: int, record: FileRecord) -> None:
    """Write the digest; nothing outside the values may change afterwards. Local."""
    place.write_at(descriptor, record.digest, digest(descriptor, record))


def is_sealed(descriptor: int, record: FileRecord) -> bool:
    """Whether the bytes outside the values are those that were sealed. Local."""
    stored = bytearray(DIGEST_SIZE)
    place.read_at(descriptor, record.digest, stored)
    return bytes(stored) == digest(descriptor, record)


def digest(descriptor: int, record: FileRecord) -> bytes:
    """The digest of the bytes outside the values and outside the digest. Local."""
    state = hashlib.blake2b(digest_size=DIGEST_SIZE)
    size = os.fstat(descriptor).st_size
    state.update(size.to_bytes(8, "little"))
    for start, stop in _gaps(record, size):
        for first in range(start, stop, _READ):
            octets = bytearray(min(_READ, stop - first))
            place.read_at(descriptor, first, octets)
            state.update(octets)
    return state.digest()


def _gaps(record: FileRecord, size: int) -> Iterator[tuple[int, int]]:
    """The bytes of a file that belong to no array's values and not to the digest, as runs."""
    taken = [(array.offset, array.offset + array.nbytes) for array in record.arrays if array.nbytes]
    taken.append((record.digest, record.digest + DIGEST_SIZE))
    reached = 0
    for start, stop in sorted(taken):
        if reached < start:
            yield reached, start
        reached = max(reached, stop)
    if reached < size:
        yield reached, size
