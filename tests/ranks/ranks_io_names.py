"""What lies at the names that a save uses: links, leftovers, folders and devices."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import distarray as da
from tests.ranks.io_fields import error, on_root, saved, world

RANKS = (1, 3)


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
