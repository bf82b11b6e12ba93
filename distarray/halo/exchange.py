"""A halo plan carried out: buffers and requests made once, then replayed.

Order of one exchange::

    begin    pack all messages and copy what the rank owns itself (one call), start all messages
    poll     let messages progress; the core may be computed meanwhile
    finish   wait for all messages, unpack them (one call)

From `begin` to `finish` the halo that messages fill may change at any time, so only cells that read
none of it may be computed; what the rank copies from itself is there when `begin` returns. Owned
cells may be written from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

from distarray import spans
from distarray.block import Block
from distarray.comm.base import Communicator, Request
from distarray.errors import CommunicationError
from distarray.halo.buffers import MessageBuffers, local_copies
from distarray.halo.plan import HaloPlan


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
    """

    def __init__(self, plan: HaloPlan, blocks: Sequence[Block], communicator: Communicator) -> None:
        self.plan = plan
        self._under_way = False
        backend = blocks[0].backend
        sent = MessageBuffers(plan.sends, blocks, backend)
        received = MessageBuffers(plan.receives, blocks, backend)
        self._begin_copies = backend.prepare_copies(
            sent.packing() + local_copies(plan.copies, blocks)
        )
        self._finish_copies = (
            backend.prepare_copies(received.unpacking()) if plan.receives else None
        )
        self._messages = None
        if plan.sends or plan.receives:
            self._messages = communicator.prepare_exchange(sent.transfers, received.transfers)

    @property
    def sends_messages(self) -> bool:
        """Whether this rank sends or receives anything."""
        return self._messages is not None

    def begin(self) -> PendingExchange:
        """Pack and start all messages. Collective over neighbours.

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
        start = spans.enter()
        self._begin_copies()
        spans.leave("pack", start)
        request = None
        if self._messages is not None:
            start = spans.enter()
            request = self._messages.start()
            spans.leave("send", start)
        self._under_way = True
        return PendingExchange(self, request)

    def _finish(self, request: Request | None) -> None:
        if request is not None:
            start = spans.enter()
            request.wait()
            spans.leave("wait", start)
        if self._finish_copies is not None and self._under_way:
            start = spans.enter()
            self._finish_copies()
            spans.leave("unpack", start)
        self._under_way = False
