"""What all cases do: begin or go on, run with files and checkpoints, save, draw, compare."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import distarray as da
from solvers.base import Solver
from solvers.case import Options
from solvers.comparison import Comparison
from solvers.series import make_folder

AnySolver = TypeVar("AnySolver", bound=Solver)


def begin(solver: AnySolver, options: Options, until: float | None) -> AnySolver:
    """The solver at its start, or at the restart that the options name, and a folder for its files,
    or an error before anything is run. Collective.

    Raises
    ------
    SolverError
        The run ends before it begins.
    FileError
        The file to go on from, or the folder, is refused.
    """
    if options.restart is True:
        with da.Checkpointer(_folder(options), every=1) as checkpoints:
            if solver.resume(checkpoints):
                da.log(f"Restart from step {solver.step_count}, time {solver.time:g}")
            else:
                da.log(f"No checkpoint in '{_folder(options)}'; start from the beginning")
    elif options.restart:
        solver.restore(options.restart)
    if until is not None and solver.time > until:
        raise da.SolverError(
            f"A run ends no earlier than it begins, received the end {until} for one that begins "
            f"at time {solver.time}; give a later --until."
        )
    make_folder(options.output, solver.grid)
    return solver


def run(
    solver: Solver,
    options: Options,
    until: float | None,
    *,
    steady: float | None = None,
    visits: Sequence[tuple[float, Callable[[], Any]]] = (),
) -> None:
    """Run with progress, files and checkpoints as the options say; `visits` as `Solver.run` takes
    them. Collective.
    """
    with _checkpoints(options) as checkpoints:
        solver.run(
            until,
            steady=steady,
            output=options.output,
            every=options.every,
            progress=True,
            visits=visits,
            checkpoints=checkpoints,
            tensorboard=options.tensorboard,
        )


def finish(solver: Solver, stem: Path, draw: Callable[[str | os.PathLike[str]], bool]) -> None:
    """Save the state and draw it. Collective.

    Parameters
    ----------
    stem : path
        Of the files, without ".h5" and ".png".
    draw : function of a path
        Writes the picture; says whether matplotlib was there.
    """
    solver.save(stem.with_suffix(".h5"))
    drawn = draw(stem.with_suffix(".png"))
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


def show_steady(
    solver: Solver,
    steady: float,
    *comparisons: Comparison | None,
    otherwise: str = "",
) -> None:
    """Print the tables of a steady flow, or why there are none; without gates, and saying so, where
    it is not steady yet. Collective.
    """
    early = not solver.residual < steady
    for comparison in comparisons:
        show(comparison.ungated() if comparison is not None and early else comparison, otherwise)
    if early:
        residual = (
            f"{solver.residual:.1e}" if solver.residual < float("inf") else "not yet measured"
        )
        da.log(
            f"Not steady at time {solver.time:g} (residual {residual}, steady below {steady:g}): "
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
