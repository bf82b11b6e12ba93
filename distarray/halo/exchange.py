"""A halo plan carried out: buffers and requests made once, then replayed.

Order of one exchange, with the stream of a device that is given each step::

    begin    compute         copy what the rank owns itself
             communication   after what compute was given before: pack all messages (one call)
             -               start all messages
    poll     let messages progress; the core may be computed meanwhile
    finish   -               wait for all messages
             communication   unpack them (one call)
             compute         goes on after that

From `begin` to `finish` the halo that messages fill may change at any time, so only cells that read
none of it may be computed; what the rank copies from itself is there when `begin` returns. Owned
cells may be written from then on, unless `begin` was told that they are not.

Where the two streams are one, as on the CPU, the rank copies from itself when messages have been
started, while they are under way. The host waits for no stream here; a transport may (see
`transports`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distarray import spans
from distarray.block import Block
from distarray.comm.base import Communicator, PersistentExchange, Request
from distarray.errors import CommunicationError
from distarray.halo.buffers import MessageBuffers, local_copies
from distarray.halo.plan import HaloPlan
from distarray.halo.shared import Channels, SharedExchange

_PACKING, _SENDING, _WAITING, _UNPACKING = map(spans.tally, ("pack", "send", "wait", "unpack"))


class PendingExchange:
    """A halo exchange under way; `finish` must be called once. Local."""

    __slots__ = ("_exchange", "_request")

    def __init__(self, exchange: HaloExchange, request: Request | None) -> None:
        self._exchange = exchange
        self._request = request

    def poll(self) -> bool:
        """Let messages progress; whether all have arrived."""
        return self._request is None or self._request.test()

    def finish(self) -> None:
        """Wait for the messages and put them into the halo."""
        self._exchange._finish(self._request)
        self._request = None


class HaloExchange:
    """Fills the halo of fixed blocks by a fixed plan, any number of times.

    Parameters
    ----------
    plan : HaloPlan
    blocks : sequence of Block
        The fields of the plan, in its order, all on one backend; only their memory is kept.
    communicator : Communicator
        Ranks as the plan numbers them. Creation is Local, but all ranks must make and replay their
        exchanges in the same order.
    channels : Channels, optional
        What carries messages between ranks of a node; without any, MPI does. All ranks give theirs
        or none.
    """

    def __init__(
        self,
        plan: HaloPlan,
        blocks: Sequence[Block],
        communicator: Communicator,
        channels: Channels | None = None,
    ) -> None:
        self.plan = plan
        self._under_way = False
        self._backend = backend = blocks[0].backend
        self._copy_own = backend.prepare_copies(local_copies(plan.copies, blocks))
        self._messages: PersistentExchange | None = None
        self._pack: Callable[..., None]
        self._unpack: Callable[..., None]
        if channels is not None and (plan.sends or plan.receives):
            shared = SharedExchange(plan, blocks, communicator, channels)
            self._messages, self._pack, self._unpack = shared, shared.pack, shared.unpack
        elif plan.sends or plan.receives:
            sent = MessageBuffers(plan.sends, blocks, backend)
            received = MessageBuffers(plan.receives, blocks, backend)
            self._messages = communicator.prepare_exchange(sent.transfers, received.transfers)
            self._pack = backend.prepare_copies(sent.packing())
            self._unpack = backend.prepare_copies(received.unpacking())
        self._one_stream = backend.communication is backend.compute
        self._ready, self._packed, self._done = (backend.event() for _ in range(3))
        self._traffic = spans.tally(
            "exchange",
            messages=len(plan.sends),
            nbytes=sum(message.nbytes for message in plan.sends),
        )
        self._sent_at = 0.0

    @property
    def sends_messages(self) -> bool:
        """Whether this rank sends or receives anything."""
        return self._messages is not None

    def begin(self, *, protect: bool = True) -> PendingExchange:
        """Pack and start all messages. Collective over neighbours.

        Parameters
        ----------
        protect : bool
            Let work of compute wait until all is packed. Without it no owned cell of the fields may
            be written before `finish`.

        Raises
        ------
        CommunicationError
            The last exchange is not finished.
        """
        if self._under_way:
            raise CommunicationError(
                "A halo exchange was begun again before it was finished; "
                "finish the pending exchange first."
            )
        request: Request | None = None
        if self._messages is not None:
            start = spans.enter(_PACKING)
            if self._one_stream:
                self._pack()
            else:
                self._give_packing(protect=protect)
            spans.leave(_PACKING, start)
            self._sent_at = spans.enter(self._traffic)
            start = spans.enter(_SENDING)
            request = self._messages.start()
            spans.leave(_SENDING, start)
        if self.plan.copies and (self._one_stream or request is None):
            start = spans.enter(_PACKING)
            self._copy_own()
            spans.leave(_PACKING, start)
        self._under_way = True
        return PendingExchange(self, request)

    def _give_packing(self, *, protect: bool) -> None:
        """Give both streams of a device all that comes before the messages."""
        compute, communication = self._backend.compute, self._backend.communication
        compute.record(self._ready)
        self._copy_own()
        communication.wait(self._ready)
        self._pack(communication)
        if protect:
            communication.record(self._packed)
            compute.wait(self._packed)

    def _finish(self, request: Request | None) -> None:
        if request is not None and self._under_way:
            start = spans.enter(_WAITING)
            request.wait()
            spans.leave(_WAITING, start)
            spans.leave(self._traffic, self._sent_at)
            start = spans.enter(_UNPACKING)
            if self._one_stream:
                self._unpack()
            else:
                self._unpack(self._backend.communication)
                self._backend.communication.record(self._done)
                self._backend.compute.wait(self._done)
            spans.leave(_UNPACKING, start)
        self._under_way = False
