"""Linear transport on one rank: exact properties, orders, bounds, what is refused."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import distarray as da
from solvers.advection import AdvectionConfig, AdvectionSolver
from solvers.advection.cases import CASES
from solvers.advection.exact import turned
from solvers.case import Options


def bump(x, y):
    """The smooth problem of pyro."""
    return 1.0 + np.exp(-60.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


def solver(**options):
    return AdvectionSolver(AdvectionConfig(**options))


def set_to(flow, values):
    """Put values into the cells, as a new start."""
    with flow.fields["c"].writing() as block:
        block[...] = values


# ---------------------------------------------------------------------------------- orders


@functools.cache
def bump_error(n, **options):
    """The root mean square error after the bump has crossed the square along its diagonal."""
    flow = solver(cells=(n, n), velocity=(1.0, 1.0), initial=bump, **options)
    start = flow.fields["c"].gather()
    flow.run(1.0)
    return np.sqrt(np.mean((flow.fields["c"].gather() - start) ** 2))


def test_a_smooth_bump_is_carried_within_the_gate_by_default():
    """By limited lines, whose errors pyro has as 1.12e-2, 3.3e-3 and 9.2e-4."""
    assert AdvectionConfig(cells=(8, 8), velocity=(1.0, 1.0)).scheme_name == "ctu"
    errors = [bump_error(n) for n in (32, 64, 128)]
    assert errors[1] < 4e-3
    assert min(np.log2(np.divide(errors[:-1], errors[1:]))) > 1.7
    # The first order gets neither.
    first = [bump_error(n, scheme="constant", courant=0.8) for n in (32, 64)]
    assert first[1] > 4e-3
    assert np.log2(first[0] / first[1]) < 1.0


def sine_error(n, scheme, **options):
    """The mean error of a sine wave that has gone a fifth of its length on one axis."""
    flow = solver(
        cells=(n,), velocity=(1.0,), scheme=scheme, initial=lambda x: np.sin(2 * np.pi * x),
        **options,
    )  # fmt: skip
    flow.run(0.2)
    x = (np.arange(n) + 0.5) / n
    return abs(flow.fields["c"].gather() - np.sin(2 * np.pi * (x - 0.2))).mean()


#: Scheme, limiter, order; the time step is h^(5/3) where three stages would hide the fifth order.
ORDERS = [
    ("constant", "mc", 1.0),
    ("muscl", "central", 2.0),
    ("ctu", "central", 2.0),
    ("upwind3", "mc", 3.0),
    ("upwind5", "mc", 5.0),
    ("weno5", "mc", 5.0),
    ("weno_z", "mc", 5.0),
]


@pytest.mark.parametrize(("scheme", "limiter", "order"), ORDERS)
def test_smooth_waves_show_the_order(scheme, limiter, order):
    cells = (16, 32, 64) if order == 5.0 else (64, 128, 256)
    courant = 0.8 if order == 5.0 else 0.4
    errors = []
    for n in cells:
        shrink = (cells[0] / n) ** (2.0 / 3.0) if order == 5.0 else 1.0
        errors.append(sine_error(n, scheme, limiter=limiter, courant=courant * shrink))
    found = np.log2(np.divide(errors[:-1], errors[1:]))
    assert found[-1] == pytest.approx(order, abs=0.15)
    if order == 5.0:
        assert min(found) > 4.5


def test_a_long_time_step_hides_the_fifth_order():
    errors = [sine_error(n, "weno_z", courant=0.8) for n in (32, 64)]
    assert np.log2(errors[0] / errors[1]) < 3.5


def test_limiters_cut_extrema_and_keep_nearly_second_order():
    for limiter, least in (("minmod", 1.4), ("van_leer", 1.7), ("mc", 1.7)):
        errors = [sine_error(n, "muscl", limiter=limiter) for n in (64, 128)]
        assert np.log2(errors[0] / errors[1]) > least


# -------------------------------------------------------------------------- exact properties


@pytest.mark.parametrize("scheme", ["constant", "ctu"])
@pytest.mark.parametrize("velocity", [(1.0, 0.0), (0.0, -1.0), (-0.5, 0.0)])
def test_courant_number_one_along_an_axis_is_an_exact_shift(scheme, velocity):
    flow = solver(cells=(16, 8), velocity=velocity, scheme=scheme, courant=1.0)
    # Numbers of few digits, whose differences are exact.
    start = np.random.default_rng(1).integers(-1000, 1000, (16, 8)) / 64.0
    set_to(flow, start)
    for _ in range(5):
        flow.step(flow.stable_dt())
    axis = 0 if velocity[0] else 1
    expected = np.roll(start, int(5 * np.sign(velocity[axis])), axis)
    np.testing.assert_array_equal(flow.fields["c"].gather(), expected)


@pytest.mark.parametrize("ndim", [2, 3])
def test_corner_transport_shifts_along_the_diagonal_to_round_off(ndim):
    velocity = (1.0, -1.0, 1.0)[:ndim]
    flow = solver(
        cells=(8,) * ndim, velocity=velocity, scheme="ctu", limiter="central", courant=1.0
    )
    start = np.random.default_rng(2).standard_normal((8,) * ndim)
    set_to(flow, start)
    for _ in range(3):
        flow.step(1.0 / 8.0)
    expected = np.roll(start, (3, -3, 3)[:ndim], range(ndim))
    np.testing.assert_allclose(flow.fields["c"].gather(), expected, atol=1e-14)
    with pytest.raises(da.SolverError, match="at most the Courant number 1, received"):
        flow.step(1.01 / 8.0)


def test_the_sum_is_kept_to_round_off_for_a_thousand_steps():
    flow = solver(cells=(24, 16), velocity=(1.0, -0.5), initial=bump, limiter="mc")
    before = flow.totals()["c"]
    flow.run(max_steps=1000)
    assert abs(flow.totals()["c"] - before) < 1e-12 * before


def test_the_sum_is_kept_in_a_closed_box():
    """A vortex that touches the walls."""
    sin, cos, pi = np.sin, np.cos, np.pi
    flow = solver(
        cells=(16, 16), periodic=False, scheme="upwind3", initial=bump,
        velocity=(lambda x, y: sin(pi * x) * cos(pi * y), lambda x, y: -cos(pi * x) * sin(pi * y)),
    )  # fmt: skip
    before = flow.totals()["c"]
    flow.run(max_steps=1000)
    assert abs(flow.totals()["c"] - before) < 1e-12 * before
    assert np.ptp(flow.fields["c"].gather()) > 1e-3


def test_a_symmetric_density_stays_symmetric_to_the_bit():
    """Carried along the diagonal, and exchanged with what the turned velocity carries."""
    flow = solver(cells=(16, 16), velocity=(1.0, 1.0), initial=0.0)
    start = np.random.default_rng(4).random((16, 16))
    set_to(flow, start + start.T)
    flow.run(max_steps=20)
    found = flow.fields["c"].gather()
    np.testing.assert_array_equal(found, found.T)


def test_a_uniform_density_keeps_its_bits_where_the_flow_is_free_of_divergence():
    flow = solver(cells=(24, 16), velocity=(1.0, -0.5), initial=0.3, limiter="mc")
    flow.run(max_steps=10)
    assert (flow.fields["c"].gather() == 0.3).all()


def test_what_a_source_adds_is_in_the_sum():
    flow = solver(cells=(32,), velocity=(1.0,), source=lambda x: np.sin(np.pi * x) ** 2)
    flow.run(0.5)
    assert flow.totals()["c"] == pytest.approx(0.5 * 0.5, rel=1e-12)


def test_a_source_is_of_second_order_too():
    """Of corner transport: c = (sin(2 pi x) - sin(2 pi (x - t))) / 2 pi from the source
    cos(2 pi x).
    """
    errors = []
    for n in (32, 64):
        flow = solver(
            cells=(n,), velocity=(1.0,), source=lambda x: np.cos(2 * np.pi * x), limiter="central",
            courant=0.5,
        )  # fmt: skip
        flow.run(0.25)
        x = (np.arange(n) + 0.5) / n
        exact = (np.sin(2 * np.pi * x) - np.sin(2 * np.pi * (x - 0.25))) / (2 * np.pi)
        errors.append(abs(flow.fields["c"].gather() - exact).mean())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


# ----------------------------------------------------------------------------------- bounds

BOUNDED = [("constant", "mc")] + [
    ("muscl", name) for name in ("minmod", "van_leer", "mc", "superbee")
]


@functools.cache
def line(scheme, limiter):
    return solver(cells=(24,), velocity=(1.0,), scheme=scheme, limiter=limiter, courant=0.5)


def variation(values):
    return abs(values - np.roll(values, 1)).sum()


@pytest.mark.parametrize(("scheme", "limiter"), BOUNDED)
@settings(max_examples=40)
@given(arrays(float, 24, elements=st.floats(-1e3, 1e3)), st.floats(0.05, 0.5))
def test_the_total_variation_does_not_grow(scheme, limiter, values, courant):
    flow = line(scheme, limiter)
    set_to(flow, values)
    before = variation(values)
    for _ in range(4):
        flow.step(courant / 24.0)
        after = variation(flow.fields["c"].gather())
        assert after <= before + 1e-10
        before = after


@pytest.mark.parametrize(("scheme", "limiter"), [("muscl", "central"), ("upwind3", "mc")])
def test_without_a_limiter_the_total_variation_grows(scheme, limiter):
    flow = line(scheme, limiter)
    step = np.where(np.arange(24) < 12, 0.0, 1.0)
    set_to(flow, step)
    flow.step(0.5 / 24.0)
    assert variation(flow.fields["c"].gather()) > variation(step) + 0.01


def spots(x, y):
    """A density that is 0 but for a disc and a bar."""
    return 1.0 * (((x - 0.3) ** 2 + (y - 0.4) ** 2 < 0.04) | (abs(x - 0.7) < 0.05))


TURNING = (lambda x, y: 0.5 - y, lambda x, y: x - 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "upwind5", "velocity": (1.0, -0.5)},
        {"scheme": "upwind3", "velocity": TURNING, "dtype": "float32"},
    ],
)
def test_a_density_stays_positive_where_that_is_asked_for(options):
    options = {"cells": (32, 32), "initial": spots, "courant": 0.7, **options}
    plain = solver(**options)
    plain.run(max_steps=20)
    assert plain.fields["c"].min() < -0.01
    kept = solver(**options, positivity=True)
    sharpest = 0.0
    before = kept.totals()["c"]
    for _ in range(20):
        kept.run(max_steps=1)
        assert kept.fields["c"].min() >= 0.0
        sharpest = max(sharpest, float(kept.fields["c"].max()))
    assert kept.totals()["c"] == pytest.approx(before, rel=1e-5 if "dtype" in options else 1e-13)
    assert sharpest > 0.9


@settings(max_examples=40)
@given(arrays(float, 24, elements=st.floats(0.0, 1e3)), st.floats(0.05, 1.0))
def test_no_density_becomes_negative(values, courant):
    flow = kept_line()
    set_to(flow, values)
    for _ in range(4):
        flow.step(courant / 24.0)
        assert flow.fields["c"].min() >= 0.0


@functools.cache
def kept_line():
    return solver(cells=(24,), velocity=(1.0,), scheme="upwind5", courant=1.0, positivity=True)


def test_positivity_leaves_smooth_densities_alone():
    errors = [
        sine_error(32, "upwind5", courant=0.4),
        solver_error_above_zero(32),
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-9)


def test_positivity_leaves_smooth_densities_alone_at_corners():
    plain, kept = (
        solver(cells=(16, 16), velocity=(1.0, 1.0), initial=bump, positivity=positivity)
        for positivity in (False, True)
    )
    kept.run(max_steps=10)
    for _ in range(10):
        plain.step(kept.time / 10)
    np.testing.assert_allclose(
        kept.fields["c"].gather(), plain.fields["c"].gather(), rtol=0, atol=1e-12
    )


def solver_error_above_zero(n):
    flow = solver(
        cells=(n,), velocity=(1.0,), scheme="upwind5", courant=0.4, positivity=True,
        initial=lambda x: 2.0 + np.sin(2 * np.pi * x),
    )  # fmt: skip
    flow.run(0.2)
    x = (np.arange(n) + 0.5) / n
    return abs(flow.fields["c"].gather() - 2.0 - np.sin(2 * np.pi * (x - 0.2))).mean()


# ------------------------------------------------------------------------------------ flows


def hill(x, y):
    return np.exp(-80.0 * ((x - 0.5) ** 2 + (y - 0.75) ** 2))


def test_a_turn_brings_a_hill_back():
    errors = []
    for n in (32, 64):
        flow = solver(
            cells=(n, n), periodic=False, velocity=TURNING, initial=hill, scheme="upwind3"
        )
        start = flow.fields["c"].gather()
        flow.run(2.0 * np.pi)
        errors.append(np.sqrt(np.mean((flow.fields["c"].gather() - start) ** 2)))
    assert errors[1] < 0.01
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_what_flows_in_is_given_at_the_side():
    flow = solver(
        cells=(32,), periodic=False, velocity=(1.0,), scheme="muscl", limiter="mc",
        boundary={"x-": da.Dirichlet(lambda t, x: np.sin(3.0 * t))},
    )  # fmt: skip
    flow.run(0.75)
    x = (np.arange(32) + 0.5) / 32
    expected = np.where(x < 0.75, np.sin(3.0 * (0.75 - x)), 0.0)
    assert abs(flow.fields["c"].gather() - expected).max() < 0.03


def test_three_axes_carry_what_one_axis_does():
    profile = np.random.default_rng(3).random(16)
    expected = solver(cells=(16,), velocity=(0.75,), scheme="muscl")
    set_to(expected, profile)
    for _ in range(5):
        expected.step(0.02)
    for axis in range(3):
        velocity, cells = [0.0, 0.0, 0.0], [4, 4, 4]
        velocity[axis], cells[axis] = 0.75, 16
        flow = solver(cells=tuple(cells), velocity=tuple(velocity), scheme="muscl")
        set_to(flow, profile.reshape([-1 if a == axis else 1 for a in range(3)]))
        for _ in range(5):
            flow.step(0.02)
        found = np.moveaxis(flow.fields["c"].gather(), axis, 0)[:, 1, 2]
        np.testing.assert_array_equal(found, expected.fields["c"].gather())


# ---------------------------------------------------------------------------------- refusals

GOOD = {"cells": (16, 16), "velocity": (1.0, 0.5)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scheme": "quick"}, r"'scheme' is one of 'auto', .*'ctu', received 'quick'"),
        (
            {"scheme": "muscl", "limiter": "sharp"},
            "'limiter' is one of 'minmod', .*received 'sharp'",
        ),
        ({"integrator": "rk4"}, "'integrator' is one of 'auto', 'euler', .*received 'rk4'"),
        ({"integrator": ["euler"]}, "'integrator' is one of"),
        ({"courant": 1.2}, r"above 0 and at most 1, received courant=1\.2"),
        ({"velocity": 1.0}, "'velocity' has one entry per axis, received 1.0"),
        ({"scheme": "upwind5", "integrator": "euler"}, "upwind5 is unstable with .* euler"),
        ({"scheme": "ctu", "velocity": (1.0, lambda x, y: x)}, "ctu is for a velocity of numbers"),
        ({"scheme": "ctu", "integrator": "ssp_rk2"}, "ctu has one stage, received integrator="),
        ({"velocity": (1.0,)}, "'velocity' has one entry per axis, received"),
        ({"velocity": (1.0, float("nan"))}, "finite number or a function, received nan"),
        ({"velocity": (1.0, lambda x: x)}, r"'velocity' is called as f\(x, y\), received"),
        ({"initial": lambda: 0.0}, r"'initial' is called as f\(x, y\), received"),
        ({"courant": "auto"}, "above 0 and at most 1, received courant='auto'"),
        ({"bounds": ()}, "'bounds' has one entry per axis, received"),
        ({"periodic": ("x", "y")}, "'periodic' is one of False, True, received 'x'"),
        ({"positivity": "no"}, "'positivity' is one of False, True, received 'no'"),
        ({"boundary": da.Neumann(0.0)}, "'boundary' names sides and what they have, received"),
        ({"boundary": {"x": da.Outflow()}}, "has the sides none, received 'x' in 'boundary'"),
        ({"boundary": {"y+": 0.0}, "periodic": False}, "A side has a condition such as .* 0.0"),
        ({"initial": "high"}, "'initial' is a finite number, .* received 'high'"),
        ({"cells": (4, 4, 4, 4)}, "cells along one to three axes, received"),
        ({"dtype": "float16"}, "'dtype' is one of 'float64', 'float32', received 'float16'"),
    ],
)
def test_a_description_that_is_wrong_is_refused(options, text):
    with pytest.raises(da.SolverError, match=text):
        AdvectionConfig(**{**GOOD, **options})


def test_a_start_that_is_wrong_is_refused():
    config = AdvectionConfig(**GOOD, initial=lambda x, y: x - 0.5 + 0.0 * y, positivity=True)
    with pytest.raises(da.SolverError, match=r"not so at the start, received -0\.46875"):
        AdvectionSolver(config)
    holes = dataclasses.replace(config, initial=lambda x, y: np.where(x < 0.5, np.nan, y))
    with pytest.raises(da.SolverError, match="values of 'c' are finite"):
        AdvectionSolver(holes)


def test_a_flow_that_does_not_move_needs_a_time_step():
    flow = solver(cells=(16,), velocity=(0.0,), initial=1.0)
    with pytest.raises(da.SolverError, match="nothing moves has no time step"):
        flow.run(1.0)


# ------------------------------------------------------------------------------------- cases


def options_of(case, folder, cells, until, **chosen):
    return Options(
        cells=cells, output=folder, number=case.number, until=until, checkpoint=4, every=4,
        chosen=case.chosen(**chosen),
    )  # fmt: skip


def test_the_case_prints_its_table_and_goes_on_with_the_same_bits(tmp_path, capsys):
    case, _ = CASES
    case.run(options_of(case, tmp_path / "whole", (32, 32), 0.25, scheme="ctu"))
    whole = capsys.readouterr().out
    assert "Against the exact profile" in whole
    assert (tmp_path / "whole" / "advection.png").stat().st_size > 1000
    half = options_of(case, tmp_path / "half", (32, 32), 0.1, scheme="ctu")
    case.run(half)
    capsys.readouterr()
    case.run(dataclasses.replace(half, until=0.25, restart=True))
    again = capsys.readouterr().out
    assert "Restart from step 4" in again
    assert again.partition("Against")[2] == whole.partition("Against")[2]
    rows = (tmp_path / "half" / "scalars.csv").read_text().splitlines()
    assert rows[0] == "step,time,dt,residual,total_c,min_c,max_c"
    assert [row.split(",")[0] for row in rows[1:]] == ["4", "8"]


def test_a_disc_that_turns_stays_positive(tmp_path, capsys):
    _, case = CASES
    with pytest.raises(da.SolverError, match="cells along one to three axes, received"):
        options_of(case, tmp_path, (0, 32), 0.1)
    case.run(options_of(case, tmp_path, (32, 32), 0.1, scheme="upwind3", positivity="yes"))
    printed = capsys.readouterr().out
    assert "missed" not in printed
    assert "least c" in printed
    with pytest.raises(da.SolverError, match="has 2 axes, received --cells 32;"):
        case.run(options_of(case, tmp_path, (32,), 0.1))


def test_the_exact_turn_takes_x_to_y():
    found = turned(lambda x, y: x + 10.0 * y, np.pi / 2.0)(0.5, 0.9)
    assert found == pytest.approx(0.9 + 10.0 * 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_as_it_is_run_by_default(case, tmp_path, capsys):
    case.run(options_of(case, tmp_path, case.cells, None))
    printed = capsys.readouterr().out
    print(printed)
    assert "Against" in printed
    assert "missed" not in printed
