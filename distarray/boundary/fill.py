"""Filling boundary layers, on the memory of one rank.

Executed order of a refresh: points that lie on faces with Dirichlet conditions are fixed (see
`points`); halos are exchanged; layers are filled, axis after axis, low side before high side. A
fill covers what is read beside its face: neighbour halos, and the layers of earlier axes.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

from distarray.block import Block
from distarray.boundary.face import HIGH, LOW, Region, ends
from distarray.boundary.rules import Rule, Steps
from distarray.layout import Component, HaloReads

if TYPE_CHECKING:
    from distarray.boundary.array_conditions import ArrayConditions

_serial = itertools.count()


class BoundaryFill:
    """The prepared fill of the layers that some reads touch. Local to run; made and asked on all
    ranks alike.

    Parameters
    ----------
    conditions : ArrayConditions
    block : Block
        Only its memory is kept alive.
    reads : HaloReads
        What is read; may touch the layers of any side. Plan anew when the conditions' version has
        changed.
    """

    def __init__(self, conditions: ArrayConditions, block: Block, reads: HaloReads) -> None:
        self._conditions = conditions
        self._block = weakref.ref(block)
        self._serial = next(_serial)
        self._steps = prepare_fill(conditions, block, conditions.closed(reads))

    def stale(self, time: float | None = None) -> bool:
        """Whether values, time, conditions or arrays read have changed since this was run. Local.

        `time` is that of the functions; None means the last time used for this array.
        """
        block = self._block()
        if block is None:
            return False
        filled = block.filled
        return self._serial not in filled.fills or filled.layers != self._conditions.state(time)

    def run(self, time: float | None = None) -> None:
        """Fix points on faces and fill the layers. Local; neighbour halos must be fresh."""
        block = self._block()
        if block is None:
            return
        self._conditions.fix_values(block, time)
        self._steps.run(self._conditions.time)
        self._note(block, time)

    def _note(self, block: Block, time: float | None) -> None:
        """Fills made at another state may have been overwritten: only those of this state count."""
        state = self._conditions.state(time)
        if block.filled.layers != state:
            block.filled.layers = state
            block.filled.fills.clear()
        block.filled.fills.add(self._serial)


def prepare_fill(conditions: ArrayConditions, block: Block, reads: HaloReads) -> Steps:
    """The fills of all faces of this rank, in order."""
    steps = Steps()
    for axis, side in itertools.product(range(block.layout.ndim), (LOW, HIGH)):
        if not ends(block.layout, block.owned, axis, side):
            continue
        for (_, _, component), rule in conditions.rules_at(axis, side):
            region = fill_region(conditions, block, rule, component, reads)
            if region is not None:
                steps.extend(rule.prepare(region, region.outer(block.component(component)), block))
    return steps


def fill_region(
    conditions: ArrayConditions, block: Block, rule: Rule, component: Component, reads: HaloReads
) -> Region | None:
    """The layers to fill for one component: as many, and as wide, as the reads at this face ask."""
    axis, side = rule.face.axis, rule.face.side
    wanted = [(d, widths) for (c, d), widths in reads.items() if c == component and d[axis] == side]
    layers = max((widths[axis] for _, widths in wanted), default=0)
    if not layers:
        return None
    box = block.owned
    for other in range(block.layout.ndim):
        if other == axis:
            continue
        reach = {
            step: max((widths[other] for d, widths in wanted if d[other] == step), default=0)
            if not ends(block.layout, block.owned, other, step)
            or (other < axis and (other, step, component) in conditions.rules)
            else 0
            for step in (LOW, HIGH)
        }
        box = box.with_axis(other, box.start[other] - reach[LOW], box.stop[other] + reach[HIGH])
    return Region(rule.face, box, layers, block.padded.start)
