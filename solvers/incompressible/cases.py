"""Named flows for the command line."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import numpy as np

import distarray as da
from solvers.case import Case, Options
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.plot import streamlines
from solvers.incompressible.reference import compare_centre_lines, why_not_compared
from solvers.incompressible.solver import IncompressibleSolver
from solvers.series import make_folder

#: A flow is steady once max |du/dt| is below this share of (lid speed)^2 / side.
STEADY = 1e-5


def cavity(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """A unit square, or cube, whose wall at y = 1 moves with unit speed in +x."""
    lid = (1.0, *(0.0,) * (len(cells) - 1))
    return IncompressibleConfig(cells=cells, viscosity=_viscosity(reynolds), walls={"y+": lid})


def taylor_green(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """Decaying vortices in a periodic box of side 2 pi.

    Taylor, G. I., Green, A. E. (1937) Proc. R. Soc. A 158, 499-521. In two dimensions the velocity
    is exact for all times, (cos x sin y, -sin x cos y) exp(-2 nu t).
    """
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
        cells=cells, viscosity=_viscosity(reynolds), bounds=box, periodic=True, initial=initial
    )


def run_cavity(options: Options) -> None:
    """March from rest until steady, then save, draw and compare. Collective."""
    with _checkpoints(options) as checkpoints:
        flow = _flow(cavity(options.cells, options.reynolds), options, options.until)
        steady = STEADY if options.until is None else None
        flow.run(
            options.until,
            steady=steady,
            output=options.output,
            every=options.every,
            progress=True,
            checkpoints=checkpoints,
        )
    _finish(flow, options.output / "cavity")
    _compare(flow)


def run_taylor_green(options: Options) -> None:
    """Let the vortices decay, print their energy, save and draw. Collective."""
    until = 1.0 if options.until is None else options.until
    with _checkpoints(options) as checkpoints:
        flow = _flow(taylor_green(options.cells, options.reynolds), options, until)
        start, began = flow.kinetic_energy(), flow.time
        flow.run(
            until,
            output=options.output,
            every=options.every,
            progress=True,
            checkpoints=checkpoints,
        )
    end = flow.kinetic_energy()
    da.log(
        f"Kinetic energy per volume {start:.9f} at time {began:g}, {end:.9f} at time {flow.time:g}"
    )
    if flow.config.ndim == 2:
        decay = np.exp(-4.0 * flow.config.viscosity * (flow.time - began))
        da.log(f"Exact at the end {start * decay:.9f}")
    _finish(flow, options.output / "taylor-green")


def _viscosity(reynolds: float) -> float:
    if not reynolds > 0.0:
        raise da.SolverError(
            f"A Reynolds number is above 0, received {reynolds}; give a larger one."
        )
    return 1.0 / reynolds


def _flow(
    config: IncompressibleConfig, options: Options, until: float | None
) -> IncompressibleSolver:
    """The flow at its start, and a folder for its files, or an error before anything is run."""
    config = dataclasses.replace(config, advection=options.advection)
    flow = IncompressibleSolver(config, device=options.device)
    if options.restart is True:
        with da.Checkpointer(_folder(options), every=1) as checkpoints:
            if flow.resume(checkpoints):
                da.log(f"Restart from step {flow.step_count}, time {flow.time:g}")
            else:
                da.log(f"No checkpoint in '{_folder(options)}'; start from the beginning")
    elif options.restart:
        flow.restore(options.restart)
    if until is not None and flow.time > until:
        raise da.SolverError(
            f"A run ends no earlier than it begins, received the end {until} for a restart at "
            f"time {flow.time}; give a later --until."
        )
    make_folder(options.output, flow.grid)
    return flow


def _folder(options: Options) -> Path:
    return options.output / "checkpoints"


def _checkpoints(
    options: Options,
) -> contextlib.AbstractContextManager[da.Checkpointer | None]:
    """What writes the checkpoints that were asked for, or None."""
    if not options.checkpoint:
        return contextlib.nullcontext()
    return da.Checkpointer(_folder(options), every=options.checkpoint)


def _compare(flow: IncompressibleSolver) -> None:
    """Print the comparison with a published table and what it is worth, or why there is none."""
    comparison = compare_centre_lines(flow)
    if comparison is None:
        da.log(why_not_compared(flow.config))
        return
    da.log(comparison.text())
    if not flow.residual < STEADY:
        residual = f"{flow.residual:.1e}" if np.isfinite(flow.residual) else "not yet measured"
        da.log(
            f"Not steady at time {flow.time:g} (residual {residual}, steady below {STEADY:g}): "
            f"the table holds for the steady flow."
        )


def _finish(flow: IncompressibleSolver, stem: Path) -> None:
    da.log(f"Largest divergence {flow.max_divergence():.3e}")
    flow.save(stem.with_suffix(".h5"))
    drawn = streamlines(flow, stem.with_suffix(".png"))
    da.log(
        f"Wrote {stem}.h5"
        + (f" and {stem}.png" if drawn else "; for a picture, install the extra plot")
    )


CASES = (
    Case(
        "cavity", "lid-driven cavity, steady, against published centre lines", (64, 64), run_cavity
    ),
    Case("taylor-green", "decaying vortices in a periodic box", (64, 64), run_taylor_green),
)
