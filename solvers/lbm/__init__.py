"""Nearly incompressible flow by the lattice Boltzmann method, in two and three dimensions.

- `lattice`      sets of velocities: D2Q9, D3Q19, D3Q27
- `collision`    what populations become in a cell: one or two rates, cumulants
- `config`, `checks`   what a flow is made of, frozen, and what it may say
- `surfaces`     walls and obstacles, as links from which populations return
- `sides`        inflows and outflows
- `kernels`      the stencils: one pass that streams and collides
- `solver`       fields and the time step
- `reference`    exact and published values and the comparison with them
- `cases`        named flows for `python -m solvers`
- `bench`        million cell updates a second, beside memory and hand-written C
"""

from solvers.lbm.config import LatticeConfig
from solvers.lbm.solver import LatticeSolver

__all__ = ["LatticeConfig", "LatticeSolver"]
