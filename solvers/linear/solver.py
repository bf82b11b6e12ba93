"""Many solutions with one operator, by vectors that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import distarray as da
from solvers.linear.bicgstab import StabilisedBiconjugateGradients
from solvers.linear.cg import ConjugateGradients
from solvers.linear.chebyshev import Bounds, ChebyshevIteration, checked_bounds
from solvers.linear.inputs import Callback, require_choice, require_guess
from solvers.linear.method import Method, run
from solvers.linear.pipelined import PipelinedConjugateGradients
from solvers.linear.solution import Solution
from solvers.linear.system import Operator, Options, Preconditioner, System, require_operator

#: Methods by their names.
KINDS: dict[str, type[Method]] = {
    "cg": ConjugateGradients,
    "pipelined_cg": PipelinedConjugateGradients,
    "bicgstab": StabilisedBiconjugateGradients,
    "chebyshev": ChebyshevIteration,
}


class LinearSolver:
    """Solves `A x = b` again and again, as in each step of a loop over time. Creation is Local.

    The functions `cg`, `pipelined_cg`, `bicgstab` and `chebyshev` make their vectors, and the plans
    of all kernels that work on these, at each call. This makes them at the first solution, and anew
    only where the right-hand side or the first guess lies elsewhere or has other conditions. What
    the operator maps to zero, and the bounds of its eigenvalues where they are estimated, are found
    once, too: between solutions it may change as long as these do not.

    Parameters
    ----------
    operator, preconditioner, reproducible, nullspace
        As for `cg`.
    method : {"cg", "pipelined_cg", "bicgstab", "chebyshev"}
    bounds : pair of numbers, optional
        Of the eigenvalues, as for `chebyshev`, which alone takes them.

    Raises
    ------
    SolverError
        An option that does not exist or is out of range.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.linear import LinearSolver
    >>> @da.stencil
    ... def shifted(u, out):
    ...     out[0] = 3.0 * u[0] - u[1] - u[-1]
    >>> grid = da.Grid((16,), periodic=True)
    >>> solver = LinearSolver(shifted, method="bicgstab")
    >>> x, b = grid.zeros(), grid.from_function(lambda x: x)
    >>> for step in range(3):
    ...     assert solver.solve(b, x, rtol=1e-10, out=x).converged
    ...     b += x
    """

    def __init__(
        self,
        operator: Operator,
        *,
        method: str = "cg",
        preconditioner: Preconditioner | None = None,
        reproducible: bool = False,
        nullspace: str | None = "auto",
        bounds: Bounds | None = None,
    ) -> None:
        require_operator(operator)
        require_choice("method", method, tuple(KINDS))
        if bounds is not None and method != "chebyshev":
            raise da.SolverError(
                f"bounds= is for the method 'chebyshev', got it for {method!r}; leave it out."
            )
        self._operator = operator
        self._options = Options(
            preconditioner=preconditioner, reproducible=reproducible, nullspace=nullspace
        )
        self._kind = KINDS[method]
        self._settings: dict[str, Any] = {}
        if method == "chebyshev":
            self._settings["bounds"] = checked_bounds(bounds)
        self._system: System | None = None
        self._method: Method | None = None

    def solve(
        self,
        rhs: da.DistArray,
        x0: da.DistArray | None = None,
        *,
        rtol: float = 1e-8,
        atol: float = 0.0,
        max_iterations: int = 1000,
        callback: Callback | None = None,
        out: da.DistArray | None = None,
    ) -> Solution:
        """Solve for a right-hand side. Collective.

        Parameters, result and errors are those of `cg`, and besides:

        Parameters
        ----------
        out : DistArray, optional
            Takes the last iterate, and is the `x` of the result; a new array by default. It may be
            `x0` or `rhs`.
        """
        options = replace(
            self._options, rtol=rtol, atol=atol, max_iterations=max_iterations, callback=callback
        )
        system = self._system
        if system is not None and system.suits(rhs, x0):
            _require_target(out, rhs)
            system.begin(rhs, x0, options)
        else:
            self._system = self._method = None
            system = System(self._operator, rhs, x0, options)
            _require_target(out, rhs)
            self._system = system
        solution = run(system, self._kept)
        if out is None:
            return replace(solution, x=solution.x.copy())
        out[...] = solution.x
        return replace(solution, x=out)

    def _kept(self, system: System) -> Method:
        """The method, made at the first solution that needs one."""
        if self._method is None:
            self._method = self._kind(system, **self._settings)
        return self._method


def _require_target(out: da.DistArray | None, rhs: da.DistArray) -> None:
    require_guess(out, rhs, ("dtype",), name="out")
