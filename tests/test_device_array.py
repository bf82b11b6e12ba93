"""Arrays on a device beyond what all backends share: views, operators and NumPy's functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from distarray.backends import accelerator
from distarray.backends.accelerator import AcceleratorBackend
from distarray.backends.simulated.driver import SimulatedDriver
from distarray.errors import ArrayError, BackendError, IndexingError, UnsupportedError
from tests.device_tools import same, values_of


@pytest.fixture(params=["compiled", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AcceleratorBackend:
    """A simulated device, with a compiler and without."""
    if request.param == "numpy":
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    return AcceleratorBackend(SimulatedDriver())


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
    with pytest.raises(ValueError, match="read-only"):
        host[0] = 50  # it would not reach the device
    host = np.array(array)
    host[0] = 50
    assert array[0].item() == 1.0
    assert np.asarray(array, np.int64).dtype == np.int64
    with pytest.raises(BackendError, match="leave it out"):
        np.array(array, copy=False)


def test_methods_of_numpy_give_values_on_the_host(backend: AcceleratorBackend) -> None:
    array = backend.asarray(values_of((3, 4)))
    assert (array.sum(), array.prod(), array.mean()) == (78.0, 479001600.0, 6.5)
    assert (array.min(), array.max(), array.argmin(), array.argmax()) == (1.0, 12.0, 0, 11)
    assert array.sum(axis=0).tolist() == [15.0, 18.0, 21.0, 24.0]
    assert array[0, :2].tolist() == [1.0, 2.0]
    assert array[0].var() == 1.25
    assert array[0].std() == 1.25**0.5
    assert array.all()
    assert not (array > 12).any()
    assert (float(array[1, 1]), int(array[1, 1]), complex(array[1, 1])) == (6.0, 6, 6 + 0j)
    assert bool(array[0, 0])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(array)
    with pytest.raises(TypeError):
        float(array)


def test_complex_numbers_are_not_cut_to_real_ones(backend: AcceleratorBackend) -> None:
    array, values = backend.asarray(values_of((3,))), values_of((3,))
    for target in (array, values):
        with pytest.raises(TypeError, match="complex"):
            target[...] = 1j
        with pytest.raises(TypeError, match="complex"):
            target[0] = 1j
    same(array, values_of((3,)))


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
