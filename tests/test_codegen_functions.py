"""Functions and conversions of kernels as C, and as CUDA text run on the CPU, against the NumPy
executor, to the bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from distarray.stencil import calls
from tests.kernel_cases import (
    HALO,
    Case,
    parameter,
    same_bits,
)


@pytest.fixture(autouse=True, params=["compiled", "cuda"])
def way(request, monkeypatch):
    """The executor that is compared to NumPy."""
    monkeypatch.setattr(Case, "way", request.param)
    return request.param


BINARY = [
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "minimum"),
    *("maximum", "fmin", "fmax", "copysign", "equal", "not_equal", "less", "less_equal"),
    *("greater", "greater_equal", "logical_and", "logical_or", "logical_xor"),
]
UNARY = [
    *("negative", "absolute", "sqrt", "sign", "floor", "ceil", "trunc", "rint", "logical_not"),
    *("isnan", "isinf", "isfinite"),
]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"]
NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
COMPLEX = ["add", "subtract", "multiply", "divide", "equal", "not_equal"]
EXTREMA = {"minimum", "maximum", "fmin", "fmax"}


def _functions(dtype):
    """Functions that kernels have for a dtype, with their numbers of operands and result types."""
    names = BINARY + UNARY + (BITWISE if dtype[0] in "iu" else [])
    for name in names:
        count = getattr(np, name).nin
        result = np.asarray(getattr(np, name)(*(np.ones(1, dtype),) * count)).dtype
        if result != np.float16:  # which kernels do not have
            yield name, count, result


def _with_outputs(kernel, count):
    """A kernel whose outputs, given as one list, are parameters out0, out1, ..."""
    names = [f"out{n}" for n in range(count)]
    text = f"def many(a, b, {', '.join(names)}): kernel(a, b, out=[{', '.join(names)}])"
    space = {"kernel": kernel}
    exec(text, space)
    return space["many"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_functions_agree(dtype):
    functions = list(_functions(dtype))

    def kernel(a, b, *, out):
        for output, (name, count, _) in zip(out, functions, strict=True):
            output[0, 0] = getattr(np, name)(*(a[0, 0], b[0, 0])[:count])

    outputs = [parameter(f"out{n}", result) for n, (_, _, result) in enumerate(functions)]
    parameters = [parameter("a", dtype), parameter("b", dtype), *outputs]
    case = Case(_with_outputs(kernel, len(functions)), parameters, (9, 70))
    one, _ = case.run("numpy", [(case.box,)])
    other, _ = case.run(case.way, [(case.box,)])
    for (name, _, _), x, y in zip(functions, one[2:], other[2:], strict=True):
        if name in EXTREMA:  # the sign of a zero is not promised
            np.testing.assert_array_equal(x, y, err_msg=name)
        else:
            same_bits(x, y, name)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_of_two_agree(name, dtype):
    def kernel(a, b, new):
        new[0, 0] = getattr(np, name)(a[0, 0], b[1, -1])

    result = "?" if name.endswith("equal") else dtype
    parameters = [parameter("a", dtype), parameter("b", dtype), parameter("new", result)]
    Case(kernel, parameters, (9, 70)).agree()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_functions_of_one_agree(dtype):
    def kernel(a, b, new, size, flag):
        z = a[0, 0]
        new[0, 0] = -z * np.conjugate(b[0, 1]) + 2j * z.imag - z.real
        size[0, 0] = abs(z)
        flag[0, 0] = (np.isnan(z) | np.isinf(b[0, 0])) ^ np.isfinite(z)

    real = f"f{np.dtype(dtype).itemsize // 2}"
    kinds = {"a": dtype, "b": dtype, "new": dtype, "size": real, "flag": "?"}
    Case(kernel, [parameter(name, kind) for name, kind in kinds.items()], (9, 70)).agree()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_transcendental_functions_agree_within_two_ulp(dtype):
    names = sorted(calls.TRANSCENDENTAL)

    def kernel(a, b, *, out):
        for output, name in zip(out, names, strict=True):
            above = 1 if name == "arccosh" else 0
            operands = (a[0, 0] + above, b[0, 0])
            output[0, 0] = getattr(np, name)(*operands[: getattr(np, name).nin])

    outputs = [parameter(f"out{n}", dtype) for n in range(len(names))]
    parameters = [parameter("a", dtype), parameter("b", dtype), *outputs]
    case = Case(_with_outputs(kernel, len(names)), parameters, (90, 700), special=False)
    for view in case.views[:2]:
        view.memory[...] = np.random.default_rng(6).uniform(0.01, 0.99, view.memory.shape)
    one, _ = case.run("numpy", [(case.box,)])
    other, _ = case.run(case.way, [(case.box,)])
    for x, y in zip(one[2:], other[2:], strict=True):
        np.testing.assert_array_max_ulp(x, y, 2)


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 30.0, 1e300])
def test_repaired_functions_of_all_magnitudes(scale):
    def kernel(a, b, new):
        new[0, 0] = np.tanh(a[0, 0])
        b[0, 0] = np.cbrt(a[0, 0])

    case = Case(kernel, [parameter(n) for n in ("a", "b", "new")], (90, 700))
    with np.errstate(over="ignore"):
        case.views[0].memory[...] *= scale
    one, _ = case.run("numpy", [(case.box,)])
    other, _ = case.run(case.way, [(case.box,)])
    for x, y in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        x[np.isnan(x)] = y[np.isnan(y)] = 0
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y))
        np.testing.assert_array_max_ulp(np.abs(x), np.abs(y), 2)


def test_every_function_of_the_language_is_tested():
    tested = {*BINARY, *UNARY, *BITWISE, *COMPLEX, *calls.TRANSCENDENTAL}
    assert tested | {"real", "imag", "conjugate", "where"} >= calls.PRIMITIVES


@pytest.mark.parametrize("source", ["?", *NUMBERS])
def test_conversions_agree(source):
    targets = ["?", *NUMBERS, "c8", "c16"]

    def kernel(a, b, *, out):
        for output, target in zip(out, targets, strict=True):
            output[0, 0] = a[0, 0].astype(target)

    outputs = [parameter(f"out{n}", target) for n, target in enumerate(targets)]
    parameters = [parameter("a", source), parameter("b", source), *outputs]
    Case(_with_outputs(kernel, len(targets)), parameters, (9, 70)).agree()


INTEGERS = [name for name in NUMBERS if name[0] in "iu"]
EDGES = [
    *(0.0, -0.5, 1.5, 300.5, -300.0, 4000.0, 1e10, -1e10, 2.0**31, -(2.0**31), 2.0**32, 2.0**53),
    *(2.0**63, -(2.0**63), 1.5 * 2.0**63, 2.0**64, 1e300, np.inf, -np.inf, np.nan),
]


def _same_in_range(values, written):
    """Numbers that the integer can hold are truncated as `astype` does, all along the row."""
    info = np.iinfo(written.dtype)
    whole = np.trunc(values)
    within = (whole >= info.min) & (whole < float(info.max) + 1 - (info.max < 2**53))
    np.testing.assert_array_equal(written[within], values[within].astype(written.dtype))


@pytest.mark.parametrize(
    "source", ["f8", "c8", *(pytest.param(name, marks=pytest.mark.slow) for name in ("f4", "c16"))]
)
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_out_of_range_become_the_same_integers_at_every_place(target, source):
    def kernel(a, written, again, inverse, cast, shifted):
        written[0, 0] = a[0, 0].real
        again[0, 0] = written[0, 0]
        cast[0, 0] = a[0, 0].real.astype(target).astype("f8")
        inverse[0, 0] = 1.0 / a[0, 0].real.astype(target)
        shifted[0, 0] = a[0, 1].real.astype(target) + a[0, 0].real.astype(target)

    outputs = {"written": target, "again": "f8", "inverse": "f8", "cast": "f8", "shifted": target}
    parameters = [parameter("a", source), *(parameter(n, d) for n, d in outputs.items())]
    case = Case(kernel, parameters, (len(EDGES), 37))
    with np.errstate(over="ignore"):
        values = np.array([0.0] * HALO + EDGES + [0.0] * HALO).astype(source)
    case.views[0].memory[...] = values[:, np.newaxis]
    for mask in (-1, 0b01011):
        (a, written, again, _, cast, _), _, _ = case.agree((case.box, mask))
        inner = (slice(HALO, -HALO),) * 2
        assert (written[inner] == written[inner][:, :1]).all()
        np.testing.assert_array_equal(again[inner], written[inner].astype("f8"))
        if mask == -1:
            np.testing.assert_array_equal(cast[inner], again[inner])
        _same_in_range(a[inner].real, written[inner])


@pytest.mark.parametrize("target", INTEGERS)
def test_constants_and_scalars_out_of_range_become_the_same_integers(target):
    def kernel(a, *, x, out):
        for output, value in zip(out, EDGES, strict=False):
            output[0, 0] = (a[0, 0] * 0 + value).astype(target)
        out[-2][0, 0] = np.where(a[0, 0] > 0, 1e300, -300.0).astype(target)
        out[-1][0, 0] = (x + 0.0).astype(target)

    names = [f"out{n}" for n in range(len(EDGES) + 2)]
    text = f"def many(a, {', '.join(names)}, *, x): kernel(a, x=x, out=[{', '.join(names)}])"
    space = {"kernel": kernel}
    exec(text, space)
    parameters = [parameter("a"), *(parameter(name, target) for name in names)]
    Case(space["many"], parameters, (2, 37), scalars={"x": 1e300}, special=False).agree()


def test_the_constant_of_the_language_out_of_range():
    def kernel(a, new, again):
        new[0, 0] = 1e300
        again[0, 0] = new[0, 0] + a[0, 0]

    for target in INTEGERS:
        parameters = [parameter("a"), parameter("new", target), parameter("again")]
        Case(kernel, parameters, (2, 37)).agree()
