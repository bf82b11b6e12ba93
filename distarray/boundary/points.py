"""Points that lie on faces: fixed to the values of Dirichlet conditions, or free to be computed.

The points are fixed in the owned block and where this rank holds halo copies of them, so that no
message is needed to fix them everywhere.

Two index systems meet where kernels ask which points they may write. Conditions lie on faces of the
domain, so what is here speaks of *global* indices (`global_free_boxes`). Launches run over *local*
indices, which begin at the first owned point; `kernels.extents.local_free_boxes` shifts by that.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.backends.base import Backend
from distarray.block import Block
from distarray.boundary.face import HIGH, LOW, Face, Region, ends
from distarray.boundary.renewal import renewal
from distarray.boundary.rules import Masks, Rule, Steps, assign, mask_on, operand
from distarray.boundary.values import FaceValue, cast
from distarray.layout import Component
from distarray.regions import Box, boxes_of

if TYPE_CHECKING:
    from distarray.boundary.array_conditions import ArrayConditions


def prepare_fixes(conditions: ArrayConditions, block: Block) -> Steps:
    """The fixing of points that lie on faces, here and in halo copies, the axes in order. Local."""
    steps = Steps()
    for axis, side in itertools.product(range(block.layout.ndim), (LOW, HIGH)):
        for (_, _, component), rule in conditions.rules_at(axis, side):
            if holds_points_at(rule.face, block):
                region = Region(rule.face, _beside_face(block, axis), 0, block.padded.start)
                target = region.inner(block.component(component), 0, 1)
                for value, masks in rule.fixes():
                    steps.extend(_fix(value, masks, region, target, block.backend))
    return steps


def holds_points_at(face: Face, block: Block) -> bool:
    """Whether this rank owns values nearest to a face, or holds halo copies of them. Local."""
    low, high = block.padded.start[face.axis], block.padded.stop[face.axis]
    return not block.empty and low <= face.index(0) < high


def _beside_face(block: Block, axis: int) -> Box:
    """What this rank holds beside a face without the layers of other axes."""
    box, owned = block.padded, block.owned
    for other in range(box.ndim):
        if other != axis:
            low = ends(block.layout, owned, other, LOW)
            high = ends(block.layout, owned, other, HIGH)
            start = (owned if low else box).start[other]
            stop = (owned if high else box).stop[other]
            box = box.with_axis(other, start, stop)
    return box


def _fix(value: FaceValue, masks: Masks, region: Region, target: Any, backend: Backend) -> Steps:
    where = backend.asarray(mask_on(region, masks)) if masks else None

    def values(time: float) -> Any:
        return cast(value.on(region, time), target.dtype, region.face, value.kind)

    if not value.time_dependent:
        return Steps([], [assign(backend, operand(backend, values(0.0)), target, where)])
    held = backend.empty(region.plane, target.dtype)
    renew = renewal(backend, held)

    def update(time: float) -> None:
        renew(values(time))

    return Steps([update], [assign(backend, held, target, where)])


def global_free_boxes(
    conditions: ArrayConditions, block: Block, component: Component
) -> tuple[Box, ...]:
    """The owned points that no condition fixes, as disjoint boxes of global indices. Local."""
    box, mixed = block.owned, []
    for axis, side in itertools.product(range(box.ndim), (LOW, HIGH)):
        rule = conditions.rules.get((axis, side, component))
        if rule is None or not ends(block.layout, block.owned, axis, side):
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
        found += boxes_of(_free_points(slab, mixed, block), slab.start)
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
