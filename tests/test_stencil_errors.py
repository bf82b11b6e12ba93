"""Every rule of the stencil language, broken: messages name the kernel, the line and the cure."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distarray.errors import StencilError
from tests.stencil_refusals import (
    refusal,
)
from tests.stencil_tools import traced

# ---- branches and numbers


def branches_on_a_value(u: Any, new: Any) -> None:
    if u[0, 0] > 0:  # here
        new[0, 0] = u[0, 0]


def branches_by_and(u: Any, new: Any) -> None:
    new[0, 0] = u[0, 0] > 0 and u[1, 0] > 0  # here


def takes_the_builtin_max(u: Any, new: Any) -> None:
    new[0, 0] = max(u[0, 0], u[1, 0])  # here


def branches_on_a_scalar(u: Any, *, r: Any) -> None:
    u[0, 0] = 1.0 if r > 0 else 2.0  # here


@pytest.mark.parametrize(
    "kernel", [branches_on_a_value, branches_by_and, takes_the_builtin_max, branches_on_a_scalar]
)
def test_branches(kernel: Callable[..., Any]) -> None:
    message = refusal(kernel)
    assert message.startswith("branches (if, while, and, or, not, min, max) on a value")
    assert "use da.where(condition, a, b)" in message
    assert "static" in message


def takes_a_float(u: Any) -> None:
    u[0, 0] = float(u[0, 0])  # here


def takes_math(u: Any) -> None:
    u[0, 0] = math.sqrt(u[0, 0])  # here


def counts_to_a_scalar(u: Any, *, r: Any) -> None:
    for _ in range(r):  # here
        u[0, 0] = u[0, 0]


def rounds(u: Any) -> None:
    u[0, 0] = round(u[0, 0])  # here


def becomes_an_array(u: Any) -> None:
    u[0, 0] = np.asarray(u[0, 0])  # here


@pytest.mark.parametrize(
    "kernel", [takes_a_float, takes_math, counts_to_a_scalar, rounds, becomes_an_array]
)
def test_numbers_that_are_not_known(kernel: Callable[..., Any]) -> None:
    message = refusal(kernel)
    assert message.startswith("needs the number behind a value that is not known while tracing")
    assert "use NumPy functions and .astype" in message


def test_a_helper_is_named_by_its_own_line() -> None:
    def helper(value: Any) -> Any:
        return 1.0 if value else 2.0

    def kernel(u: Any) -> None:
        u[0, 0] = helper(u[0, 0])

    line = inspect.getsourcelines(helper)[1] + 1
    with pytest.raises(
        StencilError, match=rf"Kernel kernel \(test_stencil_errors.py, line {line}\)"
    ):
        traced(kernel)


# ---- reading and writing


def writes_at_an_offset(u: Any) -> None:
    u[1, 0] = 0.0  # here


def test_a_write_at_an_offset() -> None:
    expected = "writes u[1, 0]; write at offset zero only, as in u[0, 0] = value."
    assert refusal(writes_at_an_offset) == expected


def reads_before_it_writes(u: Any) -> None:
    beside = u[-1, 0]
    u[0, 0] = beside  # here


def reads_after_it_writes(u: Any) -> None:
    u[0, 0] = 1.0
    u[0, 0] = u[-1, 0]  # here


def reads_a_written_component(v: Any) -> None:
    v[0][0, 0] = 1.0
    v[1][0, 0] = v[0][-1, 0]  # here


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (reads_before_it_writes, "u"),
        (reads_after_it_writes, "u"),
        (reads_a_written_component, "v[0]"),
    ],
)
def test_an_offset_read_of_what_is_written(kernel: Callable[..., Any], name: str) -> None:
    message = refusal(kernel)
    assert message.startswith(f"reads {name}[-1, 0] and writes {name}:")
    assert message.endswith("write to another array, or use @da.stencil(colours=2).")


def reads_its_own_colour(u: Any) -> None:
    u[0, 0] = u[1, 0] + u[1, 1]  # here


def test_an_even_offset_with_two_colours() -> None:
    message = refusal(reads_its_own_colour, colours=2)
    assert message.startswith("reads u[1, 1], a point of the colour that is being written;")
    assert message.endswith("read written arrays at zero or at offsets of odd sum.")


def reads_too_few(u: Any) -> None:
    u[0, 0] = u[0]  # here


def reads_too_many(u: Any) -> None:
    u[0, 0] = u[0, 0, 0]  # here


def reads_a_profile_at_two(p: Any, u: Any) -> None:
    u[0, 0] = p[0, 0]  # here


def test_a_wrong_number_of_offsets() -> None:
    assert refusal(reads_too_few) == (
        "indexes u with 0, which needs one offset for each of 2 axes; write u[0, 0]."
    )
    assert refusal(reads_too_many).startswith("indexes u with (0, 0, 0), which needs one offset")
    assert refusal(reads_a_profile_at_two) == (
        "indexes p with (0, 0), which needs one offset for each of 1 axis; write p[0]."
    )


def reads_half_a_cell(u: Any) -> None:
    u[0, 0] = u[0.5, 0]  # here


def reads_a_slice(u: Any) -> None:
    u[0, 0] = u[0, 1:]  # here


def reads_where_an_array_says(u: Any) -> None:
    u[0, 0] = u[u[0, 0], 0]  # here


@pytest.mark.parametrize("kernel", [reads_half_a_cell, reads_a_slice, reads_where_an_array_says])
def test_offsets_are_integers(kernel: Callable[..., Any]) -> None:
    assert refusal(kernel).endswith("offsets and components are integers known while tracing.")


def chooses_component_three(v: Any) -> None:
    v[0][0, 0] = v[3][0, 0]  # here


def chooses_component_minus_one(v: Any) -> None:
    v[0][0, 0] = v[-1][0, 0]  # here


@pytest.mark.parametrize("kernel", [chooses_component_three, chooses_component_minus_one])
def test_a_component_out_of_range(kernel: Callable[..., Any]) -> None:
    message = refusal(kernel)
    assert message.endswith("of v, which has components (3,); count from 0.")


def forgets_the_component(v: Any, u: Any) -> None:
    u[0, 0] = v[1, 0]  # here


def forgets_it_with_an_ellipsis(v: Any, u: Any) -> None:
    u[0, 0] = v[...]  # here


def forgets_it_when_shifting(v: Any, u: Any) -> None:
    u[0, 0] = v.shift(0, 1)  # here


def forgets_it_when_writing(v: Any) -> None:
    v[0] = 1.0  # here


def chooses_half_a_tensor(t: Any, u: Any) -> None:
    u[0, 0] = t[0].shift(0, 1)  # here


def test_a_component_that_is_not_chosen() -> None:
    assert refusal(forgets_the_component) == (
        "indexes v with (1, 0) before choosing one of its components (3,); write v[component][0, "
        "0]."
    )
    for kernel in (forgets_it_with_an_ellipsis, forgets_it_when_shifting, forgets_it_when_writing):
        assert refusal(kernel).startswith("uses v without choosing one of its components (3,);")
    assert refusal(chooses_half_a_tensor).endswith("write t[component][0, 0].")


def uses_an_array_as_a_value(u: Any) -> None:
    u[0, 0] = 2.0 * u  # here


def subscripts_a_value(v: Any) -> None:
    v[0][0, 0] = v[1][0, 0][1]  # here


def loops_over_a_value(u: Any) -> None:
    u[0, 0] = list(u[0, 0])  # here


def asks_for_the_length(u: Any) -> None:
    u[0, 0] = len(u)  # here


def test_arrays_and_values_mixed_up() -> None:
    assert refusal(uses_an_array_as_a_value) == (
        "uses the array u as a value; read it at an offset, as in u[0, 0]."
    )
    assert refusal(subscripts_a_value).endswith("as in u[component][1, 0].")
    assert refusal(loops_over_a_value).startswith("loops over the value of one point;")
    assert refusal(asks_for_the_length).startswith("asks for the length of u,")


# ---- related grids and profiles


def reads_a_finer_grid(f: Any, u: Any) -> None:
    u[0, 0] = f[0, 0]  # here


def reads_a_coarser_grid(c: Any, u: Any) -> None:
    u[0, 0] = c[0, 0]  # here


def reads_fine_of_the_same(u: Any, new: Any) -> None:
    new[0, 0] = u.fine[0, 0]  # here


def reads_coarse_of_a_finer(f: Any, u: Any) -> None:
    u[0, 0] = f.coarse[0, 0]  # here


def writes_a_finer_grid(f: Any) -> None:
    f.fine[0, 0] = 1.0  # here


def test_grids_that_differ() -> None:
    assert refusal(reads_a_finer_grid).endswith(
        "as if it lay on the kernel's own; read f.fine[...]."
    )
    assert refusal(reads_a_coarser_grid).endswith("read c.coarse[...].")
    assert "does not lie on the next finer grid" in refusal(reads_fine_of_the_same)
    assert "does not lie on the next coarser grid" in refusal(reads_coarse_of_a_finer)
    assert refusal(writes_a_finer_grid).startswith("writes f, which lies on another grid;")


def writes_a_profile(p: Any) -> None:
    p[0] = 1.0  # here


def shifts_a_profile_across(p: Any, u: Any) -> None:
    u[0, 0] = p.shift(0, 1)  # here


def test_profiles() -> None:
    assert refusal(writes_a_profile).startswith("writes the profile p; profiles are read only")
    assert refusal(shifts_a_profile_across).endswith("along axis 0; it runs along axis 1.")


# ---- values from elsewhere


def captures_an_array(u: Any) -> None:
    u[0, 0] = u[0, 0] * np.ones(3)  # here


def captures_an_array_on_the_left(u: Any) -> None:
    u[0, 0] = np.ones(3) * u[0, 0]  # here


def captures_a_list(u: Any) -> None:
    u[0, 0] = u[0, 0] + [1.0]  # here


def captures_a_date(u: Any) -> None:
    u[0, 0] = u[0, 0] + np.datetime64("2020-01-01")  # here


def test_what_is_captured() -> None:
    for kernel in (captures_an_array, captures_an_array_on_the_left):
        message = refusal(kernel)
        assert message.startswith("uses a NumPy array of shape (3,) from outside;")
        assert message.endswith("pass arrays as positional and numbers as keyword parameters.")
    assert refusal(captures_a_list).startswith("uses the list [1.0] from outside;")
    assert "which is no number" in refusal(captures_a_date)


KEPT: list[Any] = []


def keeps_a_value(u: Any) -> None:
    KEPT.append(u[0, 0])
    u[0, 0] = 1.0


def uses_a_kept_value(u: Any) -> None:
    u[0, 0] = KEPT[0]  # here


def test_a_value_of_another_trace() -> None:
    traced(keeps_a_value)
    assert refusal(uses_a_kept_value).startswith("uses a value of another kernel")
