"""The case `poisson` of the command line."""

from __future__ import annotations

import math

import distarray as da
from solvers.case import Case, Options
from solvers.linear.solution import Solution
from solvers.multigrid import Multigrid
from solvers.poisson.problems import HARD, Briggs, published
from solvers.series import make_folder


def run_poisson(options: Options) -> None:
    """Solve the published problem on the cells that are asked for, compare a series of grids with
    the published errors, print rates of hard problems, save. Collective.
    """
    problem = Briggs(options.cells, device=options.device)
    make_folder(options.output, problem.grid)
    first = _first_guess(options, problem)
    solver = Multigrid(problem.operator, reproducible=True)
    found = solver.solve(problem.f, first, rtol=options.number, callback=_progress)
    da.log(f"{' x '.join(map(str, options.cells))} cells: {found.reason}")
    l2, linf = problem.errors(found.x)
    da.log(f"Error {l2:.6e} in the 2-norm, {linf:.6e} at most")
    _save(options, problem, found)
    da.log(_comparison(options.number, options.device))
    da.log(_rates(options.device))


def _first_guess(options: Options, problem: Briggs) -> da.DistArray | None:
    """The solution in the file to go on from, if there is one. Collective."""
    newest = options.output / "poisson.h5"
    if options.restart is True and not problem.grid.communicator.bcast(newest.is_file()):
        da.log(f"No solution in '{newest}'; start from zero")
        return None
    if not options.restart:
        return None
    path = newest if options.restart is True else options.restart
    found = da.load(path, problem.grid).arrays
    if "u" not in found:
        raise da.FileError(
            f"The file '{path}' has no solution 'u', but only {', '.join(found) or 'none'}; give "
            "one that this case wrote."
        )
    return found["u"]


def _progress(cycle: int, residual: float) -> None:
    da.log(f"cycle {cycle:2d}  residual {residual:.3e}")


def _save(options: Options, problem: Briggs, found: Solution) -> None:
    stem = options.output / "poisson"
    da.save(f"{stem}.h5", {"u": found.x, "f": problem.f}, step=found.iterations)
    if problem.grid.is_root:
        rows = [f"{number},{r!r}\n" for number, r in enumerate(found.residuals)]
        table = options.output / "residuals.csv"
        table.write_text("cycle,residual\n" + "".join(rows), "utf-8")
    da.log(
        f"Wrote {stem}.h5 and residuals.csv; for a picture: "
        f"python -m distarray view {stem}.h5 --array u --png {stem}.png"
    )


def _comparison(rtol: float, device: str) -> str:
    """The table of errors beside the published ones. Collective."""
    lines = [
        "Errors in the 2-norm against Briggs, Henson, McCormick (table of pyro)",
        "  cells  cycles  published      computed       deviation  ratio",
    ]
    before = math.nan
    for row in published():
        problem = Briggs((row.cells, row.cells), device=device)
        found = Multigrid(problem.operator, reproducible=True).solve(problem.f, rtol=rtol)
        l2, _ = problem.errors(found.x)
        ratio = "    -" if math.isnan(before) else f"{before / l2:5.3f}"
        lines.append(
            f"  {row.cells:5d}  {found.iterations:6d}  {row.l2:.7e}  {l2:.7e}  "
            f"{l2 / row.l2 - 1.0:9.1e}  {ratio}"
        )
        before = l2
    return "\n".join(lines)


def _rates(device: str) -> str:
    """How fast cycles converge where they may be slow. Collective."""
    lines = [
        "Cycles to a relative residual of 1e-8, and what a cycle leaves of it on average",
        "  problem               cells         cycles  rate",
    ]
    for problem in HARD:
        found = problem.solve(device=device)
        steps = max(1, found.iterations - 1)
        rate = (found.residuals[-1] / found.residuals[min(1, found.iterations)]) ** (1.0 / steps)
        cells = " x ".join(map(str, problem.cells))
        short = "" if found.converged else f"  {found.reason}"
        lines.append(f"  {problem.name:<20}  {cells:<12}  {found.iterations:6d}  {rate:.3f}{short}")
    return "\n".join(lines)


CASES = (
    Case(
        "poisson",
        "Poisson equation by multigrid, against published errors",
        (64, 64),
        run_poisson,
        number=1e-10,
        number_name="rtol",
        number_help="residual to reach, relative to the right-hand side",
        reads=("restart",),
    ),
)
