"""Compressible flow: exact properties of the discrete scheme, exact solutions, what is refused."""

import math
import re

import numpy as np
import pytest
from scipy.optimize import brentq

import distarray as da
from solvers.__main__ import main
from solvers.euler import EulerConfig, EulerSolver, Inflow, Outflow, Split, Wall, gas, riemann
from solvers.euler.exact import RiemannProblem, sedov_radius, shock_tubes
from solvers.euler.problems import tube

TUBES = shock_tubes()


def state(flow):
    """Density, momentum and energy, one component each."""
    fields = [flow.fields[name].gather() for name in ("density", "momentum", "energy")]
    return np.concatenate([fields[0][None], fields[1], fields[2][None]])


def steps(flow, count):
    flow.run(max_steps=count)
    return state(flow)


def waves(*coords):
    """A smooth state that is nowhere symmetric, on any number of axes."""
    phase = [2.0 * np.pi * (x + 0.1 * n) for n, x in enumerate(coords)]
    wave = sum(np.sin(p) for p in phase) / len(coords)
    return [1.0 + 0.2 * wave, *(0.3 + 0.2 * np.cos(p) for p in phase), 1.0 + 0.1 * wave * wave]


# ------------------------------------------------------------------------ Riemann problems


def pairs(count=400):
    """States over six decades of density and pressure, and velocities up to many times sound."""
    rng = np.random.default_rng(5)
    shape = (2, count)
    rho, p = 10.0 ** rng.uniform(-3.0, 3.0, shape), 10.0 ** rng.uniform(-3.0, 3.0, shape)
    return [(rho[i], rng.normal(0.0, 3.0, count) * np.sqrt(p[i] / rho[i]), p[i]) for i in (0, 1)]


def excess(p, rho, u, p_side, gamma):
    """Toro's function f_K, written out anew."""
    if p > p_side:
        a, b = 2.0 / (gamma + 1.0) / rho, (gamma - 1.0) / (gamma + 1.0) * p_side
        return (p - p_side) * math.sqrt(a / (p + b))
    c = math.sqrt(gamma * p_side / rho)
    return 2.0 * c / (gamma - 1.0) * ((p / p_side) ** ((gamma - 1.0) / 2.0 / gamma) - 1.0)


@pytest.mark.parametrize("name", TUBES)
def test_star_states_are_those_of_toro(name):
    tube, problem = TUBES[name].published, TUBES[name].problem
    states = [tuple(np.array([value]) for value in side) for side in (problem.left, problem.right)]
    p, u = riemann.star(*states, 1.4)
    found = [p[0], u[0], problem.rho_star(-1), problem.rho_star(1)]
    published = [tube[name] for name in ("p_star", "u_star", "rho_star_l", "rho_star_r")]
    np.testing.assert_allclose(found, published, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        [problem.p_star, problem.u_star], published[:2], rtol=1e-8, atol=1e-12
    )


def test_the_exact_flux_solver_converges_for_all_states():
    left, right = pairs()
    p, u = riemann.star(left, right, 1.4)
    for i, found in enumerate(zip(p, u, strict=True)):
        sides = [tuple(float(value[i]) for value in side) for side in (left, right)]

        def total(p, sides=sides):
            return sum(excess(p, *side, 1.4) for side in sides) + sides[1][1] - sides[0][1]

        top = max(side[2] for side in sides)
        if total(1e-10 * top) > 0.0:
            continue  # a vacuum opens, or nearly
        high = top
        while total(high) < 0.0:
            high *= 4.0
        expected = brentq(total, 1e-10 * top, high, xtol=1e-300, rtol=1e-14)
        assert found[0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("solver", riemann.SOLVERS)
def test_fluxes_of_equal_states_are_those_of_the_state(solver):
    (rho, u, p), _ = pairs()
    one = [rho, u, 0.3 * u, p]
    found = riemann.SOLVERS[solver](one, one, 0, 1.4)
    for value, expected in zip(found, gas.flux(one, 0, 1.4), strict=True):
        scale = abs(rho * u) * (abs(u) + 1.0) ** 2 + p * (1.0 + abs(u))
        np.testing.assert_allclose(value / scale, expected / scale, rtol=0, atol=1e-13)


@pytest.mark.parametrize("solver", riemann.SOLVERS)
def test_mirrored_states_have_mirrored_fluxes_to_the_bit(solver):
    (rl, ul, pl), (rr, ur, pr) = pairs()
    find = riemann.SOLVERS[solver]
    there = find([rl, ul, 0.5 * ur, pl], [rr, ur, 0.1 * ul, pr], 0, 1.4)
    back = find([rr, -ur, 0.1 * ul, pr], [rl, -ul, 0.5 * ur, pl], 0, 1.4)
    for value, other, sign in zip(there, back, (-1.0, 1.0, -1.0, -1.0), strict=True):
        np.testing.assert_array_equal(value, sign * other)


@pytest.mark.parametrize("solver", ["hllc", "exact"])
def test_a_contact_at_rest_stays(solver):
    found = riemann.SOLVERS[solver](
        [np.ones(1), np.zeros(1), np.ones(1)], [np.full(1, 0.1), np.zeros(1), np.ones(1)], 0, 1.4
    )
    np.testing.assert_array_equal(np.ravel(found), [0.0, 1.0, 0.0])


def test_the_exact_flux_is_that_of_the_exact_solution():
    for case in TUBES.values():
        left, right = case.problem.left, case.problem.right
        given = [[np.array([value]) for value in side] for side in (left, right)]
        rho, u, p = (float(value[()]) for value in case.problem(0.0))
        expected = list(gas.flux([rho, u, p], 0, 1.4))
        found = np.ravel(riemann.exact(*given, 0, 1.4))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * max(left[2], right[2]))


def test_fluxes_of_all_axes_are_turned():
    (rl, ul, pl), (rr, ur, pr) = pairs(20)
    for solver in riemann.SOLVERS.values():
        x = solver([rl, ul, ur, pl], [rr, ur, ul, pr], 0, 1.4)
        y = solver([rl, ur, ul, pl], [rr, ul, ur, pr], 1, 1.4)
        np.testing.assert_array_equal([x[0], x[2], x[1], x[3]], y)


def test_a_vacuum_opens_without_flux():
    side = 1.0, 20.0, 1.0
    given = [[np.array([value]) for value in (1.0, sign * 20.0, 1.0)] for sign in (-1.0, 1.0)]
    np.testing.assert_allclose(riemann.exact(*given, 0, 1.4), 0.0, atol=1e-6)
    problem = RiemannProblem((side[0], -side[1], side[2]), side)
    assert problem.p_star == 0.0
    assert problem(0.0)[0] == 0.0


def test_similar_blasts_have_the_energies_that_others_found():
    """Kamm, J. R., Timmes, F. X. (2007) LA-UR-07-2849: energies of these radii at time 1."""
    for ndim, energy, radius in ((2, 0.311357, 0.75), (3, 0.851072, 1.0)):
        assert sedov_radius(1.0, ndim, energy=energy) == pytest.approx(radius, rel=1e-4)


# ---------------------------------------------------------- exact properties of the scheme


@pytest.mark.parametrize("numerics", [{}, {"reconstruction": "weno_z", "integrator": "ssp_rk3"}])
def test_uniform_flow_keeps_its_bits(numerics):
    given = 1.3, 0.7, 0.9
    sides = {"x-": Inflow(given), "x+": Outflow()}
    flow = EulerSolver(EulerConfig(cells=(24,), initial=given, sides=sides, **numerics))
    before = state(flow)
    np.testing.assert_array_equal(steps(flow, 10), before)


@pytest.mark.slow
def test_uniform_flow_on_two_axes_keeps_its_bits():
    flow = EulerSolver(EulerConfig(cells=(12, 9), initial=(1.3, 0.7, -0.3, 0.9), periodic=True))
    before = state(flow)
    np.testing.assert_array_equal(steps(flow, 10), before)


@pytest.mark.parametrize("numerics", [{}, {"reconstruction": "weno_z", "integrator": "ssp_rk3"}])
def test_a_mirrored_tube_is_a_mirror_image_to_the_bit(numerics):
    def run(left, right):
        def initial(x):
            return [np.where(x < 0.5, a, b) for a, b in zip(left, right, strict=True)]

        config = EulerConfig(cells=(60,), initial=initial, periodic=True, **numerics)
        return steps(EulerSolver(config), 40)

    one, other = (1.0, 0.0, 1.0), (0.125, 0.0, 0.1)
    found = run(one, other), run(other, one)
    image = found[1][:, ::-1]
    assert abs(found[0][1]).max() > 0.1
    np.testing.assert_array_equal(found[0], [image[0], -image[1], image[2]])


def blast(*coords):
    inside = sum((x - 0.5) ** 2 for x in coords) < 0.04
    return [1.0 + 0.0 * sum(coords), *(0.0,) * len(coords), np.where(inside, 10.0, 0.1)]


def test_a_symmetric_blast_stays_symmetric_to_the_bit():
    flow = EulerSolver(EulerConfig(cells=(24, 24), initial=blast))
    rho, u, v, energy = steps(flow, 60)  # the walls have reflected it by then
    assert abs(u[0]).max() > 1e-3
    for scalar in (rho, energy):
        np.testing.assert_array_equal(scalar, scalar.T)
        np.testing.assert_array_equal(scalar, scalar[::-1])
    np.testing.assert_array_equal(u, v.T)
    np.testing.assert_array_equal(u, -u[::-1])
    np.testing.assert_array_equal(u, u[:, ::-1])


def test_totals_stay_over_a_thousand_steps_in_a_periodic_box():
    flow = EulerSolver(EulerConfig(cells=(16, 12), initial=waves, periodic=True))
    before = flow.scalars()
    flow.run(max_steps=1000)
    for name, value in flow.scalars().items():
        assert value == pytest.approx(before[name], rel=1e-12), name


def test_mass_and_energy_stay_over_a_thousand_steps_between_walls():
    flow = EulerSolver(EulerConfig(cells=(40,), initial=lambda x: TUBES["sod"].states(x, 0.0)))
    before = flow.scalars()
    flow.run(max_steps=1000)
    after = flow.scalars()
    for name in ("mass", "energy"):
        assert after[name] == pytest.approx(before[name], rel=1e-12), name
    assert set(after) == {"mass", "momentum_x", "energy"}


def test_gas_falls_freely():
    """Runge-Kutta schemes of second order are exact for it."""
    g = -0.5
    flow = EulerSolver(
        EulerConfig(cells=(8,), initial=(2.0, 0.25, 1.0), periodic=True, gravity=(g,))
    )
    for _ in range(10):
        flow.step(0.01)
    u = 0.25 + 0.1 * g
    expected = 2.0, 2.0 * u, 2.5 + u * u
    for value, one in zip(state(flow), expected, strict=True):
        np.testing.assert_allclose(value, one, rtol=1e-13)


def test_an_atmosphere_between_walls_stays_to_second_order():
    speeds = []
    for cells in (16, 32):

        def layers(x):
            return np.exp(-x), 0.0 * x, np.exp(-x)

        flow = EulerSolver(EulerConfig(cells=(cells,), initial=layers, gravity=(-1.0,)))
        flow.run(until=0.5)
        speeds.append(float(abs(flow.primitive[1]).max()))
    assert speeds[0] < 2e-3
    assert math.log2(speeds[0] / speeds[1]) > 1.7


# -------------------------------------------------------------------------- exact solutions

#: Mean errors of density of a plain second-order scheme, van Leer's limiter, on 100 cells.
TABLE = {
    "sod": 0.0054, "toro1": 0.0062, "toro2_123": 0.0074, "toro3": 0.142, "toro4": 0.134,
    "toro5": 0.44, "lax": 0.021,
}  # fmt: skip


def tube_error(name, **numerics):
    case = TUBES[name]
    flow = EulerSolver(tube(case, (100,), **numerics))
    flow.run(until=case.until)
    low, high = case.bounds
    x = low + (np.arange(100) + 0.5) * (high - low) / 100
    return float(np.mean(abs(flow.fields["density"].gather() - case.states(x, case.until)[0])))


@pytest.mark.parametrize("name", TABLE)
def test_shock_tubes_have_the_errors_of_a_second_order_scheme(name):
    """To 2 % and the digits of the table."""
    assert tube_error(name) == pytest.approx(TABLE[name], rel=0.02)


@pytest.mark.slow
def test_a_first_order_scheme_fails_these_errors():
    assert tube_error("sod", reconstruction="constant", integrator="euler") > 2 * TABLE["sod"]


def test_weno_carries_a_wave_with_fifth_order():
    """Steps like h^(5 / 3), so that the third order of time shows as the fifth."""
    errors = []
    for cells, count in ((16, 20), (32, 64)):

        def wave(x):
            return 1.0 + 0.2 * np.sin(2.0 * np.pi * x)

        weno = {"reconstruction": "weno_z", "integrator": "ssp_rk3"}
        flow = EulerSolver(
            EulerConfig(cells=(cells,), initial=(wave, 1.0, 1.0), periodic=True, **weno)
        )
        for _ in range(count):
            flow.step(0.2 / count)
        x = (np.arange(cells) + 0.5) / cells
        errors.append(np.mean(abs(flow.fields["density"].gather() - wave(x - 0.2))))
    assert math.log2(errors[0] / errors[1]) > 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "least", "most"),
    [("hll", 1.0, 1.5), ("rusanov", 1.0, 1.5), ("exact", 0.8, 1.02)],
)
def test_other_fluxes_beside_hllc(solver, least, most):
    error = tube_error("sod", riemann=solver)
    assert least * TABLE["sod"] < error < most * TABLE["sod"]


def test_single_precision_is_as_near_as_its_digits_are():
    double, single = (
        EulerSolver(tube(TUBES["sod"], (100,), dtype=dtype)) for dtype in ("float64", "float32")
    )
    found, expected = (steps(flow, 50) for flow in (single, double))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert abs(expected[1]).max() > 0.1


@pytest.mark.parametrize(
    "reconstruction", ["muscl", pytest.param("weno_z", marks=pytest.mark.slow)]
)
def test_positivity_holds_near_a_vacuum(reconstruction):
    """A fan that opens a vacuum: u = -6 and 6 with c = 1.18 open one from 5.9 on."""

    def initial(x):
        return 1.0 + 0.0 * x, np.where(x < 0.5, -6.0, 6.0), 1.0

    numerics = {"reconstruction": reconstruction, "positivity": True, "courant": 0.45}
    sides = {"x-": Outflow(), "x+": Outflow()}
    flow = EulerSolver(EulerConfig(cells=(60,), initial=initial, sides=sides, **numerics))
    for _ in range(60):
        flow.run(max_steps=1)
        assert float(flow.primitive[0].min()) > 0.0
        assert float(flow.pressure.min()) > 0.0
    assert float(flow.primitive[0].min()) < 1e-2


def test_a_moving_wall_makes_the_shock_of_a_piston():
    """Gas behind the shock is as fast as the piston, which gives the pressure."""
    u, c = 0.5, math.sqrt(1.4)
    ratio = 1.0 + 1.4 * u / c * (0.6 * u / c + math.sqrt((0.6 * u / c) ** 2 + 1.0))
    flow = EulerSolver(
        EulerConfig(cells=(50,), initial=(1.0, 0.0, 1.0), sides={"x-": Wall(velocity=(u,))})
    )
    flow.run(until=0.3)
    np.testing.assert_allclose(flow.pressure.gather()[3:12], ratio, rtol=0.01)


def test_a_split_side_reflects_one_half_and_lets_the_other_out():
    mask = Split(lambda t, x, y: y < 0.5, Wall(), Outflow())
    flow = EulerSolver(
        EulerConfig(cells=(8, 8), initial=(1.0, 1.0, 0.0, 1.0), sides={"x+": mask, "x-": Outflow()})
    )
    flow.run(until=0.05)
    p = flow.pressure.gather()[-1]
    assert p[:2].min() > 1.5
    np.testing.assert_allclose(p[-2:], 1.0, atol=1e-3)


@pytest.mark.parametrize("numerics", [{}, {"reconstruction": "weno_z", "integrator": "ssp_rk3"}])
def test_a_wall_is_a_mirror(numerics):
    """Gas between two walls is half of a symmetric gas without any."""

    def initial(x):
        hump = np.exp(-50.0 * (abs(x) - 0.7) ** 2)
        return 1.0 + hump, np.sign(x) * hump, 1.0 + 3.0 * hump

    alone = steps(EulerSolver(EulerConfig(cells=(20,), initial=initial, **numerics)), 60)
    whole = EulerConfig(
        cells=(40,), initial=initial, bounds=((-1.0, 1.0),), periodic=True, **numerics
    )
    found = steps(EulerSolver(whole), 60)[:, 20:]
    # Coordinates agree to rounding.
    np.testing.assert_allclose(found, alone, rtol=1e-11, atol=1e-12)
    assert abs(alone[2, [0, -1]] - 2.5).min() > 0.1


def test_solid_cells_are_walls():
    """Gas beside an obstacle is gas beside a wall, to the bit."""

    def initial(x):
        return np.where(x < 0.25, 1.0, 0.125), 0.0 * x, np.where(x < 0.25, 1.0, 0.1)

    alone = steps(EulerSolver(EulerConfig(cells=(40,), initial=initial)), 140)
    beside = EulerSolver(
        EulerConfig(cells=(60,), initial=initial, bounds=((0.0, 1.5),), obstacles=lambda x: x > 1.0)
    )
    found = steps(beside, 140)
    # The widths 1 / 40 and 1.5 / 60 agree to rounding.
    np.testing.assert_allclose(found[:, :40], alone, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(found[1, 40:], 0.0)
    assert abs(alone[0, -1] - 0.125) > 0.01


@pytest.mark.slow
def test_solid_cells_hold_a_viscous_gas_as_walls_do():
    """A flow that is nowhere steady nor uniform: both walls lie on the faces of the cells."""

    def initial(x, y):
        near = np.exp(-10.0 * ((x - 0.4) ** 2 + (y - 0.35) ** 2))
        return 1.0 + near, 2.0 * np.sin(2.0 * np.pi * x) * (1.0 - y) * y, 0.3 * near, 1.0 + near

    def after(cells, bounds, **more):
        flow = EulerSolver(
            EulerConfig(
                cells=(8, cells), bounds=((0.0, 1.0), bounds), initial=initial, viscosity=0.05,
                periodic=(True, False), reconstruction="constant", riemann="rusanov",
                integrator="euler", **more,
            )
        )  # fmt: skip
        for _ in range(20):
            flow.step(4e-3)
        return flow.primitive.gather()

    alone = after(6, (0.0, 0.75))
    found = after(10, (-0.25, 1.0), obstacles=lambda x, y: (y < 0.0) | (y > 0.75))[:, :, 2:-2]
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-13)
    assert np.ptp(alone[1]) > 0.1


def test_heat_and_friction_between_walls_settle_to_the_exact_profile():
    """Couette flow: u = y, and T = T_w + (gamma - 1) / gamma Pr y (1 - y) / 2 (White, F. M. (2006)
    Viscous Fluid Flow, section 3-2), both linear and parabolic exactly.
    """
    prandtl, hot = 0.7, 1.0
    flow = EulerSolver(
        EulerConfig(
            cells=(2, 8),
            bounds=((0.0, 4.0), (0.0, 1.0)),
            initial=(1.0, lambda x, y: y + 0.0 * x, 0.0, 1.0),
            periodic=(True, False),
            viscosity=1.0,
            prandtl=prandtl,
            reconstruction="constant",  # exact for a contact at rest, and compiled sooner
            sides={
                "y-": Wall(temperature=hot),
                "y+": Wall(velocity=(1.0, 0.0), temperature=hot),
            },
        )
    )
    flow.run(until=0.8)
    w = flow.primitive.gather()[:, 0]
    y = (np.arange(8) + 0.5) / 8
    np.testing.assert_allclose(w[1], y, atol=2e-3)
    expected = hot + 0.4 / 1.4 * prandtl * 0.5 * y * (1.0 - y)
    np.testing.assert_allclose(w[-1] / w[0], expected, atol=2e-3)
    assert np.ptp(expected) > 0.015


# ------------------------------------------------------------------------------- what is refused

GAS = {"cells": (16,), "initial": (1.0, 0.0, 1.0)}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gamma": 1.0}, "'gamma' is above 1, received 1.0"),
        ({"gamma": math.nan}, "'gamma' is above 1, received nan"),
        ({"reconstruction": "ppm"}, "one of 'constant', 'muscl', 'weno5', 'weno_z'"),
        ({"limiter": "koren"}, "one of 'minmod', 'van_leer', 'mc'"),
        ({"riemann": "roe"}, "one of 'hllc', 'hll', 'rusanov', 'exact'"),
        ({"integrator": "rk4"}, "one of 'euler', 'ssp_rk2', 'ssp_rk3'"),
        ({"dtype": "float16"}, "one of 'float64', 'float32'"),
        ({"courant": 1.5}, "at most 1, received courant=1.5"),
        ({"courant": 0.6, "positivity": True}, "at most 0.5, received courant=0.6"),
        ({"courant": "fast"}, "at most 1, received courant='fast'"),
        ({"viscosity": -1.0}, "'viscosity' is at least 0"),
        ({"prandtl": 0.0}, "'prandtl' is above 0"),
        ({"cells": (4, 4, 4, 4)}, "cells along one to three axes"),
        ({"cells": (1,)}, "reads 2 cells on each side"),
        ({"initial": (1.0, 1.0)}, "density, one velocity per axis and pressure"),
        (
            {"initial": (1.0, 0.0, "high")},
            "finite number or a function, received 'high'",
        ),
        ({"gravity": (0.0, 1.0)}, "'gravity' has one entry per axis"),
        ({"gravity": ("down",)}, "Gravity has one number per axis"),
        ({"sides": {"y-": Wall()}}, "sides x-, x\\+, received 'y-'"),
        ({"sides": {"x-": "wall"}}, "a Wall, Inflow, Outflow or Split, received 'wall'"),
        ({"sides": [Wall()]}, "give a dict"),
        ({"sides": {"x-": Inflow((1.0, 0.0, -1.0))}}, "pressure of gas is above 0, received -1.0"),
        ({"sides": {"x-": Wall(velocity=(1.0, 0.0))}}, "velocity at 'x-'' has one entry per axis"),
        ({"sides": {"x-": Wall(temperature=1.0)}}, "heat to a viscous gas alone"),
        ({"sides": {"x-": Wall(velocity=(math.nan,))}}, "a finite number or a function, rec.* nan"),
        ({"sides": {"x-": Wall(slip="no")}}, "'slip at 'x-'' is one of False, True"),
        (
            {"sides": {"x-": Wall(temperature=-1.0)}, "viscosity": 0.1},
            "wall is above 0",
        ),
        (
            {"sides": {"x-": Wall(temperature="hot")}, "viscosity": 0.1},
            "a function, received 'hot'",
        ),
        ({"sides": {"x-": Inflow(1.0)}}, "density, one velocity per axis and pressure"),
        ({"sides": {"x-": Inflow((lambda x: 1.0, 0.0, 1.0))}}, r"is called as f\(t, x\)"),
        ({"sides": {"x-": Split(True, Wall(), Wall())}}, "The mask of a Split is a function"),
        ({"sides": {"x-": Split(lambda x: x, Wall(), Wall())}}, r"is called as f\(t, x\)"),
        ({"sides": {"x-": Split(lambda t, x: t, Wall(), "x")}}, "A part of a Split is a Wall"),
        ({"obstacles": True}, "'obstacles' is a function"),
        ({"obstacles": lambda x, y: x < y}, r"'obstacles' is called as f\(x\)"),
        ({"initial": lambda: (1.0, 0.0, 1.0)}, r"'initial' is called as f\(x\)"),
        ({"gravity": 9.81}, "'gravity' has one entry per axis, received 9.81"),
        ({"gravity": np.array([1.0, 2.0])}, "'gravity' has one entry per axis"),
        ({"positivity": "no"}, "'positivity' is one of False, True, received 'no'"),
        ({"periodic": ("no",)}, "'periodic' is one of False, True, received 'no'"),
        ({"bounds": ((1.0, math.nan),)}, "low < high, received"),
        ({"riemann": np.zeros(2)}, "'riemann' is one of"),
    ],
)
def test_configurations_that_are_no_flow_are_refused(changes, text):
    with pytest.raises(da.SolverError, match=text):
        EulerConfig(**{**GAS, **changes})


@pytest.mark.parametrize(("name", "entry"), [("density", 0), ("pressure", 2)])
@pytest.mark.parametrize("value", [-0.5, math.nan, math.inf])
def test_initial_states_that_are_no_gas_are_refused(name, entry, value):
    given = [1.0, 0.0, 1.0]
    given[entry] = lambda x: np.where(x < 0.5, value, 1.0)
    with pytest.raises(da.SolverError, match=f"The {name} of gas is above 0 everywhere"):
        EulerSolver(EulerConfig(**{**GAS, "initial": tuple(given)}))


@pytest.mark.parametrize("value", [1.0, None, (1.0, 0.0), (1.0, 0.0, 0.0, 1.0)])
def test_functions_of_another_state_are_refused(value):
    with pytest.raises(da.SolverError, match="density, one velocity per axis and pressure, rec"):
        EulerSolver(EulerConfig(**{**GAS, "initial": lambda x: value}))


@pytest.mark.parametrize(
    ("obstacles", "text"),
    [
        (lambda x, y: x < 0.1 + 0.0 * y, "keep clear of inflows, received one over the side 'x-'"),
        (lambda x, y: x + y > -1.0, "obstacles that fill the box"),
    ],
)
def test_obstacles_over_an_inflow_are_refused(obstacles, text):
    inflow = Inflow((1.0, 1.0, 0.0, 1.0))
    config = EulerConfig(
        cells=(8, 8), initial=inflow.state, sides={"x-": inflow}, obstacles=obstacles
    )
    with pytest.raises(da.SolverError, match=text):
        EulerSolver(config)


def test_time_steps_beyond_the_limit_are_refused():
    flow = EulerSolver(EulerConfig(**GAS))
    with pytest.raises(da.SolverError, match="at most the Courant number 1"):
        flow.step(3.0 * flow.stable_dt())
    assert flow.step_count == 0


def test_a_restart_has_the_same_bits(tmp_path):
    def made():
        return EulerSolver(tube(TUBES["sod"], (60,)))

    flow = made()
    flow.run(max_steps=10)
    flow.save(tmp_path / "state.h5")
    expected = steps(flow, 10)
    again = made()
    again.restore(tmp_path / "state.h5")
    np.testing.assert_array_equal(steps(again, 10), expected)
    assert again.time == flow.time


def test_shear_layers_that_go_on_have_the_same_bits(tmp_path, capsys):
    """Looks at the growth fall at the same times, so that the steps that land on them are those of
    a run that was never stopped; the rate of what is left is named as such.
    """

    def ran(folder, *options):
        arguments = ["kelvin_helmholtz", "--cells", "8", "8", "--until", "0.9", *options]
        assert main([*arguments, "--output", str(tmp_path / folder)]) == 0
        return capsys.readouterr().out

    assert "since" not in ran("whole", "--every", "5")
    files = sorted((tmp_path / "whole").glob("step-*.h5"))
    out = ran("part", "--restart", str(files[len(files) // 2]))
    assert re.search("(growth rate|and 0.06) since time 0.[3-9]", out)
    name = "kelvin_helmholtz.h5"
    assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
