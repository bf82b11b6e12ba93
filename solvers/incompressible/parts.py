"""What plugs into a flow besides the momentum equation: bodies, scalars, models, statistics.

One step of a flow calls, on all ranks,

    begin | for each stage: stage, push, constrain, stage_end | projected | finish

A scheme of several stages advances every equation, also those of parts, by

    new = keep old + (1 - keep) (now + dt (ahead rate(now) + before rate_before))

with `old` the state at the start of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import distarray as da

Velocity = list[da.DistArray]
#: The stages of the Runge-Kutta scheme (see `schemes`): each advances by dt / 2 and is then mixed
#: with the old state. (Share of the old state, time of the state it starts from, time of the new
#: state, in steps.)
STAGES = ((0.0, 0.0, 0.5), (0.0, 0.5, 1.0), (2.0 / 3.0, 1.0, 0.5), (0.0, 0.5, 1.0))


@dataclass(frozen=True)
class Stage:
    """One stage of a time step.

    Attributes
    ----------
    number : int
    keep, dt, ahead, before : float
        Of the formula above.
    time : float
        Time of the state that the stage starts from.
    given : float
        Time at which functions of the time are taken, such as a force.
    after : float
        Time that the new state stands for.
    step : float
        Length of the whole step.
    end : float
        Time after the step.
    last : bool
    """

    number: int
    keep: float
    dt: float
    time: float
    given: float
    after: float
    step: float
    end: float
    last: bool
    ahead: float = 1.0
    before: float = 0.0


@dataclass(frozen=True)
class Limit:
    """What a part adds to the stable time step.

    Attributes
    ----------
    viscosity : float
        Added to that of the fluid.
    diffusivity : float
        Of an equation of its own.
    frequency : float
        Of waves, added to the rate of convection, in 1 / time.
    speeds : tuple of float
        Largest velocity along each axis that the fluid is about to have; empty for none.
    """

    viscosity: float = 0.0
    diffusivity: float = 0.0
    frequency: float = 0.0
    speeds: tuple[float, ...] = ()


class Part:
    """One of them; every method does nothing until it is overridden.

    `velocity`, `now` and `new` are lists with component i of the velocity, float64, on the faces
    normal to axis i, all of them with conditions.

    Attributes
    ----------
    fields : dict of str to DistArray
        State that belongs into files: the same arrays for the life of the flow.
    measured : int
        How many values `rates` returns.
    """

    fields: Mapping[str, da.DistArray] = {}
    measured: int = 0

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        """Before the first stage of a step. Collective."""

    def stage(self, velocity: Velocity, stage: Stage) -> None:
        """Advance own fields by a stage into other arrays; `push` still needs those of now.
        Collective.
        """

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        """Add `scale` times an acceleration to the new velocity. Collective."""

    def constrain(self, new: Velocity, stage: Stage) -> None:
        """Change the new velocity where it must have certain values at time `stage.after`.
        Collective.
        """

    def stage_end(self, stage: Stage) -> None:
        """What `stage` made is the state now. Collective."""

    def finish(self, velocity: Velocity, pressure: da.DistArray, *, time: float, dt: float) -> None:
        """After a step; the velocity is free of divergence. Collective."""

    def pressure(self, solver: Any) -> Any:
        """What solves the pressure equation in place of `solver`, with the same `solve(rhs, out)`:
        called once, when the part is plugged in. Collective.
        """
        return solver

    def projected(self, star: Velocity, velocity: Velocity) -> None:
        """Change the velocity that was just made from `star`, whose divergence is removed.
        Collective.
        """

    def leave_fluid(self, values: da.DistArray) -> None:
        """Set what lies in cells without fluid to zero. Collective."""

    def rates(self) -> list[Any]:
        """Pending values that `limit` is made from later: begun in a step that is measured.
        Collective.
        """
        return []

    def limit(self, values: Sequence[float]) -> Limit:
        """What these values say about the time step. Local; the same on all ranks."""
        return Limit()

    def rest(self) -> dict[str, Any]:
        """Numbers that a restart needs besides the fields, under names of their own. Collective."""
        return {}

    def restore(self, attrs: Mapping[str, Any]) -> None:
        """Continue from what `rest` said, after the fields were read. Collective."""

    def scalars(self) -> dict[str, float]:
        """Columns of the table of a run. Collective; the same bits on any ranks."""
        return {}
