"""Acoustic waves: differences, modes, point sources, interpolation, what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import distarray as da
from solvers.wave import Ricker, Sampled, Source, WaveConfig, WaveSolver, coefficients, positions
from solvers.wave.exact import frequency, point_source
from tests.wave_tools import rigid, sides, solver

# ---------------------------------------------------------------------------------- differences


@pytest.mark.parametrize("order", coefficients.ORDERS)
def test_differences_are_exact_for_polynomials(order):
    first, second = coefficients.exact_first(order), coefficients.exact_second(order)
    for power in range(order + 1):
        slope = sum(d * (Fraction(k) ** power - Fraction(-k) ** power)
                    for k, d in enumerate(first, start=1))  # fmt: skip
        bend = sum(w * Fraction(k) ** power + w * Fraction(-k) ** power
                   for k, w in enumerate(second[1:], start=1))  # fmt: skip
        bend += second[0] if power == 0 else 0
        assert slope == (power == 1)
        assert bend == (2 if power == 2 else 0)


def test_differences_of_order_8_are_those_of_tables():
    """Fornberg, B. (1988) Math. Comp. 51(184), 699-706."""
    assert coefficients.exact_first(8) == tuple(map(Fraction, ("4/5", "-1/5", "4/105", "-1/280")))
    expected = ("-205/72", "8/5", "-1/5", "8/315", "-1/560")
    assert coefficients.exact_second(8) == tuple(map(Fraction, expected))


@pytest.mark.parametrize("order", coefficients.ORDERS)
def test_the_symbol_is_largest_at_the_shortest_wave(order):
    angles = np.linspace(0.0, np.pi, 200)
    symbols = [coefficients.symbol(order, angle) for angle in angles]
    assert coefficients.largest(order) == pytest.approx(max(symbols), rel=1e-14)
    assert np.all(np.diff(symbols) > 0.0)
    assert symbols[1] == pytest.approx(angles[1] ** 2, rel=1e-4)


# ---------------------------------------------------------------------------------------- modes

MODES = [
    ({"cells": (24, 18), "sides": rigid(2)}, (2, 3)),
    ({"cells": (16,), "sides": sides("free", 1)}, (3,)),
    ({"cells": (12, 10, 9), "periodic": (False, False, True), "sides": rigid(2)}, (1, 2, 1)),
]


def waves(options, numbers):
    """The mode with these numbers of half waves (whole waves along periodic axes)."""
    periodic = options.get("periodic", (False,) * len(numbers))
    k = [np.pi * n * (2 if wraps else 1) for n, wraps in zip(numbers, periodic, strict=True)]
    shape = np.sin if options["sides"].get("x-") == "free" else np.cos
    return k, lambda *x: math.prod(shape(a * b) for a, b in zip(k, x, strict=True))


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize(("options", "numbers"), MODES)
def test_a_standing_mode_has_the_discrete_frequency(options, numbers, order):
    k, mode = waves(options, numbers)
    wave = solver(**options, order=order, velocity=1.3, initial=mode)
    start, dt, steps = wave.fields["p"].gather(), 0.8 * wave.limit, 100
    wave.advance(steps, dt)
    end = wave.fields["p"].gather()

    def deviation(order):
        w = frequency(k, wave.config.spacing, speed=1.3, order=order, dt=dt)
        return abs(end - math.cos(w * steps * dt) * start).max() / abs(start).max()

    assert deviation(order) < 1e-11
    assert deviation(6) > 1e-6


def test_a_moving_start_and_steps_of_other_lengths():
    """From its rate, sin(w t) cos(k x); steps of changing lengths stay close to it."""
    wave = solver(
        cells=(64,), sides=rigid(1), order=8, initial_rate=lambda x: np.pi * np.cos(np.pi * x)
    )
    dt = 0.5 * wave.limit
    wave.advance(40, dt)
    x = wave.grid.coordinates()[0]
    w = frequency([np.pi], wave.config.spacing, speed=1.0, order=8, dt=dt)
    expected = np.sin(40 * w * dt) / np.sin(w * dt) * np.pi * dt
    np.testing.assert_allclose(
        wave.fields["p"].gather(), expected * np.cos(np.pi * x), rtol=0, atol=1e-13
    )
    for _ in range(20):
        wave.step(0.7 * dt)
        wave.step(dt)
    exact = np.sin(np.pi * wave.time) * np.cos(np.pi * x)
    np.testing.assert_allclose(wave.fields["p"].gather(), exact, rtol=0, atol=1e-3)


# -------------------------------------------------------------------------------- point sources


def recorded(config, *, until):
    wave = WaveSolver(config)
    wave.run(until=until)
    return wave.traces.times, wave.traces.values[:, 0]


def places(ndim, offset=(0.1777, 0.1143, 0.07)):
    source = (0.5013, 0.4937, 0.5071)[:ndim]
    return source, tuple(x + d for x, d in zip(source, offset, strict=False))


def snapped(position, n):
    """The centre of the cell that a position lies in."""
    return tuple((math.floor(x * n) + 0.5) / n for x in position)


@pytest.mark.parametrize(("ndim", "n", "interpolation", "order"), [
    (1, 100, "polynomial", 4),
    (2, 100, "polynomial", 8),
    (2, 100, "sinc", 4),
    (2, 100, "linear", 2),
    (3, 60, "polynomial", 4),
])  # fmt: skip
def test_a_point_source_of_20_cells_a_wavelength(ndim, n, interpolation, order):
    source, receiver = places(ndim)
    wavelet, until = Ricker(n / 20), 0.5 if ndim == 3 else 0.8
    options = {
        "cells": (n,) * ndim, "order": order, "interpolation": interpolation, "width": 12,
        "safety": 0.7,
    }  # fmt: skip

    def error(source_at, receiver_at):
        config = WaveConfig(
            **options, sources=(Source(source_at, wavelet),), receivers=(receiver_at,)
        )
        times, found = recorded(config, until=until)
        distance = math.dist(source, receiver)
        exact = point_source(wavelet, times, distance, speed=1.0, ndim=ndim)
        return abs(found - exact).max() / abs(exact).max()

    assert error(source, receiver) < 0.02
    if ndim < 3:  # first order: a source and a receiver in the nearest cells
        assert error(snapped(source, n), snapped(receiver, n)) > 0.1


def response(wavelet, times, distance, ndim, dt):
    """The pressure that leap-frog gives where space is exact: in the spectrum, the Green's function
    at the frequency `(2 / dt) sin(w dt / 2)`.

    1-D `1 / (2 i k) exp(-i k r)`, 2-D `-(i / 4) H0(k r)`, the second Hankel function, c = 1.
    """
    count = 16 * len(times)
    w = 2.0 * np.pi * np.fft.rfftfreq(count, dt)[1:]
    k = 2.0 / dt * np.sin(0.5 * w * dt)
    green = np.exp(-1j * k * distance) / (2j * k) if ndim == 1 else (
        -0.25j * special.hankel2(0, k * distance)
    )  # fmt: skip
    spectrum = np.fft.rfft(wavelet(dt * np.arange(count)))
    spectrum[0], spectrum[1:] = 0.0, spectrum[1:] * green
    return np.fft.irfft(spectrum, count)[: len(times)]


@pytest.mark.parametrize(("order", "grids"), [(2, (60, 90)), (4, (48, 72)), (8, (48, 64))])
def test_a_point_source_converges_with_the_order_of_the_differences(order, grids):
    """In 2-D against the exact answer for the time step, so that only space is left."""
    source, receiver = places(2, (0.137, 0.091))
    wavelet, errors = Ricker(5.0), []
    for n in grids:
        config = WaveConfig(
            cells=(n, n), order=order, sides=rigid(2),
            sources=(Source(source, wavelet),), receivers=(receiver,), safety=0.3,
        )  # fmt: skip
        times, found = recorded(config, until=0.6)
        exact = response(wavelet, times, math.dist(source, receiver), 2, times[1])
        errors.append(np.sqrt(np.mean((found - exact) ** 2)) / abs(exact).max())
    measured = math.log(errors[0] / errors[1]) / math.log(grids[1] / grids[0])
    assert 0.8 * order < measured < 1.2 * order, (measured, errors)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "grids", "safety"), [
    (2, (60, 90, 120), 0.3), (4, (60, 90, 120), 0.05), (8, (60, 80, 100), 0.01),
])  # fmt: skip
def test_a_point_source_converges_in_small_time_steps(order, grids, safety):
    source, receiver = places(2, (0.137, 0.091))
    wavelet, errors = Ricker(6.0), []
    for n in grids:
        config = WaveConfig(
            cells=(n, n), order=order, safety=safety, sides=rigid(2),
            sources=(Source(source, wavelet),), receivers=(receiver,),
        )  # fmt: skip
        times, found = recorded(config, until=0.6)
        exact = point_source(wavelet, times, math.dist(source, receiver), speed=1.0, ndim=2)
        errors.append(np.sqrt(np.mean((found - exact) ** 2)) / abs(exact).max())
    measured = math.log(errors[-2] / errors[-1]) / math.log(grids[-1] / grids[-2])
    assert 0.8 * order < measured < 1.2 * order, (measured, errors)


def test_the_spectrum_of_the_test_agrees_with_the_quadrature():
    times = 1e-3 * np.arange(1000)
    for ndim in (1, 2):
        exact = point_source(Ricker(5.0), times, 0.3, speed=1.0, ndim=ndim)
        found = response(Ricker(5.0), times, 0.3, ndim, 1e-3)
        assert abs(found - exact).max() < 1e-3 * abs(exact).max()


def test_interpolation_is_exact_for_polynomials_and_symmetric():
    for order in (2, 4, 8):
        for part in (0.0, 0.3, 0.5, 0.999):
            weights = positions.weights("polynomial", order, part)
            cells = np.arange(1 - order // 2, order // 2 + 1)
            for power in range(order):
                assert weights @ cells**power == pytest.approx(part**power, abs=1e-11)
    mirrored = positions.weights("polynomial", 8, 0.75)[::-1]
    assert positions.weights("polynomial", 8, 0.25) == mirrored


def test_a_windowed_sinc_represents_waves_of_four_cells():
    """Where the line through two cells leaves 0.3."""

    def error(kind, order):
        found = 0.0
        for part in np.linspace(0.0, 0.95, 20):
            weights = positions.weights(kind, order, part)
            cells = np.arange(1 - len(weights) // 2, len(weights) // 2 + 1)
            for angle in np.linspace(0.05, 0.5 * np.pi, 30):
                wave = weights @ np.exp(1j * angle * cells)
                found = max(found, abs(wave - np.exp(1j * angle * part)))
        return found

    assert error("sinc", 2) < 1.5e-3
    assert error("linear", 2) > 0.2


# ------------------------------------------------------------------------------- what is refused

PLANE = {"cells": (16, 16), "width": 4}
WRONG = [
    ({"cells": (16, 0)}, "cells along one to three axes"),
    ({"cells": 16}, "cells along one to three axes"),
    ({"order": 3}, "'order' is one of 2, 4, 6, 8, 10, 12, 14, 16, received 3"),
    ({"absorber": "pml"}, "'absorber' is one of 'cpml', 'sponge', received 'pml'"),
    ({"interpolation": "cubic"}, "'interpolation' is one of 'polynomial', 'linear', 'sinc'"),
    ({"velocity": -1.0}, "The velocity is above 0 everywhere, its least value is -1.0"),
    ({"velocity": np.zeros((16, 16))}, "The velocity is above 0 everywhere"),
    ({"velocity": np.ones((3, 3))}, "received an array of shape (3, 3)"),
    ({"velocity": lambda x, y: x - 0.5 + 0 * y}, "The velocity is above 0 and finite everywhere"),
    ({"velocity": "fast"}, "'velocity' is a finite number"),
    ({"initial": math.nan}, "'initial' is a finite number"),
    (
        {"initial": lambda x, y: np.where(x > 0.9, np.nan, x * y)},
        "'initial' is finite everywhere, received a function whose values are not in 32 of 256",
    ),
    (
        {"initial_rate": lambda x, y: np.where(x * y < 1e-3, np.inf, 0.0)},
        "'initial_rate' is finite everywhere, received a function whose values are not in 1 of 256",
    ),
    ({"safety": 1.5}, "The safety factor lies in (0, 1], received 1.5"),
    ({"frequency": 0.0}, "The frequency is a number above 0"),
    ({"width": 0}, "'width' is a whole number of at least 1"),
    ({"width": 9}, "The axis x has 16 cells, but needs room for absorbing layers of 18 cells"),
    ({"cells": (16, 3), "sides": rigid(2)}, "needs room for at least 4"),
    ({"sides": {"z-": "free"}}, "This box has the sides x-, x+, y-, y+, received 'z-'"),
    ({"sides": {"x-": "open"}}, "\"sides['x-']\" is"),
    ({"order": 8.0}, "'order' is one of 2, 4, 6, 8, 10, 12, 14, 16, received 8.0"),
    ({"initial": lambda x: x}, "'initial' is called as f(x, y), received"),
    ({"sides": "free"}, "'sides' names sides and what they have"),
    ({"bounds": ((0.0, 1.0), (1.0, 0.0))}, "(low, high) with low < high"),
    ({"bounds": ((0.0, 1.0),)}, "'bounds' has one entry per axis"),
    ({"periodic": (True,)}, "'periodic' has one entry per axis"),
    ({"sources": (Source((0.5, 1.5), Ricker(1.0)),)}, "Source 0 lies at y = 1.5, outside the box"),
    ({"sources": (Source((0.5, 0.5), 3.0),)}, "The wavelet of source 0 is a function"),
    ({"sources": ((0.5, 0.5),)}, "'sources' is a tuple of Source"),
    ({"receivers": ((0.5,),)}, "'position of receiver 0' has one entry per axis"),
    ({"receivers": ((-0.1, 0.5),)}, "Receiver 0 lies at x = -0.1, outside the box"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(options, text):
    with pytest.raises(da.SolverError) as raised:
        solver(**(PLANE | options))
    assert text.replace('"', "'").replace("''", "'") in str(raised.value).replace('"', "'")
    assert "\n" not in str(raised.value)


def test_time_steps_beyond_the_limit_are_refused():
    wave = solver(**PLANE)
    for dt in (1.01 * wave.limit, 0.0, -1.0, math.nan):
        with pytest.raises(da.SolverError, match="lies between 0 and"):
            wave.step(dt)
    with pytest.raises(da.SolverError, match="above 0"):
        Ricker(-1.0)
    for high in ("high", None):
        with pytest.raises(da.SolverError, match="above 0, received"):
            Ricker(high)
    with pytest.raises(da.SolverError, match="delay of a wavelet is a finite number, received"):
        Ricker(1.0, delay="late")
    for samples in ([1.0], [1.0, math.nan], "ab", 3.0, np.ones((2, 2))):
        with pytest.raises(da.SolverError, match="at least two finite samples"):
            Sampled(samples, 0.1)
    with pytest.raises(da.SolverError, match="between samples"):
        Sampled([1.0, 2.0], 0.0)


def test_the_limit_is_that_of_stability():
    """Just below it the shortest wave is bounded, just above (past the check) it grows."""
    for order in (2, 8):
        options = {"cells": (16, 16), "order": order, "periodic": True,
                   "initial": lambda x, y: np.cos(16 * np.pi * (x - 1 / 32)) + 0 * y}  # fmt: skip
        wave = solver(**options)
        dt = 0.999 * wave.limit
        wave.advance(400, dt)
        assert float(abs(wave.fields["p"]).max()) < 30.0


@pytest.mark.parametrize("kind", positions.INTERPOLATIONS)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_cells_around_points_are_all_products_of_those_along_axes(kind, ndim):
    cells = (12, 9, 10)[:ndim]
    grid = da.Grid(cells, periodic=True)
    axes = [
        positions.Axis(n, 0.0, 1.0 / n, periodic, (1.0, -1.0))
        for n, periodic in zip(cells, (False, True, False), strict=False)
    ]
    centre = [(n // 2 + 0.5) / n for n in cells]  # of a cell: one weight, but for rounding
    points = [centre, *np.random.default_rng(2).random((3, ndim)).tolist(), [0.01] * ndim]
    found = positions.Positions(grid, axes, points, kind=kind, order=8)
    owners, shares, centres = [], [], []
    for number, point in enumerate(points):
        along = [axis.around(x, kind, 8) for axis, x in zip(axes, point, strict=True)]
        for corner in itertools.product(*along):
            owners.append(number)
            shares.append(math.prod(weight for _, weight in corner))
            centres.append([(i + 0.5) * a.spacing for a, (i, _) in zip(axes, corner, strict=True)])
    assert found._owners.tolist() == owners
    assert found._shares.tolist() == shares
    assert found._points.positions.tolist() == centres
    none = positions.Positions(grid, axes, [], kind=kind, order=8)
    assert none.sample(grid.ones()).shape == (0,)


@pytest.mark.parametrize("until", [0.3, 3.0])
def test_a_run_that_ends_in_nan_says_so(until):
    """After fewer steps than lie between two measurements, and between one and the next."""
    broken = Source((0.5, 0.5), lambda time: math.nan if time > 0.1 else 1.0)
    wave = solver(cells=(16, 12), sides=rigid(2), sources=[broken], measure_every=20)
    with pytest.raises(da.SolverError, match="no longer finite"):
        wave.run(until=until)
    assert (wave.step_count > wave.config.measure_every) is (until > 1.0)
