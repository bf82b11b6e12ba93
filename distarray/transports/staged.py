"""Messages by way of pinned memory: copied asynchronously, carried by MPI in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distarray.arraylike import HostArray
from distarray.comm.base import PackedTransfers, Transfer
from distarray.transports.base import Device
from distarray.transports.by_mpi import DeferredTransport, MessageMemories


class StagedTransport(DeferredTransport):
    """See the module, and `Transport`."""

    name = "staged"

    def _prepared(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> tuple[MessageMemories, Sequence[Transfer], Sequence[Transfer]]:
        sent, received = _Staged(sends, self._backend), _Staged(receives, self._backend)
        memory = MessageMemories(
            sent=[host for _, host in sent.pairs],
            received=[host for _, host in received.pairs],
            to_host=sent.pairs,
            to_device=[(host, buffer) for buffer, host in received.pairs],
        )
        return memory, sent.transfers, received.transfers


class _Staged:
    """Pinned memory beside device buffers.

    Attributes
    ----------
    pairs : list of (device buffer, pinned memory)
        One pair where all buffers lie in one.
    transfers : list of (rank, pinned memory)
    """

    def __init__(self, transfers: Sequence[Transfer], backend: Device) -> None:
        self.pairs: list[tuple[Any, HostArray]] = []
        self.transfers: list[Transfer] = []
        filled = [(rank, buffer) for rank, buffer in transfers if buffer.nbytes]
        if isinstance(transfers, PackedTransfers) and filled:
            whole = transfers.whole
            pinned = backend.pinned(whole.nbytes)
            self.pairs.append((whole, pinned))
            for rank, buffer in filled:
                start = buffer.address - whole.address
                self.transfers.append((rank, pinned[start : start + buffer.nbytes]))
            return
        for rank, buffer in filled:
            pinned = backend.pinned(buffer.nbytes)
            self.pairs.append((buffer, pinned))
            self.transfers.append((rank, pinned))
