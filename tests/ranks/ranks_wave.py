"""Waves, with sources, receivers, layers and free surfaces, have the same bits on any number of
ranks and any process grid.
"""

import functools
import signal
import types

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from distarray import spans
from solvers import base
from solvers.wave import Ricker, Source, WaveConfig, WaveSolver
from tests.ranks.common import from_root
from tests.ranks.flow_states import process_grids

RANKS = (1, 2, 3, 4, 8)
SELDOM = (1, 2, 4, 8)
TIMEOUT = 240

SHOT = {
    "cells": (33, 26),
    "bounds": ((0.0, 3.3), (0.0, 2.6)),
    "velocity": lambda x, y: 1.0 + 0.5 * (y > 1.3) + 0.1 * np.sin(3.0 * x),
    "sides": {"y-": "free"},
    "width": 7,
    "order": 4,
    "sources": (Source((1.63, 0.13), Ricker(0.8)), Source((0.4, 2.0), lambda t: t * np.exp(-t))),
    "receivers": ((1.1, 0.07), (2.51, 1.9), (0.02, 0.01), (1.65, 0.15)),
    "measure_every": 5,
}
SPONGE = {
    "cells": (19, 18),
    "periodic": (True, False),
    "absorber": "sponge",
    "width": 5,
    "order": 2,
    "initial": lambda x, y: np.exp(-30.0 * ((x - 0.3) ** 2 + (y - 0.4) ** 2)),
    "initial_rate": lambda x, y: x * y,
    "measure_every": 5,
}
BOX = {
    "cells": (12, 13, 16),
    "sides": {"x-": "rigid", "x+": "rigid", "y-": "free"},
    "width": 6,
    "order": 4,
    "interpolation": "sinc",
    "sources": (Source((0.51, 0.22, 0.47), Ricker(2.0)),),
    "receivers": ((0.3, 0.4, 0.5),),
    "measure_every": 3,
}


def state(options, steps, comm=MPI.COMM_WORLD, **more):
    """Bytes of all fields and traces, and the numbers of a run."""
    wave = WaveSolver(WaveConfig(**options | more), comm=comm)
    wave.run(max_steps=steps)
    fields = {name: u.gather().tobytes() for name, u in wave.fields.items()}
    numbers = wave.time, wave.residual, wave.scalars(), wave.stable_dt()
    return fields, numbers, wave.traces.times.tobytes(), wave.traces.values.tobytes()


def compare(options, steps):
    alone = from_root(lambda: state(options, steps, MPI.COMM_SELF))
    assert state(options, steps) == alone
    for ranks in process_grids(WaveConfig(**options)):
        assert state(options, steps, ranks=ranks) == alone, ranks


def test_a_shot_has_the_same_bits():
    compare(SHOT, 40)


def test_a_sponge_has_the_same_bits():
    compare(SPONGE, 20)


def test_three_axes_have_the_same_bits():
    compare(BOX, 10)


def advanced(options, counts, tile, **more):
    """Bytes of all fields and traces after calls of `advance`, each by so many steps, and how many
    tiles there were.
    """
    iterate = da.iterate
    da.iterate = functools.partial(iterate, tile=tile)
    try:
        wave = WaveSolver(WaveConfig(**options | more))
        dt = wave.stable_dt()
        with spans.record() as found:
            for count in counts:
                wave.advance(count, dt)
    finally:
        da.iterate = iterate
    fields = {name: u.gather().tobytes() for name, u in wave.fields.items()}
    traces = wave.traces.times.tobytes(), wave.traces.values.tobytes()
    return (fields, traces, wave.time), len(found.named("tile"))


def test_many_steps_have_the_bits_of_single_ones_with_sources_and_receivers():
    for options, more, steps in (
        (SHOT, {"measure_every": 30}, 31),
        (SHOT, {"measure_every": 12, "absorber": "sponge", "interpolation": "linear"}, 23),
        (SPONGE, {"measure_every": 40, "receivers": ((0.99, 0.5), (0.2, 0.01))}, 31),
        (SPONGE, {"measure_every": 40, "sources": (Source((0.01, 0.5), Ricker(2.0)),)}, 31),
        (BOX, {"measure_every": 40}, 13),
    ):
        size = MPI.COMM_WORLD.Get_size()
        few = {"cells": (70, 50)} if len(options["cells"]) == 2 else {"cells": (36, 13, 16)}
        few |= {"ranks": (size,) + (1,) * (len(few["cells"]) - 1)} if size < 4 else {}
        expected, none = advanced(options, [1] * steps, 1, **more | few)
        found, tiles = advanced(options, [steps], 2, **more | few)
        assert none == 0
        assert tiles > 0 or size > 4  # blocks of many ranks are narrow
        assert found == expected


# ------------------------------------------------------------------------- several steps of a run

#: In tiles of two steps, where there is room for them: on up to three ranks.
LONG = SHOT | {"cells": (70, 50), "measure_every": 96}


class Counted:
    """A wave that is run by single steps or as runs do it, in tiles, and how many of its steps were
    made at once.
    """

    def __init__(self, *, single, **more):
        size = MPI.COMM_WORLD.Get_size()
        ranks = {"ranks": (size, 1)} if size < 4 else {}
        self.wave = wave = WaveSolver(WaveConfig(**LONG | ranks | more))
        self.counts = []
        make = wave._make
        if single:
            wave._at_once = lambda: 1

        def counted(steps, dt):
            self.counts.append(steps)
            make(steps, dt)

        wave._make = counted

    def run(self, *args, **options):
        iterate = da.iterate
        da.iterate = functools.partial(iterate, tile=2)
        try:
            with spans.record() as found:
                self.wave.run(*args, **options)
        finally:
            da.iterate = iterate
        return len(found.named("tile"))

    def state(self):
        wave = self.wave
        fields = {name: u.gather().tobytes() for name, u in wave.fields.items()}
        traces = wave.traces.times.tobytes(), wave.traces.values.tobytes()
        return fields, traces, wave.time, wave.step_count, wave.residual, wave._attributes()


def both(actions, **more):
    """See that `actions` give the same with single steps and with several; the numbers of these."""
    single, several = Counted(single=True, **more), Counted(single=False, **more)
    expected, found = actions(single), actions(several)
    assert single.counts == []
    assert found == expected
    assert several.state() == single.state()
    return several.counts


def test_runs_to_an_end_have_the_bits_of_single_steps():
    tiles = []

    def run(counted):
        tiles.append(counted.run(until=2.1))
        tiles.append(counted.run(until=4.3))

    counts = both(run)
    assert tiles[:2] == [0, 0]
    assert max(counts) >= 48
    if MPI.COMM_WORLD.Get_size() < 4:
        assert min(tiles[2:]) > 0


def test_runs_stop_at_what_is_between_steps():
    """Visits, a last step, measurements and a steady state come when they come to single steps."""

    def run(counted):
        wave, seen = counted.wave, []

        def look():
            seen.append(
                (wave.step_count, wave.time, wave.residual, wave.fields["p"].gather()[3, 4])
            )

        visits = [(1.234567, look), (1.3, look), (1.301, look), (9.0, look)]
        counted.run(until=9.0, max_steps=141, visits=visits, every=123, callback=look)
        counted.run(steady=0.9 * wave.residual, max_steps=500)
        look()
        return seen

    counts = both(run, measure_every=53)
    assert max(counts) >= 48
    assert len(set(counts)) > 3


def test_runs_write_the_bits_of_single_steps(folder):
    """Tables, outputs and checkpoints, at odd intervals."""

    def run(counted):
        output = folder / f"by-{counted.wave._at_once()}"
        with da.Checkpointer(output / "checkpoints", every=59, keep=3) as checkpoints:
            counted.run(until=4.3, output=output, every=113, checkpoints=checkpoints)
        found = {}
        for path in sorted(output.rglob("*.h5")):
            saved = da.load(path, counted.wave.grid)
            arrays = {name: u.gather().tobytes() for name, u in saved.arrays.items()}
            found[path.name] = arrays, saved.step, saved.time, saved.attrs
        return found, (output / "scalars.csv").read_bytes()

    counts = both(run)
    assert 48 <= max(counts) <= 59


def test_a_signal_interrupts_steps_of_a_run_and_it_goes_on(folder):
    """Exit code 75, and the bits of a run that was never stopped."""
    whole, first, second = (Counted(single=single) for single in (True, False, False))
    whole.run(until=5.5, every=100)
    own = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}

    def send():
        if MPI.COMM_WORLD.Get_rank() == MPI.COMM_WORLD.Get_size() - 1:
            signal.raise_signal(signal.SIGUSR1)

    try:
        with pytest.raises(SystemExit) as left, da.Checkpointer(folder, every=999) as checkpoints:
            first.run(until=5.5, every=100, callback=send, checkpoints=checkpoints)
    finally:
        for number, handler in own.items():  # ignored by a program that leaves
            signal.signal(number, handler)
    assert left.value.code == 75
    assert first.wave.step_count == 192 < whole.wave.step_count
    assert max(first.counts) >= 48
    with da.Checkpointer(folder, every=999) as checkpoints:
        assert second.wave.resume(checkpoints)
        assert second.wave.step_count == 192
        second.run(until=5.5, every=100, checkpoints=checkpoints)
    assert max(second.counts) >= 48
    assert second.state() == whole.state()


def test_slow_steps_are_made_a_few_at_a_time_on_all_ranks():
    """Where the last rank alone is slow: 3 s a step, so three in 10 s."""
    slow = MPI.COMM_WORLD.Get_rank() == MPI.COMM_WORLD.Get_size() - 1
    whole, found = Counted(single=True), Counted(single=False)
    watch = types.SimpleNamespace(
        perf_counter=lambda: (3.0 if slow else 0.001) * found.wave.step_count
    )
    clock, base.clock = base.clock, watch
    try:
        for counted in (whole, found):
            counted.run(max_steps=20)
    finally:
        base.clock = clock
    assert MPI.COMM_WORLD.allgather(found.counts) == [[3] * 6] * MPI.COMM_WORLD.Get_size()
    assert found.state() == whole.state()


def test_a_restart_on_other_ranks_has_the_same_bits(folder):
    config = WaveConfig(**SHOT)
    wave = WaveSolver(config)
    wave.run(max_steps=12)
    wave.save(folder / "wave.h5")
    wave.save_traces(folder)
    wave.run(max_steps=8)
    expected = wave.traces.values.tobytes(), wave.fields["p"].gather().tobytes()

    def continued():
        again = WaveSolver(config, comm=MPI.COMM_SELF)
        again.restore(folder / "wave.h5")
        again.run(max_steps=8)
        table = np.loadtxt(folder / "traces.csv", delimiter=",", skiprows=1)
        np.testing.assert_array_equal(table[:, 1:], again.traces.values[:13])
        assert (folder / "traces.h5").exists()
        return again.traces.values.tobytes(), again.fields["p"].gather().tobytes()

    assert from_root(continued) == expected


def test_what_is_wrong_is_one_error_on_all_ranks():
    wrong = (
        {"velocity": lambda x, y: y - 0.2 + 0 * x},
        {"velocity": -1.0},
        {"initial": lambda x, y: np.where(x < 0.2, np.nan, y)},
        {"receivers": ((5.0, 0.0),)},
        {"order": 5},
    )
    for options in wrong:
        with pytest.raises(da.SolverError) as raised:
            WaveSolver(WaveConfig(**SHOT | options))
        texts = MPI.COMM_WORLD.allgather(str(raised.value))
        assert set(texts) == {str(raised.value)}
    wave = WaveSolver(WaveConfig(**SHOT))
    with pytest.raises(da.SolverError, match="lies between 0 and"):
        wave.step(1.1 * wave.limit)
