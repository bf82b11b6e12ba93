"""Shallow water on one rank: exact solutions, lakes at rest, shores, conservation, errors.

Bounds of accuracy are those that a scheme of first order, or one without the property, fails: each
test runs one.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distarray as da
from solvers.hyperbolic.solver import ConservationLaw
from solvers.shallow_water import ShallowWaterConfig, ShallowWaterSolver
from solvers.shallow_water import equation as equations
from solvers.shallow_water.cases import bump as bump_case
from solvers.shallow_water.equation import ShallowWater, velocity
from solvers.shallow_water.exact import DamBreak, Lake, SimpleWave, SteadyFlow, normal_velocity
from solvers.shallow_water.reference import dam_breaks
from solvers.shallow_water.riemann import RIEMANN, speeds

FIRST = {"reconstruction": "constant"}


def flow_of(cells, **options):
    return ShallowWaterSolver(ShallowWaterConfig(cells=cells, **options))


def middles(n, low=0.0, high=1.0):
    return low + (np.arange(n) + 0.5) * (high - low) / n


def depth_of(flow):
    return flow.fields["depth"].gather()


def speed_of(flow):
    """Largest |q| / h of water that is not thin; q itself in thin water."""
    h, q = depth_of(flow).astype(float), flow.fields["discharge"].gather().astype(float)
    return (abs(q) / np.where(h > flow.thin, h, 1.0)).max()


# --------------------------------------------------------------------------------- Riemann solvers


@pytest.mark.parametrize("name", RIEMANN)
def test_equal_sides_have_their_own_flux(name):
    h, u, v = 0.7, 0.3, -0.2
    mass, normal, across = RIEMANN[name](h, (u, v), h, (u, v), 9.81)
    np.testing.assert_allclose([mass, normal, across], [h * u, h * u * u, h * u * v], rtol=1e-14)


@pytest.mark.parametrize("name", RIEMANN)
def test_still_water_has_no_flux_to_the_bit(name):
    for h in (0.1, 0.3, 1.7):
        assert [float(f) for f in RIEMANN[name](h, (0.0, 0.0), h, (0.0, 0.0), 9.81)] == [0.0] * 3


@pytest.mark.parametrize("name", RIEMANN)
def test_mirrored_sides_have_mirrored_bits(name):
    random = np.random.default_rng(3)
    hl, hr = random.uniform(0.0, 2.0, (2, 200)) * (random.uniform(size=(2, 200)) > 0.2)
    (ul, vl), (ur, vr) = random.normal(size=(2, 2, 200)) * 2.0
    there = RIEMANN[name](hl, (ul, vl), hr, (ur, vr), 9.81)
    back = RIEMANN[name](hr, (-ur, vr), hl, (-ul, vl), 9.81)
    for a, b, sign in zip(there, back, (-1.0, 1.0, -1.0), strict=True):
        np.testing.assert_array_equal(a, sign * b)


def test_a_front_on_dry_ground_runs_twice_as_fast_as_waves():
    assert speeds(4.0, 1.0, 0.0, 0.0, 1.0) == (1.0 - 2.0, 1.0 + 2.0 * 2.0)
    assert speeds(0.0, 0.0, 4.0, -1.0, 1.0) == (-1.0 - 2.0 * 2.0, -1.0 + 2.0)


@pytest.mark.parametrize("name", RIEMANN)
def test_water_faster_than_waves_takes_its_flux_along(name):
    g, hl, ul = 9.81, 0.5, 6.0
    mass, normal, across = RIEMANN[name](hl, (ul, 1.0), 0.4, (5.5, -1.0), g)
    excess = 0.25 * g * (0.4**2 - hl**2)
    if name != "roe":  # whose entropy fix may spread a wave that is near the others
        np.testing.assert_allclose(
            [mass, normal, across], [hl * ul, hl * ul**2 - excess, hl * ul], rtol=1e-13
        )
    assert mass == pytest.approx(hl * ul, rel=2e-2)


def test_roe_keeps_a_standing_jump():
    """Conjugate depths of Belanger: mass and momentum are the same on both sides."""
    g, h1, u1 = 9.81, 0.4, 5.0
    h2 = 0.5 * h1 * (math.sqrt(1.0 + 8.0 * u1**2 / (g * h1)) - 1.0)
    u2 = h1 * u1 / h2
    mass, normal = RIEMANN["roe"](h1, (u1,), h2, (u2,), g)
    assert mass == pytest.approx(h1 * u1, rel=1e-12)
    force = h1 * u1**2 + 0.5 * g * h1**2
    assert normal + 0.25 * g * (h1**2 + h2**2) == pytest.approx(force, rel=1e-12)


@pytest.mark.parametrize("name", RIEMANN)
def test_a_fan_that_straddles_the_dam_is_opened(name, monkeypatch):
    """A row of cells in NumPy, first order; without the entropy fix a jump stays at the dam."""

    def largest_step(riemann):
        n, g, r = 200, 1.0, 0.35
        h, q = np.where(middles(n) < 0.5, 1.0, 0.05), np.zeros(n)
        for _ in range(60):
            u = q / h
            mass, normal = riemann(h[:-1], (u[:-1],), h[1:], (u[1:],), g)
            normal = normal + 0.25 * g * (h[:-1] ** 2 + h[1:] ** 2)
            h[1:-1] -= r * np.diff(mass)
            q[1:-1] -= r * np.diff(normal)
        return abs(np.diff(h))[n // 2 - 3 : n // 2 + 3].max()

    assert largest_step(RIEMANN[name]) < 0.05
    if name == "roe":
        from solvers.shallow_water import riemann

        monkeypatch.setattr(riemann, "_spread", lambda speed, left, right: abs(speed))
        assert largest_step(riemann.roe) > 0.1


# -------------------------------------------------------------------------------------- dam breaks


def test_star_states_are_those_of_the_table():
    rows = dam_breaks()
    assert len(rows) == 11
    for row in rows:
        h, u = row.problem.star
        # The table has ten digits.
        assert h == pytest.approx(row.depth, rel=1e-9)
        assert u == pytest.approx(row.velocity, rel=1e-9)
        assert row.problem.bore == pytest.approx(row.bore, rel=1e-9)


@functools.cache
def broken_dam(right, cells, riemann="hllc", reconstruction="muscl"):
    flow = flow_of(
        (cells,), depth=lambda x: np.where(x < 0.5, 1.0, right), gravity=1.0, riemann=riemann,
        reconstruction=reconstruction,
    )  # fmt: skip
    flow.run(until=0.2)
    return flow


def dam_error(flow, right):
    exact, _ = DamBreak(1.0, right)(middles(*flow.config.cells) - 0.5, 0.2)
    return abs(depth_of(flow) - exact).mean()


@pytest.mark.parametrize(
    ("right", "measured"),
    [
        (0.5, (3.3e-3, 1.6e-3, 8.4e-4)),
        (0.1, (3.7e-3, 1.9e-3, 9.8e-4)),
        (0.0, (3.5e-3, 1.7e-3, 8.5e-4)),
    ],
)  # fmt: skip
def test_dam_break_is_as_accurate_as_a_scheme_of_second_order(right, measured):
    """Gates of the depth, and what another MUSCL-HLL with van Leer's limiter reached."""
    for cells, gate, other in zip((100, 200, 400), (6e-3, 3e-3, 1.6e-3), measured, strict=True):
        error = dam_error(broken_dam(right, cells), right)
        assert error <= gate
        assert error == pytest.approx(other, rel=0.05)
        assert dam_error(broken_dam(right, cells, reconstruction="constant"), right) > gate
    assert depth_of(broken_dam(right, 400)).min() >= 0.0


@pytest.mark.parametrize("right", [0.5, 0.1, 0.0])
def test_roe_is_within_the_gates_too(right):
    for cells, gate in zip((100, 200, 400), (6e-3, 3e-3, 1.6e-3), strict=True):
        flow = broken_dam(right, cells, "roe")
        assert dam_error(flow, right) <= gate
        assert depth_of(flow).min() >= 0.0


@pytest.mark.parametrize("right", [0.5, 0.1])
def test_the_plateau_has_the_star_state(right):
    flow, dam = broken_dam(right, 400), DamBreak(1.0, right)
    h, u = dam.star
    x = (middles(400) - 0.5) / 0.2
    tail = u - math.sqrt(h)
    inside = (x > tail + 0.2 * (dam.bore - tail)) & (x < dam.bore - 0.2 * (dam.bore - tail))
    found_h, found_q = depth_of(flow)[inside], flow.fields["discharge"].gather()[0][inside]
    np.testing.assert_allclose(found_h, h, rtol=3e-3)
    np.testing.assert_allclose(found_q / found_h, u, rtol=3e-3)


def test_the_dry_dam_keeps_its_state_and_the_front_follows():
    flow = broken_dam(0.0, 400)
    h, q = depth_of(flow), flow.fields["discharge"].gather()[0]
    at_dam = slice(199, 201)
    assert h[at_dam].mean() == pytest.approx(4.0 / 9.0, rel=5e-3)
    assert (q[at_dam] / h[at_dam]).mean() == pytest.approx(2.0 / 3.0, rel=5e-3)
    # Water deeper than 1e-4 is there and not beyond: the exact front has come to 0.9.
    assert 0.85 < middles(400)[h > 1e-4].max() < 0.9 + 2.0 / 400


# ------------------------------------------------------------------------------------ lake at rest

LEVEL = 0.1  # whose sum with a bed is rounded
_BED = np.random.default_rng(8).uniform(-1.0, 0.3, 64)
BEDS = {
    "hump": lambda x: -1.0 + 0.6 * np.exp(-40.0 * (x - 0.5) ** 2),
    "island": lambda x: -1.0 + 1.5 * np.exp(-40.0 * (x - 0.5) ** 2),
    "random": lambda x: _BED[(x * 64).astype(int)],
}


@dataclasses.dataclass(frozen=True)
class Unbalanced(ShallowWater):
    """The force of the bed by a central difference, against the pressures on the faces."""

    def rate(self, now, cell):
        h, b = now[0], cell.arrays["bathymetry"]
        flat = dataclasses.replace(cell, arrays={"bathymetry": _Zero(b)})
        rates = ShallowWater.rate(self, now, flat)
        for axis, r in enumerate(cell.reciprocals):
            slope = 0.5 * r * (b.shift(axis, 1) - b.shift(axis, -1))
            rates[1 + axis] = rates[1 + axis] - cell.scalars["g"] * h[...] * slope
        return rates


class _Zero:
    """A flat bed."""

    def __init__(self, like):
        self._like = like

    def shift(self, axis, n):
        return 0.0 * self._like.shift(axis, n)


def other_flow(flow, equation):
    """The same state, advanced by another equation."""
    config, state = flow.config, [flow.fields["depth"], flow.fields["discharge"]]
    return ConservationLaw(
        config, flow.grid, dict(zip(("depth", "discharge"), state, strict=True)), equation,
        courant=config.courant, limit=0.5, integrator=config.integrator,
        arrays=[flow.fields["bathymetry"]], scalars={"g": config.gravity, "thin": flow.thin},
    )  # fmt: skip


@pytest.mark.parametrize("bed", BEDS)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_lake_at_rest_stays_at_rest(bed, dtype, bound):
    flow = flow_of((64,), surface=LEVEL, bathymetry=BEDS[bed], dtype=dtype)
    wave = math.sqrt(9.81 * float(flow.fields["depth"].max()))
    volume = flow.scalars()["volume"]
    flow.run(max_steps=1000)
    assert speed_of(flow) <= bound * wave
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=bound)
    h, b = depth_of(flow), flow.fields["bathymetry"].gather()
    np.testing.assert_allclose((h + b)[h > 0.0], LEVEL, rtol=0.0, atol=bound)
    assert h.min() >= 0.0


def test_a_lake_with_open_sides_stays_at_rest():
    """Also where the bed falls towards them, and where the last cell but one is dry."""
    bed = np.full(16, -1.0)
    bed[1], bed[-2] = -0.1, 0.3
    for open_sides in (("x-", "x+"), ("x+",)):
        flow = flow_of(
            (16,), surface=LEVEL, outflow=open_sides,
            bathymetry=lambda x: bed[(x * 16).astype(int)],
        )  # fmt: skip
        flow.run(max_steps=1000)
        assert speed_of(flow) <= 1e-12 * math.sqrt(9.81 * 1.1)


def test_waves_leave_through_open_sides():
    flow = flow_of(
        (64,), depth=lambda x: 1.0 + 0.1 * np.exp(-200.0 * (x - 0.5) ** 2), gravity=1.0,
        outflow=("x-", "x+"),
    )  # fmt: skip
    flow.run(until=0.4)
    assert abs(depth_of(flow) - 1.0).max() > 0.02
    flow.run(until=1.2)
    assert abs(depth_of(flow) - 1.0).max() < 2e-4


def test_an_unbalanced_scheme_sets_the_lake_in_motion():
    flow = flow_of((64,), surface=LEVEL, bathymetry=BEDS["hump"])
    other_flow(flow, Unbalanced("constant", "van_leer", "hllc")).run(max_steps=50)
    assert speed_of(flow) > 1e-3


# ------------------------------------------------------------------------------------- steady flow


#: Discharge and depth at the end (SWASHES, sections 3.1.3 to 3.1.5), and a bound of the mean error
#: of the depth on 100 cells.
REGIMES = {
    "subcritical": (4.42, 2.0, 5e-4),
    "transcritical": (1.53, None, 6e-4),
    "jump": (0.18, 0.33, 1.8e-3),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_the_exact_flow_over_a_bump_has_its_head_and_momentum(regime):
    discharge, depth, _ = REGIMES[regime]
    exact = SteadyFlow(bump_case.bump, discharge, 10.0, 12.0, depth)
    assert exact.regime == regime
    x = np.linspace(0.0, 25.0, 501)
    h = exact(x)
    head = h + bump_case.bump(x) + discharge**2 / (2.0 * 9.81 * h**2)
    if regime == "jump":
        assert exact.jump == pytest.approx(11.6656, abs=1e-4)
        np.testing.assert_allclose(head[x < exact.jump], exact.crest_head, rtol=1e-12)
        np.testing.assert_allclose(head[x > exact.jump], exact.end_head, rtol=1e-12)
        assert exact.crest_head > exact.end_head
    else:
        np.testing.assert_allclose(head, exact.end_head, rtol=1e-12)
    if regime != "subcritical":
        assert exact(10.0) == pytest.approx(exact.critical, rel=1e-6)


@pytest.mark.parametrize("regime", REGIMES)
def test_flow_over_a_bump_is_steady(regime):
    discharge, depth, bound = REGIMES[regime]
    exact = SteadyFlow(bump_case.bump, discharge, 10.0, 12.0, depth)

    def error(**options):
        flow = flow_of(
            (100,), depth=exact, velocity=(lambda x: discharge / exact(x),),
            bathymetry=bump_case.bump, bounds=((0.0, 25.0),), inflow={"x-": (discharge,)},
            outflow=("x+",), side_depth={} if depth is None else {"x+": depth}, **options,
        )  # fmt: skip
        flow.run(until=20.0)
        q = flow.fields["discharge"].gather()[0]
        assert np.median(abs(q - discharge)) < 0.01 * discharge
        return abs(depth_of(flow) - exact(middles(100, 0.0, 25.0))).mean()

    assert error() < bound
    assert error(**FIRST) > bound


@pytest.mark.slow
@pytest.mark.parametrize("regime", bump_case.REGIMES)
def test_flow_over_a_bump_gets_steady_from_rest(regime):
    found = bump_case.REGIMES[regime]
    flow = ShallowWaterSolver(found.config((100,)))
    flow.run(until=200.0)
    assert abs(depth_of(flow) - found.exact(middles(100, 0.0, 25.0))).mean() < found.gate


def test_a_jump_that_does_not_stand_behind_the_crest_is_refused():
    with pytest.raises(da.SolverError, match=r"lies behind the crest, but the depth 0\.9 at the"):
        _ = SteadyFlow(bump_case.bump, 0.18, 10.0, 12.0, 0.9).jump


def test_flow_down_a_slope_is_as_fast_as_friction_lets_it():
    slope, manning, h = 0.001, 0.03, 1.0
    u = normal_velocity(h, slope, manning)
    assert u == pytest.approx(math.sqrt(0.001) / 0.03)
    flow = flow_of(
        (20,), depth=h, velocity=(0.9 * u,), bathymetry=lambda x: -slope * x,
        bounds=((0.0, 200.0),), inflow={"x-": (h * u,)}, uniform=("x+",), manning=manning,
    )  # fmt: skip
    flow.run(until=1500.0)
    q = flow.fields["discharge"].gather()[0]
    np.testing.assert_allclose(depth_of(flow), h, rtol=2e-3)
    np.testing.assert_allclose(q / depth_of(flow), u, rtol=2e-3)


# ------------------------------------------------------------------------------- oscillating lakes


@functools.cache
def swinging(cells, **options):
    lake = Lake()
    ndim = len(cells)
    flow = flow_of(
        cells, depth=lambda *x: lake.water(0.0, *x), bathymetry=lake.bed,
        velocity=lake.velocity(0.0, ndim), bounds=((-2.0, 2.0),) * ndim, **options,
    )  # fmt: skip
    volume = flow.scalars()["volume"]
    flow.run(until=lake.period)
    x = np.meshgrid(*(middles(n, -2.0, 2.0) for n in cells), indexing="ij")
    error = abs(depth_of(flow) - lake.water(lake.period, *x)).mean()
    assert depth_of(flow).min() >= 0.0
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=1e-12)
    return error


def test_the_lake_in_a_bowl_swings_back():
    lake = Lake()
    assert lake.period == pytest.approx(2.0 * math.pi / math.sqrt(2.0 * 9.81 * 0.1))
    coarse, fine = swinging((50,)), swinging((100,))
    assert coarse < 1.2e-3
    assert fine < 4e-4
    assert math.log2(coarse / fine) > 1.3  # of second order but for the shore
    assert swinging((100,), reconstruction="constant") > 4e-4


# ----------------------------------------------------------------------- order, conservation, bits


@functools.cache
def wave_error(cells, **options):
    wave = SimpleWave(lambda x: 1.0 + 0.2 * np.sin(2.0 * np.pi * x))
    flow = flow_of(
        (cells,), depth=wave.shape, velocity=(lambda x: wave.velocity(wave.shape(x)),),
        gravity=1.0, periodic=True, **options,
    )  # fmt: skip
    flow.run(until=0.2)
    # Cell averages and middles differ in second order alone.
    return abs(depth_of(flow) - wave(middles(cells), 0.2)).mean()


def test_a_smooth_wave_has_order_two():
    errors = [wave_error(n) for n in (50, 100, 200)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert min(orders) > 1.9
    first = [wave_error(n, reconstruction="constant") for n in (50, 100, 200)]
    assert math.log2(first[1] / first[2]) < 1.1
    assert first[2] > 20.0 * errors[2]


def test_nothing_is_lost_in_a_thousand_steps():
    flow = flow_of(
        (64,), depth=lambda x: 1.0 + 0.5 * (abs(x - 0.4) < 0.15), velocity=(0.4,), gravity=1.0,
        periodic=True,
    )  # fmt: skip
    start = flow.scalars()
    flow.run(max_steps=1000)
    end = flow.scalars()
    for name in ("volume", "momentum_x"):
        assert end[name] == pytest.approx(start[name], rel=1e-12)
    assert end["energy"] < start["energy"]  # what shocks turn into heat


states = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0]),
        st.floats(-5.0, 5.0, width=32),
        st.floats(-3.0, 3.0, width=32),
    ),
    min_size=16, max_size=16,
)  # fmt: skip


@functools.cache
def basin(riemann):
    return flow_of((16,), depth=1.0, riemann=riemann, courant=0.5, thin=1e-6)


@pytest.mark.parametrize("riemann", ["hllc", "roe"])
@settings(
    max_examples=40, deadline=None, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(values=states)
def test_depths_are_never_negative(riemann, values):
    flow = basin(riemann)
    h, u, b = (np.array(column, np.float64) for column in zip(*values, strict=True))
    if not h.any():
        return
    flow.fields["depth"][...] = h
    flow.fields["discharge"][...] = (h * u)[None]
    flow.fields["bathymetry"][...] = b
    volume = flow.scalars()["volume"]
    for _ in range(10):
        flow.step(flow.stable_dt())
        assert depth_of(flow).min() >= 0.0
    assert flow.scalars()["volume"] == pytest.approx(volume, rel=1e-12)


@pytest.mark.slow
def test_without_the_limit_of_what_passes_depths_become_negative(monkeypatch):

    @dataclasses.dataclass(frozen=True)
    class Unlimited(ShallowWater):
        """A cell of its own for the cache of kernels."""

    random = np.random.default_rng(1269)
    h = 10.0 ** random.uniform(-6.0, 1.0, 16) * (random.uniform(size=16) > 0.3)
    u = random.uniform(-5.0, 5.0, 16) * 10.0 ** random.uniform(-1.0, 1.0)
    bed = random.uniform(-3.0, 3.0, 16) * 10.0 ** random.uniform(-2.0, 0.0)

    def least(equation):
        flow = flow_of((16,), depth=1.0, courant=0.5, thin=1e-6)
        flow.fields["depth"][...] = h
        flow.fields["discharge"][...] = (h * u)[None]
        flow.fields["bathymetry"][...] = bed
        other = other_flow(flow, equation)
        other.step(other.stable_dt())
        return depth_of(flow).min()

    scheme = ("muscl", "superbee", "roe")
    assert least(ShallowWater(*scheme)) >= 0.0
    monkeypatch.setattr(equations, "_passed", lambda mass, low, high: mass)
    assert least(Unlimited(*scheme)) < -1e-4


def test_velocity_goes_to_zero_with_the_depth():
    assert velocity(0.5, 1.5, 1e-3) == 3.0
    assert velocity(0.0, 0.0, 1e-3) == 0.0
    assert abs(velocity(1e-9, 1e-9, 1e-3)) < 1e-2


def test_thin_water_forgets_momentum_that_its_velocity_does_not_show():
    """Else it would be fast once it gets deeper."""
    h, q = 1e-6, 1e-5
    flow = flow_of((8,), depth=h, velocity=(q / h,), periodic=True, thin=1e-3)
    for _ in range(20):  # a stage of the two of a step forgets all, the other keeps half
        flow.step(1e-3)
    assert abs(flow.fields["discharge"].gather()).max() < 2e-6 * q


# ---------------------------------------------------------------------------------------- friction


@pytest.mark.parametrize(("name", "k"), [("manning", 9.81 * 0.03**2), ("drag", 0.02)])
def test_friction_slows_water_as_its_equation_says(name, k):
    h, u = 0.5, 2.0
    value = 0.03 if name == "manning" else 0.02
    flow = flow_of((8,), depth=h, velocity=(u,), periodic=True, **{name: value})
    flow.run(until=1.0)
    k = k / h ** (7.0 / 3.0) if name == "manning" else k / h**2
    q = flow.fields["discharge"].gather()[0]
    np.testing.assert_allclose(q, h * u / (1.0 + k * h * u), rtol=1e-12)


def test_friction_stops_thin_water():
    def front(manning):
        flow = flow_of(
            (100,), depth=lambda x: (x < 0.3) * (1.0 - 0.2 * x), bathymetry=lambda x: 0.2 * x,
            manning=manning,
        )  # fmt: skip
        flow.run(until=0.1)
        h, q = depth_of(flow), flow.fields["discharge"].gather()[0]
        assert h.min() >= 0.0
        assert q.min() >= 0.0  # nothing is turned around
        return middles(100)[h > 1e-3].max()

    assert front(0.1) < front(0.0) - 0.1
    # Water thinner than what roughness makes sense for, in steps a thousand times too long for it.
    assert front(100.0) < 0.35


def test_a_dam_above_the_least_of_water_breaks_as_above_a_dry_bed():
    thin = DamBreak(1.0, 1e-320)
    assert thin.bore == pytest.approx(2.0, abs=1e-12) == DamBreak(1.0, 0.0).bore
    assert thin.star == pytest.approx((0.0, 2.0), abs=1e-12)
