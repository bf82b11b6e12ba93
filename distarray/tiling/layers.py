"""Boundary conditions inside a tile: layers that are filled, and points that are fixed, in C.

After the points of a box have been computed, the layers whose values follow from some of them are
filled, axis after axis, where the box lies at an end of the domain. A layer that follows from
points of several boxes is filled after each of them: it is right after the last, and whoever reads
it comes later (see `program`). Coefficients are those of the rules of `boundary`, and so are the
operations, each rounded once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.block import Block
from distarray.boundary.array_conditions import ArrayConditions
from distarray.boundary.face import HIGH, LOW, Region, ends
from distarray.boundary.points import holds_points_at
from distarray.boundary.rules import (
    ExtrapolateRule,
    Masks,
    MirrorRule,
    PiecewiseRule,
    Rule,
    SymmetryRule,
    mask_on,
)
from distarray.boundary.values import FaceValue, cast
from distarray.layout import Component, HaloReads
from distarray.regions import Box
from distarray.tiling.fills import NEVER, NOWHERE, Fill, Place

#: New coefficients at a time, for memory that fills read.
Update = Callable[[float], None]


class Work:
    """What is done to one array after the points of a box were computed. Creation is Local.

    Attributes
    ----------
    table : ndarray of int64
        The layout of `fill_layers`.
    """

    def __init__(self, block: Block, fills: Sequence[Fill], updates: Sequence[Update]) -> None:
        self._fills, self._updates = fills, updates
        ndim = block.layout.ndim
        words = [fill.words(block.layout.dtype, ndim) for fill in fills]
        self.table = np.array([len(fills), ndim, *itertools.chain(*words)], np.int64)

    def spans(self) -> list[tuple[int, int, int]]:
        """(axis, first, last + 1) of points that something follows from."""
        return sorted({(fill.axis, *fill.points) for fill in self._fills})

    def update(self, time: float) -> None:
        """Evaluate functions."""
        with np.errstate(all="ignore"):
            for update in self._updates:
                update(time)


class _Works:
    """Makes the fills of one array.

    `closed` says how many cells around the ends of each axis are copied to its halos by the rank
    itself, since it is periodic and not cut.
    """

    def __init__(self, conditions: ArrayConditions, block: Block, closed: Sequence[int]) -> None:
        self.conditions, self.block, self.closed = conditions, block, tuple(closed)
        self.ndim, self.shape = block.layout.ndim, block.owned.shape
        self.updates: list[Update] = []
        self.fills: list[Fill] = []

    def work(self) -> Work:
        return Work(self.block, self.fills, self.updates)

    # ---- layers

    def layers(self, reads: HaloReads) -> Work:
        """All layers that these reads touch."""
        reads = self.conditions.closed(reads)
        for axis, side in itertools.product(range(self.ndim), (LOW, HIGH)):
            if ends(self.block.layout, self.block.owned, axis, side):
                for (_, _, component), rule in self.conditions.rules_at(axis, side):
                    self._fill(rule, component, reads)
        return self.work()

    def _fill(self, rule: Rule, component: Component, reads: HaloReads) -> None:
        face = rule.face
        wanted = [
            (d, widths)
            for (c, d), widths in reads.items()
            if c == component and d[face.axis] == face.side
        ]
        layers = max((widths[face.axis] for _, widths in wanted), default=0)
        if not layers:
            return
        extra = {
            (axis, side): max((widths[axis] for d, widths in wanted if d[axis] == side), default=0)
            for axis in range(face.axis)
            for side in (LOW, HIGH)
            if (axis, side, component) in self.conditions.rules
            and ends(self.block.layout, self.block.owned, axis, side)
        }
        region = Region(face, self._across(face.axis, extra), layers, self.block.padded.start)
        count = self.shape[face.axis]
        first, step = (0, -1) if face.side == LOW else (count - 1, 1)
        target = self._memory(component).along(face.axis, first, step)
        depth = _depth(rule, layers)
        points = (0, depth) if face.side == LOW else (count - depth, count)
        beyond = self._beyond(component, extra)
        make = partial(Fill, axis=face.axis, points=points, layers=layers, target=target)
        self._of_rule(rule, region, component, partial(make, beyond=beyond), ())
        self._around(make(kind="set"), beyond)

    def _across(self, axis: int, extra: dict[tuple[int, int], int]) -> Box:
        """Points over which coefficients are needed, in global indices."""
        block, box = self.block, self.block.owned
        for other in range(self.ndim):
            if other == axis or self.closed[other]:
                continue
            at_end = [ends(block.layout, block.owned, other, side) for side in (LOW, HIGH)]
            low = extra.get((other, LOW), 0) if at_end[0] else block.layout.halo[other]
            high = extra.get((other, HIGH), 0) if at_end[1] else block.layout.halo[other]
            box = box.with_axis(other, box.start[other] - low, box.stop[other] + high)
        return box

    def _beyond(
        self, component: Component, extra: dict[tuple[int, int], int]
    ) -> dict[int, tuple[int, int, int, int]]:
        """Along earlier axes the layers are filled too, where they were filled just before."""
        found = {}
        for axis in {axis for axis, _ in extra}:
            low, high = (-NEVER, 0), (NEVER, 0)
            for side in (LOW, HIGH):
                width = extra.get((axis, side), 0)
                if width:
                    depth = _depth(self.conditions.rules[axis, side, component], width)
                    if side == LOW:
                        low = depth, -width
                    else:
                        high = self.shape[axis] - depth, self.shape[axis] + width
            found[axis] = (*low, *high)
        return found

    def _around(self, made: Fill, beyond: dict[int, tuple[int, int, int, int]]) -> None:
        """Copy what was made to the halos of axes that the rank closes itself."""
        beyond = dict(beyond)
        for axis, reach in enumerate(self.closed):
            if not reach or axis == made.axis:
                continue
            count = self.shape[axis]
            for limits, move in (((0, reach), count), ((count - reach, count), -count)):
                self.fills.append(
                    Fill(
                        "set", made.axis, made.points, made.layers,
                        made.target.moved(axis, move), alpha=made.target,
                        limits={axis: limits}, beyond=dict(beyond),
                    )
                )  # fmt: skip
            beyond[axis] = (1, -reach, count - 1, count + reach)

    def _of_rule(
        self,
        rule: Rule,
        region: Region,
        component: Component,
        make: Callable[..., Fill],
        masks: Masks,
    ) -> None:
        if isinstance(rule, PiecewiseRule):
            self._of_rule(rule.first, region, component, make, masks)
            masks = (*masks, (rule.mask, False))
            self._of_rule(rule.second, region, component, make, masks)
            return
        face, memory = rule.face, self._memory(component)
        if masks:
            mask = np.ascontiguousarray(mask_on(region, masks))
            make = partial(make, mask=self._place(mask.view(np.uint8), region))
        low, last = face.side == LOW, self.shape[face.axis] - 1
        first, step = (face.on_face - 1, 1) if low else (last + 1 - face.on_face, -1)
        mirror = memory.along(face.axis, first, step)
        if isinstance(rule, MirrorRule):
            self._of_mirror(rule, region, partial(make, source=mirror))
        elif isinstance(rule, SymmetryRule):
            kind = "set" if rule.sign == 1 else "subtract"
            if rule.sign == 1:
                self.fills.append(make(kind=kind, alpha=mirror))
            else:
                nothing = np.array(-np.zeros((), self.block.layout.dtype))
                alpha = self._place(nothing, region)
                self.fills.append(make(kind=kind, source=mirror, alpha=alpha))
        elif isinstance(rule, ExtrapolateRule):
            nearest = memory.along(face.axis, 0 if low else last, 0)
            if not rule.degree:
                self.fills.append(make(kind="set", alpha=nearest))
                return
            weights = [rule.cast(rule.weights(q, region.layers)) for q in range(rule.degree + 1)]
            table = np.stack(
                [np.ravel(w) for w in weights], axis=1
            )  # for each layer, nearest first
            strides = [0] * self.ndim
            strides[face.axis] = table.strides[0]
            beta = Place(table.ctypes.data - table.strides[0], strides, table)
            step = memory.strides[face.axis] * (1 if low else -1)
            self.fills.append(
                make(
                    kind="polynomial", source=nearest, beta=beta,
                    terms=rule.degree + 1, term_stride=step,
                )
            )  # fmt: skip

    def _of_mirror(self, rule: MirrorRule, region: Region, make: Callable[..., Fill]) -> None:
        distances, dtype = region.distances(), self.block.layout.dtype

        def compute(time: float) -> tuple[HostArray, Any]:
            alpha, beta = rule.cast_coefficients(region, distances, time)
            return np.array(alpha, dtype), beta if isinstance(beta, int) else np.array(beta)

        with np.errstate(all="ignore"):
            alpha, beta = compute(self.conditions.time)
        if rule.time_dependent:

            def update(time: float) -> None:
                new_alpha, new_beta = compute(time)
                alpha[...] = new_alpha
                if not isinstance(beta, int):
                    beta[...] = new_beta

            self.updates.append(update)
        make = partial(make, alpha=self._place(alpha, region))
        if isinstance(beta, int):
            self.fills.append(make(kind="add" if beta == 1 else "subtract"))
        else:
            kind = "scale complex" if beta.dtype.kind == "c" else "scale"
            self.fills.append(make(kind=kind, beta=self._place(beta, region)))

    # ---- points on faces

    def points(self) -> Work:
        """All points on faces that are fixed, here and in halo copies."""
        for axis, side in itertools.product(range(self.ndim), (LOW, HIGH)):
            for (_, _, component), rule in self.conditions.rules_at(axis, side):
                if holds_points_at(rule.face, self.block):
                    self._fix(rule, component)
        return self.work()

    def _fix(self, rule: Rule, component: Component) -> None:
        face = rule.face
        region = Region(face, self._across(face.axis, {}), 0, self.block.padded.start)
        plane = face.index(0) - self.block.owned.start[face.axis]
        target = self._memory(component).along(face.axis, plane, 0)
        make = partial(Fill, "set", face.axis, (plane, plane + 1), 1, target)
        fixed = False
        for value, masks in rule.fixes():
            held = self._fixed_values(value, region)
            mask = NOWHERE
            if masks:
                where = np.ascontiguousarray(mask_on(region, masks))
                mask = self._place(where.view(np.uint8), region)
            self.fills.append(make(alpha=self._place(held, region), mask=mask))
            fixed = True
        if fixed:
            self._around(make(), {})

    def _fixed_values(self, value: FaceValue, region: Region) -> HostArray:
        dtype = self.block.layout.dtype

        def compute(time: float) -> HostArray:
            return np.array(cast(value.on(region, time), dtype, region.face, value.kind))

        with np.errstate(all="ignore"):
            held = compute(self.conditions.time)
        if value.time_dependent:
            self.updates.append(lambda time: held.__setitem__(Ellipsis, compute(time)))
        return held

    # ---- places

    def _memory(self, component: Component) -> Place:
        memory, halo = self.block.component(component), self.block.layout.halo
        start = sum(h * s for h, s in zip(halo, memory.strides, strict=True))
        return Place(memory.ctypes.data + start, memory.strides)

    def _place(self, values: HostArray, region: Region) -> Place:
        """Coefficients that broadcast over the layers of a region; the first layer is 1."""
        if not values.ndim:
            return Place(values.ctypes.data, (0,) * self.ndim, values)
        strides = [0 if n == 1 else s for n, s in zip(values.shape, values.strides, strict=True)]
        first = [a - b for a, b in zip(region.box.start, self.block.owned.start, strict=True)]
        first[region.face.axis] = 1
        back = sum(i * s for i, s in zip(first, strides, strict=True))
        return Place(values.ctypes.data - back, strides, values)


def _depth(rule: Rule, layers: int) -> int:
    """How many points inward the layers follow from."""
    return max(source.depth for source in rule.sources(layers))


def layers_of(
    conditions: ArrayConditions, block: Block, reads: HaloReads, closed: Sequence[int]
) -> Work:
    """The filling of all layers that these reads touch. Local."""
    return _Works(conditions, block, closed).layers(reads)


def points_of(conditions: ArrayConditions, block: Block, closed: Sequence[int]) -> Work:
    """The fixing of points on faces. Local."""
    return _Works(conditions, block, closed).points()
