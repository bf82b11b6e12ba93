"""What solvers of hyperbolic equations share: the numerics of cells, faces and time steps.

- `limiters`        slopes of cells
- `reconstruction`  values on faces: upwind, MUSCL, WENO
- `riemann`         fluxes from the states on both sides of a face
- `integrators`     strong-stability-preserving Runge-Kutta schemes
"""

from solvers.hyperbolic.integrators import INTEGRATORS, Integrator, Stage, integrator
from solvers.hyperbolic.limiters import LIMITERS
from solvers.hyperbolic.reconstruction import (
    RECONSTRUCTIONS,
    Reconstruction,
    reconstruction,
)

__all__ = [
    "INTEGRATORS",
    "LIMITERS",
    "RECONSTRUCTIONS",
    "Integrator",
    "Reconstruction",
    "Stage",
    "integrator",
    "reconstruction",
]
