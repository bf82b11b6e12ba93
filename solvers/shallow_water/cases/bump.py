"""Steady flow over a bump, with and without a hydraulic jump."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from solvers.shallow_water.exact import SteadyFlow
from solvers.shallow_water.solver import ShallowWaterSolver

LENGTH, CREST, END = 25.0, 10.0, 12.0


def bump(x: Any) -> Any:
    """The bed: a parabola of height 0.2 between 8 and 12. Local."""
    return np.maximum(0.0, 0.2 - 0.05 * (np.asarray(x, np.float64) - CREST) ** 2)


@dataclass(frozen=True)
class Regime:
    """A discharge, the depth at the far end (None for a flow that is faster than waves there), and
    the mean error of the depth that is accepted on 100 cells, and in proportion on more.
    """

    discharge: float
    depth: float | None
    gate: float

    @property
    def exact(self) -> SteadyFlow:
        return SteadyFlow(bump, self.discharge, CREST, END, self.depth)

    def config(self, cells: tuple[int, ...], **options: Any) -> ShallowWaterConfig:
        """The flow, at first with a level surface; behind the crest low enough for what is to
        come.
        """
        start = self.depth or self.exact.crest_head
        low = start if self.depth else 0.1
        return ShallowWaterConfig(
            cells=cells,
            surface=lambda x: np.where(x < CREST, start, low),
            bathymetry=bump,
            bounds=((0.0, LENGTH),),
            inflow={"x-": (self.discharge,)},
            outflow=("x+",),
            side_depth={"x+": self.depth} if self.depth else {},
            **options,
        )


#: Sections 3.1.3 to 3.1.5 of SWASHES (see `exact`).
REGIMES = {
    "subcritical": Regime(4.42, 2.0, 6e-4),
    "transcritical": Regime(1.53, None, 6e-4),
    "jump": Regime(0.18, 0.33, 2e-3),
}


def run_bump(options: Options) -> None:
    """From rest until it is steady, or as long as that should take. Collective."""
    require_axes(options, 1)
    regime = REGIMES[options.chosen["regime"]]
    until = 200.0 if options.until is None else options.until
    config = regime.config(options.cells, **schemes(options))

    def compare(flow: ShallowWaterSolver) -> Comparison:
        return _compare(flow, regime)

    play("bump", config, options, until, compare, exact=regime.exact)


def _compare(flow: ShallowWaterSolver, regime: Regime) -> Comparison:
    exact = regime.exact
    _, (q,) = gathered(flow)
    width = LENGTH / flow.config.cells[0]
    error = depth_error(flow, exact)
    middle = float(np.median(q))
    rows = [
        Row("mean error of the depth", error, 0.0, regime.gate * min(1.0, 4.0 * width)),
        Row("discharge, median", middle, regime.discharge, 5e-3 * regime.discharge),
        Row("discharge, largest", float(q.max()), regime.discharge),
    ]
    if exact.regime == "jump":
        rows.append(Row("position of the jump", _jump(flow, exact), exact.jump, 2.5 * width))
    return Comparison(f"Bernoulli's equation, {exact.regime} flow", tuple(rows))


def _jump(flow: ShallowWaterSolver, exact: SteadyFlow) -> float:
    """Where the depth passes the mean of those on both sides of the exact jump."""
    h, _ = gathered(flow)
    width = LENGTH / len(h)
    x = (np.arange(len(h)) + 0.5) * width
    middle = 0.5 * float(exact(exact.jump - 1e-6) + exact(exact.jump + 1e-6))
    behind = np.flatnonzero((x > CREST) & (h > middle))
    return float(x[behind[0]] - 0.5 * width) if behind.size else math.nan


CASES = (
    Case(
        "bump",
        "steady flow over a bump, against Bernoulli's equation",
        (200,),
        run_bump,
        number_name="",
        reads=RUNS,
        choices=(
            Choice("regime", tuple(REGIMES), "jump", "slower or faster than waves"),
            *SCHEMES,
        ),
    ),
)
