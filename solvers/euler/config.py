"""What a flow of an ideal gas is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import distarray as da
from solvers.box import (
    DTYPES,
    Box,
    is_number,
    require_box,
    require_cells,
    require_choice,
    require_per_axis,
    require_sides,
    require_value,
    shown,
)
from solvers.euler.riemann import SOLVERS
from solvers.euler.scheme import LIMITERS, RECONSTRUCTIONS, Scheme
from solvers.euler.sides import Inflow, Outflow, Side, Split, Wall
from solvers.hyperbolic import INTEGRATORS
from solvers.hyperbolic.solver import require_courant

#: A number, or a function of the coordinates (x[, y[, z]]).
Field = float | Callable[..., Any]


@dataclass(frozen=True)
class EulerConfig(Box):
    """Flow of an ideal gas in a box, with or without viscosity. The gas constant is 1: the
    temperature is p / rho.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, one to three axes.
    initial : tuple of (number or function f(x[, y[, z]])), or one function of these
        Density, one velocity per axis, pressure; a single function returns all of them.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    gamma : float
        Ratio of specific heats, above 1.
    sides : mapping of side to Wall, Inflow, Outflow or Split
        Sides "x-", "x+", "y-", ... of axes that are not periodic; others are walls at rest, see
        `sides`.
    viscosity : float
        Dynamic viscosity, constant; 0 for the Euler equations. Walls then hold the gas.
    prandtl : float
        Of viscosity to the conduction of heat.
    gravity : tuple of float, optional
        Acceleration, one entry per axis.
    obstacles : function f(x[, y[, z]]), optional
        True in solid cells, whose faces reflect the gas, or, where it is viscous, hold it. None
        lies over a side that is an Inflow.
    reconstruction : "muscl", "weno5", "weno_z" or "constant"
        Lines with limited slopes, second order; WENO, fifth order where the flow is smooth and
        viscosity 0; first order. See `faces`.
    limiter : "van_leer", "minmod" or "mc"
        Of "muscl".
    riemann : "hllc", "hll", "rusanov" or "exact"
        Flux between two states, see `riemann`.
    integrator : "ssp_rk2", "ssp_rk3" or "euler"
        Of time, see `solvers.hyperbolic.integrators`.
    positivity : bool
        Fluxes are limited so that density and pressure stay positive, see `faces`; in a gas without
        viscosity and gravity this is certain for Courant numbers up to 0.5, the limit then.
    courant : float
        Time step times the number of cells that waves cross per time, over all axes.
    dtype : "float64" or "float32"
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    initial: tuple[Field, ...] | Callable[..., Any]
    bounds: tuple[tuple[float, float], ...] | None = None
    periodic: bool | tuple[bool, ...] = False
    gamma: float = 1.4
    sides: Mapping[str, Side] = field(default_factory=dict)
    viscosity: float = 0.0
    prandtl: float = 0.72
    gravity: tuple[float, ...] | None = None
    obstacles: Callable[..., Any] | None = None
    reconstruction: str = "muscl"
    limiter: str = "van_leer"
    riemann: str = "hllc"
    integrator: str = "ssp_rk2"
    positivity: bool = False
    courant: float = 0.4
    dtype: str = "float64"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        require_box(self)
        _require_names(self)
        _require_numbers(self)
        _require_functions(self)
        _require_sides(self)
        reach = self.scheme.faces.reach
        if min(self.cells) < reach:
            raise da.SolverError(
                f"Reconstruction '{self.reconstruction}' reads {reach} cells on each side, "
                f"received cells={self.cells}; give at least as many along each axis."
            )

    @property
    def limit(self) -> float:
        """The largest Courant number of a step."""
        return 0.5 if self.positivity else 1.0

    @property
    def scheme(self) -> Scheme:
        """What the kernels are made from."""
        return Scheme(
            self.reconstruction,
            self.limiter if self.reconstruction == "muscl" else LIMITERS[0],
            self.riemann,
            positivity=self.positivity,
            viscous=self.viscosity > 0.0,
            gravity=self.gravity is not None,
            obstacles=self.obstacles is not None,
        )

    @property
    def all_sides(self) -> dict[str, Side]:
        """What each side of the box is."""
        return {name: self.sides.get(name, Wall()) for name in self.side_names}


def _require_names(config: EulerConfig) -> None:
    known: dict[str, tuple[Any, ...]] = {
        "reconstruction": RECONSTRUCTIONS,
        "limiter": LIMITERS,
        "riemann": tuple(SOLVERS),
        "integrator": tuple(INTEGRATORS),
        "positivity": (False, True),
        "dtype": DTYPES,
    }
    for name, choices in known.items():
        require_choice(name, getattr(config, name), choices)


def _require_numbers(config: EulerConfig) -> None:
    rules: dict[str, tuple[str, Callable[[float], bool], str]] = {
        "gamma": ("above 1", lambda value: value > 1.0, "1.4 is that of air"),
        "viscosity": ("at least 0", lambda value: value >= 0.0, "0 makes the Euler equations"),
        "prandtl": ("above 0", lambda value: value > 0.0, "0.72 is that of air"),
    }
    for name, (rule, good, cure) in rules.items():
        value = getattr(config, name)
        if not (is_number(value) and good(value)):
            raise da.SolverError(f"'{name}' is {rule}, received {shown(value)}; {cure}.")
    require_courant(config.courant, config.limit)
    for name in ("gravity", "ranks"):
        if getattr(config, name) is not None:
            require_per_axis(name, getattr(config, name), config.ndim)
    for value in config.gravity or ():
        if not is_number(value):
            raise da.SolverError(
                f"Gravity has one number per axis, received {shown(value)}; give an acceleration."
            )


def _require_functions(config: EulerConfig) -> None:
    if callable(config.initial):
        require_value("initial", config.initial, config.ndim)
    else:
        _require_state("initial", config.initial, config.ndim)
    if config.obstacles is not None and not callable(config.obstacles):
        raise da.SolverError(
            f"'obstacles' is a function of the coordinates, received {shown(config.obstacles)}; "
            "write one that is True in solid cells."
        )
    if config.obstacles is not None:
        require_value("obstacles", config.obstacles, config.ndim)


def _require_sides(config: EulerConfig) -> None:
    require_sides("sides", config.sides, config)
    for name, side in config.sides.items():
        if not isinstance(side, Wall | Inflow | Outflow | Split):
            raise da.SolverError(
                f"A side is a Wall, Inflow, Outflow or Split, received {shown(side)} at '{name}'; "
                "give one of them."
            )
        if isinstance(side, Split):
            _require_split(name, side, config)
        for part in (side.first, side.second) if isinstance(side, Split) else (side,):
            _require_side(name, part, config)


def _require_split(name: str, side: Split, config: EulerConfig) -> None:
    if not callable(side.mask):
        raise da.SolverError(
            f"The mask of a Split is a function of the time and the coordinates, received "
            f"{shown(side.mask)} at '{name}'; write one that is True where the first part is."
        )
    require_value(f"the mask at '{name}'", side.mask, config.ndim, time=True)
    for part in (side.first, side.second):
        if not isinstance(part, Wall | Inflow | Outflow):
            raise da.SolverError(
                f"A part of a Split is a Wall, Inflow or Outflow, received {shown(part)} at "
                f"'{name}'; give one of them."
            )


def _require_side(name: str, side: Side, config: EulerConfig) -> None:
    if isinstance(side, Inflow):
        _require_state(f"the inflow at '{name}'", side.state, config.ndim, time=True)
        for what, value in (("density", side.state[0]), ("pressure", side.state[-1])):
            _require_positive(f"The {what} of gas", name, value)
    if isinstance(side, Wall):
        _require_wall(name, side, config)


def _require_wall(name: str, wall: Wall, config: EulerConfig) -> None:
    require_choice(f"slip at '{name}'", wall.slip, (False, True))
    if wall.velocity is not None:
        what = f"the velocity at '{name}'"
        require_per_axis(what, wall.velocity, config.ndim)
        for value in wall.velocity:
            require_value(what, value, config.ndim, time=True)
    if wall.temperature is not None:
        require_value(f"the temperature at '{name}'", wall.temperature, config.ndim, time=True)
        _require_positive("The temperature of a wall", name, wall.temperature)
        if not config.viscosity > 0.0:
            raise da.SolverError(
                f"A wall gives heat to a viscous gas alone, received temperature="
                f"{wall.temperature!r} at '{name}' and viscosity 0; leave it out."
            )


def _require_positive(what: str, side: str, value: Any) -> None:
    if not callable(value) and not value > 0.0:
        raise da.SolverError(f"{what} is above 0, received {value} at '{side}'; give another one.")


def _require_state(name: str, state: Any, ndim: int, *, time: bool = False) -> None:
    if not isinstance(state, tuple | list) or len(state) != ndim + 2:
        raise da.SolverError(
            f"'{name}' has density, one velocity per axis and pressure, received {shown(state)}; "
            f"give {ndim + 2} in a tuple."
        )
    for value in state:
        require_value(name, value, ndim, time=time)
