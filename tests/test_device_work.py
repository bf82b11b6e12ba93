"""What devices are handed: where memory lies, what work touches, one launch for many copies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.backends import device_copies
from distarray.backends.accelerator import AcceleratorBackend
from distarray.backends.base import BoxCopy
from distarray.backends.device_array import DeviceArray
from distarray.backends.simulated.driver import SimulatedDriver
from distarray.errors import BackendError, RaceError
from distarray.regions import Box
from distarray.stencil import tracing
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.launch import ArrayView, LaunchGeometry
from tests.device_tools import Listed, Recorded, same, values_of
from tests.devices import provokes_races


@pytest.fixture(params=["compiled", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AcceleratorBackend:
    """A simulated device, with a compiler and without."""
    if request.param == "numpy":
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    return AcceleratorBackend(SimulatedDriver())


# ---- texts


def test_pointers_into_one_array_are_not_called_restrict() -> None:
    driver = Listed()
    if not driver.compiles:
        pytest.skip("no C++ compiler: there is no text")
    backend = AcceleratorBackend(driver)

    def double(u, new):  # type: ignore[no-untyped-def]
        new[0] = u[0] * 2

    described = [ArrayParameter(name, np.dtype("f8"), (), (False,)) for name in ("u", "new")]
    program = tracing.trace(double, described, {}, {}, ndim=1)
    one, other = (backend.asarray(values_of((9,))) for _ in range(2))
    geometry = LaunchGeometry((0,), (9,), (False,), None)
    for second, restricted in ((other, True), (one, False)):
        views = [ArrayView(array, (0,), (0,)) for array in (one, second)]
        for act in (
            lambda views=views: backend.bind(program, views, geometry).run(Box((0,), (9,))),
            backend.prepare_map(np.negative, [one], second),
        ):
            act()
        for text in (driver.texts.pop(0), driver.texts.pop(0)):
            assert ("double *__restrict__" in text) is restricted
    assert not driver.texts


# ---- memory


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("halo", [0, 1, 2, 4])
def test_owned_rows_start_whole_lines(backend: AcceleratorBackend, dtype: str, halo: int) -> None:
    memory = backend.allocate((2,), (5, 40), (halo, halo), np.dtype(dtype))
    owned = memory[:, halo : 5 - halo, halo : 40 - halo]
    for component, row in itertools.product(range(2), range(5 - 2 * halo)):
        assert owned[component, row].address % 128 == 0


def test_dropped_arrays_live_until_their_work_is_done(backend: AcceleratorBackend) -> None:
    total = backend.asarray(np.zeros(1000))
    for number in range(20):
        total += backend.asarray(np.full(1000, float(number))) * 2
    same(total, np.full(1000, 380.0))


# ---- what work touches


def test_a_run_reads_no_further_than_its_boxes() -> None:
    driver = Recorded()
    backend = AcceleratorBackend(driver)

    def spread(u, new):  # type: ignore[no-untyped-def]
        new[0, 0] = u[0][-1, 0] + u[0][1, 0] + u[1][0, 2]

    arrays = [
        ArrayParameter("u", np.dtype("f8"), (2,), (False, False)),
        ArrayParameter("new", np.dtype("f8"), (), (False, False)),
    ]
    program = tracing.trace(spread, arrays, {}, {}, ndim=2)
    u = backend.allocate((2,), (12, 14), (2, 2), np.dtype("f8"))
    new = backend.allocate((), (12, 14), (2, 2), np.dtype("f8"))
    views = [ArrayView(memory, (2, 2), (0, 0)) for memory in (u, new)]
    launch = backend.bind(program, views, LaunchGeometry((0, 0), (8, 10), (False, False), None))
    driver.given.clear()
    launch.run_boxes(((Box((1, 2), (5, 7)), -1),))
    ((_, accesses),) = driver.given

    def touched(memory: DeviceArray) -> set[tuple[int, tuple[int, ...], bool]]:
        return {
            (access.address, access.shape, access.write)
            for access in accesses
            if access.allocation is memory.allocation
        }

    assert touched(new) == {(new[3, 4].address, (4, 5), True)}
    assert touched(u) == {
        (u[0, 2, 4].address, (6, 5), False),
        (u[1, 3, 6].address, (4, 5), False),
    }


def test_a_run_reads_finer_and_coarser_arrays_and_profiles_where_it_needs_them() -> None:
    driver = Recorded()
    backend = AcceleratorBackend(driver)

    def mix(new, fine, coarse, along):  # type: ignore[no-untyped-def]
        new[0] = fine.fine[1] + coarse.coarse[-1] + coarse.coarse[0] + along[2]

    double = np.dtype("f8")
    described = [
        ArrayParameter("new", double, (), (False,)),
        ArrayParameter("fine", double, (), (False,), level=1),
        ArrayParameter("coarse", double, (), (False,), level=-1),
        ArrayParameter("along", double, (), None, profile_axis=0),
    ]
    program = tracing.trace(mix, described, {}, {}, ndim=1)
    # 8 cells from global index 5 on; finer from 10 on, coarser from 2 on; one halo cell each.
    new, fine, coarse, along = (backend.asarray(np.zeros(n)) for n in (10, 18, 7, 12))
    views = [
        ArrayView(new, (1,), (5,)),
        ArrayView(fine, (1,), (10,)),
        ArrayView(coarse, (1,), (2,)),
        ArrayView(along, (1,), (5,)),
    ]
    launch = backend.bind(program, views, LaunchGeometry((5,), (40,), (False,), None))
    driver.given.clear()
    launch.run_boxes(((Box((2,), (6,)), -1),))
    ((_, accesses),) = driver.given
    found = {
        name: (access.address - array.address, access.shape, access.strides)
        for name, array in {"new": new, "fine": fine, "coarse": coarse, "along": along}.items()
        for access in accesses
        if access.allocation is array.allocation
    }
    # Global cells 7 to 10: finer 2 i + 1 = 15, 17, 19, 21; coarser i // 2 - 1 to i // 2 = 2 to 5.
    assert found == {
        "new": (8 * (1 + 2), (4,), (8,)),
        "fine": (8 * (1 + 15 - 10), (4,), (16,)),
        "coarse": (8 * (1 + 2 - 2), (4,), (8,)),
        "along": (8 * (1 + 2 + 2), (4,), (8,)),
    }


@provokes_races
def test_a_missing_wait_before_a_copy_is_a_race(backend: AcceleratorBackend) -> None:
    field, packed = backend.asarray(values_of((6, 6))), backend.empty((6,), "f8")
    copies = backend.prepare_copies([BoxCopy(field[:, 0], packed)])
    with pytest.raises(RaceError):
        copies(backend.communication)
    backend.compute.synchronize()
    copies(backend.communication)
    with pytest.raises(RaceError):
        packed[...] = 0


@provokes_races
def test_results_of_reductions_are_written_by_compute(backend: AcceleratorBackend) -> None:
    def total(u):  # type: ignore[no-untyped-def]
        return da.reduce.sum(u[0])

    described = [ArrayParameter("u", np.dtype("f8"), (), (False,))]
    program = tracing.trace(total, described, {}, {}, ndim=1)
    view = ArrayView(backend.asarray(values_of((5,))), (0,), (0,))
    launch = backend.bind(program, [view], LaunchGeometry((0,), (5,), (False,), None))
    (result,) = launch.device_partials()
    read = backend.prepare_copies([BoxCopy(result, backend.empty((1,), "f8"))])
    launch.reset_reductions()
    backend.compute.synchronize()
    read(backend.communication)
    backend.communication.synchronize()
    launch.run_boxes(((Box((0,), (5,)), -1),))
    with pytest.raises(RaceError, match="total"):
        read(backend.communication)
    assert launch.partials()[0].tolist() == [15.0]


# ---- numbers that lie on the device


class OnDevice:
    """A value as `Pending` offers one: in the form of `union scalar`, or not at all."""

    def __init__(self, device_value: DeviceArray | None, result: float = 0.0) -> None:
        self.device_value, self._result = device_value, result

    def result(self) -> float:
        return self._result


def test_scalars_are_taken_from_the_device(backend: AcceleratorBackend) -> None:
    def scale(u, *, a, b, c):  # type: ignore[no-untyped-def]
        u[0] = a * 100 + b * 10 + c

    described = [ArrayParameter("u", np.dtype("f8"), (), (False,))]
    program = tracing.trace(scale, described, {"a": float, "b": float, "c": int}, {}, ndim=1)
    memory = backend.asarray(np.zeros(4))
    geometry = LaunchGeometry((0,), (4,), (False,), None)
    launch = backend.bind(program, [ArrayView(memory, (0,), (0,))], geometry)
    box = ((Box((0,), (4,)), -1),)
    number = backend.asarray(np.array([[7.0], [0.0]]))
    for values, expected in (
        ([1.0, OnDevice(number), 3], 173.0),
        ([1.0, 2.0, 3], 123.0),
        ([OnDevice(number), OnDevice(number), 3], 773.0),
        ([OnDevice(None, 4.0), OnDevice(number), 5], 475.0),
    ):
        launch.set_scalars(values)
        launch.run_boxes(box)
        same(memory, np.full(4, expected))
    number[0] = 8.0
    launch.set_scalars([OnDevice(None, 4.0), OnDevice(number), 5])
    launch.run_boxes(box)
    same(memory, np.full(4, 485.0))


# ---- copies


def test_independent_copies_are_one_launch() -> None:
    driver = Recorded()
    backend = AcceleratorBackend(driver)
    rows, packed = backend.asarray(values_of((9, 6))), backend.empty((9, 6), "f8")
    together = backend.prepare_copies([BoxCopy(rows[n], packed[8 - n]) for n in range(9)])
    chain = backend.prepare_copies([BoxCopy(rows[n], rows[n + 1]) for n in range(3)])
    driver.given.clear()
    together()
    assert len(driver.given) == 1
    chain()
    assert len(driver.given) == 1 + 3


def test_tables_of_other_streams_are_kept_out_of_the_pool_of_compute() -> None:
    driver = Recorded()
    backend = AcceleratorBackend(driver)
    rows, packed = backend.asarray(values_of((9, 6))), backend.empty((6,), "f8")
    copies = backend.prepare_copies([BoxCopy(rows[0], packed)])
    backend.compute.synchronize()
    assert all(driver.pooled)
    driver.pooled.clear()
    if driver.compiles:
        copies(backend.communication)
        assert driver.pooled == [False, False]
        copies(backend.communication)
        assert len(driver.pooled) == 2
    backend.communication.synchronize()


def table_of(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Any:
    backend = AcceleratorBackend(SimulatedDriver())
    sides = []
    for values in (source, target):
        base = backend.empty((int(values.base.size),), values.dtype)  # type: ignore[union-attr]
        offset = values.ctypes.data - values.base.ctypes.data  # type: ignore[union-attr]
        sides.append(
            DeviceArray.on(
                backend, base.allocation, values.shape, values.dtype, offset=offset,
                strides=values.strides,
            )
        )  # fmt: skip
    rows, owners = device_copies.table([BoxCopy(*sides)])
    return sides, rows, owners


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("unpack", [False, True])
def test_threads_of_a_face_lie_side_by_side_on_the_packed_side(
    axis: int, width: int, dtype: str, unpack: bool
) -> None:
    block = np.zeros(18 * 34 * 72, dtype).reshape(18, 34, 72)[:, :, :66]
    index = tuple(slice(1, 1 + width) if a == axis else slice(1, -1) for a in range(3))
    face = block[index]
    packed = np.zeros(face.size, dtype).reshape(face.shape)
    (source, target), rows, owners = table_of(*((packed, face) if unpack else (face, packed)))
    (row,) = rows
    threads = np.arange(row["count"])
    *_, last = index_of(row, threads)
    steps = row["s"] if unpack else row["t"]
    offsets = sum(i * step for i, step in zip(index_of(row, threads), steps, strict=True))
    np.testing.assert_array_equal(np.diff(offsets), row["size"])
    assert row["size"] >= np.dtype(dtype).itemsize
    assert row["count"] * row["size"] == face.nbytes
    assert len(owners) == -(-len(threads) // (device_copies.THREADS * device_copies.PER_THREAD))
    assert last.max() < row["n"][3]
    assert source.size == target.size


@pytest.mark.parametrize("unpack", [False, True])
def test_the_packed_side_leads_if_axes_are_turned(unpack: bool) -> None:
    block = np.zeros(9 * 8 * 7).reshape(9, 8, 7)[1:-1, 1:-1, 1:-1].transpose(2, 0, 1)
    packed = np.zeros(block.size).reshape(block.shape)
    _, (row,), _ = table_of(*((packed, block) if unpack else (block, packed)))
    steps = row["s"] if unpack else row["t"]
    places = index_of(row, np.arange(row["count"]))
    offsets = sum(i * step for i, step in zip(places, steps, strict=True))
    np.testing.assert_array_equal(np.diff(offsets), 8)


def index_of(row: Any, numbers: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
    return np.unravel_index(numbers, tuple(int(n) for n in row["n"]))


def test_rows_are_moved_by_sixteen_bytes() -> None:
    block = np.zeros((6, 8, 16)).reshape(-1).reshape(6, 8, 16)
    _, rows, _ = table_of(block[1:2, 2:6], np.zeros(64).reshape(1, 4, 16))
    assert rows["size"].tolist() == [16]
    _, rows, _ = table_of(block[1:2, 2:6, 1:], np.zeros(60).reshape(1, 4, 15))
    assert rows["size"].tolist() == [8]


def test_a_copy_into_what_it_reads_is_refused(backend: AcceleratorBackend) -> None:
    array = backend.asarray(values_of((6,)))
    with pytest.raises(BackendError, match="another array"):
        backend.prepare_copies([BoxCopy(array[1:], array[:-1])])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 641, 2**20, 2**31 - 1])
def test_quotients_by_product_and_shift(n: int) -> None:
    magic, shift = device_copies.reciprocal(n)
    for e in (0, 1, n - 1, n, n + 1, 5 * n + 3, 2**31 - 1):
        if e < 2**31:
            assert ((magic * e >> 32) + e) >> shift == e // n


# ---- choosing a device


def test_the_simulated_device_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one = da.Grid((4,), device="simulated")
    monkeypatch.setenv("DISTARRAY_DEVICE", "simulated")
    assert da.Grid((4,), device="auto").backend is one.backend
    assert one.device == "simulated"
    monkeypatch.setenv("DISTARRAY_DEVICE", "cpu")
    assert da.Grid((4,)).device == "cpu"
    assert da.Grid((4,), device="simulated").device == "simulated"


def test_unknown_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="'auto', 'cpu', 'cuda' or 'simulated'"):
        da.Grid((4,), device="tpu")
    monkeypatch.setenv("DISTARRAY_DEVICE", "gpu")
    with pytest.raises(BackendError, match="DISTARRAY_DEVICE=gpu is unknown"):
        da.Grid((4,))


# ---- which copies depend on each other


def test_many_copies_are_compared_only_where_their_bytes_meet(
    backend: AcceleratorBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    original = device_copies.overlap
    monkeypatch.setattr(device_copies, "overlap", lambda a, b: compared.append(1) or original(a, b))
    one, other = (backend.empty((3000,), np.dtype("f8")) for _ in range(2))
    copies = [BoxCopy(one[n : n + 1], other[n : n + 1]) for n in range(3000)]
    assert device_copies._depends_on(copies) == [-1] * 3000
    assert len(compared) == 0
    chained = [BoxCopy(one[n : n + 1], one[n + 1 : n + 2]) for n in range(3000)][:2999]
    assert device_copies._depends_on(chained) == [-1, *range(2998)]
    assert len(compared) < 3 * 3000


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_copy_that_each_depends_on(backend: AcceleratorBackend, seed: int) -> None:
    """By the addresses of single bytes."""
    random = np.random.default_rng(seed)
    arrays = [backend.empty((6, 8), np.dtype("u1")) for _ in range(2)]

    def part() -> DeviceArray:
        row, column, step = random.integers(0, 4), random.integers(0, 4), random.integers(1, 3)
        return arrays[random.integers(2)][row : row + 2, column : column + 2 * step : step]

    copies = [BoxCopy(part(), part()) for _ in range(30)]

    def bytes_of(array: DeviceArray) -> set[int]:
        steps = np.add.outer(
            *(np.arange(n) * s for n, s in zip(array.shape, array.strides, strict=True))
        )
        return set((array.address + steps).ravel().tolist())

    sides = [(bytes_of(copy.source), bytes_of(copy.target)) for copy in copies]
    expected = [
        max(
            (
                earlier
                for earlier in range(later)
                if sides[later][1] & (sides[earlier][0] | sides[earlier][1])
                or sides[later][0] & sides[earlier][1]
            ),
            default=-1,
        )
        for later in range(len(copies))
    ]
    assert device_copies._depends_on(copies) == expected


def test_rows_of_the_table_count_their_blocks_on(backend: AcceleratorBackend) -> None:
    one, other = (backend.empty((5000,), np.dtype("u1")) for _ in range(2))
    copies = [BoxCopy(one[n : n + 2000 : 2], other[n : n + 2000 : 2]) for n in (0, 2000)]
    rows, owners = device_copies.table(copies)
    each = device_copies.THREADS * device_copies.PER_THREAD
    assert rows["first"].tolist() == [0, -(-1000 // each)]
    assert len(owners) == 2 * -(-1000 // each)
