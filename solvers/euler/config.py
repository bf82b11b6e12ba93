"""What a flow of an ideal gas is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distarray as da
from solvers.box import DTYPES, Box, is_number
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
        _require_cells(self.cells)
        _require_names(self)
        _require_numbers(self)
        _require_shapes(self)
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


def _require_cells(cells: Any) -> None:
    whole = isinstance(cells, tuple) and all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 1 for n in cells
    )
    if not whole or not 1 <= len(cells) <= 3:
        raise da.SolverError(
            f"A flow has one to three axes, received cells={cells!r}; give a tuple of one to three "
            "whole numbers above 0."
        )


def _require_names(config: EulerConfig) -> None:
    known = {
        "reconstruction": RECONSTRUCTIONS,
        "limiter": LIMITERS,
        "riemann": tuple(SOLVERS),
        "integrator": tuple(INTEGRATORS),
        "dtype": DTYPES,
    }
    for name, choices in known.items():
        value = getattr(config, name)
        if value not in choices:
            raise da.SolverError(
                f"The {name} {value!r} is unknown; use one of {', '.join(choices)}."
            )


def _require_numbers(config: EulerConfig) -> None:
    rules: dict[str, tuple[str, Callable[[float], bool], str]] = {
        "gamma": ("above 1", lambda value: value > 1.0, "1.4 is that of air"),
        "viscosity": ("at least 0", lambda value: value >= 0.0, "0 makes the Euler equations"),
        "prandtl": ("above 0", lambda value: value > 0.0, "0.72 is that of air"),
    }
    for name, (rule, good, cure) in rules.items():
        value = getattr(config, name)
        if not (is_number(value) and good(value)):
            raise da.SolverError(f"'{name}' is {rule}, received {value!r}; {cure}.")
    if not is_number(config.courant):
        raise da.SolverError(
            f"A Courant number is a number, received courant={config.courant!r}; 0.4 is usual."
        )
    require_courant(config.courant, config.limit)
    for value in config.gravity or ():
        if not is_number(value):
            raise da.SolverError(
                f"Gravity has one number per axis, received {value!r}; give an acceleration."
            )


def _require_shapes(config: EulerConfig) -> None:
    if not isinstance(config.periodic, bool):
        _require_entries("periodic", config.periodic, config.ndim, "one entry per axis")
    for name in ("bounds", "gravity", "ranks"):
        if getattr(config, name) is not None:
            _require_entries(name, getattr(config, name), config.ndim, "one entry per axis")
    _require_state("initial", config.initial, config.ndim)
    if config.obstacles is not None and not callable(config.obstacles):
        raise da.SolverError(
            f"'obstacles' is a function of the coordinates, received {config.obstacles!r}; write "
            "one that is True in solid cells."
        )


def _require_sides(config: EulerConfig) -> None:
    names = config.side_names
    if not isinstance(config.sides, Mapping):
        raise da.SolverError(
            f"'sides' names sides and what they are, received {config.sides!r}; give a dict."
        )
    for name, side in config.sides.items():
        if name not in names:
            raise da.SolverError(
                f"This box has the sides {', '.join(names) or 'none'}, received '{name}'; name one "
                "of these."
            )
        if not isinstance(side, Wall | Inflow | Outflow | Split):
            raise da.SolverError(
                f"A side is a Wall, Inflow, Outflow or Split, received {side!r} at '{name}'; give "
                "one of them."
            )
        for part in (side.first, side.second) if isinstance(side, Split) else (side,):
            _require_side(name, part, config)


def _require_side(name: str, side: Side, config: EulerConfig) -> None:
    if isinstance(side, Inflow):
        _require_state(f"the inflow at '{name}'", side.state, config.ndim)
        if callable(side.state):
            raise da.SolverError(
                f"An inflow has one entry per primitive variable, received {side.state!r} at "
                f"'{name}'; give a tuple."
            )
        for what, value in (("density", side.state[0]), ("pressure", side.state[-1])):
            if not callable(value) and not value > 0.0:
                raise da.SolverError(
                    f"The {what} of gas is above 0, received {value} at '{name}'; give another one."
                )
    if isinstance(side, Wall):
        if side.velocity is not None:
            what = f"the velocity at '{name}'"
            _require_entries(what, side.velocity, config.ndim, "one entry per axis")
        if side.temperature is not None and not config.viscosity > 0.0:
            raise da.SolverError(
                f"A wall gives heat to a viscous gas alone, received temperature="
                f"{side.temperature!r} at '{name}' and viscosity 0; leave it out."
            )


def _require_state(name: str, state: Any, ndim: int) -> None:
    if callable(state):
        return
    _require_entries(name, state, ndim + 2, "density, one velocity per axis and pressure")
    for value in state:
        if not callable(value) and not is_number(value):
            raise da.SolverError(
                f"An entry of {name} is a finite number or a function, received {value!r}; give "
                "one of them."
            )


def _require_entries(name: str, values: Any, count: int, what: str) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        raise da.SolverError(f"'{name}' has {what}, received {values!r}; give {count} in a tuple.")
