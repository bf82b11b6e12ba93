"""Burgers' equation on one rank against exact solutions."""

import dataclasses
import math
import re

import numpy as np
import pytest

import distarray as da
from solvers import progress
from solvers.burgers import BurgersConfig, BurgersSolver
from solvers.burgers.cases import CASES
from solvers.burgers.equation import Burgers
from solvers.burgers.exact import diagonal_wave, riemann, sine, travelling_wave
from solvers.case import Options
from solvers.hyperbolic import ConservationLaw


def solver(**options):
    return BurgersSolver(BurgersConfig(**options))


def centres(n):
    return (np.arange(n) + 0.5) / n


def orders(errors):
    return np.log2(np.divide(errors[:-1], errors[1:]))


# ----------------------------------------------------------------------------------- viscous

WAVE = {"viscosity": 0.02, "mean": 0.5, "amplitude": 1.0, "start": 0.3}


def wave(t, x):
    return travelling_wave(t, x, **WAVE)


def wave_error(n, scheme):
    flow = solver(
        cells=(n,), periodic=False, boundary={"x": da.Dirichlet(wave)}, viscosity=0.02,
        initial=(lambda x: wave(0.0, x),), scheme=scheme,
    )  # fmt: skip
    flow.run(0.3)
    return abs(flow.fields["u"].gather() - wave(0.3, centres(n))).mean()


def test_a_viscous_wave_travels_with_second_order():
    # 8, 16 and 32 cells in the width 4 nu / A.
    assert min(orders([wave_error(n, "muscl") for n in (100, 200, 400)])) > 1.9
    assert max(orders([wave_error(n, "constant") for n in (100, 200)])) < 1.1


def diagonal(component):
    return lambda t, x, y: diagonal_wave(t, x, y, viscosity=0.02)[component]


def diagonal_error(n, scheme):
    flow = solver(
        cells=(n, n), periodic=False, viscosity=0.02, scheme=scheme,
        boundary={
            name: {axis: da.Dirichlet(diagonal(c)) for axis in "xy"} for c, name in enumerate("uv")
        },
        initial=tuple((lambda x, y, c=c: diagonal(c)(0.0, x, y)) for c in range(2)),
    )  # fmt: skip
    flow.run(0.5)
    x = centres(n)
    found = [flow.fields[name].gather() for name in "uv"]
    exact = [diagonal(c)(0.5, x[:, None], x[None, :]) for c in range(2)]
    return max(abs(a - b).mean() for a, b in zip(found, exact, strict=True))


def test_a_viscous_wave_crosses_the_diagonal_with_second_order():
    assert min(orders([diagonal_error(n, "muscl") for n in (16, 32, 64)])) > 1.9
    assert max(orders([diagonal_error(n, "constant") for n in (16, 32)])) < 1.2


# --------------------------------------------------------------------------------- inviscid


def jump(n, left, right, scheme="muscl", until=0.4):
    flow = solver(
        cells=(n,), periodic=False, scheme=scheme,
        initial=(lambda x: np.where(x < 0.5, left, right),),
    )  # fmt: skip
    flow.run(until)
    return flow, abs(
        flow.fields["u"].gather() - riemann(until, centres(n), left=left, right=right, start=0.5)
    )


#: A shock that moves, one that stands, fans of one sign, and one through 0.
JUMPS = [(1.0, 0.2), (1.0, -1.0), (0.2, 1.0), (-0.8, -0.1), (-0.5, 0.5)]


@pytest.mark.parametrize(("left", "right"), JUMPS)
def test_shocks_and_fans_are_those_of_the_exact_solution(left, right):
    flow, error = jump(100, left, right)
    u = flow.fields["u"].gather()
    # Neither overshoots nor new extrema, and fans without a step.
    assert u.min() >= min(left, right) - 1e-14
    assert u.max() <= max(left, right) + 1e-14
    assert error.mean() < 0.004
    if left < right:
        assert abs(np.diff(u)).max() < 1.2 * 0.01 / 0.4
    # The first order smears them.
    if (left, right) != (1.0, -1.0):
        assert jump(100, left, right, "constant")[1].mean() > 1.5 * error.mean()


@dataclasses.dataclass(frozen=True)
class WithoutEntropy(Burgers):
    """With the flux of Roe, whose linear waves do not open a fan."""

    def flux(self, u, axis, n):
        left, right = self._faces(u, axis, n)
        return 0.5 * da.where(left + right > 0.0, left * left, right * right)


def test_a_flux_without_entropy_keeps_a_jump_that_a_fan_should_take():
    flow, error = jump(100, -0.5, 0.5, until=0.4)
    assert error.mean() < 0.004
    start = BurgersSolver(dataclasses.replace(flow.config))
    broken = ConservationLaw(
        flow.config, start.grid, start.fields, WithoutEntropy("muscl", "van_leer", False),
        courant=0.4, integrator="ssp_rk2",
    )  # fmt: skip
    broken.run(0.4)
    u = broken.fields["u"].gather()
    exact = riemann(0.4, centres(100), left=-0.5, right=0.5, start=0.5)
    assert abs(u - exact).mean() > 0.05


def test_a_sine_wave_before_it_breaks_is_of_second_order():
    def error(n, scheme, limiter):
        flow = solver(
            cells=(n,), scheme=scheme, limiter=limiter,
            initial=(lambda x: sine(0.0, x, mean=0.25, amplitude=1.0),),
        )  # fmt: skip
        flow.run(0.08)
        return abs(
            flow.fields["u"].gather() - sine(0.08, centres(n), mean=0.25, amplitude=1.0)
        ).mean()

    assert min(orders([error(n, "muscl", "central") for n in (64, 128, 256)])) > 1.9
    assert min(orders([error(n, "muscl", "van_leer") for n in (64, 128, 256)])) > 1.7
    assert max(orders([error(n, "constant", "mc") for n in (64, 128)])) < 1.1


def test_the_exact_sine_solves_the_equation():
    x, h = centres(64), 1e-5
    u, ahead, behind = (sine(0.1 + s, x, mean=0.25, amplitude=1.0) for s in (0.0, h, -h))
    right, left = (sine(0.1, x + s, mean=0.25, amplitude=1.0) for s in (h, -h))
    assert abs((ahead - behind) / (2 * h) + u * (right - left) / (2 * h)).max() < 1e-5


def test_the_time_step_follows_a_fan_of_waves():
    flow = solver(cells=(64,), initial=(lambda x: np.sin(2 * np.pi * x),))
    numbers = []
    for _ in range(200):
        speed, before = abs(flow.fields["u"].gather()).max(), flow.time
        flow.run(max_steps=1)
        numbers.append((flow.time - before) * speed * 64.0)
    assert max(numbers) < 1.1 * 0.4 + 1e-6
    assert min(numbers) > 0.9 * 0.4


def test_a_run_visits_the_times_that_it_is_told():
    flow = solver(cells=(64,), initial=(lambda x: np.sin(2 * np.pi * x),))
    seen = []

    def look():
        seen.append(flow.time)

    flow.run(0.02)
    flow.run(0.1, visits=[(0.01, look), (0.03, look), (0.07, look)])
    assert seen == [0.03, 0.07]
    assert flow.time == 0.1
    flow.run(0.2, visits=[(0.15, look), (0.15, look), (0.2, look)])
    assert seen[2:] == [0.15, 0.15, 0.2]
    assert flow.time == 0.2
    flow.run(0.3, visits=((time, look) for time in (0.21, 0.22)))
    assert seen[5:] == [0.21, 0.22]


@pytest.mark.parametrize(
    ("visits", "problem"),
    [
        ([(0.3, print)], "no later than the end of a run, received one at 0.3 for until=0.2"),
        ([(0.1, print), (0.05, print)], "in order of time, received 0.05 after 0.1"),
        ([(math.nan, print)], "a finite time and a function"),
        ([(0.1, 3)], "a finite time and a function"),
        ([0.1], "a finite time and a function"),
    ],
)
def test_visits_that_no_run_can_make_are_refused(visits, problem, tmp_path):
    flow = solver(cells=(64,), initial=(lambda x: np.sin(2 * np.pi * x),))
    with pytest.raises(da.SolverError, match=re.escape(problem)):
        flow.run(0.2, visits=visits, output=tmp_path / "run", every=1)
    assert flow.step_count == 0
    assert not (tmp_path / "run").exists()


def test_a_first_step_that_takes_long_is_explained(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    flow = solver(cells=(8,), initial=(1.0,))
    with progress.Progress(flow, until=1.0, steady=None, enabled=True) as line:
        line._waiting.join()
    assert "kernels may be compiling" in capsys.readouterr().err


# ------------------------------------------------------------------------------- properties


def test_a_uniform_velocity_keeps_its_bits_on_two_axes():
    flow = solver(cells=(12, 10), initial=(0.3, -0.7), viscosity=0.02)
    flow.run(max_steps=10)
    assert (flow.fields["u"].gather() == 0.3).all()
    assert (flow.fields["v"].gather() == -0.7).all()


def test_exchanged_axes_give_exchanged_bits():
    first, second = np.random.default_rng(1).standard_normal((2, 12, 12))
    found = []
    for u, v in ((first, second), (second.T, first.T)):
        flow = solver(cells=(12, 12), initial=(0.0, 0.0), viscosity=0.02)
        for name, values in (("u", u), ("v", v)):
            with flow.fields[name].writing() as block:
                block[...] = values
        flow.run(max_steps=10)
        found.append([flow.fields[name].gather() for name in "uv"])
    np.testing.assert_array_equal(found[0][0], found[1][1].T)
    np.testing.assert_array_equal(found[0][1], found[1][0].T)


def test_mirrored_waves_stay_mirrored_to_the_bit():
    """A velocity that is odd about the middle, with a shock there."""
    flow = solver(cells=(50,), initial=(0.0,))
    half = np.random.default_rng(2).random(25)
    with flow.fields["u"].writing() as block:
        block[...] = np.concatenate([half, -half[::-1]])
    flow.run(max_steps=60)
    u = flow.fields["u"].gather()
    np.testing.assert_array_equal(u, -u[::-1])
    assert u[0] > 1e-3


@pytest.mark.parametrize("viscosity", [0.0, 0.02])
def test_the_sum_stays_over_a_thousand_steps(viscosity):
    """On a periodic axis, through shocks."""
    flow = solver(
        cells=(40,), initial=(lambda x: 0.4 + np.sin(2 * np.pi * x),), viscosity=viscosity
    )
    before = flow.totals()["u"]
    flow.run(max_steps=1000)
    assert abs(flow.totals()["u"] - before) < 1e-12 * before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"viscosity": -0.1}, r"viscosity is at least 0, received -0\.1"),
        ({"initial": ()}, "'initial' has one entry per axis, received"),
        ({"scheme": "eno"}, "'scheme' is one of 'constant', .*received 'eno'"),
        ({"boundary": {"v": {}}}, "has the sides none, received 'v' in 'boundary of u'"),
        ({"boundary": {"u": 1.0}}, "'boundary of u' names sides and what they have, received"),
        ({"courant": 2.0}, r"above 0 and at most 1, received courant=2\.0"),
    ],
)
def test_a_description_that_is_wrong_is_refused(options, text):
    with pytest.raises(da.SolverError, match=text):
        BurgersConfig(**{"cells": (16,), "initial": (0.0,), **options})


# ------------------------------------------------------------------------------------- cases


def options_of(case, folder, cells, **chosen):
    return Options(
        cells=cells, output=folder, number=case.number, chosen=case.chosen(**chosen), until=None
    )


@pytest.mark.parametrize(
    ("number", "cells", "chosen", "most"),
    [
        (0, (50,), {"problem": "shock"}, 0.01),
        (0, (50,), {"problem": "sine"}, 0.01),
        (1, (100,), {}, 0.005),
        (2, (16, 16), {}, 0.001),
    ],
)
def test_cases_print_how_far_they_are_from_the_exact_solution(
    number, cells, chosen, most, tmp_path, capsys
):
    case = CASES[number]
    case.run(options_of(case, tmp_path, cells, **chosen))
    printed = capsys.readouterr().out
    (row,) = (line for line in printed.splitlines() if "mean error of u" in line)
    assert 0.0 < float(row.split()[4]) < most
    assert (tmp_path / f"{case.name}.png").stat().st_size > 1000


def test_a_case_refuses_what_it_cannot_run(tmp_path):
    case = CASES[2]
    with pytest.raises(da.SolverError, match="This case has 2 axes, received --cells 9;"):
        case.run(options_of(case, tmp_path, (9,)))
    still = dataclasses.replace(options_of(case, tmp_path, (9, 9)), number=0.0)
    with pytest.raises(da.SolverError, match="a finite viscosity above 0, received 0;"):
        case.run(still)
