"""Flows by the lattice Boltzmann solver on one rank: exact solutions and orders of accuracy, inflow
and outflow.
"""

import itertools
import math

import numpy as np
import pytest

import distarray as da
from solvers.lbm import LatticeConfig, LatticeSolver
from solvers.lbm.collision import COLLISIONS
from solvers.lbm.lattice import LATTICES
from solvers.lbm.reference import centres


def solver(**options):
    return LatticeSolver(LatticeConfig(**options))


# -------------------------------------------------------------------------------- exact solutions


def channel_error(cells, collision="trt", *, viscosity=0.2, steady=1e-11, **options):
    """Largest deviation from the parabola of height 1, from which the flow starts."""
    flow = solver(
        cells=(2, cells),
        bounds=((0.0, 2.0 / cells), (0.0, 1.0)),
        periodic=(True, False),
        viscosity=viscosity,
        mach=0.3,
        force=(8.0 * viscosity, 0.0),
        collision=collision,
        initial=(lambda x, y: 4.0 * y * (1.0 - y) + 0.0 * x, 0.0),
        **options,
    )
    flow.run(steady=steady, max_steps=4000)
    y = centres(flow, 1)
    return abs(flow.velocity()[0].gather() - 4.0 * y * (1.0 - y)).max()


def test_two_rates_give_the_parabola_of_poiseuille():
    assert channel_error(8) < 1e-10
    assert channel_error(8, magic=0.25) > 1e-3  # other walls


@pytest.mark.slow
def test_one_rate_gives_the_parabola_to_its_slip():
    """At tau = 1.4 or so the wall is missed by a share of a cell that grows with its square."""
    assert 1e-4 < channel_error(39, "bgk", viscosity=0.0444, steady=1e-3) < 0.006
    assert channel_error(12, "bgk", viscosity=0.144, steady=1e-3) > 0.006


def test_a_moving_wall_gives_the_line_of_couette():
    flow = solver(
        cells=(2, 6),
        bounds=((0, 1 / 3), (0, 1)),
        periodic=(True, False),
        viscosity=0.5,
        mach=0.3,
        walls={"y+": (1.0, 0.0)},
        forces=("y-", "y+"),
    )
    flow.run(steady=1e-12, max_steps=3000)
    np.testing.assert_allclose(flow.velocity()[0].gather()[0], centres(flow, 1), atol=1e-11)
    # Stress nu du/dy on the length of the wall.
    assert flow.forces()["y-"][0] == pytest.approx(0.5 / 3, abs=1e-11)
    assert flow.forces()["y+"][0] == pytest.approx(-0.5 / 3, abs=1e-11)


@pytest.mark.parametrize("collision", COLLISIONS)
def test_a_shear_wave_decays_with_the_viscosity(collision):
    flow = solver(
        cells=(2, 32),
        bounds=((0, 1 / 16), (0, 1)),
        periodic=True,
        viscosity=0.01,
        mach=0.05,
        collision=collision,
        initial=(lambda x, y: np.sin(2 * np.pi * y) + 0 * x, 0.0),
    )
    wave = np.sin(2 * np.pi * centres(flow, 1))

    def amplitude():
        return 2.0 * (flow.velocity()[0].gather()[0] * wave).mean()

    first, began = amplitude(), flow.time
    flow.run(until=0.5)
    rate = math.log(first / amplitude()) / (flow.time - began)
    measured = rate / (2 * np.pi) ** 2
    assert measured == pytest.approx(0.01, rel=5e-3)
    unshifted = flow.config.tau / 3 * flow.config.width**2 / flow.config.time_step
    assert measured != pytest.approx(unshifted, rel=0.5)


def carried_vortices_error(cells, collision, viscosity=0.1):
    """Of the velocity, rms, at time 0.5: vortices of Taylor and Green carried along (1, 1)."""
    flow = solver(
        cells=(cells, cells),
        bounds=((0.0, 2 * np.pi),) * 2,
        periodic=True,
        viscosity=viscosity,
        speed=2.0,
        mach=0.2 * 16 / cells,
        collision=collision,
        initial=(lambda x, y: 1 + np.cos(x) * np.sin(y), lambda x, y: 1 - np.sin(x) * np.cos(y)),
        pressure=lambda x, y: -0.25 * (np.cos(2 * x) + np.cos(2 * y)),
    )
    flow.run(until=0.5)
    decay = math.exp(-2 * 0.1 * flow.time)
    x, y = (centres(flow, axis) - flow.time for axis in (0, 1))
    exact = [1 + decay * np.outer(np.cos(x), np.sin(y)), 1 - decay * np.outer(np.sin(x), np.cos(y))]
    return np.sqrt(np.mean((flow.velocity().gather() - exact) ** 2))


@pytest.mark.parametrize("collision", COLLISIONS)
def test_the_velocity_is_of_second_order_with_diffusive_scaling(collision):
    grids = (24, 32, 48)
    errors = [carried_vortices_error(cells, collision) for cells in grids]
    for (one, coarse), (other, fine) in itertools.pairwise(zip(grids, errors, strict=True)):
        assert 1.9 < math.log(coarse / fine) / math.log(other / one) < 2.1


def test_a_wrong_viscosity_shows_in_the_order():
    errors = [carried_vortices_error(cells, "bgk", viscosity=0.12) for cells in (16, 32)]
    assert math.log2(errors[0] / errors[1]) < 1.9


def test_cumulants_bear_a_viscosity_at_which_one_rate_fails():
    """A thin shear layer in which tau = 1/2 + 3e-5 (Minion, M. L., Brown, D. L. 1997)."""
    layer = {
        "cells": (32, 32),
        "periodic": True,
        "viscosity": 2e-5,
        "mach": 0.2,
        "measure_every": 20,
        "initial": (
            lambda x, y: np.tanh(80 * np.where(y < 0.5, y - 0.25, 0.75 - y)) + 0 * x,
            lambda x, y: 0.05 * np.sin(2 * np.pi * (x + 0.25)) + 0 * y,
        ),
    }
    flow = solver(collision="cumulant", **layer)
    start = flow.scalars()["energy"]
    flow.run(until=2.0)
    assert 0.1 * start < flow.scalars()["energy"] < start
    with pytest.raises(da.SolverError, match=r"no longer finite|Mach number"):
        solver(collision="bgk", **layer).run(until=2.0)


# ------------------------------------------------------------------------------ inflow and outflow


def test_a_plug_flow_enters_and_leaves():
    flow = solver(
        cells=(8, 4),
        bounds=((0, 2), (0, 1)),
        periodic=(False, True),
        viscosity=0.05,
        inflow={"x-": (1.0, 0.0)},
        outflow={"x+": 0.0},
        initial=(1.0, 0.0),
    )
    flow.run(max_steps=100)
    u = flow.velocity().gather()
    np.testing.assert_allclose(u[0], 1.0, rtol=0, atol=1e-13)
    np.testing.assert_allclose(u[1], 0.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["D2Q9", "D3Q19", pytest.param("D3Q27", marks=pytest.mark.slow)])
def test_the_mass_that_enters_is_that_of_the_velocity(name):
    """In each step, to round-off: density times velocity, the density closed by what leaves."""
    lattice, speed = LATTICES[name], 0.04
    cells = (4, 3, 3)[: lattice.ndim]
    flow = solver(
        cells=cells,
        lattice=name,
        bounds=tuple((0, n) for n in cells),
        periodic=(False, *[True] * (lattice.ndim - 1)),
        viscosity=0.05,
        mach=0.1,
        speed=0.1 / math.sqrt(3),  # so that units are those of the lattice
        inflow={"x-": (speed, *[0.01] * (lattice.ndim - 1))},
        initial=(lambda x, *y: 0.02 * np.sin(x + sum(2 * np.pi * t / 3 for t in y)),)
        + (0.01,) * (lattice.ndim - 1),
        measure_every=1000,
    )
    sides = np.array(lattice.velocities)[:, 0]
    for _ in range(5):
        near = flow.fields["populations"].gather()[:, 0]
        before = flow.scalars()["mass"]
        flow.step()
        density = (1 + near[sides == 0].sum(0) + 2 * near[sides < 0].sum(0)) / (1 - speed)
        gained = flow.scalars()["mass"] - before
        assert abs(density - 1).max() > 1e-3
        assert gained == pytest.approx((density * speed).sum(), abs=1e-13)


def open_channel(cells, driven, collision="trt"):
    """A channel of length 2 with a parabola of height 1, started from it and steady, and how far
    its velocities are from that where the corners of the ends are not near.
    """
    viscosity = 0.2
    ends = {
        "velocity": {
            "inflow": {"x-": (lambda t, x, y: 4 * y * (1 - y), 0.0)},
            "outflow": {"x+": 0.0},
        },
        "pressure": {"outflow": {"x-": 16 * viscosity, "x+": 0.0}},
    }[driven]
    flow = solver(
        cells=(2 * cells, cells),
        bounds=((0, 2), (0, 1)),
        viscosity=viscosity,
        mach=0.4 / cells,
        collision=collision,
        initial=(lambda x, y: 4 * y * (1 - y) + 0 * x, 0.0),
        pressure=lambda x, y: 8 * viscosity * (2 - x) + 0 * y,
        **ends,
    )
    flow.run(steady=1e-4, until=20.0)
    y = centres(flow, 1)
    u = flow.velocity().gather()
    along = (u[0] - 4 * y * (1 - y))[cells // 2 : -cells // 2]
    return flow, np.sqrt(np.mean(along**2)), abs(u[1]).max()


@pytest.mark.parametrize("driven", ["velocity", "pressure"])
def test_an_open_channel_finds_its_parabola_to_second_order(driven):
    """Given values lie on the bounds: half a cell off, the second would be of first order."""
    (_, coarse, _), (flow, fine, across) = (open_channel(cells, driven) for cells in (6, 12))
    assert 1.8 < math.log2(coarse / fine) < 2.7
    assert across < 0.006
    assert flow.residual < 1e-4
    x, pressure = centres(flow, 0), flow.pressure().gather().mean(axis=1)
    np.testing.assert_allclose(pressure, 8 * 0.2 * (2 - x), atol=0.06)
    density = 1.0 + 3.0 * flow.pressure().gather() / flow.config.unit_speed**2
    through = (density * flow.velocity()[0].gather()).sum(axis=1)
    np.testing.assert_allclose(through, through[0], rtol=1e-6)
