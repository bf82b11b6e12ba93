"""Burgers' equation in one to three dimensions, with and without viscosity.

- `config`    what a problem is made of, frozen
- `equation`  fluxes
- `solver`    the velocity and its steps
- `exact`     exact solutions
- `cases`     named problems for `python -m solvers`
"""

from solvers.burgers.config import BurgersConfig
from solvers.burgers.solver import BurgersSolver

__all__ = ["BurgersConfig", "BurgersSolver"]
