"""The lid-driven cavity against published values: run by `python -m pytest -m slow`."""

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

from solvers.incompressible import IncompressibleSolver
from solvers.incompressible.cases import cavity
from solvers.incompressible.reference import compare_centre_lines, compare_extrema

# Hours, not the minutes of the quick tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]


def steady_cavity(cells, reynolds):
    """The steady flow, started from the one of every coarser grid down to 32 cells."""
    flow = None
    for n in [size for size in (32, 64, 128, 256) if size <= cells]:
        coarse, flow = flow, IncompressibleSolver(cavity((n, n), reynolds))
        if coarse is not None:
            interpolate_fields(coarse, flow)
        flow.run(steady=1e-5 if n < cells else 2e-6)
    print()
    for comparison in (compare_centre_lines(flow), compare_extrema(flow)):
        if comparison is not None:
            print(comparison.text())
    return flow


def interpolate_fields(coarse, fine):
    """Linear interpolation of all fields, continued to the sides: a first guess."""
    for name, values in fine.fields.items():
        known = coarse.fields[name]
        lines = [line.ravel() for line in coarse.grid.coordinates(known.location)]
        guess = RegularGridInterpolator(lines, known.gather(), bounds_error=False, fill_value=None)
        places = [line.ravel() for line in fine.grid.coordinates(values.location)]
        values[...] = guess(np.stack(np.meshgrid(*places, indexing="ij"), axis=-1))


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
    comparison = compare_centre_lines(steady_cavity(256, 3200.0))
    assert comparison.largest() <= 0.03
