"""Multigrid cycles, as a solver and as a preconditioner."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.linear.solution import Solution
from solvers.multigrid import kernels, smoothers
from solvers.multigrid.accelerate import ConjugateGradients
from solvers.multigrid.discrete import mean_of
from solvers.multigrid.hierarchy import Direct, build
from solvers.multigrid.operator import EllipticOperator

#: Visits of the next level by the name of a cycle; "F" begins with full multigrid.
VISITS = {"V": 1, "W": 2, "F": 1}
SMOOTHERS = ("red-black", "chebyshev", "jacobi")

#: A cycle that leaves more than this of the residual counts as stagnant; so many end the solution.
STAGNANT, PATIENCE = 0.95, 5


class Multigrid:
    """Solves `A u = f` for an `EllipticOperator` A by cycles over coarser and coarser grids.
    Creation is Collective.

    Parameters
    ----------
    operator : EllipticOperator
    cycle : {"V", "W", "F"}
        Every level once, or the next one twice; "F" begins with full multigrid (a first guess from
        the coarser levels, each solved by one cycle) and goes on with V-cycles.
    smoother : {"red-black", "chebyshev", "jacobi"}
        Red-black Gauss-Seidel, a Chebyshev polynomial of Jacobi's method, or that method.
    before, after : int
        Sweeps (for Chebyshev: the degree) before and after the visit of the next level.
    symmetric : bool
        Whether the cycle is made symmetric, for use as a preconditioner of CG: restriction is then
        the adjoint of prolongation, the smoother must be symmetric ("chebyshev" unless "jacobi" is
        given), and as many sweeps come before as after.
    accelerated : bool, optional
        Whether `solve` makes a step of conjugate gradients of each cycle; by default where the
        coefficient a varies or an axis is stretched.
    reproducible : bool
        The same bits on any number of ranks.
    levels : int, optional
        The most levels; as many as there are by default. The last one is solved directly, by a
        dense matrix.

    Attributes
    ----------
    levels : list of Level
        The finest first.

    Raises
    ------
    SolverError
        An option that does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> import distarray as da
    >>> from solvers.multigrid import EllipticOperator, Multigrid
    >>> grid = da.Grid((32, 32))
    >>> A = EllipticOperator(grid, boundary={"x": da.Dirichlet(0.0), "y": da.Neumann(0.0)})
    >>> f = grid.from_function(lambda x, y: np.pi**2 * np.sin(np.pi * x) + 0 * y)
    >>> solution = Multigrid(A).solve(f)
    >>> solution.converged, round(float(solution.x.max()), 2)
    (True, 1.0)
    """

    def __init__(
        self,
        operator: EllipticOperator,
        *,
        cycle: str = "V",
        smoother: str = "red-black",
        before: int = 2,
        after: int = 1,
        symmetric: bool = False,
        accelerated: bool | None = None,
        reproducible: bool = False,
        levels: int | None = None,
    ) -> None:
        _require_choice("cycle", cycle, tuple(VISITS))
        _require_choice("smoother", smoother, SMOOTHERS)
        if before < 0 or after < 0 or before + after < 1:
            raise da.SolverError(
                f"Sweeps are not below 0 and at least 1 in all, got before={before} and "
                f"after={after}; use 2 and 1."
            )
        if symmetric:
            before = after = max(before, after)
            smoother = "chebyshev" if smoother == "red-black" else smoother
        self.operator = operator
        self._visits, self._full = VISITS[cycle], cycle == "F"
        self._before, self._after = before, after
        self._reproducible = reproducible
        varies = operator.discrete.form.links or operator.discrete.stretched
        self._accelerated = varies if accelerated is None else accelerated
        self._smooth = smoothers.smoother(smoother, operator.grid.ndim)
        self.levels = build(
            operator.discrete, adjoint=symmetric or operator.discrete.form.links, levels=levels
        )
        self._direct = Direct(self.levels[-1])

    def solve(
        self,
        rhs: da.DistArray,
        x0: da.DistArray | None = None,
        *,
        rtol: float = 1e-8,
        atol: float = 0.0,
        max_cycles: int = 100,
        time: float = 0.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Solution:
        """Cycle until the residual is at most `max(rtol |b|, atol)`. Collective.

        Parameters
        ----------
        rhs : DistArray
            f, where the unknowns are. The values of the conditions are added to it: b.
        x0 : DistArray, optional
            First guess, zero by default.
        rtol, atol : float
        max_cycles : int
        time : float
            At which functions of conditions are evaluated.
        callback : function, optional
            Called after each cycle with its number and the relative residual.

        Returns
        -------
        Solution
            `x` has the operator's conditions. Where the operator is singular its mean is zero.

        Raises
        ------
        SolverError
            A right-hand side that does not fit the operator, is not finite, or has a mean where the
            operator is singular.
        """
        finest = self.levels[0]
        self._load(rhs, time, rtol)
        if x0 is None:
            finest.clear()
        else:
            finest.u[...] = x0
        history = _History(self._scale(), rtol, atol, max_cycles)
        history.add(self._norm())
        if self._accelerated:
            return self._solve_accelerated(history, callback)
        while not history.done:
            if self._full and x0 is None and history.cycles == 0:
                self._full_multigrid(0)
            else:
                self._cycle(0)
            history.add(self._norm())
            if callback is not None:
                callback(history.cycles, history.residuals[-1])
        return history.solution(self._result(finest.u))

    def __call__(self, r: da.DistArray, out: da.DistArray) -> None:
        """`out` = one cycle for the right-hand side r, from zero: a preconditioner. Collective.

        It is symmetric (in the inner product weighted by volumes) if made with `symmetric=True`.
        """
        finest = self.levels[0]
        finest.f[...] = r
        finest.clear()
        self._cycle(0)
        self._remove_mean(finest.u)
        out[...] = finest.u

    def cycle(self) -> None:
        """One cycle on what `levels[0]` holds: its u is improved for its f. Collective."""
        self._cycle(0)

    # ---- cycles

    def _solve_accelerated(
        self, history: _History, callback: Callable[[int, float], Any] | None
    ) -> Solution:
        finest = self.levels[0]
        finest.compute_residual()
        iteration = self._iteration
        iteration.begin(finest.u, finest.r)
        while not history.done:
            finest.f[...] = iteration.r
            finest.clear()
            self._cycle(0)
            history.add(iteration.step(finest.u))
            if callback is not None:
                callback(history.cycles, history.residuals[-1])
        return history.solution(self._result(iteration.x))

    @functools.cached_property
    def _iteration(self) -> ConjugateGradients:
        return ConjugateGradients(self.levels[0].discrete, reproducible=self._reproducible)

    def _result(self, u: da.DistArray) -> da.DistArray:
        """The array u with the operator's conditions, its mean removed where that is arbitrary."""
        x = self.operator.solution()
        self._remove_mean(u)
        x[...] = u
        return x

    def _cycle(self, number: int) -> None:
        level = self.levels[number]
        if level.below is None:
            self._direct.solve()
            return
        self._smooth(level, self._before)
        level.compute_residual()
        coarse = self.levels[number + 1]
        level.below.restrict(coarse.f)
        if coarse.below is None:
            self._direct.solve()
        else:
            coarse.clear()
            for _ in range(self._visits):
                self._cycle(number + 1)
        level.below.prolong(coarse.u, level.u, add=True)
        self._smooth(level, self._after)

    def _full_multigrid(self, number: int) -> None:
        """A first guess from the coarser levels, then one cycle."""
        level = self.levels[number]
        if level.below is not None:
            level.clear()
            level.compute_residual()
            coarse = self.levels[number + 1]
            level.below.restrict(coarse.f)
            self._full_multigrid(number + 1)
            level.below.prolong(coarse.u, level.u, add=False)
        self._cycle(number)

    # ---- right-hand side and norms

    def _load(self, rhs: da.DistArray, time: float, rtol: float) -> None:
        """Check the right-hand side and lift the conditions into the finest level's f."""
        operator, finest = self.operator, self.levels[0]
        if (
            not isinstance(rhs, da.DistArray)
            or rhs.grid is None
            or not rhs.grid.same_as(operator.grid)
            or rhs.location != operator.location
            or rhs.components
        ):
            raise da.SolverError(
                f"The right-hand side {rhs!r} must lie on {operator.grid!r} at location "
                f"{operator.location!r}; make it there."
            )
        if finest.f.grid is operator.grid:
            operator.rhs(rhs, finest.f, time=time)
        else:
            lifted = operator.zeros()
            operator.rhs(rhs, lifted, time=time)
            finest.f[...] = lifted
        if operator.singular:
            self._require_compatible(rtol)

    def _require_compatible(self, rtol: float) -> None:
        f = self.levels[0].f
        mean = mean_of(self.levels[0].discrete, f, reproducible=self._reproducible)
        size = self._scale() / math.sqrt(f.size)
        if abs(mean) > max(rtol, 32.0 * float(np.finfo(f.dtype).eps)) * size:
            raise da.SolverError(
                f"The right-hand side, with the values of the conditions, has the mean {mean:.6g}, "
                "but the operator maps constants to zero, so that there is a solution for mean "
                "zero alone; subtract the mean."
            )
        kernels.add_number(f.layout.ndim)(f, value=-mean)

    def _remove_mean(self, u: da.DistArray) -> None:
        if self.operator.singular:
            mean = mean_of(self.levels[0].discrete, u, reproducible=self._reproducible)
            kernels.add_number(self.operator.grid.ndim)(u, value=-mean)

    def _scale(self) -> float:
        """|b|"""
        return float(da.norm(self.levels[0].f, reproducible=self._reproducible))

    def _norm(self) -> float:
        """|b - A u|"""
        return math.sqrt(float(self.levels[0].begin_square(self._reproducible)))


class _History:
    """Residuals so far, and when to end. Local."""

    def __init__(self, scale: float, rtol: float, atol: float, most: int) -> None:
        if not math.isfinite(scale):
            raise da.SolverError(
                "The right-hand side has values that are not finite; look for them with "
                "abs(rhs).max()."
            )
        self._scale = scale or 1.0
        self._goal = max(rtol * scale, atol) / self._scale
        self._most = most
        self._stagnant = 0
        self.residuals: list[float] = []

    @property
    def cycles(self) -> int:
        return len(self.residuals) - 1

    def add(self, norm: float) -> None:
        relative = norm / self._scale
        if not math.isfinite(relative):
            raise da.SolverError(
                f"The residual is no longer finite after {self.cycles + 1} cycles; look at the "
                "coefficients, the first guess and their range."
            )
        if self.residuals:
            slow = relative > STAGNANT * self.residuals[-1]
            self._stagnant = self._stagnant + 1 if slow else 0
        self.residuals.append(relative)

    @property
    def converged(self) -> bool:
        return self.residuals[-1] <= self._goal

    @property
    def done(self) -> bool:
        return self.converged or self.cycles >= self._most or self._stagnant >= PATIENCE

    def solution(self, x: da.DistArray) -> Solution:
        last = self.residuals[-1]
        if self.converged:
            reason = f"The relative residual {last:.3g} is at most {self._goal:.3g}."
        elif self._stagnant >= PATIENCE:
            reason = (
                f"The residual stagnates at {last:.3g} of the right-hand side: each of the last "
                f"{PATIENCE} cycles left more than {STAGNANT:g} of it."
            )
        else:
            reason = (
                f"The relative residual is {last:.3g} after {self.cycles} cycles, the most allowed."
            )
        return Solution(x, self.cycles, tuple(self.residuals), self.converged, reason)


def _require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise da.SolverError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}; use "
            f"{choices[0]!r}."
        )
