"""Solid cells as the gas beside them sees them: a wall that shows the gas as a mirror does. Pure;
called while a kernel is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import distarray as da
from solvers.euler.faces import Cells
from solvers.euler.gas import State, Symbol
from solvers.euler.viscous import Around
from solvers.hyperbolic import moved


def mirrored(
    cells: Cells, solid: Callable[[int], Symbol], reach: int, turned: Callable[[State], State]
) -> Cells:
    """Cells in which solid ones show the fluid as in a mirror: beyond the first solid cell from the
    face on, or, if the cell at the face is solid, all of its side.

    Parameters
    ----------
    cells : function
    solid : function of a cell's number
        Whether it is solid.
    reach : int
        Cells on each side.
    turned : function of a state
        Its mirror image.
    """

    def at(side: int, n: int) -> int:
        return n if side else -1 - n

    def nearest(side: int, n: int) -> State:
        """Cell n from the face, seen without the other side."""
        found = cells(at(side, n))
        for wall in range(n, 0, -1):
            image = turned(nearest(side, max(2 * wall - 1 - n, 0)))
            found = _chosen(solid(at(side, wall)), image, found)
        return found

    def seen(side: int, n: int) -> State:
        found = cells(at(side, n))
        for wall in range(n, 0, -1):
            source = 2 * wall - 1 - n
            found = _chosen(
                solid(at(side, wall)),
                turned(nearest(side, source) if source >= 0 else across(side, -1 - source)),
                found,
            )
        return _chosen(solid(at(side, 0)), turned(nearest(1 - side, n)), found)

    def across(side: int, n: int) -> State:
        """Cell n of the other side, or its image if that is solid."""
        other = 1 - side
        return _chosen(solid(at(other, 0)), turned(nearest(side, n)), nearest(other, n))

    shown = {at(side, n): seen(side, n) for side in (0, 1) for n in range(reach)}
    return shown.__getitem__


def around_walls(
    cells: Around, solid: Callable[[Sequence[int]], Symbol], axis: int,
    turned: Callable[[State], State],
) -> Around:  # fmt: skip
    """The cells diagonal to a face normal to an axis, solid ones showing the fluid beside them:
    that beside the face, or, if this is solid itself, what the other side of the face shows. So a
    wall lies half-way between the centres of cells for all slopes.

    Parameters
    ----------
    cells : function of an offset
        From the first cell above the face; -1 or 0 along `axis`, and not 0 along one other axis.
    solid : function of an offset
    axis : int
    turned : function of a state
        Its mirror image.
    """

    def column(offset: Sequence[int], n: int) -> State:
        far = moved(offset, axis, n - offset[axis])
        near = moved((0,) * len(offset), axis, n)
        return _chosen(solid(far), turned(cells(near)), cells(far))

    def seen(offset: Sequence[int]) -> State:
        n = offset[axis]
        behind = turned(column(offset, -1 - n))
        return _chosen(solid(moved((0,) * len(offset), axis, n)), behind, column(offset, n))

    return seen


def _chosen(condition: Symbol, a: State, b: State) -> State:
    return [da.where(condition, x, y) for x, y in zip(a, b, strict=True)]
