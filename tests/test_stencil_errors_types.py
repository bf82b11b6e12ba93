"""Rules of the stencil language for types, reductions, parameters and running, broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distarray.errors import StencilError
from distarray.regions import Box
from distarray.stencil import language as da
from distarray.stencil.analysis import require_distinct
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.probing import probe
from distarray.stencil.tracing import signature
from tests.stencil_refusals import (
    VECTOR,
    refusal,
)
from tests.stencil_tools import launch, run, traced

# ---- functions and types


def takes_a_norm(u: Any) -> None:
    u[0, 0] = np.linalg.norm(u[0, 0])  # here


def takes_heaviside(u: Any) -> None:
    u[0, 0] = np.heaviside(u[0, 0], 0.5)  # here


def accumulates(u: Any) -> None:
    u[0, 0] = np.add.reduce(u[0, 0])  # here


def writes_by_out(u: Any) -> None:
    np.add(u[0, 0], 1.0, out=u[0, 0])  # here


def rounds_to_decimals(u: Any) -> None:
    u[0, 0] = np.round(u[0, 0], 2)  # here


def gives_where_one_argument(u: Any) -> None:
    u[0, 0] = np.where(u[0, 0])  # here


def takes_bits_of_floats(u: Any) -> None:
    u[0, 0] = u[0, 0] & 1  # here


def inverts_an_integer(b: Any) -> None:
    b[0, 0] = np.reciprocal(b[0, 0])  # here


def takes_the_root_of_a_complex_value(u: Any) -> None:
    u[0, 0] = np.sqrt(1j * u[0, 0]).real  # here


def writes_a_complex_value(u: Any) -> None:
    u[0, 0] = 1j * u[0, 0]  # here


def converts_to_half(u: Any) -> None:
    u[0, 0] = u[0, 0].astype(np.float16)  # here


def adds_to_a_truth_value(u: Any) -> None:
    u[0, 0] = +(u[0, 0] > 0)  # here


def chooses_half_precision(b: Any) -> None:
    b[0, 0] = np.sqrt(b[0, 0])  # here


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (takes_a_norm, "uses np.norm, which the stencil language does not have;"),
        (takes_heaviside, "uses np.heaviside, which the stencil language does not have;"),
        (accumulates, "uses np.add.reduce, which the stencil language does not have;"),
        (writes_by_out, "uses np.add with out=, which the stencil language does not have;"),
        (rounds_to_decimals, "rounds to 2 decimals,"),
        (gives_where_one_argument, "calls np.where with other arguments than"),
        (takes_bits_of_floats, "applies bitwise_and to float64 and an int scalar,"),
        (inverts_an_integer, "applies reciprocal to uint8, an integer; write 1 / value."),
        (takes_the_root_of_a_complex_value, "applies sqrt to complex128; for complex values use"),
        (writes_a_complex_value, "converts complex128 to float64, which drops the imaginary part;"),
        (converts_to_half, "converts to float16, which kernels cannot hold;"),
        (adds_to_a_truth_value, "applies + to a truth value,"),
        (chooses_half_precision, "applies sqrt to uint8, which NumPy computes in float16;"),
    ],
)
def test_functions_and_types(kernel: Callable[..., Any], text: str) -> None:
    assert refusal(kernel).startswith(text)


def test_an_array_of_half_precision() -> None:
    half = ArrayParameter("u", np.dtype("f2"), (), (False, False))

    def kernel(u: Any) -> None:
        u[0, 0] = 1.0

    with pytest.raises(StencilError, match="gets u of dtype float16, which kernels cannot hold"):
        traced(kernel, arrays={"u": half})


# ---- positions and reductions


def asks_for_axis_two(u: Any) -> None:
    u[0, 0] = da.index(2)  # here


def asks_for_axis_z(u: Any) -> None:
    u[0, 0] = da.coordinate("z")  # here


def asks_for_location_z(u: Any) -> None:
    u[0, 0] = da.spacing(0, "z")  # here


def shifts_along_axis_two(u: Any, new: Any) -> None:
    new[0, 0] = u.shift(2, 1)  # here


def test_positions() -> None:
    for kernel in (asks_for_axis_two, shifts_along_axis_two):
        assert refusal(kernel) == "names axis 2 of a grid with 2 axes; use a number from 0 to 1."
    assert refusal(asks_for_axis_z).startswith("names the axis 'z';")
    assert refusal(asks_for_location_z).startswith("asks for the location 'z';")


@pytest.mark.parametrize(
    "call", [lambda: da.index(0), lambda: da.coordinate(0), lambda: da.spacing(0)]
)
def test_outside_a_kernel(call: Callable[[], Any]) -> None:
    with pytest.raises(StencilError, match="no kernel is being traced"):
        call()
    with pytest.raises(StencilError, match="no kernel is being traced"):
        da.reduce.sum(1)


def returns_a_value(u: Any) -> Any:
    return u[0, 0]


def forgets_to_return(u: Any) -> None:
    da.reduce.sum(u[0, 0])


def does_nothing(u: Any) -> None:
    pass


def takes_the_greatest_complex(u: Any) -> Any:
    return da.reduce.max(1j * u[0, 0])  # here


def takes_the_least_truth(u: Any) -> Any:
    return da.reduce.min(u[0, 0] > 0)  # here


def test_reductions() -> None:
    assert refusal(returns_a_value).endswith("return nothing, or values made by da.reduce.")
    assert refusal(forgets_to_return).startswith("makes a reduction that it does not return;")
    assert refusal(does_nothing).startswith("writes no array and returns no reduction;")
    assert refusal(takes_the_greatest_complex).startswith(
        "takes da.reduce.max of complex128, which"
    )
    assert refusal(takes_the_least_truth).startswith("takes da.reduce.min of bool,")


# ---- parameters


def takes_two(u: Any, new: Any, *, r: Any, s: Any = 1.0) -> None:
    new[0, 0] = r * u[0, 0] + s


def test_scalars_and_arrays_that_do_not_fit() -> None:
    place = r"^Kernel takes_two \(test_stencil_errors_types.py, line \d+\) "
    with pytest.raises(
        StencilError,
        match=place + r"has no scalar named 'q'; its scalars, those after a `\*`, are: r, s\.$",
    ):
        traced(takes_two, scalars={"r": float, "q": float})
    with pytest.raises(StencilError, match=place + "needs the scalar 'r', which was not given;"):
        traced(takes_two)
    with pytest.raises(StencilError, match=place + r"has no scalar named 'k'"):
        traced(takes_two, scalars={"r": float}, statics={"k": 1})
    bad = "takes_two"
    with pytest.raises(
        StencilError, match=rf"Kernel {bad} .* takes 2 arrays \(u, new\), but got 1;"
    ):
        launch_with_one_array()


def launch_with_one_array() -> None:
    from distarray.stencil.tracing import trace

    trace(takes_two, [VECTOR], {"r": float}, {}, ndim=2)


def test_signatures() -> None:
    def many(*arrays: Any) -> None: ...
    def options(u: Any, **scalars: Any) -> None: ...
    def no_array(*, r: Any) -> None: ...
    def default(u: Any, r: Any = 1.0) -> None: ...

    for function, text in [
        (many, r"takes \*arrays; name every array and every scalar\."),
        (options, r"takes \*\*scalars; name every array"),
        (no_array, "has no positional parameter; name at least one array"),
        (default, r"gives its array r the default 1\.0; put scalars behind a \*"),
    ]:
        with pytest.raises(StencilError, match=rf"^Kernel {function.__name__} \(test_.*\) {text}"):
            signature(function)


# ---- the same array twice


def copies_from_beside(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 0]


def test_the_same_array_twice() -> None:
    program = traced(copies_from_beside)
    require_distinct(program, [("a", ()), ("b", ())])
    require_distinct(program, [("a", (0,)), ("a", (1,))])
    with pytest.raises(
        StencilError,
        match=r"^Kernel copies_from_beside got one array as new and as u, writes new \(line \d+\) "
        r"and reads u\[1, 0\]; pass two arrays",
    ):
        require_distinct(program, [("a", ()), ("a", ())])
    require_distinct(traced(copies_from_beside, colours=2), [("a", ()), ("a", ())])


# ---- running


def test_positions_of_arrays_that_lie_on_no_grid() -> None:
    def kernel(u: Any) -> None:
        u[0] = da.coordinate(0)

    with pytest.raises(
        StencilError, match=r"its arrays lie on no grid; create them by grid\.zeros"
    ):
        run(kernel, np.zeros(3))


def test_a_read_outside_the_memory() -> None:
    def kernel(u: Any, new: Any) -> None:
        new[0] = u[1]

    bound, _ = launch(kernel, np.zeros(5), np.zeros(5))
    with pytest.raises(
        StencilError, match=r"reads u at \(1,\) outside its memory .* widen the halo"
    ):
        bound.run(Box((0,), (5,)))


def test_probing_a_kernel_that_breaks_a_rule() -> None:
    def branches(u: Any, new: Any) -> None:
        if u[0, 0] > 0.0:
            new[0, 0] = 1.0

    with pytest.raises(StencilError, match=r"Kernel branches \(test_.*\) branches"):
        probe(branches)

    def mixed(u: Any) -> None:
        u[0, 0] = u[0, 0, 0]

    with pytest.raises(StencilError, match="Kernel mixed indexes u with"):
        probe(mixed)

    def both(u: Any, new: Any) -> None:
        new[0, 0] = u.fine[0, 0] + u.coarse[0, 0]

    with pytest.raises(StencilError, match="reads u both as fine and as coarse"):
        probe(both)

    def with_and_without(u: Any, new: Any) -> None:
        new[0, 0] = u[0, 0] + u[1][0, 0]

    with pytest.raises(StencilError, match="uses u with and without components"):
        probe(with_and_without)
