"""The schemes in time: the velocity after a step, before its divergence is removed.

"ssp-rk3" is the strong-stability-preserving Runge-Kutta scheme of third order in four stages, with
Courant number 2 (Spiteri, R. J., Ruuth, S. J. (2002) SIAM J. Numer. Anal. 40(2), 469-491): for
viscous flow it reaches twice as far as the scheme of three stages, and a solution of the pressure
equation costs as much as several stages.

"ab2-cn" extrapolates convection from this step and the last (Adams-Bashforth of second order, with
the ratio of the two lengths) and takes viscosity by the trapezoidal rule (`implicit`).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import distarray as da
from solvers.incompressible import kernels
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.implicit import ImplicitViscosity
from solvers.incompressible.metrics import AXES, COMPONENTS, Metrics
from solvers.incompressible.parts import STAGES, Part, Stage, Velocity

#: With implicit viscosity a step is at most so many times as long as viscosity lets an explicit one
#: be: a step that is much longer is stable, but no longer follows the flow.
FARTHEST = 50.0


class Scheme(abc.ABC):
    """One scheme in time of one flow.

    Attributes
    ----------
    real_limit, imaginary_limit : float
        The scheme is stable for eigenvalues z of the rate times dt in the left half of the ellipse
        with these half axes.
    viscosity : float
        What viscosity limits the time step.
    fields : dict of str to DistArray
        What a restart needs besides velocity and pressure.
    """

    real_limit: float
    imaginary_limit: float
    fields: Mapping[str, da.DistArray] = {}

    def __init__(
        self,
        config: IncompressibleConfig,
        grid: da.Grid,
        metrics: Metrics,
        velocity: Velocity,
        pressure: da.DistArray,
    ) -> None:
        self._velocity, self._pressure = list(velocity), pressure
        self.viscosity = config.viscosity
        self._momentum = metrics.bind(kernels.momentum)
        self._constants = {"advection": config.advection, "nu": config.viscosity}

    @abc.abstractmethod
    def predict(self, parts: Sequence[Part], *, time: float, dt: float) -> Velocity:
        """The velocity a step later, with the divergence that it got, in arrays of the scheme.
        Collective.
        """

    def rest(self) -> dict[str, Any]:
        """What a file says about the scheme besides its fields. Local."""
        return {}

    def restore(self, attrs: Mapping[str, Any]) -> None:
        """Continue from what `rest` said. Local."""
        del attrs

    def accelerate(
        self,
        now: Velocity,
        new: Velocity,
        stage: Stage,
        parts: Sequence[Part],
    ) -> None:
        """One explicit stage, with the forces of all parts. Collective."""
        self._momentum(
            *now, self._pressure, *self._velocity, *new,
            dt=stage.dt, keep=stage.keep, time=stage.time, **self._constants,
        )  # fmt: skip
        for part in parts:
            part.push(now, new, stage, scale=(1.0 - stage.keep) * stage.dt)


class RungeKutta(Scheme):
    """The four stages, all with the pressure gradient of the last step."""

    # The amplification |2 y + y^4| / 3, y = 1 + z / 2, is below 1 inside the ellipse of 5 and 1.97.
    # But all stages have the pressure gradient of the last step, which lags behind waves in a
    # stream that is not uniform: shear layers and random fields without viscosity gain energy from
    # 1.6 on.
    real_limit, imaginary_limit = 5.0, 1.5

    def __init__(
        self,
        config: IncompressibleConfig,
        grid: da.Grid,
        metrics: Metrics,
        velocity: Velocity,
        pressure: da.DistArray,
    ) -> None:
        super().__init__(config, grid, metrics, velocity, pressure)
        self._stages = [[u.copy() for u in velocity] for _ in range(2)]

    def predict(self, parts: Sequence[Part], *, time: float, dt: float) -> Velocity:
        now = self._velocity
        for part in parts:
            part.begin(now, time=time, dt=dt)
        for number, (keep, start, after) in enumerate(STAGES):
            stage = Stage(
                number=number,
                keep=keep,
                dt=0.5 * dt,
                time=time + start * dt,
                given=time + start * dt,
                after=time + after * dt,
                step=dt,
                end=time + dt,
                last=number == len(STAGES) - 1,
            )
            new = self._stages[number % 2]
            for part in parts:
                part.stage(now, stage)
            self.accelerate(now, new, stage, parts)
            for part in parts:
                part.constrain(new, stage)
            for part in parts:
                part.stage_end(stage)
            now = new
        return now


class AdamsBashforth(Scheme):
    """One stage: convection extrapolated, viscosity half explicit and half implicit.

    The extrapolation has no interval of stability on the imaginary axis; at the limit here a wave
    without viscosity grows by less than 1 % per step.
    """

    real_limit, imaginary_limit = 1.0, 0.4

    def __init__(
        self,
        config: IncompressibleConfig,
        grid: da.Grid,
        metrics: Metrics,
        velocity: Velocity,
        pressure: da.DistArray,
    ) -> None:
        super().__init__(config, grid, metrics, velocity, pressure)
        self.viscosity = config.viscosity / FARTHEST
        self._extrapolate = metrics.bind(kernels.extrapolate)
        self._star = [u.copy() for u in velocity]
        self._carried = [grid.zeros(location=AXES[axis]) for axis in range(config.ndim)]
        names = (f"{name}_carried" for name in COMPONENTS)
        self.fields = dict(zip(names, self._carried, strict=False))
        self._implicit = ImplicitViscosity(config, grid, metrics)
        self._before: float | None = None  # length of the last step

    def predict(self, parts: Sequence[Part], *, time: float, dt: float) -> Velocity:
        now, new, end = self._velocity, self._star, time + dt
        ratio = 0.0 if self._before is None else 0.5 * dt / self._before
        stage = Stage(
            number=0,
            keep=0.0,
            dt=dt,
            time=time,
            given=time + 0.5 * dt,
            after=end,
            step=dt,
            end=end,
            last=True,
            ahead=1.0 + ratio,
            before=-ratio,
        )
        for part in parts:
            part.begin(now, time=time, dt=dt)
        for part in parts:
            part.stage(now, stage)
        self._extrapolate(
            *now, self._pressure, *self._carried, *new,
            dt=dt, ahead=stage.ahead, before=stage.before, time=time, **self._constants,
        )  # fmt: skip
        self._implicit.diffuse(now, new, dt=dt, time=end)
        for part in parts:
            part.push(now, new, stage, scale=dt)
        for axis, (old, star) in enumerate(zip(now, new, strict=True)):
            self._implicit.solve(axis, old, star, dt=dt)
        for part in parts:
            part.constrain(new, stage)
        for part in parts:
            part.stage_end(stage)
        self._before = dt
        return new

    def rest(self) -> dict[str, Any]:
        return {"step_before": self._before or 0.0}

    def restore(self, attrs: Mapping[str, Any]) -> None:
        self._before = float(attrs["step_before"]) or None
