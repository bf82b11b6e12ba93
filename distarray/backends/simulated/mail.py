"""Messages of the stand-in for NCCL, sent by a communicator of the host.

They leave when a group's work is given, from host memory of this module's own, and are looked at
when the work runs: ranks run their work at different times, and no rank may wait for one that has
yet to look at its streams.
"""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.driver import Access
from distarray.errors import CommunicationError

#: Numbers before each message: how many came before it from that rank, the number of its elements,
#: the place of their type, and whether a graph sent it.
_HEADER_NUMBERS = 4
_HEADER = _HEADER_NUMBERS * np.dtype(np.int64).itemsize
#: Kinds of groups whose buffers are kept for the next of the kind.
_KINDS = 64


class Request(Protocol):
    """See `comm.base.Request`."""

    def wait(self) -> None: ...


class Exchange(Protocol):
    """See `comm.base.PersistentExchange`."""

    def start(self) -> Request: ...


class Ranks(Protocol):
    """What is needed of a communicator; see `comm.base.Communicator`."""

    def allgather(self, value: Any) -> list[Any]: ...

    def prepare_exchange(
        self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]
    ) -> Exchange: ...


@dataclass(frozen=True)
class Message:
    """What goes to or comes from one rank.

    Attributes
    ----------
    peer : int
    count : int
        Number of elements.
    dtype : dtype
    access : Access or None
        What is sent, or where what was received is put; None for an operand of a reduction.
    """

    peer: int
    count: int
    dtype: np.dtype[Any]
    access: Access | None

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class Reduction:
    """Receives of a group, one from each rank in order, that are reduced into `target`."""

    operands: range
    target: Access
    function: np.ufunc
    dtype: np.dtype[Any]


@dataclass
class Group:
    """Calls that begin together."""

    names: set[str] = field(default_factory=set)
    streams: set[int] = field(default_factory=set)
    sends: list[Message] = field(default_factory=list)
    receives: list[Message] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    failed: bool = False

    def accesses(self) -> list[Access]:
        """What the calls read and write. Local."""
        messages = [m.access for m in (*self.sends, *self.receives) if m.access is not None]
        return [*messages, *(reduction.target for reduction in self.reductions)]


class _Envelopes:
    """Host memory for the messages of one kind of group, and their exchange."""

    def __init__(self, sends: Sequence[Message], receives: Sequence[Message], ranks: Ranks) -> None:
        self.sent = [np.zeros(_HEADER + message.nbytes, np.uint8) for message in sends]
        self.received = [np.zeros(_HEADER + message.nbytes, np.uint8) for message in receives]
        self.exchange = ranks.prepare_exchange(
            [(m.peer, buffer) for m, buffer in zip(sends, self.sent, strict=True)],
            [(m.peer, buffer) for m, buffer in zip(receives, self.received, strict=True)],
        )


class Mail:
    """The messages of one rank. All methods are Local: what a message needs of others, its work
    waits for.

    Attributes
    ----------
    under_way : int
        Groups that were given and have not run.
    """

    def __init__(self, rank: int, ranks: Ranks) -> None:
        self.rank = rank
        self.under_way = 0
        self._ranks = ranks
        self._free: dict[Any, list[_Envelopes]] = defaultdict(list)
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def group(self, group: Group) -> GroupWork:
        """A group as work of a stream. Local."""
        return GroupWork(self, group)

    def envelopes(self, sends: Sequence[Message], receives: Sequence[Message]) -> _Envelopes:
        """Memory and an exchange that are not in use. Local."""
        free = self._free.get(_kind(sends, receives))
        return free.pop() if free else _Envelopes(sends, receives, self._ranks)

    def give_back(
        self, sends: Sequence[Message], receives: Sequence[Message], used: _Envelopes
    ) -> None:
        """Take back what `envelopes` gave. Local."""
        if len(self._free) >= _KINDS:
            self._free.clear()
        self._free[_kind(sends, receives)].append(used)

    def number_sent(self, peer: int) -> int:
        """The number of the next message to a rank. Local."""
        self._sent[peer] += 1
        return self._sent[peer]

    def number_received(self, peer: int) -> int:
        """The number of the next message from a rank. Local."""
        self._received[peer] += 1
        return self._received[peer]


def _kind(sends: Sequence[Message], receives: Sequence[Message]) -> Any:
    return tuple((m.peer, m.nbytes) for m in sends), tuple((m.peer, m.nbytes) for m in receives)


@dataclass
class _UnderWay:
    """A group whose messages have left."""

    own: list[HostArray]
    envelopes: _Envelopes | None
    request: Request | None
    numbers: list[int]
    captured: bool


class GroupWork:
    """A group as work of a stream: `post` when it is given, `deliver` when it runs."""

    def __init__(self, mail: Mail, group: Group) -> None:
        self._mail = mail
        self._own = [message for message in group.sends if message.peer == mail.rank]
        self._sends = [message for message in group.sends if message.peer != mail.rank]
        self._others = [message for message in group.receives if message.peer != mail.rank]
        self._group = group
        # A graph may give it again before it has run.
        self._under_way: deque[_UnderWay] = deque()

    def post(self, captured: bool) -> None:
        """Send everything, from a graph (`captured`) or not. Local."""
        mail = self._mail
        mail.under_way += 1
        own = [_bytes(message) for message in self._own]
        envelopes = request = None
        if self._sends or self._others:
            envelopes = mail.envelopes(self._sends, self._others)
            for message, buffer in zip(self._sends, envelopes.sent, strict=True):
                number = mail.number_sent(message.peer)
                header = (number, message.count, message.dtype.num, captured)
                buffer[:_HEADER].view(np.int64)[:] = header
                buffer[_HEADER:] = _bytes(message)
            request = envelopes.exchange.start()
        numbers = [mail.number_received(message.peer) for message in self._others]
        self._under_way.append(_UnderWay(own, envelopes, request, numbers, captured))

    def deliver(self) -> None:
        """Wait for what was sent here and put it where it belongs. Collective over those concerned.

        Raises
        ------
        CommunicationError
            What arrived is not what is received here.
        """
        found = self._under_way.popleft()
        self._mail.under_way -= 1
        received = self._received(found)
        for message, values in zip(self._group.receives, received, strict=True):
            if message.access is not None:
                ctypes.memmove(message.access.address, values.ctypes.data, values.nbytes)
        for reduction in self._group.reductions:
            with np.errstate(all="ignore"):
                operands = [received[i].view(reduction.dtype) for i in reduction.operands]
                result = operands[0].copy()
                for operand in operands[1:]:
                    reduction.function(result, operand, out=result)
            ctypes.memmove(reduction.target.address, result.ctypes.data, result.nbytes)
        if found.envelopes is not None:
            self._mail.give_back(self._sends, self._others, found.envelopes)

    def _received(self, found: _UnderWay) -> list[HostArray]:
        """The bytes of all receives of the group, in order."""
        if found.request is not None:
            found.request.wait()
        own = iter(found.own)
        buffers = iter(found.envelopes.received if found.envelopes is not None else ())
        numbers = iter(found.numbers)
        return [
            next(own)
            if message.peer == self._mail.rank
            else _opened(message, next(buffers), next(numbers), captured=found.captured)
            for message in self._group.receives
        ]


def _bytes(message: Message) -> HostArray:
    """A copy of what is sent."""
    address = cast("Access", message.access).address
    return np.frombuffer(ctypes.string_at(address, message.nbytes), np.uint8)


def _opened(message: Message, buffer: HostArray, number: int, *, captured: bool) -> HostArray:
    """The contents of a message that is the one expected."""
    expected = [number, message.count, message.dtype.num]
    *found, sent_captured = buffer[:_HEADER].view(np.int64).tolist()
    if sent_captured != captured:
        kinds = {True: "by a graph", False: "by a call"}
        raise CommunicationError(
            f"NCCL takes messages of graphs and of calls for different ones, but message {number} "
            f"was sent by rank {message.peer} {kinds[bool(sent_captured)]} and received "
            f"{kinds[captured]}; capture the same work on all ranks."
        )
    if found != expected:
        raise CommunicationError(
            f"NCCL pairs messages by order alone, but message {expected[0]} from rank "
            f"{message.peer}, of {message.count} elements of {message.dtype}, met its message "
            f"{found[0]} of {found[1]} elements of type {found[2]}; send and receive the same in "
            "the same order."
        )
    return buffer[_HEADER:]
