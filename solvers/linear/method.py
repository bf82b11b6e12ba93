"""What all methods share: the loop, the history of residuals, and the reasons to stop.

A method keeps up the residual by recursion, which drifts from `b - A x` by rounding. Whenever the
recursion ends, be it converged, stagnant or broken down, the true residual is computed. If that
does not meet the tolerance but is clearly smaller than at the last start, the method starts again
from it; so the accuracy that is reached is that of the residual, not of the recursion.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from solvers.linear.solution import Solution
from solvers.linear.system import System

#: What no new start follows.
NOT_FINITE = "The iteration met values that are not finite"

#: A residual that grew by this factor will not come back.
_DIVERGED = 1e8

#: A true residual that differs from the recursive one by this factor is worth saying so.
_PARTED = 2.0

#: Iterations without a smaller residual that end the recursion: so many, and so many for each cell
#: along each axis. Values cross a domain of n cells in n iterations, there and back in 2 n; until
#: then a residual may rest, and 100 is for systems that are small but badly conditioned.
_PATIENCE, _PATIENCE_PER_CELL = 100, 2

#: A new start must make the residual smaller by this factor to be followed by another.
_WORTHWHILE = 0.5


class Method(abc.ABC):
    """An iteration on the vectors of one system. Creation and all methods are Collective."""

    def __init__(self, system: System) -> None:
        self.system = system

    def begin(self) -> None:  # noqa: B027 - most methods remember nothing
        """Forget what the solution before has shown."""

    @abc.abstractmethod
    def start(self) -> str | None:
        """Begin at the true residual `system.r`; says why that cannot be, or None."""

    @abc.abstractmethod
    def step(self) -> Any:
        """One iteration; |r|^2 after it, pending."""

    def overlap(self) -> None:  # noqa: B027 - most methods have no such work
        """Work that does not need the sums of the step, done before they are waited for."""

    def trouble(self) -> str | None:
        """Why the step before was not one, or None. Its sums have arrived."""
        return None

    def leave(self) -> None:  # noqa: B027 - nor anything to complete
        """Complete the iterate `system.x`, before the true residual is computed."""

    def remark(self) -> str:
        """What may explain that a solve failed, a sentence or nothing."""
        return ""


@dataclass
class _History:
    """Relative residuals, and whether they still fall."""

    tolerance: float
    patience: int
    residuals: list[float]

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._best, self._since = self.residuals[-1], 0

    def add(self, residual: float) -> str | None:
        """Take in a residual; the reason why the recursion ends, or None."""
        self.residuals.append(residual)
        if not math.isfinite(residual):
            return NOT_FINITE
        if residual <= self.tolerance:
            return ""
        if residual > _DIVERGED * max(self.residuals[0], self.tolerance):
            return f"The residual grew to {residual:.3g}: the iteration diverges"
        self._since += 1
        if residual < self._best:
            self._best, self._since = residual, 0
        if self._since >= self.patience:
            return f"The residual stagnates: none of {self.patience} iterations made it smaller"
        return None


def run(system: System, kind: Callable[..., Method], **settings: Any) -> Solution:
    """Iterate until the true residual is small enough or nothing helps. Collective.

    `kind(system, **settings)`, called if there is something to do, gives the method.
    """
    if system.scale == 0.0:
        return Solution(system.x, 0, (0.0,), True, "The right-hand side is zero, and so is x.")
    options = system.options
    history = _History(
        options.relative(system.scale),
        _PATIENCE + _PATIENCE_PER_CELL * sum(system.r.shape),
        [math.sqrt(system.square) / system.scale],
    )
    if history.residuals[0] <= history.tolerance:
        return _solution(system, history, "The first guess meets the tolerance")
    if options.max_iterations == 0:
        return _solution(system, history, "max_iterations is 0")
    method = kind(system, **settings)
    method.begin()
    while True:
        before = history.residuals[-1]
        ended = _recursion(method, history)
        recursive = history.residuals[-1]
        method.leave()
        true = history.residuals[-1] = math.sqrt(system.renew_residual()) / system.scale
        if true <= history.tolerance:
            return _solution(system, history, _met(options, system) + _parted(true, recursive))
        if len(history.residuals) > options.max_iterations:
            text = f"max_iterations={options.max_iterations} were made"
            return _solution(system, history, text + _parted(true, recursive), method.remark())
        if ended.startswith(NOT_FINITE) or not true < _WORTHWHILE * before:
            text = ended or "The residual stagnates at the level of rounding"
            return _solution(system, history, text + _parted(true, recursive), method.remark())
        history.restart()


def _recursion(method: Method, history: _History) -> str:
    """Iterate from the true residual; the reason why that ended, nothing where it converged."""
    options, scale = method.system.options, method.system.scale
    reason = method.start()
    if reason is not None:
        return reason
    while len(history.residuals) <= options.max_iterations:
        square = method.step()
        method.overlap()
        reason = method.trouble()
        if reason is not None:
            return reason
        residual = math.sqrt(max(float(square), 0.0)) / scale
        reason = history.add(residual)
        options.report(len(history.residuals) - 1, residual)
        if reason is not None:
            return reason
    return ""


def _met(options: Any, system: System) -> str:
    """Which tolerance the residual met."""
    if options.rtol * system.scale >= options.atol:
        return f"The relative residual is at most rtol={options.rtol:g}"
    return f"The residual is at most atol={options.atol:g}"


def _parted(true: float, recursive: float) -> str:
    """What to say where the true residual is not the one that the recursion gave."""
    if math.isfinite(recursive) and true > _PARTED * recursive:
        return f"; the recursion gave {recursive:.3g} where b - A x is {true:.3g}"
    return ""


def _solution(system: System, history: _History, text: str, remark: str = "") -> Solution:
    residuals = tuple(history.residuals)
    converged = residuals[-1] <= history.tolerance
    if not converged:
        text += f"; the relative residual is {residuals[-1]:.3g}, more than {history.tolerance:.3g}"
    system.finish()
    reason = f"{text}{remark}."
    return Solution(system.x, len(residuals) - 1, residuals, converged, reason)


def positive(value: Any, what: str, meaning: str) -> str | None:
    """Why a sum that should be positive ends the iteration, or None. Local."""
    number = float(value)
    if number > 0.0:
        return None
    if math.isnan(number):
        return f"{NOT_FINITE} ({what})"
    return f"Breakdown: {what} = {number:.3g} is not positive, so {meaning}"
