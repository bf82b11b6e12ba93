"""What the named flows share: options, restarts, checkpoints, files and tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distarray as da
from solvers.case import Options
from solvers.incompressible.comparison import Comparison
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.plot import streamlines
from solvers.incompressible.solver import IncompressibleSolver
from solvers.series import make_folder

#: A flow is steady once max |du/dt| is below this share of (speed)^2 / length.
STEADY = 1e-5


def viscosity_of(reynolds: float) -> float:
    """1 / Re.

    Raises
    ------
    SolverError
        The Reynolds number is not above 0.
    """
    if not reynolds > 0.0:
        raise da.SolverError(
            f"A Reynolds number is above 0, received {reynolds}; give a larger one."
        )
    return 1.0 / reynolds


def made(
    config: IncompressibleConfig,
    options: Options,
    until: float | None,
    prepare: Callable[[IncompressibleSolver], Any] | None = None,
) -> IncompressibleSolver:
    """The flow at its start, and a folder for its files, or an error before anything is run.
    Collective.

    Parameters
    ----------
    prepare : function of the flow, optional
        Plugs parts into it, before a restart.
    """
    flow = IncompressibleSolver(config, device=options.device)
    if prepare is not None:
        prepare(flow)
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


def run(
    flow: IncompressibleSolver,
    options: Options,
    until: float | None,
    *,
    steady: float | None = None,
) -> None:
    """Run with progress, files and checkpoints as the options say. Collective."""
    with _checkpoints(options) as checkpoints:
        flow.run(
            until,
            steady=steady,
            output=options.output,
            every=options.every,
            progress=True,
            checkpoints=checkpoints,
        )


def finish(flow: IncompressibleSolver, stem: Path) -> None:
    """Save the flow and draw it. Collective."""
    da.log(f"Largest divergence {flow.max_divergence():.3e}")
    flow.save(stem.with_suffix(".h5"))
    drawn = streamlines(flow, stem.with_suffix(".png"))
    da.log(
        f"Wrote {stem}.h5"
        + (f" and {stem}.png" if drawn else "; for a picture, install the extra plot")
    )


def show(comparison: Comparison | None, otherwise: str = "") -> None:
    """Print a table, or why there is none. Collective."""
    if comparison is not None:
        da.log(comparison.text())
    elif otherwise:
        da.log(otherwise)


def say_if_not_steady(flow: IncompressibleSolver, steady: float) -> None:
    """Print that a comparison of a steady flow is early. Collective."""
    if flow.residual < steady:
        return
    residual = f"{flow.residual:.1e}" if flow.residual < float("inf") else "not yet measured"
    da.log(
        f"Not steady at time {flow.time:g} (residual {residual}, steady below {steady:g}): "
        f"the table holds for the steady flow."
    )


def _folder(options: Options) -> Path:
    return options.output / "checkpoints"


def _checkpoints(
    options: Options,
) -> contextlib.AbstractContextManager[da.Checkpointer | None]:
    """What writes the checkpoints that were asked for, or None."""
    if not options.checkpoint:
        return contextlib.nullcontext()
    return da.Checkpointer(_folder(options), every=options.checkpoint)
