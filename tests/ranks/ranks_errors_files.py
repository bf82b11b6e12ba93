"""What `save`, `load` and checkpointers are given wrongly; damaged files: ranks_io_*."""

from __future__ import annotations

from pathlib import Path

import h5py

import distarray as da
from tests.ranks.refusals import refuse, world

RANKS = (1, 3)
SELDOM = (1,)


def test_paths() -> None:
    refuse(
        da.FileError,
        {
            'da.save(3, {"u": u})': (
                "save takes a path, received 3; give a string or a pathlib.Path."
            ),
            "da.load(None, grid)": (
                "load takes a path, received None; give a string or a pathlib.Path."
            ),
            "da.Checkpointer(3, every=1)": (
                "Checkpointer takes a path, received 3; give a string or a pathlib.Path."
            ),
        },
    )


def test_files_that_cannot_be_opened(folder: Path) -> None:
    cure = "check the path, its folder and the free space."
    refuse(
        da.FileError,
        {
            'da.save(folder / "none" / "a.h5", {"u": u})': (
                f"The file '{folder}/none/a.h5.partial' cannot be created: No such file or "
                f"directory; {cure}"
            ),
            "da.load(folder, grid)": f"The file '{folder}' cannot be read: Is a directory; {cure}",
        },
        {"folder": folder},
    )


def test_what_is_loaded(folder: Path) -> None:
    refuse(
        da.FileError,
        {
            'da.load("a.h5", u)': (
                "load takes a Grid as its second argument, received a DistArray; pass one."
            ),
            'da.load("a.h5", grid, names=3)': (
                "load takes a list of array names, received names=3; pass one."
            ),
            "checkpoints.latest(3)": "latest takes a Grid, received 3; pass one.",
        },
        {"checkpoints": da.Checkpointer(folder, every=1)},
    )


def test_what_is_saved(folder: Path) -> None:
    cyclic: list[object] = []
    cyclic.append(cyclic)
    refuse(
        da.FileError,
        {
            "da.save(path, {'u': u, 'w': alone})": (
                "The arrays 'u' and 'w' belong to different grids (shapes (9, 8) and (9, 8)); save "
                "one file per grid."
            ),
            "da.save(path, {'u': u}, time=1j)": "time must be a number, received 1j.",
            "da.save(path, {'u': u}, attrs={1: 2})": (
                "attrs has the key 1; keys of attributes must be strings."
            ),
            "da.save(path, {'u': u}, attrs={'a': np.zeros(10**6)})": (
                "attrs['a'] is an array of 8000000 bytes, attributes take at most 1048576; save it "
                "as a distributed array."
            ),
            "da.save(path, {'u': u}, attrs={'a': np.array(['x'], object)})": (
                "attrs['a'] is an array of object; give bool, integer, float or complex values of "
                "standard width."
            ),
            "da.save(path, {'u': u}, attrs={'a': cyclic})": (
                "attrs is nested too deeply or contains itself; flatten it."
            ),
        },
        {"path": folder / "a.h5", "cyclic": cyclic},
    )
    assert not list(folder.iterdir())


def test_files_of_others(folder: Path) -> None:
    path, damaged = folder / "other.h5", folder / "checkpoint_0000000001.h5"
    if world.rank == 0:
        with h5py.File(path, "w") as file:
            file["u"] = [1.0, 2.0]
        damaged.write_text("no checkpoint")
    world.Barrier()
    refuse(
        da.FileError,
        {
            "da.load(path, grid)": (
                f"The file '{path}' is HDF5 but was not written by save (it has no attribute "
                "distarray_format); read it with h5py."
            ),
            "checkpoints.latest(grid)": (
                f"No checkpoint in '{folder}' can be read. The newest: The file '{damaged}' is not "
                "an HDF5 file; give the path of a file written by save."
            ),
        },
        {"path": path, "checkpoints": da.Checkpointer(folder, every=1)},
    )
