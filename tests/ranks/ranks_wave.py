"""Waves, with sources, receivers, layers and free surfaces, have the same bits on any number of
ranks and any process grid.
"""

import functools

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from distarray import spans
from solvers.wave import Ricker, Source, WaveConfig, WaveSolver
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
    alone = state(options, steps, MPI.COMM_SELF)
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
        assert none == 0 < tiles
        assert found == expected


def test_a_restart_on_other_ranks_has_the_same_bits(folder):
    config = WaveConfig(**SHOT)
    wave = WaveSolver(config)
    wave.run(max_steps=12)
    wave.save(folder / "wave.h5")
    wave.save_traces(folder)
    wave.run(max_steps=8)
    expected = wave.traces.values.tobytes(), wave.fields["p"].gather().tobytes()
    found = None
    if MPI.COMM_WORLD.Get_rank() == 0:
        again = WaveSolver(config, comm=MPI.COMM_SELF)
        again.restore(folder / "wave.h5")
        again.run(max_steps=8)
        found = again.traces.values.tobytes(), again.fields["p"].gather().tobytes()
        table = np.loadtxt(folder / "traces.csv", delimiter=",", skiprows=1)
        np.testing.assert_array_equal(table[:, 1:], again.traces.values[:13])
        assert (folder / "traces.h5").exists()
    assert MPI.COMM_WORLD.bcast(found, root=0) == expected


def test_what_is_wrong_is_one_error_on_all_ranks():
    wrong = (
        {"velocity": lambda x, y: y - 0.2 + 0 * x},
        {"velocity": -1.0},
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
