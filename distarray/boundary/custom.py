"""Boundary layers written by a user's stencil kernel.

The kernel is traced once for each face. Reads are split in two by their offset along the face's
axis: those of the layer being filled, and those inside. Each array then appears twice, as two views
of its memory that are turned so that the axis runs inward; the block's backend runs the program for
one layer after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from distarray.block import Block
from distarray.boundary.conditions import Custom
from distarray.boundary.face import HIGH, LOW, Face, Region
from distarray.boundary.rules import Masks, Source, Steps
from distarray.boundary.values import FaceValue
from distarray.errors import BoundaryError
from distarray.layout import Component
from distarray.stencil.expression import (
    SAME,
    ArrayParameter,
    Call,
    Cast,
    Expression,
    Program,
    Read,
    WeakKind,
    intern,
    kind_of,
    walk,
)
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry
from distarray.stencil.tracing import signature, trace

if TYPE_CHECKING:
    from distarray.array import DistArray


@dataclass(frozen=True, eq=False)
class CustomProgram:
    """A kernel traced for one face and for the components below `prefix`.

    `program` has the arrays of the kernel twice: first as they are read at the layer, then as they
    are read inside.
    """

    condition: Custom
    face: Face
    prefix: Component
    program: Program
    scalars: tuple[Any, ...]


def trace_custom(condition: Custom, face: Face, prefix: Component) -> CustomProgram:
    """The program of a Custom condition at a face; raises BoundaryError where it breaks a rule."""
    kernel = signature(condition.function)
    if len(kernel.arrays) != 1 + len(condition.arrays):
        _refuse(
            face,
            condition,
            f"takes {len(kernel.arrays)} arrays, but the condition has "
            f"{1 + len(condition.arrays)} (the array itself "
            f"and {len(condition.arrays)} more); pass the others as in Custom(kernel, v)",
        )
    defaults = kernel.defaults
    kinds = {name: _kind(condition, face, name, defaults.get(name)) for name in kernel.scalars}
    program = trace(
        condition.function,
        _parameters(condition, face, prefix, kernel.arrays),
        kinds,
        {},
        ndim=face.layout.ndim,
        axes=face.names,
        in_place=True,
    )
    _check(program, condition, face, prefix)
    values = tuple(kernel.defaults.get(name) for name in kernel.scalars)
    return CustomProgram(condition, face, prefix, _split(program, face.axis), values)


def _refuse(face: Face, condition: Custom, text: str) -> NoReturn:
    name = getattr(condition.function, "__name__", "kernel")
    raise BoundaryError(f"The kernel {name} of Custom on {face.name} {text}.")


def _kind(condition: Custom, face: Face, name: str, default: object) -> WeakKind:
    kind = float if name == "time" else kind_of(default)
    if kind is not None:
        return kind
    _refuse(
        face,
        condition,
        f"has the scalar {name!r} without a number as default; give it one, or use the scalar "
        "'time'",
    )


def _parameters(
    condition: Custom, face: Face, prefix: Component, names: tuple[str, ...]
) -> tuple[ArrayParameter, ...]:
    layouts = [replace(face.layout, components=face.layout.components[len(prefix) :])]
    for array in condition.arrays:
        layout = array.block.layout
        if layout.decomposition != face.layout.decomposition:
            _refuse(
                face,
                condition,
                f"reads an array of shape {layout.shape}, which lies on another grid; use arrays "
                "of one grid",
            )
        layouts.append(replace(layout, components=layout.components[len(array.component_prefix) :]))
    return tuple(
        ArrayParameter(name, layout.dtype, layout.components, layout.staggered)
        for name, layout in zip(names, layouts, strict=True)
    )


def _check(program: Program, condition: Custom, face: Face, prefix: Component) -> None:
    axis, written = face.axis, {store.component for store in program.stores}
    if program.reductions:
        _refuse(face, condition, "returns a reduction; it may only write the layer")
    if any(store.parameter for store in program.stores):
        _refuse(
            face,
            condition,
            "writes another array than its first; give that array a condition of its own",
        )
    missing = [c for c in np.ndindex(*program.arrays[0].components) if c not in written]
    if missing:
        _refuse(
            face,
            condition,
            f"does not write component {missing[0]} of its first array; write all of them",
        )
    for read in _reads(program):
        name = program.arrays[read.parameter].name
        if read.relation != SAME:
            _refuse(face, condition, f"reads {name} on another grid; use arrays of one grid")
        if read.offsets[axis] < 0:
            _refuse(
                face,
                condition,
                f"reads {name} at offset {read.offsets[axis]} along {face.names[axis]}; offsets "
                "there count inward "
                "from the face, from 0 for the layer",
            )
        if read.parameter == 0 and read.offsets[axis] == 0:
            _refuse(
                face,
                condition,
                f"reads {name} in the layer that it fills; read inside, at offsets of 1 and more",
            )


def _reads(program: Program) -> Iterator[Read]:
    for node in walk(store.value for store in program.stores):
        if isinstance(node, Read):
            yield node


def _split(program: Program, axis: int) -> Program:
    """The program with reads inside the domain moved to a second copy of the arrays."""
    count = len(program.arrays)
    moved: dict[int, Expression] = {}
    for node in walk(store.value for store in program.stores):
        new: Expression = node
        if isinstance(node, Read) and node.offsets[axis]:
            new = intern(
                Read,
                node.dtype,
                node.parameter + count,
                node.component,
                node.offsets,
                node.relation,
                node.axis,
            )
        elif isinstance(node, Call):
            arguments = tuple(moved[id(argument)] for argument in node.arguments)
            new = intern(Call, node.dtype, node.function, arguments, node.operation_dtype)
        elif isinstance(node, Cast):
            new = intern(Cast, node.dtype, moved[id(node.operand)])
        moved[id(node)] = new
    stores = tuple(replace(store, value=moved[id(store.value)]) for store in program.stores)
    return replace(program, arrays=program.arrays * 2, stores=stores)


class CustomRule:
    """The part of a traced kernel that writes one component."""

    fixes_all = False
    calls_functions = False

    def __init__(self, traced: CustomProgram, component: Component) -> None:
        self.face, self.traced = traced.face, traced
        own = component[len(traced.prefix) :]
        store = next(store for store in traced.program.stores if store.component == own)
        # The layer is handed over without component axes.
        target = replace(traced.program.arrays[0], components=())
        self.program = replace(
            traced.program,
            arrays=(target, *traced.program.arrays[1:]),
            stores=(replace(store, component=()),),
            lines=(),
        )

    @property
    def arrays(self) -> tuple[DistArray, ...]:
        """The other arrays of the condition."""
        return self.traced.condition.arrays

    @property
    def time_dependent(self) -> bool:
        return any(name == "time" for name, _ in self.program.scalars)

    def fixes(self) -> Iterator[tuple[FaceValue, Masks]]:
        return iter(())

    def try_functions(self, region: Region, time: float) -> None:
        pass

    def sources(self, layers: int) -> list[Source]:
        found, axis, count = [], self.face.axis, len(self.program.arrays) // 2
        for read in _reads(self.program):
            number = read.parameter % count
            array = self.arrays[number - 1] if number else None
            start = self.traced.prefix if array is None else array.component_prefix
            depth = read.offsets[axis]
            shift = (*read.offsets[:axis], 0, *read.offsets[axis + 1 :])
            found.append(Source(start + read.component, depth, shift, array, layers=depth == 0))
        return found

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        local = region.box.shift([-start for start in block.owned.start])
        local = local.with_axis(self.face.axis, 0, 1)
        launches = [
            self._launch(region, target, block, layer) for layer in range(1, region.layers + 1)
        ]
        time_at = [
            number for number, (name, _) in enumerate(self.program.scalars) if name == "time"
        ]
        scalars = list(self.traced.scalars)

        def update(time: float) -> None:
            for number in time_at:
                scalars[number] = time
            for launch in launches:
                launch.set_scalars(scalars)

        def run() -> None:
            for launch in launches:
                launch.run(local)

        return Steps([update], [run])

    def _launch(self, region: Region, target: Any, block: Block, layer: int) -> BoundLaunch:
        face = self.face
        blocks = [
            (block, self.traced.prefix),
            *((array.block, array.component_prefix) for array in self.arrays),
        ]
        origin = [
            start - first for start, first in zip(block.owned.start, region.box.start, strict=True)
        ]
        origin[face.axis] = layer - 1
        views = [ArrayView(target, tuple(origin), block.owned.start)]
        views += [self._turned(other, prefix, layer) for other, prefix in blocks[1:]]
        views += [self._turned(other, prefix, 1) for other, prefix in blocks]
        start = list(block.owned.start)
        start[face.axis] = face.index(-layer)
        decomposition = face.layout.decomposition
        geometry = LaunchGeometry(
            tuple(start), decomposition.shape, decomposition.periodic, face.axes
        )
        return block.backend.bind(self.program, views, geometry)

    def _turned(self, block: Block, prefix: Component, layer: int) -> ArrayView:
        """The memory of an array with its axis running inward; local index 0 is a layer of that
        array.
        """
        face, layout = self.face, block.layout
        memory, origin = block.memory[prefix], list(layout.halo)
        index = -layer if face.side == LOW else layout.points[face.axis] - 1 + layer
        place = index - block.padded.start[face.axis]
        if face.side == HIGH:
            turned = face.axis - layout.ndim
            backwards = [slice(None)] * memory.ndim
            backwards[turned] = slice(None, None, -1)
            memory = memory[tuple(backwards)]
            place = memory.shape[turned] - 1 - place
        origin[face.axis] = place
        return ArrayView(memory, tuple(origin), block.owned.start)
