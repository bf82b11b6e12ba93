"""Several steps of a loop as a list of things that are done to all points: kernels, and between
them the filling of boundary layers and the fixing of points on faces, where single steps do it.

Layers have a number of their own beside that of their array. A fill writes them after the points
from which they follow; who reads them reads, as far as the order is concerned, those points: layers
at one end of an axis are read as if the array were read as far to the other side. That is why reads
of an array with conditions along an axis are taken to reach equally far below and above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from distarray.boundary.array_conditions import ArrayConditions
from distarray.boundary.face import HIGH, LOW
from distarray.decomposition import Decomposition
from distarray.kernels.plan import ApplyPlan
from distarray.kernels.reads import field_reads
from distarray.layout import Component, HaloReads
from distarray.profile import Profile
from distarray.regions import Box
from distarray.stencil.analysis import offsets, reach, written
from distarray.stencil.compile import NativeLaunch
from distarray.stencil.expression import Program
from distarray.tiling.points import PointCall
from distarray.tiling.schedule import Application, Widths

if TYPE_CHECKING:
    from distarray.array import DistArray


@dataclass(frozen=True)
class Call:
    """One kernel of one step: its plan, its arguments, which step it is, and what single steps pass
    instead of the arguments, if these have wider halos.
    """

    plan: ApplyPlan
    arguments: tuple[DistArray | Profile, ...]
    step: int = 0
    originals: tuple[DistArray | Profile, ...] | None = None

    @property
    def launch(self) -> NativeLaunch:
        """The compiled kernel, which all calls of a loop that is tiled have."""
        return cast(NativeLaunch, self.plan.without_reductions[1])


class Form:
    """What calls of one plan have in common.

    Attributes
    ----------
    program : Program
        Without its reductions, which are dropped.
    arrays : dict
        The arguments that are no profiles, by the serials of their blocks.
    outputs : list of DistArray
        One for each store.
    writes : frozenset of serials
    """

    def __init__(self, call: Call) -> None:
        self._plan, self.arguments = call.plan, call.arguments
        self._originals = call.originals or call.arguments
        self.program: Program = call.plan.without_reductions[0]
        fields = [a for a in call.arguments if not isinstance(a, Profile)]
        self.arrays = {array.block.serial: array for array in fields}
        self.outputs = [
            cast("DistArray", call.arguments[store.parameter]) for store in self.program.stores
        ]
        self.writes = frozenset(array.block.serial for array in self.outputs)

    @cached_property
    def application(self) -> Application:
        """What it reads and writes, arrays named by the serials of their blocks. Of an array that
        it writes in part it reads the rest.
        """
        program = self.program
        reads: dict[int, tuple[Widths, Widths]] = {}
        for array, found, read, made in zip(
            self.arguments, reach(program), offsets(program), written(program), strict=True
        ):
            if isinstance(array, Profile):
                continue
            if not read and len(made) in (0, np.prod(array.components, dtype=int)):
                continue
            low, high = (tuple(ends[side] for ends in found) for side in (0, 1))
            before = reads.get(array.block.serial, (low, high))
            reads[array.block.serial] = (
                tuple(map(max, low, before[0])),
                tuple(map(max, high, before[1])),
            )
        return Application(reads, self.writes)

    @cached_property
    def layers(self) -> dict[int, HaloReads]:
        """The halo regions, some of which may be boundary layers, that it reads of each array with
        conditions.
        """
        found: dict[int, HaloReads] = {}
        for number, array in enumerate(self.arguments):
            if not isinstance(array, Profile) and array.boundary:
                reads = field_reads(self.program, number, self._originals).layers
                _join(found.setdefault(array.block.serial, {}), reads)
        return found

    @cached_property
    def computed(self) -> list[Box]:
        """Where each store computes, in global indices, on all ranks together. There are as many
        layers to read as the halos of single steps are wide.
        """
        boxes: dict[int, dict[Component, tuple[Box, ...]]] = {}
        found = []
        for store in self.program.stores:
            position = store.parameter
            if position not in boxes:
                boxes[position] = self._plan.written_boxes(self._originals, position, whole=True)
            (box,) = boxes[position][store.component]
            found.append(box)
        return found


@dataclass(frozen=True)
class Item:
    """Something that is done to all points: a call or, for one array, the filling of layers or the
    fixing of points, at the time of the call with this number; or to some points of an array
    ("cells") by the call with this number.
    """

    kind: str
    call: int
    serial: int
    application: Application


@dataclass
class TileProgram:
    """The items of several steps.

    Attributes
    ----------
    calls : sequence of Call and PointCall
    forms : dict
        What calls of one plan have in common, by its identity.
    arrays : dict
        All arrays by the serials of their blocks.
    layers : dict
        Halo regions that are read of arrays with conditions.
    first : list of Item
        What is done before all else: layers are filled as they are before the first step.
    items : list of Item
        The rest, in the order of single steps.
    """

    calls: Sequence[Call | PointCall]
    forms: dict[int, Form] = field(default_factory=dict)
    arrays: dict[int, DistArray] = field(default_factory=dict)
    layers: dict[int, HaloReads] = field(default_factory=dict)
    first: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        for call in self.calls:
            if isinstance(call, PointCall):
                self.arrays.setdefault(call.array.block.serial, call.array)
            elif id(call.plan) not in self.forms:
                form = self.forms[id(call.plan)] = Form(call)
                self.arrays |= form.arrays
                for serial, reads in form.layers.items():
                    _join(self.layers.setdefault(serial, {}), reads)
        state = _Freshness()
        for number, call in enumerate(self.calls):
            if isinstance(call, PointCall):
                application = call.application
                self.items.append(Item("cells", number, call.array.block.serial, application))
                state.filled |= dict.fromkeys(application.writes, _STALE)
                continue
            form = self.form(call)
            self._prepare(number, form, state)
            if form.writes:
                self.items.append(Item("call", number, 0, self._mirrored(form)))
                for serial in form.writes:
                    state.filled[serial] = _STALE

    def form(self, call: Call) -> Form:
        return self.forms[id(call.plan)]

    @property
    def decomposition(self) -> Decomposition:
        return next(iter(self.arrays.values())).layout.decomposition

    def _prepare(self, number: int, form: Form, state: _Freshness) -> None:
        """What a call finds done: points fixed at its time, and layers filled that it reads."""
        step = self.calls[number].step
        for serial, array in form.arrays.items():
            if not array.boundary:
                continue
            conditions, ndim = array.boundary.conditions, array.layout.ndim
            here = {serial: ((0,) * ndim, (0,) * ndim)}
            # All points are fixed at the time of the first call before it.
            if fixes_at_times(conditions) and state.fixed.get(serial, 0) != step:
                application = Application(here, frozenset({serial}))
                self.items.append(Item("points", number, serial, application))
                state.filled[serial] = _STALE
                state.fixed[serial] = step
            now = step if conditions.time_dependent else 0
            reads = form.layers.get(serial, {})
            if form.writes and state.filled.get(serial) != now and _touches(conditions, reads):
                application = Application(here, frozenset({layers_of(serial)}))
                items = self.items if serial in state.filled else self.first
                items.append(Item("layers", number, serial, application))
                state.filled[serial] = now

    def _mirrored(self, form: Form) -> Application:
        """Reads of arrays with conditions, and of their layers, equally far below and above."""
        reads = dict(form.application.reads)
        for serial, regions in form.layers.items():
            conditions = self.arrays[serial].boundary.conditions  # type: ignore[union-attr]
            if serial in reads and _touches(conditions, regions):
                reads[serial] = self._evenly(form, serial, reads[serial])
                reads[layers_of(serial)] = reads[serial]
        return Application(reads, form.writes)

    def _evenly(
        self, form: Form, serial: int, reads: tuple[Widths, Widths]
    ) -> tuple[Widths, Widths]:
        staggered = self.arrays[serial].layout.staggered
        low, high = map(list, reads)
        for axis, on_points in enumerate(staggered):
            depth = self._depth(serial, axis)
            if depth:
                # A point at the end of the axis may be behind the last one of the array.
                further = any(o.layout.staggered[axis] != on_points for o in form.outputs)
                low[axis] = high[axis] = max(low[axis], high[axis], depth - 1) + further
        return tuple(low), tuple(high)

    def _depth(self, serial: int, axis: int) -> int:
        """How many points inward the layers along an axis follow from; 0 if none are read."""
        conditions = self.arrays[serial].boundary.conditions  # type: ignore[union-attr]
        found = 0
        for (at, side, component), rule in conditions.rules.items():
            if at == axis:
                widths = [
                    w[axis]
                    for (c, d), w in self.layers[serial].items()
                    if c == component and d[axis] == side
                ]
                if widths:
                    found = max([found, *(s.depth for s in rule.sources(max(widths)))])
        return found


#: Of layers that are filled for no step.
_STALE = -1


@dataclass
class _Freshness:
    """Of each array, the step for whose time its layers are filled, and its points fixed."""

    filled: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, int] = field(default_factory=dict)


def layers_of(serial: int) -> int:
    """The number of the layers of an array."""
    return -1 - serial


def fixes_at_times(conditions: ArrayConditions) -> bool:
    """Whether points on faces are fixed to values that depend on the time."""
    return any(v.time_dependent for rule in conditions.rules.values() for v, _ in rule.fixes())


def _touches(conditions: ArrayConditions, reads: HaloReads) -> bool:
    """Whether some of these regions are layers of a face. The same on all ranks."""
    return any(
        (axis, side, component) in conditions.rules
        for (component, direction) in reads
        for axis, side in enumerate(direction)
        if side in (LOW, HIGH)
    )


def _join(found: HaloReads, reads: HaloReads) -> None:
    for key, widths in reads.items():
        found[key] = tuple(map(max, widths, found.get(key, widths)))
