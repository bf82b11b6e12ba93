"""Linear transport: dc/dt + div(v c) = s, v given and steady."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from solvers.advection.config import AdvectionConfig
from solvers.advection.equation import Transport
from solvers.box import AXES, finite_field, is_number
from solvers.hyperbolic import ConservationLaw


class AdvectionSolver(ConservationLaw):
    """Transport described by an `AdvectionConfig`. Collective.

    Attributes
    ----------
    config : AdvectionConfig
    fields : dict
        "c", the density in the cells.

    Examples
    --------
    >>> from solvers.advection import AdvectionConfig, AdvectionSolver
    >>> config = AdvectionConfig(cells=(64,), velocity=(1.0,), initial=lambda x: (x < 0.5) * 1.0)
    >>> flow = AdvectionSolver(config)
    >>> flow.run(until=1.0)
    """

    config: AdvectionConfig

    def __init__(self, config: AdvectionConfig, *, comm: Any = None, device: str = "auto") -> None:
        grid = config.grid(comm, device)
        density = finite_field(
            grid, config.initial, dtype=config.dtype, boundary=config.conditions, name="c"
        )
        if config.positivity and float(density.min()) < 0.0:
            raise da.SolverError(
                "A density that is kept from becoming negative is not so at the start, received "
                f"{float(density.min()):.6g}; change initial."
            )
        fed = not (is_number(config.source) and config.source == 0.0)
        arrays = _velocity(grid, config) if config.varies else []
        if fed:
            arrays.append(_source(grid, config))
        speeds = [v for v in config.velocity if not callable(v)] if not config.varies else []
        equation = Transport(
            scheme=config.scheme_name,
            limiter=config.limiter,
            ndim=config.ndim,
            signs=None if config.varies else tuple(int(np.sign(v)) for v in speeds),
            positivity=config.positivity,
            fed=fed,
        )
        super().__init__(
            config,
            grid,
            {"c": density},
            equation,
            courant=config.courant_number,
            limit=config.limit,
            integrator=config.integrator_name,
            arrays=arrays,
            scalars=dict(zip(equation.names, speeds, strict=True)) if speeds else {},
        )

    def scalars(self) -> dict[str, float]:
        density = self.fields["c"]
        return {**super().scalars(), "min_c": float(density.min()), "max_c": float(density.max())}


def _source(grid: da.Grid, config: AdvectionConfig) -> da.DistArray:
    """What is added in the cells; beyond a side as in the cell at it."""
    sides = dict.fromkeys(config.conditions, da.Outflow())
    return finite_field(grid, config.source, dtype=config.dtype, boundary=sides, name="source")


def _velocity(grid: da.Grid, config: AdvectionConfig) -> list[da.DistArray]:
    """The velocity on the faces normal to each axis."""
    found = []
    for axis, value in zip(AXES, config.velocity, strict=False):
        side = {s: da.Extrapolate(1) for s in config.conditions}
        name = f"v{axis}"
        found.append(
            finite_field(grid, value, dtype=config.dtype, location=axis, boundary=side, name=name)
        )
    return found
