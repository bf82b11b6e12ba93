"""Statistics of flows: running means and rms, energy spectra, enstrophy and dissipation.

All sums are reproducible: they have the same bits on any number of ranks. Sides whose velocity is a
function of the time have that of the end of the last step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.box import shown
from solvers.incompressible import kernels
from solvers.incompressible.advection import at
from solvers.incompressible.metrics import (
    COMPONENTS,
    Floats,
    Metrics,
    Symbol,
    Symbols,
    Widths,
    per_axis,
)
from solvers.incompressible.parts import Part, Velocity


class Statistics(Part):
    """Means over time of the velocity, the pressure and the products of two components. Collective.

    A step of length dt counts with the weight dt. The sums are fields of the flow, so that a
    restart goes on with the same bits.

    Parameters
    ----------
    grid : Grid
    average : sequence of int
        Homogeneous axes, over which results are averaged too.
    start : float
        Time from which steps count.

    Attributes
    ----------
    time : float
        Sum of the weights. Collective to read.
    """

    def __init__(self, grid: da.Grid, *, average: Sequence[int] = (), start: float = 0.0) -> None:
        self._grid, self._start = grid, start
        self._average = tuple(average)
        ndim = grid.ndim
        self._first = [grid.zeros() for _ in range(ndim)]
        self._pairs = [(i, j) for i in range(ndim) for j in range(i, ndim)]
        self._second = [grid.zeros() for _ in self._pairs]
        self._pressure, self._weight = grid.zeros(), grid.zeros()
        names = [COMPONENTS[i] for i in range(ndim)]
        self.fields = {
            **{f"sum_{names[i]}": s for i, s in enumerate(self._first)},
            **{
                f"sum_{names[i]}{names[j]}": s
                for (i, j), s in zip(self._pairs, self._second, strict=True)
            },
            "sum_p": self._pressure,
            "sum_time": self._weight,
        }

    def finish(self, velocity: Velocity, pressure: da.DistArray, *, time: float, dt: float) -> None:
        if time <= self._start:
            return
        weight = min(dt, time - self._start)
        for axis, total in enumerate(self._first):
            add_mean(velocity[axis], total, axis=axis, weight=weight)
        for (i, j), total in zip(self._pairs, self._second, strict=True):
            add_product(velocity[i], velocity[j], total, i=i, j=j, weight=weight)
        add_value(pressure, self._pressure, self._weight, weight=weight)

    @property
    def time(self) -> float:
        return float(self._weight.max())

    def mean(self, component: int) -> Floats:
        """Mean velocity in the cells, over time and the homogeneous axes, on every rank.
        Collective.
        """
        return self._profile(self._first[component])

    def mean_pressure(self) -> Floats:
        """Mean pressure, as `mean`. Collective."""
        return self._profile(self._pressure)

    def stress(self, i: int, j: int) -> Floats:
        """Mean of the product of the fluctuations of two components, as `mean`. Collective."""
        i, j = sorted((i, j))
        product = self._profile(self._second[self._pairs.index((i, j))])
        return product - self.mean(i) * self.mean(j)

    def rms(self, component: int) -> Floats:
        """Root mean square of the fluctuations of a component, as `mean`. Collective."""
        return np.sqrt(np.maximum(self.stress(component, component), 0.0))

    def _profile(self, total: da.DistArray) -> Floats:
        found = total / max(self.time, 1e-300)
        if not self._average:
            return np.asarray(found.gather())
        count = math.prod(self._grid.shape[axis] for axis in self._average)
        # Gathered first: sums over axes that are cut would depend on the cuts.
        return np.asarray(np.asarray(found.gather()).sum(axis=self._average) / count)


def spectrum(velocity: Velocity) -> tuple[Floats, Floats]:
    """Kinetic energy per volume in shells of wave numbers of a periodic box. Collective.

    Parameters
    ----------
    velocity : list of DistArray
        On a uniform grid, periodic along all axes, with equal lengths L.

    Returns
    -------
    k, energy : float64 arrays
        Wave numbers 2 pi n / L, n = 0, 1, ..., and the energy of all modes whose wave number rounds
        to n; their sum is the kinetic energy per volume to round-off (Parseval).

    Raises
    ------
    SolverError
        The box is not periodic, or its lengths differ.
    """
    grid = _grid(velocity)
    lengths = [high - low for low, high in grid.bounds]
    if not all(grid.periodic) or None in grid.spacing:
        raise da.SolverError(
            f"A spectrum needs a uniform box that is periodic along all axes, received "
            f"periodic={grid.periodic}; take one-dimensional transforms of homogeneous axes."
        )
    if max(lengths) - min(lengths) > 1e-12 * max(lengths):
        raise da.SolverError(
            f"Shells of wave numbers need a box with equal sides, received {lengths}; choose one."
        )
    shells = round(math.sqrt(sum((n // 2) ** 2 for n in grid.shape))) + 1
    ranks = (min(grid.size, grid.shape[0]), *(1,) * (grid.ndim - 1))
    energy = np.zeros(shells)
    for u in velocity:
        modes = da.fft.rfftn(u, ranks=ranks, norm="forward")
        energy += _shell_sums(modes, grid, shells)
    return np.asarray(2.0 * np.pi / lengths[0] * np.arange(shells)), energy


def enstrophy(velocity: Velocity) -> float:
    """Mean of |curl u|^2 / 2 over the box: of the vorticity on the edges of the cells, where it
    reads one difference along each of two axes. Collective; the same bits on any ranks.
    """
    metrics = Metrics(_grid(velocity))
    kernel = metrics.bind(vorticity_squared)
    total = math.fsum(
        float(kernel(*velocity, i=i, j=j)) for i in range(metrics.ndim) for j in range(i)
    )
    return 0.5 * total / metrics.box


def dissipation(velocity: Velocity, viscosity: float) -> float:
    """Mean of `2 nu S_ij S_ij` over the box, which in a box that is periodic or has walls at rest
    is `2 nu enstrophy`. Collective; the same bits on any ranks.
    """
    return 2.0 * viscosity * enstrophy(velocity)


class EnergyHistory(Part):
    """Kinetic energy, enstrophy and both measures of dissipation, every so many steps. Collective.

    Attributes
    ----------
    rows : list of (time, energy, enstrophy)
        Since the run began or went on.

    Notes
    -----
    `-dE/dt` holds what the scheme dissipates besides viscosity, `2 nu enstrophy` does not.
    """

    def __init__(self, every: int = 1) -> None:
        self._every, self._steps = every, 0
        self.rows: list[tuple[float, float, float]] = []

    def finish(self, velocity: Velocity, pressure: da.DistArray, *, time: float, dt: float) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            self.note(velocity, time)

    def note(self, velocity: Velocity, time: float) -> None:
        """Add a row. Collective."""
        self.rows.append((time, kinetic_energy(velocity), enstrophy(velocity)))

    def decay(self) -> tuple[Floats, Floats]:
        """Times in the middle of two rows, and -dE/dt there. Local."""
        time, energy, _ = np.array(self.rows).T
        return 0.5 * (time[1:] + time[:-1]), -np.diff(energy) / np.diff(time)


def kinetic_energy(
    velocity: Velocity, *, time: float | None = None, metrics: Metrics | None = None
) -> float:
    """Mean of |u|^2 / 2 over the box. Collective; the same bits on any ranks.

    Parameters
    ----------
    velocity : list of DistArray
    time : float, optional
        Of functions that give velocities of sides.
    metrics : Metrics, optional
        Of the grid, where there are some.
    """
    metrics = metrics or Metrics(_grid(velocity))
    kernel = metrics.bind(kernels.energy)
    total = math.fsum(float(kernel(u, axis=axis, time=time)) for axis, u in enumerate(velocity))
    return 0.5 * total / metrics.box


def _grid(velocity: Velocity) -> da.Grid:
    grid = velocity[0].grid
    if grid is None:
        raise da.SolverError(
            f"A velocity lies on a grid, received {shown(velocity[0])} of none; give fields of a "
            "flow."
        )
    return grid


@per_axis("velocity", static=("i", "j"))
def vorticity_squared(velocity: Symbols, widths: Widths, *, i: int, j: int) -> Any:
    """The integral of the square of one component of the vorticity, each cell taking the mean of
    the four edges around it.
    """
    ndim = len(velocity)
    total: Any = 0.0
    for n in (0, 1):
        for m in (0, 1):
            across = at(velocity[i], ndim, (i, m), (j, n)) - at(
                velocity[i], ndim, (i, m), (j, n - 1)
            )
            along = at(velocity[j], ndim, (j, n), (i, m)) - at(
                velocity[j], ndim, (j, n), (i, m - 1)
            )
            curl = along * widths.point(i, m) - across * widths.point(j, n)
            total = total + 0.25 * curl * curl
    return da.reduce.sum(widths.volume() * total, reproducible=True)


@da.stencil(static=("axis",))
def add_mean(u: Symbol, total: Symbol, *, axis: int, weight: Symbol) -> None:
    """Add the weighted mean of both faces of a cell."""
    total[...] = total[...] + weight * (0.5 * (u[...] + u.shift(axis, 1)))


@da.stencil(static=("i", "j"))
def add_product(u: Symbol, v: Symbol, total: Symbol, *, i: int, j: int, weight: Symbol) -> None:
    """Add the weighted product of two components in a cell."""
    one, two = 0.5 * (u[...] + u.shift(i, 1)), 0.5 * (v[...] + v.shift(j, 1))
    total[...] = total[...] + weight * (one * two)


@da.stencil
def add_value(p: Symbol, total: Symbol, time: Symbol, *, weight: Symbol) -> None:
    """Add the weighted value of a cell, and the weight."""
    total[...] = total[...] + weight * p[...]
    time[...] = time[...] + weight


def _shell_sums(modes: da.DistArray, grid: da.Grid, shells: int) -> Floats:
    """Half the sum of |modes|^2 in each shell, from the half spectrum of real values.

    Each plane of the first axis is summed by the rank that holds it, the planes in their order.
    """
    first, *others = (
        np.fft.fftfreq(n, 1.0 / n) if axis + 1 < grid.ndim else np.arange(n // 2 + 1.0)
        for axis, n in enumerate(grid.shape)
    )
    inner = sum((k**2).reshape((-1, *(1,) * (len(others) - 1 - a))) for a, k in enumerate(others))
    last = grid.shape[-1]
    twice = np.where((others[-1] == 0.0) | (2 * others[-1] == last), 0.5, 1.0)
    planes = np.zeros((grid.shape[0], shells))
    start = modes.local_slices[0].start
    for row, plane in enumerate(np.asarray(modes.local), start):
        radius = np.rint(np.sqrt(first[row] ** 2 + inner)).astype(np.int64)
        density = np.square(plane.real) + np.square(plane.imag)
        weights = np.broadcast_to(density * twice, radius.shape)
        planes[row] = np.bincount(radius.ravel(), weights.ravel(), minlength=shells)
    # Exact: of every plane all ranks but one have zeros.
    return np.asarray(grid.communicator.allreduce(planes, "sum").sum(axis=0))
