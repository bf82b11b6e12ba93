"""A rank that cannot write or read where the others can: one error on all, and nobody waits.

Limits and rights are those of the system, on one rank after the other; a call in which ranks wait
for one another inside the MPI library would end here in a time-out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import distarray as da
from distarray.io import filesystem
from distarray.io.write import WritePlan
from tests.devices import host
from tests.ranks.io_fields import digest, error, on_root, world

RANKS = (3,)
METHODS = ("posix", "mpiio", "root")
#: Ranks along the axes: whole rows of the file for each, or short ones that they bring together.
LONG_ROWS, SHORT_ROWS = (0, 1), (1, 0)


@contextlib.contextmanager
def limited(what: int, most: int, rank: int) -> Iterator[None]:
    """A limit of the system for one rank."""
    soft, hard = resource.getrlimit(what)
    if world.rank == rank:
        resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


@contextlib.contextmanager
def nobody(rank: int) -> Iterator[None]:
    """One rank as a user without rights, if it may be one."""
    changed = os.geteuid() == 0 and world.rank == rank
    if changed:
        os.seteuid(65534)
    try:
        yield
    finally:
        if changed:
            os.seteuid(0)


@contextlib.contextmanager
def removed_before(step: str, folder: Path, rank: int) -> Iterator[None]:
    """The folder goes before a step of the file that all ranks are at, by the hand of one."""
    before = getattr(WritePlan, step)

    def after(plan: WritePlan, *rest: Any) -> None:
        world.Barrier()
        if world.rank == rank:
            shutil.rmtree(folder)
        world.Barrier()
        before(plan, *rest)

    setattr(WritePlan, step, after)
    try:
        yield
    finally:
        setattr(WritePlan, step, before)


class Saved:
    """A file whose values are its step, counted by the attempts to save it."""

    def __init__(self, folder: Path, ranks: tuple[int, int] = LONG_ROWS) -> None:
        self.path = folder / "a.h5"
        self.grid = da.Grid((400, 40), ranks=ranks)
        self.step = 0
        self.save("root")

    def save(self, method: str) -> None:
        self.step += 1
        u = self.grid.zeros() + float(self.step)
        da.save(self.path, {"u": u}, step=self.step, method=method)

    def refused(self, method: str, limit: contextlib.AbstractContextManager[None]) -> str:
        """The error of saving under a limit, which leaves the file from before and nothing else."""
        world.Barrier()
        before = digest(self.path)
        with limit:
            text = error(partial(self.save, method))
        if text != "no error":
            assert digest(self.path) == before
        assert [found.name for found in self.path.parent.iterdir()] == ["a.h5"]
        world.Barrier()
        return text

    def require(self) -> None:
        found = da.load(self.path, self.grid)
        assert found.step == self.step
        assert np.all(host(found.arrays["u"].local) == self.step)


def test_files_of_one_rank_that_cannot_grow(folder: Path) -> None:
    for ranks in (LONG_ROWS, SHORT_ROWS):
        saved = Saved(folder, ranks)
        part = saved.path.stat().st_size // world.size // 2
        for method, limits in (("posix", (part,)), ("mpiio", (0, part))):
            for rank in range(world.size):
                for most in limits:
                    text = saved.refused(method, limited(resource.RLIMIT_FSIZE, most, rank))
                    if ranks == SHORT_ROWS and method == "posix" and text == "no error":
                        continue  # another rank wrote for this one
                    assert text.startswith(f"The file '{saved.path}.partial' cannot be ")
                    assert text.endswith(
                        ": File too large; choose a folder that takes larger files, or raise the "
                        "limit (ulimit -f)."
                    )
                saved.save(method)
                saved.require()


def test_one_rank_that_cannot_open_files(folder: Path) -> None:
    saved = Saved(folder)
    cure = ": Too many open files; check the path, its folder and the free space."
    for method in METHODS:
        for rank in range(world.size):
            text = saved.refused(method, limited(resource.RLIMIT_NOFILE, 0, rank))
            assert text.startswith("The file ")
            assert text.endswith(cure)
            saved.save(method)
    saved.require()


def test_one_rank_that_may_not_write(folder: Path) -> None:
    on_root(partial(folder.parent.chmod, 0o755))
    on_root(partial(folder.chmod, 0o755))
    saved = Saved(folder)
    if os.geteuid() != 0:
        return  # nobody else can be taken for
    for method in METHODS:
        for rank in range(world.size):
            if method == "root" and rank:
                continue  # which opens the file to read alone
            assert "Permission denied" in saved.refused(method, nobody(rank))
            saved.save(method)
    saved.require()


def test_one_rank_that_cannot_read(folder: Path) -> None:
    """By the calls of the system, and by those of MPI-IO, as where many machines share files."""
    for local in (filesystem.LOCAL, frozenset[str]()):
        for ranks in (LONG_ROWS, SHORT_ROWS):
            saved = Saved(folder, ranks)
            kept = filesystem.LOCAL
            filesystem.LOCAL = local
            try:
                for rank in range(world.size):
                    with limited(resource.RLIMIT_NOFILE, 0, rank):
                        text = error(lambda: da.load(saved.path, saved.grid))  # noqa: B023
                    assert f"'{saved.path}'" in text
                    assert "Too many open files" in text
                    saved.require()
            finally:
                filesystem.LOCAL = kept


def test_a_full_disk(folder: Path) -> None:
    """With room for the head of a file and the part of one rank."""
    disk = folder / "disk"
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    mounted = False
    if world.rank == 0 and os.getuid() == 0:
        disk.mkdir()
        mounted = subprocess.run(command, check=False).returncode == 0
    if not world.bcast(mounted):
        return  # needs root; files that cannot grow give the same
    try:
        for ranks in (LONG_ROWS, SHORT_ROWS):
            saved = Saved(disk, ranks)
            for method in METHODS:
                text = saved.refused(method, contextlib.nullcontext())
                assert text == (
                    f"The file '{saved.path}.partial' cannot be written: No space left on device; "
                    "free some space there, or choose another folder."
                )
            assert da.load(saved.path, saved.grid).step == 1
            world.Barrier()
            on_root(saved.path.unlink)
    finally:
        world.Barrier()
        on_root(partial(subprocess.run, ["umount", str(disk)], check=True))


def test_a_folder_that_is_removed_by_one_rank(folder: Path) -> None:
    """At each step of a file on its way: the error names the file or its folder."""
    grid = da.Grid((40, 30))
    steps = ("lay_out", "write", "combine", "publish")
    for method in METHODS:
        for step in steps:
            for rank in {0, world.size - 1}:
                path = folder / f"{method}-{step}-{rank}" / "a.h5"
                on_root(path.parent.mkdir)
                with removed_before(step, path.parent, rank):
                    text = error(lambda: da.save(path, {"u": grid.ones()}, method=method))  # noqa: B023
                assert f"'{path}" in text
                assert text.endswith(
                    "No such file or directory; check the path, its folder and the free space."
                )
                world.Barrier()
                assert not path.parent.exists()
                world.Barrier()
