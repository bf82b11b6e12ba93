"""Fused reductions whose results stay on the device that made them.

A call's partial results are copied on the device, from the memory in which the next call collects,
into a slot of memory of their own, reduced over the ranks where that happens on the device too, and
sent to pinned memory; the host waits for nothing. `Pending.result()` waits for the event behind
this. A later kernel that is given the pending value as a scalar takes it from the device, where one
small kernel makes it: a float or complex number. Integers and reproducible sums are handed on by
the host.

A slot is used again once the host has its results, at the latest when its call leaves the ring of
`pending`.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray import pending
from distarray.arraylike import HostArray
from distarray.backends.base import Backend, BoxCopy
from distarray.comm.base import Communicator
from distarray.pending import Pending
from distarray.regions import Box
from distarray.stencil import tracing
from distarray.stencil.accumulators import Accumulator, joined, of_reduction
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import ArrayParameter, Program, Reduction
from distarray.stencil.language import where
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry
from distarray.transports.communicator import DeviceCommunicator

#: How the result of a reduction comes out of its partial result over all ranks, and its type.
Finish = tuple[Callable[[HostArray], Any], np.dtype[Any]]

_WHOLE = ((Box((0,), (1,)), -1),)
_GEOMETRY = LaunchGeometry((0,), (1,), (False,), None)

#: Bytes of pinned memory taken at a time, and to which parts of it are rounded up.
_CHUNK, _LINE = 16384, 64
#: Pinned memory of each device that is being handed out, and how much of it has been.
_chunks: weakref.WeakKeyDictionary[Backend, tuple[HostArray, int]] = weakref.WeakKeyDictionary()


class ResidentReductions:
    """The fused reductions of one launch on a device. Creation is Local.

    Parameters
    ----------
    reductions : sequence of (Reduction, Finish)
    partials : sequence of device arrays
        As `BoundLaunch.device_partials`.
    backend : Backend
    communicator : Communicator
        Of one rank, or one that reduces on the device.
    """

    def __init__(
        self,
        reductions: Sequence[tuple[Reduction, Finish]],
        partials: Sequence[Any],
        backend: Backend,
        communicator: Communicator,
    ) -> None:
        self.partials, self.backend, self.communicator = tuple(partials), backend, communicator
        self.reductions = [reduction for reduction, _ in reductions]
        self.accumulators = tuple(
            itertools.chain.from_iterable(map(of_reduction, itertools.count(), self.reductions))
        )
        self._finish = [finish for _, finish in reductions]
        self._free: list[_Slot] = []

    def begin(self) -> tuple[Pending, ...]:
        """Start to reduce what the partial results now are. Collective."""
        slot = self._free.pop() if self._free else _Slot(self)
        slot.start(self.communicator)
        request = _Request(slot, self._free)
        pending.keep(request, self.backend)
        return tuple(
            Pending(request, number, finish, dtype)
            for number, (finish, dtype) in enumerate(self._finish)
        )


class _Request:
    """The reductions of one call under way; a `PendingReduction` of the partial results."""

    def __init__(self, slot: _Slot, free: list[_Slot]) -> None:
        self._slot: _Slot | None = slot
        self._free = free
        self._values: list[HostArray] = []

    def test(self) -> bool:
        return self._slot is None or self._slot.arrived.done()

    def result(self) -> Any:
        """The partial results over all ranks, one for each reduction."""
        if self._slot is not None:
            self._values = self._slot.values()
            self._free.append(self._slot)
            self._slot = None
        return self._values

    def device_value(self, number: int) -> Any:
        """The result of a reduction as a scalar on the device, made by work of the compute stream;
        None where the host hands it on.
        """
        return None if self._slot is None else self._slot.device_value(number)


@dataclass(frozen=True)
class _Part:
    """Numbers of one accumulator that ranks reduce by one operation: all of a sum, of an extremum
    the number or the flag.
    """

    accumulator: int
    begin: int
    end: int
    op: str


class _Slot:
    """Memory for the results of one call, on the device and on the host."""

    def __init__(self, owner: ResidentReductions) -> None:
        self._backend, self._reductions = owner.backend, owner.reductions
        self._accumulators = owner.accumulators
        self._groups = _groups(owner.accumulators, shared=owner.communicator.size > 1)
        self._numbers = [
            owner.backend.empty(
                (sum(part.end - part.begin for part in parts),),
                owner.accumulators[parts[0].accumulator].dtype,
            )
            for _, parts in self._groups
        ]
        self._collect = owner.backend.prepare_copies(
            [
                BoxCopy(owner.partials[part.accumulator][part.begin : part.end], place)
                for part, place in self._places(self._numbers)
            ]
        )
        self._host = [_pinned(owner.backend, numbers.nbytes) for numbers in self._numbers]
        self._scalars: dict[int, tuple[BoundLaunch, Any]] = {}
        self._made: set[int] = set()
        self._shared: list[Any] = []  # the reductions over the ranks
        self._settled = False  # whether compute has taken their results
        self.arrived = owner.backend.event()

    def _places(self, groups: Sequence[Any]) -> list[tuple[_Part, Any]]:
        """Each part and where it lies in arrays of the groups, in the order of the accumulators."""
        found = []
        for (_, parts), numbers in zip(self._groups, groups, strict=True):
            begin = 0
            for part in parts:
                end = begin + part.end - part.begin
                found.append((part, numbers[begin:end]))
                begin = end
        return sorted(found, key=lambda item: (item[0].accumulator, item[0].begin))

    def start(self, communicator: Communicator) -> None:
        """Take the partial results, reduce them over the ranks and send them to the host."""
        backend = self._backend
        stream, reduced = backend.compute, self._numbers
        self._made.clear()
        self._settled = False
        self._collect()
        if communicator.size > 1:
            stream = backend.communication
            self._shared = [
                communicator.begin_allreduce(numbers, op)
                for (op, _), numbers in zip(self._groups, self._numbers, strict=True)
            ]
            reduced = [request.communicated for request in self._shared]
        for numbers, host in zip(reduced, self._host, strict=True):
            backend.begin_to_host(numbers, host, stream)
        stream.record(self.arrived)

    def values(self) -> list[HostArray]:
        """The partial results over all ranks; waits for them."""
        self.arrived.synchronize()
        groups = []
        for host, numbers in zip(self._host, self._numbers, strict=True):
            self._backend.host_access(host, write=False, what="the result of a reduction")
            groups.append(host.view(numbers.dtype))
        memory = [accumulator.cleared() for accumulator in self._accumulators]
        for part, values in self._places(groups):
            memory[part.accumulator][part.begin : part.end] = values
        return joined(self._accumulators, memory)

    def device_value(self, number: int) -> Any:
        """The scalar made of one reduction's results, once for each call."""
        if not handed_on(self._reductions[number]):
            return None
        if number not in self._scalars:
            self._scalars[number] = self._bind(number)
        launch, scalar = self._scalars[number]
        if self._shared and not self._settled:
            for numbers, request in zip(self._numbers, self._shared, strict=True):
                numbers[...] = request.values
            self._settled = True
        if number not in self._made:
            launch.run_boxes(_WHOLE)
            self._made.add(number)
        return scalar

    def _bind(self, number: int) -> tuple[BoundLaunch, Any]:
        """The kernel that makes a scalar, and the scalar."""
        reduction = self._reductions[number]
        program = _finishing(reduction.kind, as_dtype(reduction.value.dtype))
        taken = [
            place
            for part, place in self._places(self._numbers)
            if self._accumulators[part.accumulator].reduction == number
        ]
        made = [
            self._backend.empty((*array.components, 1), array.dtype)
            for array in program.arrays[len(taken) :]
        ]
        views = [ArrayView(memory, (0,), (0,)) for memory in (*taken, *made)]
        return self._backend.bind(program, views, _GEOMETRY), made[-1]


def _pinned(backend: Backend, nbytes: int) -> HostArray:
    """A little pinned memory, of which devices give out whole pages."""
    size = -(-nbytes // _LINE) * _LINE
    chunk, used = _chunks.get(backend, (None, 0))
    if chunk is None or used + size > chunk.size:
        chunk, used = backend.pinned(max(_CHUNK, size)), 0
    _chunks[backend] = chunk, used + size
    return chunk[used : used + nbytes]


def _groups(accumulators: Sequence[Accumulator], *, shared: bool) -> list[tuple[str, list[_Part]]]:
    """Parts of equal element type and, where ranks share the reduction, of equal operation."""
    groups: dict[tuple[str, np.dtype[Any]], list[_Part]] = {}
    for number, accumulator in enumerate(accumulators):
        parts = [_Part(number, 0, accumulator.length, "sum")]
        if accumulator.kind != "sum":
            # Flags are 0 or 1: one that is set on any rank counts.
            parts = [_Part(number, 0, 1, accumulator.kind), _Part(number, 1, 2, "max")]
        for part in parts:
            key = part.op if shared else "", accumulator.dtype
            groups.setdefault(key, []).append(part)
    return [(op, parts) for (op, _), parts in groups.items()]


def stays_on_device(communicator: Communicator) -> bool:
    """Whether what ranks send each other is work of a device's streams, the host not waiting.
    Local; the same on all ranks.
    """
    if communicator.size == 1:
        return True
    return isinstance(communicator, DeviceCommunicator) and communicator.transport.on_streams


def handed_on(reduction: Reduction) -> bool:
    """Whether a result goes from kernel to kernel without the host: a rounded number. Local."""
    return as_dtype(reduction.value.dtype).kind in "fc" and not reduction.reproducible


# ---- from partial results to a scalar, in the form of `union scalar`: rounded to the type of the
# ---- result, as the host does it, and two doubles of which a float has the first


def _total(total: Any, rounded: Any, scalar: Any) -> None:
    rounded[0] = total[0]
    scalar[0][0] = rounded[0]


def _complex_total(real: Any, imaginary: Any, rounded: Any, scalar: Any) -> None:
    for part, value in enumerate((real, imaginary)):
        rounded[part][0] = value[0]
        scalar[part][0] = rounded[part][0]


def _extremum(extremum: Any, missing: Any, rounded: Any, scalar: Any) -> None:
    rounded[0] = where(missing[0] != 0.0, float("nan"), extremum[0])
    scalar[0][0] = rounded[0]


@functools.cache
def _finishing(kind: str, dtype: np.dtype[Any]) -> Program:
    """The kernel that makes the scalar of a reduction of values of this dtype."""
    double = np.dtype(np.float64)
    function: Callable[..., None] = _extremum if kind != "sum" else _total
    taken = ["extremum", "missing"] if kind != "sum" else ["total"]
    if dtype.kind == "c":
        function, taken = _complex_total, ["real", "imaginary"]
    parts = (2,) if dtype.kind == "c" else ()
    arrays = [ArrayParameter(name, double, (), (False,)) for name in taken]
    arrays.append(ArrayParameter("rounded", np.empty(0, dtype).real.dtype, parts, (False,)))
    arrays.append(ArrayParameter("scalar", double, (2,), (False,)))
    return tracing.trace(function, arrays, {}, {}, ndim=1, axes=("x",))
