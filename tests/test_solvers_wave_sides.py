"""Waves at sides and in layers: reflections, images, energy, reciprocity, symmetry; runs, files and
cases.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import distarray as da
from solvers.case import Options
from solvers.wave import Ricker, Sampled, Source, WaveConfig, WaveSolver
from solvers.wave.cases import CASES
from solvers.wave.exact import point_source
from tests.wave_tools import rigid, solver

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


def visiting(times, until):
    """A wave that ran, and the times of its traces."""
    wave = solver(cells=(32,), sources=(Source((0.5,), Ricker(5.0)),), receivers=((0.6,),), width=8)
    wave.run(until=until, visits=[(time, lambda: None) for time in times])
    return wave, wave.traces.times


def test_visits_on_the_steps_of_a_run_leave_them_of_one_length():
    plain, times = visiting((), 0.37)
    wave, visited = visiting([k * 0.37 / plain.step_count for k in (1, 5, 6)], 0.37)
    assert wave.step_count == plain.step_count
    np.testing.assert_allclose(visited, times, rtol=0, atol=1e-13)


def test_visits_and_ends_are_each_reached_in_steps_of_one_length():
    first = 0.0101
    wave, _ = visiting((first, 0.2), 0.37)
    stable, half = wave.stable_dt(), wave.step_count
    wave.run(until=0.5)
    times = wave.traces.times
    assert wave.time == 0.5
    assert half < wave.step_count
    stretches = ((0.0, first), (first, 0.2), (0.2, 0.37), (0.37, 0.5))
    for low, high in stretches:
        inside = times[(times >= low) & (times <= high)]
        assert (inside[0], inside[-1]) == (low, high)
        steps = math.ceil((high - low) / stable)
        np.testing.assert_allclose(np.diff(inside), (high - low) / steps, rtol=1e-10)


def test_a_restart_between_visits_goes_on_with_the_same_bits(tmp_path):
    """Here steps whose length is found anew from the restart would be rounded otherwise."""
    whole, _ = visiting((0.0173, 0.2), 0.37)
    first, second = (
        solver(cells=(32,), sources=(Source((0.5,), Ricker(5.0)),), receivers=((0.6,),), width=8)
        for _ in range(2)
    )
    visits = [(time, lambda: None) for time in (0.0173, 0.2)]
    first.run(until=0.37, visits=visits, max_steps=5)
    assert 0.0173 < first.time < 0.2
    first.save(tmp_path / "wave.h5")
    second.restore(tmp_path / "wave.h5")
    second.run(until=0.37, visits=visits)
    assert whole.traces.times.tobytes() == second.traces.times.tobytes()
    assert whole.traces.values.tobytes() == second.traces.values.tobytes()


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


def test_traces_of_uneven_times_are_written_as_a_table_alone(tmp_path):
    wave = solver(cells=(32,), receivers=((0.6,),), width=8)
    dt = wave.stable_dt()
    wave.run(until=4 * dt)
    wave.run(until=6.5 * dt)
    wave.save_traces(tmp_path)
    table = np.loadtxt(tmp_path / "traces.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(table[:, 0], wave.traces.times)
    assert not (tmp_path / "traces.h5").exists()


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


@pytest.mark.parametrize(("name", "changes", "rows", "missing"), [
    ("shot", {"until": 0.0}, (), "x = 1140 m, x = 1350 m, x = 1680 m, x = 1830 m"),
    ("shot", {"until": 0.1}, (), "x = 1140 m, x = 1350 m, x = 1680 m, x = 1830 m"),
    ("shot", {"until": 0.24}, ("1350", "1680"), "x = 1140 m, x = 1830 m"),
    ("shot", {"until": 0.3, "number": 0.3}, (), "x = 1140 m, x = 1350 m, x = 1680 m, x = 1830 m"),
    ("wave_source", {"until": 0.25, "number": 9.0}, ("receiver 0",), "receiver 1, receiver 2"),
])  # fmt: skip
def test_a_table_says_where_waves_have_not_come_yet(name, changes, rows, missing, tmp_path, capsys):
    """The wavelet begins with the delay d / c: after 0.245 s at 1140 m, 0.105 s at 1350 m."""
    case = next(case for case in CASES if case.name == name)
    case.run(options_of(case, tmp_path, cells=(60, 30) if name == "shot" else (60, 60), **changes))
    text = capsys.readouterr().out
    assert "nan" not in text
    assert f"Nothing to compare at {missing}: the wave of the source has not come there" in text
    assert ("Against" in text) == bool(rows)
    assert all(f"\n  {'x = ' if name == 'shot' else ''}{row}" in text for row in rows)


@pytest.mark.parametrize(("name", "changes", "text"), [
    ("shot", {"cells": (32,)}, "This case has 2 axes, received --cells 32;"),
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
