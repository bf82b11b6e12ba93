"""Incompressible Navier-Stokes on a staggered grid by a projection method.

One step of length dt, in two or three dimensions:

1. three stages of the strong-stability-preserving Runge-Kutta scheme of third order (Shu, C.-W.,
Osher, S. (1988)
   J. Comput. Phys. 77(2), 439-471) with the pressure gradient of the last step, giving u*;
2. lap(phi) = div(u*) / dt, solved directly (`pressure`);
3. u = u* - dt grad(phi), whose discrete divergence is zero to round-off, and p += phi.

That is the incremental-pressure projection of Goda, K. (1979) J. Comput. Phys. 30(1), 76-95: second
order in time for the velocity. Space is second order (`kernels`). A steady state does not depend on
dt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import distarray as da
from solvers.base import Solver
from solvers.incompressible import kernels
from solvers.incompressible.config import AXES, IncompressibleConfig
from solvers.incompressible.pressure import PressureSolver

#: Stages of the Runge-Kutta scheme: (share of the old state, time of the state it starts from in
#: steps).
STAGES = ((0.0, 0.0), (0.75, 1.0), (1.0 / 3.0, 0.5))
#: The scheme is stable for eigenvalues z of dt * rate in the left half of the ellipse with these
#: half axes.
REAL_LIMIT, IMAGINARY_LIMIT = 2.51, 1.73


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

    def __init__(
        self, config: IncompressibleConfig, *, comm: Any = None, device: str = "auto"
    ) -> None:
        super().__init__(measure_every=config.measure_every)
        self.config = config
        self.grid = da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            ranks=config.ranks or _process_grid(config, comm),
            comm=comm,
            device=device,
        )
        self._velocity = [self._component(axis) for axis in range(config.ndim)]
        self._pressure = self.grid.zeros(name="p")
        self.fields = {**dict(zip("uvw", self._velocity, strict=False)), "p": self._pressure}
        self._stages = [[u.copy() for u in self._velocity] for _ in range(2)]
        self._divergence = self.grid.zeros()
        self._forces = self._force_fields()
        self._poisson = PressureSolver(self.grid)
        self._reciprocals = [1.0 / h for h in self.grid.spacing]
        self._r = dict(zip(("rx", "ry", "rz"), self._reciprocals, strict=False))
        if config.initial is not None:
            self._project(self._stages[0], 1.0)
            self._pressure.fill(0.0)

    def stable_dt(self) -> float:
        """The largest stable time step for the velocity now, times `config.safety`. Collective."""
        return self._limit([float(abs(u).max()) for u in self._velocity])

    def step(self, dt: float) -> None:
        """Advance the velocity and the pressure by `dt`. Collective."""
        star = self._predict(dt)
        self._project(star, dt, measure=self._due())
        self.step_count += 1
        self.time += dt

    def max_divergence(self) -> float:
        """Largest absolute discrete divergence of the velocity. Collective."""
        kernels.divergence(self.config.ndim)(
            *self._velocity, self._divergence, scale=1.0, **self._r
        )
        return float(abs(self._divergence).max())

    def _predict(self, dt: float) -> list[da.DistArray]:
        """The velocity after the Runge-Kutta stages, not yet free of divergence."""
        stage = kernels.momentum(self.config.ndim)
        scalars = {"nu": self.config.viscosity, "dt": dt, **self._r}
        now = self._velocity
        for number, (keep, start) in enumerate(STAGES):
            new = self._stages[number % 2]
            stage(
                *now, self._pressure, *self._velocity, *new, time=self.time + start * dt,
                advection=self.config.advection, keep=keep, **scalars,
            )  # fmt: skip
            for u, force in zip(new, self._forces, strict=False):
                kernels.push(u, force, ndim=self.config.ndim, scale=(1.0 - keep) * dt)
            now = new
        return now

    def _project(self, star: list[da.DistArray], dt: float, measure: bool = False) -> None:
        """Remove the divergence of `star`, into the velocity, and add the correction to the
        pressure.
        """
        ndim = self.config.ndim
        kernels.divergence(ndim)(*star, self._divergence, scale=1.0 / dt, **self._r)
        phi = self._poisson.solve(self._divergence)
        if measure:
            self._begin_measurement(star, phi, dt)
        kernels.correct(ndim)(*star, phi, *self._velocity, self._pressure, dt=dt, **self._r)

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
        """Largest constant wall speed along each axis: the fluid at rest is about to be dragged
        along.
        """
        walls = self.config.walls.values()
        return [
            max([abs(w[axis]) for w in walls if not callable(w[axis])], default=0.0)
            for axis in range(self.config.ndim)
        ]

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


def _process_grid(config: IncompressibleConfig, comm: Any) -> tuple[int, ...]:
    """Cuts across the first axis alone: the transforms of the other axes then need no message."""
    size = da.Grid(config.cells, comm=comm).size
    if config.cells[0] >= 2 * size:
        return (0, *(1,) * (config.ndim - 1))
    return (*(0,) * (config.ndim - 1), 1)
