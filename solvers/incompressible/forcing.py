"""What drives a flow: a body force, and the uniform force that holds a flow rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import distarray as da
from solvers.box import takes_time
from solvers.incompressible import kernels
from solvers.incompressible.config import Field, IncompressibleConfig
from solvers.incompressible.metrics import AXES, Metrics
from solvers.incompressible.parts import Part, Stage, Velocity


class BodyForce(Part):
    """A force per mass along each axis, given by numbers and functions. Collective."""

    def __init__(self, force: Sequence[Field], grid: da.Grid) -> None:
        self._push = [_push(grid, axis, value) for axis, value in enumerate(force)]

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        for u, push in zip(new, self._push, strict=True):
            push(u, scale, stage.given)


def _push(grid: da.Grid, axis: int, value: Field) -> Callable[[da.DistArray, float, float], None]:
    """A function of a component, a scale and the time that adds the scaled force along an axis."""
    if not callable(value):
        return lambda u, scale, _: _uniform(u, scale * float(value))
    location = AXES[axis]
    if not takes_time(value, grid.ndim, f"force[{axis}]"):
        steady = grid.from_function(value, location=location)
        return lambda u, scale, _: kernels.push(u, steady, scale=scale)

    def push(u: da.DistArray, scale: float, time: float) -> None:
        force = grid.from_function(lambda *coords: value(time, *coords), location=location)
        kernels.push(u, force, scale=scale)

    return push


def _uniform(u: da.DistArray, by: float) -> None:
    if by != 0.0:
        kernels.shift(u, by=by, share=0.0, total=0.0)


class FlowRate(Part):
    """A uniform force along each of some periodic axes that holds the mean velocity in the box.
    Collective.

    The force of the last step acts in all stages; what the mean still lacks after the last stage is
    added to the velocity there, and to the force of the next step. A steady flow lacks nothing.
    """

    def __init__(self, config: IncompressibleConfig, metrics: Metrics) -> None:
        self._means = {AXES.index(name): mean for name, mean in config.flow_rate.items()}
        self._amount = metrics.bind(kernels.amount)
        self._share = 1.0 / metrics.box
        self._forces = dict.fromkeys(self._means, 0.0)
        self._lacking: dict[int, tuple[Any, float]] = {}  # sums of u dV, pending, and time steps

    def begin(self, velocity: Velocity, *, time: float, dt: float) -> None:
        self._settle()

    def push(self, now: Velocity, new: Velocity, stage: Stage, *, scale: float) -> None:
        for axis, force in self._forces.items():
            _uniform(new[axis], scale * force)

    def constrain(self, new: Velocity, stage: Stage) -> None:
        if not stage.last:
            return
        for axis, mean in self._means.items():
            total = self._amount(new[axis], axis=axis, time=stage.end)
            kernels.shift(new[axis], by=mean, share=self._share, total=total)
            self._lacking[axis] = total, stage.step

    def rest(self) -> dict[str, float]:
        return self.scalars()

    def restore(self, attrs: Mapping[str, Any]) -> None:
        self._lacking.clear()
        self._forces = {axis: float(attrs[_name(axis)]) for axis in self._means}

    def scalars(self) -> dict[str, float]:
        """The force of the last step, zero before the first."""
        self._settle()
        return {_name(axis): force for axis, force in self._forces.items()}

    def _settle(self) -> None:
        """Add what the last step lacked to the force."""
        for axis, (total, dt) in self._lacking.items():
            self._forces[axis] += (self._means[axis] - self._share * float(total)) / dt
        self._lacking.clear()


def _name(axis: int) -> str:
    return f"force_{AXES[axis]}"
