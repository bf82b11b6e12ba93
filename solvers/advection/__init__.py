"""Linear transport in one to three dimensions.

- `config`    what it is made of, frozen
- `equation`  fluxes: upwind, limited slopes, WENO, corner transport; positivity
- `solver`    the density and its steps
- `exact`     profiles, and what becomes of them
- `cases`     named problems for `python -m solvers`
"""

from solvers.advection.config import AdvectionConfig
from solvers.advection.solver import AdvectionSolver

__all__ = ["AdvectionConfig", "AdvectionSolver"]
