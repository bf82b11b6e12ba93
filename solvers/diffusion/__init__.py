"""Diffusion, `du/dt = div(D grad u) + q`, in one to three dimensions.

- `config`   what it is made of
- `solver`   steps, explicit or by multigrid
- `schemes`  in time: explicit Euler, Crank-Nicolson, TR-BDF2, SDIRK2, backward Euler
- `kernels`  fluxes through faces
- `exact`    modes and Gaussians
- `cases`    named problems of the command line
"""

from solvers.diffusion.config import DiffusionConfig
from solvers.diffusion.solver import DiffusionSolver

__all__ = ["DiffusionConfig", "DiffusionSolver"]
