"""Incompressible Navier-Stokes on a staggered grid by a projection method.

One step of length dt, in two or three dimensions:

1. the four stages of the strong-stability-preserving Runge-Kutta scheme of third order with Courant
   number 2 (Spiteri, R. J., Ruuth, S. J. (2002) SIAM J. Numer. Anal. 40(2), 469-491), all with the
   pressure gradient of the last step, giving u*; for viscous flow it reaches twice as far as the
   scheme of three stages, and a solution of the pressure equation costs as much as several stages;
2. lap(phi) = div(u*) / dt, solved directly (`pressure`);
3. u = u* - dt grad(phi), whose discrete divergence is zero to round-off, and p += phi.

That is the incremental-pressure projection of Goda, K. (1979) J. Comput. Phys. 30(1), 76-95: second
order in time for the velocity. Space is second order (`kernels`). A steady state does not depend on
dt.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.base import Solver
from solvers.incompressible import kernels
from solvers.incompressible.config import AXES, IncompressibleConfig
from solvers.incompressible.pressure import PressureSolver, uniform_spacing

#: Each stage advances by dt / 2 and is then mixed with the old state: (share of the old state, time
#: of the state it starts from, in steps).
STAGES = ((0.0, 0.0), (0.0, 0.5), (2.0 / 3.0, 1.0), (0.0, 0.5))
#: The scheme is stable for eigenvalues z of the rate times dt in the left half of the ellipse with
#: these half axes (found by scanning the amplification |2 y + y^4| / 3, y = 1 + z / 2, inside it).
REAL_LIMIT, IMAGINARY_LIMIT = 5.0, 1.97


class IncompressibleSolver(Solver):
    """A flow described by an `IncompressibleConfig`. Collective.

    Attributes
    ----------
    config : IncompressibleConfig
    fields : dict
        "u", "v"[, "w"], float64, on the faces normal to x, y[, z], and "p", float64, in the cells.

    Examples
    --------
    >>> from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
    >>> config = IncompressibleConfig(cells=(16, 16), viscosity=0.1, walls={"y+": (1.0, 0.0)})
    >>> flow = IncompressibleSolver(config)
    >>> flow.run(until=0.1)
    """

    config: IncompressibleConfig

    def __init__(
        self, config: IncompressibleConfig, *, comm: Any = None, device: str = "auto"
    ) -> None:
        super().__init__(measure_every=config.measure_every)
        self.config = config
        self.grid = _grid(config, comm, device)
        self._velocity = [self._component(axis) for axis in range(config.ndim)]
        self._pressure = self.grid.zeros(name="p")
        self.fields = {**dict(zip("uvw", self._velocity, strict=False)), "p": self._pressure}
        self._stages = [[u.copy() for u in self._velocity] for _ in range(2)]
        self._divergence, self._phi = self.grid.zeros(), self.grid.zeros()
        self._forces = self._force_fields()
        self._poisson = PressureSolver(self.grid)
        self._reciprocals = [1.0 / h for h in uniform_spacing(self.grid)]
        self._r = dict(zip(("rx", "ry", "rz"), self._reciprocals, strict=False))
        if config.initial is not None:
            self._start()

    def stable_dt(self) -> float:
        """The largest stable time step for the velocity of fluid and walls now, times
        `config.safety`. Collective.

        A wall that is given by a function and starts from rest is not seen before it moves.

        Raises
        ------
        SolverError
            Fluid and walls are at rest, and there is no viscosity.
        """
        return self._limit([float(abs(u).max()) for u in self._velocity])

    def step(self, dt: float) -> None:
        """Advance the velocity and the pressure by `dt`. Collective."""
        star = self._predict(dt)
        self._project(star, dt, measure=self._due())
        self.step_count += 1
        self.time += dt

    def kinetic_energy(self) -> float:
        """Kinetic energy per volume. Collective; the same bits on any ranks.

        On a face between cells |u|^2 / 2 stands for the volume around it; on a wall it is zero.
        """
        squares = [float(da.dot(u, u, reproducible=True)) for u in self._velocity]
        return 0.5 * sum(squares) / math.prod(self.config.cells)

    def scalars(self) -> dict[str, float]:
        return {"energy": self.kinetic_energy(), "divergence": self.max_divergence()}

    def max_divergence(self) -> float:
        """Largest absolute discrete divergence of the velocity. Collective."""
        kernels.divergence(self.config.ndim)(
            *self._velocity, self._divergence, scale=1.0, **self._r
        )
        return float(abs(self._divergence).max())

    def _start(self) -> None:
        """Make the initial velocity free of divergence and find the pressure that keeps it so."""
        self._project(self._stages[0], 1.0)
        self._pressure.fill(0.0)
        self._stage(self._velocity, self._stages[0], dt=1.0, keep=0.0, time=self.time)
        self._pressure += self._correction(self._stages[0], 1.0)

    def _predict(self, dt: float) -> list[da.DistArray]:
        """The velocity after the Runge-Kutta stages, not yet free of divergence."""
        now = self._velocity
        for number, (keep, start) in enumerate(STAGES):
            new = self._stages[number % 2]
            self._stage(now, new, dt=0.5 * dt, keep=keep, time=self.time + start * dt)
            now = new
        return now

    def _stage(
        self,
        now: list[da.DistArray],
        new: list[da.DistArray],
        *,
        dt: float,
        keep: float,
        time: float,
    ) -> None:
        ndim, scalars = self.config.ndim, {"nu": self.config.viscosity, "dt": dt, **self._r}
        kernels.momentum(ndim)(
            *now, self._pressure, *self._velocity, *new,
            advection=self.config.advection, keep=keep, time=time, **scalars,
        )  # fmt: skip
        for u, force in zip(new, self._forces, strict=False):
            kernels.push(u, force, ndim=ndim, scale=(1.0 - keep) * dt)

    def _project(self, star: list[da.DistArray], dt: float, measure: bool = False) -> None:
        """Remove the divergence of `star`, into the velocity, and correct the pressure."""
        phi = self._correction(star, dt)
        if measure:
            self._begin_measurement(star, phi, dt)
        kernels.correct(self.config.ndim)(
            *star, phi, *self._velocity, self._pressure, dt=dt, **self._r
        )

    def _correction(self, star: list[da.DistArray], dt: float) -> da.DistArray:
        """The change of pressure that takes the divergence of `star` away within `dt`."""
        kernels.divergence(self.config.ndim)(*star, self._divergence, scale=1.0 / dt, **self._r)
        self._poisson.solve(self._divergence, self._phi)
        return self._phi

    def _begin_measurement(self, star: list[da.DistArray], phi: da.DistArray, dt: float) -> None:
        pairs = [
            kernels.change(new, phi, old, axis=axis, dt=dt, r=self._reciprocals[axis])
            for axis, (new, old) in enumerate(zip(star, self._velocity, strict=True))
        ]
        changes, speeds = zip(*pairs, strict=True)
        self._measure(dt, changes, speeds)

    def _limit(self, speeds: Sequence[float]) -> float:
        fastest = [
            max(speed, wall) for speed, wall in zip(speeds, self._wall_speeds(), strict=True)
        ]
        convection = sum(speed * r for speed, r in zip(fastest, self._reciprocals, strict=True))
        diffusion = 4.0 * self.config.viscosity * sum(r * r for r in self._reciprocals)
        if self.config.advection == "upwind":
            diffusion += 2.0 * convection
        rate = math.hypot(diffusion / REAL_LIMIT, convection / IMAGINARY_LIMIT)
        if rate == 0.0:
            raise da.SolverError(
                "A fluid at rest without viscosity has no time step; give step(dt) one."
            )
        return self.config.safety / rate

    def _wall_speeds(self) -> list[float]:
        """Largest speed of the walls now along each axis: the fluid at rest is about to be dragged
        along. Collective.
        """
        largest = [0.0] * self.config.ndim
        for side, velocity in self.config.walls.items():
            for axis, value in enumerate(velocity):
                speed = self._largest_on(side, axis, value) if callable(value) else abs(value)
                largest[axis] = max(largest[axis], speed)
        return largest

    def _largest_on(self, side: str, axis: int, value: Callable[..., Any]) -> float:
        """Largest magnitude that a function of time and position has now on a wall."""
        normal = AXES.index(side[0])
        place = np.full((1,) * self.config.ndim, self.grid.bounds[normal][side[1] == "+"])

        def magnitude(*coords: Any) -> Any:
            points = [place if a == normal else x for a, x in enumerate(coords)]
            return np.abs(value(self.time, *points))

        return float(self.grid.from_function(magnitude, location=AXES[axis]).max())

    def _component(self, axis: int) -> da.DistArray:
        boundary = {
            AXES[a] + side: da.Dirichlet(self.config.wall(a, side)[axis])
            for a, periodic in enumerate(self.config.periodic_axes)
            for side in ("-", "+")
            if not periodic
        }
        options: dict[str, Any] = {
            "location": AXES[axis],
            "boundary": boundary,
            "name": "uvw"[axis],
        }
        if self.config.initial is None:
            return self.grid.zeros(**options)
        return _from_field(self.grid, self.config.initial[axis], options)

    def _force_fields(self) -> list[da.DistArray]:
        force = self.config.force or ()
        return [_from_field(self.grid, f, {"location": AXES[axis]}) for axis, f in enumerate(force)]


def _from_field(grid: da.Grid, value: Any, options: dict[str, Any]) -> da.DistArray:
    return grid.from_function(value, **options) if callable(value) else grid.full(value, **options)


def _grid(config: IncompressibleConfig, comm: Any, device: str) -> da.Grid:
    """The grid of a flow, by default cut across the first axis alone: the transforms of the other
    axes then need no message.
    """

    def on(*ranks: int) -> da.Grid:
        return da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            ranks=ranks,
            comm=comm,
            device=device,
        )

    if config.ranks is not None:
        return on(*config.ranks)
    others = config.ndim - 1
    with contextlib.suppress(da.DecompositionError):  # fewer cells than ranks
        slabs = on(0, *(1,) * others)
        if config.cells[0] >= 2 * slabs.size:
            return slabs
    return on(*(0,) * others, 1)
