"""Air in a square cavity with one hot and one cold wall.

de Vahl Davis, G. (1983) Int. J. Numer. Methods Fluids 3, 249-264. Lengths are in sides of the
square, velocities in diffusivity / side, temperatures in differences of the walls.
"""

from __future__ import annotations

import dataclasses
import math

import distarray as da
from solvers.case import Case, Options
from solvers.comparison import Comparison
from solvers.incompressible.cases.common import finish, made, run, show_steady
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.reference_flows import compare_natural_convection
from solvers.incompressible.scalar import Scalar, ScalarTransport
from solvers.incompressible.solver import IncompressibleSolver

PRANDTL = 0.71


def natural_convection(cells: tuple[int, ...], rayleigh: float) -> IncompressibleConfig:
    """The square, hot at x = 0, cold at x = 1, with insulated floor and lid."""
    if not 0.0 < rayleigh < math.inf or len(cells) != 2:
        raise da.SolverError(
            f"The heated cavity has a Rayleigh number above 0 and two axes, received {rayleigh} "
            f"and cells={cells}; give others."
        )
    return IncompressibleConfig(
        cells=cells,
        viscosity=PRANDTL,
        initial=(0.0, 0.0),
        scalar=Scalar(
            1.0,
            initial=lambda x, y: 1.0 - x + 0.0 * y,
            boundary={"x-": da.Dirichlet(1.0), "x+": da.Dirichlet(0.0)},
            buoyancy=(0.0, rayleigh * PRANDTL),
            reference=0.5,
        ),
    )


def run_natural_convection(options: Options) -> None:
    """March until steady, save, draw and compare. Collective."""
    flow = ran(options)
    finish(flow, options.output / "natural_convection")
    show_steady(
        flow,
        steady(options.number),
        compared(options, flow),
        otherwise="No comparison: the published Rayleigh numbers are 1e3, 1e4 and 1e6.",
    )


def steady(rayleigh: float) -> float:
    """Largest |du/dt| of a flow that is steady to 1e-5 or so: velocities are of the order of
    sqrt(Ra Pr) / 4 and the slowest mode decays by exp(-10 t) or faster.
    """
    return 1e-4 * 0.25 * math.sqrt(rayleigh * PRANDTL)


def ran(options: Options) -> IncompressibleSolver:
    """The flow after a run. Collective."""
    config = natural_convection(options.cells, options.number)
    flow = made(dataclasses.replace(config, advection=options.advection), options, options.until)
    end = steady(options.number) if options.until is None else None
    run(flow, options, options.until, steady=end)
    return flow


def compared(options: Options, flow: IncompressibleSolver) -> Comparison | None:
    """The flow beside the benchmark of the Rayleigh number, if there is one. Collective."""
    scalar = next(part for part in flow.parts if isinstance(part, ScalarTransport))
    return compare_natural_convection(flow, scalar, options.number)


CASE = Case(
    "natural_convection",
    "air between a hot and a cold wall, --rayleigh 1e3 to 1e6, against a benchmark",
    (64, 64),
    run_natural_convection,
    number=1e4,
    number_name="rayleigh",
    number_help="Rayleigh number",
)
