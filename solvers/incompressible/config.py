"""What an incompressible flow is made of: a frozen description, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from solvers.incompressible.advection import Advection
from solvers.incompressible.checks import require_sound
from solvers.incompressible.immersed import Obstacle
from solvers.incompressible.les import Smagorinsky
from solvers.incompressible.metrics import AXES, side_names
from solvers.incompressible.scalar import Scalar

#: A number, or a function of the coordinates (x, y[, z]).
Field = float | Callable[..., Any]
#: A number, or a function of the time and the coordinates (t, x, y[, z]) of the points of a side.
WallValue = float | Callable[..., Any]
Scheme = Literal["ssp-rk3", "ab2-cn"]
Pressure = Literal["auto", "fft", "multigrid"]


@dataclass(frozen=True)
class IncompressibleConfig:
    """Flow of constant density (taken as 1) in a box.

    Each side of an axis that is not periodic, "x-", "x+", "y-", ..., is one of: a wall (at rest
    unless named in `walls`), an inflow, an outflow, or a plane of symmetry.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, two or three axes.
    viscosity : float
        Kinematic viscosity, in length^2 / time.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default.
    periodic : bool or tuple of bool
        One value or one per axis.
    coordinates : mapping of axis name to face positions, optional
        Stretched axes: cells + 1 increasing positions each.
    walls : mapping of side to velocity
        The velocity has one entry per axis, each a number or, along the wall, a function f(t, x,
        y[, z]), whose values now count in the stable time step. The entry normal to the wall is 0.
    inflow : mapping of side to velocity
        Sides where the whole velocity is given, also the normal entry: inflow, suction, or an exact
        solution. Without an outflow what enters must leave through these sides: from functions the
        net flow that is left is taken away evenly.
    outflow : tuple of side
        Sides that convect the flow out: du/dt + c du/dn = 0 for the normal component, c the mean
        velocity there, then evenly corrected so that as much leaves as enters; zero normal
        derivative of the others.
    slip : tuple of side
        Planes of symmetry: no flow through them, no stress along them.
    initial : tuple of (number or function f(x, y[, z])), optional
        Velocity at the start, one entry per axis; its divergence is removed. By default the fluid
        is at rest, but for what an inflow sets in motion at once: the potential flow.
    force : tuple of (number, function f(x, y[, z]) or f(t, x, y[, z])), optional
        Body force per mass, one entry per axis.
    flow_rate : mapping of axis name to mean velocity
        Periodic axes along which a uniform force holds the mean velocity in the box.
    obstacles : tuple of Obstacle
        Solid bodies in the box, see `immersed`.
    scalar : Scalar, optional
        What the flow carries, and the buoyancy that it causes, see `scalar`.
    les : Smagorinsky, optional
        Stresses of eddies smaller than the cells, see `les`.
    scheme : "ssp-rk3" or "ab2-cn"
        Strong-stability-preserving Runge-Kutta, of third order in four stages; or Adams-Bashforth
        for convection with Crank-Nicolson for viscosity, whose time step viscosity does not limit.
    advection : "central", "upwind" or "weno"
        Second order and without numerical dissipation; first order and always bounded; or WENO
        fluxes, see `advection`.
    pressure : "auto", "fft" or "multigrid"
        How the pressure equation is solved: directly, by Fourier transforms along uniform axes and
        products with the modes of stretched ones; or by multigrid cycles. "auto" is "fft".
    pressure_tolerance : float
        Residual of the pressure equation relative to its right-hand side, for "multigrid".
    safety : float
        Share of the stable time step that `stable_dt` returns.
    measure_every : int
        Steps between two measurements of the speed and of the largest |du/dt|.
    ranks : tuple of int, optional
        Process grid. By default the first axis alone is cut as long as its blocks keep two cells,
        else all but the last axis.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    viscosity: float
    bounds: tuple[tuple[float, float], ...] | None = None
    periodic: bool | tuple[bool, ...] = False
    coordinates: Mapping[str, Any] | None = None
    walls: Mapping[str, tuple[WallValue, ...]] = field(default_factory=dict)
    inflow: Mapping[str, tuple[WallValue, ...]] = field(default_factory=dict)
    outflow: tuple[str, ...] = ()
    slip: tuple[str, ...] = ()
    initial: tuple[Field, ...] | None = None
    force: tuple[Field, ...] | None = None
    flow_rate: Mapping[str, float] = field(default_factory=dict)
    obstacles: tuple[Obstacle, ...] = ()
    scalar: Scalar | None = None
    les: Smagorinsky | None = None
    scheme: Scheme = "ssp-rk3"
    advection: Advection = "central"
    pressure: Pressure = "auto"
    pressure_tolerance: float = 1e-9
    safety: float = 0.9
    measure_every: int = 20
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        choices = {"advection": Advection, "scheme": Scheme, "pressure": Pressure}
        parts = {"obstacles": Obstacle, "scalar": Scalar, "les": Smagorinsky}
        require_sound(self, {name: get_args(kind) for name, kind in choices.items()}, parts)

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def periodic_axes(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        return (
            (self.periodic,) * self.ndim
            if isinstance(self.periodic, bool)
            else tuple(self.periodic)
        )

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the sides of the box."""
        return side_names(self.periodic_axes)

    def wall(self, axis: int, side: str) -> tuple[WallValue, ...]:
        """Velocity of the wall at side "-" or "+" of an axis."""
        return self.walls.get(AXES[axis] + side, (0.0,) * self.ndim)

    @property
    def moving(self) -> dict[str, tuple[WallValue, ...]]:
        """The velocity of every side that has one."""
        return {**self.walls, **self.inflow}
