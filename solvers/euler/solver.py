"""The Euler and Navier-Stokes equations of an ideal gas by explicit steps of finite volumes, or of
finite differences with WENO (`faces`).

Beside the state, density, momentum and energy, each step keeps the primitive variables, which alone
are read around a cell and which alone have conditions. A stage of a step is one pass over memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.box import shown
from solvers.euler import gas
from solvers.euler.config import EulerConfig
from solvers.euler.equation import AXES, Gas
from solvers.euler.sides import Inflow, condition
from solvers.hyperbolic import ConservationLaw


class EulerSolver(ConservationLaw):
    """A flow described by an `EulerConfig`. Collective.

    Attributes
    ----------
    config : EulerConfig
    fields : dict
        "density", "momentum" with one component per axis, and "energy", in cells, of
        the configuration's dtype.

    Raises
    ------
    SolverError
        Density or pressure is not positive everywhere at the start; or obstacles lie over an inflow
        or fill the box.

    Examples
    --------
    >>> from solvers.euler import EulerConfig, EulerSolver
    >>> tube = EulerConfig(cells=(100,), initial=lambda x: (1.0 - 0.875 * (x > 0.5), 0.0 * x,
    ...                                                     1.0 - 0.9 * (x > 0.5)))
    >>> flow = EulerSolver(tube)
    >>> flow.run(until=0.05)
    """

    config: EulerConfig

    def __init__(self, config: EulerConfig, *, comm: Any = None, device: str = "auto") -> None:
        grid = da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            halo=config.scheme.faces.reach,
            ranks=config.ranks,
            comm=comm,
            device=device,
        )
        solid = _solid(config, grid)
        state = _start(config, grid, solid)
        ndim, dtype = config.ndim, config.dtype
        fields = {
            "density": grid.zeros(dtype, name="density", halo=0),
            "momentum": grid.zeros(dtype, (ndim,), name="momentum", halo=0),
            "energy": grid.zeros(dtype, name="energy", halo=0),
        }
        fields["density"][...] = state[0]
        for axis in range(ndim):
            fields["momentum"][axis][...] = state[1 + axis]
        fields["energy"][...] = state[-1]
        super().__init__(
            config,
            grid,
            fields,
            Gas(ndim, config.scheme),
            courant=config.courant,
            limit=config.limit,
            integrator=config.integrator,
            arrays=[] if solid is None else [solid],
            scalars=_scalars(config),
            derived=_primitive(config, grid),
        )
        self._begin_speed()
        self._require_gas()

    @property
    def primitive(self) -> da.DistArray:
        """Density, velocities and pressure now, one component each."""
        return self._derived[0]

    @property
    def pressure(self) -> da.DistArray:
        pressure: da.DistArray = self.primitive[self.config.ndim + 1]
        return pressure

    def scalars(self) -> dict[str, float]:
        """Mass, momentum along each axis and energy in the box."""
        names = ["mass", *(f"momentum_{a}" for a in AXES[: self.config.ndim]), "energy"]
        return dict(zip(names, self.totals().values(), strict=True))

    def _require_gas(self) -> None:
        for name, values in (("density", self.primitive[0]), ("pressure", self.pressure)):
            least, most = float(values.min()), float(values.max())
            if not 0.0 < least <= most < math.inf:
                raise da.SolverError(
                    f"The {name} of gas is above 0 everywhere and finite, received {least:g} to "
                    f"{most:g} in the initial state; change 'initial'."
                )


def _start(config: EulerConfig, grid: da.Grid, solid: da.DistArray | None) -> list[da.DistArray]:
    """The conserved state at the start; gas in solid cells is at rest."""
    given, dtype = config.initial, config.dtype
    if callable(given):
        found = [
            grid.from_function(
                lambda *x, n=n: _entry(given(*x), n, config.ndim) + 0.0 * sum(x), dtype=dtype
            )
            for n in range(config.ndim + 2)
        ]
    else:
        found = [
            grid.from_function(f, dtype=dtype) if callable(f) else grid.full(float(f), dtype)
            for f in given
        ]
    if solid is not None:
        for axis in range(config.ndim):
            found[1 + axis] *= 1.0 - solid
    return gas.conserved(found, config.gamma)


def _entry(state: Any, number: int, ndim: int) -> Any:
    """One entry of what a function of the whole state returned."""
    if not isinstance(state, Sequence | np.ndarray) or len(state) != ndim + 2:
        raise da.SolverError(
            "A function of the initial state returns density, one velocity per axis and pressure, "
            f"received {shown(state)} from it; have it return {ndim + 2} in a tuple."
        )
    return np.asarray(state[number], np.float64)


def _solid(config: EulerConfig, grid: da.Grid) -> da.DistArray | None:
    """1.0 in solid cells, 0.0 in gas; its mirror image beyond the sides."""
    if config.obstacles is None:
        return None
    mask = config.obstacles
    sides = {name: da.Outflow() for name in config.all_sides}
    solid = grid.from_function(
        lambda *x: 1.0 * np.asarray(mask(*x), bool), dtype=config.dtype, boundary=sides
    )
    _require_free(config, solid)
    return solid


def _require_free(config: EulerConfig, solid: da.DistArray) -> None:
    """An error unless there is room for gas, and it can enter where it should."""
    if float(solid.min()) > 0.0:
        raise da.SolverError(
            "A flow needs room, received obstacles that fill the box; make them smaller."
        )
    for name, side in config.all_sides.items():
        axis, high = AXES.index(name[0]), name[1] == "+"
        first = config.cells[axis] - 1 if high else 0
        place = tuple(
            slice(first, first + 1) if a == axis else slice(None) for a in range(config.ndim)
        )
        if isinstance(side, Inflow) and float(solid[place].max()) > 0.0:
            raise da.SolverError(
                f"Obstacles keep clear of inflows, received one over the side '{name}'; move it "
                "into the box, or make that part of the side a Wall by Split."
            )


def _scalars(config: EulerConfig) -> dict[str, float]:
    found = {"gamma": float(config.gamma)}
    if config.viscosity > 0.0:
        heat = config.gamma / ((config.gamma - 1.0) * config.prandtl)
        found.update(mu=float(config.viscosity), conductivity=float(config.viscosity * heat))
    if config.gravity is not None:
        pairs = zip(AXES, config.gravity, strict=False)
        found.update({f"g{axis}": float(value) for axis, value in pairs})
    return found


def _primitive(config: EulerConfig, grid: da.Grid) -> da.DistArray:
    sides = {
        name: condition(
            side,
            name,
            grid,
            reach=config.scheme.faces.reach,
            viscous=config.viscosity > 0.0,
            gravity=config.gravity or (0.0,) * config.ndim,
        )
        for name, side in config.all_sides.items()
    }
    return grid.ones(config.dtype, (config.ndim + 2,), boundary=sides, name="primitive")
