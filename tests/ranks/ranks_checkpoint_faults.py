"""What can go wrong with checkpoints: one error on all ranks, and the one before is intact."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.io import place
from tests.io_tools import sealed_again
from tests.ranks.common import refused

RANKS = (1, 3)
TIMEOUT = 240

world = MPI.COMM_WORLD
SHAPE = (61, 43)
#: Bytes of the array, which is most of the file.
SIZE = 61 * 43 * 8


def on_root(action: Callable[[], object]) -> None:
    if world.rank == 0:
        action()
    world.Barrier()


def state(grid: da.Grid, step: int) -> dict[str, da.DistArray]:
    return {"u": grid.from_function(lambda x, y: x + step * y)}


class Case:
    """A checkpointer of a folder that holds the checkpoint of step 1."""

    def __init__(self, folder: Path, *, background: bool) -> None:
        self.folder = folder
        self.grid = da.Grid(SHAPE)
        self.checkpoints = da.Checkpointer(folder, every=1, background=background)
        self.checkpoints.save(state(self.grid, 1), step=1)
        self.checkpoints.latest(self.grid)

    def path(self, step: int) -> Path:
        return self.folder / f"checkpoint_{step:010d}.h5"

    def save(self, step: int) -> None:
        """Write a checkpoint to its end."""
        self.checkpoints.save(state(self.grid, step), step=step)
        self.checkpoints.latest(self.grid)

    def require(self, *steps: int) -> None:
        """The newest checkpoint is of one of these steps, and nothing unfinished is left."""
        world.Barrier()
        found = da.Checkpointer(self.folder, every=1).latest(self.grid)
        assert found is not None
        assert found.step in steps, found.step
        expected = state(self.grid, found.step)["u"].gather()
        np.testing.assert_array_equal(found.arrays["u"].gather(), expected)
        assert not list(self.folder.glob("*.partial"))
        world.Barrier()


def cases(folder: Path) -> Iterator[Case]:
    """Written in both ways."""
    for background in (False, True):
        yield Case(folder / f"background-{background}", background=background)


# The disk.


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a full disk: files of this process cannot grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_cannot_grow(folder: Path) -> None:
    for case in cases(folder):
        # Else ranks bring their short runs together, and not all of them write.
        for who in (None, 0, world.size - 1) if "True" in case.folder.name else (None,):
            with largest_file(SIZE // 2) if who in (None, world.rank) else contextlib.nullcontext():
                refused(da.FileError, str(case.path(2)), partial(case.save, 2))
            case.require(1)
        case.save(3)
        case.require(3)


def test_a_full_disk(folder: Path) -> None:
    """A file system of its own, with room for one file and a half."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    size = SIZE * 3 // 2 + 16384
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    mounted = False
    if world.rank == 0 and os.getuid() == 0:
        mounted = subprocess.run(command, check=False).returncode == 0
    if not world.bcast(mounted):
        return  # needs root; files that cannot grow give the same
    try:
        for case in cases(disk):
            refused(da.FileError, str(case.path(2)), partial(case.save, 2))
            case.require(1)
            on_root(partial(shutil.rmtree, case.folder))
    finally:
        world.Barrier()
        on_root(partial(subprocess.run, ["umount", str(disk)], check=True))


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """This process as a user without rights, if it may be one."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    on_root(partial(folder.parent.chmod, 0o755))
    on_root(partial(folder.chmod, 0o755))
    for case in cases(folder):
        on_root(partial(case.folder.chmod, 0o555))
        with nobody():
            refused(da.FileError, "Permission denied", partial(case.save, 2))
        on_root(partial(case.folder.chmod, 0o755))
        case.require(1)
        case.save(3)
        case.require(3)


def test_a_folder_that_is_removed(folder: Path) -> None:
    for case in cases(folder):
        on_root(partial(shutil.rmtree, case.folder))
        text = (
            f"The folder '{case.folder}' of the checkpoints was removed while the run was going "
            "on, and the checkpoints with it; make it again to go on saving."
        )
        for _ in range(2):
            refused(da.FileError, text, partial(case.save, 2))
        on_root(case.folder.mkdir)
        case.save(3)
        case.require(3)


def remove_under_way(case: Case) -> None:
    """Remove the folder once its file was begun, which may add to it meanwhile."""
    while not Path(f"{case.path(2)}.partial").exists():
        time.sleep(0.001)
    while case.folder.exists():
        shutil.rmtree(case.folder, ignore_errors=True)


def test_a_folder_that_is_removed_while_a_checkpoint_is_written(folder: Path) -> None:
    case = Case(folder / "run", background=True)
    case.checkpoints.save(state(case.grid, 2), step=2)
    on_root(partial(remove_under_way, case))
    refused(da.FileError, str(case.path(2)), partial(case.checkpoints.latest, case.grid))
    on_root(partial(case.folder.mkdir, exist_ok=True))
    case.save(3)
    case.require(3)


def test_each_call_to_the_file_system_may_fail(folder: Path) -> None:
    """One of them at a time, on root and on the last rank, where they make it."""
    for case in cases(folder):
        for name in ("write_at", "read_at", "sync", "rename", "sync_folder", "unlink"):
            for rank in {0, world.size - 1}:
                real, calls = getattr(place, name), [0]

                def fail(
                    *arguments: Any, real: Any = real, calls: list[int] = calls, **options: Any
                ) -> Any:
                    calls[0] += 1
                    if world.rank == rank:  # noqa: B023
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
                    return real(*arguments, **options)

                case.save(1)  # so that there is one to be removed
                setattr(place, name, fail)
                try:
                    case.save(2)
                    text = ""
                except da.FileError as error:
                    text = str(error)
                finally:
                    setattr(place, name, real)
                texts = world.allgather((text, calls[0]))
                made = texts[rank][1] > 0
                assert {found for found, _ in texts} == {text}, texts
                assert ("Input/output error" in text) == made, (name, rank, texts)
                # What fails after the rename leaves the new one in place.
                case.require(1, 2)
                case.save(3)
                case.require(3)


# The state.


def test_not_a_number(folder: Path) -> None:
    for case in cases(folder):
        arrays = state(case.grid, 2)
        arrays["u"][7, 5] = np.nan

        def save(case: Case = case, arrays: Any = arrays) -> None:
            case.checkpoints.save(arrays, step=2)
            case.checkpoints.latest(case.grid)

        refused(da.FileError, "the array 'u' holds NaN at (7, 5), in its tile (0, 0)", save)
        case.require(1)
    with da.Checkpointer(folder / "allowed", every=1, allow_nan=True) as checkpoints:
        assert checkpoints.save(arrays, step=2)


# The files.


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(1)[0]
        file.seek(place)
        file.write(bytes([before ^ (1 << place % 8)]))


def test_one_flipped_bit_anywhere(folder: Path) -> None:
    case = Case(folder / "run", background=False)
    case.save(2)
    size = os.path.getsize(case.path(2))
    random = Random(1)
    inside, outside = [], []
    with h5py.File(case.path(2), "r", locking=False) as file:
        first = file["u"].id.get_offset()
    for number in range(size):
        (inside if first <= number < first + SIZE else outside).append(number)
    for number in random.sample(inside, 6) + random.sample(outside, 24):
        on_root(partial(flip, case.path(2), number))
        refused(da.FileError, str(case.path(2)), partial(da.load, case.path(2), case.grid))
        if number in inside:
            refused(da.FileError, "tile (0, 0)", partial(da.load, case.path(2), case.grid))
        if number % 10 == 0:
            case.require(1)
        on_root(partial(flip, case.path(2), number))
    case.require(2)


def test_a_truncated_file(folder: Path) -> None:
    case = Case(folder / "run", background=False)
    case.save(2)
    size = os.path.getsize(case.path(2))
    for left in (size - 1, size - 4096, size // 2, 2048, 100, 1, 0):
        case.save(2)
        on_root(partial(os.truncate, case.path(2), left))
        refused(da.FileError, str(case.path(2)), partial(da.load, case.path(2), case.grid))
        case.require(1)


def change(path: Path, action: Callable[[h5py.File], None]) -> None:
    """Damage done by a program that knows the format; the digest fits."""
    with h5py.File(path, "r+") as file:
        action(file)
    sealed_again(path)


def replace(name: str, values: Any, file: h5py.File) -> None:
    attributes = dict(file[name].attrs)
    del file[name]
    if values is not None:
        file[name] = values
        file[name].attrs.update(attributes)


def test_files_of_other_content(folder: Path) -> None:
    damage: dict[str, Callable[[h5py.File], None]] = {
        "format version 99": lambda file: file.attrs.__setitem__("distarray_format", 99),
        "u": partial(replace, "u", None),
        "shape": partial(replace, "u", np.zeros((61, 44))),
        "": partial(replace, "u", np.zeros(SHAPE, "f4")),
    }
    case = Case(folder / "run", background=False)
    for text, action in damage.items():
        case.save(2)
        on_root(partial(change, case.path(2), action))
        refused(da.FileError, str(case.path(2)), partial(da.load, case.path(2), case.grid))
        refused(da.FileError, text, partial(da.load, case.path(2), case.grid))
        case.require(1)
    case.save(2)
    other = da.Grid((61, 42))
    text = "has shape (61, 43), the grid has shape (61, 42)"
    refused(da.FileError, text, partial(da.Checkpointer(case.folder, every=1).latest, other))
    found = case.checkpoints.latest(case.grid)
    assert found is not None
    text = f"The file '{case.path(2)}' has no array 'w'; it holds u."
    refused(da.FileError, text, lambda: found.arrays["w"])
