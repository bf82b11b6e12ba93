"""What the named flows share besides what all cases do (`solvers.running`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import distarray as da
from solvers import running
from solvers.case import Options
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.plot import streamlines
from solvers.incompressible.solver import IncompressibleSolver
from solvers.running import run, show, show_steady

__all__ = ["finish", "made", "run", "show", "show_steady", "viscosity_of"]

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
    return running.begin(flow, options, until)


def finish(flow: IncompressibleSolver, stem: Path) -> None:
    """Save the flow and draw it. Collective."""
    da.log(f"Largest divergence {flow.max_divergence():.3e}")
    running.finish(flow, stem, lambda path: streamlines(flow, path))
