"""Arrays on one rank: what NumPy says, and every error's text."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import distarray as da
from distarray import DistArrayError, functions
from tests import devices

SHAPE = (6, 5)


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid(SHAPE, periodic=(True, False))


@pytest.fixture
def u(grid: da.Grid) -> da.DistArray:
    return grid.from_function(lambda x, y: x + 2 * y)


def host(shape: tuple[int, ...] = SHAPE) -> Any:
    return np.arange(math.prod(shape), dtype=float).reshape(shape)


def test_attributes(grid: da.Grid) -> None:
    u = grid.zeros(np.float32, components=(2,), location="y", halo=2, name="velocity")
    assert u.shape == (2, 6, 6)
    assert (u.ndim, u.size, u.nbytes, u.dtype) == (3, 72, 288, np.dtype(np.float32))
    assert (u.halo, u.components, u.location, u.name) == ((2, 2), (2,), "y", "velocity")
    assert u.local_shape == u.local.shape == (2, 6, 6)
    assert u.padded.shape == (2, 10, 10)
    assert u.local_slices == (slice(0, 2), slice(0, 6), slice(0, 6))
    assert (u.device, u.ranks, len(u)) == (devices.current(), (1, 1), 2)
    assert repr(u) == (
        f"DistArray(shape=(2, 6, 6), dtype=float32, device={devices.current()!r}, ranks=(1, 1), "
        "location='y', name='velocity')"
    )


def test_local_and_padded_are_read_only(u: da.DistArray) -> None:
    for view in (u.local, u.padded):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 1.0


def test_writing_makes_halos_stale(grid: da.Grid, u: da.DistArray) -> None:
    version = u.block.version
    with u.writing() as block:
        block[...] = 3.0
    assert u.block.version == version + 1
    assert u.sum() == 3.0 * 30


def test_components_share_memory(grid: da.Grid) -> None:
    v = grid.zeros(components=(2, 3))
    v[1][2][...] = 5.0
    v[0, 1] += 2.0
    expected = np.zeros((2, 3, *SHAPE))
    expected[1, 2], expected[0, 1] = 5.0, 2.0
    assert_array_equal(v.gather(), expected)
    assert v[1] is v[1]
    assert v[-1, 2] is not None
    assert v[1, 2].key == v[1][2].key
    assert [part.shape for part in v] == [(3, *SHAPE)] * 2
    assert_array_equal(v[:, 1].gather(), expected[:, 1])
    assert devices.share_memory(v[1].local, v.local)


def test_whole_index_is_the_array_itself(u: da.DistArray) -> None:
    assert u[...] is u
    assert u[:, :] is u


def test_copies_are_independent(u: da.DistArray) -> None:
    u.boundary["y-"] = da.Neumann(1.0)
    for other in (u.copy(), copy.copy(u), copy.deepcopy(u), np.copy(u), u.astype(float)):
        assert not devices.share_memory(other.local, u.local)
        assert_array_equal(other.gather(), u.gather())
        assert list(other.boundary) == ["y-"]
        other.boundary["y+"] = da.Dirichlet(0.0)
        assert list(u.boundary) == ["y-"]
    assert not (u + 1).boundary


def test_results_of_operators_take_conditions(u: da.DistArray) -> None:
    v = u + 1
    v.boundary["y"] = da.Dirichlet(2.0)
    assert list(v.boundary) == ["y-", "y+"]


def test_astype(u: da.DistArray) -> None:
    assert_array_equal(u.astype(np.int32).gather(), u.gather().astype(np.int32))
    assert u.astype(complex).dtype == complex


def test_like(grid: da.Grid) -> None:
    u = grid.ones(np.float32, (2,), "x", {"y": da.Neumann(0.0)}, halo=2)
    for other in (grid.empty_like(u), grid.zeros_like(u), np.zeros_like(u), np.empty_like(u)):
        assert (other.shape, other.dtype, other.halo) == (u.shape, u.dtype, u.halo)
        assert list(other.boundary) == ["y-", "y+"]
    assert np.zeros_like(u).sum() == 0
    assert np.ones_like(u, dtype=int).dtype == int
    assert np.full_like(u, 3).min() == 3


def test_scalars_follow_numpy(grid: da.Grid) -> None:
    single = grid.ones(np.float32)
    for scalar in (2, 2.0, True, np.float32(2), np.float64(2), np.int64(2), 1j, np.array(2.0)):
        for operation in (np.add, np.multiply, np.true_divide):
            expected = operation(np.ones(SHAPE, np.float32), scalar)
            found = operation(single, scalar)
            assert found.dtype == expected.dtype
            assert_array_equal(found.gather(), expected)
            assert_array_equal(
                operation(scalar, single).gather(), operation(scalar, expected * 0 + 1)
            )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.complex64])
def test_reductions_have_the_types_of_numpy(grid: da.Grid, dtype: Any) -> None:
    values = (host() % 3).astype(dtype)
    u = grid.empty(dtype)
    u[...] = values
    names = ["sum", "prod", "mean", "any", "all", "var", "std"]
    names += ["min", "max", "argmin", "argmax"] if u.dtype.kind != "c" else []
    for name, axis in itertools.product(names, (None, 0, 1)):
        found, expected = getattr(u, name)(axis=axis), getattr(values, name)(axis=axis)
        assert found.dtype == expected.dtype
        found = found if axis is None else found.gather()
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert u.sum(reproducible=True) == values.sum()


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(da.zeros((0,)).mean())
    assert da.zeros((0,)).sum() == 0.0
    assert da.ones((0,)).prod() == 1.0


def test_numpy_functions(u: da.DistArray) -> None:
    values = u.gather()
    assert np.sum(u) == u.sum()
    assert_array_equal(np.max(u, axis=0).gather(), values.max(axis=0))
    assert np.std(u, ddof=1) == pytest.approx(np.std(values, ddof=1), rel=1e-14)
    assert np.shape(u) == SHAPE
    assert (np.ndim(u), np.size(u), np.size(u, 1)) == (2, 30, 5)
    assert np.allclose(u, values)
    assert np.array_equal(u, u.copy())
    assert not np.array_equal(u, u + 1)
    assert not np.array_equal(u, values[1:])
    assert np.array_equal(u * np.nan, u * np.nan, equal_nan=True)
    assert np.result_type(u, np.float32) == np.float64
    assert (np.iscomplexobj(u), np.isrealobj(u)) == (False, True)
    assert_array_equal(np.clip(u, 1, None).gather(), np.clip(values, 1, None))
    assert_array_equal(np.clip(u, max=1).gather(), np.clip(values, None, 1))
    assert_array_equal(np.round(u, 1).gather(), np.round(values, 1))
    z = u * (1 + 2j)
    assert_array_equal(np.real(z).gather(), values)
    assert_array_equal(z.imag.gather(), 2 * values)
    assert_array_equal(np.conj(z).gather(), z.gather().conj())
    assert_array_equal(np.asarray(u), values)
    assert np.asarray(u).flags.owndata


def test_host_arrays_broadcast(u: da.DistArray) -> None:
    values = u.gather()
    for other in (host(), host((5,)), host((6, 1)), host((1, 1)), host((3, 6, 5)), [1, 2, 3, 4, 5]):
        assert_array_equal((u * other).gather(), values * other)
        assert_array_equal((other - u).gather(), other - values)


def test_complex_arithmetic_is_its_real_expansion(grid: da.Grid) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=SHAPE) + 1j * rng.normal(size=SHAPE) for _ in range(2))
    u, v = grid.empty(complex), grid.empty(complex)
    u[...], v[...] = x, y
    a, b, c, d = x.real, x.imag, y.real, y.imag
    product, quotient = (u * v).gather(), (u / v).gather()
    assert_array_equal(product.real, a * c - b * d)
    assert_array_equal(product.imag, a * d + b * c)
    assert_array_equal(quotient.real, (a * c + b * d) / (c * c + d * d))
    assert_array_equal(quotient.imag, (b * c - a * d) / (c * c + d * d))
    assert_array_equal(np.square(u).gather(), (u * u).gather())
    assert_array_equal(np.reciprocal(u).gather(), (1 / u).gather())
    u *= v
    assert_array_equal(u.gather(), product)
    assert da.dot(v, v).real == pytest.approx(np.vdot(y, y).real, rel=1e-14)
    assert da.norm(v) == pytest.approx(np.linalg.norm(y), rel=1e-14)


def test_division_by_zero_is_silent(grid: da.Grid) -> None:
    assert np.isposinf((1 / grid.zeros()).min())
    assert np.isnan((grid.zeros() / 0).max())


def test_pending_is_a_number(u: da.DistArray) -> None:
    pending = da.begin_sum(u)
    assert pending.dtype == np.float64
    assert isinstance(pending, da.Pending)
    total = u.sum()
    assert pending.test()
    assert f"{pending:.2f}" == f"{total:.2f}"
    assert (float(pending), complex(pending), int(pending)) == (total, total, int(total))
    assert np.sqrt(pending) == np.sqrt(total)
    assert "Pending" in repr(pending)
    assert_array_equal((u * pending).gather(), u.gather() * total)
    u[...] = pending
    assert u.min() == total
    assert not da.begin_any(u * 0)


def test_from_root_and_asarray(grid: da.Grid) -> None:
    values = host()
    assert_array_equal(da.from_root(values).gather(), values)
    u = da.asarray(values, dtype=np.float32, ranks=(1, 1), name="a")
    assert (u.dtype, u.name, u.grid, u.boundary) == (np.float32, "a", None, None)
    assert da.asarray(u) is u
    assert da.asarray(u, dtype=float).dtype == float
    v = da.from_root(np.stack([values, values]), like=grid)
    assert v.components == (2,)
    assert v.grid is grid
    assert da.full(3, 7).dtype == int
    assert da.full((2, 2), 1j).sum() == 4j


def test_log_prints_once(capsys: pytest.CaptureFixture[str], u: da.DistArray) -> None:
    da.log("peak", da.begin_max(u), u, sep=" | ")
    out = capsys.readouterr().out
    assert out == f"peak | {u.max()} | {u!r}\n"


ERRORS: dict[str, tuple[type[Exception], str]] = {
    "u[9]": (da.IndexingError, "Index 9 is outside axis 0 .* use -6 to 5"),
    "u[0, 0, 0]": (da.IndexingError, "at most 2 indices"),
    "u[..., ...]": (da.IndexingError, "at most one ellipsis"),
    "u[::0]": (da.IndexingError, "slice step cannot be zero"),
    "u[0.5]": (da.UnsupportedError, "use integers and slices"),
    "u[None]": (da.UnsupportedError, "use integers and slices"),
    "u[[1, 2]]": (da.UnsupportedError, "use integers and slices"),
    "u[u > 0]": (da.UnsupportedError, "numpy.where"),
    "u[True]": (da.UnsupportedError, "use integers and slices"),
    "u.__setitem__(..., 1j)": (da.ArrayError, "take their real part"),
    "u.__setitem__(0, [1, 2])": (da.ArrayError, r"shape \(2,\) do not broadcast"),
    "u.__setitem__(0, u)": (da.ArrayError, "both need the same shape"),
    "u.__setitem__(0, grid.profile('y', [1] * 5))": (da.ArrayError, "whole grid axes only"),
    "v.__setitem__(slice(0, 1), v)": (da.ArrayError, "select components of one shape"),
    "np.fft.fft(u)": (da.UnsupportedError, r"numpy.fft.fft is not supported .*gather\(\)"),
    "np.linalg.norm(u)": (da.UnsupportedError, r"numpy.linalg.norm .*gather\(\)"),
    "np.cumsum(u)": (da.UnsupportedError, r"numpy.cumsum .*gather\(\)"),
    "np.sum(u, keepdims=True)": (da.UnsupportedError, "keepdims"),
    "np.add.reduce(u)": (da.UnsupportedError, r"numpy.add.reduce .*gather\(\)"),
    "u @ u": (da.UnsupportedError, r"numpy.matmul .*gather\(\)"),
    "np.add(u, u, where=u > 0)": (da.UnsupportedError, "use numpy.where"),
    "np.add(u, u, out=np.zeros((6, 5)))": (da.UnsupportedError, "distributed arrays as out="),
    "np.add(v, v, out=u)": (da.ArrayError, "components of the result"),
    "np.add(u, u, signature='dd->d')": (da.UnsupportedError, "signature="),
    "u + 'text'": (da.UnsupportedError, "does not combine with 'text'"),
    "u + np.ones(7)": (da.ArrayError, r"shape \(7,\) does not broadcast"),
    "u + grid.ones(location='y')": (da.ArrayError, "differ in shape or location"),
    "u + grid.ones(location='x')": (da.ArrayError, "differ in shape or location"),
    "u + da.Grid((6, 5), periodic=(True, False), bounds=[(0, 2)] * 2).ones()": (
        da.ArrayError,
        "different grids",
    ),
    "v + grid.ones(components=(3,))": (da.ArrayError, "do not broadcast; select components"),
    "u * grid.profile('y', [1] * 6)": (da.ArrayError, "one location along the axis"),
    "bool(u)": (da.UnsupportedError, "truth value .* ambiguous"),
    "list(u)": (da.UnsupportedError, "Iteration over cells"),
    "u.sum(axis=2)": (da.ArrayError, "use 0 to 1"),
    "u.sum(axis=(0, 0))": (da.ArrayError, "different axes"),
    "u.sum(axis='x')": (da.ArrayError, "use 0 to 1"),
    "u.argmin(axis=(0, 1))": (da.UnsupportedError, "one axis or all"),
    "(u * 1j).min()": (da.UnsupportedError, "min of complex values"),
    "(u * 1j).max(axis=0)": (da.UnsupportedError, "max of complex values"),
    "(u * 1j).argmax()": (da.UnsupportedError, "argmax of complex values"),
    "(u * 1j).astype(float)": (da.ArrayError, "convert its real part"),
    "da.zeros(0).min()": (da.ArrayError, "min of an array without elements"),
    "da.zeros(0).argmax()": (da.ArrayError, "argmax of an array without elements"),
    "da.zeros((0, 2)).max(axis=0)": (da.ArrayError, "without elements"),
    "da.dot(u, v)": (da.ArrayError, "differ in components"),
    "u.to('gpu')": (da.BackendError, "device='gpu' is unknown"),
    "u.gather(root=1)": (da.ArrayError, "use a number from 0 to 0"),
    "u.redistribute()": (da.ArrayError, "either ranks= or like="),
    "u.redistribute(ranks=(2, 1))": (da.DecompositionError, "does not fit the 1 ranks"),
    "u.redistribute(like=v.grid.coarsen(2))": (da.ArrayError, "both need the same shape"),
    "da.map_along(u, 2, abs)": (da.ArrayError, "use 0 to 1"),
    "da.map_along(u, 0, lambda block: block[:1])": (da.ArrayError, "of the shape it is given"),
    "da.from_root([1], root=3)": (da.ArrayError, "names no rank"),
    "da.from_root(np.ones(4), like=grid)": (da.ArrayError, r"must have \(6, 5\) entries"),
    "da.zeros((3,), ranks=(2,))": (da.DecompositionError, "does not fit the 1 ranks"),
    "da.zeros(())": (da.GridError, "one or more whole numbers"),
    "da.zeros((-1,))": (da.GridError, "at least 0"),
    "da.zeros(3, dtype='S3')": (da.UnsupportedError, "Element type 'S3' is not supported"),
    "da.zeros(3, dtype=np.float16)": (da.UnsupportedError, "use bool, an integer type"),
    "np.array(u, np.float32, copy=False)": (ValueError, "without a copy"),
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str, grid: da.Grid, u: da.DistArray) -> None:
    kind, text = ERRORS[call]
    names = {"da": da, "np": np, "grid": grid, "u": u, "v": grid.zeros(components=(2,))}
    with pytest.raises(kind, match=text):
        eval(call, names)


def test_boundary_errors_reach_the_user(grid: da.Grid) -> None:
    with pytest.raises(da.BoundaryError, match="periodic"):
        grid.zeros(boundary={"x": da.Dirichlet(0.0)})


NAMES = """
import sys
import distarray as da

on_use = {"load", "save", "Snapshot", "Checkpointer"}
assert all(hasattr(da, name) for name in set(da.__all__) - on_use)
assert callable(da.stencil) and callable(da.iterate)
da.Grid((4,)).zeros()
assert not {"h5py", "mpi4py.MPI", "matplotlib"} & set(sys.modules)
assert callable(da.save) and callable(da.load)
try:
    da.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
"""


def test_public_names_are_what_they_should_be() -> None:
    subprocess.run([sys.executable, "-c", NAMES], check=True, timeout=60)


def test_errors_pickle() -> None:
    error = pickle.loads(pickle.dumps(da.ArrayError("text")))
    assert str(error) == "text"


def test_parameters_of_a_numpy_function_are_found_once() -> None:
    u = da.ones((3,))
    np.where(u > 0, u, 0.0)
    before = functions._signature.cache_info().misses
    np.where(u > 0, u, 0.0)
    assert functions._signature.cache_info().misses == before


class LooksLikeAnArray:
    """Has what distributed arrays, profiles and grids have, but is none of them."""

    component_prefix, profile_axis, key, block, topology = (), 0, (0,), None, None


def test_arrays_are_not_told_apart_by_their_attributes() -> None:
    grid, other = da.Grid((4, 3)), LooksLikeAnArray()
    u = grid.zeros()
    for call in (
        lambda: u + other,
        lambda: u.redistribute(like=other),
        lambda: u.__setitem__(..., other),
        lambda: grid.points([[0.5, 0.5]]).sample(other),
        lambda: da.norm(other),
        lambda: grid.empty_like(other),
        lambda: grid.profile("x", other),
    ):
        with pytest.raises((DistArrayError, TypeError), match="LooksLikeAnArray"):
            call()


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_what_was_lent_for_writing_is_read_only_afterwards(device):
    u = da.zeros((4, 3), device=device)
    with u.writing() as block:
        block[...] = 2.0
    with pytest.raises((ValueError, da.ArrayError), match="read-only"):
        block[0, 0] = 5.0
    with u.writing() as again:
        again[1] = 3.0
        with pytest.raises((ValueError, da.ArrayError), match="read-only"):
            block[0, 0] = 5.0
    np.testing.assert_array_equal(u.gather()[:, 0], [2.0, 3.0, 2.0, 2.0])
    u[0, 0] = 7.0
    assert np.asarray(block)[0, 0] == 7.0
