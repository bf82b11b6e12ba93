"""Solvers whose runs take steps of one length, as their time step does not follow the state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import distarray as da
from solvers.base import Solver
from solvers.box import is_number, shown


class EvenSteps(Solver):
    """A `Solver` whose run reaches its end by a whole number of steps of one length, at most
    `stable_dt()`: schemes of several steps keep their order, what depends on the step is built
    once, and records have one spacing.

    So does it reach each visit, and a later run its end, from where it is. These lengths are equal,
    to rounding, where visits lie on the steps of the run without them, and differ elsewhere.
    """

    _goal: float | None = None  # that `_time_step` leads to

    def _limit(self, speeds: Sequence[float]) -> float:
        return self._time_step or self.stable_dt()

    def _next(self, until: float | None) -> tuple[float, float]:
        if self._time_step is None or until != self._goal:
            self._time_step, self._goal = self._length(until), until
        return super()._next(until)

    def _attributes(self) -> dict[str, Any]:
        return super()._attributes() | ({} if self._goal is None else {"goal": self._goal})

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        super()._restore_attributes(attrs)
        self._goal = float(attrs["goal"]) if "goal" in attrs else None

    def _length(self, until: float | None) -> float:
        """The length of the steps from now."""
        stable = self.stable_dt()
        if not 0.0 < stable < math.inf:
            raise da.SolverError(
                f"A time step is finite and above 0, but the stable one is {stable} here; the "
                "numbers of the configuration are too far apart: change its cells or coefficients."
            )
        if until is None:
            return stable
        left = until - self.time
        steps = left / stable
        if steps == math.inf:
            raise da.SolverError(
                f"A run ends in fewer than 10^15 steps, received dt={stable:.6g} and "
                f"until={until:.6g}; the numbers of its configuration are too far apart."
            )
        return left / max(math.ceil(steps - 1e-9), 1)


@da.stencil
def change(new: Any, old: Any) -> Any:
    """The largest |new - old|, pending. Collective."""
    return da.reduce.max(abs(new[...] - old[...]))


def require_step(what: str, dt: float, limit: float) -> None:
    """Refuse a time step that is not above 0, or beyond the limit of stability. Local."""
    if not (is_number(dt) and 0.0 < dt <= 1.000001 * limit):
        rule = "is above 0" if limit == math.inf else f"lies between 0 and {limit:.6g} here"
        raise da.SolverError(
            f"A time step of {what} {rule}, received dt={shown(dt)}; use stable_dt()."
        )
