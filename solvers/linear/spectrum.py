"""The ends of the spectrum of a positive definite operator, by Lanczos steps.

The coefficients of conjugate gradients make the tridiagonal matrix whose eigenvalues approach those
of the (preconditioned) operator from within: Golub, G. H., Van Loan, C. F. (2013) Matrix
Computations, 4th ed., section 11.3; Saad, Y. (2003), section 6.7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import distarray as da
from solvers.linear import kernels
from solvers.linear.system import System

#: Estimates are looked at every so many steps, and taken when both have moved by less than this.
_EVERY, _SETTLED = 5, 0.02

#: By how much the interval of the estimates is widened.
_LOWER, _UPPER = 0.9, 1.05


def estimate(system: System, most: int = 100) -> tuple[float, float]:
    """An interval for the eigenvalues of `A`, or of `M A` with a preconditioner M. Collective.

    Parameters
    ----------
    most : int
        Most steps, each an application of the operator. Fewer are made where the estimates settle.

    Raises
    ------
    SolverError
        The operator or the preconditioner is not positive definite.
    """
    alphas: list[float] = []
    betas: list[float] = []
    found = (math.inf, 0.0)
    for alpha, beta in _coefficients(system, most):
        alphas.append(alpha)
        betas.append(beta)
        if len(alphas) % _EVERY == 0:
            before, found = found, _extremes(alphas, betas)
            if all(abs(b - a) <= _SETTLED * b for a, b in zip(before, found, strict=True)):
                break
    low, high = _extremes(alphas, betas)
    return _LOWER * low, _UPPER * high


def _coefficients(system: System, most: int) -> Any:
    """The alpha and beta of each step of conjugate gradients that starts from a rough vector."""
    x, r, p, q = (system.vector() for _ in range(4))
    z = system.vector() if system.preconditioned else r
    components: dict[str, Any] = {"components": system.components}
    kernels.probe(r, **components)
    system.project(r)
    system.precondition(r, z)
    first = rz = float(system.inner(r, z))
    previous = math.inf  # beta is 0
    for _ in range(most):
        kernels.turn(x, p, z, rz_old=previous, pq=0.0, rz=rz, **components)
        system.apply(p, q)
        pq = float(system.inner(p, q))
        if not (rz > 0.0 and pq > 0.0 and math.isfinite(pq)):
            raise da.SolverError(
                f"Chebyshev needs a positive definite operator and preconditioner, but (r, M r) is "
                f"{rz:.3g} and (p, A p) {pq:.3g}; use bicgstab."
            )
        kernels.descend(r, q, rz=rz, pq=pq, **system.static)
        system.precondition(r, z)
        previous, rz = rz, float(system.inner(r, z))
        yield previous / pq, rz / previous
        if rz <= system.rounding**2 * first:
            return


def _extremes(alphas: list[float], betas: list[float]) -> tuple[float, float]:
    """The least and the largest eigenvalue of the tridiagonal matrix."""
    inverse = 1.0 / np.array(alphas)
    off = np.sqrt(betas[:-1]) * inverse[:-1]
    inverse[1:] += np.array(betas[:-1]) * inverse[:-1]
    matrix = np.diag(inverse) + np.diag(off, 1) + np.diag(off, -1)
    values = np.linalg.eigvalsh(matrix)
    return float(values[0]), float(values[-1])
