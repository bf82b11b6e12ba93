"""What the named flows share: choices of schemes, and errors of the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from solvers.box import centres
from solvers.case import Choice, Options
from solvers.comparison import Comparison
from solvers.running import begin, finish, run, show
from solvers.shallow_water.config import ShallowWaterConfig
from solvers.shallow_water.plot import draw
from solvers.shallow_water.solver import ShallowWaterSolver

#: Choices of schemes that all cases of this package take.
SCHEMES = (
    Choice("riemann", ("hll", "hllc", "roe"), "hllc", "flux through a face"),
    Choice("reconstruction", ("muscl", "constant"), "muscl", "of second or of first order"),
    Choice("limiter", ("minmod", "van_leer", "mc", "superbee"), "van_leer", "slopes of muscl"),
)


def schemes(options: Options) -> dict[str, Any]:
    """The schemes that the options name, for a configuration. Local."""
    return {choice.name: options.chosen[choice.name] for choice in SCHEMES}


def play(
    name: str,
    config: ShallowWaterConfig,
    options: Options,
    until: float,
    compare: Callable[[ShallowWaterSolver], Comparison],
    *,
    exact: Callable[..., Any] | None = None,
) -> None:
    """Run a flow to its end, save and draw it, and print its table. Collective.

    Parameters
    ----------
    compare : function of the flow
        Makes the table; Collective.
    exact : function of the coordinates, optional
        The exact depth at the end, for a picture on one axis.
    """
    flow = begin(ShallowWaterSolver(config, device=options.device), options, until)
    run(flow, options, until)
    finish(flow, options.output / name, lambda path: draw(flow, path, exact))
    totals = flow.totals()
    da.log(f"Step {flow.step_count}, time {flow.time:g}, volume {totals['volume']:.12g}")
    show(compare(flow))


def gathered(flow: ShallowWaterSolver) -> tuple[Any, Any]:
    """Depth and discharge of all cells, float64, on every rank. Collective."""
    h, q = (flow.fields[name].gather() for name in ("depth", "discharge"))
    return np.asarray(h, np.float64), np.asarray(q, np.float64)


def depth_error(flow: ShallowWaterSolver, exact: Callable[..., Any]) -> float:
    """The mean error of the depth, `exact` being a function of the coordinates. Collective."""
    h, _ = gathered(flow)
    return float(abs(h - exact(*np.ix_(*centres(flow.grid)))).mean())
