"""The direct solver gives the same bits on any number of ranks and any process grid."""

import functools
import itertools

import numpy as np
from mpi4py import MPI

import distarray as da
from solvers.fft_poisson import FFTPoisson
from tests.ranks.common import SIZE, from_root, process_grids, refused

RANKS = (1, 2, 3, 8)
SELDOM = (1, 2, 8)

ZERO_VALUE, ZERO_FLUX = da.Dirichlet(0.0), da.Neumann(0.0)
FACES = np.linspace(0.0, 1.0, 11) ** 1.3

#: Cells, periodic axes, conditions, c and a stretched axis. Odd numbers of lines, and axes shorter
#: than the number of ranks.
PROBLEMS = {
    "line": ((13,), False, {"x": ZERO_VALUE}, 0.0, None),
    "box": ((9, 7, 10), (True, False, False), {"y": ZERO_FLUX, "z": ZERO_VALUE}, 2.0, None),
    "closed": ((10, 7), False, {"x": ZERO_FLUX, "y": ZERO_FLUX}, 0.0, None),
    "mixed": (
        (3, 5, 9),
        False,
        {"x": ZERO_FLUX, "y-": ZERO_VALUE, "y+": ZERO_FLUX, "z-": ZERO_FLUX, "z+": ZERO_VALUE},
        0.0,
        None,
    ),
    "stretched": ((10, 9, 4), (False, True, True), {"x": ZERO_FLUX}, 0.0, "x"),
    "all stretched": ((10, 10), (False, True), {"x": ZERO_FLUX}, 0.0, "xy"),
    "stretched last": (
        (5, 6, 10),
        (False, False, True),
        {"x": ZERO_FLUX, "y": ZERO_VALUE},
        0.0,
        "z",
    ),
}


def solve(name, **options):
    cells, periodic, boundary, c, stretched = PROBLEMS[name]
    coordinates = None if stretched is None else dict.fromkeys(stretched, FACES)
    grid = da.Grid(cells, periodic=periodic, coordinates=coordinates, **options)
    poisson = FFTPoisson(grid, boundary, c=c)
    f = da.random.normal(grid, seed=3)
    if poisson.singular:
        out = grid.zeros()
        poisson.solve_into(f, out)
        f = grid.zeros()
        poisson.operator(out, f)
    solution = poisson.solve(f)
    assert solution.converged, solution.reason
    return solution.x.gather().tobytes(), solution.residuals


@functools.cache
def alone(name):
    return from_root(lambda: solve(name, comm=MPI.COMM_SELF, device="cpu"))


def check(name):
    assert solve(name) == alone(name)
    cells = PROBLEMS[name][0]
    # Where ranks are many, beside the grid chosen by default, the first other one.
    for ranks in itertools.islice(process_grids(len(cells), cells), 1 if SIZE >= 8 else None):
        assert solve(name, ranks=ranks) == alone(name), ranks


def test_a_line():
    check("line")


def test_a_box_with_all_kinds_of_axes():
    check("box")


def test_a_closed_box():
    check("closed")


def test_a_box_narrower_than_the_ranks():
    check("mixed")


def test_a_stretched_axis():
    check("stretched")
    if SIZE < 8:
        check("stretched last")
        check("all stretched")


def test_the_simulated_device_gives_the_bits_of_the_cpu():
    for name in ("box",) if SIZE >= 8 else ("box", "stretched"):
        assert solve(name, device="simulated") == alone(name)


def test_an_incompatible_right_hand_side_is_the_same_error_on_all_ranks():
    grid = da.Grid((12, 8), periodic=True)
    refused(da.SolverError, "has the mean 1, ", lambda: FFTPoisson(grid).solve(grid.ones()))
