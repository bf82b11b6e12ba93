"""Compressible flow of an ideal gas: the Euler and Navier-Stokes equations on uniform grids.

- `gas`       states of an ideal gas
- `riemann`   fluxes between two states
- `scheme`    the numerics by their names
- `faces`     what flows through a face
- `mirror`    solid cells
- `viscous`   stresses and heat
- `equation`  the equations as one cell sees them
- `sides`     walls, inflow, outflow
- `config`    what a flow is made of
- `solver`    a flow that advances in time
- `exact`     flows with known solutions
"""

from solvers.euler.config import EulerConfig
from solvers.euler.sides import Inflow, Outflow, Split, Wall
from solvers.euler.solver import EulerSolver

__all__ = ["EulerConfig", "EulerSolver", "Inflow", "Outflow", "Split", "Wall"]
