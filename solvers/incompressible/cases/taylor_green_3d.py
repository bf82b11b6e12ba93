"""Vortices that break down into turbulence, in a periodic cube."""

from __future__ import annotations

import dataclasses

import numpy as np

import distarray as da
from solvers.case import Case, Options
from solvers.incompressible.cases.common import finish, made, run, show
from solvers.incompressible.cases.taylor_green_2d import taylor_green
from solvers.incompressible.parts import Velocity
from solvers.incompressible.reference_flows import compare_taylor_green_3d
from solvers.incompressible.statistics import EnergyHistory, spectrum


def run_taylor_green_3d(options: Options) -> None:
    """Run through the peak of dissipation, compare its history, print the spectrum. Collective."""
    if len(options.cells) != 3:
        raise da.SolverError(
            f"taylor_green_3d has three axes, received cells={options.cells}; give three numbers, "
            "or run taylor_green_2d."
        )
    until = 10.0 if options.until is None else options.until
    config = taylor_green(options.cells, options.number)
    history = EnergyHistory(every=4)
    flow = made(
        dataclasses.replace(config, advection=options.advection),
        options,
        until,
        lambda flow: flow.add(history),
    )
    velocity = [flow.fields[name] for name in "uvw"]
    history.note(velocity, flow.time)
    run(flow, options, until)
    if history.rows[-1][0] < flow.time:
        history.note(velocity, flow.time)
    finish(flow, options.output / "taylor_green_3d")
    rows = history.rows
    show(
        compare_taylor_green_3d(rows, min(flow.config.cells), flow.config.viscosity),
        f"No comparison: the published history is of Re = 1600 at whole times, and this one is of "
        f"Re = {options.number:g} from time {rows[0][0]:g} to {rows[-1][0]:g} (rows: {len(rows)}).",
    )
    _show_spectrum(velocity)


def _show_spectrum(velocity: Velocity) -> None:
    """Print about 12 shells, or what transforms lack. Collective."""
    try:
        k, energy = spectrum(velocity)
    except da.UnsupportedError as error:
        da.log(f"No spectrum: {error}")
        return
    da.log("Spectrum: k, energy")
    for number in np.unique(np.geomspace(1, len(k) - 1, 12).round().astype(int)):
        da.log(f"  {k[number]:6.1f} {energy[number]:.4e}")


CASE = Case(
    "taylor_green_3d",
    "vortices that become turbulent, against a spectral solution at Re = 1600",
    (64, 64, 64),
    run_taylor_green_3d,
    number=1600.0,
)
