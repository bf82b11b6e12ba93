"""Lid-driven cavity, steady: mpirun -n 8 python examples/cavity.py [--cells 64 64] [--reynolds 100]
[--output cavity]
"""

import argparse
from pathlib import Path

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver, compare_centre_lines
from solvers.incompressible.plot import streamlines

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--cells", type=int, nargs=2, default=(64, 64), metavar=("NX", "NY"))
options.add_argument("--reynolds", type=float, default=100.0)
options.add_argument("--output", type=Path, default=Path("cavity"), metavar="DIR")
chosen = options.parse_args()

# Physics: a unit square of fluid at rest, whose lid moves with unit speed in +x
viscosity = 1.0 / chosen.reynolds
walls = {"y+": (1.0, 0.0)}

# Numerics
config = IncompressibleConfig(cells=tuple(chosen.cells), viscosity=viscosity, walls=walls)

# Fields
flow = IncompressibleSolver(config)

# Time loop: until max |du/dt| < 1e-5
flow.run(steady=1e-5, progress=True)

comparison = compare_centre_lines(flow)
if comparison is not None:
    da.log(comparison.text())
da.log("Largest divergence", flow.max_divergence())
chosen.output.mkdir(parents=True, exist_ok=True)
flow.save(chosen.output / "cavity.h5")
drawn = streamlines(flow, chosen.output / "cavity.png")
picture = "and cavity.png" if drawn else "but no picture: pip install matplotlib"
da.log("Wrote", chosen.output / "cavity.h5", picture)
