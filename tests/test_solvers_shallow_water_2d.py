"""Shallow water on two axes of one rank: rotation, vortices, symmetry, lakes, conservation, cases.

Kernels of two axes are costly to compile: all tests but the slow ones share theirs.
"""

import functools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solvers.__main__ import main
from solvers.shallow_water.exact import Lake
from tests.test_solvers_shallow_water import depth_of, flow_of, middles, speed_of


def island(x, y):
    return -1.0 + 1.5 * np.exp(-30.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


def test_a_symmetric_flood_stays_symmetric_to_the_bit():
    """Mirrored along both axes and transposed; with dry ground and a bed."""
    flow = flow_of(
        (24, 24), depth=lambda x, y: 1.0 * (x * x + y * y < 0.5) + 0.1 * (abs(x) + abs(y) < 1.2),
        bathymetry=lambda x, y: 0.25 * (x * x + y * y), bounds=((-1.5, 1.5),) * 2, gravity=1.0,
    )  # fmt: skip
    flow.run(until=1.5)
    assert flow.step_count > 40
    h, (qx, qy) = depth_of(flow), flow.fields["discharge"].gather()
    assert h.min() >= 0.0
    for other in (h.T, h[::-1], h[:, ::-1]):
        np.testing.assert_array_equal(h, other)
    np.testing.assert_array_equal(qx, qy.T)
    np.testing.assert_array_equal(qx, -qx[::-1])
    np.testing.assert_array_equal(qx, qx[:, ::-1])


def test_a_lake_around_an_island_stays_at_rest():
    flow = flow_of((24, 24), surface=0.1, bathymetry=island)
    volume = flow.scalars()["volume"]
    flow.run(max_steps=300)
    assert depth_of(flow).min() == 0.0
    assert speed_of(flow) <= 1e-12 * math.sqrt(9.81 * 1.1)
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=1e-13)


@settings(
    max_examples=25, deadline=None, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(seed=st.integers(0, 2**32 - 1), dry=st.floats(0.0, 0.8), fast=st.floats(0.0, 30.0))
def test_depths_are_never_negative_on_two_axes(seed, dry, fast):
    random, flow = np.random.default_rng(seed), basin()
    h = 10.0 ** random.uniform(-9.0, 1.0, (8, 8)) * (random.uniform(size=(8, 8)) > dry)
    h[0, 0] = 1.0  # there is some water
    flow.fields["depth"][...] = h
    flow.fields["discharge"][...] = h * random.uniform(-fast, fast, (2, 8, 8))
    flow.fields["bathymetry"][...] = random.uniform(-2.0, 2.0, (8, 8))
    volume = flow.scalars()["volume"]
    for _ in range(8):
        flow.step(flow.stable_dt())
        assert depth_of(flow).min() >= 0.0
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=1e-12)


@functools.cache
def basin():
    return flow_of((8, 8), depth=1.0, courant=0.5, thin=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("outflow", [(), ("x-", "x+", "y-", "y+")], ids=["closed", "open"])
@pytest.mark.parametrize("riemann", ["hllc", "roe"])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_lake_over_a_random_bed_stays_at_rest(riemann, dtype, bound, outflow):
    bed = np.random.default_rng(2).uniform(-1.0, 0.3, (40, 40))
    flow = flow_of(
        (40, 40), surface=0.1, riemann=riemann, dtype=dtype, outflow=outflow,
        bathymetry=lambda x, y: bed[(x * 40).astype(int), (y * 40).astype(int)],
    )  # fmt: skip
    flow.run(max_steps=1000)
    assert speed_of(flow) <= bound * math.sqrt(9.81 * 1.1)


def test_uniform_flow_keeps_its_bits():
    flow = flow_of((16, 12), depth=0.7, velocity=(0.4, -0.3), gravity=1.0, periodic=True)
    before = {name: u.gather() for name, u in flow.fields.items()}
    flow.run(max_steps=30)
    for name, values in before.items():
        np.testing.assert_array_equal(flow.fields[name].gather(), values)


def test_nothing_is_lost_on_two_axes():
    flow = flow_of(
        (16, 12), depth=lambda x, y: 1.0 + 0.5 * (abs(x - 0.4) < 0.2) * (y < 0.5),
        velocity=(0.4, -0.3), gravity=1.0, periodic=True,
    )  # fmt: skip
    start = flow.scalars()
    flow.run(max_steps=1000)
    end = flow.scalars()
    assert flow.totals() == end
    for name in ("volume", "momentum_x", "momentum_y"):
        assert end[name] == pytest.approx(start[name], rel=1e-12)


def test_a_wave_along_either_axis_is_that_of_one_axis():
    """To the bit in the depth: what the other axis does is nothing."""

    def shape(x):
        return 1.0 + 0.5 * (abs(x - 0.5) < 0.2)

    def result(cells, depth):
        flow = flow_of(cells, depth=depth, gravity=1.0, riemann="hllc")
        for _ in range(10):
            flow.step(2e-3)
        return depth_of(flow)

    line = result((32,), shape)
    along_x = result((32, 4), lambda x, y: shape(x) + 0.0 * y)
    along_y = result((4, 32), lambda x, y: shape(y) + 0.0 * x)
    np.testing.assert_array_equal(along_x, np.broadcast_to(line[:, None], (32, 4)))
    np.testing.assert_array_equal(along_y, np.broadcast_to(line, (4, 32)))


# ---------------------------------------------------------------------------------------- rotation


@functools.cache
def inertial(courant):
    f = 2.0
    flow = flow_of(
        (6, 6), depth=1.0, velocity=(1.0, 0.0), gravity=1.0, periodic=True, coriolis=f,
        courant=courant,
    )  # fmt: skip
    flow.run(until=2.0 * math.pi / f)
    return flow.fields["discharge"].gather()


def test_water_that_moves_turns_and_keeps_its_energy():
    """One inertial period: back where it was, of second order; faster or slower, not at all."""
    errors = []
    for courant in (0.45, 0.225):
        u, v = inertial(courant)
        np.testing.assert_allclose(u * u + v * v, 1.0, rtol=1e-13)
        errors.append(abs(v).max() + abs(u - 1.0).max())
    assert errors[0] < 1e-3
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.05)


def test_the_direction_of_the_turn():
    """In the northern hemisphere, f > 0, to the right."""
    flow = flow_of((6, 6), depth=1.0, velocity=(1.0, 0.0), gravity=1.0, periodic=True, coriolis=2.0)
    flow.run(until=0.25 * math.pi)
    u, v = flow.fields["discharge"].gather()
    np.testing.assert_allclose(u, 0.0, atol=1e-3)
    np.testing.assert_allclose(v, -1.0, atol=1e-3)


def test_beta_turns_by_the_place():
    """A row of cells far from each other: each turns at f + beta y until waves come."""
    flow = flow_of(
        (6, 6), depth=1.0, velocity=(1e-9, 0.0), gravity=1.0, bounds=((0.0, 6e3), (0.0, 6e3)),
        periodic=(True, False), coriolis=1.0, beta=1e-3, courant=0.5,
    )  # fmt: skip
    for _ in range(50):
        flow.step(0.01)
    u, v = flow.fields["discharge"].gather()
    angle = 0.5 * (1.0 + 1e-3 * middles(6, 0.0, 6e3))
    np.testing.assert_allclose(u, 1e-9 * np.cos(angle)[None] + 0.0 * u, atol=5e-13)
    np.testing.assert_allclose(v, -1e-9 * np.sin(angle)[None] + 0.0 * u, atol=5e-13)


@functools.cache
def balanced(n, **options):
    """Mean error of the depth of a geostrophic jet, u = -(g / f) dh/dy, after a day, f = 1."""
    g, size = 1.0, 0.05
    flow = flow_of(
        (4, n), bounds=((0.0, 4.0 / n), (0.0, 1.0)), periodic=True, gravity=g, coriolis=1.0,
        depth=lambda x, y: 1.0 + size * np.cos(2.0 * np.pi * y) + 0.0 * x,
        velocity=(lambda x, y: 2.0 * np.pi * g * size * np.sin(2.0 * np.pi * y) + 0.0 * x, 0.0),
        **options,
    )  # fmt: skip
    start = depth_of(flow)
    flow.run(until=1.0)
    return abs(depth_of(flow) - start).mean()


def test_a_jet_in_geostrophic_balance_stays():
    errors = [balanced(n) for n in (16, 32, 64)]
    assert errors[1] < 5e-5
    assert math.log2(errors[0] / errors[2]) / 2.0 > 1.9


@pytest.mark.slow
def test_a_first_order_scheme_loses_the_balance():
    assert balanced(32, reconstruction="constant") > 5e-4


# --------------------------------------------------------------------------------- exact solutions


def vortex(x, y):
    """A steady vortex: g dh/dr = v^2 / r with v = speed r exp((1 - r^2 / R^2) / 2) / R."""
    speed, radius, g = 0.2, 0.12, 1.0
    r2 = (x * x + y * y) / radius**2
    turn = speed / radius * np.exp(0.5 * (1.0 - r2))
    return 1.0 - 0.5 * speed**2 / g * np.exp(1.0 - r2), -turn * y, turn * x


@functools.cache
def carried(n, **options):
    """Mean error of the depth of a vortex that has been carried across the periodic box."""
    u, v, end = 0.5, 0.25, 0.5

    def part(number):
        return lambda x, y: vortex(x, y)[number]

    flow = flow_of(
        (n, n), bounds=((-0.5, 0.5),) * 2, periodic=True, gravity=1.0, depth=part(0),
        velocity=(lambda x, y: u + part(1)(x, y), lambda x, y: v + part(2)(x, y)), **options,
    )  # fmt: skip
    flow.run(until=end)
    x = middles(n, -0.5, 0.5)
    exact = vortex(*np.meshgrid(x - u * end, x - v * end, indexing="ij"))[0]
    for shift in (-1.0, 1.0):  # the nearest image
        exact = np.minimum(
            exact, vortex(*np.meshgrid(x - u * end + shift, x - v * end, indexing="ij"))[0]
        )
    return abs(depth_of(flow) - exact).mean()


def test_a_vortex_is_carried_along_with_order_two():
    errors = [carried(n) for n in (32, 64)]
    assert math.log2(errors[0] / errors[1]) > 1.8
    assert errors[1] < 3e-4


@pytest.mark.slow
def test_a_first_order_scheme_smears_the_vortex():
    first = [carried(n, reconstruction="constant") for n in (32, 64)]
    assert first[1] > 3e-4
    assert math.log2(first[0] / first[1]) < 1.0
    assert math.log2(carried(64) / carried(128)) > 1.8


def test_the_lake_in_a_round_bowl_swings():
    lake = Lake()
    flow = flow_of(
        (32, 32), depth=lambda *x: lake.water(0.0, *x), bathymetry=lake.bed,
        velocity=lake.velocity(0.0, 2), bounds=((-2.0, 2.0),) * 2,
    )  # fmt: skip
    volume = flow.scalars()["volume"]
    flow.run(until=lake.period)
    x = middles(32, -2.0, 2.0)
    exact = lake.water(lake.period, x[:, None], x[None, :])
    assert abs(depth_of(flow) - exact).mean() < 1e-3
    assert depth_of(flow).min() >= 0.0
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=1e-13)


# ------------------------------------------------------------------------------------------- cases


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["dam_break", "--cells", "100", "--behind", "0.1"], ("velocity", "Stoker")),
        (["dry_dam_break", "--cells", "100"], ("Ritter", "smallest depth")),
        (["lake_at_rest", "--cells", "24", "--until", "0.1"], ("water at rest",)),
        (["bump", "--cells", "100", "--until", "1"], ("Bernoulli", "position of the jump")),
        (["thacker", "--cells", "24", "--until", "0.3"], ("Thacker", "mean velocity along y")),
    ],
)
def test_cases_print_their_tables(arguments, rows, tmp_path, capsys):
    code = main([*arguments, "--output", str(tmp_path), "--every", "12", "--checkpoint", "12"])
    printed = capsys.readouterr().out
    assert code == 0
    for row in (*rows, "computed", "reference", "volume"):
        assert row in printed
    name = arguments[0]
    assert (tmp_path / f"{name}.h5").is_file()
    assert (tmp_path / f"{name}.png").is_file()
    assert "momentum_x" in (tmp_path / "scalars.csv").read_text().splitlines()[0]
    assert list((tmp_path / "checkpoints").iterdir())
