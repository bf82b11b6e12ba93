"""Sides that let the flow out.

The normal component on such a side is convected, du/dt + c du/dn = 0 (Orlanski, I. (1976) J.
Comput. Phys. 21(3), 251-269), with the mean velocity c of what leaves, by the formula of each stage
and one-sided differences; after the last stage it is corrected evenly, so that as much leaves as
enters. The pressure equation then has a solution with zero normal derivative on all sides.
"""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.metrics import Metrics, Symbol, Widths, per_axis
from solvers.incompressible.parts import Part, Stage, Velocity
from solvers.incompressible.sides import Sides, place


@per_axis(static=("axis", "high"))
def convect(
    now: Symbol, old: Symbol, new: Symbol, widths: Widths,
    *, axis: int, high: bool, at: Symbol, speed: Symbol, dt: Symbol, keep: Symbol,
) -> None:  # fmt: skip
    """A stage `new = keep old + (1 - keep) (now - dt speed du/dn)` on the points `at`."""
    inner, slope = (-1, widths.cell(axis, -1)) if high else (1, widths.cell(axis))
    rate = speed * slope * (now[...] - now.shift(axis, inner))
    value = keep * old[...] + (1.0 - keep) * (now[...] - dt * rate)
    new[...] = da.where(da.index(axis) == at, value, new[...])


@per_axis(static=("axis",))
def through(u: Symbol, widths: Widths, *, axis: int, at: Symbol) -> Any:
    """Volume per time that flows along an axis through the points `at`."""
    area = widths.volume(axis) * widths.point(axis)
    return da.reduce.sum(da.where(da.index(axis) == at, area * u[...], 0.0), reproducible=True)


@per_axis(static=("axis",))
def lift(u: Symbol, widths: Widths, *, axis: int, at: Symbol, by: Symbol) -> None:
    """`u += by` on the points `at` of an axis."""
    u[...] = u[...] + da.where(da.index(axis) == at, by, 0.0)


@per_axis(static=("axis",))
def keep_end(star: Symbol, u: Symbol, widths: Widths, *, axis: int, at: Symbol) -> None:
    """`u = star` on the points `at` of an axis, which have no gradient of pressure."""
    u[...] = da.where(da.index(axis) == at, star[...], u[...])


class Outflow(Part):
    """All outflow sides of one flow. Collective."""

    def __init__(
        self, config: IncompressibleConfig, grid: da.Grid, metrics: Metrics, sides: Sides
    ) -> None:
        self._sides = sides
        self._places = {side: place(side) for side in config.outflow}
        self._at = {s: grid.shape[a] if high else 0 for s, (a, high) in self._places.items()}
        self._area = math.fsum(sides.areas[side] for side in config.outflow)
        self._convect = metrics.bind(convect)
        self._through, self._lift = metrics.bind(through), metrics.bind(lift)
        self._keep_end = metrics.bind(keep_end)
        self._old: Velocity = []

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        self._old = velocity

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        speed = max(self._sides.entering(stage.time) / self._area, 0.0)
        for side, (axis, high) in self._places.items():
            self._convect(
                now[axis], self._old[axis], new[axis],
                axis=axis, high=high, at=self._at[side], speed=speed, dt=stage.dt, keep=stage.keep,
                time=stage.time,
            )  # fmt: skip

    def constrain(self, new: Velocity, stage: Stage) -> None:
        if stage.last:
            self.balance(new, stage.end)

    def projected(self, star: Velocity, velocity: Velocity) -> None:
        for side, (axis, _) in self._places.items():
            self._keep_end(star[axis], velocity[axis], axis=axis, at=self._at[side])

    def balance(self, velocity: Velocity, time: float) -> None:
        """Let as much leave as enters at a time."""
        leaving = math.fsum(
            (1.0 if high else -1.0)
            * float(self._through(velocity[axis], axis=axis, at=self._at[side], time=time))
            for side, (axis, high) in self._places.items()
        )
        missing = (self._sides.entering(time) - leaving) / self._area
        for side, (axis, high) in self._places.items():
            by = missing if high else -missing
            self._lift(velocity[axis], axis=axis, at=self._at[side], by=by, time=time)
