"""Acoustic waves: differences, modes, point sources, sides, energy, symmetry, what is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import distarray as da
from solvers.case import Options
from solvers.wave import Ricker, Sampled, Source, WaveConfig, WaveSolver, coefficients, positions
from solvers.wave.cases import CASES
from solvers.wave.exact import frequency, point_source


def sides(kind, ndim):
    return {f"{axis}{end}": kind for axis in "xyz"[:ndim] for end in "-+"}


def rigid(ndim):
    return sides("rigid", ndim)


def solver(**options):
    return WaveSolver(WaveConfig(**options))


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
    """Fornberg, B. (1988) Math. Comp. 51(184), table 1."""
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


# ---------------------------------------------------------------------------------------- sides


def compared(sizes, options, *, until):
    """The traces of the same wave in boxes of these cells, all with spacing 0.02 and around 0."""
    found = []
    for cells in sizes:
        box = tuple((-0.01 * n, 0.01 * n) for n in cells)
        wave = solver(cells=cells, bounds=box, **options)
        for _ in range(round(until / 0.01)):
            wave.step(0.01)
        found.append(wave.traces.values)
    return found


@pytest.mark.parametrize(("ndim", "sponged"), [(1, 0.5), (2, 0.2)])
def test_layers_reflect_little(ndim, sponged):
    """Beside a box so large that nothing comes back, in parts of the largest pressure there."""
    near, far = (0.05, 0.31)[:ndim], (0.37, -0.33)[:ndim]
    options = {
        "sources": (Source((0.0,) * ndim, Ricker(2.5)),),
        "receivers": (near, far),
        "order": 8,
        "width": 16,
    }
    small, large, until = (80,) * ndim, (260,) * ndim, 2.4
    (open_space,) = compared([large], options | {"sides": rigid(ndim)}, until=until)

    def reflected(**kind):
        (found,) = compared([small], options | kind, until=until)
        return abs(found - open_space).max() / abs(open_space).max()

    cpml, sponge = reflected(absorber="cpml"), reflected(absorber="sponge")
    assert cpml < 1e-3
    assert cpml < 0.1 * sponge
    assert sponge < sponged
    assert reflected(sides=rigid(ndim)) > 1.5 * sponge


def test_a_sponge_multiplies_both_times_of_each_step():
    """As Cerjan et al. (1985) write it, in NumPy: a step, then both arrays times the taper."""
    n, width, steps = 24, 6, 15
    wave = solver(
        cells=(n,),
        width=width,
        absorber="sponge",
        order=2,
        sides={"x-": "rigid"},
        initial=lambda x: np.exp(-50.0 * (x - 0.7) ** 2),
    )
    dt, h = wave.stable_dt(), 1.0 / n
    p = wave.fields["p"].gather()
    wave.advance(steps, dt)
    distance = np.clip(np.arange(n) + 0.5 - (n - width), 0.0, None) / width
    taper = np.exp(-((0.3 * distance) ** 2))
    old = taper * p
    for step in range(steps):
        wide = np.concatenate([[p[0]], p, [-p[-1]]])
        bend = (wide[2:] - 2.0 * p + wide[:-2]) / h**2
        weight = 0.5 if step == 0 else 1.0  # from rest
        new = 2.0 * p - old + weight * dt**2 * bend
        old, p = taper * p, taper * new
    np.testing.assert_allclose(wave.fields["p"].gather(), p, rtol=0, atol=1e-13)


@pytest.mark.parametrize("absorber", ["cpml", "sponge"])
def test_layers_stay_stable_at_the_limit_where_the_velocity_jumps(absorber):
    wave = solver(
        cells=(32, 32),
        velocity=lambda x, y: 1.0 + 2.0 * (y > 0.55),
        sides={"y-": "free"},
        absorber=absorber,
        frequency=3.0,
        width=6,
        initial=lambda x, y: np.exp(-80.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2)),
    )
    largest = []
    for _ in range(2):
        wave.advance(600, wave.limit)
        largest.append(float(abs(wave.fields["p"]).max()))
    assert largest[1] < largest[0] < 0.2


def test_a_free_surface_is_the_image_of_the_source():
    """Half a box with a free surface beside a whole one with a source of the other sign."""
    wavelet = Ricker(4.0)
    receivers = ((0.31, 0.011), (0.72, 0.25))
    options = {"order": 8, "interpolation": "sinc"}
    edges = {"x-": "rigid", "x+": "rigid", "y+": "rigid"}
    half = solver(
        cells=(40, 20),
        bounds=((0.0, 1.0), (0.0, 0.5)),
        sides=edges | {"y-": "free"},
        sources=(Source((0.513, 0.033), wavelet),),
        receivers=receivers,
        **options,
    )
    image = Source((0.513, -0.033), lambda t: -wavelet(t))
    whole = solver(
        cells=(40, 40),
        bounds=((0.0, 1.0), (-0.5, 0.5)),
        sides=edges | {"y-": "rigid"},
        sources=(Source((0.513, 0.033), wavelet), image),
        receivers=receivers,
        **options,
    )
    for wave in (half, whole):
        for _ in range(100):
            wave.step(0.01)
    largest = abs(whole.traces.values).max()
    assert abs(half.traces.values - whole.traces.values).max() < 1e-12 * largest


def test_a_free_surface_against_the_exact_image():
    source, receiver, wavelet = (0.5, 0.12), (0.68, 0.09), Ricker(5.0)
    wave = solver(
        cells=(100, 60),
        bounds=((0.0, 1.0), (0.0, 0.6)),
        sides={"y-": "free"},
        sources=(Source(source, wavelet),),
        receivers=(receiver,),
        safety=0.6,
    )
    wave.run(until=0.8)
    times, found = wave.traces.times, wave.traces.values[:, 0]
    direct, image = (
        point_source(wavelet, times, math.dist((x, y), receiver), speed=1.0, ndim=2)
        for x, y in (source, (source[0], -source[1]))
    )
    exact = direct - image
    assert abs(found - exact).max() < 0.02 * abs(exact).max()
    assert abs(found - direct).max() > 0.3 * abs(exact).max()


# ----------------------------------------------------------------------- energy, symmetry, time


def layered(x, y):
    return 1.0 + 0.5 * (y > 0.55) + 0.2 * np.sin(6.0 * x)


@pytest.mark.parametrize("order", [2, 8])
def test_energy_is_conserved_over_1000_steps(order):
    wave = solver(
        cells=(20, 16),
        velocity=layered,
        order=order,
        sides={"x-": "rigid", "x+": "free"} | {"y-": "free", "y+": "rigid"},
        initial=lambda x, y: np.exp(-40.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2)),
        initial_rate=lambda x, y: np.sin(3.0 * x) * y,
    )
    dt = 0.95 * wave.limit
    at_start = wave.energy()
    wave.step(dt)
    first = wave.energy()
    assert first == pytest.approx(at_start, rel=0.1)
    for _ in range(10):
        wave.advance(100, dt)
        assert wave.energy() == pytest.approx(first, rel=1e-12)
    damped = solver(cells=(20, 16), width=4, absorber="sponge", initial=lambda x, y: x * y)
    damped.step(dt)
    before = damped.energy()
    damped.advance(100, dt)
    assert damped.energy() < 0.5 * before


def test_reciprocity_in_a_layered_medium_with_layers():
    """Source and receiver change places, and the trace stays."""
    one, other = (0.31, 0.42), (0.7, 0.613)

    def trace(source, receiver):
        wave = solver(
            cells=(40, 40),
            velocity=layered,
            sides={"y-": "free"},
            width=10,
            order=4,
            sources=(Source(source, Ricker(4.0)),),
            receivers=(receiver,),
        )
        wave.advance(150, 0.9 * wave.limit)
        return wave.traces.values

    there, back = trace(one, other), trace(other, one)
    assert abs(there).max() > 1e-3
    assert abs(there - back).max() < 1e-11 * abs(there).max()


@pytest.mark.parametrize("absorber", ["cpml", "sponge"])
def test_a_symmetric_wave_is_symmetric_to_the_bit(absorber):
    wave = solver(
        cells=(32, 32),
        bounds=((-1.0, 1.0), (-1.0, 1.0)),
        velocity=lambda x, y: 1.0 + 0.2 * (x * x + y * y),
        absorber=absorber,
        width=8,
        sources=(Source((0.0, 0.0), Ricker(1.5)),),
    )
    wave.advance(120, 0.9 * wave.limit)
    p = wave.fields["p"].gather()
    assert abs(p).max() > 1e-4
    assert (p == p[::-1]).all()
    assert (p == p[:, ::-1]).all()
    assert (p == p.T).all()


def test_many_steps_at_once_are_the_bits_of_single_ones():
    options = {"cells": (24, 20), "width": 6, "order": 4, "initial": lambda x, y: np.sin(9 * x * y)}
    single, many = solver(**options), solver(**options)
    dt = single.stable_dt()
    for _ in range(45):
        single.step(dt)
    many.advance(45, dt)
    assert single.time == many.time
    assert single.residual == many.residual
    for name, values in single.fields.items():
        assert values.gather().tobytes() == many.fields[name].gather().tobytes()


def test_an_array_and_a_function_are_the_same_medium():
    options = {"cells": (16, 16), "sides": rigid(2), "order": 2, "initial": lambda x, y: x * y}
    by_function = solver(velocity=layered, **options)
    x, y = by_function.grid.coordinates()
    by_array = solver(velocity=layered(x, y), **options)
    for wave in (by_function, by_array):
        wave.advance(10, by_function.stable_dt())
    assert by_function.fields["p"].gather().tobytes() == by_array.fields["p"].gather().tobytes()


def test_a_file_of_another_medium_is_refused(tmp_path):
    """A large array is compared by a digest, and not written out as text."""
    speeds = np.linspace(1.0, 2.0, 40 * 40).reshape(40, 40)
    options = {"cells": (40, 40), "sides": rigid(2), "order": 2, "initial": lambda x, y: x * y}
    wave = solver(velocity=speeds, **options)
    wave.step(wave.stable_dt())
    wave.save(tmp_path / "wave.h5")
    same = solver(velocity=speeds.copy(), **options)
    same.restore(tmp_path / "wave.h5")
    assert same.step_count == 1
    assert (tmp_path / "wave.h5").stat().st_size < 3 * speeds.nbytes + 20_000
    other = solver(velocity=speeds + 1e-9 * (speeds > 1.9), **options)
    with pytest.raises(da.FileError, match="of another configuration: it has velocity="):
        other.restore(tmp_path / "wave.h5")


def test_a_run_lands_on_its_end_in_steps_of_one_length():
    wave = solver(cells=(32,), sources=(Source((0.5,), Ricker(5.0)),), receivers=((0.6,), (0.3,)),
                  width=8)  # fmt: skip
    wave.run(until=0.37)
    assert wave.time == 0.37
    steps = np.diff(wave.traces.times)
    np.testing.assert_allclose(steps, 0.37 / wave.step_count, rtol=1e-10)
    assert steps[0] <= wave.stable_dt()
    assert wave.traces.values.shape == (wave.step_count + 1, 2)


def test_a_restart_goes_on_with_the_same_bits(tmp_path):
    config = WaveConfig(
        cells=(24, 24), width=6, velocity=layered, order=4,
        sources=(Source((0.4, 0.5), Ricker(3.0)),), receivers=((0.6, 0.33),), measure_every=7,
    )  # fmt: skip
    whole, first, second = WaveSolver(config), WaveSolver(config), WaveSolver(config)
    whole.run(until=0.5, max_steps=30)
    first.run(until=0.5, max_steps=12)
    first.save(tmp_path / "wave.h5")
    second.restore(tmp_path / "wave.h5")
    second.run(until=0.5, max_steps=18)
    assert (whole.time, whole.residual) == (second.time, second.residual)
    assert whole.traces.values.tobytes() == second.traces.values.tobytes()
    assert whole.traces.times.tobytes() == second.traces.times.tobytes()
    for name, values in whole.fields.items():
        assert values.gather().tobytes() == second.fields[name].gather().tobytes()


def test_traces_are_written_as_a_table_and_as_an_array(tmp_path):
    wave = solver(cells=(32,), sources=(Source((0.5,), Ricker(5.0)),), receivers=((0.6,), (0.3,)),
                  width=8)  # fmt: skip
    wave.advance(9, wave.stable_dt())
    wave.save_traces(tmp_path)
    table = np.loadtxt(tmp_path / "traces.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(table[:, 0], wave.traces.times)
    np.testing.assert_array_equal(table[:, 1:], wave.traces.values)
    half = 0.5 * wave.time / 9
    bounds = ((-half, wave.time + half), (-0.5, 1.5))
    record = da.Grid((10, 2), axes=("t", "r"), bounds=bounds)
    saved = da.load(tmp_path / "traces.h5", record)
    np.testing.assert_array_equal(saved.arrays["traces"].gather(), wave.traces.values)
    assert saved.attrs["positions"] == [[0.6], [0.3]]


def test_wavelets():
    ricker, h = Ricker(3.0, amplitude=2.0), 1e-5
    t = np.linspace(0.0, 1.0, 101)
    slope = (ricker.integral(t + h) - ricker.integral(t - h)) / (2 * h)
    np.testing.assert_allclose(slope, ricker(t), atol=1e-7)
    assert ricker(ricker.peak) == 2.0
    assert abs(ricker(0.0)) < 1e-7
    sampled = Sampled(ricker(t), 0.01)
    assert sampled(0.505) == pytest.approx(0.5 * (ricker(0.5) + ricker(0.51)))
    assert (sampled(-0.1), sampled(1.1)) == (0.0, 0.0)


# ------------------------------------------------------------------------------- what is refused

PLANE = {"cells": (16, 16), "width": 4}
WRONG = [
    ({"cells": (16, 0)}, "one to three axes"),
    ({"cells": 16}, "one to three axes"),
    ({"order": 3}, "'order' is one of 2, 4, 6, 8, 10, 12, 14, 16, received 3"),
    ({"absorber": "pml"}, "'absorber' is one of 'cpml', 'sponge', received 'pml'"),
    ({"interpolation": "cubic"}, "'interpolation' is one of 'polynomial', 'linear', 'sinc'"),
    ({"velocity": -1.0}, "The velocity is above 0 everywhere, its least value is -1.0"),
    ({"velocity": np.zeros((16, 16))}, "The velocity is above 0 everywhere"),
    ({"velocity": np.ones((3, 3))}, "received an array of shape (3, 3)"),
    ({"velocity": lambda x, y: x - 0.5 + 0 * y}, "The velocity is above 0 and finite everywhere"),
    ({"velocity": "fast"}, "'velocity' is a finite number"),
    ({"initial": math.nan}, "'initial' is a finite number"),
    ({"safety": 1.5}, "The safety factor lies in (0, 1], received 1.5"),
    ({"frequency": 0.0}, "The frequency is a number above 0"),
    ({"width": 0}, "'width' is a whole number of at least 1"),
    ({"width": 9}, "The axis x has 16 cells, but needs room for absorbing layers of 18 cells"),
    ({"cells": (16, 3), "sides": rigid(2)}, "needs room for at least 4"),
    ({"sides": {"z-": "free"}}, "This box has the sides x-, x+, y-, y+, received 'z-'"),
    ({"sides": {"x-": "open"}}, "\"sides['x-']\" is"),
    ({"sides": "free"}, "'sides' names sides and their kinds"),
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
    with pytest.raises(da.SolverError, match="at least two finite samples"):
        Sampled([1.0], 0.1)
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


# ---------------------------------------------------------------------------------------- cases


def options_of(case, tmp_path, **changes):
    given = {"cells": case.cells, "output": tmp_path / case.name, "number": case.number}
    return Options(**given | {"chosen": case.chosen()} | changes)


SMALL = {
    "wave_mode": {"cells": (16, 12), "until": 0.5},
    "wave_source": {"cells": (60, 60), "until": 0.6},
    "shot": {"cells": (60, 30), "number": 3.0, "until": 0.7},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_compares_draws_and_goes_on_from_a_checkpoint(case, tmp_path, capsys):
    options = options_of(case, tmp_path, every=40, checkpoint=8, **SMALL[case.name])
    case.run(options)
    printed = capsys.readouterr().out
    assert "missed" not in printed
    table = printed.partition("Against")[2]
    folder = options.output
    assert (folder / f"{case.name}.h5").exists()
    assert (folder / f"{case.name}.png").exists()
    assert (folder / "scalars.csv").read_text().startswith("step,time,dt,residual,energy,largest")
    traces = (folder / "traces.csv").read_bytes() if case.name != "wave_mode" else b""
    case.run(replace(options, restart=True))
    again = capsys.readouterr().out
    assert "Restart from step" in again
    assert again.partition("Against")[2] == table
    if traces:
        assert (folder / "traces.csv").read_bytes() == traces


def test_the_table_of_a_mode_shows_the_discrete_frequency(tmp_path, capsys):
    case = next(case for case in CASES if case.name == "wave_mode")
    case.run(options_of(case, tmp_path, cells=(16,), number=3.0, until=1.0))
    text = capsys.readouterr().out
    assert "9.42477" in text  # 3 pi, the exact frequency
    with pytest.raises(da.SolverError, match="whole number of half waves"):
        case.run(options_of(case, tmp_path, cells=(16,), number=16.0))


@pytest.mark.parametrize(("name", "changes", "text"), [
    ("shot", {"cells": (32,)}, "A shot has two axes"),
    ("shot", {"cells": (60, 30), "number": -1.0}, "frequency of a wavelet is above 0"),
    ("wave_source", {"number": 0.0}, "number of cells above 0"),
])  # fmt: skip
def test_a_case_refuses_what_it_cannot_run(name, changes, text, tmp_path):
    case = next(case for case in CASES if case.name == name)
    with pytest.raises(da.SolverError, match=text):
        case.run(options_of(case, tmp_path, **changes))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_as_it_is_run_by_default(case, tmp_path, capsys):
    case.run(options_of(case, tmp_path))
    printed = capsys.readouterr().out
    print(printed)
    assert "Against" in printed
    assert "missed" not in printed
