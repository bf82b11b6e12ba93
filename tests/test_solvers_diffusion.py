"""Diffusion: modes, stiff modes, Gaussians, manufactured solutions, conservation, refusals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import distarray as da
from solvers.case import Options
from solvers.diffusion import DiffusionConfig, DiffusionSolver
from solvers.diffusion.cases import CASES
from solvers.diffusion.exact import amplification, eigenvalue, gaussian
from solvers.diffusion.schemes import SCHEMES

IMPLICIT = [name for name in SCHEMES if name != "explicit"]
GAMMA = 2.0 - math.sqrt(2.0)


def bank(z):
    """Bank et al. (1985): trapezoidal rule over gamma dt, then backward differences."""
    middle = (1.0 + 0.5 * GAMMA * z) / (1.0 - 0.5 * GAMMA * z)
    known = (middle - (1.0 - GAMMA) ** 2) / (GAMMA * (2.0 - GAMMA))
    return known / (1.0 - (1.0 - GAMMA) / (2.0 - GAMMA) * z)


FACTORS = {
    "explicit": lambda z: 1.0 + z,
    "crank-nicolson": lambda z: (1.0 + 0.5 * z) / (1.0 - 0.5 * z),
    "tr-bdf2": bank,
    "sdirk2": lambda z: (1.0 + (1.0 - GAMMA) * z) / (1.0 - 0.5 * GAMMA * z) ** 2,
    "backward-euler": lambda z: 1.0 / (1.0 - z),
}


def solver(**options):
    return DiffusionSolver(DiffusionConfig(**options))


def values(heat):
    return heat.fields["u"].gather()


# ---------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("name", SCHEMES)
def test_a_mode_decays_by_the_factor_of_the_discrete_operator(name):
    along, n = (0.7, 1.9), (16, 12)
    heat = solver(
        cells=n,
        diffusivity=along,
        periodic=(True, False),
        boundary={"y-": da.Dirichlet(0.0), "y+": da.Neumann(0.0)},
        initial=lambda x, y: np.cos(4.0 * np.pi * x) * np.sin(2.5 * np.pi * y),
        scheme=name,
        tolerance=1e-12,
    )
    start, dt, steps = values(heat), 0.7 * heat.stable_dt(), 30 if name == "explicit" else 4
    for _ in range(steps):
        heat.step(dt)
    h = heat.config.spacing
    lam = sum(-4.0 * d / b**2 * math.sin(0.5 * k * b) ** 2
              for d, k, b in zip(along, (4.0 * np.pi, 2.5 * np.pi), h, strict=True))  # fmt: skip
    assert eigenvalue((4.0 * np.pi, 2.5 * np.pi), h, along) == pytest.approx(lam, rel=1e-14)
    expected = FACTORS[name](dt * lam) ** steps
    gate = 1e-12 if name == "explicit" else 1e-10
    assert abs(values(heat) - expected * start).max() < gate * abs(expected)
    other = FACTORS["explicit" if name != "explicit" else "crank-nicolson"](dt * lam) ** steps
    assert abs(other - expected) > 1e-3 * abs(expected)


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_have_the_factors_that_are_published(name):
    for z in (-0.1, -1.0, -7.0):
        assert amplification(SCHEMES[name], z) == pytest.approx(FACTORS[name](z), rel=1e-13)
    exact = [abs(FACTORS[name](z) - math.exp(z)) for z in (-0.01, -0.02)]
    order = math.log2(exact[1] / exact[0]) - 1.0
    assert SCHEMES[name].order == pytest.approx(order, abs=0.05)


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_stiff_mode_is_damped_where_the_scheme_is_l_stable(name):
    """The shortest wave of a grid, in a step that is 2,500 times the explicit limit."""
    heat = solver(cells=(16, 16), periodic=True, scheme=name,
                  initial=lambda x, y: np.cos(16.0 * np.pi * (x + y)))  # fmt: skip
    heat.fields["u"][...] = np.indices((16, 16)).sum(axis=0) % 2 * 2.0 - 1.0
    start, dt = values(heat), 2500.0 * 0.25 / (2 * 16**2)
    heat.step(dt)
    z = -4.0 * 2 * 16**2 * dt
    left = float((values(heat) * start).mean())
    assert left == pytest.approx(FACTORS[name](z), abs=1e-8)
    if SCHEMES[name].damps:
        assert abs(left) < 0.01
    else:
        assert left < -0.99  # rings: the other sign, as large as before


# ------------------------------------------------------------------------------------ Gaussians


def gaussian_error(n, name, dt):
    """In the 2-norm, at time 0.05, with the exact values on the sides."""
    start, diffusivity = 0.05, 0.5

    def side(t, *x):
        return gaussian(t, start, diffusivity)(*x)

    heat = solver(
        cells=(n, n),
        bounds=((-1.0, 1.0),) * 2,
        diffusivity=diffusivity,
        boundary={"x": da.Dirichlet(side), "y": da.Dirichlet(side)},
        initial=gaussian(0.0, start, diffusivity),
        scheme=name,
        time_step=dt,
        tolerance=1e-8,
    )
    heat.run(until=0.05)
    exact = heat.grid.from_function(gaussian(heat.time, start, diffusivity)).gather()
    return math.sqrt(float(np.mean((values(heat) - exact) ** 2)))


@pytest.mark.parametrize(("name", "step"), [
    ("explicit", lambda n: 0.05 / round(0.05 * n * n / 1.6)),
    ("crank-nicolson", lambda n: 0.05 / (n // 8)),
    ("tr-bdf2", lambda n: 0.05 / (n // 8)),
])  # fmt: skip
def test_a_gaussian_spreads_with_second_order(name, step):
    grids = (16, 24, 32)
    errors = [gaussian_error(n, name, step(n)) for n in grids]
    orders = [
        math.log(errors[k] / errors[k + 1]) / math.log(grids[k + 1] / grids[k]) for k in (0, 1)
    ]
    assert min(orders) > 1.9, (orders, errors)


def test_a_gaussian_by_a_scheme_of_first_order_fails_that_gate():
    first, second = (gaussian_error(n, "backward-euler", 0.05 / (n // 8)) for n in (16, 32))
    assert math.log2(first / second) < 1.5


# ----------------------------------------------------------------------- manufactured solutions


class Made:
    """`u = exp(-t) sin(2 x + 1) cos(3 y)` for `D = (1 + x / 2, 1.5 + sin(x) y)`."""

    def u(self, t, x, y):
        return np.exp(-t) * np.sin(2 * x + 1) * np.cos(3 * y)

    def along(self, shift=0.0):
        return (
            lambda x, y: 1 + 0.5 * (x + shift) + 0 * y,
            lambda x, y: 1.5 + np.sin(x) * (y + shift),
        )

    def slope_x(self, t, x, y):
        return np.exp(-t) * 2 * np.cos(2 * x + 1) * np.cos(3 * y)

    def slope_y(self, t, x, y):
        return -np.exp(-t) * 3 * np.sin(2 * x + 1) * np.sin(3 * y)

    def source(self, t, x, y):
        """`u_t - (D_x u_x)_x - (D_y u_y)_y`"""
        u = self.u(t, x, y)
        part_x = 0.5 * self.slope_x(t, x, y) - 4 * (1 + 0.5 * x) * u
        part_y = np.sin(x) * self.slope_y(t, x, y) - 9 * (1.5 + np.sin(x) * y) * u
        return -u - part_x - part_y

    def sides(self):
        """All kinds: u, du/dn, 2 u + du/dn, and -du/dy at y = 0, which is 0."""
        return {
            "x-": da.Dirichlet(self.u),
            "x+": da.Robin(2.0, 1.0, lambda t, x, y: 2 * self.u(t, x, y) + self.slope_x(t, x, y)),
            "y-": da.Symmetry(1),
            "y+": da.Neumann(self.slope_y),
        }


def made_error(n, name, shift=0.0):
    made = Made()
    heat = solver(
        cells=(n, n),
        diffusivity=made.along(shift),
        boundary=made.sides(),
        initial=lambda x, y: made.u(0.0, x, y),
        source=made.source,
        scheme=name,
        tolerance=1e-8,
        time_step=None if name == "explicit" else 0.2 / n,
    )
    heat.run(until=0.05)
    exact = heat.grid.from_function(lambda x, y: made.u(heat.time, x, y)).gather()
    return math.sqrt(float(np.mean((values(heat) - exact) ** 2)))


@pytest.mark.parametrize("name", [
    "explicit", "crank-nicolson", pytest.param("sdirk2", marks=pytest.mark.slow),
    pytest.param("tr-bdf2", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_manufactured_solution_with_variable_coefficients_is_second_order(name):
    errors = [made_error(n, name) for n in (8, 16, 32)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert orders[-1] > 1.9, (orders, errors)


def test_diffusivities_half_a_cell_away_are_first_order():
    errors = [made_error(n, "explicit", shift=0.5 / n) for n in (16, 32)]
    assert math.log2(errors[0] / errors[1]) < 1.4


def test_layers_conduct_as_in_series():
    """Harmonic means: the exact steady profile and flux through layers of different diffusivity."""
    k = np.where(np.arange(16) < 6, 0.01, 5.0)
    heat = solver(
        cells=(16,),
        diffusivity=k,
        boundary={"x-": da.Dirichlet(1.0), "x+": da.Dirichlet(0.0)},
        scheme="backward-euler",
        time_step=1e7,
    )
    heat.step(1e7)
    flux = 1.0 / (0.375 / 0.01 + 0.625 / 5.0)
    x = (np.arange(16) + 0.5) / 16
    expected = np.where(x < 0.375, 1.0 - flux * x / 0.01, flux * (1.0 - x) / 5.0)
    np.testing.assert_allclose(values(heat), expected, rtol=0, atol=1e-6)


# --------------------------------------------------------------------------------- conservation

CLOSED = {
    "cells": (18, 15),
    "periodic": (True, False),
    "diffusivity": (lambda x, y: 1.0 + 0.5 * np.sin(2 * np.pi * x) + 0 * y, 0.3),
    "initial": lambda x, y: 1.0 + x * np.exp(y) + np.sin(50.0 * x * y),
}


def test_the_content_of_a_closed_box_stays_over_1000_steps():
    heat = solver(**CLOSED)
    before = heat.scalars()["content"]
    dt = heat.stable_dt()
    for _ in range(1000):
        heat.step(dt)
    after = heat.scalars()
    assert after["content"] == pytest.approx(before, rel=1e-12)
    assert after["largest"] - after["smallest"] < 0.1


@pytest.mark.parametrize("name", ["crank-nicolson", "tr-bdf2"])
def test_the_content_stays_however_loose_the_tolerance(name):
    heat = solver(**CLOSED, scheme=name, tolerance=1e-2)
    before = heat.scalars()["content"]
    for _ in range(15):
        heat.step(heat.stable_dt())
    assert heat.scalars()["content"] == pytest.approx(before, rel=1e-13)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["crank-nicolson", "tr-bdf2"])
def test_the_content_stays_over_1000_implicit_steps(name):
    heat = solver(**CLOSED, scheme=name, tolerance=1e-3)
    before = heat.scalars()["content"]
    for _ in range(1000):
        heat.step(heat.stable_dt())
    assert heat.scalars()["content"] == pytest.approx(before, rel=1e-12)


def test_sources_of_time_add_what_they_should():
    """In a closed box: the integral of 1 + 2 t, exact for the trapezoidal rule."""
    heat = solver(cells=(8,), scheme="crank-nicolson", source=lambda t, x: 1.0 + 2.0 * t + 0.0 * x)
    constant = solver(cells=(8,), scheme="tr-bdf2", source=3.0)
    for _ in range(5):
        heat.step(0.1)
        constant.step(0.1)
    np.testing.assert_allclose(values(heat), 0.5 + 0.25, rtol=1e-12)
    np.testing.assert_allclose(values(constant), 1.5, rtol=1e-12)


def test_a_symmetric_field_stays_symmetric_to_the_bit():
    heat = solver(cells=(16, 16), boundary={"x": da.Dirichlet(0.0), "y": da.Dirichlet(0.0)},
                  initial=lambda x, y: (x - x * x) * (y - y * y))  # fmt: skip
    start = values(heat)
    start = (start + start[::-1]) + (start[:, ::-1] + start[::-1, ::-1])
    heat.fields["u"][...] = start + start.T
    for _ in range(50):
        heat.step(heat.stable_dt())
    u = values(heat)
    assert (u == u[::-1]).all()
    assert (u == u.T).all()


# ---------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("name", ["explicit", "tr-bdf2"])
def test_a_restart_goes_on_with_the_same_bits(name, tmp_path):
    config = DiffusionConfig(**CLOSED, scheme=name, measure_every=3)
    whole, first, second = (DiffusionSolver(config) for _ in range(3))
    whole.run(until=0.1, max_steps=9)
    first.run(until=0.1, max_steps=4)
    first.save(tmp_path / "heat.h5")
    second.restore(tmp_path / "heat.h5")
    second.run(until=0.1, max_steps=5)
    assert (whole.time, whole.residual) == (second.time, second.residual)
    assert values(whole).tobytes() == values(second).tobytes()


def test_a_run_becomes_steady():
    heat = solver(cells=(8,), boundary={"x-": da.Dirichlet(1.0), "x+": da.Dirichlet(3.0)},
                  scheme="tr-bdf2", time_step=0.05, measure_every=2)  # fmt: skip
    heat.run(until=50.0, steady=1e-9)
    assert heat.time < 10.0
    x = heat.grid.coordinates()[0]
    np.testing.assert_allclose(values(heat), 1.0 + 2.0 * x, rtol=1e-8)


# ------------------------------------------------------------------------------- what is refused

WRONG = [
    ({"cells": (8, 0)}, "cells along one to three axes"),
    ({"scheme": "leapfrog"}, "'scheme' is one of 'explicit', 'crank-nicolson', 'tr-bdf2'"),
    ({"diffusivity": -1.0}, "The diffusivity is a number above 0, received -1.0"),
    ({"diffusivity": 0.0}, "The diffusivity is a number above 0"),
    ({"diffusivity": (1.0,)}, "'diffusivity' has one entry per axis"),
    ({"diffusivity": -np.ones((8, 8))}, "The diffusivity is nowhere below 0, received -1.0"),
    ({"diffusivity": lambda x, y: x - 0.5 + 0 * y}, "nowhere below 0 and somewhere above"),
    ({"diffusivity": lambda x, y: 0 * x * y}, "nowhere below 0 and somewhere above"),
    ({"diffusivity": "iron"}, "'diffusivity' is a finite number, a function"),
    ({"initial": math.inf}, "'initial' is a finite number"),
    ({"source": np.ones(3)}, "received an array of shape (3,)"),
    ({"source": lambda x: x}, "'source' is called as f(x, y) or f(t, x, y)"),
    ({"boundary": da.Neumann(0.0)}, "'boundary' names sides and what they have"),
    ({"boundary": {"z": da.Neumann(0.0)}}, "This box has the sides x-, x+, y-, y+, received 'z'"),
    ({"boundary": {"x": 0.0}}, "A side has a condition such as da.Dirichlet(0.0), received 0.0"),
    ({"boundary": {"x": da.Dirichlet(math.nan)}}, "The values of a side are finite, received Diri"),
    ({"boundary": {"x": da.Dirichlet(np.full(8, np.inf))}}, "The values of a side are finite"),
    ({"boundary": {"x": da.Robin(1.0, math.nan, 0.0)}}, "The values of a side are finite"),
    ({"initial": lambda x, y: math.nan * x + y}, "The values of 'u' are finite"),
    ({"source": lambda x, y: x + y * math.inf}, "The values of 'source' are finite"),
    ({"boundary": {"x": da.Outflow()}, "scheme": "sdirk2"}, "must be Dirichlet, Neumann, Robin"),
    ({"time_step": 0.0}, "'time_step' is a number above 0"),
    ({"tolerance": 2.0}, "The tolerance lies in (0, 1)"),
    ({"safety": 0.0}, "The safety factor lies in (0, 1]"),
    ({"measure_every": 0}, "'measure_every' is a whole number"),
    ({"bounds": ((0, 1), (1, 1))}, "(low, high) with low < high"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(options, text):
    with pytest.raises(da.SolverError) as raised:
        solver(**({"cells": (8, 8)} | options))
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_time_steps_beyond_the_limit_are_refused():
    heat = solver(cells=(8,))
    for dt in (1.01 * heat.limit, 0.0, -1.0, math.nan):
        with pytest.raises(da.SolverError, match="lies between 0 and"):
            heat.step(dt)
    with pytest.raises(da.SolverError, match="lies between 0 and"):
        solver(cells=(8,), time_step=1.0).run(until=2.0)
    with pytest.raises(da.SolverError, match="is above 0, received"):
        solver(cells=(8,), scheme="tr-bdf2").step(-1.0)


def test_a_stage_that_is_not_solved_is_said():
    heat = solver(cells=(32, 32), scheme="tr-bdf2", tolerance=1e-300, initial=lambda x, y: x * y)
    with pytest.raises(da.SolverError, match="was not solved to tolerance=1e-300"):
        heat.step(1.0)


# ---------------------------------------------------------------------------------------- cases


def options_of(case, tmp_path, scheme, **changes):
    given = {"cells": case.cells, "output": tmp_path / case.name, "number": case.number}
    return Options(**given | {"chosen": case.chosen(scheme=scheme)} | changes)


@pytest.mark.parametrize(("case", "scheme", "steps"), [
    (CASES[0], "explicit", 15), (CASES[1], "tr-bdf2", 2),
], ids=["mode", "gaussian"])  # fmt: skip
def test_a_case_compares_draws_and_goes_on_from_a_checkpoint(case, scheme, steps, tmp_path, capsys):
    options = options_of(
        case, tmp_path, scheme, cells=(32, 32), until=0.025, every=2 * steps, checkpoint=steps
    )
    case.run(options)
    printed = capsys.readouterr().out
    assert "missed" not in printed
    table = printed.partition("Against")[2]
    folder = options.output
    assert (folder / f"{case.name}.h5").exists()
    assert (folder / f"{case.name}.png").exists()
    assert (folder / "scalars.csv").read_text().startswith("step,time,dt,residual,content")
    case.run(replace(options, restart=True))
    again = capsys.readouterr().out
    assert "Restart from step" in again
    assert again.partition("Against")[2] == table


def test_a_case_refuses_what_it_cannot_run(tmp_path):
    mode, spreading = CASES
    with pytest.raises(da.SolverError, match="whole number of waves, at most half"):
        mode.run(options_of(mode, tmp_path, "explicit", number=0.5))
    with pytest.raises(da.SolverError, match="at least 16 cells along each axis"):
        spreading.run(options_of(spreading, tmp_path, "explicit", cells=(8, 8)))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["explicit", "tr-bdf2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_as_it_is_run_by_default(case, scheme, tmp_path, capsys):
    case.run(options_of(case, tmp_path, scheme))
    printed = capsys.readouterr().out
    print(printed)
    assert "Against" in printed
    assert "missed" not in printed
