"""Flows of the command line: a channel, a cavity, decaying vortices, a cylinder in a channel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.case import RUNS, Case, Choice, Options
from solvers.comparison import Comparison
from solvers.incompressible.shapes import Circle
from solvers.lbm.collision import COLLISIONS
from solvers.lbm.config import LatticeConfig
from solvers.lbm.reference import (
    centres,
    compare_cavity,
    compare_cylinder,
    compare_poiseuille,
    compare_taylor_green,
)
from solvers.lbm.solver import LatticeSolver
from solvers.plot import draw
from solvers.running import begin, finish, run, show, show_steady

#: Largest |du/dt| of a steady flow, in speed^2 / length.
STEADY = 1e-5
#: The channel with a cylinder: Schafer, M., Turek, S. (1996) Notes Numer. Fluid Mech. 52, 547-566.
HEIGHT, DIAMETER, VISCOSITY = 0.41, 0.1, 1e-3
CENTRE = (0.2, 0.2)
BODY = "cylinder"


def poiseuille(cells: tuple[int, ...], reynolds: float, **options: Any) -> LatticeConfig:
    """A channel of height 1 between walls at y, in which a force drives a parabola of height 1."""
    _require("channel", cells, reynolds)
    viscosity = 1.0 / reynolds
    return LatticeConfig(
        cells=cells,
        viscosity=viscosity,
        bounds=((0.0, cells[0] / cells[1]), (0.0, 1.0)),
        periodic=(True, False),
        force=(8.0 * viscosity, 0.0),
        **options,
    )


def cavity(cells: tuple[int, ...], reynolds: float, **options: Any) -> LatticeConfig:
    """A unit square whose wall at y = 1 moves with unit speed in +x."""
    _require("cavity", cells, reynolds)
    return LatticeConfig(cells=cells, viscosity=1.0 / reynolds, walls={"y+": (1.0, 0.0)}, **options)


def taylor_green(cells: tuple[int, ...], reynolds: float, **options: Any) -> LatticeConfig:
    """Decaying vortices in a periodic square of side 2 pi, the same for all z where there are three
    axes: (cos x sin y, -sin x cos y) exp(-2 nu t) (Taylor, G. I., Green, A. E. 1937).
    """
    _require("box of vortices", cells, reynolds, axes=(2, 3))
    width = 2.0 * math.pi / cells[0]
    return LatticeConfig(
        cells=cells,
        viscosity=1.0 / reynolds,
        bounds=tuple((0.0, width * n) for n in cells),
        periodic=True,
        initial=(
            lambda x, y, *z: np.cos(x) * np.sin(y),
            lambda x, y, *z: -np.sin(x) * np.cos(y),
            0.0,
        )[: len(cells)],
        pressure=lambda x, y, *z: -0.25 * (np.cos(2.0 * x) + np.cos(2.0 * y)),
        **options,
    )


def cylinder(cells: tuple[int, ...], reynolds: float, **options: Any) -> LatticeConfig:
    """The channel at Re = U D / nu, U the mean velocity of a parabola: 20 is the benchmark. The
    cells across fix their width; the channel is as long as those along it say.
    """
    _require("channel", cells, reynolds)
    mean, width = reynolds * VISCOSITY / DIAMETER, HEIGHT / cells[1]
    if width > 0.5 * DIAMETER or cells[0] * width < 2.0 * CENTRE[0]:
        raise da.SolverError(
            f"The channel has at least 9 cells across and is at least {2.0 * CENTRE[0]:g} long, "
            f"received cells={cells}, which make it {cells[0] * width:g} long; give more."
        )

    def parabola(*place: Any) -> Any:
        x, y = place[-2:]
        return 6.0 * mean * y * (HEIGHT - y) / HEIGHT**2 + 0.0 * x

    settings = {"measure_every": 10} | options
    return LatticeConfig(
        cells=cells,
        viscosity=VISCOSITY,
        speed=1.5 * mean,
        bounds=((0.0, cells[0] * width), (0.0, HEIGHT)),
        inflow={"x-": (parabola, 0.0)},
        outflow={"x+": 0.0},
        obstacles={BODY: Circle(CENTRE, 0.5 * DIAMETER)},
        forces=(BODY,),
        initial=(parabola, 0.0),
        **settings,
    )


def cylinder_coefficients(flow: LatticeSolver) -> tuple[float, float, float]:
    """Drag and lift coefficients of the last measured step, and the pressure difference between
    front and back of the cylinder. Collective.
    """
    config = flow.config
    mean = config.speed / 1.5
    drag, lift = (2.0 * f / (mean**2 * DIAMETER) for f in flow.forces()[BODY])
    pressure = flow.pressure().gather().astype(np.float64)
    x, y = centres(flow, 0), centres(flow, 1)
    row = int(np.searchsorted(y, CENTRE[1]))
    share = (CENTRE[1] - y[row - 1]) / (y[row] - y[row - 1])
    line = (1.0 - share) * pressure[:, row - 1] + share * pressure[:, row]
    # The nearest two columns that are fluid in both rows, continued to the surface.
    ends = [CENTRE[0] - 0.5 * DIAMETER, CENTRE[0] + 0.5 * DIAMETER]
    front = int(np.searchsorted(x, ends[0])) - 1
    back = int(np.searchsorted(x, ends[1]))
    found = []
    for end, (near, far) in zip(ends, ((front, front - 1), (back, back + 1)), strict=True):
        slope = (line[near] - line[far]) / (x[near] - x[far])
        found.append(float(line[near] + slope * (end - x[near])))
    return drag, lift, found[0] - found[1]


def _require(what: str, cells: tuple[int, ...], reynolds: float, axes: Any = (2,)) -> None:
    if not 0.0 < reynolds < math.inf or len(cells) not in axes:
        raise da.SolverError(
            f"The {what} has a Reynolds number above 0 and {' or '.join(map(str, axes))} axes, "
            f"received {reynolds} and cells={cells}; give others."
        )


# ---- the cases


def _ran(
    name: str,
    config: LatticeConfig,
    options: Options,
    until: float | None,
    steady: float | None = None,
) -> LatticeSolver:
    """The flow after a run, saved and drawn. Collective."""
    config = dataclasses.replace(config, collision=options.chosen["collision"])
    da.log(f"Lattice {config.velocities.name}, tau = {config.tau:.6g}, Mach {config.mach:g}")
    flow = begin(LatticeSolver(config, device=options.device), options, until)
    run(flow, options, until, steady=steady if until is None else None)
    velocity = flow.velocity()
    fields = {"u": velocity[0], "v": velocity[1], "pressure": flow.pressure()}
    cells = " x ".join(map(str, config.cells))
    title = f"{name}, {cells} cells, time {flow.time:.2f}"
    finish(flow, options.output / name, lambda path: draw(flow.grid, fields, path, title=title))
    return flow


def _steady(
    make: Callable[..., LatticeConfig],
    name: str,
    steady: float,
    compare: Callable[[LatticeSolver], Comparison | None],
) -> Callable[[Options], None]:
    """What runs a flow until it is steady and compares it."""

    def case(options: Options) -> None:
        flow = _ran(name, make(options.cells, options.number), options, options.until, steady)
        show_steady(
            flow,
            steady,
            compare(flow),
            otherwise="No comparison: nothing is published for this number and these cells.",
        )

    return case


def _compare_cylinder(flow: LatticeSolver) -> Comparison | None:
    if flow.config.speed != 1.5 * (20.0 * VISCOSITY / DIAMETER):
        return None
    across = DIAMETER * flow.config.cells[1] / HEIGHT
    return compare_cylinder(*cylinder_coefficients(flow), across)


def run_taylor_green(options: Options) -> None:
    """Let the vortices decay until the time (1 by default), save, draw and compare. Collective."""
    until = 1.0 if options.until is None else options.until
    flow = _ran("lbm_taylor_green", taylor_green(options.cells, options.number), options, until)
    show(compare_taylor_green(flow, 0.25))


_COLLISION = Choice(
    "collision", tuple(COLLISIONS), "trt", "one rate, two rates, or cumulants for low viscosity"
)

CASES: tuple[Case, ...] = (
    Case(
        "lbm_poiseuille",
        "lattice Boltzmann: channel, steady, against the parabola",
        (4, 32),
        _steady(
            poiseuille, "lbm_poiseuille", 1e-9,
            lambda flow: compare_poiseuille(flow, 8.0 * flow.config.viscosity),
        ),
        number=10.0,
        reads=RUNS,
        choices=(_COLLISION,),
    ),
    Case(
        "lbm_cavity",
        "lattice Boltzmann: lid-driven cavity, steady, against published centre lines",
        (64, 64),
        _steady(cavity, "lbm_cavity", STEADY, compare_cavity),
        number=100.0,
        reads=RUNS,
        choices=(_COLLISION,),
    ),
    Case(
        "lbm_taylor_green",
        "lattice Boltzmann: decaying vortices on two or three axes, against the exact decay",
        (64, 64),
        run_taylor_green,
        number=100.0,
        reads=RUNS,
        choices=(_COLLISION,),
    ),
    Case(
        "lbm_cylinder",
        "lattice Boltzmann: cylinder in a channel at Re = 20, against a benchmark",
        (440, 82),
        _steady(cylinder, "lbm_cylinder", 1e-3, _compare_cylinder),
        number=20.0,
        reads=RUNS,
        choices=(_COLLISION,),
    ),
)  # fmt: skip
