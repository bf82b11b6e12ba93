"""What a flow of shallow water is made of: a frozen description, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import distarray as da
from solvers.hyperbolic import INTEGRATORS
from solvers.hyperbolic.limiters import LIMITERS
from solvers.shallow_water.riemann import RIEMANN

#: A number, or a function of the coordinates (x[, y]).
Field = float | Callable[..., Any]
#: A number, or a function of the time and the coordinates (t, x[, y]) of the points of a side.
SideValue = float | Callable[..., Any]

AXES = "xy"
#: Largest Courant number: half of a cell's water may leave through each of two faces.
CFL_LIMIT = 0.5
RECONSTRUCTIONS = ("constant", "muscl")
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class ShallowWaterConfig:
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
        Sides that let waves pass: the state beyond is that of the last cell.
    uniform : tuple of side
        Outflows down a slope: beyond them, besides, the bed goes on with its slope. (Beyond an
        outflow it is flat, so that a lake with an open side may be at rest.)
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
    scheme : "euler", "ssp_rk2" or "ssp_rk3"
        Time integrator.
    cfl : float
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
    bounds: tuple[tuple[float, float], ...] | None = None
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
    scheme: str = "ssp_rk2"
    cfl: float = 0.45
    thin: float | None = None
    dtype: str = "float64"
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _require_cells(self.cells)
        _require_numbers(self)
        limiters = tuple(name for name in LIMITERS if name != "central")
        for name, known in {
            "riemann": RIEMANN, "reconstruction": RECONSTRUCTIONS, "limiter": limiters,
            "scheme": INTEGRATORS, "dtype": DTYPES,
        }.items():  # fmt: skip
            _require_choice(name, getattr(self, name), known)
        _require_start(self)
        _require_sides(self)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        one = isinstance(self.periodic, bool)
        return (self.periodic,) * self.ndim if one else tuple(self.periodic)  # type: ignore[arg-type, return-value]

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the sides of the box."""
        axes = zip(AXES, self.periodic_axes, strict=False)
        return tuple(name + side for name, wraps in axes if not wraps for side in "-+")

    @property
    def forced(self) -> bool:
        """Whether friction or rotation act."""
        return self.rotating or self.manning > 0.0 or self.drag > 0.0

    @property
    def rotating(self) -> bool:
        return self.coriolis != 0.0 or self.beta != 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _require_cells(cells: Any) -> None:
    whole = isinstance(cells, tuple) and all(_is_whole(n) and n >= 2 for n in cells)
    if not whole or len(cells) not in (1, 2):
        raise da.SolverError(
            f"Shallow water has one or two axes with two cells or more, received cells={cells}; "
            f"give a tuple of one or two whole numbers above 1."
        )


def _require_numbers(config: ShallowWaterConfig) -> None:
    if not (_is_number(config.gravity) and config.gravity > 0.0):
        raise da.SolverError(
            f"Gravity is a number above 0, received gravity={config.gravity!r}; 9.81 is that of "
            f"the Earth in m/s^2."
        )
    if not (_is_number(config.cfl) and 0.0 < config.cfl <= CFL_LIMIT):
        raise da.SolverError(
            f"The Courant number lies in (0, {CFL_LIMIT}], received cfl={config.cfl!r}; 0.45 is "
            f"usual."
        )
    for name in ("manning", "drag"):
        value = getattr(config, name)
        if not (_is_number(value) and value >= 0.0):
            raise da.SolverError(
                f"A coefficient of friction is a number of at least 0, received {name}={value!r}; "
                f"give one."
            )
    for name in ("coriolis", "beta"):
        value = getattr(config, name)
        if not _is_number(value) or (value != 0.0 and config.ndim != 2):
            raise da.SolverError(
                f"'{name}' is a number, and turns flows on two axes, received {value!r} on "
                f"{config.ndim}; give a number and two axes, or leave it out."
            )
    if config.thin is not None and not (_is_number(config.thin) and config.thin > 0.0):
        raise da.SolverError(
            f"The depth of thin water is a number above 0, received thin={config.thin!r}; leave "
            f"it out for 1e-6 of the deepest water."
        )


def _require_choice(name: str, value: Any, known: Iterable[str]) -> None:
    names = list(known)
    if value not in names:
        listed = ", ".join(f"'{one}'" for one in names[:-1])
        raise da.SolverError(
            f"'{name}' is {listed} or '{names[-1]}', received {value!r}; name one of them."
        )


def _require_start(config: ShallowWaterConfig) -> None:
    if (config.depth is None) == (config.surface is None):
        raise da.SolverError(
            "Water at the start has a depth or a surface, received "
            f"{'neither' if config.depth is None else 'both'}; give one of them."
        )
    for name in ("depth", "surface", "bathymetry"):
        value = getattr(config, name)
        if value is not None:
            _require_value(name, value)
    if _is_number(config.depth) and config.depth < 0.0:  # type: ignore[operator]
        raise da.SolverError(
            f"A depth is at least 0, received depth={config.depth}; use 0 for dry ground."
        )
    for name in ("velocity", "bounds", "ranks"):
        if getattr(config, name) is not None:
            _require_per_axis(name, getattr(config, name), config.ndim)
    if not isinstance(config.periodic, bool):
        _require_per_axis("periodic", config.periodic, config.ndim)
    for value in config.velocity or ():
        _require_value("velocity", value)


def _require_value(name: str, value: Any) -> None:
    if not callable(value) and not _is_number(value):
        raise da.SolverError(
            f"'{name}' is a finite number or a function, received {value!r}; give one of them."
        )


def _require_per_axis(name: str, values: Any, ndim: int) -> None:
    count = len(values) if isinstance(values, tuple | list) else None
    if count != ndim:
        raise da.SolverError(
            f"'{name}' has one entry per axis, received {values!r} for {ndim}; give {ndim} in a "
            f"tuple."
        )


def _require_sides(config: ShallowWaterConfig) -> None:
    for name in ("inflow", "side_depth"):
        if not isinstance(getattr(config, name), Mapping):
            raise da.SolverError(
                f"'{name}' names sides and their values, received {getattr(config, name)!r}; give "
                f"a dict."
            )
    for name in ("outflow", "uniform"):
        if not isinstance(getattr(config, name), tuple | list):
            raise da.SolverError(
                f"'{name}' is a tuple of sides, received {getattr(config, name)!r}; write ('x+',) "
                f"for one."
            )
    kinds: list[str] = [*config.inflow, *config.outflow, *config.uniform]
    for side in (*kinds, *config.side_depth):
        if side not in config.sides:
            raise da.SolverError(
                f"This box has the sides {', '.join(config.sides) or 'none'}, received '{side}'; "
                f"name one of these."
            )
        if kinds.count(side) > 1:
            raise da.SolverError(
                f"A side is of one kind, received '{side}' twice in 'inflow', 'outflow' and "
                f"'uniform'; name it once."
            )
    for side, discharge in config.inflow.items():
        _require_per_axis(f"inflow['{side}']", discharge, config.ndim)
        for value in discharge:
            _require_value(f"inflow['{side}']", value)
    for side, depth in config.side_depth.items():
        if side not in kinds:
            raise da.SolverError(
                f"A depth is given where water enters or leaves, received one at '{side}'; name "
                f"that side in 'inflow', 'outflow' or 'uniform', too."
            )
        _require_value(f"side_depth['{side}']", depth)
        if _is_number(depth) and depth < 0.0:  # type: ignore[operator]
            raise da.SolverError(
                f"A depth is at least 0, received {depth} at '{side}'; use 0 for dry ground."
            )
