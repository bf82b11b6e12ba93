"""CRC-32 of the values of a box, as `zlib.crc32` gives it for their bytes in C order. No MPI.

The package isal (extra `files`) computes it several times faster than zlib; the numbers are equal.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np

try:
    from isal.isal_zlib import crc32
except ImportError:
    crc32 = zlib.crc32

#: Most bytes of a strided box that are brought together at a time: they stay in a core's cache.
_PIECE = 256 << 10
_ZEROS = 1 << 20


def of_values(values: np.ndarray[Any, Any]) -> int:
    """The checksum, without a copy of the whole. Local; on any thread."""
    if values.flags.c_contiguous:
        return crc32(values.reshape(-1).view(np.uint8))
    checksum = 0
    pieces = np.nditer(  # type: ignore[call-overload] # NumPy's types spell contig "config"
        values,
        ["external_loop", "buffered", "zerosize_ok"],
        ["readonly", "contig"],
        order="C",
        buffersize=max(1, _PIECE // values.itemsize),
    )
    for piece in pieces:
        checksum = crc32(piece.view(np.uint8), checksum)
    return checksum


@functools.lru_cache(maxsize=256)
def of_zeros(count: int) -> int:
    """The checksum of this many zero bytes. Local."""
    checksum, block = 0, bytes(min(count, _ZEROS))
    for done in range(0, count, _ZEROS):
        checksum = crc32(block[: count - done], checksum)
    return checksum
