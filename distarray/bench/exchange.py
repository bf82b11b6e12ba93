"""The refresh of halos, one cell wide, of float64 blocks on a periodic grid, beside loops that are
written by hand with mpi4py's persistent requests.

One field is packed by NumPy beside, with two messages to a neighbour; eight fields by C, in one
message like the library's: those of the library's own memory, and others in arrays without padding.
Faces that a rank owns itself are copied without messages in all of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.bench.loops import loop
from distarray.bench.table import Row
from distarray.bench.timing import Act, Sizes, in_turn
from distarray.block import Block, reads_of_offsets
from distarray.comm import Communicator
from distarray.grid import Grid
from distarray.kernels.refresh import FieldReads, Refresh

#: Largest ratios for one field beside NumPy, and for eight beside C.
GATE, FIELDS_GATE = 1.0, 1.2
_FIELDS = 8
_NDIM = 3
_TAG = 7
#: Blocks for the latency and for the bandwidth, beside the one that is asked for.
_OTHERS = (8, 256)

#: What a 7-point kernel reads.
STAR = {
    tuple(step if axis == along else 0 for axis in range(_NDIM))
    for along in range(_NDIM)
    for step in (-1, 1)
}


class Ours:
    """The refresh of the library, as kernels do it after each write."""

    def __init__(self, communicator: Communicator, block: int, axis: int, count: int) -> None:
        ranks = [1] * _NDIM
        ranks[axis] = communicator.size
        shape = [block * n for n in ranks]
        grid = Grid(shape, periodic=True, ranks=ranks, comm=communicator, device="cpu")
        self.arrays = [grid.ones() for _ in range(count)]
        self.blocks: list[Block] = [array.block for array in self.arrays]
        reads = reads_of_offsets({(): STAR})
        fields = [FieldReads(reads, {}) for _ in self.blocks]
        self._refresh = Refresh(fields, self.blocks, communicator)

    def __call__(self) -> None:
        for block in self.blocks:
            block.changed()
        self._refresh.begin(self.blocks, None)
        self._refresh.finish(self.blocks, None)

    @property
    def sent(self) -> tuple[int, int]:
        """Messages and bytes of an exchange, from this rank."""
        (exchange,) = self._refresh.exchanges
        sends = exchange.plan.sends
        return len(sends), sum(message.nbytes for message in sends)


class Persistent:
    """Requests of mpi4py that are started together."""

    def __init__(self, requests: Sequence[Any]) -> None:
        self._requests = list(requests)
        self._start, self._wait = type(requests[0]).Startall, type(requests[0]).Waitall

    def __call__(self) -> None:
        self._start(self._requests)
        self._wait(self._requests)

    def free(self) -> None:
        """Give the requests back. Local."""
        for request in self._requests:
            request.Free()


class ByNumpy:
    """One field: faces packed by NumPy, one message for each face, both ways."""

    def __init__(self, communicator: Communicator, block: int, axis: int) -> None:
        comm, size, rank = communicator.handle, communicator.size, communicator.rank
        self.field = np.ones((block + 2,) * _NDIM)
        self._before: list[tuple[HostArray, HostArray]] = []
        self._after: list[tuple[HostArray, HostArray]] = []
        requests = []
        for along in range(_NDIM):
            for side, step in ((0, -1), (1, 1)):
                inner, halo = (block if side else 1), (block + 1 if side else 0)
                target = self._face(along, halo)
                if along != axis:
                    self._after.append((target, self._face(along, 1 if side else block)))
                    continue
                source, other = self._face(along, inner), (rank + step) % size
                sent, received = np.empty(source.shape), np.empty(source.shape)
                self._before.append((sent, source))
                self._after.append((target, received))
                requests.append(comm.Recv_init(received, other, 1 - side))
                requests.append(comm.Send_init(sent, other, side))
        self._messages = Persistent(requests)
        self.free = self._messages.free

    def _face(self, axis: int, place: int) -> HostArray:
        index: list[slice] = [slice(1, -1)] * _NDIM
        index[axis] = slice(place, place + 1)
        return self.field[tuple(index)]

    def __call__(self) -> None:
        for target, source in self._before:
            np.copyto(target, source)
        self._messages()
        for target, source in self._after:
            np.copyto(target, source)


class ByC:
    """Several fields, cut along the first axis between two ranks: packed by C into one message."""

    def __init__(self, communicator: Communicator, fields: Sequence[HostArray]) -> None:
        comm, other = communicator.handle, 1 - communicator.rank
        self.fields = fields
        self._kept = table = np.array([field.ctypes.data for field in fields], np.uint64)
        cells = [n - 2 for n in fields[0].shape]
        plane, row = (stride // 8 for stride in fields[0].strides[:2])
        sent = np.zeros(2 * len(fields) * cells[1] * cells[2])
        received = np.zeros_like(sent)
        self._messages = Persistent(
            [comm.Recv_init(received, other, _TAG), comm.Send_init(sent, other, _TAG)]
        )
        self.free = self._messages.free
        numbers = [ctypes.c_ssize_t(n) for n in (len(fields), *cells, plane, row)]
        # Converted once, so that the calls cost as little as they can.
        self._pack, self._unpack = (
            _call(name, [table, *numbers, buffer])
            for name, buffer in (("pack_fields", sent), ("unpack_fields", received))
        )

    def __call__(self) -> None:
        self._pack()
        self._messages()
        self._unpack()


def _call(name: str, arguments: Sequence[Any]) -> Callable[[], None]:
    function = loop(name)
    function.argtypes = None
    given = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
    kept = arguments

    def act() -> None:
        function(*given)

    act.kept = kept  # type: ignore[attr-defined] # memory that the pointers point into
    return act


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """Blocks of several sizes, cut along each axis; several fields at once. Collective."""
    if communicator.size == 1:
        return
    for block in sorted({sizes.block, *(n for n in _OTHERS if n < 4 * sizes.cells)}):
        for axis, name in enumerate("xyz"):
            yield _one_field(communicator, sizes, block, (axis, name))
    if communicator.size == 2:
        yield from _fields(communicator, sizes)


def _calls(sizes: Sizes, block: int) -> int:
    """Exchanges in one measurement: fewer of large blocks."""
    return max(2, round(2 * sizes.steps * min(1.0, (64 / block) ** 2)))


def _one_field(communicator: Communicator, sizes: Sizes, block: int, cut: tuple[int, str]) -> Row:
    axis, name = cut
    ours, beside = Ours(communicator, block, axis, 1), ByNumpy(communicator, block, axis)
    acts: dict[str, Act] = {"ours": ours, "beside": beside}
    found = in_turn(communicator, sizes.repeat, acts, calls=_calls(sizes, block))
    beside.free()
    what = f"exchange {block}^3, cut along {name}, mpi4py and NumPy"
    gate = GATE if block == sizes.block else None
    nbytes = communicator.size * ours.sent[1]
    return Row("exchange", what, communicator.size, found["ours"], found["beside"], gate, nbytes)


def _fields(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    block = sizes.block
    one, ours = (Ours(communicator, block, 0, count) for count in (1, _FIELDS))
    same = ByC(communicator, [array.block.memory for array in ours.arrays])
    dense = ByC(communicator, [np.ones((block + 2,) * _NDIM) for _ in range(_FIELDS)])
    acts: dict[str, Act] = {"ours": ours, "same": same, "dense": dense}
    found = in_turn(communicator, sizes.repeat, acts, calls=_calls(sizes, 2 * block))
    same.free()
    dense.free()
    one()
    messages = "as many messages" if one.sent[0] == ours.sent[0] else "MORE MESSAGES"
    nbytes = communicator.size * ours.sent[1]
    for beside, name, gate in (
        ("same", f"{messages}, mpi4py and C", FIELDS_GATE),
        ("dense", "C on dense arrays", None),
    ):
        what = f"exchange {_FIELDS} x {block}^3, {name}"
        yield Row("exchange", what, communicator.size, found["ours"], found[beside], gate, nbytes)
