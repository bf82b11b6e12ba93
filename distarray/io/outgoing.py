"""What one rank writes: values that are fetched from blocks, and entered into checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.comm.base import Communicator
from distarray.io.agreement import told
from distarray.io.boxes import in_order, largest_piece
from distarray.io.checksums import Buffer
from distarray.io.record import FileRecord
from distarray.io.teams import exchange_of
from distarray.io.tiles import chunks
from distarray.layout import Layout
from distarray.regions import Box

Values = np.ndarray[Any, Any]

Guard = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Outgoing:
    """What is written.

    Attributes
    ----------
    path : str
        The file, laid out.
    record : FileRecord
    communicator : Communicator
    layouts : tuple of Layout
        Of each array.
    boxes : tuple of Box
        What this rank owns of each, components first.
    memory : tuple of array or None
        What this rank owns of each; None where that lies on a device.
    fetch : function (k, box, values)
        Fills contiguous memory with what this rank owns of a box of array k.
    enter : function (k, box, values)
        Looks at these values, each once: checksums.
    """

    path: str
    record: FileRecord
    communicator: Communicator
    layouts: tuple[Layout, ...]
    boxes: tuple[Box, ...]
    memory: tuple[Values | None, ...]
    fetch: Callable[[int, Box, Values], None]
    enter: Callable[[int, Box, Values], None]

    @property
    def subject(self) -> str:
        return f"The file '{self.path}' cannot be written"

    def parts(self, numbers: Sequence[int]) -> Iterator[tuple[int, Box, Values]]:
        """What this rank owns of some arrays, in parts of bounded size: the number of the array,
        the box and its values, which are overwritten by the next. All is entered. Local.

        What lies in host memory comes in the order of the file, and is entered when the disk has
        it all; what comes from a device is entered on its way.
        """
        buffer = Buffer()
        for k in numbers:
            array, memory = self.record.arrays[k], self.memory[k]
            dtype = np.dtype(array.dtype)
            parts = _tiles_of(self, k) if memory is None else in_order(self.boxes[k], dtype)
            for box in parts:
                values = buffer.array(box.shape, dtype)
                with told(self.subject):
                    self.fetch(k, box, values)
                    if memory is None:
                        self.enter(k, box, values)
                yield k, box, values
            if memory is not None:
                self.look_at((k,))

    def look_at(self, numbers: Sequence[int]) -> None:
        """Enter what this rank owns of some arrays. Local; on any thread."""
        buffer = Buffer()
        for k in numbers:
            memory, own = self.memory[k], self.boxes[k]
            for box in _tiles_of(self, k):
                with told(self.subject):
                    if memory is None:
                        values = buffer.array(box.shape, np.dtype(self.record.arrays[k].dtype))
                        self.fetch(k, box, values)
                    else:
                        values = memory[box.slices(own.start)]
                    self.enter(k, box, values)

    def gathered(self, k: int, guard: Guard) -> Iterator[tuple[Box, Values]]:
        """Pieces of array k that this rank writes for its team; `guard` is what values are fetched
        in. Collective over the team.
        """
        exchange = exchange_of(self.layouts[k], self.communicator)
        if exchange is None:
            return iter(())

        def fetch(box: Box, values: Values) -> None:
            with guard():
                self.fetch(k, box, values)

        return exchange.gathered(fetch)


def _tiles_of(job: Outgoing, k: int) -> Iterator[Box]:
    """What this rank owns of array k, cut between tiles."""
    array = job.record.arrays[k]
    return chunks(job.boxes[k], array.tile, largest_piece(np.dtype(array.dtype)))
