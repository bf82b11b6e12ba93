"""Incompressible flow in two and three dimensions.

- `config`, `checks`  what a flow is made of, frozen, and what it may say
- `metrics`           widths of cells; kernels for any number of axes
- `advection`         fluxes of momentum
- `kernels`           the stencils
- `sides`, `outflow`, `forcing`   what happens at the sides of the box, and what drives the flow
- `parts`             how everything else plugs into a step
- `shapes`, `immersed`   solid bodies
- `scalar`            a scalar and its buoyancy
- `les`               eddy viscosity
- `statistics`        means, rms, spectra, enstrophy, dissipation
- `schemes`, `implicit`   the schemes in time
- `pressure`          the Poisson equation, directly or by multigrid
- `solver`            fields and the time step
- `reference`, `reference_flows`   published values and the comparison with them
- `plot`              pictures; needs matplotlib
- `cases`             named flows for `python -m solvers`
"""

from solvers.comparison import Comparison
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.immersed import Obstacle, turning
from solvers.incompressible.les import Smagorinsky
from solvers.incompressible.pressure import PressureSolver
from solvers.incompressible.reference import compare_centre_lines
from solvers.incompressible.scalar import Scalar
from solvers.incompressible.solver import IncompressibleSolver
from solvers.incompressible.statistics import Statistics

__all__ = [
    "Comparison",
    "IncompressibleConfig",
    "IncompressibleSolver",
    "Obstacle",
    "PressureSolver",
    "Scalar",
    "Smagorinsky",
    "Statistics",
    "compare_centre_lines",
    "turning",
]
