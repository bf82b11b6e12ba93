"""Acoustic waves, `p_tt / c^2 - lap p = s`, in one to three dimensions.

- `config`        what a wave is made of
- `solver`        leap-frog steps, energy, files
- `kernels`       the stencils
- `coefficients`  central differences of the orders 2 to 16
- `layers`        what absorbs waves at the sides
- `positions`     sources and receivers between the cells
- `wavelets`      how sources vary with time
- `traces`        what receivers recorded
- `exact`         standing modes, point sources
- `plot`          shot records
- `cases`         named waves of the command line
"""

from solvers.wave.config import Source, WaveConfig
from solvers.wave.solver import WaveSolver
from solvers.wave.wavelets import Ricker, Sampled

__all__ = ["Ricker", "Sampled", "Source", "WaveConfig", "WaveSolver"]
