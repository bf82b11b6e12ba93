"""Decaying vortices, exact in two dimensions; what two and three axes share."""

from __future__ import annotations

import dataclasses

import numpy as np

import distarray as da
from solvers.case import Case, Options
from solvers.incompressible.cases.common import finish, made, run, show, viscosity_of
from solvers.incompressible.checks import require_cells
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.reference_flows import compare_taylor_green_2d


def taylor_green(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """Decaying vortices in a periodic box of side 2 pi.

    Taylor, G. I., Green, A. E. (1937) Proc. R. Soc. A 158, 499-521. In two dimensions the velocity
    is exact for all times, (cos x sin y, -sin x cos y) exp(-2 nu t).
    """
    require_cells(cells)
    box = ((0.0, 2.0 * np.pi),) * len(cells)
    initial = {
        2: (lambda x, y: np.cos(x) * np.sin(y), lambda x, y: -np.sin(x) * np.cos(y)),
        3: (
            lambda x, y, z: np.sin(x) * np.cos(y) * np.cos(z),
            lambda x, y, z: -np.cos(x) * np.sin(y) * np.cos(z),
            0.0,
        ),
    }[len(cells)]
    return IncompressibleConfig(
        cells=cells, viscosity=viscosity_of(reynolds), bounds=box, periodic=True, initial=initial
    )


def run_taylor_green_2d(options: Options) -> None:
    """Let the vortices decay, print their energy, save, draw and compare. Collective."""
    if len(options.cells) != 2:
        raise da.SolverError(
            f"taylor_green_2d has two axes, received cells={options.cells}; give two numbers, or "
            "run taylor_green_3d."
        )
    until = 1.0 if options.until is None else options.until
    config = taylor_green(options.cells, options.number)
    flow = made(dataclasses.replace(config, advection=options.advection), options, until)
    start, began = flow.kinetic_energy(), flow.time
    run(flow, options, until)
    finish(flow, options.output / "taylor_green_2d")
    end = flow.kinetic_energy()
    da.log(
        f"Kinetic energy per volume {start:.9f} at time {began:g}, {end:.9f} at time {flow.time:g}"
    )
    decay = np.exp(-4.0 * flow.config.viscosity * (flow.time - began))
    da.log(f"Exact at the end {start * decay:.9f}")
    whole = start * np.exp(4.0 * flow.config.viscosity * began)
    show(compare_taylor_green_2d(flow, float(whole)))


CASE = Case(
    "taylor_green_2d",
    "decaying vortices in a periodic square, against the exact decay",
    (64, 64),
    run_taylor_green_2d,
)
