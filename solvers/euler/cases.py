"""Named flows of the command line: shock tubes, blasts, vortices, shear layers, reflections."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import distarray as da
from solvers import running
from solvers.case import RUNS, Case, Choice, Options, require_axes
from solvers.comparison import Comparison, Row, relative
from solvers.euler import exact, problems
from solvers.euler.config import EulerConfig
from solvers.euler.riemann import SOLVERS
from solvers.euler.scheme import LIMITERS, RECONSTRUCTIONS
from solvers.euler.solver import EulerSolver
from solvers.hyperbolic import INTEGRATORS
from solvers.hyperbolic.errors import error_rows, positions
from solvers.plot import draw

SCHEMES = (
    Choice("scheme", RECONSTRUCTIONS, "muscl", "values on faces"),
    Choice("limiter", LIMITERS, "van_leer", "slopes of muscl"),
    Choice("riemann", tuple(SOLVERS), "hllc", "flux between two states"),
    Choice("integrator", tuple(INTEGRATORS), "ssp_rk2", "of time"),
)
_TORO = [name for name in exact.shock_tubes() if name.startswith("toro")]
#: Tubes of Toro's book by their numbers, and by their names.
TESTS = {str(n): name for n, name in enumerate(_TORO, 1)} | {name: name for name in _TORO}
#: Growth of the mode of the shear layers, from linear theory of the same ramps, and between which
#: amplitudes, and after which time, it is measured.
GROWTH, GROWING, SETTLED = 2.83, (0.02, 0.06), 0.3

#: Rows of a table, from the flow at its end.
Compare = Callable[[EulerSolver], Comparison | None]
#: Exact lines of a picture by the names of its fields, from the flow at its end.
Lines = Callable[[EulerSolver], Mapping[str, Any]]


def numerics(options: Options) -> dict[str, str]:
    """What was chosen of the scheme."""
    chosen = dict(options.chosen)
    return {
        "reconstruction": chosen["scheme"],
        **{name: chosen[name] for name in ("limiter", "riemann", "integrator")},
    }


def play(
    options: Options,
    name: str,
    config: EulerConfig,
    until: float,
    compare: Compare,
    *,
    lines: Lines | None = None,
) -> None:
    """Run a flow, save and draw it, and print a table, if there is one for its end. Collective."""
    expected, until = until, until if options.until is None else options.until
    flow = running.begin(EulerSolver(config, device=options.device), options, until)
    running.run(flow, options, until)
    _finish(flow, options, name, None if lines is None else lines(flow))
    running.show(compare(flow), f"No comparison: the reference is of time {expected:g}.")


def _finish(
    flow: EulerSolver, options: Options, name: str, exact: Mapping[str, Any] | None = None
) -> None:
    fields = {"density": flow.primitive[0], "pressure": flow.pressure}
    title = f"{flow.config.reconstruction}, {flow.config.riemann}, time {flow.time:g}"
    running.finish(
        flow,
        options.output / name,
        lambda path: draw(flow.grid, fields, path, title=title, exact=exact),
    )
    da.log(f"Step {flow.step_count}, time {flow.time:g}")


# ---- shock tubes


def run_tube(options: Options, name: str) -> None:
    """A shock tube beside the exact solution. Collective."""
    require_axes(options, 1)
    case = exact.shock_tubes()[name]

    def compare(flow: EulerSolver) -> Comparison:
        names = ("density", "velocity", "pressure")
        rows = [
            row
            for n, what in enumerate(names)
            for row in error_rows(
                what, flow.primitive[n], flow.grid, lambda x, n=n: case.states(x, flow.time)[n]
            )
        ]
        return Comparison("the exact solution", (*rows, *_plateaus(flow, case)))

    def lines(flow: EulerSolver) -> Mapping[str, Any]:
        rho, _, p = case.states(positions(flow.grid), flow.time)
        return {"density": rho, "pressure": p}

    config = problems.tube(case, options.cells, **numerics(options))
    play(options, name, config, case.until, compare, lines=lines)


def _plateaus(flow: EulerSolver, case: exact.ShockTube) -> Iterable[Row]:
    """The state half-way between the contact and the waves beside it."""
    problem, x = case.problem, positions(flow.grid)
    w = flow.primitive.gather()
    for side, name in ((-1, "left"), (1, "right")):
        near = problem.speeds(side)[1]
        place = case.jump + 0.5 * (problem.u_star + near) * flow.time
        i = int(np.argmin(abs(x - place)))
        yield relative(f"density {name} of contact", float(w[0, i]), problem.rho_star(side), None)
        yield relative(f"pressure {name} of contact", float(w[-1, i]), problem.p_star, None)


def run_shu_osher(options: Options) -> None:
    """Waves behind a shock beside a fine solution. Collective."""
    require_axes(options, 1)

    gate = 0.08 if options.cells[0] >= 400 else None

    def compare(flow: EulerSolver) -> Comparison | None:
        if flow.time != problems.SHU_OSHER_TIME:
            return None
        x, rho = exact.shu_osher_table()[:2]
        here = np.interp(x, positions(flow.grid), flow.fields["density"].gather())
        off = float(np.mean(abs(here - rho)))
        return Comparison(
            "a solution by WENO on 3200 cells", (Row("mean error of density", off, 0.0, gate),)
        )

    config = problems.shu_osher(options.cells, **numerics(options))
    play(options, "shu_osher", config, problems.SHU_OSHER_TIME, compare)


def run_blast_waves(options: Options) -> None:
    """Two blasts that meet beside a solution on four times the cells. Collective."""
    require_axes(options, 1)

    def compare(flow: EulerSolver) -> Comparison:
        fine = EulerSolver(
            problems.blast_waves((4 * options.cells[0],), **_positive(options)),
            device=options.device,
        )
        da.log("The same on four times the cells, for comparison")
        fine.run(until=flow.time, progress=True)
        reference = fine.fields["density"].gather().reshape(-1, 4).mean(axis=1)
        rho = flow.fields["density"].gather()
        return Comparison(
            "a solution on four times the cells",
            (
                Row("mean error of density", float(np.mean(abs(rho - reference))), 0.0),
                Row("largest density", float(rho.max()), float(reference.max())),
            ),
        )

    config = problems.blast_waves(options.cells, **_positive(options))
    play(options, "blast_waves", config, problems.BLAST_TIME, compare)


def _positive(options: Options) -> dict[str, Any]:
    return {**numerics(options), "positivity": True}


# ---- several axes


def run_sedov(options: Options) -> None:
    """A point blast beside the similarity solution. Collective."""
    ndim = len(options.cells)
    gate = 0.02 if min(options.cells) >= 100 else None

    def compare(flow: EulerSolver) -> Comparison:
        expected = problems.SEDOV_RADIUS * flow.time ** (2.0 / (ndim + 2.0))
        return Comparison(
            "the similarity solution of Sedov",
            (
                relative("radius of the shock", shock_radius(flow), expected, gate),
                Row("largest density", float(flow.fields["density"].max()), 6.0),
            ),
        )

    config = problems.sedov(options.cells, **numerics(options))
    play(options, "sedov", config, problems.SEDOV_TIME, compare)


def shock_radius(flow: EulerSolver) -> float:
    """The radius of the ball whose volume is that of all cells within the shock, where the pressure
    is more than a quarter of the largest one: in the middle it is near a half. Collective.
    """
    within = flow.pressure > 0.25 * float(flow.pressure.max())
    volume = float(within.sum()) * math.prod(h or 0.0 for h in flow.grid.spacing)
    ndim = flow.config.ndim
    unit = (2.0, math.pi, 4.0 / 3.0 * math.pi)[ndim - 1]
    return float((volume / unit) ** (1.0 / ndim))


def run_vortex(options: Options) -> None:
    """A vortex that is carried along beside the exact solution. Collective."""
    require_axes(options, 2)

    def compare(flow: EulerSolver) -> Comparison:
        rows = [
            row
            for n, what in enumerate(("density", "velocity x", "velocity y", "pressure"))
            for row in error_rows(
                what, flow.primitive[n], flow.grid,
                lambda *x, n=n: exact.vortex(flow.time, *x)[n],
            )
        ]  # fmt: skip
        return Comparison("the exact solution", tuple(rows))

    config = problems.vortex_flow(options.cells, **numerics(options))
    play(options, "vortex", config, 2.0, compare)


def run_gresho(options: Options) -> None:
    """A steady vortex at a low Mach number, which the flow should keep. Collective."""
    require_axes(options, 2)

    def compare(flow: EulerSolver) -> Comparison:
        w, mach = flow.primitive, options.number
        rows = [
            row
            for n in (1, 2)
            for row in error_rows(
                f"velocity {'xy'[n - 1]}", w[n], flow.grid,
                lambda *x, n=n: exact.gresho(*x, mach=mach)[n],
            )
        ]  # fmt: skip
        kept, start = (kinetic_energy(state) for state in (w, _initial(flow, mach)))
        rows.append(relative("kinetic energy", kept, start, None))
        return Comparison("the vortex at the start", tuple(rows))

    config = problems.gresho_flow(options.cells, mach=options.number, **numerics(options))
    play(options, "gresho", config, problems.GRESHO_TIME, compare)


def kinetic_energy(w: Any) -> float:
    """The mean kinetic energy per volume of primitive variables on two axes. Collective."""
    return float((0.5 * w[0] * (w[1] * w[1] + w[2] * w[2])).mean(reproducible=True))


def _initial(flow: EulerSolver, mach: float) -> list[da.DistArray]:
    return [
        flow.grid.from_function(lambda *x, n=n: exact.gresho(*x, mach=mach)[n]) for n in range(3)
    ]


def run_kelvin_helmholtz(options: Options) -> None:
    """Shear layers that roll up beside the growth of linear theory. Collective."""
    require_axes(options, 2)
    until = problems.INSTABILITY_TIME if options.until is None else options.until
    config = problems.kelvin_helmholtz(options.cells, **numerics(options))
    flow = running.begin(EulerSolver(config, device=options.device), options, until)
    # After a restart there are no amplitudes of before: a rate of the rest alone is not judged.
    since = f" since time {flow.time:g}" if flow.time > SETTLED else ""
    rate = growth(flow, until, functools.partial(running.run, flow, options, until))
    _finish(flow, options, "kelvin_helmholtz")
    gate = 0.15 if min(options.cells) >= 128 and not since else None
    rows = [Row("amplitude at the end", problems.mixing(flow.primitive[2], flow.grid), 0.12)]
    if math.isnan(rate):
        low, high = GROWING
        da.log(f"Growth rate not reached: the amplitude was rarely between {low} and {high}{since}")
    else:
        rows.insert(0, relative(f"growth rate{since}", rate, GROWTH, gate))
    running.show(Comparison("linear theory, and a solution that others measured", tuple(rows)))


def growth(flow: EulerSolver, until: float, run: Callable[..., Any]) -> float:
    """Run to a time by `run(visits=...)`, and fit the rate at which the mode grows while its
    amplitude is between those of `GROWING`; NaN if it rarely was. It is looked at at fixed times,
    after a restart at those that are left. Collective.
    """
    times, logs = [], []

    def look() -> None:
        amplitude = problems.mixing(flow.primitive[2], flow.grid)
        if GROWING[0] < amplitude < GROWING[1] and flow.time > SETTLED:
            times.append(flow.time)
            logs.append(math.log(amplitude))

    run(visits=[(float(time), look) for time in np.linspace(0.0, until, 51)[1:-1]])
    look()
    return float(np.polyfit(times, logs, 1)[0]) if len(times) > 2 else math.nan


def run_double_mach(options: Options) -> None:
    """A shock that a ramp reflects. Collective."""
    require_axes(options, 2)

    def compare(flow: EulerSolver) -> Comparison:
        p = flow.pressure
        width = flow.grid.spacing[0] or 0.0
        y = flow.grid.bounds[1][1] - 0.5 * (flow.grid.spacing[1] or 0.0)
        return Comparison(
            "the undisturbed shock",
            (
                Row(
                    "shock at the upper side",
                    front(flow),
                    exact.double_mach_front(flow.time, y),
                    width,
                ),
                Row("pressure far behind", float(p[0].min()), problems.BEHIND[-1], 1e-6),
                Row("pressure far ahead", float(p[-1].max()), problems.AHEAD[-1], 1e-6),
            ),
        )

    config = problems.double_mach(options.cells, **numerics(options))
    play(options, "double_mach", config, problems.DOUBLE_MACH_TIME, compare)


def front(flow: EulerSolver) -> float:
    """Where pressure in the uppermost cells falls through the mean of both sides. Collective."""
    p = flow.pressure[:, -1].gather()
    x = flow.grid.bounds[0][0] + (np.arange(p.size) + 0.5) * (flow.grid.spacing[0] or 0.0)
    middle = 0.5 * (problems.BEHIND[-1] + problems.AHEAD[-1])
    i = int(np.flatnonzero(p > middle)[-1])
    return float(x[i] + (x[i + 1] - x[i]) * (p[i] - middle) / (p[i] - p[i + 1]))


def _case(name: str, summary: str, cells: tuple[int, ...], run: Any, **more: Any) -> Case:
    given = {"number_name": "", "reads": RUNS, "choices": SCHEMES} | more
    return Case(name, summary, cells, run, **given)


CASES = (
    _case("sod", "shock tube of Sod, against the exact solution", (400,),
          lambda options: run_tube(options, "sod")),
    _case("lax", "shock tube of Lax, against the exact solution", (400,),
          lambda options: run_tube(options, "lax")),
    _case("toro", "a shock tube of Toro's book, against the exact solution", (400,),
          lambda options: run_tube(options, TESTS[options.chosen["test"]]),
          choices=(Choice("test", tuple(TESTS), "1", "its number or name"), *SCHEMES)),
    _case("shu_osher", "a shock that runs into waves, against a fine solution", (400,),
          run_shu_osher),
    _case("blast_waves", "two blasts that meet, against a solution on more cells", (400,),
          run_blast_waves),
    _case("sedov", "a point blast, against the similarity solution", (128, 128), run_sedov),
    _case("vortex", "a vortex that is carried along, against the exact solution", (64, 64),
          run_vortex),
    _case("gresho", "a steady vortex at a low Mach number", (64, 64), run_gresho,
          number=0.1, number_name="mach", number_help="largest Mach number"),
    _case("kelvin_helmholtz", "shear layers that roll up, against linear growth", (128, 128),
          run_kelvin_helmholtz),
    _case("double_mach", "a strong shock that a ramp reflects", (240, 60), run_double_mach),
)  # fmt: skip
