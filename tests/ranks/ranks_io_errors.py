"""Errors of files, one text on all ranks, whichever of them has met it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import distarray as da
from tests.io_tools import sealed_again
from tests.ranks.io_fields import digest, error, on_root, saved, world

RANKS = (1, 3)
TIMEOUT = 240


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
        "free some space there, or choose another folder."
    )
    assert digest(path) == before
    world.Barrier()
    assert sorted(found.name for found in folder.iterdir()) == ["a.h5", "a.xdmf"]


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
        ({"every": 0}, "every to be an integer of at least 1, received 0; give a number of steps."),
        (
            {"every": 1, "keep": 0},
            "keep to be an integer of at least 1, received 0; give a number of files.",
        ),
    ):
        said = error(lambda options=options: da.Checkpointer(folder, **options))
        assert said == f"Checkpointer needs {text}"
    checkpoints = da.Checkpointer(folder, every=1)
    text = "A checkpoint needs a step that is an integer of at least 0, received -1."
    assert error(lambda: checkpoints.save({"u": u}, step=-1)) == text
    text = "A checkpoint needs a dict of names and arrays with at least one array."
    assert error(lambda: checkpoints.save({}, step=1)) == text
    checkpoints.close()
    text = f"The checkpointer of '{folder}' is closed; make a new one to go on saving."
    assert error(lambda: checkpoints.save({"u": u}, step=1)) == text
    assert not list(folder.iterdir())


def differing(call: Callable[[Path, Any], Any], folder: Path, one: Any, other: Any) -> str:
    """The error of a call that is given another value on the last rank."""
    with pytest.raises(da.CommunicationError) as caught:
        call(folder, other if world.rank == world.size - 1 else one)
    assert len(set(world.allgather(str(caught.value)))) == 1
    return str(caught.value)


def test_arguments_that_differ(folder: Path) -> None:
    path, grid = saved(folder)
    if world.size == 1:
        return
    before, u, last = digest(path), grid.ones(), world.size - 1
    cure = "; pass the same on all ranks."
    long = "x" * 300
    calls: dict[str, tuple[Callable[[Path, Any], Any], Any, Any, str]] = {
        "path of the file to be saved": (
            lambda at, name: da.save(name, {"u": u}), "a", "b", "'a' and rank {} has 'b'",
        ),
        "step of the file to be saved": (
            lambda at, step: da.save(path, {"u": u}, step=step), 1, 2, "1 and rank {} has 2",
        ),
        "attrs of the file to be saved": (
            lambda at, attrs: da.save(path, {"u": u}, attrs=attrs), {"a": long + "1"},
            {"a": long + "2"}, "",
        ),
        "time of the file to be saved": (
            lambda at, time: da.Checkpointer(at, every=1).save({"u": u}, step=1, time=time),
            0.5, 0.25, "0.5 and rank {} has 0.25",
        ),
        "names of the file to be loaded": (
            lambda at, names: da.load(path, grid, names=names), ["u"], ["u", "v"],
            "['u'] and rank {} has ['u', 'v']",
        ),
        "dtype of the file to be loaded": (
            lambda at, dtype: da.load(path, grid, dtype=dtype), None, {"u": "f4"},
            "'None' and rank {} has '{{u: <f4}}'",
        ),
    }  # fmt: skip
    for subject, (call, one, other, values) in calls.items():
        text = differing(call, folder, one, other)
        assert text.startswith(f"{subject} differs between ranks, rank 0 has ")
        assert values.format(last) in text
        assert text.endswith(cure)
    assert digest(path) == before
    assert sorted(found.name for found in folder.iterdir()) == ["a.h5", "a.xdmf"]


def test_arguments_written_differently(folder: Path) -> None:
    """The order of a dict, and the way in which an element type is given, are no difference."""
    path, grid = saved(folder)
    last = world.rank == world.size - 1
    attrs = {"a": 1, "b": 2} if last else {"b": 2, "a": 1}
    da.save(path, {"u": grid.ones()}, time=float("nan"), attrs=attrs)
    world.Barrier()
    found = da.load(path, grid, dtype=np.float32 if last else "f4")
    assert found.attrs == {"a": 1, "b": 2}
    assert found.arrays["u"].dtype == np.float32
