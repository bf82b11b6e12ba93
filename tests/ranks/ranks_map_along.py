"""What functions given to `map_along` may do, and what becomes of their errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import distarray as da
from distarray import ArrayError
from tests.ranks.common import SIZE, process_grids, refused


def field():
    """An array whose blocks along x are contiguous in memory, on one rank without any padding."""
    return da.asarray(np.arange(8.0 * SIZE * 8).reshape(8 * SIZE, 8), ranks=(SIZE, 1))


def rank():
    return da.Grid((SIZE,)).rank


def test_a_function_that_works_in_place_is_refused_and_changes_nothing():
    for u in (field(), da.Grid((8 * SIZE, 5), ranks=(SIZE, 1)).zeros()):
        before = u.gather()
        for axis in (0, 1):
            with pytest.raises(ValueError, match="read-only"):
                da.map_along(u, axis, lambda block: np.cumsum(block, axis=0, out=block))
        assert np.array_equal(u.gather(), before)


def test_a_function_may_return_its_block():
    u = field()
    same = da.map_along(u, 1, lambda block: block)
    same[0, 0] = -1.0
    assert u[0, 0] == 0.0
    assert np.array_equal(same[1:].gather(), u[1:].gather())


def test_an_error_on_one_rank_is_raised_on_all():
    def fails(block):
        if rank() == SIZE - 1:
            raise ZeroDivisionError(f"of rank {SIZE - 1}")
        return block

    refused(ZeroDivisionError, f"of rank {SIZE - 1}", lambda: da.map_along(field(), 1, fails))
    assert field().sum() == sum(range(64 * SIZE))


def test_element_types_must_agree():
    if SIZE > 1:
        refused(
            ArrayError,
            "returned int64 and float64 for blocks",
            lambda: da.map_along(field(), 1, lambda b: b.astype(int) if rank() else b),
        )


def test_ranks_without_values_get_the_element_type():
    u = da.asarray(np.arange(6.0).reshape(3, 2))
    found = da.map_along(u, 0, lambda block: block > 2.0)
    assert found.dtype == np.bool_
    assert np.array_equal(found.gather(), [[False, False], [False, True], [True, True]])


def test_complex_values_do_not_fit_a_real_target():
    u = field()
    refused(ArrayError, "take their real part", lambda: da.map_along(u, 1, lambda b: b * 1j, out=u))


def test_out_must_be_placed_as_the_result() -> None:
    u = field()
    for wrong in (da.zeros((3, 4)), u.astype(np.float32)[:-1]):
        text = "place it as that result is, or leave out= away."
        refused(ArrayError, text, lambda w=wrong: da.map_along(u, 0, np.negative, out=w))


def test_functions_of_lines_have_the_same_bits_and_know_where_they_are():
    host = np.random.default_rng(3).standard_normal((5, 6, 7))

    def summed(axis, block, where):
        assert block.shape == tuple(part.stop - part.start for part in where)
        place = np.arange(where[1].start, where[1].stop)[:, np.newaxis]
        return np.cumsum(block, axis=axis) * place

    place = np.arange(6)[:, np.newaxis]
    expected = np.cumsum(np.cumsum(host, axis=2) * place, axis=0) * place
    steps = [(axis, functools.partial(summed, axis)) for axis in (2, 0)]
    for ranks in process_grids(3, host.shape):
        u = da.asarray(host, ranks=ranks)
        assert da.map_lines(u, steps).gather().tobytes() == expected.tobytes()
        out = da.zeros(host.shape, ranks=ranks)
        assert da.map_lines(u, steps, out=out) is out
        assert out.gather().tobytes() == expected.tobytes()
        assert da.map_lines(u, steps, out=u) is u
        assert u.gather().tobytes() == expected.tobytes()


def same_bits_of_transforms(name):
    host = np.random.default_rng(4).standard_normal((5, 6, 7))
    there, back = da.fft.LineTransform(name), da.fft.LineTransform(f"i{name}")
    steps = [(2, there), (1, there), (0, [there, lambda block, where: 2.0 * block, back])]
    steps += [(1, back), (2, back)]
    found = [
        da.map_lines(da.asarray(host, ranks=ranks), steps).gather()
        for ranks in process_grids(3, host.shape)
    ]
    np.testing.assert_allclose(found[0], 2.0 * host, rtol=1e-12, atol=1e-13)
    assert all(values.tobytes() == found[0].tobytes() for values in found)


def test_transforms_of_lines_have_the_same_bits_on_any_process_grid():
    pytest.importorskip("scipy")
    same_bits_of_transforms("dst")


def test_hartley_transforms_have_the_same_bits_on_any_process_grid():
    pytest.importorskip("ducc0")
    same_bits_of_transforms("dht")


def test_functions_of_lines_get_what_they_must_not_write():
    for axis in (0, 1):
        with pytest.raises(ValueError, match="read-only"):
            da.map_lines(da.zeros((8, 8)), [(axis, lambda b, where: np.add(b, 1, out=b))])


def test_wrong_steps_are_refused():
    u, vector = da.zeros((8, 9)), da.Grid((8, 9)).zeros(components=(2,))
    for text, call in {
        "map_lines takes at least one step, got none": lambda: da.map_lines(u, []),
        "A step of map_lines is (axis, function), got 3": lambda: da.map_lines(u, [3]),
        "axis=2 is none of the 2 axes": lambda: da.map_lines(u, [(2, np.sort)]),
        "map_lines takes a function, got 3": lambda: da.map_lines(u, [(0, 3)]),
        "map_lines is called as f(block, where), but it takes 1 argument (block)": (
            lambda: da.map_lines(u, [(0, lambda block: block)])
        ),
        "has a name, got the class LineTransform itself; write": (
            lambda: da.map_lines(u, [(0, [da.fft.LineTransform])])
        ),
        "holds components": lambda: da.map_lines(vector, [(0, np.sort)]),
        "cannot take what map_lines makes": lambda: da.map_lines(
            u, [(0, np.sort)], out=da.zeros((9, 8))
        ),
    }.items():
        refused(ArrayError, text, call)
    with pytest.raises(ArrayError, match=r"made .* return values of the shape"):
        da.map_lines(da.zeros((8 * SIZE, 9)), [(0, lambda b, where: b[:1])])
