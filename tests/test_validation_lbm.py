"""The lattice Boltzmann method against published values: run by `python -m pytest -m slow`."""

import dataclasses

import pytest

from solvers.lbm import LatticeSolver
from solvers.lbm.cases import cavity, cylinder, cylinder_coefficients
from solvers.lbm.reference import compare_cavity, compare_cylinder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]


def steady_cavity(cells, reynolds, collision="trt", steady=1e-5):
    flow = LatticeSolver(cavity((cells, cells), reynolds, collision=collision))
    flow.run(steady=steady)
    comparison = compare_cavity(flow)
    print(f"\n{comparison.text()}")
    return comparison


@pytest.mark.parametrize(
    ("cells", "reynolds", "gate"), [(128, 100.0, 0.01), (128, 400.0, 0.012), (256, 1000.0, 0.03)]
)
def test_cavity(cells, reynolds, gate):
    """At Mach number 0.1, beside Marchi et al. 2009, Ghia et al. 1982 and Botella, Peyret 1998."""
    comparison = steady_cavity(cells, reynolds)
    assert comparison.largest() <= gate
    assert {row.gate for row in comparison.rows} == {gate}


def test_a_coarse_cavity_misses_the_gate():
    """So that the gate is one of resolution."""
    assert steady_cavity(32, 100.0).largest() > 0.01


@pytest.mark.parametrize("collision", ["trt", "cumulant"])
def test_drag_of_a_cylinder(collision):
    """Benchmark 2D-1 of Schafer and Turek, Re = 20, with 20 cells across; 3 % of 5.5795."""
    flow = LatticeSolver(cylinder((440, 82), 20.0, collision=collision))
    flow.run(until=30.0, steady=1e-3)
    comparison = compare_cylinder(*cylinder_coefficients(flow), 20.0)
    print(f"\n{comparison.text()}")
    drag = comparison.rows[0]
    assert drag.gate == pytest.approx(0.03 * 5.5795, rel=1e-3)
    assert drag.accepted


def test_drag_of_a_cylinder_of_another_viscosity_misses_the_gate():
    config = cylinder((220, 41), 20.0)
    flow = LatticeSolver(dataclasses.replace(config, viscosity=1.1 * config.viscosity))
    flow.run(until=16.0)
    assert not compare_cylinder(*cylinder_coefficients(flow), 20.0).rows[0].accepted
