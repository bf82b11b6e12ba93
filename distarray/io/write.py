"""A file on its way: laid out by root, written by all ranks, sealed, read back, put in place.

    plan = begin_save(path, arrays, step=1)     root creates NAME.partial; no value is in it yet
    plan.write(arrays.values())                 all ranks, in pieces of bounded size
    plan.finish()                               these three:
        plan.seal()                             checksums, digest
        plan.check()                            read back, flushed to the disk
        plan.publish()                          the new name

`write_here` takes the place of `write` where ranks can write `side_by_side`. It and `check` are the
work of one rank alone, without MPI and HDF5, and may be done on any thread. A plan that is not
published is abandoned.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import FileError
from distarray.io import checksums, filesystem, hdf5, place, xdmf
from distarray.io.agreement import agreed, told
from distarray.io.checksums import Buffer, Checksums
from distarray.io.describe import describe, grid_of, path_of
from distarray.io.record import FileRecord
from distarray.io.tiles import chunks, tiles_over
from distarray.io.verify import CHUNK, check_share, require_seal, write_box
from distarray.regions import Box

Values = np.ndarray[Any, Any]
#: The values of a part of what this rank owns of an array.
Source = Callable[[Box], Values]

#: How values can come into a file: all ranks by MPI-IO or by h5py's own, or root alone.
METHODS = ("mpiio", "h5py", "root")


def begin_save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, DistArray],
    *,
    step: int | None = None,
    time: float | None = None,
    attrs: Mapping[str, Any] | None = None,
    method: str | None = None,
    refuse_nan: bool = False,
    with_xdmf: bool = False,
) -> WritePlan:
    """Check what is to be saved and create the file under its partial name. Collective.

    Parameters
    ----------
    method : str, optional
        One of `METHODS`; by default the fastest that the file system allows.
    refuse_nan : bool
        Whether NaN among the values is an error.
    with_xdmf : bool
        Whether an XDMF file is put beside the file if something in it needs one.

    Raises
    ------
    FileError
        The same on all ranks; nothing is left behind.
    """
    grid = grid_of(arrays)
    communicator = grid.communicator
    target, way = "", ""
    with agreed(communicator, "The file cannot be saved"):
        target = path_of(path, "save")
        record = describe(grid, arrays, step, time, attrs)
        _check_method(method)
    with agreed(communicator, f"The file '{target}' cannot be replaced"):
        if communicator.rank == 0:
            target = place.resolve(target)
            if with_xdmf:
                xdmf.require_room(target, record)
            way = method or _best_method(target, communicator)
    target, way = communicator.bcast((target, way))
    plan = WritePlan(target, record, communicator, way, refuse_nan=refuse_nan, with_xdmf=with_xdmf)
    try:
        plan.lay_out(arrays)
    except BaseException:
        plan.abandon()
        raise
    return plan


def _check_method(method: str | None) -> None:
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


def _best_method(target: str, communicator: Communicator) -> str:
    """The fastest way that is safe where the file lies. Local."""
    if communicator.size == 1 or not filesystem.takes_many_writers(os.path.dirname(target)):
        return "root"
    return "h5py" if hdf5.is_parallel() else "mpiio"


class WritePlan:
    """A file that is being written; made by `begin_save`.

    Attributes
    ----------
    target, partial : str
        The name that the file will have, and the one that it has until then.
    record : FileRecord
        What the file says about itself, with the bytes at which arrays start.
    method : str
        One of `METHODS`.
    boxes : tuple of Box
        What this rank owns of each array, components first.
    """

    def __init__(
        self,
        target: str,
        record: FileRecord,
        communicator: Communicator,
        method: str,
        *,
        refuse_nan: bool = False,
        with_xdmf: bool = False,
    ) -> None:
        self.target = target
        self.partial = target + place.PARTIAL
        self.record = record
        self.communicator = communicator
        self.method = method
        self.boxes: tuple[Box, ...] = ()
        self._refuse_nan = refuse_nan
        self._with_xdmf = with_xdmf
        self._sums: list[Checksums] = []
        self._tables: list[Values] = []
        self._created = False  # whether the partial file is this plan's to remove
        self._release: Callable[[], Any] = _nothing

    @property
    def side_by_side(self) -> bool:
        """Whether ranks may write at the same time, so that `write_here` can be used."""
        return self.communicator.size == 1 or self.method != "root"

    def lay_out(self, arrays: Mapping[str, DistArray]) -> None:
        """Create the partial file; all ranks learn where arrays start. Collective."""
        communicator, own = self.communicator, _layout(self.record)
        with agreed(communicator, f"The file '{self.partial}' cannot be created"):
            if communicator.rank == 0:
                self.record = hdf5.lay_out(
                    self.partial, self.record, meshes=self._with_xdmf, created=self._hold
                )
        self.record = communicator.bcast(self.record)
        with agreed(communicator, f"The file '{self.partial}' cannot be written"):
            if own != _layout(self.record):
                raise FileError(
                    f"Ranks save different arrays: one has {own}, "
                    f"root has {_layout(self.record)}; pass the same on all."
                )
            self.boxes = tuple(owned_box(array) for array in arrays.values())
        scratch = Buffer()
        self._sums = [Checksums(array, scratch) for array in self.record.arrays]

    def _hold(self) -> None:
        """Keep other jobs from writing the partial file until it is in place. Root only."""
        self._created = True
        # Where locks are known to other nodes, those of MPI-IO could wait for this one for ever.
        folder = os.path.dirname(self.target)
        if self.method != "root" and not filesystem.is_local(folder):
            return
        descriptor = place.hold(self.partial)
        if descriptor is not None:
            self._release = weakref.finalize(self, os.close, descriptor)

    # Values.

    def write(self, values: Iterable[DistArray | Values]) -> None:
        """Write the values of all arrays, given as arrays or as copies of what this rank owns, in
        the order of the record. Collective.
        """
        sources = self._sources(values)
        if self.communicator.size == 1:
            self._write_here(sources)
        elif self.method == "mpiio":
            self.communicator.write_blocks(self.partial, self._pieces(sources))
        elif self.method == "h5py":
            hdf5.write_blocks(self.partial, self.record, self.communicator, self._pieces(sources))
        else:
            self._write_by_root(sources)

    def write_here(self, copies: Sequence[Values]) -> None:
        """Write what this rank owns, as `write` does, by this rank alone. Local; on any thread.

        Raises
        ------
        FileError
            On this rank alone; the plan must then be abandoned on all.
        """
        self._write_here(self._sources(copies))

    def _write_here(self, sources: Sequence[Source]) -> None:
        subject = f"The file '{self.partial}' cannot be written"
        with told(subject), place.opened(self.partial, write=True) as descriptor:
            for k, box, values in self._parts(sources):
                write_box(descriptor, self.record.arrays[k], box, values)

    def _sources(self, values: Iterable[DistArray | Values]) -> list[Source]:
        return [_source(value, box) for value, box in zip(values, self.boxes, strict=True)]

    def _parts(self, sources: Sequence[Source]) -> Iterator[tuple[int, Box, Values]]:
        """What this rank owns, in parts of bounded size: the number of the array, the box and its
        values, which are overwritten by the next. Each enters the checksums.
        """
        buffer = Buffer()
        for k, source in enumerate(sources):
            limit = CHUNK // np.dtype(self.record.arrays[k].dtype).itemsize
            for box in chunks(self.boxes[k], self.record.arrays[k].tile, limit):
                values = buffer.array(box.shape, np.dtype(self.record.arrays[k].dtype))
                self._take(k, box, source, values)
                yield k, box, values

    def _take(self, k: int, box: Box, source: Source, values: Values) -> None:
        """Bring a part of array k into contiguous memory, and enter it into the checksums."""
        array = self.record.arrays[k]
        with told(f"The file '{self.partial}' cannot be written"):
            values[...] = source(box)
            if self._refuse_nan and array.dtype[1] in "fc" and np.isnan(values).any():
                self._say_nan(k, box, values)
            self._sums[k].add(box, values)

    def _say_nan(self, k: int, box: Box, values: Values) -> None:
        array = self.record.arrays[k]
        first = np.argwhere(np.isnan(values))[0]
        element = tuple(a + int(i) for a, i in zip(box.start, first, strict=True))
        tile = next(tiles_over(Box(element, tuple(i + 1 for i in element)), array.tile))
        raise FileError(
            f"The file '{self.target}' was not written, and files before it are as they were: the "
            f"array '{array.name}' holds NaN at {element}, in its tile {tile}; look for the cause "
            "in the run, such as too long a time step."
        )

    def _pieces(self, sources: Sequence[Source]) -> Iterator[BlockPiece]:
        for k, box, values in self._parts(sources):
            array = self.record.arrays[k]
            yield BlockPiece(array.offset, array.shape, box, values)

    def _write_by_root(self, sources: Sequence[Source]) -> None:
        """Bring one chunk of the file after the other to root, which writes it. Collective."""
        communicator = self.communicator
        owned = communicator.allgather(self.boxes)
        buffers = Buffer(), Buffer()
        subject = f"The file '{self.partial}' cannot be written"
        for k, array in enumerate(self.record.arrays):
            limit = CHUNK // np.dtype(array.dtype).itemsize
            for chunk in chunks(Box.of_shape(array.shape), array.tile, limit):
                boxes = [chunk.intersection(boxes[k]) for boxes in owned]
                parts = self._room(boxes, np.dtype(array.dtype), buffers[0])
                mine = parts.get(communicator.rank)
                with agreed(communicator, subject):
                    if mine is not None:
                        self._take(k, boxes[communicator.rank], sources[k], mine)
                self._send_to_root(parts)
                with agreed(communicator, subject):
                    if communicator.rank == 0:
                        whole = _joined(chunk, boxes, parts, buffers[1])
                        with place.opened(self.partial, write=True) as descriptor:
                            write_box(descriptor, array, chunk, whole)

    def _room(
        self, boxes: Sequence[Box], dtype: np.dtype[Any], buffer: Buffer
    ) -> dict[int, Values]:
        """Memory for the parts of a chunk that are not empty, by rank: on root for those of all."""
        here = [
            rank
            for rank, box in enumerate(boxes)
            if not box.empty and self.communicator.rank in (0, rank)
        ]
        stops = np.cumsum([boxes[rank].size for rank in here], dtype=np.int64).tolist()
        flat = buffer.array((stops[-1] if here else 0,), dtype)
        return {
            rank: flat[stop - boxes[rank].size : stop].reshape(boxes[rank].shape)
            for rank, stop in zip(here, stops, strict=True)
        }

    def _send_to_root(self, parts: Mapping[int, Values]) -> None:
        """Fill the parts on root by those of the other ranks. Collective."""
        if self.communicator.rank:
            self.communicator.exchange([(0, part) for part in parts.values()], [])
        else:
            received = [(rank, part) for rank, part in parts.items() if rank]
            self.communicator.exchange([], received)

    # The end.

    def finish(self) -> None:
        """Enter checksums and digest, read all back, put the file in place. Collective."""
        self.seal()
        with agreed(self.communicator, f"The file '{self.partial}' cannot be read back"):
            self.check()
        self.publish()

    def seal(self) -> None:
        """Enter checksums and digest, once the values of all ranks are written. Collective."""
        communicator = self.communicator
        own = [sums.table for sums in self._sums]
        everywhere = communicator.allreduce(checksums.combined(own), "xor")
        self._tables = [
            sums.finished(table)
            for sums, table in zip(self._sums, checksums.divided(everywhere, own), strict=True)
        ]
        with agreed(communicator, f"The file '{self.partial}' cannot be written"):
            if communicator.rank == 0:
                with place.opened(self.partial, write=True) as descriptor:
                    checksums.write_tables(descriptor, self.record, self._tables)
                    checksums.seal(descriptor, self.record)
                if not _alike(hdf5.read_record(self.partial), self.record):
                    raise hdf5.damaged(self.partial, "it describes other arrays than were written")

    def check(self) -> None:
        """Read back a share of the sealed file, and wait until it is on the disk. Local; on any
        thread.

        Raises
        ------
        FileError or OSError
            On this rank alone; the plan must then be abandoned on all.
        """
        communicator = self.communicator
        flush = _Flush(self.partial)  # the disk is busy while values are compared
        try:
            if communicator.rank == 0:
                require_seal(self.partial, self.record)
            rank, size = communicator.rank, communicator.size
            check_share(self.partial, self.record, self._tables, rank, size)
        finally:
            flush.join()
        flush.result()

    def publish(self) -> None:
        """Give the file its name, once all ranks have checked it. Collective."""
        communicator = self.communicator
        with agreed(communicator, f"The file '{self.target}' cannot be put in place"):
            if communicator.rank == 0:
                place.rename(self.partial, self.target)
                self._created = False
                self._release()
                place.sync_folder(os.path.dirname(self.target))
        if self._with_xdmf:
            beside = xdmf.path_beside(self.target)
            subject = f"The file '{self.target}' is in place, but '{beside}' cannot be written"
            with agreed(communicator, subject):
                if communicator.rank == 0:
                    xdmf.put_beside(self.target, self.record)

    def let_go(self) -> None:
        """Let others, in this process too, replace the partial file. Local; at any time."""
        self._release()

    def abandon(self) -> None:
        """Remove the partial file. Local; on root it must come last."""
        if self._created:
            self._created = False
            place.discard(self.partial)
            self._release()


def _nothing() -> None:
    """Nothing is held."""


class _Flush(threading.Thread):
    """Waits on a thread of its own until a file is on the disk."""

    def __init__(self, path: str) -> None:
        super().__init__(name="distarray flush", daemon=True)
        self._path = path
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            place.sync(self._path)
        except BaseException as error:  # raised where the result is asked for
            self._error = error

    def result(self) -> None:
        with told(f"The file '{self._path}' cannot be flushed to disk"):
            if self._error is not None:
                raise self._error


def _joined(
    chunk: Box, boxes: Sequence[Box], parts: Mapping[int, Values], buffer: Buffer
) -> Values:
    """A chunk as one contiguous array, made of its parts."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    whole = buffer.array(chunk.shape, next(iter(parts.values())).dtype)
    for rank, part in parts.items():
        whole[boxes[rank].slices(chunk.start)] = part
    return whole


def _layout(record: FileRecord) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What all ranks must agree on: names, element types and shapes."""
    return tuple((array.name, array.dtype, array.shape) for array in record.arrays)


def _alike(found: FileRecord, record: FileRecord) -> bool:
    """Whether two records are equal, also where the time is NaN."""
    times = repr(found.time) == repr(record.time)
    return times and replace(found, time=None) == replace(record, time=None)


def owned_box(array: DistArray) -> Box:
    """What this rank owns of an array, in its indices with components first."""
    owned, components = array.block.owned, array.layout.components
    return Box((0,) * len(components) + owned.start, components + owned.stop)


def _source(value: DistArray | Values, owned: Box) -> Source:
    """Where the values of this rank come from: its block, perhaps on a device, or a copy of it."""
    if not isinstance(value, DistArray):
        return lambda box: value[box.slices(owned.start)]
    backend, local = value.block.backend, value.local
    return lambda box: backend.to_host(local[box.slices(owned.start)])
