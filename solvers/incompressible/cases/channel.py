"""Flow between two parallel walls: laminar on two axes, turbulent on three."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import distarray as da
from solvers.case import Case, Options
from solvers.incompressible.cases.common import (
    STEADY,
    finish,
    made,
    run,
    show,
    show_steady,
    viscosity_of,
)
from solvers.incompressible.checks import require_cells
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.reference_flows import compare_poiseuille, compare_turbulent_channel
from solvers.incompressible.statistics import Statistics

#: Share of the turbulent run after which statistics begin.
SETTLED = 0.5


def laminar_channel(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """A plane channel of height 1, whose force along x makes the largest velocity 1."""
    require_cells(cells)
    viscosity = viscosity_of(reynolds)
    return IncompressibleConfig(
        cells=cells,
        viscosity=viscosity,
        bounds=((0.0, cells[0] / cells[1]), (0.0, 1.0)),
        periodic=(True, False),
        force=(8.0 * viscosity, 0.0),
        initial=(0.0, 0.0),
    )


def turbulent_channel(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """A channel of half height 1 and bulk velocity 1, Re = 2 / viscosity: 5600 is a friction
    Reynolds number near 180. Cells are narrower at the walls; disturbances grow from the start.
    """
    require_cells(cells)
    eta = np.linspace(-1.0, 1.0, cells[1] + 1)
    return IncompressibleConfig(
        cells=cells,
        viscosity=2.0 * viscosity_of(reynolds),
        bounds=((0.0, 2.0 * math.pi), (-1.0, 1.0), (0.0, math.pi)),
        coordinates={"y": np.tanh(2.0 * eta) / math.tanh(2.0)},
        periodic=(True, False, True),
        flow_rate={"x": 1.0},
        initial=(_stream, _upwards, _sideways),
    )


def run_channel(options: Options) -> None:
    """Run, save, draw and compare: to the steady flow on two axes, through turbulence on three.
    Collective.
    """
    if len(options.cells) == 2:
        _laminar(options)
    else:
        _turbulent(options)


def _laminar(options: Options) -> None:
    config = laminar_channel(options.cells, options.number)
    flow = made(dataclasses.replace(config, advection=options.advection), options, options.until)
    # The slowest mode decays by exp(-pi^2 nu t): what is left of u is du/dt / (pi^2 nu).
    steady = STEADY * 0.05 * math.pi**2 * config.viscosity
    run(flow, options, options.until, steady=steady if options.until is None else None)
    finish(flow, options.output / "channel")
    show_steady(flow, steady, compare_poiseuille(flow, 8.0 * config.viscosity))


def _turbulent(options: Options) -> None:
    until = 100.0 if options.until is None else options.until
    config = turbulent_channel(options.cells, options.number)
    found: dict[str, Any] = {}

    def prepare(flow: Any) -> None:
        found["statistics"] = Statistics(flow.grid, average=(0, 2), start=SETTLED * until)
        flow.add(found["statistics"])

    flow = made(dataclasses.replace(config, advection=options.advection), options, until, prepare)
    run(flow, options, until)
    finish(flow, options.output / "channel")
    statistics = found["statistics"]
    wall = statistics.mean(0)
    ends = np.asarray(config.coordinates["y"])  # type: ignore[index]
    slopes = wall[0] / (0.5 * (ends[1] - ends[0])), wall[-1] / (0.5 * (ends[-1] - ends[-2]))
    force = config.viscosity * 0.5 * (slopes[0] + slopes[1])
    show(compare_turbulent_channel(statistics, flow, float(force)))
    da.log(f"Friction Reynolds number {math.sqrt(force) / config.viscosity:.1f}")
    for component, name in enumerate("uvw"):
        da.log(f"Largest rms of {name} over u_tau "
               f"{float(statistics.rms(component).max()) / math.sqrt(force):.3f}")  # fmt: skip


def _stream(x: Any, y: Any, z: Any) -> Any:
    """A parabola with waves, of mean 1."""
    shape = 1.5 * (1.0 - y * y)
    return shape * (1.0 + 0.15 * np.sin(2.0 * x) * np.cos(4.0 * z) + 0.1 * np.sin(8.0 * z))


def _upwards(x: Any, y: Any, z: Any) -> Any:
    return 0.15 * (1.0 - y * y) ** 2 * np.cos(x) * np.cos(4.0 * z)


def _sideways(x: Any, y: Any, z: Any) -> Any:
    return 0.15 * (1.0 - y * y) * np.sin(3.0 * x) * np.cos(2.0 * z)


CASE = Case(
    "channel",
    "plane channel: laminar on two axes; turbulent on three, --reynolds 5600 --cells 48 48 48",
    (8, 32),
    run_channel,
)
