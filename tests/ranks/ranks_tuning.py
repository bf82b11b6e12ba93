"""Choices of `python -m distarray tune` are read by rank 0 alone and used by all ranks alike."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray import comm, spans
from distarray.arguments import backend_for
from distarray.tiling import loop
from distarray.transports import choice
from distarray.transports.detection import MpiSupport
from distarray.tuning import store
from distarray.tuning.kernels import heat
from distarray.tuning.steps import case_of

RANKS = (2, 4)

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
SHAPE, PERIODIC = (16, 12), (True, True)
#: Not the default, which cuts the axis whose faces are smaller first.
COLUMNS = (1, SIZE)


@contextlib.contextmanager
def settings(**changes):
    """Environment variables for a while, None for unset; no choices are known before or after."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    store.forget()
    try:
        yield
    finally:
        _set(before)
        store.forget()


def _set(changes):
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def kept(folder, choices):
    """Choices in the cache of rank 0; those of the others are empty."""
    mine = Path(folder, f"cache-{RANK}")
    mine.mkdir(mode=0o700, exist_ok=True)
    wanted = {"DISTARRAY_CACHE": str(mine), "DISTARRAY_TUNING": None if RANK == 0 else "0"}
    with settings(**wanted):
        if RANK == 0 and choices is not None:
            store.write(store.this_machine(SIZE), choices)
    return settings(**wanted)


def new_ranks():
    """Ranks that know of no choices."""
    return comm.default(MPI.COMM_WORLD.Dup())


def grid(**options):
    return da.Grid(SHAPE, periodic=PERIODIC, comm=new_ranks(), **options)


def test_a_process_grid_is_used_where_none_is_named(folder):
    default = grid(device="cpu").ranks
    assert default != COLUMNS
    choice = store.GridChoice("cpu", SHAPE, PERIODIC, COLUMNS)
    with kept(folder, store.Choices(grids=(choice,))):
        assert grid(device="cpu").ranks == COLUMNS
        assert store.used() == (f"process grid {COLUMNS} for {SHAPE}",)
        assert f"Tuned: process grid {COLUMNS}" in str(da.report())
        # What the program says counts first; so does what fits.
        assert grid(device="cpu", ranks=(SIZE, 1)).ranks == (SIZE, 1)
        assert grid(device="cpu", ranks=(0, 0)).ranks == default
        assert grid(device="cpu", halo=(1, 12 // SIZE + 1)).ranks != COLUMNS
        assert da.Grid((16, 13), periodic=True, comm=new_ranks(), device="cpu").ranks != COLUMNS
    assert grid(device="cpu").ranks == default


def test_a_variable_of_rank_0_switches_choices_off(folder):
    default = grid(device="cpu").ranks
    choice = store.GridChoice("cpu", SHAPE, PERIODIC, COLUMNS)
    with kept(folder, store.Choices(grids=(choice,))), settings(DISTARRAY_TUNING="0"):
        assert grid(device="cpu").ranks == default
        assert store.used() == ()


def test_a_damaged_file_is_not_used(folder):
    default = grid(device="cpu").ranks
    choice = store.GridChoice("cpu", SHAPE, PERIODIC, COLUMNS)
    with kept(folder, store.Choices(grids=(choice,))):
        if RANK == 0:
            (file,) = Path(os.environ["DISTARRAY_CACHE"]).glob("tuning-*.json")
            file.write_text(file.read_text().replace(f"{SIZE}\n", "1\n", 1))
        assert grid(device="cpu").ranks == default


def test_a_number_of_steps_is_used_for_its_loop_alone(folder):
    worth, least = loop.WORTH_TILING, loop.LEAST_STEPS
    loop.WORTH_TILING = loop.LEAST_STEPS = 0
    try:
        on = da.Grid((16 * SIZE, 24), periodic=True, comm=new_ranks(), device="cpu")
        arrays = [on.from_function(lambda x, y: np.sin(6 * x) + y), on.empty()]
        case = _case(arrays)
        expected = _iterated(arrays, tile=1)
        with kept(folder, store.Choices(tiles=(_with(case, 6),))):
            on = da.Grid((16 * SIZE, 24), periodic=True, comm=new_ranks(), device="cpu")
            arrays = [on.from_function(lambda x, y: np.sin(6 * x) + y), on.empty()]
            with spans.record() as recording:
                found = _iterated(arrays)
            assert len(recording.named("tile")) == 24 // 6
            assert store.used() == ("tile 6 for heat",)
            assert np.array_equal(found, expected)
            # Another element type: nothing is kept, so that several are tried.
            single = [array.astype(np.float32) for array in arrays]
            other = _case(single)
            assert store.tile(on.communicator, other) is None
            assert store.tile(on.communicator, case) == 6
    finally:
        loop.WORTH_TILING, loop.LEAST_STEPS = worth, least
        heat.depths.clear()


def _case(arrays):
    program = heat.prepare(arrays, {"r": 0.1}, 0.0)[0].program
    return case_of(arrays[0], [program], [(0, 1)], 2)


def _with(case, tile):
    return store.TileChoice(
        *(getattr(case, n) for n in ("shape", "periodic", "ranks", "dtype", "step")), tile
    )


def _iterated(arrays, **options):
    heat.depths.clear()
    u, new = (array.copy() for array in arrays)
    return da.iterate(heat, u, new, steps=24, r=0.1, **options).gather()


def test_a_transport_is_used_for_its_device(folder):
    choice = store.TransportChoice("simulated", "host")
    with kept(folder, store.Choices(transports=(choice,))):
        on = grid(device="simulated")
        assert on.communicator.transport.name == "host"
        asked = grid(device="simulated", transport="staged")
        assert asked.communicator.transport.name == "staged"
    assert grid(device="simulated").communicator.transport.name == "staged"


def test_memory_of_gpus_is_offered_to_an_mpi_that_takes_it_alone():
    """A stand-in for CUDA: the simulated device under its name."""
    base, simulated = new_ranks(), backend_for("simulated")
    assert choice.working(base, simulated) == ["nccl", "device", "staged", "host"]
    assert choice.working(base, backend_for("cpu")) == []
    cuda = Like(simulated, name="cuda")
    before = choice._mpi_takes_device_memory
    try:
        for answer, expected in ((True, ["device"]), (False, [])):
            choice._mpi_takes_device_memory = lambda *_, a=answer: MpiSupport(a, "")
            found = choice.working(base, cuda)
            assert [name for name in found if name == "device"] == expected
            assert found[-2:] == ["staged", "host"]
    finally:
        choice._mpi_takes_device_memory = before


class Like:
    """Another object but for some attributes."""

    def __init__(self, original, **changes):
        self._original = original
        self.__dict__.update(changes)

    def __getattr__(self, name):
        return getattr(self._original, name)
