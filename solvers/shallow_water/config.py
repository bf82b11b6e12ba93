"""What a flow of shallow water is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import distarray as da
from solvers.box import (
    DTYPES,
    Bounds,
    Box,
    SideValue,
    is_number,
    is_whole,
    require_box,
    require_choice,
    require_per_axis,
    require_sides,
    require_value,
    shown,
)
from solvers.hyperbolic import INTEGRATORS
from solvers.hyperbolic.limiters import LIMITERS
from solvers.hyperbolic.solver import require_courant
from solvers.shallow_water.riemann import RIEMANN

#: A number, or a function of the coordinates (x[, y]).
Field = float | Callable[..., Any]

#: Largest Courant number: half of a cell's water may leave through each of two faces.
COURANT_LIMIT = 0.5
RECONSTRUCTIONS = ("constant", "muscl")


@dataclass(frozen=True)
class ShallowWaterConfig(Box):
    """Water over a bed, on one or two axes.

    Each side of an axis that is not periodic, "x-", "x+", "y-", "y+", is a wall that reflects,
    unless it is named in `inflow`, `outflow` or `uniform`. Quantities have the units of `gravity`.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, one or two axes, at least two cells along each.
    depth : number or function f(x[, y]), optional
        Depth at the start, at least 0.
    surface : number or function f(x[, y]), optional
        Height of the surface at the start instead: the depth is what is above the bed.
    bathymetry : number or function f(x[, y])
        Height of the bed.
    velocity : tuple of (number or function f(x[, y])), optional
        Velocity at the start, one entry per axis; at rest by default.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    inflow : mapping of side to discharge
        Sides through which a discharge h u per width enters or leaves, one entry per axis, each a
        number or a function f(t, x[, y]).
    outflow : tuple of side
        Sides that let waves pass: beyond them lies the water that was in the last cell at the start
        over a flat bed, so that a lake with an open side may be at rest.
    uniform : tuple of side
        Outflows down a slope: beyond them is the water of the last cell now, and the bed goes on
        with its slope.
    side_depth : mapping of side to depth
        The depth at an inflow (faster than waves) or at an outflow (slower than waves), a number
        or a function f(t, x[, y]).
    gravity : float
    manning : float
        Manning's n of friction, in s / m^(1/3) where lengths are in metres.
    drag : float
        Coefficient c of the stress c |u| u of friction, per density.
    coriolis, beta : float
        Parameter f + beta y of a rotating ground; two axes.
    riemann : "hll", "hllc" or "roe"
        Flux through a face, see `riemann`.
    reconstruction : "muscl" or "constant"
        Second or first order in space.
    limiter : "minmod", "van_leer", "mc" or "superbee"
    integrator : "euler", "ssp_rk2" or "ssp_rk3"
        Of time, see `solvers.hyperbolic.integrators`.
    courant : float
        Courant number of `stable_dt`, at most 0.5: the sum over the axes of (|u| + sqrt(g h)) dt/d.
    thin : float, optional
        Depth below which the velocity h u / h goes to zero with the depth, by default 1e-6 of the
        deepest water at the start.
    dtype : "float64" or "float32"
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    depth: Field | None = None
    surface: Field | None = None
    bathymetry: Field = 0.0
    velocity: tuple[Field, ...] | None = None
    bounds: Bounds | None = None
    periodic: bool | tuple[bool, ...] = False
    inflow: Mapping[str, tuple[SideValue, ...]] = field(default_factory=dict)
    outflow: tuple[str, ...] = ()
    uniform: tuple[str, ...] = ()
    side_depth: Mapping[str, SideValue] = field(default_factory=dict)
    gravity: float = 9.81
    manning: float = 0.0
    drag: float = 0.0
    coriolis: float = 0.0
    beta: float = 0.0
    riemann: str = "hllc"
    reconstruction: str = "muscl"
    limiter: str = "van_leer"
    integrator: str = "ssp_rk2"
    courant: float = 0.45
    thin: float | None = None
    dtype: str = "float64"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _require_cells(self.cells)
        require_box(self)
        _require_numbers(self)
        limiters = tuple(name for name in LIMITERS if name != "central")
        for name, known in {
            "riemann": RIEMANN, "reconstruction": RECONSTRUCTIONS, "limiter": limiters,
            "integrator": INTEGRATORS, "dtype": DTYPES,
        }.items():  # fmt: skip
            require_choice(name, getattr(self, name), known)
        _require_start(self)
        _require_sides(self)

    @property
    def forced(self) -> bool:
        """Whether friction or rotation act."""
        return self.rotating or self.manning > 0.0 or self.drag > 0.0

    @property
    def rotating(self) -> bool:
        return self.coriolis != 0.0 or self.beta != 0.0


def _require_cells(cells: Any) -> None:
    whole = isinstance(cells, tuple) and all(is_whole(n) and n >= 2 for n in cells)
    if not whole or len(cells) not in (1, 2):
        raise da.SolverError(
            f"Shallow water has one or two axes with two cells or more, received "
            f"cells={shown(cells)}; give a tuple of one or two whole numbers above 1."
        )


def _require_numbers(config: ShallowWaterConfig) -> None:
    if not (is_number(config.gravity) and config.gravity > 0.0):
        raise da.SolverError(
            f"Gravity is a number above 0, received gravity={shown(config.gravity)}; 9.81 is that "
            "of the Earth in m/s^2."
        )
    require_courant(config.courant, COURANT_LIMIT)
    for name in ("manning", "drag"):
        value = getattr(config, name)
        if not (is_number(value) and value >= 0.0):
            raise da.SolverError(
                f"A coefficient of friction is a number of at least 0, received "
                f"{name}={shown(value)}; give one."
            )
    for name in ("coriolis", "beta"):
        value = getattr(config, name)
        if not is_number(value) or (value != 0.0 and config.ndim != 2):
            raise da.SolverError(
                f"'{name}' is a number, and turns flows on two axes, received {shown(value)} on "
                f"{config.ndim}; give a number and two axes, or leave it out."
            )
    if config.thin is not None and not (is_number(config.thin) and config.thin > 0.0):
        raise da.SolverError(
            f"The depth of thin water is a number above 0, received thin={shown(config.thin)}; "
            "leave it out for 1e-6 of the deepest water."
        )


def _require_start(config: ShallowWaterConfig) -> None:
    if (config.depth is None) == (config.surface is None):
        raise da.SolverError(
            "Water at the start has a depth or a surface, received "
            f"{'neither' if config.depth is None else 'both'}; give one of them."
        )
    for name in ("depth", "surface", "bathymetry"):
        value = getattr(config, name)
        if value is not None or name == "bathymetry":
            require_value(name, value, config.ndim)
    if is_number(config.depth) and config.depth < 0.0:  # type: ignore[operator]
        raise da.SolverError(
            f"A depth is at least 0, received depth={config.depth}; use 0 for dry ground."
        )
    for name in ("velocity", "ranks"):
        if getattr(config, name) is not None:
            require_per_axis(name, getattr(config, name), config.ndim)
    for value in config.velocity or ():
        require_value("velocity", value, config.ndim)


def _require_sides(config: ShallowWaterConfig) -> None:
    for name in ("outflow", "uniform"):
        if not isinstance(getattr(config, name), tuple | list):
            raise da.SolverError(
                f"'{name}' is a tuple of sides, received {shown(getattr(config, name))}; write "
                f"('x+',) for one."
            )
        require_sides(name, dict.fromkeys(map(str, getattr(config, name))), config)
    for name in ("inflow", "side_depth"):
        require_sides(name, getattr(config, name), config)
    kinds: list[str] = [*config.inflow, *config.outflow, *config.uniform]
    for side in kinds:
        if kinds.count(side) > 1:
            raise da.SolverError(
                f"A side is of one kind, received '{side}' twice in 'inflow', 'outflow' and "
                f"'uniform'; name it once."
            )
    for side, discharge in config.inflow.items():
        require_per_axis(f"inflow['{side}']", discharge, config.ndim)
        for value in discharge:
            require_value(f"inflow['{side}']", value, config.ndim, time=True)
    for side, depth in config.side_depth.items():
        if side not in kinds:
            raise da.SolverError(
                f"A depth is given where water enters or leaves, received one at '{side}'; name "
                f"that side in 'inflow', 'outflow' or 'uniform', too."
            )
        require_value(f"side_depth['{side}']", depth, config.ndim, time=True)
        if is_number(depth) and depth < 0.0:  # type: ignore[operator]
            raise da.SolverError(
                f"A depth is at least 0, received {depth} at '{side}'; use 0 for dry ground."
            )
