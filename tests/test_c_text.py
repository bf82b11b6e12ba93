"""What is particular to kernels as C: their text, threads, blocks of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil import codegen, evaluate, language, tracing
from distarray.stencil.launch import ArrayView
from tests.kernel_cases import BACKEND, Case, diffuse, parameter, positions, several


def test_the_text_of_casts_of_floats():
    def kernel(a, new, again):
        new[0, 0] = a[0, 0]
        again[0, 0] = new[0, 0]

    parameters = [parameter("a"), parameter("new", "u1"), parameter("again")]
    text = codegen.source(Case(kernel, parameters, (2, 37)).program)
    assert "(uint8_t)int32_from_float64(a[j], hidden)" in text
    assert text.count("= hidden_zero;") == 2  # once in each function, before its loops


def test_positions_without_a_grid_are_an_error():
    case = Case(positions, [parameter("u"), parameter("new")], (3, 70))
    with pytest.raises(
        StencilError, match=r"da.coordinate or da.spacing on arrays that lie on no grid"
    ):
        BACKEND.bind(case.program, case.views, case.geometry)


@pytest.mark.parametrize("threads", ["2", "3"])
def test_threads_do_not_change_bits(threads, monkeypatch):
    def kernel(u, new):
        new[0, 0] = u[0, 1] * u[1, 0] - u[0, 0] / 3.0
        reduce = language.reduce
        return (
            reduce.sum(new[0, 0]),
            reduce.sum(new[0, 0], reproducible=True),
            reduce.max(new[0, 0]),
        )

    case = Case(kernel, [parameter("u"), parameter("new")], (300, 400), special=False)
    one = case.run("compiled", [(case.box,)])
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    several = case.run("compiled", [(case.box,)])
    for a, b in zip(itertools.chain(*one), itertools.chain(*several), strict=True):
        np.testing.assert_array_equal(a, b)


def test_equal_programs_share_their_text():
    parameters = [parameter("u", ndim=3), parameter("new", ndim=3)]
    programs = [tracing.trace(diffuse, parameters, {"r": float}, {}, ndim=3) for _ in range(2)]
    assert codegen.generate(programs[0]) is codegen.generate(programs[1])


def test_text_is_what_a_person_would_write():
    parameters = [parameter("u", ndim=3), parameter("new", ndim=3)]
    text = codegen.source(tracing.trace(diffuse, parameters, {"r": float}, {}, ndim=3))
    assert "for (int64_t k = k_begin; k < k_end; k++)" in text
    assert "u[k + u_s0] + u[k - u_s0]" in text
    assert "restrict" in text


def test_common_values_are_computed_once_and_far_out():
    def kernel(u, new, *, r):
        a = np.sqrt(u[0, 0])
        new[0, 0] = a * a + r * r * language.coordinate("x")

    text = codegen.source(
        tracing.trace(kernel, [parameter("u"), parameter("new")], {"r": float}, {}, ndim=2)
    )
    assert text.count("sqrt(") == 1
    outside, _, inside = text.partition("for (int64_t i")
    assert "r * r" in outside
    row, _, _ = inside.partition("for (int64_t j")
    assert "centre_0[i]" in row


def test_rows_that_are_not_contiguous_run_as_numpy():
    case = Case(
        lambda u, new: new.__setitem__((0, 0), u[0, 1]), [parameter("u"), parameter("new")], (3, 8)
    )
    views = [ArrayView(v.memory[:, ::2], (1, 1), v.start) for v in case.views]
    launch = BACKEND.bind(case.program, views, case.geometry)
    assert isinstance(launch, evaluate.NumpyLaunch)


def test_executor_numpy_is_honoured(monkeypatch):
    case = Case(several, [parameter(n) for n in "uvwp"], (5, 40))
    monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    assert isinstance(BACKEND.bind(case.program, case.views, case.geometry), evaluate.NumpyLaunch)


@pytest.mark.parametrize("shape", [(7, 41, 9000), (3, 8, 9000), (2, 9, 9000)])
def test_blocks_of_rows_cover_the_box(shape):
    """Rows so long that the loops run over several blocks, the last one narrower."""
    scalars, parameters = {"r": 0.1}, [parameter("u", ndim=3), parameter("new", ndim=3)]

    def kernel(u, new, *, r):
        diffuse(u, new, r=r)
        return language.reduce.sum(new[0, 0, 0], reproducible=True)

    for function in (diffuse, kernel):
        case = Case(function, parameters, shape, scalars=scalars, special=False)
        assert "block += rows" in codegen.source(case.program)
        _, one, other = case.agree((Box((0, 1, 2), shape),))
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)
