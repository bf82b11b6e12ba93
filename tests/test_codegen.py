"""Kernels as C, and as CUDA text run on the CPU, against the NumPy executor and independent NumPy,
to the bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from distarray import exact
from distarray.geometry import AxisGeometry
from distarray.regions import Box
from distarray.stencil import language
from tests.kernel_cases import (
    HALO,
    Case,
    diffuse,
    parameter,
    positions,
    profile,
    several,
)


@pytest.fixture(autouse=True, params=["compiled", "cuda"])
def way(request, monkeypatch):
    """The executor that is compared to NumPy."""
    monkeypatch.setattr(Case, "way", request.param)
    return request.param


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_diffusion_agrees_with_numpy_slices(dtype):
    case = Case(
        diffuse,
        [parameter("u", dtype, ndim=3), parameter("new", dtype, ndim=3)],
        (5, 6, 37),
        scalars={"r": 0.1},
        special=False,
    )
    (u, new), _, _ = case.agree()
    i = slice(HALO, -HALO)
    neighbours = [
        u[tuple(slice(HALO + n, u.shape[a] - HALO + n) if a == axis else i for a in range(3))]
        for axis in range(3)
        for n in (1, -1)
    ]
    r = u.real.dtype.type(0.1)
    expected = u[i, i, i] + r * (
        sum(neighbours[1:], 0 + neighbours[0]) - u.real.dtype.type(6) * u[i, i, i]
    )
    np.testing.assert_array_equal(new[i, i, i], expected)
    outside = new.copy()
    outside[i, i, i] = case.views[1].memory[i, i, i]
    np.testing.assert_array_equal(outside, case.views[1].memory)


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "c16"])
def test_where_and_scalars_of_every_kind(dtype):
    def kernel(a, new, *, x, n, flag):
        yes = np.where(flag, a[0, 0] * n, a[0, 0] - n)
        new[0, 0] = np.where((a[1, 0].real > x) & ~(a[0, 1].real == 0), yes, a[0, -1]).astype(dtype)

    case = Case(
        kernel,
        [parameter("a", dtype), parameter("new", dtype)],
        (9, 70),
        scalars={"x": 0.25, "n": 3, "flag": True},
        special=False,
    )
    case.agree()


def test_complex_scalars():
    def kernel(a, new, *, z, r):
        new[0, 0] = z * a[0, 0] / (r + z)

    Case(
        kernel,
        [parameter("a", "c16"), parameter("new", "c16")],
        (9, 70),
        scalars={"z": 1.5 - 2j, "r": 3.0},
    ).agree()


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_any_number_of_axes(ndim):
    def kernel(u, new):
        new.__setitem__((0,) * ndim, sum(u.shift(axis, n) for axis in range(ndim) for n in (1, -2)))

    Case(
        kernel, [parameter("u", ndim=ndim), parameter("new", ndim=ndim)], (3, 4, 5, 21)[-ndim:]
    ).agree()


@pytest.mark.parametrize("periodic", [(False, False), (True, True)])
@pytest.mark.parametrize("stretched", [False, True])
def test_positions_and_indices(periodic, stretched):
    cells = (12, 280)
    faces = [np.linspace(0, 1, n + 1) ** 1.5 if stretched else None for n in cells]
    axes = tuple(
        AxisGeometry(n, 0.0, 1.0, p, f) for n, p, f in zip(cells, periodic, faces, strict=True)
    )
    case = Case(
        positions,
        [parameter("u"), parameter("new")],
        (3, 70),
        axes=axes,
        periodic=periodic,
        start=(3, 210),
    )
    case.agree((Box((-1, -1), (4, 70)),))


@pytest.mark.parametrize("start", [(0, 0), (3, 5), (4, 7)])
def test_fine_coarse_and_profiles(start):
    def kernel(u, fine, coarse, row, column, new):
        new[0, 0] = (
            u[0, 1]
            + 0.25 * (fine.fine[0, 0] + fine.fine[1, -1] - fine.fine[-1, 1])
            + coarse.coarse[0, 0] * coarse.coarse[-1, 1]
            + row[1] * column[-1]
        )

    parameters = [
        parameter("u"),
        parameter("fine", level=1),
        parameter("coarse", level=-1),
        profile("row", 0),
        profile("column", 1),
        parameter("new"),
    ]
    Case(kernel, parameters, (6, 71), start=start, special=False).agree()


def test_components_are_separate_arrays():
    def kernel(U, S):
        U[0][0, 0] = U[1][1, 0] + U[2][0, 1] * S[1, 0][0, 0]
        S[0, 1][0, 0] = U[0][0, 0] - S[1, 1][0, -1]

    Case(
        kernel, [parameter("U", components=(3,)), parameter("S", components=(2, 2))], (5, 40)
    ).agree()


def test_swap_computes_all_values_before_any_write():
    def kernel(a, b):
        old = a[0, 0]
        a[0, 0] = b[0, 0]
        b[0, 0] = old

    case = Case(kernel, [parameter("a"), parameter("b")], (5, 40), special=False)
    i = slice(HALO, -HALO)
    (a, b), _, _ = case.agree()
    np.testing.assert_array_equal(a[i, i], case.views[1].memory[i, i])
    np.testing.assert_array_equal(b[i, i], case.views[0].memory[i, i])


@pytest.mark.parametrize("mask", range(8))
def test_swap_under_a_mask(mask):
    def kernel(a, b, c):
        old = a[0, 0]
        a[0, 0] = b[0, 0]
        b[0, 0] = old
        c[0, 0] = old - c[0, 0]

    case = Case(kernel, [parameter(n) for n in "abc"], (5, 40), special=False)
    case.agree((case.box, mask))


def test_one_array_under_two_names_and_a_mask():
    def kernel(a, b, new, other):
        b[0, 0] = a[0, 0] + 1.0
        new[0, 0] = a[0, 0] * 2.0
        other[0, 0] = 0.0

    case = Case(kernel, [parameter(n) for n in ("a", "b", "new", "other")], (5, 40), special=False)
    before = case.views[0].memory.copy()
    launch = case.bound(case.way, [case.views[0], case.views[0], *case.views[2:]])
    launch.run(case.box, 0b011)
    i = slice(HALO, -HALO)
    np.testing.assert_array_equal(case.views[0].memory[i, i], before[i, i] + 1.0)
    np.testing.assert_array_equal(case.views[2].memory[i, i], before[i, i] * 2.0)


def test_complex_value_in_place_uses_its_old_parts():
    def kernel(z):
        z[0, 0] = z[0, 0] * 1j

    case = Case(kernel, [parameter("z", "c16")], (5, 40), special=False)
    (z,), _, _ = case.agree()
    i = slice(HALO, -HALO)
    np.testing.assert_array_equal(z[i, i], case.views[0].memory[i, i] * 1j)


@pytest.mark.parametrize("mask", range(8))
def test_masks_select_outputs(mask):
    case = Case(several, [parameter(n) for n in "uvwp"], (5, 40), special=False)
    compiled, _, _ = case.agree((Box((1, 2), (4, 33)), mask))
    for bit, (array, view) in enumerate(zip(compiled, case.views, strict=False)):
        if bit == 3 or not mask >> bit & 1:
            np.testing.assert_array_equal(array, view.memory)


@pytest.mark.parametrize("mask", [-1, 0, 1])
def test_masks_of_one_output(mask):
    def kernel(u, new):
        new[0, 0] = u[0, 1] - 1.0

    case = Case(kernel, [parameter("u"), parameter("new")], (5, 40), special=False)
    (_, new), _, _ = case.agree((case.box, mask))
    assert (new == case.views[1].memory).all() == (mask == 0)


@pytest.mark.parametrize("mask", [-1, 0, 1, 2, 3])
def test_a_reduction_has_a_mask_bit_of_its_own(mask):
    def kernel(u, new):
        new[0, 0] = u[0, 0]
        return language.reduce.sum(u[0, 0])

    case = Case(kernel, [parameter("u"), parameter("new")], (5, 40), special=False)
    _, partials, compiled = case.agree((case.box, mask))
    np.testing.assert_allclose(compiled[0], partials[0], rtol=1e-12)
    assert (compiled[0] == 0).all() == (mask in (0, 1))


@pytest.mark.parametrize("colour", [0, 1])
@pytest.mark.parametrize("start", [(0, 0, 0), (1, 0, 2), (1, 3, 1)])
def test_colours_in_place(colour, start):
    def kernel(u, *, w):
        around = sum(u.shift(axis, n) for axis in range(3) for n in (1, -1))
        u[0, 0, 0] = (1.0 - w) * u[0, 0, 0] + w * around / 6.0
        return language.reduce.max(abs(around)), language.reduce.sum(around, reproducible=True)

    case = Case(
        kernel,
        [parameter("u", ndim=3)],
        (4, 5, 43),
        scalars={"w": 1.2},
        start=start,
        colours=2,
        special=False,
    )
    box = Box((0, 1, 3), (4, 5, 42))
    (u,), partials, compiled = case.agree((box, -1, colour))
    np.testing.assert_array_equal(compiled[0], partials[0])
    np.testing.assert_array_equal(compiled[1], partials[1])
    changed = np.argwhere(u != case.views[0].memory) - HALO
    assert len(changed)
    assert ((changed.sum(axis=1) + sum(start)) % 2 == colour).all()


def all_reductions(u, v):
    value = u[0, 0] - 2 * v[0, 1]
    return (
        language.reduce.sum(value),
        language.reduce.sum(value, reproducible=True),
        language.reduce.min(value),
        language.reduce.max(value),
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "i8", "u8"])
@pytest.mark.parametrize("shape", [(70,), (1, 1), (5, 1100), (130, 7)])
def test_reductions(dtype, shape):
    ndim = len(shape)

    def kernel(u, v):
        value = u.shift(0, 0) - 2 * v.shift(ndim - 1, 1)
        reduce = language.reduce
        return (
            reduce.sum(value),
            reduce.sum(value, reproducible=True),
            reduce.min(value),
            reduce.max(value),
        )

    case = Case(
        kernel,
        [parameter("u", dtype, ndim=ndim), parameter("v", dtype, ndim=ndim)],
        shape,
        special=False,
    )
    half = shape[0] // 2
    runs = [(case.box.with_axis(0, 0, half),), (case.box.with_axis(0, half, shape[0]),)]
    _, partials, compiled = case.agree(*runs)
    scale = 1 if dtype[0] in "iu" else 1e6
    np.testing.assert_allclose(compiled[0], partials[0], rtol=1e-12, atol=1e-10 * scale)
    for one, other in zip(partials[1:], compiled[1:], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(exact.carried(one) if one.size > 2 else one, other)


def test_complex_sums():
    def kernel(u):
        return language.reduce.sum(u[0, 0]), language.reduce.sum(u[0, 0], reproducible=True)

    case = Case(kernel, [parameter("u", "c16")], (5, 40), special=False)
    _, partials, compiled = case.agree()
    assert compiled[0].dtype == np.complex128
    np.testing.assert_allclose(compiled[0], partials[0], rtol=1e-12)
    assert exact.total(compiled[1]) == exact.total(partials[1])


@pytest.mark.parametrize("place", [0, 1, 2900])
def test_nan_is_flagged_and_extrema_are_those_of_the_numbers(place):
    def kernel(u):
        return language.reduce.min(u[0]), language.reduce.max(u[0])

    case = Case(kernel, [parameter("u", ndim=1)], (3000,), special=False)
    numbers = np.delete(case.views[0].memory[HALO:-HALO].copy(), place)
    case.views[0].memory[HALO + place] = np.nan
    _, partials, compiled = case.agree()
    assert compiled[0].tolist() == [numbers.min(), 1.0]
    assert compiled[1].tolist() == [numbers.max(), 1.0]
    np.testing.assert_array_equal(compiled, partials)


def test_reductions_start_at_the_identity_and_reset():
    case = Case(all_reductions, [parameter("u"), parameter("v")], (3, 8), special=False)
    launch = case.bound(case.way, case.views)
    launch.run(case.box)
    launch.reset_reductions()
    total, limbs, least, greatest = launch.partials()
    assert total == 0
    assert not limbs.any()
    assert least.tolist() == [np.inf, 0]
    assert greatest.tolist() == [-np.inf, 0]


def test_reductions_come_after_all_outputs_in_a_mask():
    def kernel(u, v):
        u[0, 0] = 1.0
        v[0, 0] = 2.0
        reduce = language.reduce
        return reduce.sum(3.0 + 0 * u[0, 0], reproducible=True), reduce.max(u[0, 0] + v[0, 0])

    case = Case(kernel, [parameter("u"), parameter("v")], (4, 10), special=False)
    for mask in (*range(16), -1):
        _, _, (limbs, (greatest, _)) = case.agree((case.box, mask))
        assert exact.total(limbs) == (3.0 * 40 if mask & 4 else 0.0)
        assert greatest == (3.0 if mask & 8 else -np.inf)


def test_one_array_under_two_names():
    def kernel(a, b, new):
        b[0, 0] = a[0, 0] + 1.0
        new[0, 0] = a[0, 0] * 2.0

    case = Case(kernel, [parameter(n) for n in ("a", "b", "new")], (5, 40), special=False)
    before = case.views[0].memory.copy()
    views = [case.views[0], case.views[0], case.views[2]]
    launch = case.bound(case.way, views)
    launch.run(case.box)
    i = slice(HALO, -HALO)
    np.testing.assert_array_equal(views[0].memory[i, i], before[i, i] + 1.0)
    np.testing.assert_array_equal(views[2].memory[i, i], before[i, i] * 2.0)


def test_words_of_c_may_name_arrays_and_scalars():
    def kernel(double, i, new, exp, *, register, j, box):
        new[0, 0] = double[0, 0] + i[0, 0] * np.exp(exp[0, 0] * 0.0) + register * j - box

    names = ["double", "i", "new", "exp"]
    Case(
        kernel,
        [parameter(n) for n in names],
        (3, 8),
        scalars={"register": 1.0, "j": 2.0, "box": 3.0},
        special=False,
    ).agree()


def test_words_of_blocked_loops_may_name_arrays_and_scalars():
    def kernel(block, new, *, rows, fitting, block_end, count0):
        new[0, 0, 0] = block[1, 0, 0] + block[-1, 0, 0] + rows * fitting - block_end * count0
        return language.reduce.max(block[0, 0, 0])

    scalars = dict.fromkeys(("rows", "fitting", "block_end", "count0"), 2.0)
    parameters = [parameter("block", ndim=3), parameter("new", ndim=3)]
    Case(kernel, parameters, (3, 4, 8), scalars=scalars).agree()


def test_letters_outside_ascii_may_name_arrays():
    text = "def kernel(\\u03c1, \\u03c1_new): \\u03c1_new[0, 0] = 2.0 * \\u03c1[0, 0]"
    space = {}
    exec(text.encode().decode("unicode_escape"), space)
    Case(space["kernel"], [parameter(chr(0x3C1)), parameter(chr(0x3C1) + "_new")], (3, 8)).agree()


def test_fast_kernels_stay_close():
    case = Case(
        diffuse,
        [parameter("u", ndim=3), parameter("new", ndim=3)],
        (5, 6, 37),
        scalars={"r": 0.1},
        special=False,
        fast=True,
    )
    (_, exactly), _ = case.run("numpy", [(case.box,)])
    (_, fast), _ = case.run(case.way, [(case.box,)])
    np.testing.assert_allclose(fast, exactly, rtol=1e-9, atol=1e-9)
