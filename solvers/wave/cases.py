"""Named waves of the command line: `wave_mode`, `wave_source`, `shot`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers import running
from solvers.box import field_of
from solvers.case import RUNS, Case, Choice, Options, require_axes
from solvers.comparison import Comparison, Row
from solvers.plot import draw
from solvers.wave import plot
from solvers.wave.coefficients import ORDERS
from solvers.wave.config import ABSORBERS, Source, WaveConfig
from solvers.wave.exact import frequency, point_source
from solvers.wave.positions import INTERPOLATIONS
from solvers.wave.solver import WaveSolver
from solvers.wave.traces import Floats
from solvers.wave.wavelets import Ricker

_ORDER = Choice("order", tuple(map(str, ORDERS)), "8", "order of the differences in space")
_ABSORBER = Choice("absorber", ABSORBERS, "cpml", "layers at the sides")
_INTERPOLATION = Choice("interpolation", INTERPOLATIONS, "polynomial", "between the cells")


# ---- a standing mode


def mode(options: Options) -> WaveConfig:
    """As many half waves along each axis of a rigid unit box as the options say."""
    k = math.pi * options.number
    sides = {f"{axis}{end}": "rigid" for axis in "xyz"[: len(options.cells)] for end in "-+"}
    return WaveConfig(
        cells=options.cells,
        order=int(options.chosen["order"]),
        sides=sides,
        initial=lambda *x: math.prod(np.cos(k * along) for along in x),
    )


def run_mode(options: Options) -> None:
    """Let a mode stand, compare its amplitude and energy with those of the discrete scheme, save
    and draw. Collective.
    """
    if not 0 < options.number < min(options.cells) or options.number != int(options.number):
        raise da.SolverError(
            "A mode has a whole number of half waves, fewer than cells, received "
            f"{options.number:g} for {options.cells} cells; change it."
        )
    until = 1.0 if options.until is None else options.until
    wave = running.begin(WaveSolver(mode(options), device=options.device), options, until)
    running.run(wave, options, until)
    running.finish(
        wave,
        options.output / "wave_mode",
        lambda path: draw(wave.grid, {"p": wave.fields["p"]}, path, title=f"time {wave.time:g}"),
    )
    if wave.step_count:
        running.show(_compare_mode(wave, options.number))


def _compare_mode(wave: WaveSolver, number: float) -> Comparison:
    config = wave.config
    numbers = [math.pi * number] * config.ndim
    w = frequency(
        numbers, config.spacing, speed=1.0, order=config.order, dt=wave.time / wave.step_count
    )
    shape = field_of(wave.grid, config.initial)
    amplitude = float(
        da.dot(wave.fields["p"], shape, reproducible=True) / da.dot(shape, shape, reproducible=True)
    )
    rest = float(abs(wave.fields["p"] - amplitude * shape).max())
    rows = (
        Row("amplitude, discrete frequency", amplitude, math.cos(w * wave.time), 1e-11),
        Row("what is no mode", rest, 0.0, 1e-11),
        Row("angular frequency", w, math.pi * number * math.sqrt(config.ndim)),
    )
    return Comparison("the dispersion relation of the scheme, and the exact frequency", rows)


# ---- a point source


def source(options: Options) -> WaveConfig:
    """A Ricker wavelet near the middle of a unit box, with as many cells a wavelength as the
    options say, and three receivers.
    """
    ndim = len(options.cells)
    place = (0.5013, 0.4937, 0.5071)[:ndim]
    away = ((0.08, 0.03, 0.04), (0.15, -0.1, 0.05), (-0.21, 0.14, -0.1))
    widest = max(1.0 / n for n in options.cells)
    return WaveConfig(
        cells=options.cells,
        order=int(options.chosen["order"]),
        absorber=options.chosen["absorber"],
        interpolation=options.chosen["interpolation"],
        width=min(20, max(1, min(options.cells) // 5)),
        safety=0.7,
        sources=(Source(place, Ricker(1.0 / (options.number * widest))),),
        receivers=tuple(
            tuple(x + d for x, d in zip(place, offset, strict=False)) for offset in away
        ),
    )


def run_source(options: Options) -> None:
    """Record the waves of a point source, compare them with the exact ones, save and draw.
    Collective.
    """
    if not options.number > 0.0:
        raise da.SolverError(
            f"A wavelength has a number of cells above 0, received {options.number:g}; change it."
        )
    until = 1.0 if options.until is None else options.until
    wave = running.begin(WaveSolver(source(options), device=options.device), options, until)
    running.run(wave, options, until)
    wave.save_traces(options.output)
    exact = [_exact(wave, position) for position in wave.traces.positions]
    running.finish(
        wave, options.output / "wave_source", lambda path: plot.traces(wave, exact, path)
    )
    gate = 0.02 if options.number >= 20.0 else None
    rows, missing = [], []
    for number, (position, values) in enumerate(zip(wave.traces.positions, exact, strict=True)):
        distance = math.dist(position, wave.config.sources[0].position)
        if _has_come(wave, wave.traces.times, distance / wave.speed):
            deviation = _deviation(wave, number, values)
            rows.append(Row(f"receiver {number}, largest deviation", deviation, 0.0, gate))
        else:
            missing.append(f"receiver {number}")
    what = "the exact wave of a point source, as a part of its largest pressure"
    _show(what, rows, missing, "later --until")


def _exact(wave: WaveSolver, position: tuple[float, ...]) -> Floats:
    one = wave.config.sources[0]
    distance = math.dist(position, one.position)
    return point_source(
        one.wavelet, wave.traces.times, distance, speed=wave.speed, ndim=wave.config.ndim
    )


def _deviation(wave: WaveSolver, number: int, exact: Floats) -> float:
    """The largest one of a trace from the first values of the exact one, over their largest."""
    found = wave.traces.values[: len(exact), number]
    return float(abs(found - exact).max() / abs(exact).max())


def _has_come(wave: WaveSolver, times: Floats, delay: float) -> bool:
    """Whether a hundredth of the wavelet's peak has come, so that there is something to compare."""
    wavelet: Any = wave.config.sources[0].wavelet
    largest = abs(wavelet(times - delay)).max()
    return bool(largest >= 0.01 * abs(wavelet(wavelet.peak)))


def _show(source: str, rows: Sequence[Row], missing: Sequence[str], cure: str) -> None:
    """Print the table of the receivers that waves have come to, and name the others. Collective."""
    running.show(Comparison(source, tuple(rows)) if rows else None)
    if missing:
        da.log(
            f"Nothing to compare at {', '.join(missing)}: the wave of the source has not come there"
            f" by the end of the comparison; give a {cure}."
        )


# ---- a shot over layers

#: Metres; the depth of the first interface, and the speeds above and below the interfaces.
_WIDE, _DEEP, _FIRST = 3000.0, 1500.0, 500.0
_SPEEDS = (1500.0, 2000.0, 2500.0, 3200.0)
_SOURCE, _DEPTH = (1507.0, 43.0), 23.0


def layers(x: Any, y: Any) -> Any:
    """Speeds in m/s at x and depth y in metres: a flat interface, one that dips, one that bends."""
    dipping = 800.0 + 0.08 * (x - 0.5 * _WIDE)
    bent = 1150.0 - 80.0 * np.exp(-(((x - 1800.0) / 350.0) ** 2))
    found = np.where(y < _FIRST, _SPEEDS[0], _SPEEDS[1])
    found = np.where(y < dipping, found, _SPEEDS[2])
    return np.where(y < bent, found, _SPEEDS[3])


def shot(options: Options) -> WaveConfig:
    """A wavelet of the frequency in the options, in Hz, below a free surface, recorded by receivers
    every 30 m.
    """
    return WaveConfig(
        cells=options.cells,
        bounds=((0.0, _WIDE), (0.0, _DEEP)),
        velocity=layers,
        sides={"y-": "free"},
        order=int(options.chosen["order"]),
        absorber=options.chosen["absorber"],
        interpolation=options.chosen["interpolation"],
        width=min(20, max(1, min(options.cells) // 5)),
        sources=(Source(_SOURCE, Ricker(options.number)),),
        receivers=tuple((30.0 * k, _DEPTH) for k in range(7, 94)),
    )


def run_shot(options: Options) -> None:
    """Record a shot, compare what comes before the first reflection with the exact waves of the
    source and of its image, save and draw. Collective.
    """
    require_axes(options, 2)
    until = 1.5 if options.until is None else options.until
    wave = running.begin(WaveSolver(shot(options), device=options.device), options, until)
    running.run(wave, options, until)
    wave.save_traces(options.output)
    running.finish(wave, options.output / "shot", lambda path: plot.shot_record(wave, path))
    _compare_shot(wave, options.number)


def _compare_shot(wave: WaveSolver, rate: float) -> None:
    """Receivers nearer to the source than the first interface is."""
    cells = _SPEEDS[0] / (rate * max(wave.config.spacing))
    gate = 0.02 if cells >= 15.0 and wave.config.absorber == "cpml" else None
    rows, missing = [], []
    for number in (31, 38, 49, 54):
        x, y = wave.traces.positions[number]
        echo = math.hypot(x - _SOURCE[0], 2.0 * _FIRST - y - _SOURCE[1]) / _SPEEDS[0]
        times = wave.traces.times[wave.traces.times < echo]
        distances = [math.hypot(x - _SOURCE[0], y - depth) for depth in (_SOURCE[1], -_SOURCE[1])]
        if not _has_come(wave, times, distances[0] / _SPEEDS[0]):
            missing.append(f"x = {x:g} m")
            continue
        direct, image = (
            point_source(Ricker(rate), times, distance, speed=_SPEEDS[0], ndim=2)
            for distance in distances
        )
        station = f"x = {x:g} m, until {echo:.3f} s"
        rows.append(Row(station, _deviation(wave, number, direct - image), 0.0, gate))
    what = "the source and its image before any reflection, deviation"
    _show(what, rows, missing, "later --until or a higher --frequency")


CASES = (
    Case(
        "wave_mode",
        "standing acoustic mode, against the dispersion relation of the scheme",
        (64, 64),
        run_mode,
        number=4.0,
        number_name="waves",
        number_help="half waves along each axis",
        reads=RUNS,
        choices=(_ORDER,),
    ),
    Case(
        "wave_source",
        "acoustic point source in open space, against the exact wave",
        (200, 200),
        run_source,
        number=20.0,
        number_name="wavelength",
        number_help="cells in the wavelength of the wavelet's frequency",
        reads=RUNS,
        choices=(_ORDER, _ABSORBER, _INTERPOLATION),
    ),
    Case(
        "shot",
        "shot record of a layered ground below a free surface",
        (300, 150),
        run_shot,
        number=10.0,
        number_name="frequency",
        number_help="of the wavelet, in Hz",
        reads=RUNS,
        choices=(_ORDER, _ABSORBER, _INTERPOLATION),
    ),
)
