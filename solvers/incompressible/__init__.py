"""Incompressible flow in two and three dimensions.

- `config`     what a flow is made of, frozen
- `kernels`    the stencils
- `transforms` real transforms that diagonalise the second difference
- `pressure`   the Poisson equation, solved directly with these
- `solver`     fields and the time step
- `reference`  published tables and the comparison with them
- `plot`       pictures; needs matplotlib
- `cases`      named flows for `python -m solvers`
"""

from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.pressure import PressureSolver
from solvers.incompressible.reference import compare_centre_lines
from solvers.incompressible.solver import IncompressibleSolver

__all__ = ["IncompressibleConfig", "IncompressibleSolver", "PressureSolver", "compare_centre_lines"]
