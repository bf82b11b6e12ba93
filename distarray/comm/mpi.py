"""Many ranks over MPI. Loads mpi4py before any other file; `initialise` initialises MPI.

Nothing newer than MPI 3.1 is used. Every call that moves arrays is split above the size limit and
gives the processor away while it waits, when ranks share it; gathering small objects, which is for
set-up and errors, does neither. No call is made off the main thread.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import pickle
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import mpi4py
import numpy as np

from distarray.arraylike import HostArray
from distarray.comm import failure, shared
from distarray.comm.base import (
    BlockPiece,
    PendingReduction,
    PersistentExchange,
    Request,
    Transfer,
    message_limit,
)
from distarray.errors import CommunicationError

_settings = mpi4py.rc.initialize, mpi4py.rc.finalize
# Load the library without initialising it: under a foreign launcher that may fail obscurely.
mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
    from mpi4py import MPI
mpi4py.rc.initialize, mpi4py.rc.finalize = _settings
from distarray.comm import mpi_files  # noqa: E402 - imports the library as well

_HALO_TAG, _EXCHANGE_TAG = 1, 2
_MPIX_GPU_SUPPORT_CUDA = 0  # of MPICH's enumeration
_OPERATIONS = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX, "xor": MPI.BXOR}
_BOOLEAN_OPERATIONS = {
    "prod": MPI.LAND, "min": MPI.LAND, "sum": MPI.LOR, "max": MPI.LOR, "xor": MPI.LXOR,
}  # fmt: skip


def initialise() -> None:
    """Initialise MPI unless it is. Collective over the ranks that the launcher started."""
    if not MPI.Is_initialized():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "suspicious MPI execution", RuntimeWarning)
            MPI.Init_thread()


def is_intracommunicator(value: Any) -> bool:
    """Whether the value is a communicator of mpi4py with one group. Local."""
    return isinstance(value, MPI.Intracomm) and value != MPI.COMM_NULL


def world_size() -> int:
    """Ranks that the MPI library sees. Local."""
    return MPI.COMM_WORLD.size


def library_name() -> str:
    """Name and version of the MPI library. Local."""
    first = MPI.Get_library_version().strip("\0").split("\n")[0].split(",")[0]
    return " ".join(first.replace("Version:", " ").split())


def memory_kinds() -> str | None:
    """Kinds of memory that messages may lie in, as MPI 4.1 has libraries say it: names divided by
    commas, such as "system,mpi,cuda:device"; None from one that does not say. Local.
    """
    info = MPI.COMM_WORLD.Get_info()
    try:
        return info.Get("mpi_memory_alloc_kinds")
    finally:
        info.Free()


def cuda_support() -> tuple[bool, str] | None:
    """What the library says of CUDA memory by functions beyond the standard, and the name of the
    one asked; None from a library without them. Local.
    """
    # Names are looked up in the extension of mpi4py and in the libraries that it is linked to.
    return _queried(ctypes.CDLL(MPI.__file__))


def _queried(library: Any) -> tuple[bool, str] | None:
    query = getattr(library, "MPIX_GPU_query_support", None)
    if query is not None:
        supported = ctypes.c_int(0)
        failed = query(ctypes.c_int(_MPIX_GPU_SUPPORT_CUDA), ctypes.byref(supported))
        return not failed and bool(supported.value), "MPIX_GPU_query_support"
    query = getattr(library, "MPIX_Query_cuda_support", None)
    return None if query is None else (bool(query()), "MPIX_Query_cuda_support")


def world() -> MpiCommunicator:
    """All ranks of the job."""
    return of(MPI.COMM_WORLD)


def of(comm: MPI.Intracomm) -> MpiCommunicator:
    """The duplicate of a user's communicator, made at the first call and kept with it. Collective.

    The duplicate hangs on the user's communicator as an MPI attribute: any number of grids share
    one duplicate. It outlives a user's `Free`, since grids may still need it, and is freed when
    another is made after all went that hold its handle: grids, requests, users of `handle`.
    """
    found = comm.Get_attr(_attribute())
    if isinstance(found, MpiCommunicator):
        return found
    _free_dropped()
    _free_abandoned(comm)
    own = comm.Dup()
    made = MpiCommunicator(own)
    name = comm.bcast((MPI.COMM_WORLD.rank, next(_numbers)))
    # Another object for the same handle: with this one in it the entry would hold what it watches.
    weakref.finalize(own, _abandoned.append, (name, MPI.Intracomm(own))).atexit = False
    comm.Set_attr(_attribute(), made)
    return made


#: Duplicates that nothing on this rank holds any more, each with a name that all its ranks know.
_abandoned: deque[tuple[tuple[int, int], MPI.Intracomm]] = deque()
_numbers = itertools.count()


def _free_abandoned(comm: MPI.Intracomm) -> None:
    """Free those duplicates with the ranks of `comm` that all of them abandoned. Collective.

    The garbage collectors of ranks differ: what only some have abandoned waits for another call.
    """
    group = comm.Get_group()
    known = [_abandoned.popleft() for _ in range(len(_abandoned))]
    here = dict(entry for entry in known if _has_ranks(entry[1], group))
    group.Free()
    common = set(here).intersection(*comm.allgather(set(here)))
    for name in sorted(common):
        here[name].Free()
    _abandoned.extend(entry for entry in known if entry[0] not in common)


def _has_ranks(comm: MPI.Intracomm, ranks: MPI.Group) -> bool:
    group = comm.Get_group()
    same = MPI.Group.Compare(group, ranks) != MPI.UNEQUAL
    group.Free()
    return same


@functools.cache
def _attribute() -> int:
    return MPI.Comm.Create_keyval()


Wait = Callable[[Sequence[MPI.Request]], Any]


def _sleeping_wait(requests: Sequence[MPI.Request]) -> None:
    """Wait for requests, sleeping a moment between looks."""
    for _ in range(_LOOKS_BEFORE_SLEEP):
        if MPI.Request.Testall(requests):
            return
    while not MPI.Request.Testall(requests):
        time.sleep(1e-6)


_LOOKS_BEFORE_SLEEP = 20


def _is_crowded(comm: MPI.Intracomm) -> bool:
    """Whether this node has more ranks of the communicator than processors. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    crowded = node.size > (os.cpu_count() or 1)
    node.Free()
    return crowded


def _wait_for(crowded: bool) -> Wait:
    """How to wait: the library's way, unless it would spin on a processor that others need.

    With 8 ranks on 2 cores an all-reduce of one number took 5 ms under MPICH's spinning waits and
    0.6 ms when they sleep. Open MPI sees for itself that it is crowded, and needs 0.05 to 0.1 ms.
    """
    yields_itself = MPI.Get_library_version().startswith("Open MPI")
    return _sleeping_wait if crowded and not yields_itself else MPI.Request.Waitall


class MpiRequest:
    """Messages under way."""

    __slots__ = ("_requests", "_wait")

    def __init__(self, requests: Sequence[MPI.Request], wait: Wait) -> None:
        self._requests = requests
        self._wait = wait

    def test(self) -> bool:
        return MPI.Request.Testall(self._requests)

    def wait(self) -> None:
        self._wait(self._requests)


class MpiExchange:
    """Persistent sends and receives; a start must have completed before the next."""

    def __init__(self, requests: list[MPI.Prequest], used: Any, wait: Wait) -> None:
        self._requests = requests
        self._request = MpiRequest(requests, wait)
        # The requests point into what they use, which lives as long as they do: the buffers and the
        # handle. Not the communicator, which may keep this.
        weakref.finalize(self, _dropped.append, (requests, used)).atexit = False

    def start(self) -> Request:
        MPI.Prequest.Startall(self._requests)
        return self._request


#: Requests whose owners are gone, and what they use, until they can be freed.
_dropped: deque[tuple[Sequence[MPI.Request], Any]] = deque()


def _free_dropped() -> None:
    """Free the requests of exchanges that are gone, and the memory of reductions. Local.

    Called from time to time instead of when they go: the garbage collector may run on any thread.
    """
    for _ in range(len(_dropped)):
        requests, used = _dropped.popleft()
        if MPI.Request.Testall(requests):
            for request in filter(None, requests):  # those of reductions are gone when complete
                request.Free()
        else:
            _dropped.append((requests, used))


def _all_parts(transfers: Sequence[Transfer], limit: int) -> Iterator[tuple[int, Any]]:
    return ((rank, part) for rank, buffer in transfers for part in _parts(buffer, limit))


def _parts(buffer: Any, limit: int) -> Iterator[Any]:
    """The buffer as messages of at most `limit` bytes; none if it is empty.

    Memory of a device, which NumPy does not know, is taken by the interface that it offers.
    """
    if isinstance(buffer, np.ndarray):
        octets = buffer.reshape(-1).view(np.uint8)
        for start in range(0, octets.size, limit):
            yield [octets[start : start + limit], MPI.BYTE]
        return
    memory = MPI.buffer(buffer)  # cannot be sliced: the host may not look into it
    for start in range(0, memory.nbytes, limit):
        size = min(limit, memory.nbytes - start)
        yield [MPI.buffer.fromaddress(memory.address + start, size), MPI.BYTE]


class MpiReduction(MpiRequest):
    """An all-reduce under way; `used` is what the library reads until all is done."""

    __slots__ = ("_received", "_used")

    def __init__(
        self, requests: Sequence[MPI.Request], received: HostArray, used: Any, wait: Wait
    ) -> None:
        super().__init__(requests, wait)
        self._received = received
        self._used = used

    def __del__(self) -> None:
        if any(self._requests):
            _dropped.append((self._requests, (self._used, self._received)))

    def result(self) -> HostArray:
        self.wait()
        return self._received


def _operation(values: HostArray, op: str) -> MPI.Op:
    return (_BOOLEAN_OPERATIONS if values.dtype == bool else _OPERATIONS)[op]


class MpiCommunicator:
    """Ranks of an MPI communicator that belongs to the library alone.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator that nobody else sends on.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        self.on_devices: dict[tuple[str, str], Any] = {}
        self.kept: dict[str, Any] = {}
        # Both must be the same on all ranks: they decide which calls are made.
        self._limit = comm.allreduce(message_limit(), MPI.MIN)
        self.crowded: bool = comm.allreduce(_is_crowded(comm), MPI.LOR)
        self._wait = _wait_for(self.crowded)
        if MPI.COMM_WORLD.size > 1:
            failure.install(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, _end_all)

    @property
    def handle(self) -> MPI.Intracomm:
        return self._comm

    def __repr__(self) -> str:
        return f"MpiCommunicator(rank={self.rank}, size={self.size})"

    def barrier(self) -> None:
        self._wait([self._comm.Ibarrier()])

    def bcast(self, value: Any, root: int = 0) -> Any:
        packed = pickle.dumps(value) if self.rank == root else b""
        length = np.array([len(packed)], np.int64)
        self.broadcast(length, root)
        if self.rank == root:
            octets = np.frombuffer(packed, np.uint8)
        else:
            octets = np.empty(int(length[0]), np.uint8)
        self.broadcast(octets, root)
        return value if self.rank == root else pickle.loads(octets.tobytes())

    def broadcast(self, values: HostArray, root: int = 0) -> None:
        for part in _parts(values, self._limit):
            self._wait([self._comm.Ibcast(part, root)])

    def allgather(self, value: Any) -> list[Any]:
        return self._comm.allgather(value)

    def allreduce(self, values: HostArray, op: str) -> HostArray:
        if self._wait is _sleeping_wait:
            return self.begin_allreduce(values, op).result()
        sent, received, parts = self._reduction(values)
        for part, into in parts:
            self._comm.Allreduce(part, into, _operation(sent, op))
        return received

    def begin_allreduce(self, values: HostArray, op: str) -> PendingReduction:
        sent, received, parts = self._reduction(values)
        requests = [self._comm.Iallreduce(part, into, _operation(sent, op)) for part, into in parts]
        return MpiReduction(requests, received, (self._comm, sent), self._wait)

    def _reduction(
        self, values: HostArray
    ) -> tuple[HostArray, HostArray, list[tuple[HostArray, HostArray]]]:
        """A copy of the operands, room for the result, and both in parts of limited size."""
        sent = np.array(values, order="C")
        received = np.empty_like(sent)
        flat, into = sent.reshape(-1), received.reshape(-1)
        count = max(1, self._limit // sent.itemsize)
        starts = range(0, sent.size, count)
        return sent, received, [(flat[i : i + count], into[i : i + count]) for i in starts]

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        _free_dropped()
        requests = [
            self._comm.Recv_init(part, rank, _HALO_TAG)
            for rank, part in _all_parts(receives, self._limit)
        ] + [
            self._comm.Send_init(part, rank, _HALO_TAG)
            for rank, part in _all_parts(sends, self._limit)
        ]
        return MpiExchange(requests, (self._comm, sends, receives), self._wait)

    def exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        self._wait(
            [
                self._comm.Irecv(part, rank, _EXCHANGE_TAG)
                for rank, part in _all_parts(receives, self._limit)
            ]
            + [
                self._comm.Isend(part, rank, _EXCHANGE_TAG)
                for rank, part in _all_parts(sends, self._limit)
            ]
        )

    def shared_memory(self, nbytes: Callable[[int], int]) -> shared.SharedMemory | None:
        """Memory of this node, as many bytes as `nbytes` says for its number of ranks; None on all
        ranks where some of them cannot have it. Collective.
        """
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        ranks = node.allgather(self.rank)
        path = node.bcast(shared.create(nbytes(len(ranks))) if node.rank == 0 else None)
        memory = shared.attach(path)
        everywhere = self._comm.allreduce(memory is not None, MPI.LAND)
        if node.rank == 0:
            shared.remove(path)
        node.Free()
        return shared.SharedMemory(ranks, memory) if everywhere and memory is not None else None

    def progress(self) -> None:
        """Let messages progress, for others that wait for them. Local."""
        self._comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)

    def agree(self, error: Exception | None) -> None:
        failed = np.array([self.size if error is None else self.rank], np.int64)
        first = int(self.allreduce(failed, "min")[0])
        if first == self.size:
            return
        theirs: Exception = self.bcast(error and _portable(error, self.rank), first)
        if self.rank == first and error is not None:
            raise error
        raise theirs

    def write_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        mpi_files.write_blocks(self, self._limit, path, pieces)

    def read_blocks(self, path: str, pieces: Iterable[BlockPiece]) -> None:
        mpi_files.read_blocks(self, self._limit, path, pieces)


def _portable(error: Exception, rank: int) -> Exception:
    """A copy of the error that other ranks can rebuild, with the traceback of its rank."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a user's exception class does when it is rebuilt
        copy = CommunicationError(f"{type(error).__name__}: {error}")
    if error.__traceback__ is not None:
        copy.add_note(
            f"It was raised on rank {rank}:\n{''.join(traceback.format_exception(error))}"
        )
    return copy  # type: ignore[no-any-return]


def _end_all(code: int) -> None:
    """End every rank of the job. Local."""
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.COMM_WORLD.Abort(code)
    os._exit(code)
