"""The lattice Boltzmann solver on one rank: what is exact, files, errors."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest

import distarray as da
from solvers.incompressible.shapes import Circle, Level
from solvers.lbm import LatticeConfig, LatticeSolver
from solvers.lbm import lattice as lattices
from solvers.lbm import solver as lattice_solver
from solvers.lbm.cases import cavity, cylinder
from solvers.lbm.collision import COLLISIONS, Collision, state_of
from solvers.lbm.kernels import stream_collide
from solvers.lbm.lattice import LATTICES, Lattice
from solvers.lbm.reference import centres, compare_cavity

EVERY = list(itertools.product(LATTICES.values(), COLLISIONS.values()))
NAMES = [f"{lattice.name}-{collision.name}" for lattice, collision in EVERY]


def solver(**options):
    return LatticeSolver(LatticeConfig(**options))


def drawn(lattice, seed=3):
    return 0.02 * np.random.default_rng(seed).standard_normal(lattice.size)


def collided(lattice, collision, f, force=None, omega=1.7, odd=1.1):
    state = state_of(lattice, list(f), force)
    return np.array(collision.collide(lattice, list(f), state, omega, odd))


# ------------------------------------------------------------------------------ one cell, by NumPy


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)
def test_lattices_are_isotropic(lattice):
    c, w, unit = np.array(lattice.velocities), np.array(lattice.weights), np.eye(lattice.ndim)
    assert lattice.size == int(lattice.name.split("Q")[1])
    assert len(set(lattice.velocities)) == lattice.size
    assert w.sum() == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_array_equal(c[list(lattice.opposite)], -c)
    second = np.einsum("i,ia,ib->ab", w, c, c)
    np.testing.assert_allclose(second, unit / 3, atol=1e-16)
    fourth = np.einsum("i,ia,ib,ic,id->abcd", w, c, c, c, c)
    pairs = np.einsum("ab,cd->abcd", unit, unit)
    isotropic = pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 3, 2, 1)
    np.testing.assert_allclose(fourth, isotropic / 9, atol=1e-16)


def leak(collision):
    """A broken one, which loses a part in 1e9 of one population."""

    def collide(lattice, f, state, omega, odd):
        found = collision.collide(lattice, f, state, omega, odd)
        found[1] = found[1] + 1e-9 * f[1]
        return found

    return Collision("leaking", collide, collision.equilibrium)


@pytest.mark.parametrize(("lattice", "collision"), EVERY, ids=NAMES)
def test_collisions_keep_mass_and_momentum_to_round_off(lattice, collision):
    f, c = drawn(lattice), np.array(lattice.velocities)
    force = (1e-3, -2e-3, 3e-3)[: lattice.ndim]

    def errors(how):
        after = collided(lattice, how, f, force) - f
        return max(abs(after.sum()), abs(c.T @ after - force).max())

    assert errors(collision) < 5e-16
    assert errors(leak(collision)) > 1e-12


@pytest.mark.parametrize(("lattice", "collision"), EVERY, ids=NAMES)
def test_equilibria_have_their_moments_and_stay(lattice, collision):
    c, w = np.array(lattice.velocities), np.array(lattice.weights)
    u = np.array((0.06, -0.02, 0.04)[: lattice.ndim])
    f = np.array(collision.equilibrium(lattice, 0.03, list(u)))
    assert f.sum() == pytest.approx(0.03, abs=1e-16)
    np.testing.assert_allclose(c.T @ f, 1.03 * u, atol=1e-16)
    stress = np.einsum("i,ia,ib->ab", f + w, c, c)
    np.testing.assert_allclose(
        stress, 1.03 * (np.eye(lattice.ndim) / 3 + np.outer(u, u)), atol=1e-15
    )
    np.testing.assert_allclose(collided(lattice, collision, f), f, rtol=0, atol=1e-16)


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)
def test_one_rate_is_the_formula_of_bhatnagar_gross_krook(lattice):
    """And two equal rates are one; the force is Guo's."""
    c, w = np.array(lattice.velocities), np.array(lattice.weights)
    whole, omega, g = drawn(lattice) + w, 1.7, np.array((1e-3, -2e-3, 3e-3)[: lattice.ndim])
    rho = whole.sum()
    u = (c.T @ whole + 0.5 * g) / rho
    cu = c @ u
    calm = w * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * u @ u)
    push = (1 - omega / 2) * w * (3 * (c @ g - u @ g) + 9 * cu * (c @ g))
    expected = whole - omega * (whole - calm) + push - w
    for name in ("bgk", "trt"):
        found = collided(lattice, COLLISIONS[name], whole - w, tuple(g), omega, omega)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    broken = collided(lattice, COLLISIONS["trt"], whole - w, tuple(g), omega, 1.6)
    assert abs(broken - expected).max() > 1e-6


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)
def test_cumulants_leave_a_normal_distribution(lattice):
    """Central moments of third order vanish, those of fourth follow from the covariance; the
    deviator of the stress keeps its share 1 - omega.
    """
    c, w, omega = np.array(lattice.velocities), np.array(lattice.weights), 1.7

    def central(f):
        rho, mean = f.sum(), c.T @ f / f.sum()
        d = c - mean
        return [
            np.einsum(f"i{''.join(f',i{a}' for a in 'abcd'[:n])}->{'abcd'[:n]}", f / rho, *[d] * n)
            for n in (2, 3, 4)
        ]

    whole = drawn(lattice) + w
    before = central(whole)
    after = central(collided(lattice, COLLISIONS["cumulant"], whole - w, None, omega) + w)
    unit = np.eye(lattice.ndim)

    def deviator(stress):
        return stress - np.trace(stress) / lattice.ndim * unit

    np.testing.assert_allclose(deviator(after[0]), (1 - omega) * deviator(before[0]), atol=1e-15)
    assert np.trace(after[0]) == pytest.approx(lattice.ndim / 3, abs=1e-14)
    for a, b in itertools.permutations(range(lattice.ndim), 2):
        assert abs(after[1][a, b, b]) < 1e-15
        normal = after[0][a, a] * after[0][b, b] + 2 * after[0][a, b] ** 2
        assert after[2][a, a, b, b] == pytest.approx(normal, abs=1e-15)
    assert max(abs(before[1][0, 1, 1]), abs(before[1][1, 0, 0])) > 1e-3


# ------------------------------------------------------------------------------------- streaming


@pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)
def test_streaming_is_an_exact_shift(lattice):
    shape = (5, 4, 3)[: lattice.ndim]
    grid = da.Grid(shape, periodic=True)
    f = grid.zeros(components=(lattice.size,))
    values = np.random.default_rng(5).standard_normal((lattice.size, *shape))
    f[...] = values
    kernel = stream_collide(lattice, COLLISIONS["bgk"])
    last = da.iterate(kernel, f, grid.zeros_like(f), steps=2, omega=0.0, odd=0.0)
    axes = tuple(range(lattice.ndim))
    for sign, same in ((2, True), (-2, False)):
        moved = [
            np.roll(v, [sign * n for n in c], axes)
            for v, c in zip(values, lattice.velocities, strict=True)
        ]
        assert np.array_equal(last.gather(), moved) == same


def test_each_population_is_read_and_written_once():
    kernel = stream_collide(LATTICES["D3Q19"], COLLISIONS["bgk"])
    f = da.Grid((4, 4, 4), periodic=True).zeros(components=(19,))
    text = kernel.source("c", f, f.copy())
    places = set(re.findall(r"\bf(\d+)\[([^\]]*)\]", text))
    assert sorted(int(number) for number, _ in places) == list(range(19))  # from one place each
    stores = Counter(re.findall(r"\bnew(\d+)\[k\] = ", text))
    assert sorted(map(int, stores)) == list(range(19))
    assert len(set(stores.values())) == 1


# ---------------------------------------------------------------------------- exact in whole flows


def test_uniform_flow_stays_uniform():
    for collision in COLLISIONS:
        flow = solver(
            cells=(6, 5),
            viscosity=0.01,
            bounds=((0, 6), (0, 5)),
            periodic=True,
            collision=collision,
            initial=(0.8, -0.5),
        )
        flow.run(max_steps=50)
        u = flow.velocity().gather()
        for component, value in enumerate((0.8, -0.5)):
            np.testing.assert_allclose(u[component], value, rtol=0, atol=3e-14)


CLOSED = {
    "cells": (16, 12),
    "viscosity": 0.02,
    "bounds": ((0.0, 16 / 12), (0.0, 1.0)),
    "walls": {"y+": (1.0, 0.0)},
    "obstacles": {"disc": Circle((0.6, 0.5), 0.2)},
    "measure_every": 1000,
}
PERIODIC = {
    "cells": (12, 10),
    "viscosity": 0.01,
    "bounds": ((0.0, 1.2), (0.0, 1.0)),
    "periodic": True,
    "initial": (lambda x, y: np.sin(2 * np.pi * y), lambda x, y: 0.5 * np.cos(2 * np.pi * x / 1.2)),
    "measure_every": 1000,
}


@pytest.mark.parametrize(
    "broken",
    [pytest.param(False, id="kept"), pytest.param(True, id="broken", marks=pytest.mark.slow)],
)
def test_mass_and_momentum_are_kept_for_a_thousand_steps(broken, monkeypatch):
    if broken:
        found = leak(COLLISIONS["trt"])
        monkeypatch.setattr(lattice_solver, "collision", lambda name: found)
    drifts = []
    for options, names in ((CLOSED, ["mass"]), (PERIODIC, ["mass", "momentum_x", "momentum_y"])):
        flow = solver(**options)
        start = flow.scalars()
        flow.run(max_steps=1000)
        end = flow.scalars()
        drifts += [abs(end[name] - start[name]) / start["mass"] for name in names]
    assert (max(drifts) < 1e-12) is not broken


def mirrored_pair(axis, **options):
    """A flow in a box, and the values of one that starts turned round along the axis."""
    cells = options["cells"]
    values = 0.2 * np.random.default_rng(2).standard_normal((len(cells), *cells))
    turned = np.flip(values, axis + 1).copy()
    turned[axis] *= -1.0
    found = []
    for start in (values, turned):
        initial = tuple(lambda *x, u=u: u for u in start)
        flow = solver(viscosity=0.02, measure_every=1000, initial=initial, **options)
        flow.run(max_steps=30)
        found.append(np.array(flow.velocity().gather()))
    one, other = found
    other = np.flip(other, axis + 1)
    other[axis] *= -1.0
    return one, other


SYMMETRIC = {
    "cells": (12, 11),
    "bounds": ((0.0, 12 / 11), (0.0, 1.0)),
    "obstacles": {"disc": Circle((6 / 11, 0.5), 0.2)},
}


@pytest.mark.parametrize("collision", COLLISIONS)
def test_mirrored_flows_have_mirrored_bits(collision):
    one, other = mirrored_pair(0, collision=collision, **SYMMETRIC)
    assert abs(one).max() > 0.01
    assert np.array_equal(one, other)


def test_mirrored_flows_have_mirrored_bits_in_three_dimensions():
    bounds = ((0, 6), (0, 5), (0, 7))
    one, other = mirrored_pair(2, cells=(6, 5, 7), lattice="D3Q19", bounds=bounds, speed=1.0)
    assert np.array_equal(one, other)


@pytest.mark.slow
def test_sums_in_another_order_break_symmetry(monkeypatch):
    monkeypatch.setattr(
        Lattice,
        "add",
        lambda self, terms: sum(list(terms.values())[1:], next(iter(terms.values()))),
    )
    one, other = mirrored_pair(0, collision="trt", **SYMMETRIC)
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(one, other, atol=1e-13)


@pytest.mark.slow
def test_a_square_duct_at_rest_stays_at_rest():
    duct = {
        "cells": (6, 6, 2),
        "bounds": ((0, 6), (0, 6), (0, 2)),
        "viscosity": 0.3,
        "periodic": (False, False, True),
    }
    flow = solver(**duct, measure_every=1000)
    flow.run(max_steps=100)
    assert float(abs(flow.velocity()).max()) < 1e-14
    moved = solver(**duct, measure_every=1000, force=(0.0, 0.0, 1e-2))
    moved.run(max_steps=100)
    assert float(abs(moved.velocity()[2]).max()) > 1e-2


@pytest.mark.parametrize("collision", COLLISIONS)
def test_a_force_gives_its_momentum_at_once(collision):
    """U = G t, also after one step: half of the force belongs to the velocity."""
    flow = solver(
        cells=(4, 3),
        bounds=((0, 4), (0, 3)),
        periodic=True,
        viscosity=0.1,
        collision=collision,
        force=(0.01, -0.02),
    )
    for steps in (1, 6):
        flow.run(max_steps=steps)
        u = flow.velocity().gather()
        np.testing.assert_allclose(u[0], 0.01 * flow.time, rtol=1e-12)
        np.testing.assert_allclose(u[1], -0.02 * flow.time, rtol=1e-12)


def test_the_momentum_of_the_fluid_goes_to_walls_and_bodies():
    """Every step: the change of momentum is the force less what surfaces receive, to round-off."""
    names = ("disc", "x-", "x+", "y-", "y+")
    flow = solver(**(CLOSED | {"measure_every": 1}), forces=names, force=(0.5, -0.25))
    fluid = flow.scalars()["mass"]  # density 1 at the start
    worst, unbalanced = 0.0, 0.0
    for _ in range(5):
        before = flow.scalars()
        flow.step()
        after, forces = flow.scalars(), flow.forces()
        for axis, push in enumerate((0.5, -0.25)):
            name = "momentum_" + "xy"[axis]
            change = (after[name] - before[name]) / flow.config.time_step
            received = sum(forces[surface][axis] for surface in names)
            worst = max(worst, abs(change - (push * fluid - received)))
            unbalanced = max(unbalanced, abs(forces["disc"][axis]))
    assert unbalanced > 1e-3
    assert worst < 1e-12


def test_the_force_on_a_body_does_not_depend_on_its_name():
    found = []
    for name in ("disc", "rest"):
        named = {"obstacles": {name: Circle((0.6, 0.5), 0.2)}, "forces": (name, "x-")}
        flow = solver(**(CLOSED | {"measure_every": 1} | named))
        flow.run(max_steps=5)
        found.append(list(flow.forces().values()))
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_a_surface_that_is_named_twice_is_measured_once():
    found = []
    for names in (("disc", "x-"), ("disc", "disc", "x-")):
        flow = solver(**(CLOSED | {"measure_every": 1}), forces=names)
        flow.run(max_steps=5)
        found.append(flow.forces())
    assert found[0] == found[1]
    assert set(found[0]) == {"disc", "x-"}


def test_three_dimensions_contain_two():
    """D3Q27 is D2Q9 for a flow that does not depend on z."""

    def flow(depth, **options):
        ends = ((0, 1), (0, 1), (0, 0.25))[: 2 + len(depth)]
        initial = (lambda x, y, *z: np.cos(6 * x) * y, lambda x, y, *z: np.sin(5 * y) * x, 0.0)
        made = solver(cells=(8, 8, *depth), bounds=ends, viscosity=0.02, periodic=True,
                      initial=initial[: len(ends)], measure_every=1000, **options)  # fmt: skip
        made.run(max_steps=30)
        return made.velocity().gather()

    plane, box = flow(()), flow((2,), lattice="D3Q27")
    np.testing.assert_allclose(box[:2, :, :, 0], plane, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(box[..., 0], box[..., 1])


# ------------------------------------------------------------------------------ runs, files, types


def test_a_run_ends_with_the_first_step_at_its_end_and_goes_on_from_a_file(tmp_path):
    options = CLOSED | {"forces": ("disc",), "measure_every": 7}
    flow = solver(**options)
    flow.run(until=0.1, output=tmp_path, every=5)
    assert 0.0 <= flow.time - 0.1 < flow.config.time_step
    assert flow.time == flow.step_count * flow.config.time_step
    flow.save(tmp_path / "state.h5")
    again = solver(**options)
    again.restore(tmp_path / "state.h5")
    assert again.forces() == flow.forces()
    for one in (flow, again):
        one.run(max_steps=11)
    assert again.scalars() == flow.scalars()
    assert again.residual == flow.residual
    ours, theirs = (one.fields["populations"].gather() for one in (flow, again))
    assert ours.tobytes() == theirs.tobytes()
    assert (tmp_path / "scalars.csv").read_text().startswith("step,time,dt,residual,mass,")
    saved = da.load(tmp_path / "state.h5", again.grid)
    assert {"velocity", "pressure", "populations"} <= saved.arrays.keys()


def test_visits_are_made_after_the_first_step_that_is_not_before_them():
    flow = solver(cells=(4, 4), periodic=True, viscosity=0.1)
    dt = flow.config.time_step
    near = 3 * dt * (1.0 + 1e-12)  # between it and the third step lies rounding
    end = 9 * dt * (1.0 + 1e-12)
    seen = []
    visits = [(time, lambda: seen.append((flow.step_count, flow.time)))
              for time in (near, 4.5 * dt, 6 * dt * (1.0 + 1e-5), end)]  # fmt: skip
    flow.run(until=end, visits=visits)
    assert seen == [(3, near), (5, 5 * dt), (7, 7 * dt), (9, end)]
    assert flow.step_count == 9
    flow.run(max_steps=1)
    assert flow.time == 10 * dt


def test_single_precision_follows_double_precision():
    flows = [solver(**CLOSED, dtype=dtype) for dtype in ("float64", "float32")]
    for flow in flows:
        flow.run(max_steps=100)
    double, single = (flow.velocity().gather() for flow in flows)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0, atol=2e-5)


def test_bodies_are_at_rest_and_hold_no_mass():
    flow = solver(**CLOSED, force=(1.0, 0.0))
    flow.run(max_steps=20)
    x, y = centres(flow, 0)[:, None], centres(flow, 1)[None, :]
    inside = np.hypot(x - 0.6, y - 0.5) < 0.2
    assert not flow.velocity().gather()[:, inside].any()
    assert not flow.fields["populations"].gather()[:, inside].any()
    mass = (~inside).sum() * flow.config.width**2
    assert flow.scalars()["mass"] == pytest.approx(mass, rel=1e-13)


def test_a_flow_faster_than_sound_allows_is_an_error():
    flow = solver(cells=(4, 4), periodic=True, viscosity=1.0, force=(100.0, 0.0), measure_every=1)
    with pytest.raises(da.SolverError, match="Mach number"):
        flow.run(until=1.0)


@pytest.mark.parametrize("dt", [0.5, math.nan, "a"])
def test_another_time_step_is_refused(dt):
    with pytest.raises(da.SolverError, match=r"time step of a lattice is fixed at"):
        solver(cells=(4, 4), periodic=True, viscosity=1.0).step(dt)


# ------------------------------------------------------------------------------------------ errors

DISC = {"disc": Circle((0.05, 0.5), 0.1)}
REFUSED = {
    "tau": ({"viscosity": 0.0}, r"relaxation time tau .* above 1/2, received viscosity=0.0"),
    "negative": ({"viscosity": -1.0}, r"above 1/2, received viscosity=-1.0"),
    "infinite": ({"viscosity": 1e308}, r"finite and above 1/2, .* tau=inf; give a smaller"),
    "lattice": ({"lattice": "D2Q7"}, r"one of D2Q9, D3Q19, D3Q27, received 'D2Q7'"),
    "axes": ({"lattice": "D3Q19"}, r"has 3 axes, received 2 numbers of cells; give D2Q9"),
    "collision": ({"collision": "srt"}, "one of 'bgk', 'trt', 'cumulant', received 'srt'"),
    "mach": ({"mach": 0.5}, r"at most 0.3, .* received mach=0.5"),
    "fast": ({"walls": {"y+": (2.0, 0.0)}}, r"No side is faster than 'speed'.* received 2"),
    "cubes": ({"bounds": ((0, 2), (0, 1))}, r"Cells of a lattice are cubes"),
    "one axis": ({"cells": (8,)}, r"two or three axes"),
    "side": ({"walls": {"z+": (0.0, 0.0)}}, r"sides x-, x\+, y-, y\+, received 'z\+'"),
    "twice": ({"walls": {"y+": (0.0, 0.0)}, "outflow": {"y+": 0.0}}, r"of one kind"),
    "normal": ({"walls": {"y+": (0.0, 0.5)}}, r"lets nothing through"),
    "moving by a function": ({"walls": {"y+": (lambda t, x, y: x, 0.0)}}, r"given by numbers"),
    "pressure": ({"outflow": {"x+": "low"}}, r"pressure of an outflow is a finite number"),
    "obstacle": ({"obstacles": {"disc": 3}}, r"a shape with a distance"),
    "forces": ({"forces": ("wing",)}, r"here x-, x\+, y-, y\+, received 'wing'"),
    "dtype": ({"dtype": "float16"}, "one of 'float64', 'float32', received 'float16'"),
    "force": ({"force": ("g", 0.0)}, r"force is a finite number for each axis"),
    "start": ({"initial": ("u", 0.0)}, r"'initial' is a finite number or a function, received 'u'"),
    "function": ({"pressure": lambda x: x}, r"'pressure' is called as f\(x, y\), received"),
    "inflow": ({"inflow": {"x-": (lambda x, y: y, 0.0)}}, r"is called as f\(t, x, y\), received"),
    "surfaces": ({"forces": 3}, r"'forces' is a tuple of walls and obstacles, received 3"),
    "measure": ({"measure_every": 0}, r"at least 1 step apart"),
    "speed": ({"speed": 0.0}, r"'speed' is above 0"),
    "viscosity": ({"viscosity": "low"}, r"'viscosity' is a finite number"),
    "over an inflow": (
        {"inflow": {"x-": (1.0, 0.0)}, "outflow": {"x+": 0.0}, "obstacles": DISC},
        r"keep clear of inflows and outflows, .* disc over the side 'x-'",
    ),
    "nan": (
        {"obstacles": {"disc": Level(lambda x, y: x + y + math.nan)}},
        r"distance of the obstacle 'disc' is a number everywhere",
    ),
    "no room": ({"obstacles": {"disc": Circle((0.5, 0.5), 2.0)}}, r"needs room"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_describes_no_flow_is_one_sentence(name):
    options, text = REFUSED[name]
    with pytest.raises(da.SolverError, match=text) as raised:
        solver(**({"cells": (8, 8), "viscosity": 0.1} | options))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("cells", [(20, 41), (440, 8)])
def test_a_channel_without_room_for_its_cylinder_is_refused(cells):
    with pytest.raises(da.SolverError, match=r"at least 9 cells across and is at least 0\.4 long"):
        cylinder(cells, 20.0)


def test_a_cavity_of_few_cells_is_not_compared():
    flow = LatticeSolver(cavity((3, 3), 100.0))
    flow.run(max_steps=1)
    assert compare_cavity(flow) is None


def test_unknown_names_are_refused_where_they_are_looked_up():
    with pytest.raises(da.SolverError, match="give two or three numbers"):
        lattices.lattice("D2Q9", 4)
