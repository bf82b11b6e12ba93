"""The residuals of a solution by cycles, and when to end it. Local."""

from __future__ import annotations

import math
from dataclasses import dataclass

import distarray as da
from solvers.linear import inputs
from solvers.linear.solution import Solution

#: A cycle that leaves more than this of the smallest residual so far is a slow one; so many in turn
#: end the solution.
SLOW, PATIENCE = 0.95, 5

#: As many for conjugate gradients with a symmetric cycle: these make the error in the energy norm
#: smaller with each step, while the residual may grow first and rest long if a coefficient jumps.
PERSEVERANCE = 100

#: A new start of a recursion must have made the true residual smaller by this factor to be followed
#: by another.
WORTHWHILE = 0.5


@dataclass(frozen=True, kw_only=True)
class Limits(inputs.Tolerances):
    """When a solution ends, checked. Creation is Local.

    Raises
    ------
    SolverError
        A tolerance or a number of cycles that makes no sense.
    """

    max_cycles: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs.require_whole("max_cycles", self.max_cycles, 0, 100)


class History:
    """Residuals so far, and whether to go on.

    Parameters
    ----------
    scale : float
        |b|.
    limits : Limits

    Attributes
    ----------
    residuals : list of float
        Relative to the scale, or as they are where that is 0.
    patience : int
        The number of slow cycles in turn that end the solution.
    """

    def __init__(self, scale: float, limits: Limits) -> None:
        self._scale = scale or 1.0
        self._limits = limits
        self._goal = limits.relative(self._scale)
        self._slow, self._best, self._note = 0, math.inf, ""
        self._why = ""  # why no new start would help
        self.patience = PATIENCE
        self.residuals: list[float] = []

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return len(self.residuals) - 1

    def add(self, norm: float) -> None:
        """Take in the size of the first residual, or of that after one more cycle."""
        relative = self._relative(norm)
        self.residuals.append(relative)
        if relative > SLOW * self._best:
            self._slow += 1
        else:
            self._slow, self._best = 0, relative
        if self.cycles:
            self._limits.report(self.cycles, relative)

    def restart(self, before: float, norm: float) -> None:
        """Put the size of the true residual in the place of that of a recursion, which began at
        `before`; the recursion may begin anew from it if that helps.
        """
        stagnant = self.stagnant
        self.renew(norm)
        if self.residuals[-1] < WORTHWHILE * before:
            return
        self._why = (
            self._slowness
            if stagnant
            else "conjugate gradients do not make b - A x smaller, because of rounding"
        )

    def renew(self, norm: float) -> None:
        """Put the size of the true residual in the place of the last one, and be patient anew."""
        self._best = self.residuals[-1] = self._relative(norm)
        self._slow = 0

    def return_to_guess(self) -> None:
        """The first guess is the outcome, its residual being smaller than the last one."""
        self._note = (
            f" The last iterate has the larger residual {self.residuals[-1]:.3g}; the first guess "
            "is returned."
        )
        self.residuals[-1] = self.residuals[0]

    def _relative(self, norm: float) -> float:
        relative = norm / self._scale
        if not math.isfinite(relative):
            raise da.SolverError(
                f"The residual is no longer finite after {len(self.residuals)} cycles; look at the "
                "coefficients, the first guess and their range."
            )
        return relative

    @property
    def converged(self) -> bool:
        """Whether the last residual is small enough."""
        return self.residuals[-1] <= self._goal

    @property
    def _exhausted(self) -> bool:
        return self.cycles >= self._limits.max_cycles

    @property
    def stagnant(self) -> bool:
        """Whether patience is at an end."""
        return self._slow >= self.patience

    @property
    def _slowness(self) -> str:
        return f"none of the last {self.patience} cycles left less than {SLOW:g} of the smallest"

    @property
    def done(self) -> bool:
        """Whether to end: converged, stagnant, or out of cycles."""
        return self.converged or self._exhausted or self.stagnant or bool(self._why)

    @property
    def worse(self) -> bool:
        """Whether the last residual is larger than the first."""
        return self.residuals[-1] > self.residuals[0]

    def solution(self, x: da.DistArray) -> Solution:
        """The outcome, with the iterate to which the last residual belongs."""
        last = self.residuals[-1]
        if self.converged:
            reason = f"The relative residual {last:.3g} is at most {self._goal:.3g}."
        elif self.stagnant or self._why:
            why = self._why or self._slowness
            reason = f"The residual stagnates at {last:.3g} of the right-hand side: {why}."
        else:
            reason = (
                f"The relative residual is {last:.3g} after {self.cycles} cycles, the most allowed."
            )
        return Solution(x, self.cycles, tuple(self.residuals), self.converged, reason + self._note)
