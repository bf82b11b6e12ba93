"""Named problems of Burgers' equation on the command line: `burgers`, `burgers_wave`,
`burgers_2d`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import distarray as da
from solvers import running
from solvers.burgers.config import COMPONENTS, BurgersConfig
from solvers.burgers.exact import diagonal_wave, riemann, sine, travelling_wave
from solvers.burgers.solver import BurgersSolver
from solvers.case import RUNS, Case, Choice, Options, require_axes
from solvers.comparison import Comparison
from solvers.hyperbolic import LIMITERS, RECONSTRUCTIONS
from solvers.hyperbolic.errors import error_rows, positions
from solvers.plot import draw

_SCHEMES = (
    Choice("scheme", RECONSTRUCTIONS, "muscl", "values on faces"),
    Choice("limiter", tuple(LIMITERS), "van_leer", "slopes of muscl"),
)
#: Velocity on the left and on the right of the middle, and the time to reach.
JUMPS = {"shock": (1.0, 0.2, 0.6), "standing": (1.0, -1.0, 0.4), "fan": (-0.5, 1.0, 0.4)}
#: Mean, amplitude and the time to reach, before the wave breaks at 0.159.
SINE = (0.25, 1.0, 0.12)

#: The exact components at (t, x[, y]).
Exact = Callable[..., Sequence[Any]]


def inviscid(options: Options) -> tuple[BurgersConfig, Exact, float]:
    """One of the problems without viscosity, its solution, and when it is over."""
    problem = options.chosen["problem"]
    if problem == "sine":
        mean, amplitude, until = SINE

        def exact(t: float, x: Any) -> Any:
            return (sine(t, x, mean=mean, amplitude=amplitude),)
    else:
        left, right, until = JUMPS[problem]

        def exact(t: float, x: Any) -> Any:
            return (riemann(t, x, left=left, right=right, start=0.5),)

    config = _config(options, exact, periodic=problem == "sine")
    return config, exact, until


def wave(options: Options) -> tuple[BurgersConfig, Exact, float]:
    """A viscous step that travels, its solution, and when it is over."""
    numbers = {"viscosity": options.number, "mean": 0.5, "amplitude": 1.0, "start": 0.3}

    def exact(t: float, x: Any) -> Any:
        return (travelling_wave(t, x, **numbers),)

    return _config(options, exact, viscosity=options.number, given=True), exact, 0.6


def diagonal(options: Options) -> tuple[BurgersConfig, Exact, float]:
    """A viscous step across the diagonal, its solution, and when it is over."""

    def exact(t: float, x: Any, y: Any) -> Any:
        return diagonal_wave(t, x, y, viscosity=options.number)

    return _config(options, exact, viscosity=options.number, given=True), exact, 0.5


def _config(
    options: Options,
    exact: Exact,
    *,
    viscosity: float = 0.0,
    periodic: bool = False,
    given: bool = False,
) -> BurgersConfig:
    """What starts from an exact solution; if `given`, with its values at all sides."""
    ndim = len(options.cells)
    boundary = {
        name: dict.fromkeys("xyz"[:ndim], da.Dirichlet(lambda t, *x, c=c: exact(t, *x)[c]))
        for c, name in enumerate(COMPONENTS[:ndim])
    }
    return BurgersConfig(
        cells=options.cells,
        periodic=periodic,
        viscosity=viscosity,
        boundary=boundary if given else {},
        initial=tuple((lambda *x, c=c: exact(0.0, *x)[c]) for c in range(ndim)),
        scheme=options.chosen["scheme"],
        limiter=options.chosen["limiter"],
    )


def _runner(
    name: str, ndim: int, make: Callable[[Options], tuple[BurgersConfig, Exact, float]]
) -> Callable[[Options], None]:
    """What runs a problem, compares it with its solution, saves and draws. Local."""

    def play(options: Options) -> None:
        require_axes(options, ndim)
        _require_viscosity(options.number)
        config, exact, usual = make(options)
        until = usual if options.until is None else options.until
        flow = running.begin(BurgersSolver(config, device=options.device), options, until)
        running.run(flow, options, until)
        lines = {"u": exact(until, positions(flow.grid))[0]} if ndim == 1 else None
        title = f"{config.scheme}, time {until:g}"
        running.finish(
            flow,
            options.output / name,
            lambda path: draw(flow.grid, flow.fields, path, title=title, exact=lines),
        )
        da.log(f"Step {flow.step_count}, time {flow.time:g}")
        rows = [
            row
            for c, (field, u) in enumerate(flow.fields.items())
            for row in error_rows(field, u, flow.grid, lambda *x, c=c: exact(until, *x)[c])
        ]
        running.show(Comparison("the exact solution", tuple(rows)))

    return play


def _require_viscosity(viscosity: float) -> None:
    if not 0.0 < viscosity < math.inf:
        raise da.SolverError(
            f"The wave has a finite viscosity above 0, received {viscosity:g}; change it."
        )


CASES = (
    Case(
        "burgers",
        "Burgers' equation without viscosity: shocks, a fan or a wave, against the exact solution",
        (200,),
        _runner("burgers", 1, inviscid),
        number_name="",
        reads=RUNS,
        choices=(
            Choice("problem", (*JUMPS, "sine"), "shock", "how it starts"), *_SCHEMES,
        ),
    ),
    Case(
        "burgers_wave",
        "a viscous step that travels, against the exact one",
        (200,),
        _runner("burgers_wave", 1, wave),
        number=0.02,
        number_name="viscosity",
        number_help="kinematic viscosity",
        reads=RUNS,
        choices=_SCHEMES,
    ),
    Case(
        "burgers_2d",
        "a viscous step across the diagonal of a square, against the exact one",
        (64, 64),
        _runner("burgers_2d", 2, diagonal),
        number=0.02,
        number_name="viscosity",
        number_help="kinematic viscosity",
        reads=RUNS,
        choices=_SCHEMES,
    ),
)  # fmt: skip
