"""What a flow by the lattice Boltzmann method is made of: a frozen description."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from solvers.box import AXES, Bounds, Box, SideValue
from solvers.lbm import checks
from solvers.lbm.collision import MAGIC, odd_rate
from solvers.lbm.lattice import Lattice, lattice

#: A number, or a function of the coordinates (x, y[, z]).
Field = float | Callable[..., Any]


@dataclass(frozen=True)
class LatticeConfig(Box):
    """Nearly incompressible flow of density 1 (at rest) in a box of cubic cells.

    All is in physical units of length and time. The time step follows from the Mach number: with
    cells of width h, `time_step = mach h / (sqrt(3) speed)`, since the speed of sound is
    1 / sqrt(3) cells per step. Hence the relaxation time is `tau = 1/2 + 3 viscosity time_step /
    h^2` steps. Errors of compressibility are of the order of `mach^2`; where h and `mach` are
    halved together (diffusive scaling, tau stays), the error of the velocity falls with h^2.
    Pressures are per density.

    For units of the lattice give `bounds` of (0, cells), `mach` and `speed = mach / sqrt(3)`: then
    h and the time step are 1 and `viscosity = (tau - 1/2) / 3`.

    Each side of an axis that is not periodic, "x-", "x+", "y-", ..., is one of: a wall (at rest
    unless named in `walls`), an inflow, or an outflow, which fluid crosses straight. All lie on the
    bounds: walls are half-way bounce-back, the others a regularised condition, see `sides`.

    Parameters
    ----------
    cells : tuple of int
        Cells per axis, two or three axes.
    viscosity : float
        Kinematic viscosity, in length^2 / time.
    speed : float
        The largest speed expected; no wall and no inflow given by a number is faster.
    mach : float
        Of that speed, at most 0.3.
    bounds : tuple of (low, high), optional
        The box; (0, 1) on every axis by default. Cells have the same width along all axes.
    periodic : bool or tuple of bool
        One value or one per axis.
    lattice : "D2Q9", "D3Q19" or "D3Q27", optional
        The first two by default.
    collision : "bgk", "trt" or "cumulant"
        See `collision`.
    magic : float
        The number of "trt" that says where walls lie: half-way in a channel for 3/16.
    walls : mapping of side to velocity
        Sides that move along themselves, one number per axis.
    inflow : mapping of side to velocity
        Sides where the velocity is given, a number or a function f(t, x, y[, z]) per axis.
    outflow : mapping of side to pressure
        Sides where the pressure is given, a number, relative to that of the fluid at rest.
    obstacles : mapping of name to shape
        Solid bodies at rest: what has `distance(x, y[, z])`, negative inside, such as the shapes of
        `solvers.incompressible.shapes`. Cells with their centre inside are solid.
    forces : tuple of name
        Obstacles, and sides that are walls, on which `LatticeSolver.forces` measures the force.
    initial : tuple of (number or function f(x, y[, z])), optional
        Velocity at the start, one entry per axis; at rest by default.
    pressure : number or function f(x, y[, z])
        At the start, relative to that of the fluid at rest.
    force : tuple of float, optional
        Force per volume, one number per axis.
    dtype : "float64" or "float32"
    measure_every : int
        Steps between two measurements of change, speed and forces.
    ranks : tuple of int, optional
        Process grid.

    Raises
    ------
    SolverError
        A value breaks one of these rules.
    """

    cells: tuple[int, ...]
    viscosity: float
    speed: float = 1.0
    mach: float = 0.1
    bounds: Bounds | None = None
    periodic: bool | tuple[bool, ...] = False
    lattice: str | None = None
    collision: str = "trt"
    magic: float = MAGIC
    walls: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    inflow: Mapping[str, tuple[SideValue, ...]] = field(default_factory=dict)
    outflow: Mapping[str, float] = field(default_factory=dict)
    obstacles: Mapping[str, Any] = field(default_factory=dict)
    forces: tuple[str, ...] = ()
    initial: tuple[Field, ...] | None = None
    pressure: Field = 0.0
    force: tuple[float, ...] | None = None
    dtype: str = "float64"
    measure_every: int = 20
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        checks.require_sound(self)

    @property
    def wall_sides(self) -> tuple[str, ...]:
        """Sides that are walls."""
        return tuple(s for s in self.side_names if s not in self.inflow and s not in self.outflow)

    @property
    def width(self) -> float:
        """Of the cells, along all axes."""
        return self.spacing[0]

    @property
    def time_step(self) -> float:
        return self.mach * self.width / (math.sqrt(3.0) * self.speed)

    @property
    def unit_speed(self) -> float:
        """One cell per step, in units of length / time."""
        return self.width / self.time_step

    @property
    def tau(self) -> float:
        """Relaxation time of the shear stress, in steps."""
        return 0.5 + 3.0 * self.viscosity * self.time_step / self.width**2

    @property
    def rates(self) -> dict[str, float]:
        """The rates of a collision: `omega` of even and `odd` of odd parts."""
        omega = 1.0 / self.tau
        return {
            "omega": omega,
            "odd": odd_rate(omega, self.magic) if self.collision == "trt" else omega,
        }

    @property
    def velocities(self) -> Lattice:
        """The lattice."""
        default = {2: "D2Q9", 3: "D3Q19"}.get(self.ndim, "D3Q19")
        return lattice(self.lattice if self.lattice is not None else default, self.ndim)


def axis_of(side: str) -> int:
    """The axis of a side such as "y+"."""
    return AXES.index(side[0])
