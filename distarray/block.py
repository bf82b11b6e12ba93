"""The memory of one array on one rank, and what is known to be fresh in its halo.

A block's `memory` has the shape components + padded shape. Freshness is forgotten by every
collective write and regained by refreshes; it depends on collective calls only, so all ranks decide
alike whether to exchange.

The memory of a block that an operator made is there when it is first asked for; see `deferred`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from distarray import deferred
from distarray.backends.base import Backend
from distarray.deferred import Deferred
from distarray.errors import ArrayError, BackendError
from distarray.layout import Component, HaloReads, Layout, Offsets
from distarray.regions import Box

_serial = itertools.count()


@dataclass
class Filled:
    """What boundary conditions have done to a block since it was written; kept by `boundary`.

    A state is what values depend on besides the block: conditions, time, other arrays.

    Attributes
    ----------
    points : state at which points on faces were fixed; None for never
    layers : state at which layers were filled
    fills : serials of the fills made at that state
    """

    points: object = None
    layers: object = None
    fills: set[int] = field(default_factory=set)


class Block:
    """Memory of one array on this rank. Local, but created on all ranks alike.

    Attributes
    ----------
    memory : array of the backend, shape components + padded shape (not always contiguous)
    deferred : what will compute the values, or None once they are there
    open : number of `with u.writing()` that are under way
    owned, padded : Box of global indices of the grid axes
    serial : int, never used again by another block
    version : int, counts collective writes
    kept : dict of what was prepared for this memory, to be done again; it goes with the block
    """

    def __init__(
        self, layout: Layout, rank: int, backend: Backend, *, values: Deferred | None = None
    ) -> None:
        self.layout = layout
        self.rank = rank
        self.backend = backend
        self.serial = next(_serial)
        self.deferred = values
        self.open = 0
        self._memory: Any = None
        if values is None:
            self._memory = self.allocate()
        else:
            deferred.register(self)
        self.version = 0
        self.fresh: HaloReads = {}
        self.filled = Filled()
        self.kept: dict[Hashable, Any] = {}

    def allocate(self, *, again: bool = False) -> Any:
        """Zeroed memory as this block needs it; `again` permits that of a block that is gone.
        Local.

        Raises
        ------
        BackendError
            There is not so much memory.
        """
        layout = self.layout
        try:
            return self.backend.allocate(
                layout.components, self.padded.shape, layout.halo, layout.dtype, again=again
            )
        except (MemoryError, ValueError):  # NumPy raises the latter for more than 2**63 bytes
            raise BackendError(
                f"An array of shape {layout.shape} of {layout.dtype} does not fit into memory "
                f"(ranks={layout.decomposition.ranks}); use more nodes or fewer cells."
            ) from None

    @cached_property
    def owned(self) -> Box:
        return self.layout.owned(self.rank)

    @cached_property
    def padded(self) -> Box:
        return self.owned.grow(self.layout.halo)

    @property
    def memory(self) -> Any:
        if self._memory is None:
            self.settle()
        return self._memory

    def settle(self) -> None:
        """Compute the values if they are not there yet. Local."""
        if self.deferred is not None:
            self.deferred.evaluate(self)

    def take(self, memory: Any) -> None:
        """Have this memory, whose values are those that were waited for. Local."""
        self._memory, self.deferred = memory, None
        deferred.arrived(self)

    @property
    def empty(self) -> bool:
        """Whether this rank owns nothing of the array."""
        return self.owned.empty

    @cached_property
    def owned_memory(self) -> Any:
        """The owned part of the memory, components first."""
        return self.memory[(..., *self.owned.slices(self.padded.start))]

    def component(self, component: Component) -> Any:
        """The padded memory of one component."""
        return self.memory[component]

    def local(self, box: Box) -> tuple[slice, ...]:
        """Slices of the grid axes of `memory` that hold the global box."""
        return box.slices(self.padded.start)

    def changed(self, component: Component | None = None) -> None:
        """Note a collective write: the halo of the component (or of all below this prefix) is
        stale.

        Raises
        ------
        ArrayError
            Something that was to be computed from the earlier values was not; the writer lacks
            `deferred.settle_readers`.
        """
        if deferred.readers(self):
            raise ArrayError(
                f"An array of shape {self.layout.shape} was written while results that depend on "
                "its earlier values were still to be computed; report this as an error of the "
                "library."
            )
        self.version += 1
        self.filled = Filled()
        if not component:
            self.fresh.clear()
            return
        depth = len(component)
        for key in [key for key in self.fresh if key[0][:depth] == component]:
            del self.fresh[key]

    def stale(self, reads: HaloReads) -> HaloReads:
        """The part of `reads` that is not fresh; not to be changed."""
        if not self.fresh:
            return reads
        return {
            key: widths
            for key, widths in reads.items()
            if (have := self.fresh.get(key)) is None
            or any(h < w for h, w in zip(have, widths, strict=True))
        }

    def refreshed(self, reads: HaloReads) -> None:
        """Note that these halo regions hold their neighbours' values."""
        self.fresh.update(reads)


def reads_of_offsets(offsets: dict[Component, set[Offsets]]) -> HaloReads:
    """The halo regions touched when every owned point reads at these offsets."""
    reads: HaloReads = {}
    for component, reached in offsets.items():
        for offset in reached:
            moving = [axis for axis, step in enumerate(offset) if step]
            for count in range(1, len(moving) + 1):
                for axes in itertools.combinations(moving, count):
                    widths = tuple(abs(d) if a in axes else 0 for a, d in enumerate(offset))
                    direction = tuple(
                        int(np.sign(d)) if a in axes else 0 for a, d in enumerate(offset)
                    )
                    key = (component, direction)
                    reads[key] = tuple(map(max, widths, reads.get(key, widths)))
    return reads
