"""Lakes: at rest on rough beds, and swinging in a bowl (Thacker)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.case import RUNS, Case, Choice, Options, require_axes
from solvers.comparison import Comparison, Row
from solvers.shallow_water.cases.common import (
    SCHEMES,
    depth_error,
    gathered,
    play,
    schemes,
)
from solvers.shallow_water.config import ShallowWaterConfig
from solvers.shallow_water.exact import Lake
from solvers.shallow_water.solver import ShallowWaterSolver

#: Height of the surface at rest: its sum with a bed is rounded.
LEVEL = 0.1


def hump(*x: Any) -> Any:
    """A smooth hump below the surface. Local."""
    return -1.0 + 0.6 * np.exp(-40.0 * sum((c - 0.5) ** 2 for c in x))


def island(*x: Any) -> Any:
    """A smooth hump above the surface. Local."""
    return -1.0 + 1.5 * np.exp(-40.0 * sum((c - 0.5) ** 2 for c in x))


def rough(*x: Any) -> Any:
    """A bed of no smoothness at all, partly above the surface: the digits of a sine. Local."""
    phase = sum((12.9898 + 65.2434 * axis) * c for axis, c in enumerate(x))
    return -1.0 + 1.4 * np.mod(43758.5453 * np.sin(phase), 1.0)


BEDS: dict[str, Callable[..., Any]] = {"island": island, "hump": hump, "rough": rough}


def run_lake_at_rest(options: Options) -> None:
    """Nothing happens, whatever the bed. Collective."""
    require_axes(options, 1, 2)
    config = ShallowWaterConfig(
        cells=options.cells,
        surface=LEVEL,
        bathymetry=BEDS[options.chosen["bed"]],
        dtype=options.chosen["dtype"],
        **schemes(options),
    )
    play("lake_at_rest", config, options, 1.0 if options.until is None else options.until, _rest)


def _rest(flow: ShallowWaterSolver) -> Comparison:
    h, q = gathered(flow)
    bed = np.asarray(flow.fields["bathymetry"].gather(), np.float64)
    wave = math.sqrt(flow.config.gravity * float(h.max()))
    gate = 1e-12 if flow.config.dtype == "float64" else 1e-5
    speed = float((abs(q) / np.where(h > flow.thin, h, 1.0)).max()) / wave
    away = float(abs((h + bed)[h > 0.0] - LEVEL).max())
    return Comparison(
        "water at rest",
        (
            Row("largest speed / sqrt(g h)", speed, 0.0, gate),
            Row("surface, largest deviation", away, 0.0, gate),
            Row("smallest depth", float(h.min()), max(LEVEL - float(bed.max()), 0.0)),
        ),
    )


def run_thacker(options: Options) -> None:
    """The lake swings for a period. Collective."""
    require_axes(options, 1, 2)
    lake, ndim = Lake(), len(options.cells)
    until = lake.period if options.until is None else options.until
    config = ShallowWaterConfig(
        cells=options.cells,
        depth=lambda *x: lake.water(0.0, *x),
        bathymetry=lake.bed,
        velocity=lake.velocity(0.0, ndim),
        bounds=((-2.0, 2.0),) * ndim,
        **schemes(options),
    )

    def compare(flow: ShallowWaterSolver) -> Comparison:
        return _swing(flow, lake)

    play("thacker", config, options, until, compare, exact=lambda *x: lake.water(until, *x))


def _swing(flow: ShallowWaterSolver, lake: Lake) -> Comparison:
    h, _ = gathered(flow)
    error = depth_error(flow, lambda *x: lake.water(flow.time, *x))
    fine = min(flow.config.cells) >= 50  # or the thin water at the shore is most of the lake
    totals = flow.totals()
    rows = [Row("mean error of the depth", error, 0.0, 0.02 * lake.depth)]
    velocity = lake.velocity(flow.time, flow.config.ndim)
    fastest = lake.swing * lake.frequency
    for name, u in zip("xy", velocity, strict=False):
        mean = totals[f"momentum_{name}"] / totals["volume"]
        rows.append(Row(f"mean velocity along {name}", mean, u, 0.05 * fastest if fine else None))
    rows.append(Row("smallest depth", float(h.min()), 0.0))
    return Comparison(f"Thacker 1981, period {lake.period:.6g}", tuple(rows))


CASES = (
    Case(
        "lake_at_rest",
        "lake over a rough bed, which stays at rest",
        (64, 64),
        run_lake_at_rest,
        number_name="",
        reads=RUNS,
        choices=(
            *SCHEMES,
            Choice("bed", tuple(BEDS), "island", "shape of the bed"),
            Choice("dtype", ("float64", "float32"), "float64", "type of the numbers"),
        ),
    ),
    Case(
        "thacker",
        "lake that swings in a bowl, against Thacker's solution",
        (100, 100),
        run_thacker,
        number_name="",
        reads=RUNS,
        choices=SCHEMES,
    ),
)
