"""Files on several ranks: written on n, read on m, alike on any process grid, with clear errors.

Every array holds the global index of its elements, so that a value tells where it belongs.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.testing import process_grids
from tests.devices import host
from tests.io_tools import sealed_again

TIMEOUT = 240

world = MPI.COMM_WORLD
SHAPE = (13, 9, 11)
OPTIONS = {
    "periodic": (True, False, False),
    "bounds": [(0.0, 1.0), (-1.0, 1.0), (0.0, 3.0)],
    "coordinates": {"y": np.linspace(-1.0, 1.0, 10) ** 3},
}
FIELDS: dict[str, dict[str, Any]] = {
    "temperature": {"dtype": "f8"},
    "u": {"dtype": "f4", "location": "x"},
    "nodes": {"dtype": "i8", "location": "xyz"},
    "B": {"dtype": "c16", "location": "yz", "components": (2, 3)},
    "z": {"dtype": "c8"},
    "solid": {"dtype": "?"},
}
CONDITIONS = {
    "y-": da.Dirichlet(0.5),
    "y+": da.Neumann(np.arange(143.0).reshape(13, 11)),
    "z-": da.Robin(1.0, 2.0, -0.1),
    "z+": da.Extrapolate(2),
}


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The index of each element in C order, as its value."""
    index = np.arange(math.prod(shape)).reshape(shape)
    kind = np.dtype(dtype).kind
    return (
        (index % 3 == 0)
        if kind == "b"
        else (index * (1 - 2j) if kind == "c" else index).astype(dtype)
    )


def fields(grid: da.Grid) -> dict[str, da.DistArray]:
    made = {}
    for name, options in FIELDS.items():
        made[name] = array = grid.empty(**options)
        with array.writing() as block:
            block[...] = numbers(array.shape, array.dtype)[array.local_slices]
    made["temperature"].boundary.update(CONDITIONS)
    return made


def save(path: Path, comm: Any = None, ranks: Any = None) -> None:
    grid = da.Grid(SHAPE, comm=comm, ranks=ranks, **OPTIONS)
    da.save(path, fields(grid), step=7, time=0.1, attrs={"viscosity": 1e-3, "cells": [1, 2]})


def check(path: Path, comm: Any = None, ranks: Any = None) -> None:
    """Load everything and compare what this rank owns."""
    grid = da.Grid(SHAPE, comm=comm, ranks=ranks, **OPTIONS)
    found = da.load(path, grid)
    assert (found.step, found.time) == (7, 0.1)
    assert found.attrs == {"viscosity": 1e-3, "cells": [1, 2]}
    assert list(found.arrays) == list(FIELDS)
    for name, options in FIELDS.items():
        array = found.arrays[name]
        assert array.dtype == np.dtype(options["dtype"])
        assert array.location == options.get("location")
        assert array.name == name
        np.testing.assert_array_equal(
            host(array.local), numbers(array.shape, array.dtype)[array.local_slices]
        )
        assert array.local_shape[array.ndim - 3 :] == array.block.owned.shape
    boundary = found.arrays["temperature"].boundary
    assert sorted(boundary) == sorted(CONDITIONS)
    assert boundary["y-"].value == 0.5
    np.testing.assert_array_equal(boundary["y+"].value, CONDITIONS["y+"].value)
    assert (boundary["z-"].a, boundary["z-"].b, boundary["z-"].c) == (1.0, 2.0, -0.1)
    assert boundary["z+"].degree == 2


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sub(n: int) -> Any:
    """A communicator of the first n ranks; COMM_NULL elsewhere."""
    return world.Split(0 if world.rank < n else MPI.UNDEFINED, world.rank)


def counts() -> list[int]:
    return [n for n in (1, 2, 3, 4, 8) if n <= world.size]


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
    from distarray.io import rows, verify

    save(folder / "a.h5")
    large = verify.CHUNK, rows.ROUND
    verify.CHUNK, rows.ROUND = 1, 500  # one tile at a time, few elements for a member of a team
    os.environ["DISTARRAY_MAX_MESSAGE"] = "1024"
    try:
        comm = world.Dup()  # the limit is read when a communicator is first used
        save(folder / "b.h5", comm)
        check(folder / "b.h5", comm)
    finally:
        verify.CHUNK, rows.ROUND = large
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


# Errors: one text, on all ranks.


def error(action: Callable[[], Any]) -> str:
    """The text of the FileError that an action raises, checked to be the same everywhere."""
    try:
        action()
    except da.FileError as problem:
        text = str(problem)
    else:
        text = "no error"
    assert world.allgather(text) == [text] * world.size
    return text


def on_root(action: Callable[[], Any]) -> None:
    if world.rank == 0:
        action()
    world.Barrier()


def saved(folder: Path) -> tuple[Path, da.Grid]:
    grid = da.Grid((12, 9))
    path = folder / "a.h5"
    da.save(path, {"u": grid.ones(), "v": grid.zeros(location="x")}, step=1)
    return path, grid


def test_missing_file(folder: Path) -> None:
    path = folder / "none.h5"
    assert error(lambda: da.load(path, da.Grid((12, 9)))) == (
        f"The file '{path}' does not exist; give the path of a file written by save."
    )


def test_file_that_is_not_hdf5(folder: Path) -> None:
    path = folder / "a.h5"
    on_root(partial(path.write_text, "hello"))
    assert error(lambda: da.load(path, da.Grid((12, 9)))) == (
        f"The file '{path}' is not an HDF5 file; give the path of a file written by save."
    )


def test_truncated_file(folder: Path) -> None:
    path, grid = saved(folder)
    on_root(lambda: os.truncate(path, path.stat().st_size - 8))
    text = error(lambda: da.load(path, grid))
    assert text.startswith(f"The file '{path}' is cut short (")
    assert text.endswith("; use an older file or copy it again.")


def test_newer_format(folder: Path) -> None:
    path, grid = saved(folder)

    def change() -> None:
        with h5py.File(path, "r+") as file:
            file.attrs["distarray_format"] = 99

    on_root(change)
    assert error(lambda: da.load(path, grid)) == (
        f"The file '{path}' has format version 99, this library reads up to 2; "
        "read it with a newer version of distarray."
    )


def test_grid_that_does_not_fit(folder: Path) -> None:
    path, _ = saved(folder)
    cure = "; load it onto a grid like the one it was saved from."
    for options, text in (
        ({"shape": (12, 10)}, "shape (12, 9), the grid has shape (12, 10)"),
        ({"shape": (12, 9, 4)}, "shape (12, 9), the grid has shape (12, 9, 4)"),
        (
            {"shape": (12, 9), "bounds": [(0.0, 1.0), (0.0, 2.0)]},
            "bounds ((0.0, 1.0), (0.0, 1.0)), the grid has bounds ((0.0, 1.0), (0.0, 2.0))",
        ),
        (
            {"shape": (12, 9), "periodic": (True, False)},
            "periodic (False, False), the grid has periodic (True, False)",
        ),
        (
            {"shape": (12, 9), "axes": ("x", "z")},
            "axes ('x', 'y'), the grid has axes ('x', 'z')",
        ),
        (
            {"shape": (12, 9), "coordinates": {"y": np.linspace(0.0, 1.0, 10) ** 2}},
            "other face positions along axis y than the grid",
        ),
    ):
        grid = da.Grid(**options)
        assert error(lambda grid=grid: da.load(path, grid)) == f"The file '{path}' has {text}{cure}"


def test_array_that_is_not_there(folder: Path) -> None:
    path, grid = saved(folder)
    text = f"The file '{path}' has no array 'p'; it holds u, v."
    assert error(lambda: da.load(path, grid, names=["u", "p"])) == text
    assert error(lambda: da.load(path, grid).arrays["p"]) == text
    assert list(da.load(path, grid, names=["v"]).arrays) == ["v"]


def test_dataset_removed_from_the_file(folder: Path) -> None:
    path, grid = saved(folder)

    def change() -> None:
        with h5py.File(path, "r+") as file:
            del file["v"]

    on_root(change)
    assert error(lambda: da.load(path, grid)) == (
        f"The file '{path}' lists the array 'v' but does not hold it; use an older file."
    )


def test_damaged_boundary_and_attributes(folder: Path) -> None:
    path, grid = saved(folder)

    def damage(name: str) -> None:
        with h5py.File(path, "r+") as file:
            file[name][()] = b"x"
        sealed_again(path)

    on_root(partial(damage, "distarray/boundary/u"))
    assert error(lambda: da.load(path, grid)).startswith(
        f"The file '{path}' is damaged: the boundary of 'u' is not readable ("
    )
    path, grid = saved(folder)
    on_root(partial(damage, "distarray/attrs"))
    assert error(lambda: da.load(path, grid)).startswith(
        f"The file '{path}' is damaged: its attributes are no JSON ("
    )


def test_folder_that_is_missing_or_closed(folder: Path) -> None:
    u = da.Grid((12, 9)).ones()
    path = folder / "none" / "a.h5"
    assert error(lambda: da.save(path, {"u": u})).startswith(
        f"The file '{path}.partial' cannot be created: "
    )


def test_failed_save_leaves_the_old_file(folder: Path) -> None:
    path, grid = saved(folder)
    before = digest(path)
    world.Barrier()
    on_root((folder / "a.h5.partial").mkdir)
    assert "cannot be created" in error(lambda: da.save(path, {"u": grid.zeros()}))
    assert digest(path) == before


def test_rank_that_fails_in_the_middle_of_a_save(folder: Path) -> None:
    """An error of one rank's file system ends the save on all; the old file stays."""
    path, grid = saved(folder)
    before = digest(path)
    world.Barrier()
    array = grid.zeros()
    if world.rank == world.size - 1:
        backend = array.block.backend

        class Broken:
            name, host = backend.name, False

            def to_host(self, values: Any) -> Any:
                raise OSError(28, "No space left on device")

        array.block.backend = Broken()
    assert error(lambda: da.save(path, {"u": array})) == (
        f"The file '{path}.partial' cannot be written: No space left on device; "
        "check the path, its folder and the free space."
    )
    assert digest(path) == before
    world.Barrier()
    assert sorted(found.name for found in folder.iterdir()) == ["a.h5", "a.xdmf"]


# What lies at the names that a save uses.


def test_link_at_the_partial_name_is_not_followed(folder: Path) -> None:
    path, grid = saved(folder)
    other = folder / "precious.txt"

    def link() -> None:
        other.write_text("precious")
        (folder / "a.h5.partial").symlink_to(other)

    on_root(link)
    da.save(path, {"w": grid.ones()})
    assert list(da.load(path, grid).arrays) == ["w"]
    assert other.read_text() == "precious"
    assert sorted(found.name for found in folder.iterdir()) == ["a.h5", "precious.txt"]


def test_link_at_the_partial_name_of_the_list(folder: Path) -> None:
    grid = da.Grid((12, 9))
    other = folder / "precious.txt"

    def link() -> None:
        other.write_text("precious")
        (folder / "latest.partial").symlink_to(other)

    on_root(link)
    checkpoints = da.Checkpointer(folder, every=1)
    assert checkpoints.save({"u": grid.ones()}, step=1)
    assert other.read_text() == "precious"
    assert (folder / "latest").read_text() == "checkpoint_0000000001.h5\n"


def test_leftover_of_a_save_is_replaced(folder: Path) -> None:
    path, grid = saved(folder)
    on_root(partial((folder / "a.h5.partial").write_text, "leftover"))
    da.save(path, {"w": grid.ones()})
    assert list(da.load(path, grid).arrays) == ["w"]
    assert [found.name for found in folder.iterdir()] == ["a.h5"]


def test_file_that_a_link_points_to_is_replaced(folder: Path) -> None:
    path, grid = saved(folder)
    link, dangling = folder / "link.h5", folder / "dangling.h5"

    def make() -> None:
        link.symlink_to("a.h5")
        dangling.symlink_to("new.h5")

    on_root(make)
    da.save(link, {"w": grid.ones()})
    da.save(dangling, {"w": grid.ones()})
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert list(da.load(path, grid).arrays) == ["w"]
    assert list(da.load(folder / "new.h5", grid).arrays) == ["w"]


def test_targets_that_are_no_regular_files(folder: Path) -> None:
    u = da.Grid((12, 9)).ones()
    loop, pipe = folder / "loop.h5", folder / "pipe"

    def make() -> None:
        loop.symlink_to("loop.h5")
        os.mkfifo(pipe)
        os.mkfifo(folder / "a.h5.partial")
        (folder / "sub").mkdir()

    on_root(make)
    cannot = "cannot be replaced: it is"
    for path, what in ((folder / "sub", "a directory"), (pipe, "a device, pipe or socket")):
        assert error(lambda path=path: da.save(path, {"u": u})) == (
            f"The file '{path}' {cannot} {what}, no regular file; give another path."
        )
    assert error(lambda: da.save(loop, {"u": u})) == (
        f"The file '{loop}' cannot be replaced: Too many levels of symbolic links; check the path, "
        "its folder and the free space."
    )
    assert error(lambda: da.save(folder / "a.h5", {"u": u})) == (
        f"The file '{folder}/a.h5.partial' cannot be created: a device, pipe or socket has this "
        "name; remove it."
    )
    assert error(lambda: da.load(pipe, da.Grid((12, 9)))) == (
        f"The file '{pipe}' is a device, pipe or socket; give the path of a file written by save."
    )
    world.Barrier()
    assert sorted(found.name for found in folder.iterdir()) == [
        "a.h5.partial",
        "loop.h5",
        "pipe",
        "sub",
    ]


def test_paths_that_no_file_can_have(folder: Path) -> None:
    grid = da.Grid((12, 9))
    u = grid.ones()
    rule = "takes a path of characters that file names can have, received"
    cure = "give a path without zero bytes and lone surrogates."
    for path in ("a\0b", "a\ud800b"):
        assert error(lambda path=path: da.save(path, {"u": u})) == (f"save {rule} {path!r}; {cure}")
        assert error(lambda path=path: da.load(path, grid)) == f"load {rule} {path!r}; {cure}"
        assert error(lambda path=path: da.Checkpointer(path, every=1)) == (
            f"Checkpointer {rule} {path!r}; {cure}"
        )
    one = "a\0b" if world.rank == world.size - 1 else folder / "a.h5"
    assert error(lambda: da.save(one, {"u": u})) == f"save {rule} {'a' + chr(0) + 'b'!r}; {cure}"


# Errors of any class, on all ranks or on one.


def test_error_of_another_class_on_one_rank(folder: Path) -> None:
    from distarray.io.snapshot import agreed

    for rank in range(world.size):

        def fail(rank: int = rank) -> None:
            with agreed(da.Grid((12, 9)).communicator, "The file 'a'"):
                if world.rank == rank:
                    raise IndexError("too many indices")

        assert error(fail) == "The file 'a': IndexError, too many indices."

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail_without_text() -> None:
        with agreed(da.Grid((12, 9)).communicator, "The file 'a'"):
            if world.rank == world.size - 1:
                raise Mute

    assert error(fail_without_text) == "The file 'a': Mute, without a text."


def test_attributes_that_cannot_be_written(folder: Path) -> None:
    u = da.Grid((12, 9)).zeros()
    large = 10**5000
    text = "attrs['a'] is an integer of 16610 bits, attributes take at most 2048; save it as text."
    last = world.rank == world.size - 1
    for attrs in ({"a": large}, {"a": large if last else 1}, {"a": 1 if last else large}):
        if world.size > 1 or attrs["a"] == large:
            assert error(lambda attrs=attrs: da.save(folder / "a.h5", {"u": u}, attrs=attrs)) == (
                text
            )
    for name, rule in (("step", "fit into 64 bits"), ("time", "fit into a float")):
        options = {name: large}
        assert error(lambda options=options: da.save(folder / "a.h5", {"u": u}, **options)) == (
            f"{name} must {rule}, received an integer of 16610 bits."
        )
    checkpoints = da.Checkpointer(folder, every=1)
    text = "step must fit into 64 bits, received an integer of 16610 bits."
    assert error(lambda: checkpoints.save({"u": u}, step=large)) == text
    text = (
        "A checkpoint needs a step that is an integer of at least 0, received an integer of 16610 "
        "bits."
    )
    assert error(lambda: checkpoints.save({"u": u}, step=-large)) == text
    assert not list(folder.iterdir())


def test_halo_that_no_file_takes_back(folder: Path) -> None:
    if world.size > 1:
        return  # blocks of several ranks refuse it themselves
    u = da.Grid((12, 9), halo=65).zeros()
    assert error(lambda: da.save(folder / "a.h5", {"u": u})) == (
        "The array 'u' with halo (65, 65) cannot be stored: a halo is at least 0 and at most as "
        "wide as the grid or 64 cells; save a copy with a smaller halo."
    )


# Damaged entries: a FileError that names the file, so that the checkpoint before is taken.


def damage_attribute(name: str, value: Any, file: h5py.File) -> None:
    owner, _, key = name.rpartition("/")
    (file[owner] if owner else file).attrs[key] = value


def damage_text(name: str, text: str, file: h5py.File) -> None:
    del file[name]
    file.create_dataset(name, data=np.bytes_(text))


def evil(dtype: str) -> str:
    return f'{{"a": {{"__array__": [1], "dtype": "{dtype}", "shape": [1]}}}}'


DAMAGE: dict[str, Callable[[h5py.File], None]] = {
    "version": partial(damage_attribute, "library_version", np.zeros(0, "S1")),
    "halo": partial(damage_attribute, "u/halo", np.array([99, 99])),
    "negative halo": partial(damage_attribute, "u/halo", np.array([-5, -5])),
    "vast halo": partial(damage_attribute, "u/halo", np.array([2**62, 1])),
    "short halo": partial(damage_attribute, "u/halo", np.array([1])),
    "location": partial(damage_attribute, "u/location", np.bytes_(b"q")),
    "twice": partial(damage_attribute, "u/location", np.bytes_(b"qq")),
    "no location": partial(damage_attribute, "u/location", np.zeros(0, "S1")),
    "dtype": partial(damage_text, "distarray/attrs", evil("f8,(")),
    "fields": partial(damage_text, "distarray/attrs", evil("f8,f8")),
    "list": partial(damage_text, "distarray/attrs", "[]"),
    "side": partial(damage_text, "distarray/boundary/u", '{"q-": {"kind": "Outflow"}}'),
    "number": partial(damage_text, "distarray/boundary/u", '{"x-": 3}'),
    "boundary dtype": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Dirichlet", "value": {"__array__": [1], "dtype": "f8,(", "shape": [1]}}}',
    ),
    "values": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Neumann", "value": {"__array__": [1, 2], "dtype": "f8", "shape": [2]}}}',
    ),
    "degree": partial(
        damage_text, "distarray/boundary/u", '{"x-": {"kind": "Extrapolate", "degree": 77}}'
    ),
    "field": partial(damage_text, "distarray/boundary/u", '{"x-": {"kind": "Robin", "q": 1}}'),
    "components": partial(
        damage_text, "distarray/boundary/u", '{"x-": [{"kind": "Outflow"}, {"kind": "Outflow"}]}'
    ),
    "integer": partial(
        damage_text,
        "distarray/boundary/u",
        '{"x-": {"kind": "Dirichlet", "value": 1' + 3000 * "0" + "}}",
    ),
}


def test_damaged_entries_name_the_file_and_are_skipped(folder: Path) -> None:
    grid = da.Grid((12, 9))
    for what, damage in DAMAGE.items():
        place = folder / what
        checkpoints = da.Checkpointer(place, every=1)
        for step in (1, 2):
            checkpoints.save({"u": grid.ones()}, step=step)
        path = place / "checkpoint_0000000002.h5"

        def change(path: Path = path, damage: Callable[[h5py.File], None] = damage) -> None:
            with h5py.File(path, "r+") as file:
                damage(file)
            sealed_again(path)

        on_root(change)
        text = error(lambda path=path: da.load(path, grid))
        assert f"file '{path}'" in text, (what, text)
        assert "no error" not in text
        assert "\n" not in text
        found = checkpoints.latest(grid)
        assert found is not None, what
        assert found.step == 1, what


def test_ranks_that_save_different_arrays(folder: Path) -> None:
    if world.size == 1:
        return
    grid = da.Grid((12, 9))
    name = "v" if world.rank == 1 else "u"
    text = error(lambda: da.save(folder / "a.h5", {name: grid.zeros()}))
    assert text == (
        "Ranks save different arrays: one has (('v', '<f8', (12, 9)),), "
        "root has (('u', '<f8', (12, 9)),); pass the same on all."
    )
    assert not list(folder.iterdir())


def test_arrays_that_are_refused(folder: Path) -> None:
    grid = da.Grid((12, 9))
    u = grid.zeros()
    several = "save takes a dict of names and arrays with at least one entry, received "
    rule = "names must not be empty, '.' or '..', nor contain '/' or a zero byte"
    for arrays, text in (
        ({}, several + "an empty dict."),
        ([u], several + "a list."),
        ({"u": np.zeros(3)}, "The array 'u' is a ndarray; save takes DistArrays."),
        ({"a/b": u}, f"The array name 'a/b' cannot be stored: {rule}."),
        ({1: u}, "The array name 1 cannot be stored: names must be strings."),
        (
            {"distarray": u},
            "The array name 'distarray' cannot be stored: "
            "the names distarray, VTKHDF are kept for the library.",
        ),
        (
            {"u": da.zeros((12, 9))},
            "The array 'u' belongs to no grid; save takes arrays made by the methods of a Grid.",
        ),
        (
            {"u": u, "w": da.Grid((12, 10)).zeros()},
            "The arrays 'u' and 'w' belong to different grids (shapes (12, 9) and (12, 10)); "
            "save one file per grid.",
        ),
    ):
        assert error(lambda arrays=arrays: da.save(folder / "a.h5", arrays)) == text
    assert not list(folder.iterdir())


def test_options_that_are_refused(folder: Path) -> None:
    u = da.Grid((12, 9)).zeros()
    for options, text in (
        ({"step": 1.5}, "step must be an integer, received 1.5."),
        ({"step": 2**63}, "step must fit into 64 bits, received 9223372036854775808."),
        ({"time": "now"}, "time must be a number, received 'now'."),
        ({"attrs": [1]}, "attrs must be a dict, received a list."),
        (
            {"attrs": {"f": max}},
            "attrs['f'] is a builtin_function_or_method; attributes may be numbers, strings, "
            "None, small arrays, lists and dicts of these.",
        ),
    ):
        assert error(lambda options=options: da.save(folder / "a.h5", {"u": u}, **options)) == text
    assert not list(folder.iterdir())
    text = error(lambda: da.load(folder / "a.h5", u))
    assert text == "load takes a Grid as its second argument, received a DistArray; pass one."


def test_checkpointers_that_are_refused(folder: Path) -> None:
    u = da.Grid((12, 9)).zeros()
    for options, text in (
        ({"every": 0}, "Checkpointer needs every to be an integer of at least 1, received 0."),
        (
            {"every": 1, "keep": 0},
            "Checkpointer needs keep to be an integer of at least 1, received 0.",
        ),
    ):
        assert error(lambda options=options: da.Checkpointer(folder, **options)) == text
    checkpoints = da.Checkpointer(folder, every=1)
    text = "A checkpoint needs a step that is an integer of at least 0, received -1."
    assert error(lambda: checkpoints.save({"u": u}, step=-1)) == text
    text = "A checkpoint needs a dict of names and arrays with at least one array."
    assert error(lambda: checkpoints.save({}, step=1)) == text
    checkpoints.close()
    text = f"The checkpointer of '{folder}' is closed; make a new one to go on saving."
    assert error(lambda: checkpoints.save({"u": u}, step=1)) == text
    assert not list(folder.iterdir())


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
