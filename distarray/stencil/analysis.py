"""What a program reads, writes and costs, found from its expressions alone. Pure.

Results are lists with one entry per array parameter, in the program's order, unless they are keyed
by name. Offsets are in cells of the array that is read: of the finer grid for `.fine`, of the
coarser for `.coarse`; those of a profile have one number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from distarray.errors import StencilError
from distarray.layout import Component, Offsets
from distarray.stencil.calls import ARITHMETIC, TRANSCENDENTAL, as_dtype
from distarray.stencil.expression import (
    LEVELS,
    ArrayParameter,
    Call,
    Expression,
    Program,
    Read,
    walk,
)

ComponentOffsets = dict[Component, set[Offsets]]
Reach = tuple[tuple[int, int], ...]  # cells below and above, per axis

# Floating-point operations of a function of complex numbers in its real expansion.
_COMPLEX_FLOPS = {"add": 2, "subtract": 2, "multiply": 6, "divide": 11}
# Sign changes and choices move bits; they are no floating-point operations.
_FREE = frozenset({"negative", "absolute", "copysign", "sign"})


def roots(program: Program) -> list[Expression]:
    """All expressions that the program evaluates: values of stores, then of reductions."""
    return [store.value for store in program.stores] + [r.value for r in program.reductions]


def read_nodes(expressions: Iterable[Expression]) -> list[Read]:
    """The array reads under some expressions, each once."""
    return [node for node in walk(expressions) if isinstance(node, Read)]


def offsets_of(program: Program, expressions: Iterable[Expression]) -> list[ComponentOffsets]:
    """For each array, the offsets at which some expressions read each component."""
    found: list[ComponentOffsets] = [{} for _ in program.arrays]
    for read in read_nodes(expressions):
        found[read.parameter].setdefault(read.component, set()).add(read.offsets)
    return found


def offsets(program: Program) -> list[ComponentOffsets]:
    """For each array, the offsets at which the whole program reads each component."""
    return offsets_of(program, roots(program))


def reduced_over(program: Program) -> int:
    """The array over whose points the reductions run: the first output, else the first array that
    lies on the kernel's own grid.
    """
    if program.stores:
        return program.stores[0].parameter
    return next(
        number
        for number, array in enumerate(program.arrays)
        if array.profile_axis is None and not array.level
    )


def relations(program: Program) -> list[str]:
    """For each array, how its cells relate to the kernel's: SAME, FINE or COARSE."""
    names = {level: relation for relation, level in LEVELS.items()}
    return [names[array.level] for array in program.arrays]


def written(program: Program) -> list[set[Component]]:
    """For each array, the components that the program writes."""
    found: list[set[Component]] = [set() for _ in program.arrays]
    for store in program.stores:
        found[store.parameter].add(store.component)
    return found


def reads(program: Program) -> dict[str, set[Offsets]]:
    """Offsets at which each array is read, of all components; none if it is only written."""
    return {
        array.name: set().union(*per_component.values())
        for array, per_component in zip(program.arrays, offsets(program), strict=True)
    }


def reach(program: Program) -> list[Reach]:
    """For each array and axis, how many cells below and above the owned ones may be read.

    A finer block may begin with an odd cell, whose coarse cell belongs to the rank below, and end
    with the first half of a coarse cell: reads of related grids count as if all blocks did.
    """
    return [
        _widths(program, array, set().union(*per_component.values()))
        for array, per_component in zip(program.arrays, offsets(program), strict=True)
    ]


def _widths(program: Program, array: ArrayParameter, found: set[Offsets]) -> Reach:
    axes = range(program.ndim) if array.profile_axis is None else (array.profile_axis,)
    return tuple(
        (
            max([0, *((array.level < 0 and axis not in array.kept) - o[place] for o in found)]),
            max([0, *(o[place] for o in found)]),
        )
        for place, axis in enumerate(axes)
    )


def halo(program: Program) -> dict[str, Reach]:
    """Halo widths (low, high) per axis that each array needs."""
    names = [array.name for array in program.arrays]
    return dict(zip(names, reach(program), strict=True))


def bytes_per_cell(program: Program) -> int | float:
    """Memory traffic per cell: each component once if read and once if written, in bytes.

    Cells beside it are taken to be in cache. Of a finer grid 2 ** ndim cells belong to one cell, of
    a coarser one 1 / 2 ** ndim, axes that both keep not counted. Profiles and positions count
    nothing.
    """
    total = 0.0
    for array, used, outputs in zip(
        program.arrays, offsets(program), written(program), strict=True
    ):
        if array.profile_axis is None:
            cells = 2.0 ** (array.level * (program.ndim - len(array.kept)))
            total += cells * array.dtype.itemsize * (len(used) + len(outputs))
    return int(total) if total.is_integer() else total


def flops_per_cell(program: Program) -> int:
    """Floating-point operations per cell; a common subexpression and any function count once.

    Sign changes, comparisons, choices by `da.where`, conversions, integer arithmetic and what
    depends on scalars alone count nothing. A complex sum counts 2, a product 6, a quotient 11. A
    reduction adds one per real value.
    """
    total = sum(_flops(node) for node in walk(roots(program)) if isinstance(node, Call))
    for reduction in program.reductions:
        total += {"f": 1, "c": 2}.get(as_dtype(reduction.value.dtype).kind, 0)
    return total


def _flops(node: Call) -> int:
    kind = as_dtype(node.operation_dtype).kind
    if node.weak or (node.function in _FREE and kind == "f"):
        return 0
    if node.function not in ARITHMETIC | TRANSCENDENTAL:
        return 0
    if kind == "c":
        return _COMPLEX_FLOPS.get(node.function, 1 if node.function == "absolute" else 0)
    return 1 if kind == "f" else 0


def require_distinct(program: Program, memory: Sequence[tuple[Hashable, Component]]) -> None:
    """Refuse the same array passed twice if one use writes and the other reads at an offset.

    Parameters
    ----------
    memory : sequence of (key, component)
        For each array parameter, what tells its memory from others, and the components already
        chosen: ``u[0]`` has the key of ``u`` and the component (0,).

    Raises
    ------
    StencilError
        Two parameters are the same memory and one reads at offsets what the other writes. With two
        colours, reads at offsets of odd sum are permitted.
    """
    outputs = {}
    for store, line in zip(program.stores, program.lines, strict=True):
        key, prefix = memory[store.parameter]
        outputs[key, (*prefix, *store.component)] = store.parameter, line
    for read in read_nodes(roots(program)):
        key, prefix = memory[read.parameter]
        writer, line = outputs.get((key, (*prefix, *read.component)), (read.parameter, 0))
        if writer != read.parameter and any(read.offsets) and not _other_colour(program, read):
            names = program.arrays[writer].name, program.arrays[read.parameter].name
            shown = ", ".join(map(str, read.offsets))
            raise StencilError(
                f"Kernel {program.name} got one array as {names[0]} and as {names[1]}, writes "
                f"{names[0]} (line {line}) and reads "
                f"{names[1]}[{shown}]; pass two arrays, the second made by copy() if need be "
                "(iterate returns one of the arrays it was given)."
            )


def _other_colour(program: Program, read: Read) -> bool:
    return program.colours == 2 and sum(read.offsets) % 2 == 1
