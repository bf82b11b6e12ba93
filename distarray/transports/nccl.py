"""Messages and collectives by NCCL, as work of the communication stream: the host does not wait.

It does for reductions that NCCL does not know, which go through the host: products of complex
numbers, and 16-bit integers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

from distarray.arraylike import HostArray
from distarray.comm import nccl
from distarray.comm.base import Communicator, PersistentExchange, Transfer
from distarray.transports.base import Device, DeviceReduction, DeviceStream
from distarray.transports.through_host import HostCollectives, OwnValues

#: Reductions that may be under way. Their memory belongs to NCCL until compute waits for them, also
#: where nobody holds their results: the pool would hand it to later work of compute. With one more,
#: compute waits for the oldest.
MOST_UNDER_WAY = 32


class NcclTransport:
    """See the module, and `Transport`.

    Parameters
    ----------
    base : Communicator
    backend : Device
    ranks : NcclRanks
        Connected over the same ranks.
    limit : int
        Bytes of the largest call, the same on all ranks.
    """

    name = "nccl"
    on_streams = True

    def __init__(
        self, base: Communicator, backend: Device, ranks: nccl.NcclRanks, limit: int
    ) -> None:
        self._base = base
        self._backend = backend
        self._ranks = ranks
        self._limit = limit
        self._through_host = HostCollectives(base, backend)
        self._collectives = nccl.Collectives(ranks, base.size, limit)
        self._stream = cast("DeviceStream", backend.communication).pointer
        self._under_way: deque[_Reduction] = deque()

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        return _NcclExchange(self._ranks, sends, receives, self._limit, self._stream)

    def begin_allreduce(self, values: Any, op: str) -> DeviceReduction:
        if self._base.size == 1:
            return OwnValues(values, self._backend)
        if nccl.reduced_as(values.dtype, op) is None:
            return self._through_host.begin_allreduce(values, op)
        result = values.copy()
        self._after_compute()
        address = result.address
        self._collectives.all_reduce(address, address, result.size, result.dtype, op, self._stream)
        reduction = _Reduction(result, self._backend)
        self._under_way.append(reduction)
        if len(self._under_way) > MOST_UNDER_WAY:
            self._under_way.popleft().settle()
        return reduction

    def broadcast(self, values: Any, root: int) -> None:
        packed = values if values.contiguous else values.copy()
        self._after_compute()
        self._collectives.broadcast(packed.address, packed.nbytes, root, self._stream)
        self._before_compute()
        if packed is not values:
            values[...] = packed

    def all_gather(self, values: Any) -> Any:
        packed = values if values.contiguous else values.copy()
        found = self._backend.empty((self._base.size, *values.shape), values.dtype)
        if packed.size:
            self._after_compute()
            self._collectives.all_gather(packed.address, found.address, packed.nbytes, self._stream)
            self._before_compute()
        return found

    def reduce_scatter(self, values: Any, op: str) -> Any:
        if nccl.reduced_as(values.dtype, op) is None:
            return self._through_host.reduce_scatter(values, op)
        packed = values if values.contiguous else values.copy()
        found = self._backend.empty(values.shape[1:], values.dtype)
        if found.size:
            self._after_compute()
            self._collectives.reduce_scatter(
                packed.address, found.address, found.size, found.dtype, op, self._stream
            )
            self._before_compute()
        return found

    def _after_compute(self) -> None:
        """Let the communication stream go on after what compute was given."""
        event = self._backend.event()
        self._backend.compute.record(event)
        self._backend.communication.wait(event)

    def _before_compute(self) -> None:
        """Let compute go on after what the communication stream was given."""
        event = self._backend.event()
        self._backend.communication.record(event)
        self._backend.compute.wait(event)


class _NcclExchange:
    """A replayed exchange as work of a stream; as a request it is complete when it is given."""

    def __init__(
        self,
        ranks: nccl.NcclRanks,
        sends: Sequence[Transfer],
        receives: Sequence[Transfer],
        limit: int,
        stream: int,
    ) -> None:
        self._ranks = ranks
        self._kept = sends, receives
        self._messages = _addresses(sends), _addresses(receives)
        self._limit, self._stream = limit, stream

    def start(self) -> _NcclExchange:
        nccl.exchange(self._ranks, *self._messages, self._limit, self._stream)
        return self

    def test(self) -> bool:
        return True

    def wait(self) -> None:
        self._ranks.check()


def _addresses(transfers: Sequence[Transfer]) -> list[nccl.Message]:
    return [(rank, buffer.address, buffer.nbytes) for rank, buffer in transfers if buffer.nbytes]


class _Reduction:
    """An all-reduce under way on the communication stream."""

    def __init__(self, result: Any, backend: Device) -> None:
        self._result = result
        self._backend = backend
        self._event = backend.event()
        self._settled = False
        backend.communication.record(self._event)

    def test(self) -> bool:
        return self._event.done()

    def settle(self) -> None:
        """Let compute go on after the reduction, if it does not yet."""
        if not self._settled:
            self._backend.compute.wait(self._event)
            self._settled = True

    @property
    def values(self) -> Any:
        """The reduced array, for what compute is given from now on."""
        self.settle()
        return self._result

    @property
    def communicated(self) -> Any:
        """The reduced array, for what the communication stream is given from now on."""
        return self._result

    def result(self) -> HostArray:
        return self._backend.to_host(self.values)
