"""The simulated device: NumPy memory, work that is put off, and a record of who touches what when.

Everything given to a stream waits until the host asks for its effects, and then only what must have
been done runs; see `schedule`. Work that touches memory in no order with other work is refused as a
race; see `memory`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Event, Graph, Stream
from distarray.backends.driver import Access, Allocation, Extents, KernelText, Parameters
from distarray.backends.simulated import races
from distarray.backends.simulated.capture import Capture
from distarray.backends.simulated.memory import (
    UNSET,
    AddressMap,
    Memory,
    Pool,
    PooledAllocation,
    SimulatedAllocation,
)
from distarray.backends.simulated.schedule import (
    Schedule,
    SimulatedEvent,
    SimulatedStream,
    Statistics,
    Work,
)
from distarray.errors import BackendError
from distarray.launcher import launched

if TYPE_CHECKING:
    from distarray.backends.simulated.nccl import StandInBinding


_drivers: weakref.WeakSet[SimulatedDriver] = weakref.WeakSet()


def finish() -> list[str]:
    """Run all work that waits on the simulated devices of this process, and give up captures that
    nobody ended. Local.

    Returns
    -------
    list of str
        Messages of the races, and of writes around device memory, that were found since the last
        call.
    """
    for driver in list(_drivers):
        driver.finish()
    return races.forget()


atexit.register(finish)


class SimulatedDriver:
    """A device of this process's own; see `Driver`.

    Parameters
    ----------
    seed : int, optional
        Of the order in which work runs; `DISTARRAY_SIMULATED_SEED`, 0 where that is not set.
    """

    name = "simulated"
    compute: Stream
    communication: Stream

    def __init__(self, seed: int | None = None) -> None:
        # The last stream is that of graphs.
        names = ("compute", "communication", "communication of a graph")
        self._schedule = Schedule(names, _seed() if seed is None else seed)
        self.compute, self.communication, _ = self._schedule.streams
        self._memory = AddressMap()
        self._pool = Pool()
        _drivers.add(self)

    @property
    def compiles(self) -> bool:
        """Whether a C++ compiler works and may be used."""
        from distarray.backends.simulated import host_cuda

        return host_cuda.available()

    @property
    def statistics(self) -> Statistics:
        return self._schedule.statistics

    def finish(self) -> None:
        """Run all work that waits, and give up a capture that nobody ended. Local."""
        self._schedule.capture = None
        self._schedule.finish()
        self._memory.check()
        self._pool.check()

    def nccl_binding(self) -> StandInBinding:
        """What stands in for NCCL; see `nccl`. Local."""
        from distarray.backends.simulated.nccl import StandInBinding

        return StandInBinding(self)

    def stream_at(self, pointer: int) -> SimulatedStream:
        """The stream with a handle. Local."""
        for stream in self._schedule.streams[:2]:
            if stream.pointer == pointer:
                return stream
        raise BackendError(f"There is no stream with the handle {pointer}; pass one's `pointer`.")

    def memory_at(self, address: int) -> Memory | None:
        """The device or pinned memory that an address lies in. Local."""
        return self._memory.find(address)

    def event(self) -> Event:
        return SimulatedEvent(self._schedule)

    def allocate(self, nbytes: int, *, pooled: bool = True) -> Allocation:
        """Memory aligned to 512 bytes, all of them 0xFF: NaN. Local.

        Pooled memory may be what another has given back. It is filled by work of the compute
        stream then, which is refused as a race where work of another stream may still use it.
        """
        self._schedule.allocated(nbytes)
        # What is given while work is captured would be captured.
        reuses = pooled and self._schedule.capture is None
        used = self._pool.take(nbytes) if reuses else None
        memory = SimulatedAllocation(nbytes, self._schedule.lanes) if used is None else used
        held = PooledAllocation(memory, self._pool) if pooled else memory
        self._memory.add(held)
        if used is not None:
            everything = Access(held, held.address, (nbytes,), (1,), 1, True)
            self.fill(everything, UNSET, self.compute, name="reuse of freed memory")
        return held

    def adopt(self, values: Any, described: Mapping[str, Any]) -> Allocation | None:
        """None: what other libraries hold lies elsewhere. Local."""
        return None

    def pinned(self, nbytes: int) -> HostArray:
        return self._memory.pinned(nbytes, self._schedule.lanes)

    def fill(self, access: Access, byte: int, stream: Stream, *, name: str = "fill") -> None:
        """See `Driver.fill`; reports call it by the name. Local."""
        function = partial(ctypes.memset, access.address, byte, _nbytes(access))
        _give(stream, Work(function, (access,), name))

    def to_device(self, source: HostArray, target: Access, stream: Stream, *, pinned: bool) -> None:
        nbytes = _nbytes(target)
        if pinned:
            reads = self._pinned_access(source, write=False)
            copy = _Copy(target.address, reads.address, nbytes, source)
            _give(stream, Work(copy, (target, reads), "copy to the device"))
            return
        capture = self._schedule.capture
        if capture is not None and capture.has(cast("SimulatedStream", stream)):
            raise capture.refusal("copy memory that is not pinned to the device")
        values = source.tobytes()
        function = partial(ctypes.memmove, target.address, values, nbytes)
        _give(stream, Work(function, (target,), "copy to the device"))

    def to_host(self, source: Access, target: HostArray, stream: Stream, *, pinned: bool) -> None:
        nbytes, name = _nbytes(source), "copy to the host"
        if pinned:
            writes = self._pinned_access(target, write=True)
            copy = _Copy(writes.address, source.address, nbytes, target)
            _give(stream, Work(copy, (source, writes), name))
            return
        capture = self._schedule.capture
        if capture is not None and capture.has(cast("SimulatedStream", stream)):
            raise capture.refusal("copy to memory that is not pinned")
        accesses = [source]
        known = self._memory.access(target, write=True)
        if known is not None:
            self._schedule.check_host(known, name)
            accesses.append(known)
        _give(
            stream, Work(_Copy(target.ctypes.data, source.address, nbytes, target), accesses, name)
        )
        stream.synchronize()

    def _pinned_access(self, values: HostArray, *, write: bool) -> Access:
        access = self._memory.access(values, write=write)
        if access is None or isinstance(access.allocation, SimulatedAllocation):
            raise BackendError(
                "A copy that does not hold up the host needs pinned memory, got an array of other "
                "memory; take it from pinned()."
            )
        return access

    def load(self, kernel: KernelText) -> Any:
        """The function of a kernel's text on the host; see `host_cuda`. Local."""
        from distarray.backends.simulated import host_cuda

        return host_cuda.load(kernel)

    def launch(  # noqa: PLR0917 - as the protocol has it
        self,
        function: Any,
        grid: Extents,
        block: Extents,
        parameters: Parameters,
        stream: Stream,
        accesses: Sequence[Access],
        name: str,
    ) -> None:
        # An array of the addresses of copies, which it holds.
        values = (ctypes.c_char_p * len(parameters.values))(
            *[value.tobytes() for value in parameters.values]
        )
        backwards = self._schedule.random() < 0.5
        run = partial(function, grid, block, values, backwards=backwards)
        _give(stream, Work(run, accesses, name))

    def call(
        self, function: Callable[[], None], stream: Stream, accesses: Sequence[Access], name: str
    ) -> None:
        _give(stream, Work(function, accesses, name))

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        """See `Backend.host_access`. Local.

        `values` is an array in pinned or device memory, an `Access`, or what has a method
        `access(write)` that gives one. Other memory is not watched. Where "receive" is in `what`
        and it writes, the memory is filled with NaN (bytes 0xFF) first, so that what is read before
        it has arrived shows.
        """
        access = self._access(values, write=write)
        if access is None:
            return
        if self._schedule.capture is not None:
            raise self._schedule.capture.refusal(f"use a buffer for '{what}'")
        self._schedule.check_host(access, what)
        if write and "receive" in what:
            self.poison(access)

    def _access(self, values: Any, *, write: bool) -> Access | None:
        if isinstance(values, np.ndarray):
            return self._memory.access(values, write=write)
        found: Access = values if isinstance(values, Access) else values.access(write)
        if found.write != write:
            return Access(
                found.allocation, found.address, found.shape, found.strides, found.itemsize, write
            )
        return found

    def poison(self, access: Access) -> None:
        """Set all bytes of a contiguous range to 0xFF at once, as the host. Local."""
        ctypes.memset(access.address, UNSET, _nbytes(access))

    def message_memory(self, access: Access) -> Any:
        """The bytes of a contiguous range as MPI takes them. Local."""
        memory = cast("SimulatedAllocation", access.allocation)
        start = access.address - memory.address
        return memory.bytes[start : start + _nbytes(access)]

    def begin_capture(self) -> bool:
        if self._schedule.capture is not None:
            raise BackendError("Work is captured already; end that capture first.")
        self._schedule.capture = Capture(
            cast("SimulatedStream", self.compute), self._schedule.lanes
        )
        return True

    def end_capture(self) -> Graph:
        capture, self._schedule.capture = self._schedule.capture, None
        if capture is None:
            raise BackendError("No work is captured; begin a capture first.")
        return capture.finished(self._schedule)


class _Copy:
    """A copy of bytes that keeps the host array at one end."""

    __slots__ = ("_kept", "_nbytes", "_source", "_target")

    def __init__(self, target: int, source: int, nbytes: int, kept: HostArray) -> None:
        self._target, self._source, self._nbytes, self._kept = target, source, nbytes, kept

    def __call__(self) -> None:
        ctypes.memmove(self._target, self._source, self._nbytes)


def _give(stream: Stream, work: Work) -> None:
    cast("SimulatedStream", stream).give(work)


def _nbytes(access: Access) -> int:
    """Bytes of a contiguous range."""
    count = access.itemsize
    for extent in access.shape:
        count *= extent
    return count


def _seed() -> int:
    """The seed of this rank."""
    text = os.environ.get("DISTARRAY_SIMULATED_SEED", "0")
    try:
        seed = int(text)
    except ValueError:
        raise BackendError(
            f"DISTARRAY_SIMULATED_SEED={text} is no whole number; set it to one, such as 0."
        ) from None
    found = launched()
    return seed * 1_000_003 + (found.rank if found is not None else 0)
