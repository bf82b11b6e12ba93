"""A scalar that the flow carries, and the buoyancy that it causes (Boussinesq).

    dT/dt + div(u T) = kappa lap T + source,        du/dt = ... + (T - reference) buoyancy

T lies in the cells. It is advanced by the stages of the flow's Runge-Kutta scheme, all with one
velocity, that in the middle of the step, extrapolated from the last two: being free of divergence
it conserves T and keeps a uniform T uniform, both to round-off. With the scheme "ab2-cn", which has
one stage, T takes its four stages within it, and the velocity gets the mean of T before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distarray as da
from solvers.box import is_number, shown
from solvers.incompressible.advection import carried
from solvers.incompressible.checks import require_value
from solvers.incompressible.metrics import (
    AXES,
    COMPONENTS,
    Metrics,
    Symbol,
    Symbols,
    Widths,
    per_axis,
    side_names,
)
from solvers.incompressible.parts import STAGES, Limit, Part, Stage, Velocity

#: A number, or a function of the coordinates (x, y[, z]).
Field = float | Callable[..., Any]


@dataclass(frozen=True)
class Scalar:
    """A scalar such as temperature.

    Parameters
    ----------
    diffusivity : float
        In length^2 / time.
    initial : number or function f(x, y[, z])
        Values at the start.
    boundary : mapping of side to condition
        "x-", "x+", ...: `da.Dirichlet(value)` or `da.Neumann(outward normal derivative)`, with
        numbers or functions as arrays take them. Nothing passes sides that are not named, but with
        the flow.
    buoyancy : tuple of float, optional
        Acceleration of the fluid per unit of the scalar, one entry per axis.
    reference : float
        The scalar of fluid without buoyancy.
    source : number or function f(x, y[, z])
        Change per time.
    name : str
        Of the field in files.

    Raises
    ------
    SolverError
        The diffusivity is negative, or an entry is of another kind than is said here.
    """

    diffusivity: float
    initial: Field = 0.0
    boundary: Mapping[str, Any] = field(default_factory=dict)
    buoyancy: tuple[float, ...] | None = None
    reference: float = 0.0
    source: Field = 0.0
    name: str = "T"

    def __post_init__(self) -> None:
        if not (is_number(self.diffusivity) and self.diffusivity >= 0.0):
            raise da.SolverError(
                f"A diffusivity is not negative, received {shown(self.diffusivity)}; give 0 or "
                "more."
            )
        for name in ("initial", "source"):
            require_value("A scalar", name, getattr(self, name))
        if not isinstance(self.boundary, Mapping):
            raise da.SolverError(
                f"The boundary of a scalar names sides and their conditions, received "
                f"{shown(self.boundary)}; give a dict."
            )
        buoyancy = () if self.buoyancy is None else self.buoyancy
        if not isinstance(buoyancy, tuple) or not all(map(is_number, buoyancy)):
            raise da.SolverError(
                f"Buoyancy is a tuple of numbers, one per axis, received {shown(self.buoyancy)}; "
                "give such a tuple."
            )
        if not is_number(self.reference):
            raise da.SolverError(
                f"The reference of a scalar is a number, received {shown(self.reference)}; give "
                "one."
            )
        if not isinstance(self.name, str) or not self.name.strip() or "/" in self.name:
            raise da.SolverError(
                f"A scalar has a name, under which files hold it, a text without '/', received "
                f"name={shown(self.name)}; 'T' is usual."
            )


class ScalarTransport(Part):
    """The scalar of one flow. Collective.

    Parameters
    ----------
    scalar : Scalar
    config : with `advection`
    grid : Grid

    Attributes
    ----------
    values : DistArray, float64, in the cells

    Raises
    ------
    SolverError
        A side that the box does not have, or buoyancy with another number of entries than axes.
    """

    measured = 1

    def __init__(self, scalar: Scalar, config: Any, grid: da.Grid) -> None:
        self._scalar, self._grid = scalar, grid
        self._constants = {"advection": config.advection, "kappa": scalar.diffusivity}
        _check(scalar, grid)
        boundary = {
            side: scalar.boundary.get(side, da.Neumann(0.0)) for side in side_names(grid.periodic)
        }
        self.values = _made(grid, scalar.initial, boundary=boundary, name=scalar.name)
        self._source = _made(grid, scalar.source)
        self._stages = [self.values.copy(), self.values.copy()]
        self._now, self._new = self.values, self._stages[0]
        axes = range(grid.ndim)
        # Before a step the velocity in its middle; `_rate` is its change per time.
        self._carrier = [grid.zeros(location=AXES[axis]) for axis in axes]
        self._rate = [grid.zeros(location=AXES[axis]) for axis in axes]
        names = [f"{COMPONENTS[axis]}_rate" for axis in axes]
        self.fields = {scalar.name: self.values, **dict(zip(names, self._rate, strict=True))}
        metrics = Metrics(grid)
        self._box, self._time = metrics.box, 0.0
        self._transport = metrics.bind(transport)
        self._lift, self._flux = metrics.bind(lift), metrics.bind(flux)
        self._steepest, self._integral = metrics.bind(steepest), metrics.bind(integral)

    # The part's protocol.

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        for u, rate, carrier in zip(velocity, self._rate, self._carrier, strict=True):
            look_ahead(u, rate, carrier, half=0.5 * dt)

    def stage(self, velocity: Velocity, stage: Stage) -> None:
        if stage.last and stage.number == 0:
            for number, (keep, start, _) in enumerate(STAGES):
                time = stage.time + start * stage.step
                self._advance(number, keep=keep, dt=0.5 * stage.dt, time=time)
        else:
            self._advance(stage.number, keep=stage.keep, dt=stage.dt, time=stage.time)

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        whole = stage.last and stage.number == 0
        other = self._new if whole else self._now
        for axis, strength in enumerate(self._scalar.buoyancy or ()):
            if strength != 0.0:
                self._lift(
                    new[axis], self._now, other,
                    axis=axis, scale=scale * strength, reference=self._scalar.reference,
                    time=stage.given,
                )  # fmt: skip

    def stage_end(self, stage: Stage) -> None:
        self._now = self._new
        if stage.last:
            self.values[...] = self._new
            self._now, self._time = self.values, stage.end

    def finish(self, velocity: Velocity, pressure: da.DistArray, *, time: float, dt: float) -> None:
        for u, carrier, rate in zip(velocity, self._carrier, self._rate, strict=True):
            look_back(u, carrier, rate, dt=dt)

    def rest(self) -> dict[str, Any]:
        return {f"{self._scalar.name}_time": self._time}

    def restore(self, attrs: Mapping[str, Any]) -> None:
        self._time = float(attrs[f"{self._scalar.name}_time"])

    def rates(self) -> list[Any]:
        return [self._steepest(self.values, time=self._time)]

    def limit(self, values: Sequence[float]) -> Limit:
        # Buoyancy frequency of the steepest stratification.
        strength = max((abs(b) for b in self._scalar.buoyancy or ()), default=0.0)
        frequency = math.sqrt(strength * values[0])
        return Limit(diffusivity=self._scalar.diffusivity, frequency=frequency)

    def scalars(self) -> dict[str, float]:
        return {f"{self._scalar.name}_mean": self.mean()}

    # What a user asks for.

    def mean(self) -> float:
        """Mean over the box. Collective; the same bits on any ranks."""
        return float(self._integral(self.values)) / self._box

    def mean_flux(self, velocity: Velocity, axis: int) -> float:
        """Mean over the box of `u T - kappa dT/dx` along an axis: in a steady state between two
        walls what passes each plane per area. Collective; the same bits on any ranks.

        The mean Nusselt number of a cavity is this over `kappa (T_hot - T_cold) / width`.
        """
        total = self._flux(
            velocity[axis], self.values,
            axis=axis, kappa=self._scalar.diffusivity, time=self._time,
        )  # fmt: skip
        return float(total) / self._box

    def wall_gradient(self, side: str) -> Any:
        """Outward normal derivative at a side with a fixed value (a number), of second order, from
        the parabola through the wall and two cells. Collective.

        Parameters
        ----------
        side : "x-", "x+", ...

        Returns
        -------
        float64 array of the host, on every rank: over the cells along the side.

        Raises
        ------
        SolverError
            The side has no such value.
        """
        condition = self._scalar.boundary.get(side)
        if not isinstance(condition, da.Dirichlet) or not is_number(condition.value):
            raise da.SolverError(
                f"A gradient is taken at a side with a number for its value, received {side!r} "
                f"with {shown(condition)}; name such a side."
            )
        axis, high, wall = AXES.index(side[0]), side[1] == "+", float(condition.value)
        cells, bound = self._grid.shape[axis], self._grid.bounds[axis][high]
        index = (cells - 1, cells - 2) if high else (0, 1)
        layers = [np.asarray(self.values[(*(slice(None),) * axis, i)].gather()) for i in index]
        near, far = (abs(_centre(self._grid, axis, i) - bound) for i in index)
        # The derivative at 0 of the parabola through (0, wall), (near, ...) and (far, ...).
        one, two = far / (near * (far - near)), near / (far * (far - near))
        return -(one * (layers[0] - wall) - two * (layers[1] - wall))

    def _advance(self, number: int, *, keep: float, dt: float, time: float) -> None:
        """One stage, into `self._new`."""
        now = self._new if number else self._now
        self._new = self._stages[number % 2]
        self._transport(
            *self._carrier, now, self.values, self._source, self._new,
            keep=keep, dt=dt, time=time, **self._constants,
        )  # fmt: skip


@per_axis("carrier", static=("advection",))
def transport(  # noqa: PLR0917
    carrier: Symbols, now: Symbol, old: Symbol, source: Symbol, new: Symbol, widths: Widths,
    *, advection: str, kappa: Symbol, dt: Symbol, keep: Symbol,
) -> None:  # fmt: skip
    """A stage `new = keep old + (1 - keep) (now + dt (-div(u T) + kappa lap T + source))`."""
    rate = source[...]
    for j, u in enumerate(carrier):
        low, high = (carried(now, u.shift(j, n), (j, n), advection) for n in (0, 1))
        rate = rate - widths.cell(j) * (high - low)
        rate = rate + widths.second(now, j, on_points=False, scale=kappa)
    new[...] = keep * old[...] + (1.0 - keep) * (now[...] + dt * rate)


@da.stencil
def look_ahead(u: Symbol, rate: Symbol, carrier: Symbol, *, half: Symbol) -> None:
    """`carrier = u + half rate`."""
    carrier[...] = u[...] + half * rate[...]


@da.stencil
def look_back(u: Symbol, carrier: Symbol, rate: Symbol, *, dt: Symbol) -> None:
    """The change of u per time since `look_ahead`, into `rate`."""
    rate[...] = (u[...] - carrier[...]) / dt + 0.5 * rate[...]


@per_axis(static=("axis",))
def lift(
    u: Symbol, one: Symbol, two: Symbol, widths: Widths,
    *, axis: int, scale: Symbol, reference: Symbol,
) -> None:  # fmt: skip
    """`u += scale (T - reference)`, T the mean of two scalars, on the faces normal to an axis."""
    low, high = (0.5 * (one.shift(axis, n) + two.shift(axis, n)) for n in (-1, 0))
    u[...] = u[...] + scale * (widths.between(axis, low, high) - reference)


@per_axis(static=("axis",))
def flux(u: Symbol, t: Symbol, widths: Widths, *, axis: int, kappa: Symbol) -> Any:
    """The integral of `u T - kappa dT/dx`, from both faces of every cell."""
    total: Any = 0.0
    for n in (0, 1):
        low, high = t.shift(axis, n - 1), t.shift(axis, n)
        slope = widths.point(axis, n) * (high - low)
        total = total + 0.5 * (u.shift(axis, n) * 0.5 * (low + high) - kappa * slope)
    return da.reduce.sum(widths.volume() * total, reproducible=True)


@per_axis()
def steepest(t: Symbol, widths: Widths) -> Any:
    """Largest difference quotient along any axis."""
    slope: Any = 0.0
    for j in range(t.ndim):
        slope = np.maximum(slope, abs(t[...] - t.shift(j, -1)) * widths.point(j))
    return da.reduce.max(slope)


@per_axis()
def integral(t: Symbol, widths: Widths) -> Any:
    """The integral over the box."""
    return da.reduce.sum(widths.volume() * t[...], reproducible=True)


def _made(grid: da.Grid, value: Field, **options: Any) -> da.DistArray:
    if callable(value):
        return grid.from_function(value, **options)
    return grid.full(float(value), **options)


def _centre(grid: da.Grid, axis: int, index: int) -> float:
    along = grid.geometry[axis]
    return float(along.centre_positions(np.array([index]))[0])


def _check(scalar: Scalar, grid: da.Grid) -> None:
    sides = side_names(grid.periodic)
    for side in scalar.boundary:
        if side not in sides:
            raise da.SolverError(
                f"This box has the sides {', '.join(sides) or 'none'}, received '{side}' in the "
                "boundary of a scalar; name one of these."
            )
    if scalar.buoyancy is not None and len(scalar.buoyancy) != grid.ndim:
        raise da.SolverError(
            f"Buoyancy has one entry per axis, received {len(scalar.buoyancy)} for {grid.ndim} "
            f"axes; give {grid.ndim}."
        )
