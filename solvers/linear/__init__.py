"""Iterative solvers of linear systems on distributed arrays; the matrix is a function.

- `solution`   what every solver returns
- `vectors`    arrays like the iterate, with homogeneous conditions
- `inputs`     options, right-hand sides and first guesses, checked; other solvers do so too
- `kernels`    the passes over memory, fused
- `nullspace`  constants that an operator maps to zero
- `system`     the options of the methods, the iterate and its residual
- `method`     the loop, and the reasons to stop
- `spectrum`   bounds of eigenvalues, for `chebyshev`
- `cg`, `pipelined`, `bicgstab`, `chebyshev`   the methods
- `solver`     `LinearSolver`: many solutions with one operator, by vectors that are kept

All methods are called alike: `cg(operator, rhs, x0, rtol=1e-8, ...)`, see `cg`; `solve` takes the
name of one, as `LinearSolver` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distarray as da
from solvers.box import shown
from solvers.linear.bicgstab import bicgstab
from solvers.linear.cg import cg
from solvers.linear.chebyshev import chebyshev
from solvers.linear.pipelined import pipelined_cg
from solvers.linear.solution import Solution
from solvers.linear.solver import LinearSolver
from solvers.linear.system import Operator, Preconditioner

__all__ = [
    "METHODS",
    "LinearSolver",
    "Operator",
    "Preconditioner",
    "Solution",
    "bicgstab",
    "cg",
    "chebyshev",
    "pipelined_cg",
    "solve",
]

#: Methods by the names that `solve` takes.
METHODS: dict[str, Callable[..., Solution]] = {
    "cg": cg,
    "pipelined_cg": pipelined_cg,
    "bicgstab": bicgstab,
    "chebyshev": chebyshev,
}


def solve(
    operator: Operator,
    rhs: da.DistArray,
    x0: da.DistArray | None = None,
    *,
    method: str = "cg",
    **options: Any,
) -> Solution:
    """Solve `A x = b` by the method of this name; options are those of the method, see `cg`.
    Collective.

    Raises
    ------
    SolverError
        There is no such method; or as the method.

    Examples
    --------
    >>> import distarray as da
    >>> from solvers import linear
    >>> @da.stencil
    ... def shifted(u, out):
    ...     out[0] = 3.0 * u[0] - u[1] - u[-1]
    >>> b = da.Grid((16,), periodic=True).from_function(lambda x: x)
    >>> linear.solve(shifted, b, method="bicgstab", rtol=1e-10).converged
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise da.SolverError(
            f"There is no method {shown(method)}; choose one of {', '.join(METHODS)}."
        )
    return METHODS[method](operator, rhs, x0, **options)
