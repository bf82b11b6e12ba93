"""A square or cube whose lid moves."""

from __future__ import annotations

import dataclasses

from solvers.case import Case, Options
from solvers.incompressible.cases.common import (
    STEADY,
    finish,
    made,
    run,
    show,
    show_steady,
    viscosity_of,
)
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.reference import (
    compare_centre_lines,
    compare_extrema,
    why_not_compared,
)


def cavity(cells: tuple[int, ...], reynolds: float) -> IncompressibleConfig:
    """A unit square, or cube, whose wall at y = 1 moves with unit speed in +x."""
    lid = (1.0, *(0.0,) * (len(cells) - 1))
    return IncompressibleConfig(cells=cells, viscosity=viscosity_of(reynolds), walls={"y+": lid})


def run_cavity(options: Options) -> None:
    """March from rest until steady, then save, draw and compare. Collective."""
    config = cavity(options.cells, options.number)
    flow = made(dataclasses.replace(config, advection=options.advection), options, options.until)
    run(flow, options, options.until, steady=STEADY if options.until is None else None)
    finish(flow, options.output / "cavity")
    comparison = compare_centre_lines(flow)
    if comparison is None:
        show(None, why_not_compared(flow.config))
    else:
        show_steady(flow, STEADY, comparison, compare_extrema(flow))


CASE = Case(
    "cavity", "lid-driven cavity, steady, against published centre lines", (64, 64), run_cavity
)
