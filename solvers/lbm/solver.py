"""The lattice Boltzmann method: populations that move from cell to cell and collide there.

One step is one pass over the populations (`kernels`), from one array to another; then the two
change places. Only the values that cross the edges of a block are sent: of each face those of the
populations that leave through it, of each edge and corner the one that leaves there. The scheme is
second order in space, and in time with diffusive scaling (see `config`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.base import Solver
from solvers.box import AXES, is_number, shown
from solvers.lbm import kernels
from solvers.lbm.collision import SOUND, collision
from solvers.lbm.config import LatticeConfig
from solvers.lbm.sides import conditions, lattice_force
from solvers.lbm.surfaces import surfaces

#: Mach number above which a flow that runs is no longer trusted.
_FASTEST = 0.5


class LatticeSolver(Solver):
    """A flow described by a `LatticeConfig`. Collective.

    All steps have the same length: a run ends, and a visit is made, after the first one that is not
    before its time. A step that would end less than a millionth of one before it lands on it.

    Attributes
    ----------
    config : LatticeConfig
    fields : dict
        "populations", components (number of velocities,): those after the collision of the last
        step, less those of the fluid at rest. A step writes another array: look it up anew.

    Examples
    --------
    >>> from solvers.lbm import LatticeConfig, LatticeSolver
    >>> flow = LatticeSolver(LatticeConfig(cells=(16, 16), viscosity=0.1, walls={"y+": (1.0, 0.0)}))
    >>> flow.run(until=0.1)
    >>> flow.velocity().shape
    (2, 16, 16)
    """

    config: LatticeConfig

    def __init__(self, config: LatticeConfig, *, comm: Any = None, device: str = "auto") -> None:
        super().__init__(measure_every=config.measure_every)
        self.config = config
        self._dt, self._rates = config.time_step, config.rates
        self.grid = da.Grid(
            config.cells,
            bounds=list(config.box),
            periodic=config.periodic_axes,
            ranks=config.ranks,
            comm=comm,
            device=device,
        )
        self._surfaces = surfaces(config, self.grid)
        self._links = () if self._surfaces is None else (self._surfaces.links,)
        self._force = lattice_force(config)
        self._bind()
        self._target = self.grid.zeros(
            config.dtype,
            components=(config.velocities.size,),
            boundary=conditions(config, self.grid),
            name="populations",
        )
        self.fields = {"populations": self.grid.zeros_like(self._target)}
        self._on: dict[str, list[Any]] = {name: [0.0] * config.ndim for name in config.forces}
        self._start()

    def stable_dt(self) -> float:
        """The time step, which the configuration fixes: stable as tau is above 1/2. Local."""
        return self.config.time_step

    def step(self, dt: float | None = None) -> None:
        """Advance by one time step. Collective.

        Raises
        ------
        SolverError
            Another time step than that of the configuration.
        """
        fixed = self._dt
        if dt is not None and not (is_number(dt) and abs(dt - fixed) <= 1e-9 * fixed):
            raise da.SolverError(
                f"The time step of a lattice is fixed at {fixed:.9g} by mach and speed, received "
                f"dt={shown(dt)}; give that, or another mach."
            )
        f, new, rates = self.fields["populations"], self._target, self._rates
        if self._due():
            change, square, *sums = self._measuring(f, new, *self._links, time=self.time, **rates)
            self._measure(fixed, [change], [square])
            ndim = self.config.ndim
            for k, name in enumerate(self._on):
                self._on[name] = sums[k * ndim : (k + 1) * ndim]
        else:
            self._moving(f, new, *self._links, time=self.time, **rates)
        self.fields["populations"], self._target = new, f
        self.step_count += 1
        self.time = self.step_count * fixed

    def velocity(self) -> da.DistArray:
        """The velocity in the cells, components (axes,), with half of the force of a step.
        Collective.
        """
        return self._derived()[1]

    def pressure(self) -> da.DistArray:
        """The pressure in the cells, per density, relative to that of the fluid at rest.
        Collective.
        """
        return self._derived()[0]

    def forces(self) -> dict[str, tuple[float, ...]]:
        """The force on each of `config.forces` in the last step that was measured, per density (and
        per length in two dimensions), for each axis; 0 before there was one. Collective; the same
        bits on any ranks.

        What populations leave when they return from the surface (momentum exchange; Ladd 1994,
        Mei, R., Yu, D., Shyy, W., Luo, L.-S. (2002) Phys. Rev. E 65(4), 041203), less the pressure
        of the fluid at rest. Each `measure_every`-th step is measured.
        """
        unit = self.config.width ** (self.config.ndim + 1) / self.config.time_step**2
        return {name: tuple(unit * float(f) for f in found) for name, found in self._on.items()}

    def scalars(self) -> dict[str, float]:
        """Mass (density 1 at rest), momentum, kinetic energy per volume, and the forces."""
        config = self.config
        excess, *momentum, energy = (
            float(v) for v in self._summing(self.fields["populations"], *self._links)
        )
        cell, speed = config.width**config.ndim, config.unit_speed
        found = {"mass": cell * (excess + self._fluid_cells)}
        for axis, value in zip(AXES, momentum, strict=False):
            found[f"momentum_{axis}"] = cell * speed * value
        found["energy"] = speed**2 * energy / self._fluid_cells
        for name, force in self.forces().items():
            found |= {f"force_{name}_{axis}": f for axis, f in zip(AXES, force, strict=False)}
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the populations and what a restart needs, and the velocity and the pressure for
        those who look at the file. Collective.
        """
        pressure, velocity = self._derived()
        arrays = {**self.fields, "velocity": velocity, "pressure": pressure}
        attrs = self._attributes()
        da.save(path, arrays, step=self.step_count, time=self.time, attrs=attrs)

    # ---- parts

    def _bind(self) -> None:
        """The kernels of this flow."""
        lattice, how = self.config.velocities, collision(self.config.collision)
        found, force = self._surfaces, self._force
        walls = None if found is None else found.velocities
        numbers = () if found is None else tuple(found.numbers.values())
        self._moving = kernels.stream_collide(lattice, how, force=force, walls=walls)
        self._measuring = kernels.stream_collide(
            lattice, how, force=force, walls=walls, measure=numbers
        )
        walled = found is not None
        self._starting = kernels.start(lattice, how, force, walled)
        self._finding = kernels.macroscopic(lattice, force, walled)
        self._summing = kernels.totals(lattice, force, walled)
        solid = None if found is None else found.solid
        self._fluid_cells = math.prod(self.config.cells)
        if solid is not None:
            self._fluid_cells -= int(da.where(solid > 0, 1, 0).sum())

    def _start(self) -> None:
        """Populations of the velocity and the pressure at the start."""
        config = self.config
        excess = self._field(config.pressure, 1.0 / (SOUND * config.unit_speed**2))
        around = {side: da.Outflow() for side in config.side_names}
        velocity = self.grid.zeros(config.dtype, components=(config.ndim,), boundary=around)
        for axis, value in enumerate(config.initial or ()):
            velocity[axis][...] = self._field(value, 1.0 / config.unit_speed)
        populations = self.fields["populations"]
        self._starting(excess, velocity, *self._links, populations, tau=config.tau)

    def _field(self, value: Any, factor: float) -> da.DistArray:
        if not callable(value):
            return self.grid.full(factor * float(value), dtype=self.config.dtype)
        return self.grid.from_function(
            lambda *coords: factor * np.asarray(value(*coords)), dtype=self.config.dtype
        )

    def _derived(self) -> tuple[da.DistArray, da.DistArray]:
        """Pressure and velocity."""
        config = self.config
        pressure = self.grid.zeros(config.dtype, name="pressure")
        velocity = self.grid.zeros(config.dtype, components=(config.ndim,), name="velocity")
        self._finding(self.fields["populations"], *self._links, pressure, velocity)
        pressure *= SOUND * config.unit_speed**2
        velocity *= config.unit_speed
        return pressure, velocity

    # ---- what the base asks for

    def _limit(self, speeds: Sequence[float]) -> float:
        return self.config.time_step

    def _read(self, dt: float, changes: Sequence[float], speeds: Sequence[float]) -> None:
        super()._read(dt, [self.config.unit_speed * c for c in changes], speeds)
        mach = math.sqrt(3.0 * speeds[0])
        if mach > _FASTEST:
            raise da.SolverError(
                f"The flow is to stay below Mach number {_FASTEST}, it has {mach:.3g} at step "
                f"{self.step_count}; give a larger 'speed' or a smaller 'mach'."
            )

    def _next(self, until: float | None) -> tuple[float, float]:
        """The fixed time step and the time after it, which is `until` where that is as near as
        rounding explains.
        """
        if until is not None and until + self._dt == until:
            raise da.SolverError(
                f"A run ends in fewer than 10^15 steps, received dt={self._dt:.6g} and "
                f"until={until:.6g}; give an earlier end."
            )
        time = (self.step_count + 1) * self._dt
        if until is not None and 0.0 < until - time < 1e-6 * self._dt:
            return self._dt, until
        return self._dt, time

    def _attributes(self) -> dict[str, Any]:
        attrs = super()._attributes()
        forces = [float(value) for values in self._on.values() for value in values]
        return attrs | ({"forces_measured": forces} if forces else {})

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        super()._restore_attributes(attrs)
        values = [float(value) for value in attrs.get("forces_measured", ())]
        ndim = self.config.ndim
        for k, name in enumerate(self._on):
            self._on[name] = values[k * ndim : (k + 1) * ndim]
