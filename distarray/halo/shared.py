"""Messages between ranks of a node through memory that they share, without MPI.

For each ordered pair of ranks there are SLOTS places, taken in turn, for a message each. The sender
packs straight into one and marks it full with the number of the message; the receiver waits for
that number, unpacks straight from there, and marks it empty with the same number, for which the
sender waits before it takes the place again. Marks are stored after what they stand for, and read
before it (release and acquire). Messages pair by order, as those of MPI do: both ranks count them,
so it does not matter which exchange they belong to, nor whether it was made anew.

A message goes by MPI where it is larger than a place, or where its place is held by an exchange
that is begun and not finished. Both ranks know that alike, since they begin and finish exchanges in
the same order. Who waits lets MPI progress, so that a rank that waits for a message of MPI, or for
a reduction, is not held up; and Python code runs in between, so that signals are seen.

`DISTARRAY_SHARED_MEMORY=0` leaves all messages to MPI.
"""

from __future__ import annotations

import ctypes
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import copies
from distarray.backends.base import Backend, CopyList
from distarray.block import Block
from distarray.comm.base import Communicator, PersistentExchange, Request, Transfer
from distarray.halo.buffers import MessageBuffers
from distarray.halo.plan import HaloPlan, Message

#: Places for messages from one rank to another: one is filled while another is read.
SLOTS = 2
#: Bytes of a place at most, and of all places of a node.
MOST_BYTES, NODE_BYTES = 1 << 20, 32 << 20
#: Below so many bytes for a place, sharing is not worth it.
LEAST_BYTES = 1 << 12
_PAGE = 1 << 12
_LINE = 64
#: Looks at a mark before MPI is given a chance: some microseconds.
_LOOKS = 500
_SLEEP = 1e-6

SOURCE = """\
#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic int64_t mark;
typedef void copier(const void *copies, int64_t count);

/* One side of a message. `number` and `slot` are those of the message under way, 0 for none. The
   channel holds the number of its last message and, for each place, whether it is held. */
struct side {
  int64_t incoming, number, slot, *channel;
  struct { mark *full, *empty; const void *copies; int64_t count; } place[SLOTS];
};

static int await(mark *at, int64_t number, int64_t looks) {
  for (;;) {
    if (atomic_load_explicit(at, memory_order_acquire) >= number) return 1;
    if (--looks <= 0) return 0;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
}

/* Takes places for all sides from `first` on, and sends what goes out. Gives their number when all
   is done, a side that waits for room after some looks, or -1 - side where its place is held. */
int64_t distarray_begin(struct side *sides, int64_t count, copier *copy, int64_t looks,
                        int64_t first) {
  for (int64_t i = first; i < count; i++) {
    struct side *s = sides + i;
    if (!s->number) {
      const int64_t number = s->channel[0] + 1, slot = number % SLOTS;
      if (s->channel[1 + slot]) return -1 - i;
      s->channel[0] = s->number = number;
      s->channel[1 + slot] = 1;
      s->slot = slot;
    }
    if (s->incoming) continue;
    if (!await(s->place[s->slot].empty, s->number - SLOTS, looks)) return i;
    copy(s->place[s->slot].copies, s->place[s->slot].count);
    atomic_store_explicit(s->place[s->slot].full, s->number, memory_order_release);
  }
  return count;
}

/* The first side from `first` on that still waits for its message after some looks, or `count`. */
int64_t distarray_wait(struct side *sides, int64_t count, int64_t looks, int64_t first) {
  for (int64_t i = first; i < count; i++)
    if (sides[i].incoming && sides[i].number
        && !await(sides[i].place[sides[i].slot].full, sides[i].number, looks))
      return i;
  return count;
}

/* Unpacks what came in, and gives all places back. */
void distarray_finish(struct side *sides, int64_t count, copier *copy) {
  for (struct side *s = sides; s < sides + count; s++) {
    if (!s->number) continue;
    if (s->incoming) {
      copy(s->place[s->slot].copies, s->place[s->slot].count);
      atomic_store_explicit(s->place[s->slot].empty, s->number, memory_order_release);
    }
    s->channel[1 + s->slot] = s->number = 0;
  }
}
""".replace("SLOTS", str(SLOTS))
_FIRST = ctypes.c_int64(0)
_FUNCTIONS = {
    "distarray_begin": ctypes.c_int64,
    "distarray_wait": ctypes.c_int64,
    "distarray_finish": None,
}


class Channel:
    """The places for messages from one rank to another, as one of the two sees them.

    Attributes
    ----------
    places : sequence of ndarray of bytes
    full, empty : sequence of addresses of marks
    state : ndarray of int64
        As `struct side` says of channels.
    """

    def __init__(self, memory: HostArray) -> None:
        heads, data = memory[:_PAGE], memory[_PAGE:].reshape(SLOTS, -1)
        self.places = [data[slot] for slot in range(SLOTS)]
        self.full, self.empty = (
            [heads.ctypes.data + (2 * slot + k) * _LINE for slot in range(SLOTS)] for k in (0, 1)
        )
        self.state = np.zeros(1 + SLOTS, np.int64)


class Channels:
    """Those between this rank and others of its node.

    Attributes
    ----------
    nbytes : int
        Of the largest message.
    outgoing, incoming : dict of rank to Channel
    functions : sequence of compiled functions
        The one that makes copies first.
    """

    def __init__(
        self, ranks: Sequence[int], here: int, memory: HostArray, functions: Sequence[Any]
    ) -> None:
        pairs = [(a, b) for a in ranks for b in ranks if a != b]
        parts = memory.reshape(len(pairs), -1) if pairs else memory[:0]
        self.nbytes = _place_bytes(len(ranks))
        self.functions = functions
        self.outgoing: dict[int, Channel] = {}
        self.incoming: dict[int, Channel] = {}
        for (source, target), part in zip(pairs, parts, strict=True):
            if source == here:
                self.outgoing[target] = Channel(part)
            elif target == here:
                self.incoming[source] = Channel(part)


def _place_bytes(ranks: int) -> int:
    """Bytes of each place on a node of so many ranks."""
    share = min(MOST_BYTES, NODE_BYTES // max(1, ranks * (ranks - 1) * SLOTS))
    return share // _PAGE * _PAGE


def _node_bytes(ranks: int) -> int:
    return ranks * (ranks - 1) * (_PAGE + SLOTS * _place_bytes(ranks))


def channels(communicator: Communicator, backend: Backend) -> Channels | None:
    """The channels of these ranks, made at the first call and kept with the communicator; None
    where messages go by MPI alone. Collective.
    """
    if not backend.host or getattr(communicator, "shared_memory", None) is None:
        return None
    kept = communicator.on_devices
    if (backend.name, "shared") not in kept:
        kept[backend.name, "shared"] = _made(communicator, backend)
    found: Channels | None = kept[backend.name, "shared"]
    return found


def _made(communicator: Any, backend: Backend) -> Channels | None:
    functions = [copies.compiled(), *(backend.load(SOURCE, name) for name in _FUNCTIONS)]
    for function, result in zip(functions[1:], _FUNCTIONS.values(), strict=True):
        if function is not None:  # one function for all communicators, also those without memory
            function.restype = result
    wanted = os.environ.get("DISTARRAY_SHARED_MEMORY") != "0" and None not in functions
    if not communicator.allreduce(np.array([wanted]), "min")[0]:
        return None
    found = communicator.shared_memory(_node_bytes)
    if found is None or _place_bytes(len(found.ranks)) < LEAST_BYTES:
        return None
    memory = found.memory[: _node_bytes(len(found.ranks))]
    return Channels(found.ranks, communicator.rank, memory, functions)


class _ByMpi:
    """A side whose place is held: its message, by MPI and a buffer of its own."""

    def __init__(self, transfer: Transfer, copies: CopyList, *, incoming: bool) -> None:
        self.transfer, self.copies, self.incoming = transfer, copies, incoming
        self._messages: PersistentExchange | None = None

    def start(self, communicator: Communicator) -> Request:
        if self._messages is None:
            sends, receives = ([], [self.transfer]) if self.incoming else ([self.transfer], [])
            self._messages = communicator.prepare_exchange(sends, receives)
        if not self.incoming:
            self.copies()
        return self._messages.start()


class SharedExchange:
    """The messages of a plan, those to other nodes by MPI; a `PersistentExchange` and its request,
    with packing and unpacking. Creation is Local.

    Parameters
    ----------
    plan : HaloPlan
    blocks : sequence of Block
        Only their memory is kept.
    communicator : Communicator
    channels : Channels
    """

    def __init__(
        self,
        plan: HaloPlan,
        blocks: Sequence[Block],
        communicator: Communicator,
        channels: Channels,
    ) -> None:
        self._communicator: Any = communicator
        backend = blocks[0].backend
        near_sends, far_sends = _divided(plan.sends, channels.outgoing, channels.nbytes)
        near_receives, far_receives = _divided(plan.receives, channels.incoming, channels.nbytes)
        sides = [(channels.outgoing[m.rank], m, False) for m in near_sends]
        sides += [(channels.incoming[m.rank], m, True) for m in near_receives]
        made = [_side(channels.functions[0], *side, blocks) for side in sides]
        self._held = [by_mpi for _, by_mpi, *_ in made]
        self._table = np.array([row for row, *_ in made], np.int64)
        self._kept = sides, made
        self._requests: list[Request] = []
        self._late: list[_ByMpi] = []
        self._prepare_calls(channels)
        self._far: PersistentExchange | None = None
        if far_sends or far_receives:
            sent = MessageBuffers(far_sends, blocks, backend)
            received = MessageBuffers(far_receives, blocks, backend)
            self._far = communicator.prepare_exchange(sent.transfers, received.transfers)
            self._pack_far = backend.prepare_copies(sent.packing())
            self._unpack_far = backend.prepare_copies(received.unpacking())

    def _prepare_calls(self, channels: Channels) -> None:
        """Arguments of the compiled functions, converted once."""
        copier, begin, wait, finish = channels.functions
        sides, copy = ctypes.c_void_p(self._table.ctypes.data), ctypes.cast(copier, ctypes.c_void_p)
        count, once = ctypes.c_int64(len(self._table)), ctypes.c_int64(1)
        looks = once if self._communicator.crowded else ctypes.c_int64(_LOOKS)
        self._count = len(self._table)
        self._begin = functools.partial(begin, sides, count, copy, looks)
        self._wait = functools.partial(wait, sides, count, looks)
        self._look = functools.partial(wait, sides, count, once, ctypes.c_int64(0))
        self._finish = functools.partial(finish, sides, count, copy)

    def pack(self) -> None:
        """Pack all messages; those for ranks of this node are sent by that. Local."""
        if self._far is not None:
            self._pack_far()
        done = self._begin(_FIRST)
        while done != self._count:
            if done < 0:
                done = -1 - done
                late = self._held[done]
                self._late.append(late)
                self._requests.append(late.start(self._communicator))
                done += 1
            else:
                self._pause()
            done = self._begin(ctypes.c_int64(done))

    def start(self) -> Request:
        """Start the others. Local."""
        if self._far is not None:
            self._requests.append(self._far.start())
        return self

    def test(self) -> bool:
        """See `comm.base.Request`. Local."""
        arrived = [request.test() for request in self._requests]  # all of them, so that all go on
        return self._look() == self._count and all(arrived)

    def wait(self) -> None:
        """See `comm.base.Request`. Local."""
        done = self._wait(_FIRST)
        while done != self._count:
            self._pause()
            done = self._wait(ctypes.c_int64(done))
        for request in self._requests:
            request.wait()

    def unpack(self) -> None:
        """Put all that arrived into the blocks. Local."""
        self._finish()
        if self._far is not None:
            self._unpack_far()
        for late in self._late:
            if late.incoming:
                late.copies()
        self._requests, self._late = [], []

    def _pause(self) -> None:
        """Let others go on: MPI, and ranks on the same processor."""
        self._communicator.progress()
        if self._communicator.crowded:
            time.sleep(_SLEEP)


def _divided(
    messages: Sequence[Message], known: Mapping[int, Channel], nbytes: int
) -> tuple[list[Message], list[Message]]:
    """Those that fit into places of a channel, and the others."""
    near = [m for m in messages if m.rank in known and m.nbytes <= nbytes]
    return near, [m for m in messages if m not in near]


def _side(
    copier: Any, channel: Channel, message: Message, incoming: bool, blocks: Sequence[Block]
) -> tuple[list[int], _ByMpi, list[Any]]:
    """A row of the table of sides, the same message by MPI, and what has to be kept."""
    backend = blocks[0].backend
    buffer = backend.buffer(message.nbytes)
    first, *others = (*channel.places, buffer)
    buffers = MessageBuffers([message], blocks, backend, places=[first])
    # Not as the backend would by now: all ranks go by what was compiled when channels were made.
    made = [copies.prepare_by(copier, buffers.unpacking() if incoming else buffers.packing())]
    for place in others:
        beyond = place.ctypes.data - first.ctypes.data
        made.append(made[0].moved(*((beyond, 0) if incoming else (0, beyond))))
    row = [int(incoming), 0, 0, channel.state.ctypes.data]
    for full, empty, one in zip(channel.full, channel.empty, made[:SLOTS], strict=True):
        row += [full, empty, one.table.ctypes.data, len(one.table)]
    return row, _ByMpi((message.rank, buffer), made[-1], incoming=incoming), made
