"""Walls and obstacles as links: which populations of a cell come back from what.

A link leads from a cell along a velocity of the lattice to its neighbour. Where the neighbour is
solid or beyond a wall, the population that would come from it is one that left the cell before.
The array `links` has an int32 per surface and cell; bit i says that population i comes from the
surface. Each link belongs to one surface. In solid cells all bits of surface 0 are set: their
populations return to themselves, and stay those of the fluid at rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import distarray as da
from solvers.box import require_known
from solvers.lbm.config import LatticeConfig, axis_of

#: Beyond an open side; no surface.
_OPEN = -1


@dataclass(frozen=True)
class Surfaces:
    """The surfaces of a flow.

    Parameters
    ----------
    links : DistArray
        int32, components (number of surfaces,).
    velocities : tuple of (tuple of float or None)
        Of each surface, in units of the lattice; None at rest. Surface 0 is at rest.
    numbers : mapping of name to int
        The surfaces whose forces are measured.
    solid : DistArray or None
        int32, 1 in solid cells; None without obstacles.
    """

    links: da.DistArray
    velocities: tuple[tuple[float, ...] | None, ...]
    numbers: dict[str, int]
    solid: da.DistArray | None


def surfaces(config: LatticeConfig, grid: da.Grid) -> Surfaces | None:
    """The surfaces of a flow; None if there are none. Collective.

    Raises
    ------
    SolverError
        An obstacle lies over an inflow or outflow, or fills the box.
    """
    if not config.wall_sides and not config.obstacles:
        return None
    own = [s for s in config.wall_sides if s in config.walls or s in config.forces]
    names = [*own, *(name for name in config.obstacles if name in config.forces)]
    numbers = {name: number for number, name in enumerate(names, start=1)}
    body = _bodies(config, grid, numbers)
    sides = dict.fromkeys((*config.inflow, *config.outflow), _OPEN)
    sides |= {side: numbers.get(side, 0) for side in config.wall_sides}
    count = 1 + len(names)
    links = grid.zeros("int32", components=(count,))
    _linking(config, _in_order(config, sides), count)(body, links)
    unit = config.unit_speed
    velocities = (
        None,
        *(
            tuple(float(u) / unit for u in config.walls[name]) if name in config.walls else None
            for name in names
        ),
    )
    solid = body if config.obstacles else None
    return Surfaces(links, velocities, {name: numbers[name] for name in config.forces}, solid)


def _bodies(config: LatticeConfig, grid: da.Grid, numbers: dict[str, int]) -> da.DistArray:
    """0 in the fluid, else 1 + the number of the surface."""
    around = {side: da.Outflow() for side in config.side_names}
    body = grid.zeros("int32", boundary=around)
    for name, shape in config.obstacles.items():
        number = 1 + numbers.get(name, 0)
        distance = grid.from_function(shape.distance)
        require_known(f"The distance of the obstacle '{name}'", distance)
        body[...] = da.where(distance < 0.0, number, body)
    if config.obstacles:
        _require_free(config, body)
    return body


def _require_free(config: LatticeConfig, body: da.DistArray) -> None:
    if int(body.min()) > 0:
        raise da.SolverError(
            f"A flow needs room, received obstacles {', '.join(config.obstacles)} that fill the "
            f"box; make them smaller."
        )
    for side in (*config.inflow, *config.outflow):
        axis, last = axis_of(side), config.cells[axis_of(side)] - 1
        place: list[Any] = [slice(None)] * config.ndim
        place[axis] = slice(0, 1) if side[1] == "-" else slice(last, last + 1)
        if int(body[tuple(place)].max()) > 0:
            raise da.SolverError(
                f"Obstacles keep clear of inflows and outflows, received one of "
                f"{', '.join(config.obstacles)} over the side '{side}'; move it into the box."
            )


def _in_order(config: LatticeConfig, sides: dict[str, int]) -> list[tuple[str, int]]:
    """Sides from the weakest to that which owns the links of corners: open ones, walls at rest,
    moving walls, the later axis last, so that what a lid carries along adds up to nothing.
    """
    strength = {side: (number > _OPEN) + (side in config.walls) for side, number in sides.items()}
    return sorted(sides.items(), key=lambda item: (strength[item[0]], axis_of(item[0])))


def _linking(config: LatticeConfig, sides: list[tuple[str, int]], count: int) -> da.StencilKernel:
    """The kernel that finds the links of each cell."""
    lattice = config.velocities

    def link(body: Any, links: Any) -> None:
        here = (0,) * lattice.ndim
        bits: list[Any] = [0] * count
        for i, c in enumerate(lattice.velocities[1:], start=1):
            source = body[tuple(-n for n in c)]
            surface = da.where(source > 0, source - 1, _OPEN)
            for side, number in sides:
                axis, high = axis_of(side), side[1] == "+"
                if c[axis] == (-1 if high else 1):
                    last = config.cells[axis] - 1 if high else 0
                    surface = da.where(da.index(axis) == last, number, surface)
            for s in range(count):
                bits[s] = bits[s] + da.where(surface == s, 1 << i, 0)
        solid = body[here] > 0
        for s in range(count):
            inside = (1 << lattice.size) - 1 if s == 0 else 0
            links[s][here] = da.where(solid, inside, bits[s])

    return da.stencil(link)
