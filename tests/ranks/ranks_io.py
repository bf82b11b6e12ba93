"""Files on several ranks: written on n, read on m, alike on any process grid."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.testing import process_grids
from tests.devices import host
from tests.ranks.io_fields import (
    FIELDS,
    OPTIONS,
    SHAPE,
    check,
    counts,
    digest,
    fields,
    numbers,
    save,
    sub,
    world,
)

RANKS = (1, 2, 3, 4, 8)
SELDOM = (2, 4)
TIMEOUT = 240


def test_written_on_n_ranks_read_on_m(folder: Path) -> None:
    for n in counts():
        comm = sub(n)
        if comm != MPI.COMM_NULL:
            save(folder / f"{n}.h5", comm)
        world.Barrier()
    for n in counts():
        for m in counts():
            if world.size in (n, m):
                comm = sub(m)
                if comm != MPI.COMM_NULL:
                    check(folder / f"{n}.h5", comm)
    world.Barrier()
    assert len({digest(folder / f"{n}.h5") for n in counts()}) == 1


def test_bytes_do_not_depend_on_the_process_grid(folder: Path) -> None:
    digests = set()
    for number, ranks in enumerate(process_grids(world.size, 3)):
        if all(parts <= cells for parts, cells in zip(ranks, SHAPE, strict=True)):
            save(folder / f"{number}.h5", ranks=ranks)
            digests.add(digest(folder / f"{number}.h5"))
            check(folder / f"{number}.h5", ranks=ranks[::-1] if max(ranks) <= 9 else None)
    assert len(digests) == 1
    assert len(set(world.allgather(digests.pop()))) == 1


def test_h5py_alone_reads_the_file(folder: Path) -> None:
    save(folder / "a.h5")
    with h5py.File(folder / "a.h5", locking=False) as file:
        for name, options in FIELDS.items():
            values = file[name][()]
            assert values.dtype == np.dtype(options["dtype"])
            np.testing.assert_array_equal(values, numbers(values.shape, values.dtype))
        assert file["B"].shape == (2, 3, 13, 10, 12)
        assert file["nodes"].shape == (13, 10, 12)
        assert list(file.attrs["periodic"]) == [True, False, False]
        np.testing.assert_array_equal(file["distarray/faces_y"], OPTIONS["coordinates"]["y"])
    assert sorted(path.name for path in folder.iterdir()) == ["a.h5", "a.xdmf"]


def test_small_messages_and_batches_give_the_same_bytes(folder: Path) -> None:
    from distarray.io import boxes, teams

    save(folder / "a.h5")
    large = boxes.CHUNK, teams.ROUND
    boxes.CHUNK, teams.ROUND = 1, 500  # one tile at a time, few elements for a member of a team
    os.environ["DISTARRAY_MAX_MESSAGE"] = "1024"
    try:
        comm = world.Dup()  # the limit is read when a communicator is first used
        save(folder / "b.h5", comm)
        check(folder / "b.h5", comm)
    finally:
        boxes.CHUNK, teams.ROUND = large
        del os.environ["DISTARRAY_MAX_MESSAGE"]
    assert digest(folder / "a.h5") == digest(folder / "b.h5")


def test_arrays_cut_in_another_way_share_a_file(folder: Path) -> None:
    grid = da.Grid(SHAPE, **OPTIONS)
    arrays = fields(grid)
    other = arrays["temperature"].redistribute(ranks=(1, 1, world.size))
    da.save(folder / "a.h5", {"a": arrays["temperature"], "b": other})
    found = da.load(folder / "a.h5", grid).arrays
    for array in found.values():
        np.testing.assert_array_equal(host(array.local), numbers(SHAPE, "f8")[array.local_slices])


def test_views_of_components(folder: Path) -> None:
    grid = da.Grid(SHAPE, **OPTIONS)
    whole = fields(grid)["B"]
    da.save(folder / "a.h5", {"row": whole[1], "one": whole[1, 2]})
    found = da.load(folder / "a.h5", grid).arrays
    expected = numbers(whole.shape, whole.dtype)[1]
    assert found["row"].shape == expected.shape
    np.testing.assert_array_equal(host(found["row"].local), expected[found["row"].local_slices])
    np.testing.assert_array_equal(host(found["one"].local), expected[2][found["one"].local_slices])


def test_loaded_arrays_need_fresh_halos(folder: Path) -> None:
    """A kernel on a loaded array sees its neighbours, as on the array that was saved."""

    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0] + u[0, 1]

    grid = da.Grid((12, 16), periodic=True)
    u = grid.from_function(lambda x, y: x + 10 * y)
    da.save(folder / "a.h5", {"u": u})
    loaded = da.load(folder / "a.h5", grid).arrays["u"]
    results = []
    for array in (u, loaded):
        new = grid.empty_like(array)
        shift(array, new)
        results.append(new.gather())
    np.testing.assert_array_equal(*results)


def test_halo_is_at_least_the_saved_one(folder: Path) -> None:
    grid = da.Grid((16, 16), halo=1)
    da.save(folder / "a.h5", {"u": grid.zeros(halo=2), "v": grid.zeros()})
    found = da.load(folder / "a.h5", da.Grid((16, 16), halo=(1, 2))).arrays
    assert (found["u"].halo, found["v"].halo) == ((2, 2), (1, 2))


def test_checkpoints(folder: Path) -> None:
    grid = da.Grid(SHAPE, **OPTIONS)
    arrays = fields(grid)
    with da.Checkpointer(folder / "run", every=10, keep=2) as checkpoints:
        assert checkpoints.latest(grid) is None
        written = [
            step for step in range(41) if checkpoints.save(arrays, step=step, time=0.5 * step)
        ]
        assert written == [0, 10, 20, 30, 40]
        found = checkpoints.latest(grid)
    assert found is not None
    assert (found.step, found.time) == (40, 20.0)
    names = sorted(path.name for path in (folder / "run").iterdir())
    assert names == ["checkpoint_0000000030.h5", "checkpoint_0000000040.h5", "latest"]


def test_function_valued_condition_is_an_error_until_set(folder: Path) -> None:
    @da.stencil
    def shift(u: Any, new: Any) -> None:
        new[0, 0] = u[-1, 0]

    grid = da.Grid((12, 9))
    u = grid.from_function(lambda x, y: x + y, boundary={"x-": da.Dirichlet(lambda t, x, y: t + y)})
    path = folder / "a.h5"
    da.save(path, {"u": u})
    loaded = da.load(path, grid).arrays["u"]
    np.testing.assert_array_equal(host(loaded.local), host(u.local))
    new = grid.empty_like(grid.zeros())
    try:
        shift(loaded, new)
        text = ""
    except da.BoundaryError as problem:
        text = str(problem)
    expected = (
        f"The condition Dirichlet on x- of 'u' was given by a function when '{path}' was saved; "
        'set it again before it is read: u.boundary["x-"] = ...'
    )
    assert world.allgather(text) == [expected] * world.size
    loaded.boundary["x-"] = u.boundary["x-"]
    shift(loaded, new, time=2.0)
    again = grid.empty_like(new)
    shift(u, again, time=2.0)
    np.testing.assert_array_equal(new.gather(), again.gather())


def test_points_of_an_unknown_condition_are_not_written(folder: Path) -> None:
    """A kernel that would have to know which points are fixed meets the error on all ranks."""

    @da.stencil
    def one(u: Any) -> None:
        u[0, 0] = 1.0

    path = folder / "a.h5"
    for ranks in process_grids(world.size, 2):
        grid = da.Grid((12, 9), ranks=ranks)
        condition = da.Dirichlet(lambda t, x, y: t + y)
        u = grid.from_function(lambda x, y: x + y, location="x", boundary={"x+": condition})
        da.save(path, {"u": u})
        loaded = da.load(path, grid).arrays["u"]
        np.testing.assert_array_equal(host(loaded.local), host(u.local))
        da.save(path, {"u": loaded})  # what is unknown stays so
        again = da.load(path, grid).arrays["u"]
        try:
            one(again)
            text = ""
        except da.BoundaryError as problem:
            text = str(problem)
        assert all(
            "Dirichlet on x+ of 'u' was given by a function" in t for t in world.allgather(text)
        )
