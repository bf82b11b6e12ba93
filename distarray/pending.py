"""Results of reductions that are still under way.

A reduction starts inside the call that makes it, on all ranks in the same order. Its `Pending`
value may be read on one rank alone, or never: each communicator keeps a ring of the latest
reductions, and one that leaves the ring is waited for there, in the order of their starts, so that
a dropped value cannot leave a message behind. A device keeps one of the reductions that end on it,
see `resident`.
"""

from __future__ import annotations

import atexit
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray import spans
from distarray.arraylike import HostArray
from distarray.comm.base import Communicator, PendingReduction

_REDUCING = spans.tally("reduce")

#: Reductions under way per communicator or device; the oldest is completed when another starts.
RING_SIZE = 32

_rings: weakref.WeakKeyDictionary[Any, deque[PendingReduction]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Contribution:
    """What one rank contributes to a reduction.

    Attributes
    ----------
    values : 1-D ndarray, reduced elementwise over the ranks by `op`
    op : "sum", "prod", "min" or "max"
    finish : function of the reduced array that gives the result
    dtype : element type of the result
    """

    values: HostArray
    op: str
    finish: Callable[[HostArray], Any]
    dtype: np.dtype[Any]

    def result_of_all(self) -> Any:
        """The result, where `values` are those of all ranks already. Local."""
        return self.finish(self.values)

    def complete(self, communicator: Communicator) -> Any:
        """The result, at once. Collective."""
        if communicator.size == 1:
            return self.result_of_all()
        return self.finish(communicator.allreduce(self.values, self.op))

    def begin(self, communicator: Communicator) -> Pending:
        """Start the reduction. Collective."""
        return begin((self,), communicator)[0]


class Pending:
    """The value of a reduction under way. `result()`, `float(...)` and all else here are Local.

    It may be passed as a scalar to kernels, and printed or formatted as a number. `part` says where
    the result of `request` holds what `finish` makes the value of.
    """

    __slots__ = ("_finish", "_part", "_request", "_value", "dtype")

    def __init__(
        self,
        request: PendingReduction,
        part: Any,
        finish: Callable[[HostArray], Any],
        dtype: np.dtype[Any],
    ) -> None:
        self._request: PendingReduction | None = request
        self._part = part
        self._finish = finish
        self._value: Any = None
        #: Element type of the result, known before it has arrived.
        self.dtype = dtype

    def result(self) -> Any:
        """The reduced value, a NumPy scalar; waits for it the first time. Local."""
        if self._request is not None:
            start = spans.enter(_REDUCING)
            arrived = self._request.result()
            spans.leave(_REDUCING, start)
            self._value = self._finish(arrived[self._part])
            self._request = None
        return self._value

    def test(self) -> bool:
        """Whether the value has arrived. Local."""
        return self._request is None or self._request.test()

    @property
    def device_value(self) -> Any:
        """The value as a scalar in the memory of the device that made it, as work of its compute
        stream, 16 bytes in the form of `union scalar`; None where the host hands it on. Local.
        """
        found = getattr(self._request, "device_value", None)
        return None if found is None else found(self._part)

    def __float__(self) -> float:
        return float(self.result())

    def __int__(self) -> int:
        return int(self.result())

    def __complex__(self) -> complex:
        return complex(self.result())

    def __bool__(self) -> bool:
        return bool(self.result())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        return np.asarray(self.result(), dtype)

    def __format__(self, specification: str) -> str:
        return format(self.result(), specification)

    def __repr__(self) -> str:
        return (
            f"Pending({self._value!r})" if self._request is None else f"Pending(dtype={self.dtype})"
        )


def begin(contributions: Sequence[Contribution], communicator: Communicator) -> tuple[Pending, ...]:
    """Start several reductions, those of equal operation and element type in one message.
    Collective.
    """
    groups: dict[tuple[str, np.dtype[Any]], list[int]] = {}
    for number, one in enumerate(contributions):
        groups.setdefault((one.op, one.values.dtype), []).append(number)
    pending: list[Pending | None] = [None] * len(contributions)
    for (op, _), members in groups.items():
        values = [contributions[m].values for m in members]
        request = communicator.begin_allreduce(
            values[0] if len(values) == 1 else np.concatenate(values), op
        )
        if communicator.size > 1:
            keep(request, communicator)
        start = 0
        for member in members:
            one = contributions[member]
            part = slice(start, start := start + len(one.values))
            pending[member] = Pending(request, part, one.finish, one.dtype)
    return tuple(p for p in pending if p is not None)


def keep(request: PendingReduction, owner: Any) -> None:
    """Put a reduction into the ring of its communicator, or of its device; wait for the one that
    leaves it. Collective over the owner's ranks.
    """
    ring = _rings.get(owner)
    if ring is None:
        if not _rings:
            atexit.unregister(complete_all)
            atexit.register(complete_all)
        ring = _rings[owner] = deque()
    if len(ring) == RING_SIZE:
        ring.popleft().result()
    ring.append(request)


def complete_all() -> None:
    """Wait for every reduction under way. Local; also called when the interpreter ends."""
    for ring in list(_rings.values()):
        while ring:
            ring.popleft().result()
