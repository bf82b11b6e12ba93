"""Geometric multigrid for `-div(a grad u) + c u = f`, as a solver and as a preconditioner.

- `weights`    one axis: couplings, and what goes where between an axis and the coarser one
- `kernels`    the stencils of all levels
- `discrete`   the operator on one grid, as kernels take it
- `transfer`   restriction and prolongation, axis by axis; coarser operators
- `hierarchy`  the levels, the ranks that hold them, and the direct solution on the last
- `smoothers`  red-black Gauss-Seidel, Chebyshev, Jacobi
- `operator`   `EllipticOperator`: coefficients and conditions
- `history`    residuals, and when to end
- `accelerate` conjugate gradients around cycles
- `solver`     `Multigrid`: cycles
- `npb`        the kernel MG of the NAS Parallel Benchmarks
- `bench`      cycles and seconds for cubes: `python -m solvers.multigrid.bench`
"""

from solvers.multigrid.operator import EllipticOperator
from solvers.multigrid.solver import Multigrid

__all__ = ["EllipticOperator", "Multigrid"]
