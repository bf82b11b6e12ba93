"""Filling boundary layers and fixing points on faces, on the memory of one rank.

Executed order of a refresh: points that lie on faces with Dirichlet conditions are fixed, also
where this rank holds halo copies of them; halos are exchanged; layers are filled, axis after axis,
low side before high side. A fill covers what is read beside its face: neighbour halos, and the
layers of earlier axes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.block import Block, Component, HaloReads
from distarray.boundary.face import HIGH, LOW, Region, touches
from distarray.boundary.rules import Masks, Rule, Steps, mask_on
from distarray.boundary.values import FaceValue, cast
from distarray.regions import Box

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
        Already closed.
    """

    def __init__(self, conditions: ArrayConditions, block: Block, reads: HaloReads) -> None:
        self._conditions = conditions
        self._block = weakref.ref(block)
        self._serial = next(_serial)
        self._steps = prepare_fill(conditions, block, reads)
        self._updated: float | None = None

    def stale(self, time: float | None = None) -> bool:
        """Whether values, time, conditions or arrays read have changed since this was run. Local.

        `time` is that of the functions; None means the last time used for this array.
        """
        block = self._block()
        if block is None:
            return False
        state, done = block.filled.get("layers", (None, ()))
        return self._serial not in done or state != self._conditions.state(time)

    def run(self, time: float | None = None) -> None:
        """Fix points on faces and fill the layers. Local; neighbour halos must be fresh."""
        block = self._block()
        if block is None:
            return
        conditions = self._conditions
        conditions.fix_values(block, time)
        steps = self._steps
        with np.errstate(all="ignore"):
            if self._updated != conditions.time:
                for update in steps.updates:
                    update(conditions.time)
                self._updated = conditions.time
            for call in steps.calls:
                call()
        self._note(block, time)

    def _note(self, block: Block, time: float | None) -> None:
        """Fills made at another state may have been overwritten: only those of this state count."""
        state = self._conditions.state(time)
        old, done = block.filled.get("layers", (None, set()))
        if old != state:
            done = set()
            block.filled["layers"] = state, done
        done.add(self._serial)


def prepare_fill(conditions: ArrayConditions, block: Block, reads: HaloReads) -> Steps:
    """The fills of all faces of this rank, in order."""
    steps = Steps()
    for axis, side in itertools.product(range(block.layout.ndim), (LOW, HIGH)):
        if (
            block.empty
            or block.layout.decomposition.periodic[axis]
            or not touches(block.layout, block.owned, axis, side)
        ):
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
            if not _ends(block, other, step)
            or (other < axis and (other, step, component) in conditions.rules)
            else 0
            for step in (LOW, HIGH)
        }
        box = box.with_axis(other, box.start[other] - reach[LOW], box.stop[other] + reach[HIGH])
    return Region(rule.face, box, layers, block.padded.start)


def _ends(block: Block, axis: int, side: int) -> bool:
    """Whether the domain ends where this block ends."""
    return not block.layout.decomposition.periodic[axis] and touches(
        block.layout, block.owned, axis, side
    )


# ---- points on faces


def prepare_fixes(conditions: ArrayConditions, block: Block) -> Steps:
    """The fixing of points that lie on faces, here and in halo copies, the axes in order."""
    steps = Steps()
    if block.empty:
        return steps
    for axis, side in itertools.product(range(block.layout.ndim), (LOW, HIGH)):
        for (_, _, component), rule in conditions.rules_at(axis, side):
            index = rule.face.index(0)
            if block.padded.start[axis] <= index < block.padded.stop[axis]:
                region = Region(rule.face, _beside_face(block, axis), 0, block.padded.start)
                target = region.inner(block.component(component), 0, 1)
                for value, masks in rule.fixes():
                    steps.extend(_fix(value, masks, region, target))
    return steps


def _beside_face(block: Block, axis: int) -> Box:
    """What this rank holds beside a face without the layers of other axes."""
    box = block.padded
    for other in range(box.ndim):
        if other != axis:
            start = (block.owned if _ends(block, other, LOW) else box).start[other]
            stop = (block.owned if _ends(block, other, HIGH) else box).stop[other]
            box = box.with_axis(other, start, stop)
    return box


def _fix(value: FaceValue, masks: Masks, region: Region, target: Any) -> Steps:
    where = mask_on(region, masks) if masks else True

    def values(time: float) -> Any:
        return cast(value.on(region, time), target.dtype, region.face, value.kind)

    if not value.time_dependent:
        return Steps([], [partial(np.copyto, target, values(0.0), where=where)])
    held = np.zeros(region.plane, target.dtype)

    def update(time: float) -> None:
        held[...] = values(time)

    return Steps([update], [partial(np.copyto, target, held, where=where)])


def free_boxes(conditions: ArrayConditions, block: Block, component: Component) -> tuple[Box, ...]:
    """The owned points that no condition fixes, as disjoint boxes of global indices."""
    box, mixed = block.owned, []
    for axis, side in itertools.product(range(box.ndim), (LOW, HIGH)):
        rule = conditions.rules.get((axis, side, component))
        if rule is None or not rule.face.touched_by(block.owned):
            continue
        if rule.fixes_all:
            box = _without_plane(box, axis, side)
        elif any(True for _ in rule.fixes()):
            mixed.append(rule)
    core = box
    for rule in mixed:
        core = _without_plane(core, rule.face.axis, rule.face.side)
    found = [] if core.empty else [core]
    for slab in box.difference(core) if mixed else ():
        found += _runs(slab, _free_points(slab, mixed, block))
    return tuple(found)


def _without_plane(box: Box, axis: int, side: int) -> Box:
    start, stop = box.start[axis], box.stop[axis]
    return box.with_axis(axis, start + (side == LOW), stop - (side == HIGH))


def _free_points(slab: Box, mixed: list[Rule], block: Block) -> Any:
    free = np.ones(slab.shape, bool)
    for rule in mixed:
        face = rule.face
        plane = slab.intersection(slab.with_axis(face.axis, face.index(0), face.index(0) + 1))
        if not plane.empty:
            region = Region(face, plane, 0, block.padded.start)
            part = free[plane.slices(slab.start)]
            for _, masks in rule.fixes():
                part &= ~mask_on(region, masks)
    return free


def _runs(slab: Box, free: Any) -> Iterator[Box]:
    """Boxes over the true points, each a run along the last axis."""
    for row in np.ndindex(*free.shape[:-1]):
        edges = np.flatnonzero(
            np.diff(np.concatenate(([False], free[row], [False])).astype(np.int8))
        )
        for start, stop in edges.reshape(-1, 2):
            first = tuple(a + i for a, i in zip(slab.start, row, strict=False))
            yield Box(
                (*first, slab.start[-1] + int(start)),
                (*(i + 1 for i in first), slab.start[-1] + int(stop)),
            )
