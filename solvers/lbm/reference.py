"""Flows beside what is known of them: exact solutions, published values."""

from __future__ import annotations

import math

import numpy as np

from solvers import box
from solvers.box import Floats
from solvers.comparison import Comparison, Row, relative
from solvers.incompressible.reference import POINTS, interpolate, published_table, read_table
from solvers.lbm.solver import LatticeSolver

#: Largest deviation of centre lines of the cavity, by Reynolds number and cells per axis.
CAVITY_GATES = {100: {128: 0.01}, 400: {128: 0.012}, 1000: {256: 0.03}}
#: Share by which the drag may differ from the benchmark with 20 cells across the cylinder.
DRAG_GATE, DRAG_CELLS = 0.03, 20.0
#: Largest deviation from the parabola, as a share of its height: two rates with the number 3/16 put
#: walls where they should be; others miss them by a part of a cell that grows with tau.
PARABOLA_GATES = {"trt": 1e-7, "bgk": 0.006, "cumulant": 0.006}


def centres(flow: LatticeSolver, axis: int) -> Floats:
    """Positions of the cells along an axis, on every rank. Local."""
    return box.centres(flow.grid)[axis]


def centre_line(flow: LatticeSolver, component: int) -> tuple[Floats, Floats]:
    """Positions and values of velocity component 0 or 1 of a 2-D flow along the middle of the box
    across it, the walls at both ends included. Collective.
    """
    along = 1 - component
    u = np.moveaxis(flow.velocity()[component].gather(), along, 0)
    across, middle = centres(flow, component), 0.5 * sum(flow.grid.bounds[component])
    values = [interpolate(across, line, middle) for line in u.astype(np.float64)]
    ends = [flow.config.walls.get("xy"[along] + end, (0.0, 0.0))[component] for end in "-+"]
    low, high = flow.grid.bounds[along]
    positions = np.concatenate(([low], centres(flow, along), [high]))
    return positions, np.array([ends[0], *values, ends[1]])


def compare_cavity(flow: LatticeSolver) -> Comparison | None:
    """The centre lines of a unit square whose lid alone moves, with speed 1, beside the best
    published table; None for a Reynolds number without one, or fewer cells than interpolation
    reads. Collective.
    """
    reynolds = round(1.0 / flow.config.viscosity, 9)
    table = published_table(reynolds)
    if table is None or flow.config.ndim != 2 or min(flow.config.cells) < POINTS:
        return None
    gates = CAVITY_GATES.get(int(reynolds), {})
    fitting = [cells for cells in gates if cells <= min(flow.config.cells)]
    gate = gates[max(fitting)] if fitting else None
    lines = [centre_line(flow, component) for component in (0, 1)]
    rows = tuple(
        Row(f"{('u(1/2, y)', 'v(x, 1/2)')[c]} {at:.4f}", interpolate(*lines[c], at), value, gate)
        for c, at, value in table.rows
    )
    return Comparison(table.source, rows, groups=("u", "v"))


def compare_poiseuille(flow: LatticeSolver, force: float) -> Comparison:
    """The steady flow between walls at y, driven by a force along x, beside the parabola.
    Collective.
    """
    low, high = flow.grid.bounds[1]
    y = centres(flow, 1)
    exact = force * (y - low) * (high - y) / (2.0 * flow.config.viscosity)
    u = flow.velocity()[0].gather().mean(axis=0)
    gate = PARABOLA_GATES[flow.config.collision] * float(exact.max())
    chosen = np.unique(np.linspace(0, len(y) - 1, 9).round().astype(int))
    rows = tuple(Row(f"u at y = {y[k]:.4f}", float(u[k]), float(exact[k]), gate) for k in chosen)
    return Comparison("the parabola of Poiseuille", rows)


def compare_taylor_green(flow: LatticeSolver, start: float) -> Comparison:
    """The kinetic energy of decaying vortices in a box of side 2 pi beside `exp(-4 nu t)`; `start`
    is the energy at time 0. Collective.
    """
    nu, time = flow.config.viscosity, flow.time
    exact = start * math.exp(-4.0 * nu * time)
    # Of second order in the width of the cells and in the Mach number, with factors of order 1.
    share = (2.0 * math.pi / min(flow.config.cells)) ** 2 + flow.config.mach**2
    largest = float(abs(flow.velocity()[0]).max())
    return Comparison(
        "the exact decay of Taylor and Green",
        (
            relative(f"energy, t = {time:g}", flow.scalars()["energy"], exact, share),
            relative(f"largest u, t = {time:g}", largest, math.exp(-2.0 * nu * time), share),
        ),
    )


def compare_cylinder(
    drag: float, lift: float, pressure: float, diameter_cells: float
) -> Comparison:
    """Benchmark 2D-1 of Schafer and Turek, Re = 20: the coefficients 2 F / (U^2 D), and the
    pressure difference between front and back. Local.
    """
    known = {
        row["quantity"]: 0.5 * (float(row["lower"]) + float(row["upper"]))
        for row in read_table("schafer_turek.csv")
        if row["kind"] == "later" and row["case"] == "2D-1"
    }
    fine = diameter_cells >= DRAG_CELLS - 1e-9
    return Comparison(
        "Nabh (1998), benchmark 2D-1 of Schafer and Turek, Re = 20",
        (
            relative("drag coefficient", drag, known["cd"], DRAG_GATE if fine else None),
            relative("lift coefficient", lift, known["cl"], None),
            relative("pressure difference", pressure, known["dp"], None),
        ),
    )
