"""Which calls of MPI-IO move values: collective ones with ROMIO, else those of each rank alone."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray import comm
from distarray.comm import mpi_files
from distarray.comm.base import BlockPiece
from distarray.io import filesystem
from distarray.regions import Box
from tests.devices import host
from tests.ranks.io_fields import digest, error, on_root, world

RANKS = (1, 2, 3)
SELDOM = (2,)
#: As mpi4py has found it when it was built or loaded.
TOGETHER = MPI.get_vendor()[0] != "Open MPI"


class Noted:
    """The module MPI, whose files note what is called; or which says that it is of a version."""

    def __init__(self, version: str = "") -> None:
        self.calls: list[tuple[str, Any]] = []
        if version:
            self.Get_library_version = lambda: version
        self.File = self

    def __getattr__(self, name: str) -> Any:
        return getattr(MPI, name)

    def Open(self, ranks: MPI.Intracomm, *rest: Any) -> NotedFile:  # noqa: N802 - a name of mpi4py
        self.calls.append(("Open", ranks.size))
        return NotedFile(self, MPI.File.Open(ranks, *rest))


class NotedFile:
    def __init__(self, noted: Noted, file: MPI.File) -> None:
        self.noted, self.file = noted, file

    def __getattr__(self, name: str) -> Any:
        hints = self.file.Get_info()
        self.noted.calls.append((name, hints.Get("romio_cb_write")))
        hints.Free()
        return getattr(self.file, name)


@contextlib.contextmanager
def as_mpi(noted: Noted) -> Iterator[Noted]:
    kept, mpi_files.MPI = mpi_files.MPI, noted
    try:
        yield noted
    finally:
        mpi_files.MPI = kept


def require(calls: list[tuple[str, Any]], word: str) -> None:
    """One file was opened by all ranks, or by each; what moved the values fits."""
    names = [name for name, _ in calls]
    assert (names[0], names[-1]) == ("Open", "Close")
    if TOGETHER:
        assert set(names) == {"Open", "Set_view", f"{word}_all", "Close"}
        assert {size for name, size in calls if name == "Open"} == {world.size}
        # Else an error of a rank leaves others waiting, where the call takes several rounds.
        assert {hint for name, hint in calls if name != "Open"} == {"disable"}
        assert world.allgather(names) == [names] * world.size
    else:
        assert set(names) <= {"Open", f"{word}_at", "Close"}
        assert {size for name, size in calls if name == "Open"} == {1}
        assert any(f"{word}_at" in of_rank for of_rank in world.allgather(names))


def test_calls_that_move_values(folder: Path) -> None:
    """Of arrays with long rows and with short ones, of other types too; bytes as by root."""
    one = world.size == 1  # which takes the calls of the system: here it is asked directly
    for number, ranks in enumerate(((world.size, 1, 1), (1, world.size, 1), (1, 1, world.size))):
        grid = da.Grid((12, 9, 300), ranks=ranks)
        u = grid.from_function(lambda x, y, z: x + 10 * y + 100 * z, components=2)
        state = {"u": u, "n": u.astype("int32"), "few": grid.ones(location="xyz")}
        da.save(folder / f"root-{number}.h5", state, method="root")
        with as_mpi(Noted()) as noted:
            da.save(folder / f"{number}.h5", state, method="mpiio")
        if not one:
            require(noted.calls, "Write")
        world.Barrier()
        assert digest(folder / f"{number}.h5") == digest(folder / f"root-{number}.h5")
        kept, filesystem.LOCAL = filesystem.LOCAL, frozenset()
        try:
            with as_mpi(Noted()) as noted:
                found = da.load(folder / f"{number}.h5", grid)
        finally:
            filesystem.LOCAL = kept
        if not one:
            require(noted.calls, "Read")
        for name, array in state.items():
            np.testing.assert_array_equal(host(found.arrays[name].local), host(array.local))


def test_libraries_that_have_romio() -> None:
    """By what they say of themselves."""
    said = {
        "MPICH Version:      5.0.2\nMPICH ABI:          18:2:6": True,
        "MPI VERSION    : CRAY MPICH version 8.1.29.5 (ANL base 3.4a2)\n": True,
        "Intel(R) MPI Library 2021.13 for Linux* OS\n": True,
        "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date : ": True,
        "Open MPI v5.0.11, package: Open MPI user@MPICH Distribution, ident: 5.0.11": False,
        "Some MPI 1.0": False,
    }
    for version, expected in said.items():
        with as_mpi(Noted(version)):
            assert mpi_files.has_collective_files() is expected, version
    assert mpi_files.has_collective_files() is TOGETHER


def test_an_error_early_in_a_large_part(folder: Path) -> None:
    """Of more bytes than a library keeps before it writes; limits come once the file is open."""
    ours = comm.default(world)
    path, shape = folder / "blocks", (2048, 8192 * world.size)
    mine = Box((0, 8192 * world.rank), (2048, 8192 * (world.rank + 1)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def pieces(rank: int) -> Iterator[BlockPiece]:
        if world.rank == rank:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        yield BlockPiece(0, shape, mine, np.full(mine.shape, world.rank + 1, np.uint8))

    for rank in range(world.size):
        on_root(partial(path.write_bytes, b""))
        on_root(lambda: path.open("r+b").truncate(shape[0] * shape[1]))
        try:
            text = error(lambda: ours.write_blocks(str(path), pieces(rank)))  # noqa: B023
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert text == (
            f"The file '{path}' cannot be written: File too large; choose a folder that takes "
            "larger files, or raise the limit (ulimit -f)."
        )
    ours.write_blocks(str(path), pieces(-1))
    expected = np.repeat(np.arange(1, world.size + 1, dtype=np.uint8), 8192)
    assert np.all(np.fromfile(path, np.uint8).reshape(shape) == expected)
    ours.barrier()
