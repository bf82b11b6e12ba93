"""Named problems of the command line: `heat_mode`, `heat_gaussian`."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

import distarray as da
from solvers import running
from solvers.box import field_of
from solvers.case import RUNS, Case, Choice, Options
from solvers.comparison import Comparison, Row, relative
from solvers.diffusion.config import DiffusionConfig
from solvers.diffusion.exact import amplification, eigenvalue, gaussian
from solvers.diffusion.schemes import SCHEMES
from solvers.diffusion.solver import DiffusionSolver
from solvers.plot import draw

_SCHEME = Choice("scheme", tuple(SCHEMES), "explicit", "in time")


def _made(config: DiffusionConfig, options: Options, until: float) -> DiffusionSolver:
    """The problem, run to its end, saved and drawn. Collective."""
    heat = running.begin(DiffusionSolver(config, device=options.device), options, until)
    running.run(heat, options, until)
    return heat


def _finish(heat: DiffusionSolver, options: Options, name: str) -> None:
    running.finish(
        heat,
        options.output / name,
        lambda path: draw(heat.grid, {"u": heat.fields["u"]}, path, title=f"time {heat.time:g}"),
    )


# ---- a mode


def mode(options: Options) -> DiffusionConfig:
    """As many waves along each axis of a periodic unit box as the options say."""
    k = 2.0 * math.pi * options.number
    return DiffusionConfig(
        cells=options.cells,
        periodic=True,
        initial=lambda *x: math.prod(np.cos(k * along) for along in x),
        scheme=options.chosen["scheme"],
        tolerance=1e-12,
    )


def run_mode(options: Options) -> None:
    """Let a mode decay, compare its amplitude with that of the discrete scheme, save and draw.
    Collective.
    """
    if not 0 < options.number <= 0.5 * min(options.cells) or options.number % 1.0:
        raise da.SolverError(
            "A mode has a whole number of waves, at most half as many as cells, received "
            f"{options.number:g} for {options.cells} cells; change it."
        )
    until = 0.05 if options.until is None else options.until
    heat = _made(mode(options), options, until)
    _finish(heat, options, "heat_mode")
    if heat.step_count:
        running.show(_compare_mode(heat, options.number))


def _compare_mode(heat: DiffusionSolver, number: float) -> Comparison:
    config, k = heat.config, 2.0 * math.pi * number
    along = (1.0,) * config.ndim
    dt = heat.time / heat.step_count
    factor = amplification(
        config.integrator, dt * eigenvalue((k,) * config.ndim, config.spacing, along)
    )
    shape = field_of(heat.grid, config.initial)
    amplitude = float(
        da.dot(heat.fields["u"], shape, reproducible=True) / da.dot(shape, shape, reproducible=True)
    )
    exact = math.exp(-config.ndim * k * k * heat.time)
    rows = (
        relative("amplitude", amplitude, factor**heat.step_count, _gate(config)),
        Row("content", heat.scalars()["content"], 0.0, 1e-13),
        Row("exact solution", amplitude, exact),
    )
    return Comparison("the amplitude of the discrete operator and scheme", rows)


def _gate(config: DiffusionConfig) -> float:
    """The accuracy that an amplitude is held to."""
    return 1e-10 if config.integrator.implicit else 1e-12


# ---- a Gaussian


def spreading(options: Options) -> DiffusionConfig:
    """A Gaussian in a box of side 2, whose sides have the exact values; the time steps of implicit
    schemes go with the width of the cells.
    """
    diffusivity = options.number

    def exact(t: float, *x: object) -> object:
        return gaussian(t, _start(diffusivity), diffusivity)(*x)

    implicit = SCHEMES[options.chosen["scheme"]].implicit > 0.0
    return DiffusionConfig(
        cells=options.cells,
        bounds=((-1.0, 1.0),) * len(options.cells),
        diffusivity=diffusivity,
        boundary={axis: da.Dirichlet(exact) for axis in "xyz"[: len(options.cells)]},
        initial=gaussian(0.0, _start(diffusivity), diffusivity),
        scheme=options.chosen["scheme"],
        time_step=0.2 / max(options.cells) / diffusivity if implicit else None,
    )


def _start(diffusivity: float) -> float:
    """The age of the Gaussian at time 0, when it is exp(-10 r^2)."""
    return 0.025 / diffusivity


def run_gaussian(options: Options) -> None:
    """Let a Gaussian spread on three grids, compare it with the exact one, save and draw.
    Collective.
    """
    if not options.number > 0.0 or min(options.cells) < 16:
        raise da.SolverError(
            "A Gaussian spreads with a diffusivity above 0 on at least 16 cells along each axis, "
            f"received {options.number:g} and {options.cells}; change them."
        )
    until = 0.025 / options.number if options.until is None else options.until
    heat = _made(spreading(options), options, until)
    _finish(heat, options, "heat_gaussian")
    errors = [_error(heat)]
    for coarser in (2, 4):
        cells = tuple(n // coarser for n in options.cells)
        other = DiffusionSolver(
            spreading(dataclasses.replace(options, cells=cells)), device=options.device
        )
        other.run(until=heat.time)
        errors.append(_error(other))
    running.show(_orders(heat, errors))


def _error(heat: DiffusionSolver) -> float:
    """In the 2-norm, per volume."""
    given = float(heat.config.along[0])  # type: ignore[arg-type]
    exact = field_of(heat.grid, gaussian(heat.time, _start(given), given))
    return float(da.norm(heat.fields["u"] - exact, reproducible=True)) / math.sqrt(exact.size)


def _orders(heat: DiffusionSolver, errors: list[float]) -> Comparison:
    """The order between the two finest grids is held to 2, unless the scheme's is lower there or
    they are too coarse for it.
    """
    scheme = heat.config.integrator
    order = 1.0 if scheme.name == "backward-euler" else 2.0
    gate = 0.1 if order == 2.0 and min(heat.config.cells) >= 64 else None
    found = [math.log2(coarse / fine) for fine, coarse in itertools.pairwise(errors)]
    rows = (
        *(Row(f"error, cells / {2**k}", error, 0.0) for k, error in enumerate(errors)),
        Row("order, cells / 2 to cells", found[0], order, gate),
        Row("order, cells / 4 to / 2", found[1], order),
    )
    return Comparison("the exact Gaussian, errors in the 2-norm", rows)


CASES = (
    Case(
        "heat_mode",
        "decaying mode of diffusion, against the discrete amplitude",
        (64, 64),
        run_mode,
        number=1.0,
        number_name="waves",
        number_help="waves along each axis",
        reads=RUNS,
        choices=(_SCHEME,),
    ),
    Case(
        "heat_gaussian",
        "spreading Gaussian, order against the exact one",
        (64, 64),
        run_gaussian,
        number=1.0,
        number_name="diffusivity",
        number_help="diffusivity",
        reads=RUNS,
        choices=(_SCHEME,),
    ),
)
