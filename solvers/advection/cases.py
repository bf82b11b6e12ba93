"""Named transport of the command line: `advection` and `turning_disc`."""

from __future__ import annotations

import math
from typing import Any

import distarray as da
from solvers import running
from solvers.advection.config import SCHEMES, AdvectionConfig
from solvers.advection.exact import block, bump, carried, slotted_disc, turned, wave
from solvers.advection.solver import AdvectionSolver
from solvers.case import RUNS, Case, Choice, Options, require_axes
from solvers.comparison import Comparison, Row
from solvers.hyperbolic import LIMITERS, RECONSTRUCTIONS
from solvers.hyperbolic.errors import error_rows, positions
from solvers.plot import draw

PROFILES = {"bump": bump, "block": block, "wave": wave}
#: Limited piecewise linear schemes carry the bump once around 64^2 cells so closely (rms).
BUMP_GATE = 4e-3

_LIMITER = Choice("limiter", tuple(LIMITERS), "mc", "slopes of muscl and ctu")
_POSITIVITY = Choice("positivity", ("no", "yes"), "no", "keep the density from becoming negative")


def advection(options: Options) -> AdvectionConfig:
    """A profile that goes along the diagonal of a periodic box, once around in the time 1."""
    return AdvectionConfig(
        cells=options.cells,
        velocity=(1.0,) * len(options.cells),
        initial=PROFILES[options.chosen["profile"]],
        scheme=options.chosen["scheme"],
        limiter=options.chosen["limiter"],
        positivity=options.chosen["positivity"] == "yes",
        courant=options.number,
    )


def run_advection(options: Options) -> None:
    """Carry a profile, compare it with the exact one, save and draw. Collective."""
    until = 1.0 if options.until is None else options.until
    config = advection(options)
    flow = running.begin(AdvectionSolver(config, device=options.device), options, until)
    exact = carried(PROFILES[options.chosen["profile"]], until)
    _play("advection", flow, options, until, exact)
    gated = options.chosen["profile"] == "bump" and config.cells == (64, 64) and until == 1.0
    rows = error_rows("c", flow.fields["c"], flow.grid, exact, rms=BUMP_GATE if gated else None)
    running.show(Comparison("the exact profile", rows))


def disc(options: Options) -> AdvectionConfig:
    """A disc with a slot that turns about the middle of a box, once around in the time 1."""
    turn = 2.0 * math.pi
    return AdvectionConfig(
        cells=options.cells,
        periodic=False,
        velocity=(lambda x, y: turn * (0.5 - y), lambda x, y: turn * (x - 0.5)),
        initial=slotted_disc,
        scheme=options.chosen["scheme"],
        limiter=options.chosen["limiter"],
        positivity=options.chosen["positivity"] == "yes",
        courant=options.number,
    )


def run_disc(options: Options) -> None:
    """Turn the disc, compare it with the exact one, save and draw. Collective."""
    require_axes(options, 2)
    until = 1.0 if options.until is None else options.until
    flow = running.begin(AdvectionSolver(disc(options), device=options.device), options, until)
    exact = turned(slotted_disc, 2.0 * math.pi * (until % 1.0))  # nan where the run refuses it
    _play("turning_disc", flow, options, until, exact)
    density = flow.fields["c"]
    least = 0.0 if flow.config.positivity else None
    extrema = (
        Row("least c", min(float(density.min()), 0.0), 0.0, least),
        Row("largest c", float(density.max()), 1.0),
    )
    rows = error_rows("c", density, flow.grid, exact)
    running.show(Comparison("the exact disc", (*rows, *extrema)))


def _play(name: str, flow: AdvectionSolver, options: Options, until: float, exact: Any) -> None:
    before = flow.totals()["c"]
    running.run(flow, options, until)
    lines = {"c": exact(positions(flow.grid))} if flow.config.ndim == 1 else None
    cells = " x ".join(map(str, flow.config.cells))
    title = f"{flow.config.scheme_name}, {cells} cells, time {until:g}"
    running.finish(
        flow,
        options.output / name,
        lambda path: draw(flow.grid, flow.fields, path, title=title, exact=lines),
    )
    da.log(f"Step {flow.step_count}, sum {flow.totals()['c']:.15g}, at first {before:.15g}")


CASES = (
    Case(
        "advection",
        "a profile that crosses a periodic box, against the exact one",
        (64, 64),
        run_advection,
        number=0.8,
        number_name="courant",
        number_help="Courant number",
        reads=RUNS,
        choices=(
            Choice("scheme", SCHEMES, "ctu", "values on faces"),
            _LIMITER,
            Choice("profile", tuple(PROFILES), "bump", "what is carried"),
            _POSITIVITY,
        ),
    ),
    Case(
        "turning_disc",
        "a slotted disc that turns once around, against the exact one",
        (100, 100),
        run_disc,
        number=0.5,
        number_name="courant",
        number_help="Courant number",
        reads=RUNS,
        choices=(
            Choice("scheme", RECONSTRUCTIONS, "muscl", "values on faces"), _LIMITER, _POSITIVITY,
        ),
    ),
)  # fmt: skip
