"""Arrays on a device beyond what all backends share: views, NumPy's functions, and what work says
of the memory that it touches.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.backends import accelerator, device_copies
from distarray.backends.accelerator import AcceleratorBackend
from distarray.backends.base import BoxCopy
from distarray.backends.device_array import DeviceArray
from distarray.backends.driver import Access
from distarray.backends.simulated.driver import SimulatedDriver
from distarray.errors import ArrayError, BackendError, IndexingError, RaceError, UnsupportedError
from distarray.regions import Box
from distarray.stencil import tracing
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.launch import ArrayView, LaunchGeometry
from tests.devices import provokes_races


@pytest.fixture(params=["compiled", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AcceleratorBackend:
    """A simulated device, with a compiler and without."""
    if request.param == "numpy":
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    return AcceleratorBackend(SimulatedDriver())


def values_of(shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray[Any, Any]:
    found = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    return found - 1j * found if np.dtype(dtype).kind == "c" else found


def same(array: Any, expected: Any) -> None:
    """Equal values, shape and dtype, on the device."""
    assert isinstance(array, DeviceArray)
    expected = np.asarray(expected)
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.get(), expected, strict=True)


class Recorded(SimulatedDriver):
    """A device that keeps what its work says of the memory it touches."""

    def __init__(self) -> None:
        super().__init__(0)
        self.given: list[tuple[str, list[Access]]] = []
        self.pooled: list[bool] = []

    def allocate(self, nbytes: int, *, pooled: bool = True) -> Any:
        self.pooled.append(pooled)
        return super().allocate(nbytes, pooled=pooled)

    def launch(self, *arguments: Any) -> None:
        self.given.append((arguments[6], list(arguments[5])))
        super().launch(*arguments)

    def call(self, *arguments: Any) -> None:
        self.given.append((arguments[3], list(arguments[2])))
        super().call(*arguments)


# ---- description and views


def test_arrays_are_described_as_numpy_describes_them(backend: AcceleratorBackend) -> None:
    values = values_of((3, 4), "f4")
    array = backend.asarray(values)
    for name in ("shape", "dtype", "strides", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(array, name) == getattr(values, name), name
    assert len(array) == 3
    assert repr(array) == "<DeviceArray (3, 4) of float32 on simulated>"
    assert array[1].address == array.address + 16
    assert [part.get().tolist() for part in array] == values.tolist()


def test_views_share_memory(backend: AcceleratorBackend) -> None:
    values = values_of((4, 6))
    array = backend.asarray(values.copy())
    for change in (
        lambda a: a[1:3, ::2],
        lambda a: a.T[2],
        lambda a: np.flip(a, 0)[0],
        lambda a: np.moveaxis(a, 0, 1)[5],
        lambda a: np.expand_dims(a, 0)[0, 2],
        lambda a: a.reshape(2, 12)[1, 3:5],
        lambda a: a.reshape((-1,))[7:9],
        lambda a: a.view("i8")[0, :1],
    ):
        change(array)[...] = change(values)[...] = 7
        same(array, values)


def test_parts_of_complex_numbers(backend: AcceleratorBackend) -> None:
    values = values_of((5,), "c16")
    array = backend.asarray(values.copy())
    same(array.real, values.real)
    same(np.imag(array), values.imag)
    array.imag[1:] = values.imag[1:] = 3.5
    same(array, values)
    same(array.real.imag, np.zeros(5))


def test_reshaping_what_has_gaps_copies(backend: AcceleratorBackend) -> None:
    values = values_of((4, 6))
    flat = backend.asarray(values)[:, 1:3].reshape(8)
    same(flat, values[:, 1:3].reshape(8))


def test_numpy_gets_a_copy(backend: AcceleratorBackend) -> None:
    array = backend.asarray(values_of((3,)))
    host = np.asarray(array)
    host[0] = 50
    assert array[0].item() == 1.0
    assert np.asarray(array, np.int64).dtype == np.int64
    with pytest.raises(BackendError, match="leave it out"):
        np.array(array, copy=False)


def test_other_libraries_find_no_cuda_memory(backend: AcceleratorBackend) -> None:
    assert not hasattr(backend.asarray(values_of((3,))), "__cuda_array_interface__")


@pytest.mark.parametrize("index", [True, [0, 1], np.array([0]), 1.0, "x", np.True_], ids=str)
def test_only_basic_indices(backend: AcceleratorBackend, index: Any) -> None:
    array = backend.asarray(values_of((3,)))
    with pytest.raises(IndexingError, match="whole numbers and slices"):
        array[index]
    with pytest.raises(IndexingError, match="whole numbers and slices"):
        array[index] = 1


def test_indices_outside(backend: AcceleratorBackend) -> None:
    with pytest.raises(IndexError):
        backend.asarray(values_of((3,)))[3]


def test_read_only_views(backend: AcceleratorBackend) -> None:
    array = backend.asarray(values_of((3,)))
    seen = array.readonly()
    for write in (
        lambda: operator.setitem(seen, 0, 1.0),
        lambda: seen[1:].fill(2.0),
        lambda: np.add(array, 1, out=seen),
        lambda: np.copyto(seen, 3.0),
        lambda: operator.iadd(seen, 1.0),
    ):
        with pytest.raises(ArrayError, match="read-only"):
            write()
    same(seen, [1.0, 2.0, 3.0])
    array[0] = 9
    same(seen, [9.0, 2.0, 3.0])


def test_copies_and_conversions(backend: AcceleratorBackend) -> None:
    values = values_of((4, 5))
    array = backend.asarray(values)[::2]
    copy = array.copy()
    copy += 1
    assert copy.contiguous
    same(array, values[::2])
    same(array.astype("i4"), values[::2].astype("i4"))
    assert array.astype("f8", copy=False) is array
    assert array.astype("f8") is not array


# ---- operators and functions


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "c16"])
def test_operators(backend: AcceleratorBackend, dtype: str) -> None:
    x, y = values_of((3, 4), dtype), values_of((4,), dtype)
    a, b = backend.asarray(x), backend.asarray(y)
    for act in (
        lambda x, y: x + y,
        lambda x, y: x - 2,
        lambda x, y: 3 * y,
        lambda x, y: -x,
        lambda x, y: x == y,
        lambda x, y: x != y,
        lambda x, y: x**2,
        lambda x, y: abs(x - 5) if x.dtype.kind != "c" else x + 1j,
        lambda x, y: x * np.float32(2),
        lambda x, y: np.conjugate(x) + np.ones(4, "f4"),
    ):
        same(act(a, b), act(x, y))


def test_division_of_complex_numbers_is_the_written_formula(backend: AcceleratorBackend) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(40) + 1j * rng.standard_normal(40) for _ in range(2))
    a, b, c, d = x.real, x.imag, y.real, y.imag
    found = (backend.asarray(x) / backend.asarray(y)).get()
    np.testing.assert_array_equal(found.real, (a * c + b * d) / (c * c + d * d))
    np.testing.assert_array_equal(found.imag, (b * c - a * d) / (c * c + d * d))
    found = (backend.asarray(x) * backend.asarray(y)).get()
    np.testing.assert_array_equal(found.real, a * c - b * d)
    np.testing.assert_array_equal(found.imag, a * d + b * c)


def test_changes_in_place(backend: AcceleratorBackend) -> None:
    x = values_of((3, 4))
    a = backend.asarray(x.copy())
    memory = a
    a += 1
    a *= a
    a[1:] -= a[:-1]
    x += 1
    x *= x
    x[1:] -= x[:-1].copy()
    assert a is memory
    same(a, x)
    square = x[:, :3].copy()
    b = backend.asarray(square)
    b[...] = b.T
    same(b, square.T)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, -2, 2.5])
def test_powers(backend: AcceleratorBackend, exponent: float) -> None:
    x = values_of((20,)) / 7
    found = (backend.asarray(x) ** exponent).get()
    np.testing.assert_array_max_ulp(found, x**exponent, 0 if exponent in (0, 0.5, 1, 2) else 1)


def test_scalars_of_equal_value_and_other_type(backend: AcceleratorBackend) -> None:
    x = np.arange(4, dtype="i4")
    a = backend.asarray(x)
    for number in (1, 1.0, True, np.int8(1), np.float32(1), np.uint64(1), 1 + 0j):
        same(a + number, x + number)
    same(backend.asarray(x.astype("u8")) + np.uint64(2**63), x.astype("u8") + np.uint64(2**63))


@pytest.mark.parametrize("number", [300, -1])
def test_numbers_that_do_not_fit(backend: AcceleratorBackend, number: int) -> None:
    x = np.arange(4, dtype="u1")
    with pytest.raises(OverflowError):
        backend.asarray(x) + number
    same(backend.asarray(x) < number, x < number)


def test_where_dtype_casting_and_out(backend: AcceleratorBackend) -> None:
    x, y = values_of((6,)), values_of((6,), "f4")[::-1]
    a, b = backend.asarray(x), backend.asarray(y)
    parts = np.random.default_rng(1).standard_normal((2, 200))
    rounded = np.add(*parts, dtype="f4")
    assert (rounded != np.add(*parts).astype("f4")).any()
    same(np.add(*map(backend.asarray, parts), dtype="f4"), rounded)
    same(np.divide(a, 4, dtype="c16"), np.divide(x, 4, dtype="c16"))
    out, expected = backend.asarray(np.zeros(6, "f4")), np.zeros(6, "f4")
    assert np.multiply(a, b, out=out) is out
    same(out, np.multiply(x, y, out=expected))
    np.subtract(a, b, out=out, where=a > b)
    same(out, np.subtract(x, y, out=expected, where=x > y))
    whole = backend.asarray(np.zeros(6, "i8"))
    with pytest.raises(TypeError, match="same_kind"):
        np.add(a, b, out=whole)
    same(np.add(a, b, out=whole, casting="unsafe"), (x + y).astype("i8"))


def test_functions_of_elements(backend: AcceleratorBackend) -> None:
    x, y = values_of((3, 4)) - 5, values_of((4,), "i8")
    a, b = backend.asarray(x), backend.asarray(y)
    for act in (
        lambda x, y: np.where(x > 2, x, y),
        lambda x, y: np.where(y > 2, 1, 0),
        lambda x, y: np.clip(x, -2, y),
        lambda x, y: np.clip(y, 2, None),
        lambda x, y: np.round(x / 4),
        lambda x, y: np.isclose(x, y, rtol=0.5),
        lambda x, y: np.nan_to_num(np.sqrt(x), nan=-1.0),
        lambda x, y: np.angle(x + 1j),
        np.floor_divide,
        lambda x, y: np.divmod(y, 3)[1],
        lambda x, y: np.modf(x / 3)[0],
        lambda x, y: np.concatenate([x, x[:1] + 1]),
        lambda x, y: np.concatenate([x, x], axis=-1),
        lambda x, y: np.stack([y, y + 1], axis=1),
        lambda x, y: np.full_like(x, 3, dtype="f4"),
        lambda x, y: np.zeros_like(y),
        lambda x, y: np.ones_like(x),
        lambda x, y: np.broadcast_to(y, (2, 4)),
        lambda x, y: np.copy(np.squeeze(x[:1])),
    ):
        with np.errstate(all="ignore"):
            same(act(a, b), act(x, y))
    assert np.array_equal(a, x)
    assert np.shape(a) == (3, 4)
    assert np.result_type(a, b, np.float32) == np.float64
    assert not np.shares_memory(a[0], a[1])


def test_copyto_follows_its_casting_rule(backend: AcceleratorBackend) -> None:
    target = backend.asarray(np.zeros(3, "f4"))
    np.copyto(target, backend.asarray(values_of((3,))))
    same(target, np.array([1, 2, 3], "f4"))
    whole = backend.asarray(np.zeros(3, "i4"))
    with pytest.raises(TypeError, match="same_kind"):
        np.copyto(whole, target)
    np.copyto(whole, target, casting="unsafe")
    same(whole, np.array([1, 2, 3], "i4"))


@pytest.mark.parametrize(
    "call",
    [
        np.sort,
        np.sum,
        np.add.reduce,
        lambda a: np.matmul(a, a),
        lambda a: np.add(a, a, out=np.zeros(3)),
        lambda a: np.add(a, a, order="C", signature="dd->d"),
        lambda a: np.divmod(a, 2, out=(a, a)),
    ],
)
def test_what_is_missing_says_so(backend: AcceleratorBackend, call: Any) -> None:
    with pytest.raises(UnsupportedError, match="device array"):
        call(backend.asarray(values_of((3,))))


@pytest.mark.parametrize("other", ["text", None, [None], np.str_("text")])
def test_what_is_no_number(backend: AcceleratorBackend, other: Any) -> None:
    array = backend.asarray(values_of((3,)))
    with pytest.raises(UnsupportedError, match="do not combine"):
        array + other
    with pytest.raises(UnsupportedError, match="do not combine"):
        array[0] = other


def test_devices_do_not_mix(backend: AcceleratorBackend) -> None:
    other = AcceleratorBackend(SimulatedDriver())
    with pytest.raises(BackendError, match="another device"):
        backend.asarray(values_of((3,))) + other.asarray(values_of((3,)))


def test_large_arrays_with_gaps_go_in_parts(
    backend: AcceleratorBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "MOST_PACKED", 50)
    values = values_of((3, 4, 5))
    memory = backend.allocate((), (3, 4, 5), (0, 0, 0), values.dtype)
    memory[...] = values
    same(memory, values)


def test_equal_calls_share_one_program(backend: AcceleratorBackend) -> None:
    driver: Any = backend.driver
    loaded: list[Any] = []
    load, driver.load = driver.load, lambda kernel: loaded.append(kernel) or load(kernel)
    for number in (1.25, 2.5):
        for shape in ((3,), (4, 5)):
            backend.asarray(values_of(shape)) * number
    assert len(set(loaded)) <= 1


class Listed(SimulatedDriver):
    """A device that keeps the texts it compiles, whether they were compiled before or not."""

    def __init__(self) -> None:
        super().__init__(0)
        self.texts: list[str] = []

    def load(self, kernel: Any) -> Any:
        self.texts.append(kernel.text)
        return super().load(kernel)


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
