"""Multigrid cycles, as a solver and as a preconditioner."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import distarray as da
from solvers.linear import inputs
from solvers.linear.inputs import Callback
from solvers.linear.solution import Solution
from solvers.multigrid import kernels, smoothers
from solvers.multigrid.accelerate import ConjugateGradients
from solvers.multigrid.discrete import mean_of
from solvers.multigrid.hierarchy import Direct, build
from solvers.multigrid.history import PATIENCE, PERSEVERANCE, History, Limits
from solvers.multigrid.operator import EllipticOperator

#: Visits of the next level by the name of a cycle; "F" begins with full multigrid.
VISITS = {"V": 1, "W": 2, "F": 1}
SMOOTHERS = ("red-black", "chebyshev", "jacobi")


@dataclass(frozen=True)
class Sweeps:
    """How a cycle smooths: by what, and how often before and after the visit of the next level."""

    smooth: smoothers.Smoother
    before: int
    after: int
    symmetric: bool


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
        coefficient a varies or an axis is stretched. Where these stagnate the cycle is made
        symmetric, as far as its smoother goes.
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
        An option that does not exist or is out of range.

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
        if not isinstance(operator, EllipticOperator):
            raise da.SolverError(
                f"Multigrid takes an EllipticOperator, got {inputs.described(operator)}; make one, "
                "or use solvers.linear."
            )
        inputs.require_choice("cycle", cycle, tuple(VISITS))
        inputs.require_choice("smoother", smoother, SMOOTHERS)
        inputs.require_whole("before", before, 0, 2)
        inputs.require_whole("after", after, 0, 1)
        if before + after < 1:
            raise da.SolverError(
                "Sweeps must be at least 1 in all, got before=0 and after=0; use 2 and 1."
            )
        if levels is not None:
            inputs.require_whole("levels", levels, 1, 2)
        for name, value in (("symmetric", symmetric), ("reproducible", reproducible)):
            inputs.require_bool(name, value)
        if accelerated is not None:
            inputs.require_bool("accelerated", accelerated)
        if symmetric:
            before = after = max(before, after)
            smoother = "chebyshev" if smoother == "red-black" else smoother
        self.operator = operator
        self._visits, self._full = VISITS[cycle], cycle == "F"
        self._reproducible = reproducible
        varies = operator.discrete.form.links or operator.discrete.stretched
        self._accelerated = varies if accelerated is None else accelerated
        ndim, most = operator.grid.ndim, max(before, after)
        self._sweeps = Sweeps(smoothers.smoother(smoother, ndim), before, after, symmetric)
        self._steady = Sweeps(smoothers.smoother("chebyshev", ndim), most, most, symmetric=True)
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
        callback: Callback | None = None,
    ) -> Solution:
        """Cycle until the residual is at most `max(rtol |b|, atol)`, norms being 2-norms over all
        points, whatever the volumes of their cells. Collective.

        Parameters
        ----------
        rhs : DistArray
            f, where the unknowns are. The values of the conditions are added to it: b.
        x0 : DistArray, optional
            First guess, zero by default.
        rtol, atol : float
            rtol at least 0 and below 1, atol at least 0, not both 0.
        max_cycles : int
            Most cycles, full multigrid being one.
        time : float
            At which functions of conditions are evaluated.
        callback : function, optional
            Called after each cycle with its number and the relative residual, accelerated that of
            the recursion.

        Returns
        -------
        Solution
            `x` has the operator's conditions. Where the operator is singular its mean is zero. The
            last residual is that of x, `b - A x`; x is the first guess where no better one was
            reached.

        Raises
        ------
        SolverError
            An option out of range; a right-hand side that does not fit the operator, is not finite,
            or has a mean where the operator is singular; a first guess that does not fit.
        """
        limits = Limits(rtol=rtol, atol=atol, max_cycles=max_cycles, callback=callback)
        self._require_right_hand_side(rhs)
        inputs.require_guess(x0, rhs)
        limits.require_alike(self.operator.grid.communicator)
        finest = self.levels[0]
        self._load(rhs, time, limits)
        if x0 is None:
            finest.clear()
        else:
            finest.u[...] = x0
        history = History(self._scale(), limits)
        history.add(self._norm())
        if self._full and x0 is None and not history.done:
            self._full_multigrid(0)
            history.add(self._norm())
        if self._accelerated:
            self._accelerate(history)
        while not history.done:
            self._cycle(0, self._sweeps)
            history.add(self._norm())
        if history.worse:
            finest.u[...] = 0 if x0 is None else x0
            history.return_to_guess()
        return history.solution(self._result(finest.u))

    def __call__(self, r: da.DistArray, out: da.DistArray) -> None:
        """`out` = one cycle for the right-hand side r, from zero: a preconditioner. Collective.

        It is symmetric (in the inner product weighted by volumes) if made with `symmetric=True`.
        """
        finest = self.levels[0]
        finest.f[...] = r
        finest.clear()
        self._cycle(0, self._sweeps)
        self._remove_mean(finest.u)
        out[...] = finest.u

    def cycle(self) -> None:
        """One cycle on what `levels[0]` holds: its u is improved for its f. Collective."""
        self._cycle(0, self._sweeps)

    # ---- cycles

    def _accelerate(self, history: History) -> None:
        """Iterate by conjugate gradients, which keep up the residual by recursion. Where that parts
        from b - A x by rounding they begin anew, as long as it helps; where they stagnate, with a
        symmetric cycle, which they are made for.
        """
        finest, iteration, sweeps = self.levels[0], self._iteration, self._sweeps
        iteration.b[...] = finest.f
        while not history.done:
            finest.compute_residual()
            iteration.begin(finest.u, finest.r)
            before = history.residuals[-1]
            history.patience = PERSEVERANCE if sweeps.symmetric else PATIENCE
            while not history.done:
                finest.f[...] = iteration.r
                finest.clear()
                self._cycle(0, sweeps)
                history.add(iteration.step(finest.u))
            finest.f[...], finest.u[...] = iteration.b, iteration.x
            if history.stagnant and not sweeps.symmetric:
                sweeps = self._steady
                history.renew(self._norm())
            else:
                history.restart(before, self._norm())

    @functools.cached_property
    def _iteration(self) -> ConjugateGradients:
        return ConjugateGradients(self.levels[0].discrete, reproducible=self._reproducible)

    def _result(self, u: da.DistArray) -> da.DistArray:
        """The array u with the operator's conditions, its mean removed where that is arbitrary."""
        x = self.operator.solution()
        self._remove_mean(u)
        x[...] = u
        return x

    def _cycle(self, number: int, sweeps: Sweeps) -> None:
        level = self.levels[number]
        if level.below is None:
            self._direct.solve()
            return
        sweeps.smooth(level, sweeps.before)
        level.compute_residual()
        coarse = self.levels[number + 1]
        level.below.restrict(coarse.f)
        if coarse.below is None:
            self._direct.solve()
        else:
            coarse.clear()
            for _ in range(self._visits):
                self._cycle(number + 1, sweeps)
        level.below.prolong(coarse.u, level.u, add=True)
        sweeps.smooth(level, sweeps.after)

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
        self._cycle(number, self._sweeps)

    # ---- right-hand side and norms

    def _require_right_hand_side(self, rhs: Any) -> None:
        operator = self.operator
        if (
            not isinstance(rhs, da.DistArray)
            or rhs.grid is None
            or not rhs.grid.same_as(operator.grid)
            or rhs.location != operator.location
            or rhs.components
        ):
            raise da.SolverError(
                f"The right-hand side, {inputs.described(rhs)}, must lie on {operator.grid!r} at "
                f"location {operator.location!r}; make it there."
            )

    def _load(self, rhs: da.DistArray, time: float, limits: Limits) -> None:
        """Lift the conditions into the finest level's f, which is b."""
        operator, finest = self.operator, self.levels[0]
        if finest.f.grid is operator.grid:
            operator.rhs(rhs, finest.f, time=time)
        else:
            lifted = operator.zeros()
            operator.rhs(rhs, lifted, time=time)
            finest.f[...] = lifted
        size = self._scale()
        inputs.require_finite(size)
        if operator.singular:
            f = finest.f
            mean = mean_of(finest.discrete, f, reproducible=self._reproducible)
            least = inputs.least_mean(limits, float(np.finfo(f.dtype).eps), size)
            inputs.require_mean_zero(mean, f.size, least)
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
