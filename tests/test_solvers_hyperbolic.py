"""Limiters, reconstructions, Riemann solvers, integrators, and the steps of conservation laws."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from solvers.burgers import BurgersConfig, BurgersSolver
from solvers.hyperbolic import (
    INTEGRATORS,
    LIMITERS,
    RECONSTRUCTIONS,
    ConservationLaw,
    Equation,
    integrator,
    reconstruction,
    total,
)
from solvers.hyperbolic.reconstruction import muscl
from solvers.hyperbolic.riemann import hll, rusanov
from solvers.hyperbolic.stability import LIMITS, courant_limit

# ---------------------------------------------------------------------------------- limiters

#: Sweby's form of each limiter, as the papers have it: phi(r), slope = phi(a / b) b.
PHI = {
    "minmod": lambda r: max(0.0, min(1.0, r)),
    "van_leer": lambda r: (r + abs(r)) / (1.0 + abs(r)),
    "mc": lambda r: max(0.0, min(2.0 * r, 0.5 * (1.0 + r), 2.0)),
    "superbee": lambda r: max(0.0, min(2.0 * r, 1.0), min(r, 2.0)),
    "central": lambda r: 0.5 * (1.0 + r),
}


@pytest.mark.parametrize("name", LIMITERS)
def test_limiters_are_those_of_the_papers(name):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 500))
    expected = [PHI[name](r) * y for r, y in zip(a / b, b, strict=True)]
    np.testing.assert_allclose(LIMITERS[name](a, b), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", LIMITERS)
def test_limiters_are_symmetric_and_odd_to_the_bit(name):
    a, b = np.random.default_rng(2).standard_normal((2, 500))
    f = LIMITERS[name]
    assert (f(a, b) == f(b, a)).all()
    assert (f(-a, -b) == -f(a, b)).all()


@pytest.mark.parametrize("name", LIMITERS)
def test_limiters_of_nothing_are_nothing(name):
    zero = np.zeros(1)
    assert LIMITERS[name](zero, zero) == 0.0


# ---------------------------------------------------------------------------- reconstructions


def faces_of_sine(name, n):
    """Errors of face values of sin(2 pi x) from its exact averages over n cells."""
    x = np.arange(n + 1) / n
    averages = -np.diff(np.cos(2 * np.pi * x)) * n / (2 * np.pi)
    sides = reconstruction(name, "central").faces(lambda k: np.roll(averages, -k))
    return [abs(side - np.sin(2 * np.pi * x[:-1])).mean() for side in sides]


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_face_values_are_of_the_order_that_is_said(name):
    errors = np.array([faces_of_sine(name, n) for n in (40, 80)])
    order = reconstruction(name).order
    assert np.log2(errors[0] / errors[1]) == pytest.approx([order, order], abs=0.1)


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
@pytest.mark.parametrize("limiter", ["minmod", "mc"])
def test_mirrored_cells_have_mirrored_faces_to_the_bit(name, limiter):
    q = np.random.default_rng(3).standard_normal(40)
    faces = reconstruction(name, limiter).faces
    left, right = faces(lambda k: np.roll(q, -k))
    other_left, other_right = faces(lambda k: np.roll(q[::-1], -k))
    assert (np.roll(other_left[::-1], 1) == right).all()
    assert (np.roll(other_right[::-1], 1) == left).all()


@pytest.mark.parametrize("name", ["weno5", "weno_z"])
def test_weno_does_not_look_across_a_jump(name):
    cells = np.where(np.arange(40) < 20, 1.0, 3.0)
    sides = reconstruction(name).faces(lambda k: np.roll(cells, -k))
    plain = reconstruction("upwind5").faces(lambda k: np.roll(cells, -k))
    for side, other in zip(sides, plain, strict=True):
        assert side.min() > 1.0 - 1e-5
        assert side.max() < 3.0 + 1e-5
        assert other.max() > 3.05  # the polynomial that it is made of does


@pytest.mark.parametrize("name", ["weno5", "weno_z"])
@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e9])
def test_weno_is_finite_in_single_precision(name, scale):
    cells = (scale * np.random.default_rng(4).standard_normal(60)).astype(np.float32)
    cells[20:40] = 0.0
    for side in reconstruction(name).faces(lambda k: np.roll(cells, -k)):
        assert side.dtype == np.float32
        assert np.isfinite(side).all()


def test_unknown_names_are_refused_with_those_that_are_known():
    with pytest.raises(da.SolverError, match=r"'weno7' is unknown; use one of constant, .*weno_z"):
        reconstruction("weno7")
    with pytest.raises(da.SolverError, match=r"'koren' is unknown; use one of minmod, .*central"):
        reconstruction("muscl", "koren")
    with pytest.raises(da.SolverError, match=r"'rk4' is unknown; use one of euler, .*ssp_rk3"):
        integrator("rk4")


# --------------------------------------------------------------------------- Riemann solvers


def burgers_states():
    left, right = np.random.default_rng(5).standard_normal((2, 300))
    slow, fast = np.minimum(left, right), np.maximum(left, right)
    return left, right, 0.5 * left**2, 0.5 * right**2, slow, fast


def test_fluxes_of_equal_states_are_the_flux():
    u = np.random.default_rng(6).standard_normal(50)
    f = 0.5 * u**2
    np.testing.assert_array_equal(rusanov([u], [u], [f], [f], abs(u))[0], f)
    (found,) = hll([u], [u], [f], [f], u - 1.0, u + 1.0)
    np.testing.assert_allclose(found, f, rtol=1e-14, atol=1e-15)


def test_hll_takes_the_upwind_flux_where_all_signals_go_one_way():
    left, right, fl, fr, slow, fast = burgers_states()
    (flux,) = hll([left], [right], [fl], [fr], slow, fast)
    assert (flux[slow >= 0] == fl[slow >= 0]).all()
    assert (flux[fast <= 0] == fr[fast <= 0]).all()
    between = (slow < 0) & (fast > 0)
    s, f = slow[between], fast[between]
    # Balance over the fan [s, f]: the state between carries what the fluxes bring.
    middle = (f * right[between] - s * left[between] - fr[between] + fl[between]) / (f - s)
    np.testing.assert_allclose(
        flux[between], fl[between] + s * (middle - left[between]), atol=1e-13
    )


def test_mirrored_states_have_mirrored_fluxes_to_the_bit():
    left, right, fl, fr, slow, fast = burgers_states()
    # u -> -u, x -> -x: the flux of u^2 / 2 stays what it is.
    (flux,) = hll([left], [right], [fl], [fr], slow, fast)
    (other,) = hll([-right], [-left], [fr], [fl], -fast, -slow)
    assert (flux == other).all()
    speed = np.maximum(abs(left), abs(right))
    (flux,) = rusanov([left], [right], [fl], [fr], speed)
    (other,) = rusanov([-right], [-left], [fr], [fl], speed)
    assert (flux == other).all()


# ------------------------------------------------------------------------------- integrators


def march(name, steps):
    """The error at time 1 of the solution of dy/dt = -y^2, y(0) = 1, which is 1 / 2 there."""
    y, dt = 1.0, 1.0 / steps
    for _ in range(steps):
        start = y
        for stage in integrator(name).stages:
            y = stage.keep * start + (1.0 - stage.keep) * (y - dt * y * y)
    return abs(y - 0.5)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_integrators_are_of_their_order(name):
    assert math.log2(march(name, 40) / march(name, 80)) == pytest.approx(
        integrator(name).order, abs=0.1
    )


@pytest.mark.parametrize("name", INTEGRATORS)
def test_stages_know_when_they_hold(name):
    # y' = t is integrated exactly from the times of the stages, by schemes of order 2 at least.
    y, dt = 0.0, 0.5
    for stage in integrator(name).stages:
        y = (1.0 - stage.keep) * (y + dt * stage.time * dt)
    assert y == pytest.approx(0.0 if name == "euler" else 0.125, abs=1e-15)


def amplification(scheme, name, courant):
    """The largest |amplification| of a wave on one axis, in one time step."""
    k = np.linspace(0.0, np.pi, 4001)
    face = reconstruction(scheme, "central").faces(lambda n: np.exp(1j * k * n))[0]
    z = courant * face * (1.0 - np.exp(1j * k))
    y = np.ones_like(z)
    for stage in integrator(name).stages:
        y = stage.keep + (1.0 - stage.keep) * y * (1.0 + z)
    return abs(y).max()


LINEAR = [
    (name, scheme)
    for name, limits in LIMITS.items()
    for scheme in limits
    if not scheme.startswith("weno") and (name, scheme) != ("euler", "muscl")
]


@pytest.mark.parametrize(("name", "scheme"), LINEAR)
def test_waves_do_not_grow_up_to_the_limit(name, scheme):
    limit = courant_limit(scheme, "mc", name)
    assert amplification(scheme, name, limit) < 1.0 + 1e-9
    assert amplification(scheme, name, 1.25 * limit) > 1.0 + 1e-9


def test_a_pair_that_is_never_stable_is_refused():
    assert amplification("upwind5", "euler", 0.05) > 1.0 + 1e-5  # which it is made of
    with pytest.raises(da.SolverError, match="weno5 is unstable with the integrator euler"):
        courant_limit("weno5", "mc", "euler")
    assert amplification("muscl", "euler", 0.05) > 1.0 + 1e-5  # without a limiter
    with pytest.raises(da.SolverError, match="muscl is unstable with the integrator euler"):
        courant_limit("muscl", "central", "euler")
    assert courant_limit("muscl", "mc", "euler") == 0.5


# ------------------------------------------------------------------------------- conservation laws


@dataclasses.dataclass(frozen=True)
class Growth(Equation):
    """u' = growth u, with the signal speed u."""

    scalars = ("growth",)

    def rate(self, now, cell):
        return [cell.scalars["growth"] * u[...] for u in now]

    def speed(self, values, cell):
        return np.maximum(abs(values[0]), abs(values[1])) * cell.reciprocals[0]


@dataclasses.dataclass(frozen=True)
class Nothing:
    """A configuration without anything."""


def growing(growth, integrator="euler", courant=0.5):
    """Two components on four cells of width 1, whose speed is that of the second, at first 1."""
    grid = da.Grid((4,), bounds=[(0.0, 4.0)], periodic=True)
    u = grid.zeros(components=(2,))
    u[...] = np.outer([0.5, 1.0], [0.25, 1.0, 0.5, 0.5])
    return ConservationLaw(
        Nothing(), grid, {"u": u}, Growth(), courant=courant, integrator=integrator,
        scalars={"growth": growth},
    )  # fmt: skip


@pytest.mark.parametrize("growth", [-0.2, 0.1, 1.5])
def test_time_steps_follow_the_speed(growth):
    law = growing(growth)
    law.run(max_steps=12)
    # As described: the step that the speed before allows, unless it is off by a tenth.
    u, before, time, taken_back = 1.0, 1.0, 0.0, 0
    for _ in range(12):
        dt = 0.5 / before
        if dt * abs(u) > 1.1 * 0.5:
            dt, taken_back = 0.5 / abs(u), taken_back + 1
        before, u, time = abs(u), u + dt * growth * u, time + dt
    assert law.time == pytest.approx(time, rel=1e-13)
    assert law.fields["u"].gather()[1, 1] == pytest.approx(u, rel=1e-13)
    assert (taken_back > 2) == (growth == 1.5)


class Watched:
    """A pending value that notes when it is read."""

    def __init__(self, value, events):
        self.value, self.events = value, events

    def __float__(self):
        self.events.append("read")
        return float(self.value)


def test_a_step_waits_for_one_message_and_only_behind_its_first_stage():
    law = growing(0.1, "ssp_rk3")
    law.run(max_steps=1)
    events, stage = [], law._stage

    def watched(*arrays, **scalars):
        events.append("stage")
        found = stage(*arrays, **scalars)
        return found if found is None else tuple(Watched(value, events) for value in found)

    law._stage = watched
    law.run(max_steps=1)
    # The first read was of the step before, whose values are not watched.
    assert events == ["stage"] * 3 + ["read"] * 2  # the end of a run checks the state
    del events[:]
    law.run(max_steps=4)
    assert events[:4] == ["stage"] + ["read"] * 2 + ["stage"]
    # Speed and change travel in one message: the second read does not wait.
    assert events[3:-2] == (["stage"] * 3 + ["read"] * 2) * 3 + ["stage"] * 2


def test_the_last_step_lands_on_the_end():
    law = growing(0.1)
    law.run(until=1.25)
    assert law.time == 1.25


def test_a_run_that_would_never_end_is_refused(monkeypatch):
    law = growing(0.1)
    monkeypatch.setattr(law, "stable_dt", lambda: 1e-300)
    with pytest.raises(da.SolverError, match=r"fewer than 10\^15 steps, received dt=1e-300"):
        law.run(until=1.25)


def test_a_step_beyond_the_limit_is_refused_and_changes_nothing():
    law = growing(0.1)
    before = law.fields["u"].gather()
    with pytest.raises(
        da.SolverError,
        match=r"at most the Courant number 1, received dt=2 with 2 .* use at most dt=1\.$",
    ):
        law.step(2.0)
    assert (law.fields["u"].gather() == before).all()
    assert (law.step_count, law.time) == (0, 0.0)
    law.step(1.0)
    assert law.time == 1.0
    for dt in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(da.SolverError, match="finite and above 0"):
            law.step(dt)


def test_a_state_that_is_not_finite_is_refused():
    law = growing(1e200, courant=0.9)
    with pytest.raises(da.SolverError, match="no longer finite at step"):
        law.run(max_steps=3)


def test_a_state_in_which_nothing_moves_needs_a_time_step():
    law = growing(1.0)
    law.fields["u"].fill(0.0)
    with pytest.raises(da.SolverError, match="nothing moves has no time step"):
        law.stable_dt()
    law.step(0.5)
    assert law.time == 0.5


@pytest.mark.parametrize("courant", [0.0, -0.5, 1.5, math.nan])
def test_courant_numbers_beyond_the_limit_are_refused(courant):
    with pytest.raises(da.SolverError, match=f"above 0 and at most 1, received courant={courant}"):
        growing(0.1, courant=courant)


def test_stretched_axes_are_refused():
    grid = da.Grid((4,), coordinates={"x": [0.0, 0.1, 0.3, 0.6, 1.0]})
    with pytest.raises(da.SolverError, match="uniform axes, received stretched x"):
        ConservationLaw(Nothing(), grid, {"u": grid.zeros(components=(2,))}, Growth(), courant=0.5)


def waves(**options):
    chosen = {"cells": (64,), "initial": (lambda x: 0.5 + np.sin(2 * np.pi * x),), **options}
    return BurgersSolver(BurgersConfig(**chosen))


def test_what_is_conserved_stays_to_round_off_for_a_thousand_steps():
    law = waves()
    before = law.totals()["u"]
    assert before == pytest.approx(0.5, rel=1e-14)
    law.run(max_steps=1000)
    assert law.fields["u"].max() < 1.0  # there has been a shock
    assert abs(law.totals()["u"] - before) < 1e-12 * before
    assert law.scalars() == {"total_u": law.totals()["u"]}


@pytest.mark.parametrize("name", ["euler", "ssp_rk2", "ssp_rk3"])
def test_a_uniform_state_keeps_its_bits(name):
    law = waves(initial=(0.1,), scheme="constant", integrator=name)
    law.run(max_steps=20)
    assert (law.fields["u"].gather() == 0.1).all()


@pytest.mark.parametrize("name", ["ssp_rk2", "ssp_rk3"])
def test_a_state_at_rest_keeps_its_bits(name):
    law = growing(0.0, name)
    values = np.random.default_rng(8).random((2, 4))
    law.fields["u"][...] = values
    law.stable_dt()
    law.run(max_steps=5)
    assert (law.fields["u"].gather() == values).all()


def test_an_odd_state_stays_odd_to_the_bit():
    law = waves()
    with law.fields["u"].writing() as block:
        half = np.random.default_rng(7).standard_normal(32)
        block[...] = np.concatenate([half, -half[::-1]])
    law.stable_dt()
    law.run(max_steps=50)
    u = law.fields["u"].gather()
    assert (u == -u[::-1]).all()


def test_fields_are_the_same_arrays_for_life_and_single_precision_stays_so():
    law = waves(dtype="float32", scheme="constant", integrator="euler")
    u = law.fields["u"]
    law.run(max_steps=3)
    assert law.fields["u"] is u
    assert u.dtype == np.float32


def test_every_slope_is_computed_once_for_both_faces_of_its_cell():
    asked = []

    def limiter(a, b):
        asked.append((a, b))
        return 0.5 * (a + b)

    cells = {k: float(k * k) for k in range(-3, 3)}
    muscl(limiter)(cells.__getitem__)
    assert asked == [(-3.0, -1.0), (-1.0, 1.0)]  # of the cells -1 and 0


# -------------------------------------------------------------------------------------- sums


@given(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3))
def test_a_sum_over_axes_has_the_same_bits_in_any_order(values):
    found = total(values)
    assert found == pytest.approx(math.fsum(values), rel=1e-13, abs=1e-6)
    for other in itertools.permutations(values):
        assert total(other) == found
        assert total([-value for value in other]) == -found
    assert total(values[:2]) == values[0] + values[1]
