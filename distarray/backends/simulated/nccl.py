"""Stands in for NCCL on the simulated device, with what the library documents and no more.

Calls are work of a stream. Those of a group begin together; messages between two ranks pair by
order alone, whatever they are called. What the library refuses, or would hang or crash on, is
refused here: no elements, other types than its own, addresses that are not device memory, ranks
that do not exist, messages outside of a group, a send to itself without the receive, calls after
the end. What travels, and when, is in `mail`.
"""

# Parameter lists are those of the library.
# ruff: noqa: PLR0917

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.backends.driver import Access
from distarray.backends.simulated.mail import Group, Mail, Message, Ranks, Reduction
from distarray.backends.simulated.memory import SimulatedAllocation
from distarray.backends.simulated.schedule import Work
from distarray.errors import CommunicationError

if TYPE_CHECKING:
    from distarray.backends.simulated.driver import SimulatedDriver

DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
#: NaN loses in min and max, as in the library.
OPERATIONS = {"sum": np.add, "prod": np.multiply, "min": np.fmin, "max": np.fmax}

#: 10000 * major + 100 * minor + patch.
VERSION = 23000
_IDENTITY_BYTES = 128


class StandInBinding:
    """The library, as one process sees it; its methods are documented at `comm.nccl.Binding`."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver
        self.device = f"simulated {os.uname().nodename} {os.getpid()}"

    def version(self) -> int:
        return VERSION

    def require_ready(self) -> None:
        return None

    def unique_id(self) -> bytes:
        return os.urandom(_IDENTITY_BYTES)

    def connect(self, size: int, identity: bytes, rank: int, communicator: Ranks) -> StandInRanks:
        """This rank of the group. Collective.

        Raises
        ------
        CommunicationError
            The ranks do not fit together, or two are on one device while
            `NCCL_MULTI_RANK_GPU_ENABLE=1` is not set.
        """
        known = communicator.allgather((size, identity, rank, self.device))
        fitting = [(len(known), identity, r) for r in range(len(known))]
        if [given[:3] for given in known] != fitting or len(identity) != _IDENTITY_BYTES:
            raise CommunicationError(
                "NCCL connects ranks 0 to size - 1 that pass the same size and the same name of "
                f"{_IDENTITY_BYTES} bytes, not (size, rank) "
                f"{[(given[0], given[2]) for given in known]} with {len({g[1] for g in known})} "
                "names; pass what rank 0 was given by unique_id."
            )
        shared = len({device for *_, device in known}) < len(known)
        if shared and os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1":
            raise CommunicationError(
                "NCCL connects no two ranks of one device; set NCCL_MULTI_RANK_GPU_ENABLE=1, or "
                "use transport='staged'."
            )
        return StandInRanks(self._driver, size, rank, communicator)


class StandInRanks:
    """One rank of a connected group. Its methods are documented, and Collective or Local, as those
    of `comm.nccl.NcclRanks`; all give their work and return.
    """

    def __init__(self, driver: SimulatedDriver, size: int, rank: int, communicator: Ranks) -> None:
        self._driver = driver
        self._size = size
        self._rank = rank
        self._mail = Mail(rank, communicator)
        self._depth = 0
        self._group = Group()
        self._destroyed = False

    # ---- messages

    def group_start(self) -> None:
        self.check()
        self._depth += 1

    def group_end(self) -> None:
        self.check()
        _require(self._depth > 0, "takes no group_end without group_start", "call both")
        self._depth -= 1
        if self._depth == 0:
            group, self._group = self._group, Group()
            self._begin(group)

    def send(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        with self._call("send and receive", stream) as group:
            self._require_group("send", peer)
            self._give(group, [peer], pointer, count, dtype)

    def recv(self, pointer: int, count: int, dtype: str, peer: int, stream: int) -> None:
        with self._call("send and receive", stream) as group:
            self._require_group("recv", peer)
            self._take(group, [peer], pointer, count, dtype)

    def _require_group(self, name: str, peer: int) -> None:
        _require(
            self._depth > 0,
            f"can wait for ever in a {name} outside of a group, for a rank that does the same",
            "enclose it in group_start and group_end",
        )
        self._require_rank(peer)

    # ---- collectives

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        with self._call("all_reduce", stream) as group:
            self._give(group, range(self._size), send, count, dtype)
            self._reduce(group, recv, count, dtype, op)

    def reduce(
        self, send: int, recv: int, count: int, dtype: str, op: str, root: int, stream: int
    ) -> None:
        with self._call("reduce", stream) as group:
            self._require_rank(root)
            self._give(group, [root], send, count, dtype)
            if self._rank == root:
                self._reduce(group, recv, count, dtype, op)

    def all_gather(self, send: int, recv: int, count: int, dtype: str, stream: int) -> None:
        with self._call("all_gather", stream) as group:
            self._give(group, range(self._size), send, count, dtype)
            self._take(group, range(self._size), recv, count, dtype)

    def reduce_scatter(
        self, send: int, recv: int, count: int, dtype: str, op: str, stream: int
    ) -> None:
        with self._call("reduce_scatter", stream) as group:
            nbytes = count * _dtype(dtype).itemsize
            for peer in range(self._size):
                self._give(group, [peer], send + peer * nbytes, count, dtype)
            self._reduce(group, recv, count, dtype, op)

    def broadcast(
        self, send: int, recv: int, count: int, dtype: str, root: int, stream: int
    ) -> None:
        with self._call("broadcast", stream) as group:
            self._require_rank(root)
            if self._rank == root:
                self._give(group, range(self._size), send, count, dtype)
            self._take(group, [root], recv, count, dtype)

    # ---- the group's life

    def check(self) -> None:
        _require(
            not self._destroyed, "takes no call after destroy or abort", "connect the ranks anew"
        )

    def destroy(self) -> None:
        """Give everything back. Collective.

        Raises
        ------
        CommunicationError
            Work is under way.
        """
        self.check()
        _require(
            self._mail.under_way == 0 and self._depth == 0,
            "cannot be left while work is under way",
            "synchronize its streams first",
        )
        self._destroyed = True

    def abort(self) -> None:
        """Take no further call. Local."""
        self._destroyed = True

    # ---- what a call asks for

    @contextlib.contextmanager
    def _call(self, name: str, stream: int) -> Iterator[Group]:
        """The group that a call belongs to; one of its own begins at the call's end."""
        self.check()
        group = self._group if self._depth else Group()
        try:
            self._driver.stream_at(stream)
            yield group
        except Exception:
            group.failed = True
            raise
        group.names.add(name)
        group.streams.add(stream)
        if not self._depth:
            self._begin(group)

    def _give(
        self, group: Group, ranks: Iterable[int], pointer: int, count: int, dtype: str
    ) -> None:
        """Send the same elements to some ranks, this one included."""
        access = self._access(pointer, count, dtype, write=False)
        group.sends += [Message(rank, count, _dtype(dtype), access) for rank in ranks]

    def _take(
        self, group: Group, ranks: Iterable[int], pointer: int, count: int, dtype: str
    ) -> None:
        """Receive as many elements from some ranks, one after another."""
        for place, rank in enumerate(ranks):
            start = pointer + place * count * _dtype(dtype).itemsize
            access = self._access(start, count, dtype, write=True)
            group.receives.append(Message(rank, count, _dtype(dtype), access))

    def _reduce(self, group: Group, pointer: int, count: int, dtype: str, op: str) -> None:
        """Receive an operand from each rank and put what they are reduced to into memory."""
        _require(op in OPERATIONS, f"reduces by {', '.join(OPERATIONS)}, not by '{op}'", "use one")
        target = self._access(pointer, count, dtype, write=True)
        first = len(group.receives)
        kind = _dtype(dtype)
        group.receives += [Message(rank, count, kind, None) for rank in range(self._size)]
        operands = range(first, first + self._size)
        group.reductions.append(Reduction(operands, target, OPERATIONS[op], kind))

    def _access(self, pointer: int, count: int, dtype: str, *, write: bool) -> Access:
        kind = _dtype(dtype)
        _require(count >= 1, f"moves 1 element or more, not {count}", "skip the call on all ranks")
        memory = self._driver.memory_at(pointer)
        end = pointer + count * kind.itemsize
        _require(
            isinstance(memory, SimulatedAllocation) and end <= memory.address + memory.nbytes,
            f"moves device memory, not {count} elements of {dtype} at {pointer:#x}",
            "pass addresses within one allocation",
        )
        return Access(memory, pointer, (count,), (kind.itemsize,), kind.itemsize, write)  # type: ignore[arg-type]

    def _require_rank(self, rank: int) -> None:
        _require(0 <= rank < self._size, f"has ranks 0 to {self._size - 1}, not {rank}", "pass one")

    def _begin(self, group: Group) -> None:
        """Give a whole group to its stream."""
        _require(not group.failed, "begins no group of which a call failed", "correct the call")
        if not group.streams:
            return
        _require(
            len(group.streams) == 1,
            f"is used here with one stream in a group, not {len(group.streams)}",
            "use several groups",
        )
        own = [
            [(m.count, m.dtype) for m in messages if m.peer == self._rank]
            for messages in (group.sends, group.receives)
        ]
        _require(
            own[0] == own[1],
            f"pairs the messages of a rank to itself within a group, not {len(own[0])} sends with "
            f"{len(own[1])} receives or with others of other lengths",
            "send and receive the same in the same order",
        )
        if group.names == {"send and receive"}:
            _require_apart(group)
        work = self._mail.group(group)
        stream = self._driver.stream_at(next(iter(group.streams)))
        name = f"NCCL {' and '.join(sorted(group.names))}"
        stream.give(Work(work.deliver, group.accesses(), name, work.post))


def _require_apart(group: Group) -> None:
    """Refuse messages that are received over others of the group."""
    ranges = sorted(
        (access.address, access.address + access.itemsize * access.shape[0], access.write)
        for access in group.accesses()
    )
    reached, written = 0, 0
    for start, end, write in ranges:
        _require(
            start >= (reached if write else written),
            "moves the messages of a group in any order, so that none may be received over another",
            "give each its own memory",
        )
        reached = max(reached, end)
        written = max(written, end) if write else written


def _dtype(name: str) -> np.dtype[Any]:
    _require(
        name in DTYPES,
        f"has no elements of {name}",
        f"move them as one of {', '.join(DTYPES)}",
    )
    return np.dtype(name)


def _require(condition: bool, rule: str, cure: str) -> None:
    if not condition:
        raise CommunicationError(f"NCCL {rule}; {cure}.")
