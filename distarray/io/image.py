"""Memory in which HDF5 lays out a file, so that no disk can fail it half-way.

HDF5 and h5py cannot take back what they have begun once a write fails: objects are closed with
errors that nobody can catch, and the process may crash at its exit. So they write into an `Image`,
which never fails, and what they wrote is then written to the file by `place`, whose errors are
plain. Nothing is kept for parts that are reserved and never written, however large.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from distarray.io import place

_PAGE = 4096
#: Bytes from which a write is of values, not of what HDF5 needs again: it goes past the memory.
_LARGE = 1 << 20


class Image:
    """A file of which only the pages that were written are in memory, as h5py's driver "fileobj"
    takes one; `store` brings them to the disk.

    Parameters
    ----------
    descriptor : int
        The empty file on the disk.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pages: dict[int, bytearray] = {}
        self._at = self._size = 0
        self._through = 0  # where the last of what went past the memory ends
        self._problem: OSError | None = None

    def store(self) -> None:
        """Give the file its size, and write the pages to the disk. Local.

        Raises
        ------
        OSError
            Also one from before that was kept from HDF5.
        """
        if self._problem is not None:
            raise self._problem
        os.ftruncate(self._descriptor, self._size)
        run, first = bytearray(), 0
        for number in sorted(self._pages):
            if number * _PAGE != first + len(run):
                place.write_at(self._descriptor, first, run)
                run, first = bytearray(), number * _PAGE
            run += self._pages[number]
        place.write_at(self._descriptor, first, run[: self._size - first])

    # What h5py calls.

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (self._size if whence == os.SEEK_END else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int) -> int:
        self._size = size
        return size

    def flush(self) -> None:
        """Nothing: the end is `store`."""

    def read(self, count: int) -> bytes:
        octets = bytearray(count)
        self.readinto(octets)
        return bytes(octets)

    def readinto(self, buffer: Any) -> int:
        target, filled = memoryview(buffer).cast("B"), 0
        for number, inside in _pages_of(self._at, len(target)):
            part = self._page(number)[inside]
            target[filled : filled + len(part)] = part
            filled += len(part)
        self._at += filled
        return filled

    def write(self, octets: Any) -> int:
        given = memoryview(octets).cast("B")
        first, end = self._at, self._at + len(given)
        low, high = -(-first // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if len(given) < _LARGE:
            self._keep(first, given)
        else:
            self._keep(first, given[: low - first])
            self._write_through(low, given[low - first : high - first])
            self._keep(high, given[high - first :])
        self._at, self._size = end, max(self._size, end)
        return len(given)

    def _keep(self, offset: int, octets: memoryview) -> None:
        taken = 0
        for number, inside in _pages_of(offset, len(octets)):
            size = inside.stop - inside.start
            page = self._pages[number] = self._page(number)
            page[inside] = octets[taken : taken + size]
            taken += size

    def _write_through(self, offset: int, octets: memoryview) -> None:
        """Write whole pages to the disk; after an error, which `store` raises, no more."""
        for number, _ in _pages_of(offset, len(octets)):
            self._pages.pop(number, None)
        self._through = max(self._through, offset + len(octets))
        if self._problem is None:
            with self._kept():
                place.write_at(self._descriptor, offset, octets)

    def _page(self, number: int) -> bytearray:
        """A page as it is in memory or, where it went past that, on the disk."""
        page = self._pages.get(number)
        if page is None:
            page = bytearray(_PAGE)
            if number * _PAGE < self._through:
                with self._kept():
                    found = os.pread(self._descriptor, _PAGE, number * _PAGE)
                    page[: len(found)] = found
        return page

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep an error from HDF5, for `store`."""
        try:
            yield
        except OSError as error:
            self._problem = self._problem or error


def _pages_of(offset: int, count: int) -> Iterator[tuple[int, slice]]:
    """The pages that hold some bytes, and which of each page's bytes these are."""
    end = offset + count
    while offset < end:
        number, first = divmod(offset, _PAGE)
        stop = min(_PAGE, first + end - offset)
        yield number, slice(first, stop)
        offset += stop - first
