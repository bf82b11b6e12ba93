"""A program that leaves the C texts of a sample of solvers in the folder that
DISTARRAY_RECORD_KERNELS names; with DISTARRAY_EXECUTOR=numpy nothing is compiled.
"""

from __future__ import annotations

import sys

from solvers.__main__ import main

#: Fluxes with divisions, roots and choices; many populations; wide stencils; plain ones.
SAMPLE = (
    "sod --cells 24 --until 0.01",
    "dam_break --cells 24 --until 0.01",
    "lbm_taylor_green --cells 8 8 --until 0.05",
    "heat_mode --cells 8 8 8 --until 0.0001",
    "wave_mode --cells 16 16 16 --until 0.01",
    "burgers --cells 32 --until 0.01",
)
#: With the sample, every equation and every choice of its scheme.
OTHERS = (
    *(
        f"vortex --cells 12 12 --until 0.01 --riemann {riemann} --scheme {scheme}"
        for riemann in ("hllc", "hll", "rusanov", "exact")
        for scheme in ("muscl", "weno5", "weno_z")
    ),
    "thacker --cells 12 12 --until 0.01",
    "lbm_taylor_green --cells 8 8 8 --until 0.05",
    "advection --cells 16 16 --until 0.01",
    "cavity --cells 8 8 --until 0.01",
    *(f"sod --cells 24 --until 0.01 --limiter {limiter}" for limiter in ("minmod", "mc")),
    "double_mach --cells 24 8 --until 0.001",
    "lbm_cavity --cells 12 12 --until 0.1",
    "lbm_cylinder --cells 44 --until 0.1",
    "lbm_poiseuille --cells 8 8 --until 0.1",
    "natural_convection --cells 8 8 --until 0.001",
    "channel --cells 8 8 8 --until 0.01",
    "poisson --cells 16 16",
    "bump --cells 24 --until 0.01",
    "heat_gaussian --cells 16 16 --until 0.0001",
    "burgers_2d --cells 12 12 --until 0.01",
    "wave_source --cells 24 24 --until 0.01",
    "shot --cells 24 24 --until 0.01",
    "turning_disc --cells 12 12 --until 0.01",
)

if __name__ == "__main__":
    output, *chosen = sys.argv[1:]
    for line in {"sample": SAMPLE, "others": OTHERS}[chosen[0]]:
        code = main([*line.split(), "--output", output])
        if code:
            sys.exit(f"{line} ended with code {code}")
