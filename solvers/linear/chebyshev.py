"""The Chebyshev iteration: no inner products, given an interval that holds the eigenvalues.

Saad, Y. (2003) Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 12.1, with a
preconditioner as in Barrett, R. et al. (1994) Templates for the Solution of Linear Systems, section
2.3.7.

Vectors that an iteration reads and writes, the operator's two apart: 4 and 3, in one kernel. The
norm of the residual comes with that kernel, and is waited for after the next application of the
operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from solvers.box import shown
from solvers.linear import kernels, spectrum
from solvers.linear.inputs import Callback
from solvers.linear.method import Method, run
from solvers.linear.solution import Solution
from solvers.linear.system import Operator, Options, Preconditioner, System

Bounds = tuple[float, float]

#: Half the interval of eigenvalues, of their mean, is taken to be at least this.
_NARROWEST = 1e-10


class ChebyshevIteration(Method):
    """The iteration of `chebyshev`, with the symbols of Saad."""

    def __init__(self, system: System, bounds: Bounds | None) -> None:
        super().__init__(system)
        low, high = bounds or spectrum.estimate(system)
        self._bounds = low, high
        self._theta = (high + low) / 2.0
        self._delta = max((high - low) / 2.0, _NARROWEST * self._theta)
        self._sigma = self._theta / self._delta
        self._d, self._q = system.vector(), system.vector()
        self._z = system.vector() if system.preconditioned else system.r
        self._components: dict[str, Any] = {"components": system.components}

    def start(self) -> str | None:
        system = self.system
        self._rho = 1.0 / self._sigma
        system.precondition(system.r, self._z)
        kernels.scale_to(self._d, self._z, factor=1.0 / self._theta, **self._components)
        system.apply(self._d, self._q)
        return None

    def step(self) -> Any:
        system = self.system
        rho = 1.0 / (2.0 * self._sigma - self._rho)
        self._factors = {"keep": rho * self._rho, "factor": 2.0 * rho / self._delta}
        self._rho = rho
        vectors = system.x, system.r, self._d, self._q
        if system.preconditioned:
            return kernels.follow(*vectors, **system.static)
        return kernels.sweep(*vectors, **self._factors, **system.static)

    def overlap(self) -> None:
        system = self.system
        if system.preconditioned:
            system.precondition(system.r, self._z)
            kernels.renew(self._d, self._z, **self._factors, **self._components)
        system.apply(self._d, self._q)

    def remark(self) -> str:
        low, high = self._bounds
        return f"; eigenvalues were taken to lie between {low:.4g} and {high:.4g}"


def checked_bounds(bounds: Any) -> Bounds | None:
    """Bounds of eigenvalues, or None to have them estimated. Local."""
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = 0.0
    if not (0.0 < low <= high and np.isfinite(high)):
        raise da.SolverError(
            f"bounds must be two numbers 0 < low <= high that enclose the eigenvalues, got "
            f"{shown(bounds)}; leave them out to have them estimated."
        )
    return low, high


def chebyshev(
    operator: Operator,
    rhs: da.DistArray,
    x0: da.DistArray | None = None,
    *,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_iterations: int = 1000,
    preconditioner: Preconditioner | None = None,
    reproducible: bool = False,
    nullspace: str | None = "auto",
    callback: Callback | None = None,
    bounds: Bounds | None = None,
) -> Solution:
    """Solve a symmetric (Hermitian) positive definite system by the Chebyshev iteration.
    Collective.

    Parameters, result and errors are those of `cg`, and

    Parameters
    ----------
    bounds : (low, high), optional
        The least and the largest eigenvalue of the operator; with a preconditioner M, of M A. Of a
        singular operator the least one but zero. Estimated by Lanczos steps where they are not
        given, see `spectrum.estimate`. Eigenvalues above `high` let the iteration diverge; those
        below `low` make it slow.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers.linear import chebyshev
    >>> @da.stencil
    ... def shifted(u, out):
    ...     out[0] = 3.0 * u[0] - u[1] - u[-1]
    >>> b = da.Grid((16,), periodic=True).from_function(lambda x: x)
    >>> chebyshev(shifted, b, bounds=(1.0, 5.0)).converged
    True
    """
    options = Options(
        rtol=rtol,
        atol=atol,
        max_iterations=max_iterations,
        preconditioner=preconditioner,
        reproducible=reproducible,
        nullspace=nullspace,
        callback=callback,
    )
    interval = checked_bounds(bounds)
    return run(System(operator, rhs, x0, options), ChebyshevIteration, bounds=interval)
