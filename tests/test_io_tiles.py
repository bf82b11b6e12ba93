"""Tiles, runs and checksums, against NumPy and a CRC-32 that is written out here; file systems."""

from __future__ import annotations

import itertools
import math
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from distarray.io import crc, filesystem
from distarray.io.checksums import Buffer, Checksums, combined, divided
from distarray.io.record import ArrayRecord
from distarray.io.tiles import (
    chunks,
    equal_tiles,
    runs,
    shares,
    tile_box,
    tile_counts,
    tile_shape,
    tiles_over,
)
from distarray.regions import Box


def crc32(octets: bytes) -> int:
    """CRC-32 as ISO 3309 defines it, bit by bit: the polynomial 0x04C11DB7, reflected."""
    value = 0xFFFFFFFF
    for octet in octets:
        value ^= octet
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_the_crc_of_the_standard() -> None:
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("dtype", ["u1", "<f4", "<c16"])
@pytest.mark.parametrize("piece", [1, 100, 1 << 18])
def test_the_crc_of_a_box_is_that_of_zlib(
    piece: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of every kind of stride, in pieces of every kind of length."""
    monkeypatch.setattr(crc, "_PIECE", piece)
    values = np.random.default_rng(piece).integers(0, 256, (5, 3, 37)).astype(dtype)
    boxes = (np.s_[:], np.s_[..., :30], np.s_[1:4, :, 3:21], np.s_[2, 1:2, 5:], np.s_[1, 1, 1])
    for part in (*(values[box] for box in boxes), values.T, values[..., ::-1], values[:, :0, 1:]):
        assert crc.of_values(np.asarray(part)) == zlib.crc32(part.tobytes())


def test_the_crc_of_the_extra_is_that_of_zlib() -> None:
    fast = pytest.importorskip("isal.isal_zlib", reason="no package isal (extra files)").crc32
    assert crc.crc32 is fast
    octets = np.random.default_rng(5).bytes(1000)
    for size in (0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 1000):
        assert fast(octets[:size]) == zlib.crc32(octets[:size]) == crc32(octets[:size])
        assert fast(octets[size:], fast(octets[:size])) == zlib.crc32(octets)


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(1, 9))
def test_shares_of_tiles_follow_one_another(counts: list[int], of: int) -> None:
    numbers = np.arange(math.prod(counts)).reshape(counts)
    found = [numbers[box.slices()].reshape(-1) for k in range(of) for box in shares(counts, k, of)]
    assert np.concatenate([*found, []]).tolist() == list(range(math.prod(counts)))


@given(st.deferred(lambda: st.tuples(places(), places())), st.integers(1, 200))
def test_chunks_over_a_box_are_those_that_share_elements(
    drawn: tuple[Any, Any], largest: int
) -> None:
    (shape, tile, box), (_, _, other) = drawn
    if len(other.start) != len(shape):
        return
    expected = [one for one in chunks(box, tile, largest) if not one.intersection(other).empty]
    assert list(chunks(box, tile, largest, over=other)) == expected


@st.composite
def places(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Box]:
    """A shape, a tile and a box in the shape."""
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    tile = tuple(draw(st.integers(1, 5)) for _ in shape)
    pairs = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    return shape, tile, Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


@given(places())
def test_tiles_over_a_box_are_those_that_hold_its_elements(
    place: tuple[tuple[int, ...], tuple[int, ...], Box],
) -> None:
    shape, tile, box = place
    elements = np.argwhere(np.ones(box.shape)) + np.array(box.start)
    expected = {tuple(map(int, element // np.array(tile))) for element in elements}
    found = list(tiles_over(box, tile))
    assert len(found) == len(set(found))
    assert set(found) == expected
    for index in found:
        assert tile_box(index, shape, tile).intersection(box).size > 0


@given(places())
def test_equal_tiles_have_the_sizes_of_their_boxes(
    place: tuple[tuple[int, ...], tuple[int, ...], Box],
) -> None:
    shape, tile, _ = place
    sizes = np.zeros(tile_counts(shape, tile), int)
    for tiles, size in equal_tiles(shape, tile):
        assert not sizes[tiles.slices()].any()
        sizes[tiles.slices()] = size
    for index in np.ndindex(sizes.shape):
        assert sizes[index] == tile_box(index, shape, tile).size


@given(places(), st.integers(1, 200))
def test_chunks_cover_a_box_once_and_share_no_tile(
    place: tuple[tuple[int, ...], tuple[int, ...], Box], largest: int
) -> None:
    shape, tile, box = place
    times, seen = np.zeros(shape, int), []
    for chunk in chunks(box, tile, largest):
        times[chunk.slices()] += 1
        tiles = list(tiles_over(chunk, tile))
        assert chunk.size <= largest or len(tiles) == 1
        seen += tiles
    expected = np.zeros(shape, int)
    expected[box.slices()] = 1
    assert np.array_equal(times, expected)
    assert len(seen) == len(set(seen))


@given(places())
def test_runs_are_where_numpy_has_the_elements(
    place: tuple[tuple[int, ...], tuple[int, ...], Box],
) -> None:
    shape, _, box = place
    firsts, count = runs(shape, box)
    found = [k for first in firsts.tolist() for k in range(first, first + count)]
    index = np.arange(math.prod(shape)).reshape(shape)
    assert found == index[box.slices()].reshape(-1).tolist()
    if len(shape) > 1 and box.shape[1:] == shape[1:] and box.size:
        assert len(firsts) == 1


def array_record(shape: Sequence[int], components: Sequence[int], dtype: str) -> ArrayRecord:
    none = (0,) * len(shape)
    return ArrayRecord("u", dtype, None, tuple(components), tuple(shape), none, "{}")


def cut(shape: Sequence[int], random: np.random.Generator) -> list[Box]:
    """A partition of the index space into boxes, some perhaps empty."""
    boxes = [Box.of_shape(shape)]
    for axis in range(len(shape)):
        where = sorted(random.integers(0, shape[axis] + 1, 2).tolist())
        edges = [0, *where, shape[axis]]
        boxes = [box.with_axis(axis, a, b) for box in boxes for a, b in itertools.pairwise(edges)]
    return boxes


@pytest.mark.parametrize("dtype", ["|b1", "<i4", "<f4", "<f8", "<c16"])
@pytest.mark.parametrize("case", range(4))
def test_any_cut_gives_the_checksums_of_whole_tiles(
    monkeypatch: pytest.MonkeyPatch, dtype: str, case: int
) -> None:
    monkeypatch.setattr("distarray.io.tiles._CELLS", 27)  # edges of 3 in 3-D
    random = np.random.default_rng(case)
    array = array_record((7, 4, 5), (2,), dtype)
    octets = random.integers(0, 256, math.prod(array.shape) * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "|b1":
        octets %= 2
    values = octets.view(dtype).reshape(array.shape)
    parts = []
    for box in cut(array.shape, random):
        sums = Checksums(array, Buffer())
        if not box.empty:
            sums.add(box, values[box.slices()])
        parts.append(sums)
    together = np.bitwise_xor.reduce([part.table for part in parts])
    found = parts[0].finished(together)
    assert array.tile == (1, 3, 3, 3)
    assert found.shape == (2, 3, 2, 2)
    for index in np.ndindex(found.shape):
        part = values[
            tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, array.tile, strict=True))
        ]
        assert found[index] == zlib.crc32(part.tobytes())
    first = values[:1, :3, :3, :3]
    assert found[0, 0, 0, 0] == crc32(first.tobytes())


def test_a_changed_bit_changes_the_checksum_of_its_tile_alone() -> None:
    array = array_record((700, 600), (), "<f8")
    values = np.random.default_rng(1).random((700, 600))
    whole = Box.of_shape(array.shape)
    tables = []
    for _ in range(2):
        sums = Checksums(array, Buffer())
        sums.add(whole, values)
        tables.append(sums.finished(sums.table))
        values.view(np.uint64)[600, 100] ^= 1
    assert array.tile == (512, 512)
    assert np.argwhere(tables[0] != tables[1]).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("components", "points", "tile"),
    [
        ((), (1000,), (1 << 18,)),
        ((), (1000, 10), (512, 512)),
        ((3,), (8, 8, 8), (1, 64, 64, 64)),
        ((2, 2), (8, 8), (1, 1, 512, 512)),
    ],
)
def test_tiles_have_equal_sizes_and_one_component(
    components: tuple[int, ...], points: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    assert tile_shape(components, points) == tile


def test_tables_of_several_arrays_travel_together() -> None:
    tables = [np.arange(6, dtype=np.uint32).reshape(2, 3), np.zeros((0, 4), np.uint32)]
    tables.append(np.array([[9]], np.uint32))
    flat = combined(tables)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 9]
    for table, again in zip(tables, divided(flat, tables), strict=True):
        assert np.array_equal(table, again)
        assert table.shape == again.shape
    assert combined([]).dtype == np.uint32
    assert tile_counts((7, 0), (3, 3)) == (3, 0)


# File systems.

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /home rw - nfs4 server:/home rw,vers=4.2
31 22 0:31 / /scratch rw master:1 - lustre mds:/fs rw
32 30 0:32 / /home/me/my\040disk rw - xfs /dev/sdb rw
33 22 0:33 / /data rw - ext4 /dev/sdc rw
34 22 0:34 / /data rw - fuse.sshfs host:/data rw
35 22 0:35 / /homes rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "many"),
    [
        ("/", "ext4", True),
        ("/var/tmp", "ext4", True),
        ("/home", "nfs4", False),
        ("/home/me/run", "nfs4", False),
        ("/home/me/my disk/run", "xfs", True),
        ("/homes/run", "tmpfs", True),
        ("/scratch/run", "lustre", True),
        ("/data/run", "fuse.sshfs", False),  # mounted over the other
    ],
)
def test_the_file_system_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, many: bool
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    monkeypatch.setattr(filesystem, "_TABLE", str(table))
    monkeypatch.setattr(filesystem.os.path, "realpath", lambda name: name)
    assert filesystem.kind_of(path) == kind
    assert filesystem.takes_many_writers(path) is many


def test_a_link_is_followed_to_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / {tmp_path}/far rw - nfs b rw\n")
    monkeypatch.setattr(filesystem, "_TABLE", str(table))
    assert filesystem.kind_of(str(tmp_path / "near")) == "nfs"


def test_what_is_not_known_takes_one_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "_TABLE", str(tmp_path / "none"))
    assert filesystem.kind_of("/") == ""
    assert not filesystem.takes_many_writers("/")


def test_this_machine_is_known() -> None:
    kind: Any = filesystem.kind_of("")
    assert kind


def test_memory_does_not_grow_with_the_number_of_arrays(tmp_path: Path) -> None:
    """Tiles of 1 MiB that have to be copied to be contiguous."""
    grid = da.Grid((64, 66, 64))
    u = grid.ones("f4")
    tracemalloc.start()
    try:
        da.save(tmp_path / "a.h5", {f"u{k}": u for k in range(24)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20
