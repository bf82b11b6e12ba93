"""Which halo regions and boundary layers of its arguments a kernel reads: the same on all ranks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from operator import add
from typing import TYPE_CHECKING, Any

from distarray.block import reads_of_offsets
from distarray.errors import StencilError
from distarray.kernels.refresh import FieldReads
from distarray.layout import Component, HaloReads, Layout, Offsets
from distarray.stencil.analysis import reduced_over
from distarray.stencil.expression import (
    COARSE,
    FINE,
    ArrayParameter,
    Expression,
    Program,
    Read,
    walk,
)

if TYPE_CHECKING:
    from distarray.array import DistArray


def field_reads(program: Program, number: int, arguments: Sequence[Any]) -> FieldReads:
    """The halo regions and boundary layers that a program reads of one array. Local.

    Raises
    ------
    StencilError
        The program reads further than the halo is wide.
    """
    array: DistArray = arguments[number]
    halo: dict[Component, set[Offsets]] = {}
    layers: dict[Component, set[Offsets]] = {}
    for target, reads_of in _uses(program):
        extra = _extra_points(arguments[target].layout, array.layout)
        for read in reads_of.get(number, ()):
            component = (*array.component_prefix, *read.component)
            reached = tuple(_reached(read, program.arrays[number], array))
            halo.setdefault(component, set()).update(reached)
            layers.setdefault(component, set()).update(
                tuple(map(add, offsets, more))
                for offsets in (read.offsets, *reached)
                for more in extra
            )
    reads = reads_of_offsets(halo)
    _check_reach(program, number, reads, array.layout.halo)
    return FieldReads(
        reads, _clipped(reads_of_offsets(layers), array.layout.halo), array.boundary or None
    )


@functools.lru_cache(maxsize=8)
def _uses(program: Program) -> list[tuple[int, dict[int, list[Read]]]]:
    """The array over whose points some values are computed, and what these read of each array."""
    found = [(store.parameter, _reads_of([store.value])) for store in program.stores]
    if program.reductions:
        values = [reduction.value for reduction in program.reductions]
        found.append((reduced_over(program), _reads_of(values)))
    return found


def _reads_of(roots: Sequence[Expression]) -> dict[int, list[Read]]:
    found: dict[int, list[Read]] = {}
    for node in walk(roots):
        if isinstance(node, Read):
            found.setdefault(node.parameter, []).append(node)
    return found


def _reached(read: Read, parameter: ArrayParameter, array: DistArray) -> Iterator[Offsets]:
    """Offsets from this rank's own cells that a read reaches, on the array's grid.

    From a coarse cell, fine cell 2 i + 1 is owned unless a cut of the fine grid is odd; then the
    fine cell i of the block's low end lies in the coarse cell of the block before.
    """
    choices: list[tuple[int, ...]] = []
    for axis, offset in enumerate(read.offsets):
        part = array.layout.decomposition.axes[axis]
        relation = parameter.along(axis, read.relation)
        if relation == FINE and offset > 0 and not part.cut_unevenly(2):
            choices.append((offset - 1,))
        elif relation == COARSE and part.finer_cut_unevenly(2):
            choices.append((offset - 1, offset))
        else:
            choices.append((offset,))
    return itertools.product(*choices)


def _extra_points(output: Layout, layout: Layout) -> tuple[Offsets, ...]:
    """Steps from the last cell of an axis to the last point of an output with one more there."""
    steps = [
        (0, 1) if points > own else (0,)
        for points, own in zip(output.points, layout.points, strict=True)
    ]
    return tuple(itertools.product(*steps))


def _clipped(reads: HaloReads, halo: Sequence[int]) -> HaloReads:
    return {key: tuple(map(min, widths, halo)) for key, widths in reads.items()}


def _check_reach(program: Program, number: int, reads: HaloReads, halo: Sequence[int]) -> None:
    for widths in reads.values():
        for axis, (width, held) in enumerate(zip(widths, halo, strict=True)):
            if width > held:
                line = max(
                    (abs(offsets[axis]), line)
                    for parameter, _, offsets, line in program.read_lines
                    if parameter == number
                )[1]
                name = program.arrays[number].name
                raise StencilError(
                    f"Kernel {program.name} (line {line}) reads {name} at a distance of {width} "
                    f"cells along axis {axis}, beyond its halo of {held}; create the array or its "
                    f"grid with halo={width}."
                )
