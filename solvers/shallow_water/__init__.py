"""Shallow water on one or two axes: dam breaks, floods, shores, rotating lakes.

- `config`      what a flow is made of
- `riemann`     fluxes between two states: HLL, HLLC, Roe
- `equation`    fluxes over a bed that leave water at rest alone and depths positive
- `kernels`     rotation, friction and sums
- `solver`      fields, time steps, files
- `exact`       exact solutions
- `cases`       named flows for the command line
"""

from solvers.shallow_water.config import ShallowWaterConfig
from solvers.shallow_water.solver import ShallowWaterSolver

__all__ = ["ShallowWaterConfig", "ShallowWaterSolver"]
