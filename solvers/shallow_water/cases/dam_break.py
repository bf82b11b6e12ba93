"""A dam that goes at once: on a wet bed (Stoker), on a dry one (Ritter)."""

from __future__ import annotations

import math

import numpy as np

import distarray as da
from solvers.box import centres
from solvers.case import RUNS, Case, Options, require_axes
from solvers.comparison import Comparison, Row
from solvers.shallow_water.cases.common import (
    SCHEMES,
    depth_error,
    gathered,
    play,
    schemes,
)
from solvers.shallow_water.config import ShallowWaterConfig
from solvers.shallow_water.exact import DamBreak
from solvers.shallow_water.solver import ShallowWaterSolver

END = 0.2
#: Mean errors of the depth that are accepted at time 0.2, by cells.
GATES = {100: 6e-3, 200: 3e-3, 400: 1.6e-3}
_DAM = 0.5


def run_dam_break(options: Options) -> None:
    """Depth 1 beside a lower one in a unit box, gravity 1. Collective."""
    if not 0.0 < options.number < 1.0:
        raise da.SolverError(
            f"The depth behind the dam lies between 0 and 1, received {options.number}; the case "
            f"dry_dam_break has none."
        )
    _run("dam_break", options, DamBreak(1.0, options.number))


def run_dry_dam_break(options: Options) -> None:
    """Depth 1 beside dry ground in a unit box, gravity 1. Collective."""
    _run("dry_dam_break", options, DamBreak(1.0, 0.0))


def _run(name: str, options: Options, dam: DamBreak) -> None:
    require_axes(options, 1)
    until = END if options.until is None else options.until
    if not 0.0 < until < _DAM / max(dam.bore, 1.0):
        raise da.SolverError(
            f"The exact solution holds until the sides are reached, at "
            f"{_DAM / max(dam.bore, 1.0):.4g}, received --until {until}; end before."
        )
    config = ShallowWaterConfig(
        cells=options.cells,
        depth=lambda x: np.where(x < _DAM, dam.left, dam.right),
        gravity=dam.gravity,
        **schemes(options),
    )

    def compare(flow: ShallowWaterSolver) -> Comparison:
        return _compare(flow, dam)

    play(name, config, options, until, compare, exact=lambda x: dam(x - _DAM, until)[0])


def _compare(flow: ShallowWaterSolver, dam: DamBreak) -> Comparison:
    error = depth_error(flow, lambda x: dam(x - _DAM, flow.time)[0])
    gate = GATES.get(flow.config.cells[0]) if flow.time == END else None
    fine = flow.config.cells[0] >= 200  # enough that two cells are a point
    h, (q,) = gathered(flow)
    speed = (centres(flow.grid)[0] - _DAM) / flow.time
    star_h, star_u = dam.star
    if dam.dry:
        source, at = "Ritter 1892, and the depth at the dam", np.argsort(abs(speed))[:2]
    else:
        source = "Stoker 1957, and the middle of the plateau"
        tail = star_u - math.sqrt(dam.gravity * star_h)
        at = np.argsort(abs(speed - 0.5 * (tail + dam.bore)))[:2]
    depth, mean = float(h[at].mean()), float((q[at] / h[at]).mean())
    return Comparison(
        source,
        (
            Row("mean error of the depth", error, 0.0, gate),
            Row("depth", depth, star_h, 0.01 * star_h if fine else None),
            Row("velocity", mean, star_u, 0.02 * star_u if fine else None),
            Row("smallest depth", float(h.min()), dam.right),
        ),
    )


CASES = (
    Case(
        "dam_break",
        "dam on a wet bed, against Stoker's solution",
        (400,),
        run_dam_break,
        number=0.5,
        number_name="behind",
        number_help="depth behind the dam, in front of which it is 1",
        reads=RUNS,
        choices=SCHEMES,
    ),
    Case(
        "dry_dam_break",
        "dam on a dry bed, against Ritter's solution",
        (400,),
        run_dry_dam_break,
        number_name="",
        reads=RUNS,
        choices=SCHEMES,
    ),
)
