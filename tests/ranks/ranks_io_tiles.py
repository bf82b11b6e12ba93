"""Files of many tiles on several ranks: checksums that no cut changes, the three ways to write, the
memory that it takes, and damage that all ranks are told of.

Tiles have edges of 4 here, so that every block holds and cuts several; the arrays hold the global
index of their elements.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import resource
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from mpi4py import MPI

import distarray as da
from distarray.io import boxes, filesystem, hdf5, tiles, verify, write
from tests.devices import host
from tests.ranks.common import process_grids
from tests.ranks.io_fields import OPTIONS, SHAPE, check, counts, error, fields, numbers, save, sub

RANKS = (1, 2, 3, 4, 8)
SELDOM = (2, 4, 8)
TIMEOUT = 240
ALONE = True  # it measures the memory of the process

world = MPI.COMM_WORLD


@contextlib.contextmanager
def small_tiles() -> Iterator[None]:
    """Tiles with edges of 4, and pieces of a few tiles."""
    cells, chunk = tiles._CELLS, boxes.CHUNK
    tiles._CELLS = 64
    boxes.CHUNK = 20_000
    try:
        yield
    finally:
        tiles._CELLS = cells
        boxes.CHUNK = chunk


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def on_root(action: Any) -> None:
    if world.rank == 0:
        action()
    world.Barrier()


def check_tables(path: Path) -> None:
    """Each checksum is that of the bytes of its tile, as h5py reads them."""
    with h5py.File(path, locking=False) as file:
        names = list(file["distarray/checksums"])
        assert sorted(names) == sorted(fields(da.Grid(SHAPE, comm=MPI.COMM_SELF, **OPTIONS)))
        for name in names:
            table, values = file[f"distarray/checksums/{name}"], file[name][()]
            edges = table.attrs["tile"].tolist()
            assert edges == [1] * (values.ndim - 3) + [4, 4, 4]
            for index in np.ndindex(table.shape):
                part = tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, edges, strict=True))
                assert table[index] == zlib.crc32(values[part].tobytes()), (name, index)
            assert table.shape == tuple(
                -(-n // e) for n, e in zip(values.shape, edges, strict=True)
            )


def test_written_on_n_ranks_read_on_m(folder: Path) -> None:
    """In a job of k ranks: written on each n up to k and read on each m, one of them k."""
    with small_tiles():
        for n in counts():
            comm = sub(n)
            if comm != MPI.COMM_NULL:
                save(folder / f"{n}.h5", comm)
            world.Barrier()
        assert len({digest(folder / f"{n}.h5") for n in counts()}) == 1
        on_root(lambda: check_tables(folder / "1.h5"))
        for n, m in itertools.product(counts(), counts()):
            comm = sub(m) if world.size in (n, m) else MPI.COMM_NULL
            if comm != MPI.COMM_NULL:
                check(folder / f"{n}.h5", comm)


def test_all_process_grids_write_and_read_the_same(folder: Path) -> None:
    with small_tiles():
        first = None
        for number, ranks in enumerate(process_grids(3, SHAPE)):
            path = folder / f"{number}.h5"
            save(path, ranks=ranks)
            first = first or digest(path)
            assert digest(path) == first
            check(folder / "0.h5", ranks=ranks)
    assert len(set(world.allgather(first))) == 1


def test_all_ways_write_the_same_bytes(folder: Path) -> None:
    arrays = fields(da.Grid(SHAPE, **OPTIONS))
    with small_tiles():
        for method in ("posix", "mpiio", "root"):
            da.save(folder / f"{method}.h5", arrays, step=1, method=method)
        with stand_in():
            da.save(folder / "h5py.h5", arrays, step=1, method="h5py")
            da.save(folder / "chosen.h5", arrays, step=1)
    da.save(folder / "default.h5", arrays, step=1, method="root")
    names = ("posix", "mpiio", "root", "h5py", "chosen")
    assert len({digest(folder / f"{name}.h5") for name in names}) == 1
    with h5py.File(folder / "default.h5", locking=False) as file:  # of other tiles, same values
        for name, array in arrays.items():
            assert np.array_equal(file[name][()], numbers(array.shape, array.dtype))


class StandIn:
    """An h5py for MPI, as far as the library uses it: ranks open a file together and write into its
    datasets, each on its own. Here they take turns with the serial h5py.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(h5py, name)

    def get_config(self) -> Any:
        return type("Config", (), {"mpi": True})()

    def File(self, path: str, mode: str, **options: Any) -> Any:  # noqa: N802  (h5py's name)
        if options.get("driver") != "mpio":
            return h5py.File(path, mode, **options)
        assert mode == "r+"
        assert set(options) == {"driver", "comm", "locking"}
        return TurnTaking(path, options["comm"])


class TurnTaking:
    def __init__(self, path: str, comm: MPI.Intracomm) -> None:
        self.path, self.comm = path, comm
        self.writes: list[tuple[str, Any, Any]] = []

    def __enter__(self) -> TurnTaking:
        self.comm.Barrier()
        return self

    def __getitem__(self, name: str) -> Any:
        found = TurnTaking(self.path, self.comm)
        found.writes, found.name = self.writes, name
        return found

    def __setitem__(self, where: Any, values: Any) -> None:
        self.writes.append((self.name, where, values.copy()))

    def __exit__(self, *_: object) -> None:
        for rank in range(self.comm.size):
            if rank == self.comm.rank:
                with h5py.File(self.path, "r+", locking=False) as file:
                    for name, where, values in self.writes:
                        file[name][where] = values
            self.comm.Barrier()


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    real = hdf5.h5py_module
    hdf5.h5py_module = StandIn
    try:
        yield
    finally:
        hdf5.h5py_module = real


def test_the_way_is_chosen_by_the_file_system(folder: Path) -> None:
    arrays = fields(da.Grid(SHAPE, **OPTIONS))
    table = filesystem._TABLE
    expected = {"nfs4": "root", "fuse.sshfs": "root", "ext4": "posix", "lustre": "mpiio"}
    for kind, method in expected.items():
        on_root(lambda kind=kind: (folder / "m").write_text(f"1 0 0:1 / / rw - {kind} a rw\n"))
        filesystem._TABLE = str(folder / "m")
        try:
            plan = write.begin_save(folder / "a.h5", arrays)
        finally:
            filesystem._TABLE = table
        assert plan.method == (method if world.size > 1 else "root")
        assert plan.side_by_side == (world.size == 1 or method != "root")
        world.Barrier()


def test_copies_are_written_by_each_rank_alone(folder: Path) -> None:
    """As behind a run: each rank writes and checks without the others."""
    arrays = fields(da.Grid(SHAPE, **OPTIONS))
    copies = [host(array.local).copy() for array in arrays.values()]
    with small_tiles():
        da.save(folder / "a.h5", arrays)
        plan = write.begin_save(folder / "b.h5", arrays, method="mpiio", with_xdmf=True)
        plan.lay_out()
        plan.write_here(copies)
        plan.combine()
        plan.check()
        world.Barrier()
        assert not (folder / "b.h5").exists()
        world.Barrier()
        plan.publish()
        world.Barrier()
        assert digest(folder / "a.h5") == digest(folder / "b.h5")
        plan = write.begin_save(folder / "c.h5", arrays, method="root", with_xdmf=True)
        plan.lay_out()
        plan.write(copies)
        plan.finish()
    assert digest(folder / "a.h5") == digest(folder / "c.h5")


def test_a_flipped_bit_is_told_to_all_ranks(folder: Path) -> None:
    grid = da.Grid(SHAPE, **OPTIONS)
    path = folder / "a.h5"
    with small_tiles():
        da.save(path, fields(grid))
        world.Barrier()

        def flip() -> None:
            with h5py.File(path, "r+") as file:
                values = file["nodes"]
                values[12, 9, 5] ^= 64
                values[3, 4, 8] ^= 1

        on_root(flip)
        text = error(lambda: da.load(path, grid))
        assert text.startswith(
            f"The file '{path}' is damaged: tile (0, 1, 2) of the array 'nodes', elements "
            "[0:4, 4:8, 8:12], has checksum "
        )
        assert list(da.load(path, grid, names=["u", "z"]).arrays) == ["u", "z"]
        found = verify.verify(str(path))
        places = [problem.split(" of the array")[0].split(": ")[1] for problem in found.problems]
        assert places == ["tile (0, 1, 2)", "tile (3, 2, 1)"]


def test_a_bit_that_is_lost_on_the_way_to_the_disk(folder: Path) -> None:
    """Whichever rank reads it back, all are told; the old file stays."""
    grid = da.Grid(SHAPE, **OPTIONS)
    path = folder / "a.h5"
    with small_tiles():
        da.save(path, fields(grid))
        before = digest(path)
        world.Barrier()
        for name in ("temperature", "B", "solid"):
            plan = write.begin_save(path, fields(grid))
            plan.lay_out()
            plan.write(fields(grid).values())
            plan.combine()

            def lose(plan: write.WritePlan = plan, name: str = name) -> None:
                (array,) = (array for array in plan.record.arrays if array.name == name)
                with Path(plan.partial).open("r+b") as file:
                    file.seek(array.offset + array.nbytes - 1)
                    file.write(b"\xaa")

            on_root(lose)
            text = error(lambda plan=plan: checked(plan))
            assert text.startswith(f"The file '{path}.partial' is damaged: tile (")
            assert f"of the array '{name}'" in text
            plan.abandon()
            world.Barrier()
    assert digest(path) == before


def checked(plan: write.WritePlan) -> None:
    from distarray.io.agreement import agreed

    with agreed(plan.communicator, "the check"):
        plan.check()


def test_nan_on_one_rank_is_told_to_all(folder: Path) -> None:
    grid = da.Grid((16, 12))
    u = grid.zeros()
    u[13, 5] = np.nan
    for method in ("posix", "mpiio", "root"):
        plan = write.begin_save(folder / "a.h5", {"u": u}, refuse_nan=True, method=method)
        plan.lay_out()
        text = error(lambda plan=plan: plan.write([u]))
        assert "the array 'u' holds NaN at (13, 5), in its tile (0, 0); " in text
        plan.abandon()
        world.Barrier()
    assert not list(folder.iterdir())


def test_precision_changes_only_when_asked(folder: Path) -> None:
    grid = da.Grid(SHAPE, **OPTIONS)
    with small_tiles():
        save(folder / "a.h5")
        found = da.load(folder / "a.h5", grid, dtype=np.float32).arrays
    for name, array in found.items():
        old = fields(grid)[name].dtype
        new = {"f8": "f4", "c16": "c8"}.get(old.str[1:], old)
        assert array.dtype == np.dtype(new)
        expected = numbers(array.shape, old).astype(new)[array.local_slices]
        np.testing.assert_array_equal(host(array.local), expected)


def peak() -> int:
    """The most memory this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_files_take_little_memory(folder: Path) -> None:
    """A state of 128 MiB, and less than 64 MiB besides on each rank."""
    if world.size > 2:
        return  # these have less than two pieces each
    grid = da.Grid((256, 256, 256))
    u = grid.empty()
    with u.writing() as block:
        block[...] = 1.5
    da.save(folder / "warm.h5", {"u": da.Grid((8, 8, 8)).zeros()})
    for method in ("root", "mpiio", "posix"):
        before = peak()
        da.save(folder / "a.h5", {"u": u}, method=method)
        grown = peak() - before
        assert grown < 64 << 20, f"{method}: {grown / 2**20:.0f} MiB"
    new = grid.empty()
    with new.writing() as block:
        block[...] = 0.0
    del u
    before = peak()
    found = da.load(folder / "a.h5", grid)
    grown = peak() - before
    assert grown < 64 << 20, f"load: {grown / 2**20:.0f} MiB"
    assert found.arrays["u"].min() == 1.5
