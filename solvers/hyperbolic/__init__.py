"""What solvers of hyperbolic equations share: the numerics of cells, faces and time steps.

- `limiters`        slopes of cells
- `reconstruction`  values on faces: upwind, MUSCL, WENO
- `riemann`         fluxes from the states on both sides of a face
- `integrators`     strong-stability-preserving Runge-Kutta schemes
- `stability`       Courant numbers up to which pairs of these are stable
- `kernels`         an equation, as one cell sees it, and the kernels made of it
- `solver`          conservation laws that advance by steps whose length follows the state
- `config`          boxes of cells and schemes, as a frozen description
- `errors`          distances from exact solutions, for tables
"""

from solvers.hyperbolic.integrators import INTEGRATORS, Integrator, Stage, integrator
from solvers.hyperbolic.kernels import Cell, Equation, beside, moved, total
from solvers.hyperbolic.limiters import LIMITERS
from solvers.hyperbolic.reconstruction import (
    RECONSTRUCTIONS,
    Reconstruction,
    reconstruction,
)
from solvers.hyperbolic.solver import ConservationLaw

__all__ = [
    "INTEGRATORS",
    "LIMITERS",
    "RECONSTRUCTIONS",
    "Cell",
    "ConservationLaw",
    "Equation",
    "Integrator",
    "Reconstruction",
    "Stage",
    "beside",
    "integrator",
    "moved",
    "reconstruction",
    "total",
]
