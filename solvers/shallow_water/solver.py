"""Shallow water over a bed: waves, floods and shores on one or two axes.

    dh/dt + div(q) = 0
    dq/dt + div(q q / h + g h^2 / 2) = -g h grad(b) + f (q_y, -q_x) - k |q| q,
    k = (g n^2 / h^(1/3) + c) / h^2

A conservation law of second order in space and time (`solvers.hyperbolic`) whose fluxes leave water
at rest alone on any bed and never take more from a cell than it holds (`equation`), and whose
`Forces` are rotation and friction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import distarray as da
from solvers.box import AXES
from solvers.hyperbolic import reconstruction
from solvers.hyperbolic.solver import ConservationLaw, Forces, reciprocals
from solvers.shallow_water import kernels
from solvers.shallow_water.config import COURANT_LIMIT, Field, ShallowWaterConfig
from solvers.shallow_water.equation import ShallowWater

Arrays = Sequence[da.DistArray]

#: Thin water in relation to the deepest at the start, unless a configuration says it.
THIN = 1e-6


class ShallowWaterSolver(ConservationLaw):
    """A flow described by a `ShallowWaterConfig`. Collective.

    Attributes
    ----------
    config : ShallowWaterConfig
    fields : dict
        "depth", "discharge" with one component per axis, and "bathymetry", which does not change;
        in the cells, of the type that the configuration says.
    thin : float
        Depth below which velocities go to zero with the depth.

    Raises
    ------
    SolverError
        A depth at the start is negative or not finite.

    Examples
    --------
    >>> from solvers.shallow_water import ShallowWaterConfig, ShallowWaterSolver
    >>> config = ShallowWaterConfig(cells=(50,), depth=lambda x: 1.0 - 0.5 * (x > 0.5))
    >>> flow = ShallowWaterSolver(config)
    >>> flow.run(until=0.05)
    """

    config: ShallowWaterConfig

    def __init__(
        self, config: ShallowWaterConfig, *, comm: Any = None, device: str = "auto"
    ) -> None:
        grid = da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            halo=reconstruction(config.reconstruction, config.limiter).reach,
            ranks=config.ranks,
            comm=comm,
            device=device,
        )
        bed = _made(grid, config, "bathymetry", config.bathymetry)
        depth = _depth(grid, config, bed)
        discharge = _discharge(grid, config, depth)
        self.thin = config.thin or THIN * float(depth.max()) or THIN
        for u in (depth, discharge):
            _open(config, u)
        numbers = {"g": config.gravity, "thin": self.thin}
        super().__init__(
            config,
            grid,
            {"depth": depth, "discharge": discharge},
            ShallowWater(config.reconstruction, config.limiter, config.riemann),
            courant=config.courant,
            limit=COURANT_LIMIT,
            integrator=config.integrator,
            arrays=[bed],
            scalars=numbers,
            forces=_forces(config, numbers | reciprocals(grid)),
        )
        self.fields["bathymetry"] = bed

    def stable_dt(self) -> float:
        """The largest time step for the water now, times its share of the limit. Collective.

        Raises
        ------
        SolverError
            There is no water, or a depth is negative.
        """
        _require_depth(self.fields["depth"])
        return super().stable_dt()

    def scalars(self) -> dict[str, float]:
        """The volume of all water, its momentum and its energy, per density. Collective; the same
        bits on any ranks.
        """
        cell = math.prod(h for h in self.grid.spacing if h is not None)
        numbers = {"g": self.config.gravity, "thin": self.thin}
        found = kernels.contents(*self._state, self.fields["bathymetry"], **numbers)
        names = ["volume", *(f"momentum_{name}" for name in AXES[: self.grid.ndim]), "energy"]
        return {name: cell * float(value) for name, value in zip(names, found, strict=True)}

    def totals(self) -> dict[str, float]:
        """As `scalars`: the volume and the momentum are the integrals of depth and discharge, the
        energy is none of a component. Collective; the same bits on any ranks.
        """
        return self.scalars()


def _forces(config: ShallowWaterConfig, scalars: Mapping[str, float]) -> Forces | None:
    """Rotation and friction; None where there are none."""
    if not config.forced:
        return None
    numbers: dict[str, Any] = {
        "ry": 0.0,
        **scalars,
        "rotating": config.rotating,
        "rubbing": config.manning > 0.0 or config.drag > 0.0,
        "f": config.coriolis,
        "beta": config.beta,
        "friction": config.gravity * config.manning * config.manning,
        "drag": config.drag,
    }

    def act(before: Arrays, after: Arrays, *, dt: float, last: bool) -> Any:
        return kernels.force(*before, *after, dt=dt, last=last, **numbers)

    return act


def _made(grid: da.Grid, config: ShallowWaterConfig, name: str, value: Field) -> da.DistArray:
    options: dict[str, Any] = {
        "dtype": config.dtype,
        "boundary": _conditions(config, name),
        "name": name,
    }
    if callable(value):
        return grid.from_function(value, **options)
    return grid.full(value, **options)


def _depth(grid: da.Grid, config: ShallowWaterConfig, bed: da.DistArray) -> da.DistArray:
    if config.depth is not None:
        depth = _made(grid, config, "depth", config.depth)
        _require_depth(depth)
        return depth
    depth = _made(grid, config, "depth", config.surface or 0.0)
    kernels.fill(depth, bed)
    return depth


def _discharge(grid: da.Grid, config: ShallowWaterConfig, depth: da.DistArray) -> da.DistArray:
    discharge = grid.zeros(
        config.dtype, (grid.ndim,), boundary=_conditions(config, "discharge"), name="discharge"
    )
    for axis, value in enumerate(config.velocity or ()):
        discharge[axis][...] = depth * _made(grid, config, "velocity", value)
    return discharge


def _open(config: ShallowWaterConfig, u: da.DistArray) -> None:
    """Have the water of the start beyond the sides that let waves pass. Collective.

    Were it that of the outermost cell now, nothing would hold back what flows out, and water at
    rest would be set in motion where the bed falls towards the side: with a the depth at the inner
    face of that cell divided by its own, its disturbances would grow like exp(lambda t),
    lambda^2 + (1 + a) c lambda / 2 = (1 - a) c^2 / 2 in units of the width of the cell.
    """
    sides = [side for side in config.outflow if side not in config.side_depth]
    if not sides or u.boundary is None:
        return
    start = u.copy()
    for side in sides:
        u.boundary[side] = da.Custom(kernels.beyond(AXES.index(side[0]), u.components), start)


def _conditions(config: ShallowWaterConfig, name: str) -> dict[str, da.Condition]:
    """The conditions of a field on the sides of the box."""
    found: dict[str, da.Condition] = {}
    for side in config.side_names:
        axis = AXES.index(side[0])
        if side not in (*config.inflow, *config.outflow, *config.uniform):
            signs = tuple(-1 if i == axis else 1 for i in range(config.ndim))
            found[side] = da.Symmetry(signs if name == "discharge" else 1)
        elif name == "discharge" and side in config.inflow:
            found[side] = da.Dirichlet(config.inflow[side])
        elif name == "depth" and side in config.side_depth:
            found[side] = da.Dirichlet(config.side_depth[side])
        elif name == "bathymetry" and side not in config.outflow:
            found[side] = da.Extrapolate(1)
        else:
            found[side] = da.Outflow()
    return found


def _require_depth(depth: da.DistArray) -> None:
    """An error unless all depths are at least 0."""
    least = float(kernels.least(depth))
    if not least >= 0.0:
        raise da.SolverError(
            f"A depth is at least 0, received one of {least:g}; use 0 for dry ground, or give the "
            f"surface and the bathymetry."
        )
