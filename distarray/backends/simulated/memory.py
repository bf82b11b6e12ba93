"""Memory of the simulated device and of its host, with who touched it and when.

Device memory is NumPy memory at its real address; it holds NaN (bytes 0xFF) until it is written, so
that what reads too early shows. Pooled memory goes from hand to hand as it does on a GPU. Of each
range accessed in a piece of memory only the latest access by each stream is kept: what is ordered
after that is ordered after those before it.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.driver import Access
from distarray.backends.simulated.clocks import Clock
from distarray.backends.simulated.overlap import Strided, overlap
from distarray.backends.simulated.races import overrun

ALIGNMENT = 512
UNSET = 0xFF
_GUARD = 64
_UNWRITTEN = bytes([UNSET]) * _GUARD
#: Bytes that the pool keeps at most.
_MOST_POOLED = 1 << 26
#: Ranges of one stream in one piece of memory from which on those known to be done are dropped.
_MANY = 64


class Record(NamedTuple):
    """The latest access by a stream to a range: the number of the work in the stream, its name."""

    place: int
    name: str
    write: bool
    range: Strided


class Memory:
    """A range of addresses whose accesses are known.

    Attributes
    ----------
    address, nbytes : int
    kind : str
        How a report calls it.
    """

    __slots__ = (
        "__weakref__", "_latest", "_latest_write", "_many", "_records", "address", "kind", "nbytes",
    )  # fmt: skip

    def __init__(self, address: int, nbytes: int, kind: str, lanes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.kind = kind
        self._latest = [0] * lanes
        self._latest_write = [0] * lanes
        self._records: list[dict[Any, Record]] = [{} for _ in range(lanes)]
        self._many = _MANY

    @property
    def memory(self) -> Memory:
        """Itself, as what accesses name has it."""
        return self

    def unordered(self, access: Access, clock: Clock, lane: int) -> tuple[int, Record] | None:
        """The stream and the record of a conflicting access that does not come before `clock`.

        `lane` is the stream that asks, -1 for the host. Local.
        """
        latest = self._latest if access.write else self._latest_write
        for other, index in enumerate(latest):
            if index > clock[other] and other != lane:
                found = self._conflict(self._records[other], access, clock[other])
                if found is not None:
                    return other, found
        return None

    @staticmethod
    def _conflict(records: dict[Any, Record], access: Access, known: int) -> Record | None:
        asked = (access.address, access.shape, access.strides, access.itemsize)
        for record in reversed(records.values()):
            if (
                record.place > known
                and (access.write or record.write)
                and overlap(record.range, asked)
            ):
                return record
        return None

    def add(self, access: Access, lane: int, index: int, name: str, known: int) -> None:
        """Keep an access by piece `index` of a stream; the host knows `known` done. Local."""
        place = (access.address, access.shape, access.strides, access.itemsize)
        write = access.write
        records = self._records[lane]
        records[write, place] = Record(index, name, write, place)
        self._latest[lane] = index
        if write:
            self._latest_write[lane] = index
        if len(records) > self._many:
            kept = {key: record for key, record in records.items() if record.place > known}
            self._records[lane] = kept
            self._many = max(_MANY, 2 * len(kept))


class SimulatedAllocation(Memory):
    """Device memory. `bytes` is the host's view of it, for what runs as work of the device.

    Before and behind it lie bytes that nobody may write.
    """

    __slots__ = ("bytes",)

    def __init__(self, nbytes: int, lanes: int) -> None:
        raw = np.empty(nbytes + ALIGNMENT + 2 * _GUARD, np.uint8)
        raw[...] = UNSET
        self.bytes, address = _aligned(raw, nbytes, _GUARD)
        super().__init__(address, nbytes, "device memory", lanes)

    def intact(self) -> bool:
        """Whether the bytes around it are as they were. Local."""
        before, behind = self.address - _GUARD, self.address + self.nbytes
        return ctypes.string_at(before, _GUARD) == ctypes.string_at(behind, _GUARD) == _UNWRITTEN

    def __del__(self) -> None:
        if not self.intact():
            overrun(self.nbytes)


class PooledAllocation:
    """Device memory from the pool, which takes it back with the last reference.

    As on a GPU, work that was given holds none: who holds the memory answers for that.

    Attributes
    ----------
    memory : SimulatedAllocation
    address, nbytes : int
    """

    __slots__ = ("__weakref__", "_pool", "address", "memory", "nbytes")

    def __init__(self, memory: SimulatedAllocation, pool: Pool) -> None:
        self.memory = memory
        self.address, self.nbytes = memory.address, memory.nbytes
        self._pool = pool

    @property
    def bytes(self) -> HostArray:
        """The host's view of it; see `SimulatedAllocation`."""
        return self.memory.bytes

    def __del__(self) -> None:
        self._pool.give_back(self.memory)


class Pool:
    """Memory that nobody holds, with the record of what work does with it, which may still wait.

    What was given back last goes out first, as from CuPy's pool.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[SimulatedAllocation]] = {}
        self._nbytes = 0

    def take(self, nbytes: int) -> SimulatedAllocation | None:
        """Memory of a size, if there is some. Local."""
        found = self._free.get(nbytes)
        if not found:
            return None
        self._nbytes -= nbytes
        return found.pop()

    def give_back(self, memory: SimulatedAllocation) -> None:
        """Keep memory for the next who asks for its size. Local."""
        self._nbytes += memory.nbytes
        if self._nbytes > _MOST_POOLED:
            self._free.clear()
            self._nbytes = memory.nbytes
        self._free.setdefault(memory.nbytes, []).append(memory)

    def check(self) -> None:
        """Let go of memory around which work has written, which reports it. Local."""
        for kept in self._free.values():
            kept[:] = [memory for memory in kept if memory.intact()]
        self._nbytes = sum(memory.nbytes for kept in self._free.values() for memory in kept)


def _aligned(raw: HostArray, nbytes: int, before: int = 0) -> tuple[HostArray, int]:
    address = raw.ctypes.data
    offset = before + -(address + before) % ALIGNMENT
    return raw[offset : offset + nbytes], address + offset


def _memory_of(known: weakref.ref[Any]) -> Memory | None:
    held = known()
    return None if held is None else held.memory


class AddressMap:
    """Finds the memory that an address lies in."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._found: dict[int, Callable[[], Memory | None]] = {}
        self._owners: dict[int, weakref.ref[Any]] = {}

    def add(self, held: SimulatedAllocation | PooledAllocation) -> None:
        """Know memory for as long as somebody holds it. Local."""
        known = weakref.ref(held, functools.partial(self._forget, held.address))
        self._found[held.address] = functools.partial(_memory_of, known)
        bisect.insort(self._starts, held.address)

    def pinned(self, nbytes: int, lanes: int) -> HostArray:
        """Zeroed host memory, known for as long as somebody holds it or a view of it. Local."""
        owner = np.zeros(nbytes + ALIGNMENT, np.uint8)
        values, address = _aligned(owner, nbytes)
        memory = Memory(address, nbytes, "pinned memory", lanes)
        self._found[address] = lambda: memory
        self._owners[address] = weakref.ref(owner, functools.partial(self._forget, address))
        bisect.insort(self._starts, address)
        return values

    def _forget(self, address: int, _: Any, find: Callable[..., int] = bisect.bisect_left) -> None:
        # `find` is bound here: modules may be emptied already when the interpreter ends.
        self._found.pop(address, None)
        self._owners.pop(address, None)
        place = find(self._starts, address)
        if place < len(self._starts) and self._starts[place] == address:
            del self._starts[place]

    def check(self) -> None:
        """Report device memory around which work has written. Local."""
        for start in self._starts:
            memory = self._found[start]()
            if isinstance(memory, SimulatedAllocation) and not memory.intact():
                overrun(memory.nbytes)

    def find(self, address: int) -> Memory | None:
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        memory = self._found[self._starts[place]]()
        if memory is None or address >= memory.address + max(memory.nbytes, 1):
            return None
        return memory

    def access(self, values: HostArray, *, write: bool) -> Access | None:
        """The access to a host array if its memory is known. Local."""
        address = values.ctypes.data
        memory = self.find(address)
        if memory is None:
            return None
        return Access(memory, address, values.shape, values.strides, values.itemsize, write)
