"""The lid-driven cavity against published values: run by `python -m pytest -m slow`."""

import pytest

from solvers.incompressible import IncompressibleSolver
from solvers.incompressible.cases import cavity
from solvers.incompressible.reference import compare_centre_lines, compare_extrema
from tests.flow_tools import interpolate_fields

# Hours, not the minutes of the quick tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]


def steady_cavity(cells, reynolds, steady=2e-6):
    """The steady flow, started from the one of every coarser grid down to 32 cells."""
    flow = None
    for n in [size for size in (32, 64, 128, 256) if size <= cells]:
        coarse, flow = flow, IncompressibleSolver(cavity((n, n), reynolds))
        if coarse is not None:
            interpolate_fields(coarse, flow)
        flow.run(steady=1e-5 if n < cells else steady)
    print()
    for comparison in (compare_centre_lines(flow), compare_extrema(flow)):
        if comparison is not None:
            print(comparison.text())
    return flow


@pytest.mark.parametrize(("cells", "gate"), [(64, 0.006), (128, 0.0015)])
def test_reynolds_100_against_marchi(cells, gate):
    comparison = compare_centre_lines(steady_cavity(cells, 100.0))
    assert comparison.largest() <= gate


def test_reynolds_400_against_ghia():
    """0.01 of the converged solution; Ghia's own table lies within 0.012 of that."""
    flow = steady_cavity(128, 400.0)
    assert compare_centre_lines(flow).largest() <= 0.01
    # Values of an extrapolated solution.
    assert compare_extrema(flow).largest() <= 0.01


@pytest.mark.parametrize(("cells", "gate", "share"), [(128, 0.03, 0.035), (256, 0.008, 0.01)])
def test_reynolds_1000_against_botella(cells, gate, share):
    flow = steady_cavity(cells, 1000.0)
    assert compare_centre_lines(flow).largest() <= gate
    for row in compare_extrema(flow).rows:
        assert abs(row.deviation) <= share * abs(row.reference), row


def test_reynolds_3200_against_ghia():
    """The slowest mode decays by e in about 50 units of time: 0.001 is left of it."""
    comparison = compare_centre_lines(steady_cavity(256, 3200.0, steady=2e-5))
    assert comparison.largest() <= 0.03
