"""A file from begin to end: laid out by root, written by all ranks, sealed, read back, in place.

    plan = begin_save(path, arrays, step=1)     checks what is to be saved
    plan.lay_out()                              these two:
        plan.create()                           root: NAME.partial, with no value in it yet
        plan.share()                            all ranks learn where arrays start
    plan.write(arrays.values())                 all ranks, in pieces of bounded size
    plan.finish()                               these:
        plan.combine()                          the checksums of all ranks
        plan.check()                            root: entered; all: read back, flushed to the disk
        plan.publish()                          these two:
            plan.rename()                       root: the new name
            plan.settle()                       root: the folder flushed to the disk

`write_here` takes the place of `write` where ranks can write `side_by_side`. It and `create`,
`check`, `rename` and `settle` are the work of one rank alone, without MPI, and may be done on any
thread. A plan that is not published is abandoned.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from distarray.arguments import path_of
from distarray.array import DistArray
from distarray.errors import FileError
from distarray.io import attributes, checksums, filesystem, hdf5, header, place, xdmf
from distarray.io.agreement import agreed, require_same, told
from distarray.io.checksums import Buffer, Checksums
from distarray.io.describe import describe, grid_of
from distarray.io.methods import best_method, check_method, on_one_machine, write_all, write_here
from distarray.io.outgoing import Outgoing
from distarray.io.record import FileRecord
from distarray.io.teams import owned_by
from distarray.io.tiles import tiles_over
from distarray.io.verify import check_share, require_seal
from distarray.regions import Box

Values = np.ndarray[Any, Any]
#: The values of a part of what this rank owns of an array.
Source = Callable[[Box], Values]


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
    checksums: bool = True,
) -> WritePlan:
    """Check what is to be saved; nothing is in the file system yet. Collective.

    Parameters
    ----------
    method : str, optional
        One of `METHODS`; by default the fastest that the file system allows.
    refuse_nan : bool
        Whether NaN among the values is an error.
    with_xdmf : bool
        Whether an XDMF file is put beside the file if something in it needs one.
    checksums : bool
        Whether there are any; a file without them can be measured, not finished.

    Raises
    ------
    FileError
        The same on all ranks.
    CommunicationError
        Ranks give different paths, steps, times, attributes or methods.
    """
    grid = grid_of(arrays)
    communicator = grid.communicator
    target, chosen = "", ""
    with agreed(communicator, "The file cannot be saved"):
        target = path_of(path, "save")
        record = describe(grid, arrays, step, time, attrs)
        check_method(method)
    require_same(
        communicator,
        "the file to be saved",
        path=target,
        step=record.step,
        time=record.time,
        attrs=attributes.in_order(record.attrs),
        method=method,
    )
    one_machine = on_one_machine(communicator)
    with agreed(communicator, f"The file '{target}' cannot be replaced"):
        if communicator.rank == 0:
            target = place.resolve(target)
            if with_xdmf:
                xdmf.require_room(target, record)
            chosen = method or best_method(target, size=communicator.size, one_machine=one_machine)
    target, chosen = communicator.bcast((target, chosen))
    return WritePlan(
        target,
        record,
        arrays,
        chosen,
        refuse_nan=refuse_nan,
        with_xdmf=with_xdmf,
        checksums=checksums,
    )


class WritePlan:
    """A file that is being written; made by `begin_save`.

    Attributes
    ----------
    target, partial : str
        The name that the file will have, and the one that it has until then.
    record : FileRecord
        What the file says about itself; once it is laid out, with the bytes at which arrays start.
    method : str
        One of `METHODS`.
    boxes : tuple of Box
        What this rank owns of each array, components first.
    """

    def __init__(
        self,
        target: str,
        record: FileRecord,
        arrays: Mapping[str, DistArray],
        method: str,
        *,
        refuse_nan: bool = False,
        with_xdmf: bool = False,
        checksums: bool = True,
    ) -> None:
        self.target = target
        self.partial = target + place.PARTIAL
        self.record = record
        self.communicator = grid_of(arrays).communicator
        self.method = method
        self._layouts = tuple(array.layout for array in arrays.values())
        rank = self.communicator.rank
        self.boxes = tuple(owned_by(layout, rank) for layout in self._layouts)
        self._refuse_nan = refuse_nan
        self._with_xdmf = with_xdmf
        self._summed = checksums
        self._described = _layout(record)
        self._sums: list[Checksums] = []
        self._tables: list[Values] = []
        self._created = False  # whether the partial file is this plan's to remove
        self._release: Callable[[], Any] = _nothing

    @property
    def side_by_side(self) -> bool:
        """Whether ranks may write at the same time, so that `write_here` can be used."""
        return self.communicator.size == 1 or self.method != "root"

    def lay_out(self) -> None:
        """Create the partial file; all ranks learn where arrays start. Collective.

        Raises
        ------
        FileError
            The same on all ranks; nothing is left behind.
        """
        try:
            with agreed(self.communicator, f"The file '{self.partial}' cannot be created"):
                self.create()
            self.share()
        except BaseException:
            self.abandon()
            raise

    def create(self) -> None:
        """Create the partial file, on root. Local; on any thread."""
        if self.communicator.rank == 0:
            self.record = hdf5.lay_out(
                self.partial, self.record, meshes=self._with_xdmf, created=self._hold
            )

    def share(self) -> None:
        """Tell all ranks where arrays start in the file that root has created. Collective."""
        self.record = self.communicator.bcast(self.record)
        with agreed(self.communicator, f"The file '{self.partial}' cannot be written"):
            if self._described != _layout(self.record):
                raise FileError(
                    f"Ranks save different arrays: one has {self._described}, "
                    f"root has {_layout(self.record)}; pass the same on all."
                )
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
        write_all(self._outgoing(values), self.method)

    def write_here(self, copies: Sequence[Values]) -> None:
        """Write what this rank owns, as `write` does, by this rank alone. Local; on any thread.

        Raises
        ------
        FileError
            On this rank alone; the plan must then be abandoned on all.
        """
        write_here(self._outgoing(copies))

    def _outgoing(self, values: Iterable[DistArray | Values]) -> Outgoing:
        given = tuple(values)
        sources = [_source(value, box) for value, box in zip(given, self.boxes, strict=True)]

        def fetch(k: int, box: Box, target: Values) -> None:
            target[...] = sources[k](box)

        return Outgoing(
            self.partial,
            self.record,
            self.communicator,
            self._layouts,
            self.boxes,
            tuple(map(_host_memory, given)),
            fetch,
            self._enter,
        )

    def _enter(self, k: int, box: Box, values: Values) -> None:
        """Look for NaN where it is refused, and enter values into the checksums."""
        if self._refuse_nan and values.size and self.record.arrays[k].dtype[1] in "fc":
            with np.errstate(invalid="ignore"):
                least = values.view(values.real.dtype).min()
            if np.isnan(least):  # which one NaN makes it, and takes no array of flags
                self._say_nan(k, box, values)
        if self._summed:
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

    # The end.

    def finish(self) -> None:
        """Enter checksums and digest, read all back, put the file in place. Collective."""
        self.combine()
        with agreed(self.communicator, f"The file '{self.partial}' cannot be read back"):
            self.check()
        self.publish()

    def combine(self) -> None:
        """Join the checksums of all ranks, once the values are written. Collective."""
        own = [sums.table for sums in self._sums]
        everywhere = self.communicator.allreduce(checksums.combined(own), "xor")
        self._tables = [
            sums.finished(table)
            for sums, table in zip(self._sums, checksums.divided(everywhere, own), strict=True)
        ]

    def check(self) -> None:
        """Read back a share of the file, which root seals first, and wait until it is on the disk.
        Local; on any thread.

        Raises
        ------
        FileError or OSError
            On this rank alone; the plan must then be abandoned on all.
        """
        rank, size = self.communicator.rank, self.communicator.size
        if rank == 0:
            self._seal()
        flush = _Flush(self.partial)  # the disk is busy while values are compared
        try:
            if rank == 0:
                require_seal(self.partial, self.record)
            check_share(self.partial, self.record, self._tables, rank, size)
        finally:
            flush.join()
        flush.result()

    def _seal(self) -> None:
        """Enter checksums and digest. Root only."""
        with (
            told(f"The file '{self.partial}' cannot be written"),
            place.opened(self.partial, write=True) as descriptor,
        ):
            checksums.write_tables(descriptor, self.record, self._tables)
            checksums.seal(descriptor, self.record)
        if not _alike(header.read_record(self.partial), self.record):
            raise header.damaged(self.partial, "it describes other arrays than were written")

    def publish(self) -> None:
        """Give the file its name, once all ranks have checked it. Collective."""
        with agreed(self.communicator, f"The file '{self.target}' cannot be put in place"):
            self.rename()
            self.settle()
        if self._with_xdmf:
            beside = xdmf.path_beside(self.target)
            subject = f"The file '{self.target}' is in place, but '{beside}' cannot be written"
            with agreed(self.communicator, subject):
                if self.communicator.rank == 0:
                    xdmf.put_beside(self.target, self.record)

    def rename(self) -> None:
        """Give the file its name, on root, once all ranks have checked it. Local."""
        if self.communicator.rank == 0:
            place.rename(self.partial, self.target)
            self._created = False
            self._release()

    def settle(self) -> None:
        """Wait until the name is on the disk, on root. Local; on any thread."""
        if self.communicator.rank == 0:
            place.sync_folder(os.path.dirname(self.target))

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


def _layout(record: FileRecord) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What all ranks must agree on: names, element types and shapes."""
    return tuple((array.name, array.dtype, array.shape) for array in record.arrays)


def _alike(found: FileRecord, record: FileRecord) -> bool:
    """Whether two records are equal, also where the time is NaN."""
    times = repr(found.time) == repr(record.time)
    return times and replace(found, time=None) == replace(record, time=None)


def _source(value: DistArray | Values, owned: Box) -> Source:
    """Where the values of this rank come from: its block, perhaps on a device, or a copy of it."""
    if not isinstance(value, DistArray):
        return lambda box: value[box.slices(owned.start)]
    backend, local = value.block.backend, value.local
    return lambda box: backend.to_host(local[box.slices(owned.start)])


def _host_memory(value: DistArray | Values) -> Values | None:
    """The values of this rank where they lie in host memory."""
    if not isinstance(value, DistArray):
        return value
    return np.asarray(value.local) if value.block.backend.host else None
