"""The incompressible solver on one rank: exact properties, orders of accuracy, files, errors."""

import math

import numpy as np
import pytest

import distarray as da
from solvers.incompressible import (
    IncompressibleConfig,
    IncompressibleSolver,
    Obstacle,
    PressureSolver,
    Smagorinsky,
)
from solvers.incompressible.cases import cavity, taylor_green
from solvers.incompressible.cases.channel import laminar_channel
from solvers.incompressible.reference import why_not_compared
from solvers.incompressible.shapes import Circle, Level

LID = {"y+": (1.0, 0.0)}


def solver(**options):
    return IncompressibleSolver(IncompressibleConfig(**options))


def divergence(fields, spacing):
    """Independent of the solver: low and high faces of every cell."""
    total = 0.0
    for axis, name in enumerate("uvw"[: len(spacing)]):
        u = fields[name].gather()
        if u.shape[axis] == fields["p"].shape[axis]:  # periodic
            u = np.concatenate([u, np.take(u, [0], axis)], axis)
        total = total + np.diff(u, axis=axis) / spacing[axis]
    return total


def laplacian(values, spacing, periodic):
    total = 0.0
    for axis, (h, wrap) in enumerate(zip(spacing, periodic, strict=True)):
        pads = [(0, 0)] * values.ndim
        pads[axis] = (1, 1)
        total = total + np.diff(np.pad(values, pads, "wrap" if wrap else "edge"), 2, axis) / h**2
    return total


# ------------------------------------------------------------------------------------- pressure


@pytest.mark.parametrize(
    ("cells", "periodic"),
    [
        ((16, 12), (False, False)),
        ((15, 8), (True, False)),
        ((9, 7), (True, True)),
        ((8, 6, 10), (False, False, False)),
        ((8, 5, 6), (True, False, True)),
    ],
)
def test_pressure_solves_the_discrete_equation(cells, periodic):
    grid = da.Grid(cells, bounds=[(0.0, 1.0 + i) for i in range(len(cells))], periodic=periodic)
    rhs = np.random.default_rng(4).standard_normal(cells)
    rhs -= rhs.mean()
    field = grid.zeros()
    field[...] = rhs
    solution = grid.zeros()
    PressureSolver(grid).solve(field, solution)
    phi = solution.gather()
    assert abs(phi.mean()) < 1e-13
    np.testing.assert_allclose(laplacian(phi, grid.spacing, periodic), rhs, rtol=0, atol=1e-11)


# ------------------------------------------------------------------------------ exact properties


@pytest.mark.parametrize("cells", [(16, 16), (13, 10), (8, 6, 7)])
def test_divergence_is_round_off(cells):
    walls = {"y+": (1.0,) + (0.0,) * (len(cells) - 1)}
    flow = solver(cells=cells, viscosity=0.01, walls=walls)
    for _ in range(10):
        flow.step(flow.stable_dt())
    assert float(abs(flow.fields["u"]).max()) > 0.1
    assert abs(divergence(flow.fields, flow.grid.spacing)).max() < 1e-12
    assert flow.max_divergence() < 1e-12
    flow.fields["u"][3, 3] = 0.5  # and it is seen where it is not
    found = abs(divergence(flow.fields, flow.grid.spacing)).max()
    assert flow.max_divergence() == pytest.approx(found, rel=1e-12)


def test_initial_velocity_loses_its_divergence():
    flow = solver(
        cells=(12, 8),
        viscosity=0.1,
        initial=(lambda x, y: np.sin(3 * x) * y, lambda x, y: x * y),
    )
    assert float(abs(flow.fields["u"]).max()) > 0.05
    assert abs(divergence(flow.fields, flow.grid.spacing)).max() < 1e-13


def test_uniform_flow_stays_uniform():
    flow = solver(cells=(8, 6, 4), viscosity=0.1, periodic=True, initial=(1.0, -2.0, 0.5))
    for _ in range(5):
        flow.step(0.01)
    for name, value in (("u", 1.0), ("v", -2.0), ("w", 0.5)):
        np.testing.assert_allclose(flow.fields[name].gather(), value, rtol=0, atol=1e-14)


def test_three_dimensions_contain_two():
    """A flow that does not depend on z is the two-dimensional one."""
    plane = solver(cells=(12, 10), viscosity=0.02, walls=LID)
    box = solver(
        cells=(12, 10, 3),
        viscosity=0.02,
        walls={"y+": (1.0, 0.0, 0.0)},
        periodic=(False, False, True),
    )
    for _ in range(10):
        plane.step(0.02)
        box.step(0.02)
    for name in "uvp":
        expected = plane.fields[name].gather()
        for k in range(3):
            np.testing.assert_allclose(
                box.fields[name].gather()[..., k], expected, rtol=0, atol=1e-12
            )
    assert float(abs(box.fields["w"]).max()) < 1e-14


def test_turned_cavity_gives_the_turned_flow():
    """The same text serves every axis: exchanging x and y exchanges u and v."""
    upright = solver(cells=(12, 9), viscosity=0.02, walls={"y+": (1.0, 0.0)})
    turned = solver(cells=(9, 12), viscosity=0.02, walls={"x+": (0.0, 1.0)})
    for _ in range(10):
        upright.step(0.02)
        turned.step(0.02)
    for one, other in (("u", "v"), ("v", "u"), ("p", "p")):
        np.testing.assert_allclose(
            upright.fields[one].gather(), turned.fields[other].gather().T, rtol=0, atol=1e-13
        )


def test_inviscid_periodic_flow_keeps_its_energy():
    """Central fluxes neither make nor lose energy; what is left is the error in time."""
    losses = []
    for dt in (0.02, 0.01):
        flow = IncompressibleSolver(taylor_green((16, 16, 16), math.inf))
        start = flow.kinetic_energy()
        for _ in range(round(0.4 / dt)):
            flow.step(dt)
        losses.append(abs(flow.kinetic_energy() / start - 1.0))
    assert losses[0] < 1e-6
    assert losses[1] < 0.5 * losses[0]


# --------------------------------------------------------------------------- orders of accuracy


def polynomial_cavity(n, viscosity, advection):
    """Steady flow with walls and a lid: u = 8 f(x) g'(y), v = -8 f'(x) g(y) (Shih,
    T. M., Tan, C. H., Hwang, B. C. (1989) Int. J. Numer. Methods Fluids 9(2), 193-212), with
    p = cos(pi x) cos(pi y) and the force that it takes.
    """
    f = np.polynomial.Polynomial([0.0, 0.0, 1.0, -2.0, 1.0])
    g = np.polynomial.Polynomial([0.0, 0.0, -1.0, 0.0, 1.0])
    f1, f2, f3 = (f.deriv(m) for m in (1, 2, 3))
    g1, g2, g3 = (g.deriv(m) for m in (1, 2, 3))

    def u(x, y):
        return 8 * f(x) * g1(y)

    def v(x, y):
        return -8 * f1(x) * g(y)

    def force_u(x, y):
        carried = u(x, y) * 8 * f1(x) * g1(y) + v(x, y) * 8 * f(x) * g2(y)
        gradient = -np.pi * np.sin(np.pi * x) * np.cos(np.pi * y)
        return carried + gradient - viscosity * 8 * (f2(x) * g1(y) + f(x) * g3(y))

    def force_v(x, y):
        carried = -u(x, y) * 8 * f2(x) * g(y) - v(x, y) * 8 * f1(x) * g1(y)
        gradient = -np.pi * np.cos(np.pi * x) * np.sin(np.pi * y)
        return carried + gradient + viscosity * 8 * (f3(x) * g(y) + f1(x) * g2(y))

    flow = solver(
        cells=(n, n),
        viscosity=viscosity,
        walls={"y+": (lambda t, x, y: u(x, y), 0.0)},
        initial=(u, v),
        force=(force_u, force_v),
        advection=advection,
    )
    flow.run(steady=1e-7, max_steps=100_000)  # a steady state does not depend on the time step
    assert flow.residual < 1e-7
    return errors(flow, (u, v))


def decaying_vortices(n, viscosity, advection, dt=2.5e-3):
    """The two-dimensional Taylor-Green vortices at t = 0.5, exact for all times."""
    config = taylor_green((n, n), 1.0 / viscosity)
    flow = solver(
        cells=(n, n),
        viscosity=viscosity,
        bounds=config.bounds,
        periodic=True,
        initial=config.initial,
        advection=advection,
    )
    for _ in range(round(0.5 / dt)):
        flow.step(dt)
    decay = math.exp(-2.0 * viscosity * 0.5)
    return errors(flow, [lambda x, y, f=f: decay * f(x, y) for f in config.initial])


def beltrami(n, viscosity, advection, dt=2.5e-3):
    """The flow of Arnold, Beltrami and Childress at t = 0.1; it decays without changing shape."""
    exact = (
        lambda x, y, z: np.sin(z) + np.cos(y) + 0 * x,
        lambda x, y, z: np.sin(x) + np.cos(z) + 0 * y,
        lambda x, y, z: np.sin(y) + np.cos(x) + 0 * z,
    )
    flow = solver(
        cells=(n, n, n),
        viscosity=viscosity,
        bounds=((0.0, 2.0 * np.pi),) * 3,
        periodic=True,
        initial=exact,
        advection=advection,
    )
    for _ in range(round(0.1 / dt)):
        flow.step(dt)
    decay = math.exp(-viscosity * 0.1)
    return errors(flow, [lambda x, y, z, f=f: decay * f(x, y, z) for f in exact])


def errors(flow, exact):
    """Root mean square error of each component."""
    sizes = []
    for f, location in zip(exact, "xyz", strict=False):
        values = flow.grid.from_function(f, location=location).gather()
        difference = flow.fields["uvw"["xyz".index(location)]].gather() - values
        sizes.append(np.sqrt(np.mean(difference**2)))
    return np.array(sizes)


def order(error, sizes, viscosity, advection="central"):
    """Orders from three grids, each twice as fine: that of the finest pair, and that before."""
    a, b, c = (error(n, viscosity, advection) for n in sizes)
    return np.log2(b / c), np.log2(a / b)


ORDERS = [
    pytest.param(polynomial_cavity, (16, 32, 64), 0.05, marks=pytest.mark.slow),
    (decaying_vortices, (16, 32, 64), 0.05),
    (beltrami, (8, 16, 32), 0.05),
]


@pytest.mark.parametrize(("error", "sizes", "viscosity"), ORDERS)
def test_velocity_is_second_order_in_space(error, sizes, viscosity):
    finest, before = order(error, sizes, viscosity)
    assert np.all(abs(finest - 2.0) < 0.1), (finest, before)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "sizes", "viscosity"), ORDERS)
def test_a_first_order_scheme_fails_the_order_test(error, sizes, viscosity):
    finest, _ = order(error, sizes, viscosity, "upwind")
    assert np.all(abs(finest - 2.0) > 0.1), finest


def test_velocity_is_second_order_in_time():
    """Against a run with a time step so small that only space errs, on one grid with walls."""

    def velocity(dt):
        flow = solver(
            cells=(12, 12),
            viscosity=0.05,
            walls={"y+": (lambda t, x, y: np.sin(3 * t) * (x * (1 - x)) ** 2 * 16, 0.0)},
            initial=(
                lambda x, y: np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y),
                lambda x, y: -np.sin(2 * np.pi * x) * np.sin(np.pi * y) ** 2,
            ),
        )
        for _ in range(round(0.4 / dt)):
            flow.step(dt)
        return flow.fields["u"].gather()

    exact = velocity(0.4 / 1024)
    one, two, three = (np.sqrt(np.mean((velocity(0.4 / n) - exact) ** 2)) for n in (32, 64, 128))
    assert math.log2(two / three) > 1.9
    assert math.log2(one / two) > 1.8


# ------------------------------------------------------------------------------------ run, files


def test_run_lands_on_the_time():
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID)
    flow.run(until=0.1)
    assert flow.time == 0.1
    flow.run(until=0.25)
    assert flow.time == 0.25


def test_run_stops_when_steady():
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID, measure_every=5)
    flow.run(steady=1e-5)
    before = flow.fields["u"].copy()
    dt = flow.stable_dt()
    flow.step(dt)
    assert float(abs(flow.fields["u"] - before).max()) / dt < 1e-5
    assert flow.residual < 1e-5


def test_residual_is_the_largest_rate_of_change():
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID, measure_every=2)
    dt, rates = 1e-3, []
    for _ in range(4):
        old = [flow.fields[name].gather() for name in "uv"]
        flow.step(dt)
        new = [flow.fields[name].gather() for name in "uv"]
        rates.append(max(abs(b - a).max() for a, b in zip(old, new, strict=True)) / dt)
    assert flow.residual == pytest.approx(rates[1], rel=1e-10)  # of step 2, read at step 4


def test_run_writes_files_and_calls_back(tmp_path):
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID)
    steps = []
    flow.run(
        max_steps=6,
        output=tmp_path / "out",
        every=2,
        callback=lambda: steps.append(flow.step_count),
    )
    assert steps == [2, 4, 6]
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    files = [f"step-000000{k}.{ending}" for k in (2, 4, 6) for ending in ("h5", "xdmf")]
    assert names == ["scalars.csv", *files, "steps.vtkhdf.series", "steps.xdmf"]
    header, *rows = (tmp_path / "out" / "scalars.csv").read_text().split()
    column = header.split(",").index("residual")
    assert [row.split(",")[column] for row in rows] == ["nan"] * 3  # measured every 20 steps


@pytest.mark.parametrize("steps", [3, 7])
def test_restart_continues_with_the_same_bits(tmp_path, steps):
    config = IncompressibleConfig(cells=(12, 10), viscosity=0.02, walls=LID, measure_every=3)
    flow = IncompressibleSolver(config)
    flow.run(max_steps=steps)
    flow.save(tmp_path / "state.h5")
    flow.run(max_steps=10)
    again = IncompressibleSolver(config)
    again.restore(tmp_path / "state.h5")
    again.run(max_steps=10)
    assert (again.step_count, again.time, again.residual) == (
        flow.step_count,
        flow.time,
        flow.residual,
    )
    for name, values in flow.fields.items():
        assert again.fields[name].gather().tobytes() == values.gather().tobytes()


def test_progress_shows_the_run(capsys):
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID, measure_every=2)
    flow.run(until=0.1, progress=True)
    line = capsys.readouterr().err
    for word in ("step", "time   0.1000", "dt", "residual", "cells/s", "ETA 0 s"):
        assert word in line


# ----------------------------------------------------------------------------------- physics


@pytest.mark.parametrize(
    ("cells", "advection", "safety"), [((16, 16), "central", 1.0), ((16, 16), "upwind", 1.0)]
)
def test_stable_time_step_is_stable(cells, advection, safety):
    flow = solver(cells=cells, viscosity=1e-3, walls=LID, advection=advection, safety=safety)
    flow.run(max_steps=400)
    assert flow.residual < 1.0


def test_shear_layers_gain_no_energy_at_the_stable_time_step():
    """The pressure gradient of a stage lags behind the waves that the layers roll up to."""
    flow = solver(
        cells=(64, 64),
        viscosity=0.0,
        periodic=True,
        safety=1.0,
        measure_every=2,
        initial=(
            lambda x, y: np.tanh(30.0 * np.where(y < 0.5, y - 0.25, 0.75 - y)) + 0.0 * x,
            lambda x, y: 0.05 * np.sin(2.0 * np.pi * x) + 0.0 * y,
        ),
    )
    energies = [flow.kinetic_energy()]
    while flow.time < 1.4:
        flow.run(max_steps=10)
        energies.append(flow.kinetic_energy())
    assert np.diff(energies).max() < 1e-4 * energies[0]
    assert energies[-1] > 0.98 * energies[0]


def test_decay_of_three_dimensional_vortices():
    """Energy falls at the rate 6 nu of the first mode, to h^2 and dt."""
    flow = IncompressibleSolver(taylor_green((32, 32, 32), 100.0))
    start = flow.kinetic_energy()
    assert start == pytest.approx(0.125, rel=1e-12)
    flow.run(until=0.02)
    rate = (1.0 - flow.kinetic_energy() / start) / 0.02
    assert rate == pytest.approx(6.0 / 100.0, rel=0.01)


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cells": (8,)}, "two or three axes, received cells=(8,)"),
        ({"cells": 8}, "two or three axes, received cells=8"),
        ({"periodic": (True,)}, "'periodic' has one entry per axis, received 1 for 2 axes"),
        ({"bounds": ((0.0, 1.0),)}, "'bounds' has one entry per axis, received 1 for 2 axes"),
        ({"ranks": (1, 1, 1)}, "'ranks' has one entry per axis, received 3 for 2 axes"),
        ({"viscosity": -1.0}, "viscosity is a number of at least 0, received -1.0"),
        ({"advection": "quick"}, "'central', 'upwind' or 'weno', received 'quick'"),
        ({"safety": 2.0}, "received 2.0"),
        ({"measure_every": 0}, "received 0"),
        ({"initial": (0.0,)}, "'initial' has one entry per axis, received 1 for 2 axes"),
        ({"force": (0.0, 0.0, 0.0)}, "'force' has one entry per axis, received 3 for 2 axes"),
        ({"walls": {"z+": (0.0, 0.0)}}, "sides x-, x+, y-, y+, received 'z+' in 'walls'"),
        ({"walls": {"y+": (1.0, 0.0)}, "periodic": True}, "sides none, received 'y+'"),
        ({"walls": {"y+": (1.0,)}}, "walls['y+']"),
        ({"walls": {"y+": (1.0, 0.5)}}, "normal velocity 0.5 at 'y+'"),
        ({"periodic": (True, "no")}, "True or False of each axis, received (True, 'no')"),
        ({"obstacles": Obstacle(Circle((0.5, 0.5), 0.2))}, "a tuple of Obstacle, received"),
        ({"obstacles": (3,)}, "a tuple of Obstacle, received (3,)"),
        ({"scalar": 3}, "'scalar' is a Scalar or None, received 3"),
        ({"les": 0.1}, "'les' is a Smagorinsky or None, received 0.1"),
        (
            {"viscosity": 0.0, "les": Smagorinsky(friction_velocity=1.0)},
            "needs a viscosity above 0, received viscosity=0.0",
        ),
    ],
)
def test_a_wrong_config_says_what_is_wrong(options, text):
    with pytest.raises(da.SolverError) as raised:
        IncompressibleConfig(**({"cells": (8, 8), "viscosity": 0.1} | options))
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs an end"),
        ({"until": "a"}, "received until='a'"),
        ({"until": -1.0}, "received until=-1.0; give a number that is at least 0"),
        ({"until": math.nan}, "received until=nan"),
        ({"steady": -1.0}, "a number above 0, received steady=-1.0"),
        ({"steady": "a"}, "received steady='a'"),
        ({"max_steps": 1.5}, "counted from 0, received max_steps=1.5"),
        ({"until": 1.0, "every": -1}, "counted from 0, received every=-1"),
    ],
)
def test_a_run_without_an_end_is_an_error(options, text):
    with pytest.raises(da.SolverError, match=text):
        solver(cells=(8, 8), viscosity=0.1).run(**options)


@pytest.mark.parametrize("dt", [math.nan, -1.0, 0.0, math.inf, "a", None])
def test_a_time_step_is_above_0(dt):
    flow = solver(cells=(8, 8), viscosity=0.1)
    with pytest.raises(da.SolverError, match=f"finite and above 0, received dt={dt!r}"):
        flow.step(dt)
    assert flow.step_count == 0


def test_a_shape_without_a_distance_somewhere_is_an_error():
    shape = Level(lambda x, y: np.where(x > 0.9, np.nan, x - 0.2) + 0 * y)
    with pytest.raises(da.SolverError, match="gives nan in some places"):
        solver(cells=(8, 8), viscosity=0.1, obstacles=(Obstacle(shape),))


def test_an_infinite_reynolds_number_has_no_table():
    config = IncompressibleConfig(cells=(8, 8), viscosity=0.0)
    assert why_not_compared(config).endswith("not for inf.")


def test_rest_without_viscosity_has_no_time_step():
    with pytest.raises(da.SolverError, match="at rest without viscosity"):
        solver(cells=(8, 8), viscosity=0.0).stable_dt()


@pytest.mark.parametrize("viscosity", [0.0, 1e-4])
def test_walls_given_by_functions_limit_the_time_step(viscosity):
    def lid(t, x, y, z):
        assert float(np.max(y)) == 2.0  # points of the wall
        return t * np.cos(np.pi * (x - 0.5)) + 0 * z

    box = {"cells": (8, 6, 7), "bounds": ((0.0, 1.0), (0.0, 2.0), (0.0, 1.0))}
    moving = solver(**box, viscosity=viscosity, walls={"y+": (lid, 0.0, -0.5)})
    moving.time = 3.0
    constant = solver(**box, viscosity=viscosity, walls={"y+": (3.0, 0.0, -0.5)})
    assert moving.stable_dt() == constant.stable_dt()


def test_walls_that_start_from_rest_need_a_time_step():
    flow = solver(cells=(8, 8), viscosity=0.0, walls={"y+": (lambda t, x, y: t + 0 * x, 0.0)})
    with pytest.raises(da.SolverError, match=r"give step\(dt\) one"):
        flow.stable_dt()
    flow.step(0.01)
    assert math.isfinite(flow.stable_dt())


def test_a_state_that_blows_up_is_an_error():
    flow = solver(cells=(8, 8), viscosity=0.1, walls=LID, measure_every=5)
    with pytest.raises(da.SolverError, match="no longer finite at step"):
        step_often(flow)


def step_often(flow):
    for _ in range(200):
        flow.step(1.0)


@pytest.mark.parametrize("case", [cavity, taylor_green, laminar_channel])
@pytest.mark.parametrize("cells", [(8,), (8,) * 4])
def test_cases_of_one_or_four_axes_are_errors(case, cells):
    with pytest.raises(da.SolverError, match="two or three axes"):
        case(cells, 100.0)


def test_walls_that_start_from_rest_are_looked_at_in_advance():
    """A step of a run holds for 2 `measure_every` steps: the wall may not outrun it by then."""
    flow = solver(
        cells=(8, 8),
        viscosity=1e-3,
        walls={"y+": (lambda t, x, y: 50.0 * t + 0 * x, 0.0)},
        measure_every=5,
    )
    flow.run(max_steps=1)
    assert 50.0 * 10 * flow.time * 8 * flow.time < 1.5


def test_cavity_case_is_the_lid_driven_cavity():
    config = cavity((8, 8, 8), 400.0)
    assert config.viscosity == 1.0 / 400.0
    assert dict(config.walls) == {"y+": (1.0, 0.0, 0.0)}
