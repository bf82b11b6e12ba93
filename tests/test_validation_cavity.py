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


#: v(x, 1/2) at Re = 3200 by another scheme: stream function and vorticity at nodes, central
#: differences of second order, wall vorticity of second order, Newton iterations with a direct
#: solver; extrapolated from 128^2 and 256^2 intervals. On 256^2 alone that scheme misses Ghia's v
#: by 0.036.
EXTRAPOLATED = {0.9062: -0.4424, 0.9453: -0.5657, 0.9531: -0.5589, 0.9609: -0.5172, 0.9688: -0.4371}


def test_reynolds_3200_against_ghia():
    """All stations but two, where the table is up to 0.047 from a converged flow: its v near the
    right wall is too small, the more the higher the Reynolds number.

    The slowest mode decays by e in about 50 units of time: 0.001 is left of it.
    """
    comparison = compare_centre_lines(steady_cavity(256, 3200.0, steady=2e-5))
    missed = {row.station for row in comparison.rows if not row.accepted}
    certain = {"v(x, 1/2) 0.9609", "v(x, 1/2) 0.9688"}
    assert certain <= missed <= certain | {"v(x, 1/2) 0.9531"}  # 0.0299 there, of 0.03
    computed = {row.station: row.computed for row in comparison.rows}
    for place, value in EXTRAPOLATED.items():
        assert abs(computed[f"v(x, 1/2) {place}"] - value) <= 0.01
