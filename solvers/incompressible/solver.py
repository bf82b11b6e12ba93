"""Incompressible Navier-Stokes on a staggered grid by a projection method.

One step of length dt, in two or three dimensions:

1. the velocity u* after the step, with the pressure gradient of the last one (`schemes`);
2. lap(phi) = div(u*) / dt (`pressure`);
3. u = u* - dt grad(phi), whose discrete divergence is zero to the tolerance of the solution (to
   round-off where it is direct), and p += phi.

That is the incremental-pressure projection of Goda, K. (1979) J. Comput. Phys. 30(1), 76-95: second
order in time for the velocity. Space is second order (`kernels`). A steady state does not depend on
dt. The pressure is that in the middle of the last step.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import distarray as da
from solvers.base import Solver, require_time_step
from solvers.incompressible import kernels
from solvers.incompressible.advection import EXTENT, REACH
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.forcing import BodyForce, FlowRate
from solvers.incompressible.immersed import ImmersedBoundary
from solvers.incompressible.les import EddyViscosity
from solvers.incompressible.metrics import AXES, COMPONENTS, Metrics
from solvers.incompressible.outflow import Outflow
from solvers.incompressible.parts import Part, Stage
from solvers.incompressible.pressure import poisson_solver
from solvers.incompressible.scalar import ScalarTransport
from solvers.incompressible.schemes import AdamsBashforth, RungeKutta, Scheme
from solvers.incompressible.sides import Sides
from solvers.incompressible.statistics import kinetic_energy


class IncompressibleSolver(Solver):
    """A flow described by an `IncompressibleConfig`. Collective.

    Attributes
    ----------
    config : IncompressibleConfig
    fields : dict
        "u", "v"[, "w"], float64, on the faces normal to x, y[, z], and "p", float64, in the cells;
        then what the scheme and the parts of the flow keep.
    parts : tuple of Part
        What plugs into the flow, in the order in which it is called.

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
        self._sides = Sides(config, self.grid)
        self._velocity = [self._component(axis) for axis in range(config.ndim)]
        self._pressure = self.grid.zeros(name="p")
        self._divergence, self._phi = self.grid.zeros(), self.grid.zeros()
        self._metrics = Metrics(self.grid)
        self._bind(self._metrics)
        self._scheme = self._make_scheme()
        self._poisson = poisson_solver(self.grid, config.pressure, config.pressure_tolerance)
        self.fields = {
            **dict(zip(COMPONENTS, self._velocity, strict=False)),
            "p": self._pressure,
            **self._scheme.fields,
        }
        self._outflow: Outflow | None = None
        self.parts: tuple[Part, ...] = ()
        for part in self._own_parts():
            self.add(part)
        if config.initial is not None or config.inflow:
            self._start()

    def add(self, part: Part) -> None:
        """Plug a part into the flow, before its first step or restart. Collective."""
        for name in part.fields:
            if name in self.fields:
                raise da.SolverError(
                    f"Every field of a flow has its own name, received another '{name}'; rename it."
                )
        self.fields.update(part.fields)
        self.parts = (*self.parts, part)
        self._poisson = part.pressure(self._poisson)

    def stable_dt(self) -> float:
        """The largest stable time step for the velocity of fluid and sides now, times
        `config.safety`. Collective.

        A side that is given by a function and starts from rest is not seen before it moves.

        Raises
        ------
        SolverError
            Fluid and sides are at rest, and there is no viscosity.
        """
        return self._stable(self._limiting())

    def step(self, dt: float) -> None:
        """Advance the velocity and the pressure by `dt`. Collective.

        Raises
        ------
        SolverError
            The time step is no finite number above 0.
        """
        require_time_step(dt)
        end = self.time + dt
        star = self._scheme.predict(self.parts, time=self.time, dt=dt)
        self._project(star, dt, end, measure=self._due())
        self.step_count += 1
        self.time = end
        for part in self.parts:
            part.finish(self._velocity, self._pressure, time=end, dt=dt)

    def kinetic_energy(self) -> float:
        """Kinetic energy per volume. Collective; the same bits on any ranks.

        On a face between cells |u|^2 / 2 stands for the volume around it. On a wall it is zero; on
        a side that the flow passes it stands for a whole cell.
        """
        return kinetic_energy(self._velocity, time=self.time, metrics=self._metrics)

    def scalars(self) -> dict[str, float]:
        found = {"energy": self.kinetic_energy(), "divergence": self.max_divergence()}
        for part in self.parts:
            found.update(part.scalars())
        return found

    def max_divergence(self) -> float:
        """Largest absolute discrete divergence of the velocity of the fluid. Collective."""
        self._diverge(*self._velocity, self._divergence, scale=1.0, time=self.time)
        for part in self.parts:
            part.leave_fluid(self._divergence)
        return float(abs(self._divergence).max())

    # ---- the end of a step

    def _start(self) -> None:
        """Make the initial velocity free of divergence and find the pressure that keeps it so."""
        star = [u.copy() for u in self._velocity]
        stage = Stage(
            number=0,
            keep=0.0,
            dt=1.0,
            time=self.time,
            given=self.time,
            after=self.time,
            step=1.0,
            end=self.time,
            last=True,
        )
        for part in self.parts:
            part.begin(self._velocity, time=self.time, dt=1.0)
        self._balance(star, stage)
        self._project(star, 1.0, self.time)
        self._pressure.fill(0.0)
        for part in self.parts:
            part.begin(self._velocity, time=self.time, dt=1.0)
        self._scheme.accelerate(self._velocity, star, stage, self.parts)
        self._balance(star, stage)
        self._pressure += self._correction(star, 1.0, self.time)

    def _balance(self, star: list[da.DistArray], stage: Stage) -> None:
        """Let as much leave the box and its bodies as enters."""
        if self._outflow is not None:
            self._outflow.balance(star, self.time)
        for part in self.parts:
            if part is not self._outflow:
                part.constrain(star, stage)

    def _project(
        self, star: list[da.DistArray], dt: float, time: float, measure: bool = False
    ) -> None:
        """Remove the divergence of `star`, into the velocity, and correct the pressure."""
        phi = self._correction(star, dt, time)
        if measure:
            self._begin_measurement(star, phi, dt)
        self._correct(*star, phi, *self._velocity, self._pressure, dt=dt, time=time)
        for part in self.parts:
            part.projected(star, self._velocity)
        self._renew_sides(time)

    def _renew_sides(self, time: float) -> None:
        """Put velocities of a time that are given on sides into the fields, which kernels that only
        write them do not do.
        """
        if self._sides.varies:
            self._speeds(time)

    def _correction(self, star: list[da.DistArray], dt: float, time: float) -> da.DistArray:
        """The change of pressure that takes the divergence of `star` away within `dt`."""
        self._diverge(*star, self._divergence, scale=1.0 / dt, time=time)
        self._poisson.solve(self._divergence, self._phi)
        return self._phi

    # ---- the time step

    def _speeds(self, time: float) -> list[Any]:
        """The largest |u| / d of each component, pending."""
        return [self._speed(u, axis=axis, time=time) for axis, u in enumerate(self._velocity)]

    def _begin_measurement(self, star: list[da.DistArray], phi: da.DistArray, dt: float) -> None:
        pairs = [
            self._change(new, phi, old, axis=axis, dt=dt)
            for axis, (new, old) in enumerate(zip(star, self._velocity, strict=True))
        ]
        changes, speeds = zip(*pairs, strict=True)
        self._measure(dt, changes, [*speeds, *self._part_rates()])

    def _part_rates(self) -> list[Any]:
        return [value for part in self.parts for value in part.rates()]

    def _limiting(self) -> list[float]:
        """What `_limit` takes, now."""
        return [float(value) for value in [*self._speeds(self.time), *self._part_rates()]]

    def _next(self, until: float | None) -> tuple[float, float]:
        # A flow that is set in motion at once changes before the first measurement counts.
        if self._time_step is None or self.step_count < 2 * self.config.measure_every:
            self._time_step = self._limit(self._limiting())
        return super()._next(until)

    def _limit(self, speeds: Sequence[float]) -> float:
        """The time step for the largest |u| / d of each axis and what the parts measured, and for
        what the sides will do as long as it holds: until the measurement after the next is read.
        """
        dt, steps = self._stable(speeds), 2 * self.config.measure_every
        for _ in range(8):  # a shorter step holds for a shorter time
            longer, dt = dt, min(dt, self._stable(speeds, ahead=steps * dt))
            if dt > 0.5 * longer:
                break
        return dt

    def _stable(self, speeds: Sequence[float], ahead: float = 0.0) -> float:
        """The time step for these values, and for the sides from now until `ahead` from now."""
        rates, values = speeds[: self.config.ndim], list(speeds[self.config.ndim :])
        viscosity, diffusivity = self._scheme.viscosity, 0.0
        known = [self._sides.largest(axis, self.time, ahead) for axis in range(self.config.ndim)]
        frequency = 0.0
        for part in self.parts:
            limit = part.limit(values[: part.measured])
            del values[: part.measured]
            viscosity += limit.viscosity
            diffusivity = max(diffusivity, limit.diffusivity)
            frequency += limit.frequency
            known = list(map(max, known, limit.speeds or known))
        convection = sum(
            max(rate, speed * r)
            for rate, speed, r in zip(rates, known, self._metrics.largest, strict=True)
        )
        imaginary, real = EXTENT[self.config.advection]
        frequency += imaginary * convection
        diffusion = max(viscosity, diffusivity) * sum(self._metrics.stiffness) + real * convection
        rate = math.hypot(
            diffusion / self._scheme.real_limit, frequency / self._scheme.imaginary_limit
        )
        if rate == 0.0:
            raise da.SolverError(
                "A fluid at rest without viscosity has no time step; give step(dt) one."
            )
        return self.config.safety / rate

    # ---- files

    def _attributes(self) -> dict[str, Any]:
        attrs = {**super()._attributes(), **self._scheme.rest()}
        for part in self.parts:
            attrs.update(part.rest())
        return attrs

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        super()._restore_attributes(attrs)
        self._renew_sides(self.time)
        self._scheme.restore(attrs)
        for part in self.parts:
            part.restore(attrs)

    # ---- what a flow is made of

    def _bind(self, metrics: Metrics) -> None:
        self._diverge = metrics.bind(kernels.divergence)
        self._correct = metrics.bind(kernels.correct)
        self._change, self._speed = metrics.bind(kernels.change), metrics.bind(kernels.speed)

    def _component(self, axis: int) -> da.DistArray:
        options: dict[str, Any] = {
            "location": AXES[axis],
            "boundary": self._sides.conditions(axis),
            "name": COMPONENTS[axis],
        }
        value = (self.config.initial or (0.0,) * self.config.ndim)[axis]
        if callable(value):
            return self.grid.from_function(value, **options)
        return self.grid.full(value, **options)

    def _make_scheme(self) -> Scheme:
        kind = RungeKutta if self.config.scheme == "ssp-rk3" else AdamsBashforth
        return kind(self.config, self.grid, self._metrics, self._velocity, self._pressure)

    def _own_parts(self) -> list[Part]:
        config, found = self.config, list[Part]()
        if config.force is not None:
            found.append(BodyForce(config.force, self.grid))
        if config.flow_rate:
            found.append(FlowRate(config, self._metrics))
        if config.outflow:
            self._outflow = Outflow(config, self.grid, self._metrics, self._sides)
            found.append(self._outflow)
        if config.les is not None:
            found.append(EddyViscosity(config.les, config, self.grid))
        if config.scalar is not None:
            found.append(ScalarTransport(config.scalar, config, self.grid))
        if config.obstacles:
            found.append(ImmersedBoundary(config.obstacles, config, self.grid))
        return found


def _grid(config: IncompressibleConfig, comm: Any, device: str) -> da.Grid:
    """The grid of a flow, by default cut across the first axis alone: the transforms of the other
    axes then need no message.
    """
    reach = REACH[config.advection]

    def on(*ranks: int) -> da.Grid:
        return da.Grid(
            config.cells,
            bounds=config.bounds,
            periodic=config.periodic_axes,
            halo=reach,
            ranks=ranks,
            comm=comm,
            device=device,
            coordinates=config.coordinates,
        )

    if config.ranks is not None:
        return on(*config.ranks)
    others = config.ndim - 1
    with contextlib.suppress(da.DecompositionError):  # fewer cells than ranks
        slabs = on(0, *(1,) * others)
        if config.cells[0] >= 2 * slabs.size:
            return slabs
    return on(*(0,) * others, 1)
