"""Bring the halos and boundary layers that a kernel reads up to date, and nothing else.

A refresh is prepared once for a set of arrays and for what is read of them. Each time it is begun
it looks which regions are stale, sends those (all arrays in one message per neighbour) and, when
they have arrived, fills the boundary layers whose values or time have changed: neighbour halos
first, then the axes in order.

It keeps no reference to the blocks, only to their memory: blocks are passed to each call, so that a
prepared refresh does not keep a dropped array alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from distarray import spans
from distarray.block import Block
from distarray.boundary import Boundary, BoundaryFill
from distarray.comm.base import Communicator
from distarray.errors import BoundaryError
from distarray.halo.exchange import HaloExchange, PendingExchange
from distarray.halo.plan import HaloPlan
from distarray.halo.shared import channels
from distarray.kernels.recent import Recent
from distarray.layout import Component, HaloReads
from distarray.regions import Box

_FILLING = spans.tally("fill")

#: Exchanges kept per refresh, one for each set of stale regions.
MOST_EXCHANGES = 32


@dataclass(frozen=True)
class FieldReads:
    """What is read of one array.

    `halo` are regions of neighbours, `layers` are regions that may hold boundary layers; both by
    component and direction, both the same on all ranks.
    """

    halo: HaloReads
    layers: HaloReads
    boundary: Boundary | None = None

    @property
    def needed(self) -> HaloReads:
        """Regions to exchange: what is read, and what the fills take from neighbours."""
        if not self.boundary:
            return self.halo
        needed = dict(self.halo)
        for key, widths in self.boundary.conditions.closure(self.layers).items():
            needed[key] = tuple(map(max, widths, needed.get(key, widths)))
        return needed


@dataclass(frozen=True)
class _Field:
    """A block's part of a refresh; `array` is set for one that conditions read and no argument."""

    needed: HaloReads
    boundary: Boundary | None
    fill: BoundaryFill | None
    array: Any = None


class EarlyWrite(NamedTuple):
    """What is written between `begin` and `finish`: a box of a component's padded memory."""

    number: int
    component: Component
    box: Box


class _Prepared(NamedTuple):
    """An exchange, and whether some of what it sends is written early."""

    exchange: HaloExchange
    overwritten: bool


class Refresh:
    """Keeps halos and boundary layers of some arrays fresh. Collective in creation and use.

    Parameters
    ----------
    fields : sequence of FieldReads
    blocks : sequence of Block
        One for each field; the same are passed to `begin` and `finish`.
    communicator : Communicator

    Attributes
    ----------
    early_writes : sequence of EarlyWrite
        Set it before the first `begin`.
    """

    def __init__(
        self, fields: Sequence[FieldReads], blocks: Sequence[Block], communicator: Communicator
    ) -> None:
        self._communicator = communicator
        self.early_writes: Sequence[EarlyWrite] = ()
        arguments = [_field(reads, block) for reads, block in zip(fields, blocks, strict=True)]
        others = [extra for reads in fields for extra in _read_by_conditions(reads)]
        self._fields = (*arguments, *others)
        self._others = [field.array for field in others]
        # Layers that a Custom condition reads are filled before those it fills.
        self._fills = [field.fill for field in (*others, *arguments) if field.fill is not None]
        self._fixing = [
            (number, field.boundary) for number, field in enumerate(self._fields) if field.boundary
        ]
        self._exchanges: Recent[tuple[tuple[object, ...], ...], _Prepared] = Recent(MOST_EXCHANGES)
        self._latest: tuple[list[HaloReads], _Prepared | None] = [], None
        self._missing: list[HaloReads] = []
        self._pending: PendingExchange | None = None

    def fills_from(self, blocks: Sequence[Block], written: Sequence[Block]) -> bool:
        """Whether a fill reads one of the written blocks, so that it must come before any of them
        is written.
        """
        read = [
            b
            for b, field in zip(self._all(blocks), self._fields, strict=True)
            if field.fill is not None
        ]
        read += [array.block for array in self._others]
        return any(block is other for block in read for other in written)

    @property
    def others(self) -> list[Any]:
        """Arrays that the conditions of the arguments read."""
        return self._others

    @property
    def time_dependent(self) -> bool:
        """Whether layers or fixed points depend on the time."""
        return any(boundary.conditions.time_dependent for _, boundary in self._fixing)

    @property
    def exchanges(self) -> list[HaloExchange]:
        """The exchanges that are kept."""
        return [prepared.exchange for prepared in self._exchanges.values()]

    def set_time(self, time: float) -> None:
        """Note the time that conditions use where they are given none."""
        for _, boundary in self._fixing:
            boundary.conditions.time = time

    def begin(
        self, blocks: Sequence[Block], time: float | None, *, early: bool = False
    ) -> PendingExchange | None:
        """Start to send what is stale; None if no message is under way. Follow it with `finish`, or
        with `abandon` if something fails.

        Points fixed by conditions are set first, at `time`, here and in halo copies. `early` says
        that `early_writes` will be made before `finish`; without it nothing is written there.
        """
        if self._pending is not None:  # an interrupt came between
            self.abandon()
        blocks = self._all(blocks)
        for number, boundary in self._fixing:
            boundary.fix_values(blocks[number], time)
        self._missing = [
            block.stale(field.needed) if field.needed else field.needed
            for block, field in zip(blocks, self._fields, strict=True)
        ]
        if not any(self._missing):
            return None
        sent, prepared = self._latest
        if prepared is None or sent != self._missing:
            prepared = self._exchange(blocks)
            self._latest = self._missing, prepared
        exchange, overwritten = prepared
        self._pending = exchange.begin(protect=early and overwritten)
        return self._pending if exchange.sends_messages else None

    def finish(self, blocks: Sequence[Block], time: float | None) -> None:
        """Wait for the messages of `begin` and fill the layers that are stale at `time`."""
        if self._pending is not None:
            self._pending.finish()
            self._pending = None
            for block, missing in zip(self._all(blocks), self._missing, strict=True):
                block.refreshed(missing)
        for fill in self._fills:
            if fill.stale(time):
                start = spans.enter(_FILLING)
                fill.run(time)
                spans.leave(_FILLING, start)

    def abandon(self) -> None:
        """Wait for the messages of `begin`, if they are still under way; the halo stays stale."""
        if self._pending is not None:
            self._pending.finish()
            self._pending = None

    def _all(self, blocks: Sequence[Block]) -> Sequence[Block]:
        return [*blocks, *(array.block for array in self._others)] if self._others else blocks

    def _exchange(self, blocks: Sequence[Block]) -> _Prepared:
        """The exchange of the regions that are missing, kept for the next time."""
        key = tuple(map(tuple, self._missing))
        prepared = self._exchanges.find(key)
        return self._exchanges.keep(key, self._prepare(blocks)) if prepared is None else prepared

    def _prepare(self, blocks: Sequence[Block]) -> _Prepared:
        taking = [
            (block, reads) for block, reads in zip(blocks, self._missing, strict=True) if reads
        ]
        decomposition = taking[0][0].layout.decomposition
        plan = HaloPlan.build(
            decomposition,
            decomposition.coords(taking[0][0].rank),
            [(block.layout, reads) for block, reads in taking],
        )
        senders = [block for block, _ in taking]
        overwritten = any(
            blocks[write.number] is senders[piece.field]
            and write.component == piece.component
            and not write.box.intersection(piece.box).empty
            for write in self.early_writes
            for message in plan.sends
            for piece in message.pieces
        )
        communicator = self._communicator
        near = channels(communicator, senders[0].backend)
        return _Prepared(HaloExchange(plan, senders, communicator, near), overwritten)


def _field(reads: FieldReads, block: Block, array: Any = None) -> _Field:
    fill = None
    if reads.boundary and reads.layers:
        fill = BoundaryFill(reads.boundary.conditions, block, reads.layers)
    return _Field(reads.needed, reads.boundary, fill, array)


def _read_by_conditions(reads: FieldReads, within: tuple[Boundary, ...] = ()) -> list[_Field]:
    """Fields of the arrays that conditions read to fill the layers of `reads`, innermost first."""
    if not reads.boundary or not reads.layers:
        return []
    if any(reads.boundary.conditions is outer.conditions for outer in within):
        raise BoundaryError(
            "Custom conditions of two arrays read each other's layers, so neither can be filled "
            "first; let one of them read owned points only."
        )
    found: list[_Field] = []
    for array, regions in reads.boundary.conditions.other_reads(reads.layers):
        inner = FieldReads(regions, regions, array.boundary or None)
        found += _read_by_conditions(inner, (*within, reads.boundary))
        found.append(_field(inner, array.block, array))
    return found
