"""Smoothers: they reduce the errors that a coarser level cannot hold.

Each is a function of a level and a number of sweeps, which leaves the new iterate in `level.u`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from solvers.multigrid import kernels
from solvers.multigrid.hierarchy import Level

Smoother = Callable[[Level, int], None]

#: Relaxation of red-black Gauss-Seidel by the number of axes (Yavneh, I. (1995) Multigrid smoothing
#: factors for red-black Gauss-Seidel relaxation, SIAM J. Numerical Anal. 32, 1126-1138).
RELAXATION = {1: 1.0, 2: 1.05, 3: 1.15}

#: Bound of the eigenvalues of D^-1 A: by Gershgorin's circles, as the rows of A sum up to c >= 0.
LARGEST = 2.0


def red_black(level: Level, sweeps: int, *, omega: float) -> None:
    """Gauss-Seidel on the points of even index sum, then on the others. Collective."""
    discrete = level.discrete
    kernel = kernels.gauss_seidel(discrete.form)
    for _ in range(sweeps):
        kernel(level.u, level.f, *discrete.coefficients, omega=omega)


def chebyshev(level: Level, sweeps: int) -> None:
    """The Chebyshev polynomial of the fourth kind in D^-1 A, of degree `sweeps`: symmetric, and
    without a lower bound of eigenvalues. Collective.

    Lottes, J. (2023) Optimal polynomial smoothers for multigrid V-cycles, Numerical Linear Algebra
    Appl. 30, e2518, algorithm 1.
    """
    kernel = kernels.chebyshev(level.discrete.form)
    for k in range(1, sweeps + 1):
        keep, step = (2.0 * k - 3.0) / (2.0 * k + 1.0), (8.0 * k - 4.0) / (2.0 * k + 1.0) / LARGEST
        _step(level, kernel, 0.0 if k == 1 else keep, step)


def jacobi(level: Level, sweeps: int, *, omega: float) -> None:
    """Jacobi's method, relaxed by omega. Collective."""
    kernel = kernels.chebyshev(level.discrete.form)
    for _ in range(sweeps):
        _step(level, kernel, 0.0, omega)


def _step(level: Level, kernel: Callable[..., None], keep: float, step: float) -> None:
    if level.w is None:
        level.w = level.discrete.zeros()
    kernel(level.u, level.w, level.f, *level.discrete.coefficients, keep=keep, step=step)
    level.u, level.w = level.w, level.u


def smoother(name: str, ndim: int) -> Smoother:
    """The smoother of a name: "red-black", "chebyshev" or "jacobi". Local."""
    if name == "chebyshev":
        return chebyshev
    if name == "jacobi":
        return partial(jacobi, omega=2.0 * ndim / (2.0 * ndim + 1.0))
    return partial(red_black, omega=RELAXATION[ndim])
