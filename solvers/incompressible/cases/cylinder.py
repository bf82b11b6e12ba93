"""A cylinder in a channel, the benchmarks 2D-1 (steady) and 2D-2 (shedding vortices).

Schafer, M., Turek, S. (1996) Notes Numer. Fluid Mech. 52, 547-566: a channel of 2.2 x 0.41 with the
cylinder of diameter 0.1 at (0.2, 0.2), a parabola as inflow, viscosity 1e-3.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import distarray as da
from solvers.case import Case, Options
from solvers.comparison import Comparison
from solvers.incompressible.cases.common import finish, made, run, show
from solvers.incompressible.checks import require_cells
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.immersed import ImmersedBoundary, Obstacle
from solvers.incompressible.parts import Part, Velocity
from solvers.incompressible.reference_flows import (
    compare_shedding_cylinder,
    compare_steady_cylinder,
)
from solvers.incompressible.shapes import Circle
from solvers.incompressible.solver import IncompressibleSolver

LENGTH, HEIGHT, DIAMETER, VISCOSITY = 2.2, 0.41, 0.1, 1e-3
CENTRE = (0.2, 0.2)
#: Cells are square up to this distance from the inflow.
SQUARE = 0.5
#: Above this Reynolds number the flow sheds vortices (about 47 without walls).
SHEDDING = 47.0
#: When the flow has become steady, below that number, or shed enough vortices to be compared.
END = 8.0


@dataclasses.dataclass(frozen=True)
class Inflow:
    """The parabola of a mean velocity."""

    mean: float

    def __call__(self, t: float, x: Any, y: Any) -> Any:
        return 6.0 * self.mean * y * (HEIGHT - y) / HEIGHT**2 + 0.0 * x


def cylinder(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """The channel at Re = U D / nu, U the mean velocity: 20 and 100 are the benchmarks.

    At 20, drag and pressure are right with 20 cells across the cylinder, cells=(220, 82). At 100
    drag and frequency are, but the lift is 18 % too small: the boundary layer at the front is two
    cells thick. That falls with the square of the spacing, below 5 % with 50, cells=(400, 205).
    """
    require_cells(cells)
    if not 0.0 < reynolds < math.inf or len(cells) != 2:
        raise da.SolverError(
            f"The cylinder has a Reynolds number above 0 and two axes, received {reynolds} and "
            f"cells={cells}; give others."
        )
    inflow = Inflow(reynolds * VISCOSITY / DIAMETER)
    # A disturbance, so that vortices are shed early; a steady flow forgets it.
    stir = 0.3 * inflow.mean if reynolds > SHEDDING else 0.0
    return IncompressibleConfig(
        cells=cells,
        viscosity=VISCOSITY,
        bounds=((0.0, LENGTH), (0.0, HEIGHT)),
        coordinates={"x": stations(cells)},
        inflow={"x-": (inflow, 0.0)},
        outflow=("x+",),
        initial=(
            lambda x, y: inflow(0.0, x, y),
            lambda x, y: stir * np.exp(-(((x - 0.35) ** 2 + (y - 0.2) ** 2) / 0.05**2)),
        ),
        obstacles=(Obstacle(Circle(CENTRE, 0.5 * DIAMETER)),),
        measure_every=5,
    )


def stations(cells: tuple[int, ...]) -> Any:
    """Faces along the channel: square cells up to `SQUARE`, then each by the same factor wider.

    Raises
    ------
    SolverError
        The cells do not reach the end with a factor near 1.
    """
    width = HEIGHT / cells[1]
    fine = max(round(SQUARE / width), 1)
    rest, length = cells[0] - fine, LENGTH - fine * width

    def reached(factor: float) -> float:
        return float(width * np.sum(factor ** np.arange(1, rest + 1)))

    low, high = 0.9, 1.2
    if rest < 1 or not reached(low) < length < reached(high):
        raise da.SolverError(
            f"{cells[0]} cells along the channel do not fit {cells[1]} across it; give about "
            f"{round(fine + 0.35 * length / width)}."
        )
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reached(middle) < length else (low, middle)
    steps = width * low ** np.arange(1, rest + 1)
    tail = fine * width + np.cumsum(steps) * (length / steps.sum())
    tail[-1] = LENGTH
    return np.concatenate([width * np.arange(fine + 1), tail])


class Forces(Part):
    """The coefficients of drag and lift and the pressure difference after every step. Collective.

    Attributes
    ----------
    rows : list of (time, drag, lift, pressure difference)
    """

    def __init__(self, flow: IncompressibleSolver) -> None:
        self._body = next(p for p in flow.parts if isinstance(p, ImmersedBoundary))
        inflow: Any = flow.config.inflow["x-"][0]
        self._scale = 2.0 / (inflow.mean**2 * DIAMETER)
        self.rows: list[tuple[float, float, float, float]] = []

    def finish(self, velocity: Velocity, pressure: da.DistArray, *, time: float, dt: float) -> None:
        drag, lift = self._body.forces(velocity, pressure)[0]
        x, y = CENTRE
        ends = [(x - 0.5 * DIAMETER, y), (x + 0.5 * DIAMETER, y)]
        front, back = self._body.surface_pressure(pressure, ends)
        self.rows.append((time, self._scale * drag, self._scale * lift, float(front - back)))

    def scalars(self) -> dict[str, float]:
        _, drag, lift, pressure = self.rows[-1] if self.rows else (0.0,) * 4
        return {"drag": drag, "lift": lift, "pressure_difference": pressure}


def run_cylinder(options: Options) -> None:
    """Run until the time (8 by default), save, draw and compare. Collective."""
    flow, forces = ran(options)
    finish(flow, options.output / "cylinder")
    show(compared(options, forces), why_not_compared(options, forces))
    if options.number == 20.0 and flow.time < END:
        da.log(f"Not steady before time {END:g}: the table holds for the steady flow.")


def ran(options: Options) -> tuple[IncompressibleSolver, Forces]:
    """The flow after a run, and its forces. Collective."""
    config = cylinder(options.cells, options.number)
    until = END if options.until is None else options.until
    found: dict[str, Forces] = {}

    def prepare(flow: IncompressibleSolver) -> None:
        found["forces"] = Forces(flow)
        flow.add(found["forces"])

    flow = made(dataclasses.replace(config, advection=options.advection), options, until, prepare)
    run(flow, options, until)
    return flow, found["forces"]


def compared(options: Options, forces: Forces) -> Comparison | None:
    """The forces beside the benchmark of the Reynolds number, if there is one. Local."""
    rows, across = forces.rows, DIAMETER * options.cells[1] / HEIGHT
    if options.number == 20.0 and rows:
        table = compare_steady_cylinder(*rows[-1][1:], across)
        return table if options.until is None or options.until >= END else table.ungated()
    if options.number == 100.0 and rows:
        return compare_shedding_cylinder(rows, across)
    return None


def why_not_compared(options: Options, forces: Forces) -> str:
    """What a user is told of a cylinder without a comparison. Local."""
    if options.number not in (20.0, 100.0):
        return (
            f"No comparison: the benchmarks are of the Reynolds numbers 20 and 100, not of "
            f"{options.number:g}."
        )
    if not forces.rows:
        return "No comparison: no step was made, and forces are recorded after each."
    return (
        f"No comparison: fewer than two periods since the step to time {forces.rows[0][0]:g}, with "
        "which the records of forces begin."
    )


CASE = Case(
    "cylinder",
    "cylinder in a channel, --reynolds 20 (steady) or 100 (vortices), against benchmarks",
    (264, 123),
    run_cylinder,
    number=20.0,
)
