"""Custom conditions: kernels whose offsets count inward from the face."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import distarray.boundary as bc
from distarray.errors import BoundaryError
from distarray.stencil import language
from tests.boundary_blocks import (
    Case,
    all_reads,
    assert_reads_equal,
    exchange,
    fake_array,
    make_blocks,
    make_boundary,
    padded_reference,
    plan,
    run_fills,
)
from tests.devices import host

GRIDS = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)]


def linear(u: Any) -> None:
    u[0, 0] = 2.0 * u[1, 0] - u[2, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("staggered", [False, True])
def test_offsets_count_inward_on_both_sides(staggered: bool, dtype: Any) -> None:
    case = Case((7, 6), (False, True), (staggered, False), (2, 1), dtype=dtype)

    def fill(axis: int, side: int, g: Any, at: Any) -> None:
        for m in (1, 2):
            g[at(-m)] = g[at(0)] + g[at(0)] - g[at(1)]

    values = case.values()
    reference = padded_reference(case, values, fill)
    kernels = (linear, SimpleNamespace(function=linear))
    for ranks, kernel in itertools.product(GRIDS, kernels):
        blocks = run_fills(case, ranks, values, {"x": bc.Custom(kernel)}, all_reads(case))
        assert_reads_equal(case, blocks, all_reads(case), reference)


def test_index_coordinate_time_and_defaults() -> None:
    case = Case((5, 4), (False, True), (False, False), (2, 1))

    def kernel(u: Any, *, time: Any, factor: float = 3.0) -> None:
        u[0, 0] = language.index(0) * 100.0 + language.coordinate(0) + factor * time

    values = case.values()
    (block,) = run_fills(case, (1, 1), values, {"x": bc.Custom(kernel)}, all_reads(case), 2.0)
    for i in (-2, -1, 5, 6):
        np.testing.assert_array_equal(
            host(block.memory)[i + 2, 1:-1], i * 100.0 + case.position(0, i) + 6.0
        )
    fill = plan(make_boundary(case, (1, 1), {"x": bc.Custom(kernel)}), block, all_reads(case))
    fill.run(2.0)
    assert not fill.stale(2.0)
    assert fill.stale(3.0)


def test_shift_is_the_dimension_free_form() -> None:
    case = Case((5, 4, 3), (True, False, True), (False, False, False), (1, 1, 1))

    def copy(u: Any) -> None:
        u[...] = u.shift(1, 1)

    values = case.values()
    blocks = run_fills(case, (1, 2, 1), values, {"y": bc.Custom(copy)}, all_reads(case))
    np.testing.assert_array_equal(host(blocks[0].memory)[1:-1, 0, 1:-1], values[:, 0])
    np.testing.assert_array_equal(host(blocks[1].memory)[1:-1, -1, 1:-1], values[:, -1])


def test_components_of_one_array_may_be_joined() -> None:
    case = Case((5, 6), (False, True), (False, False), (1, 2), components=(2,))

    def rotate(u: Any) -> None:
        u[0][0, 0] = -u[1][1, 0]
        u[1][0, 0] = u[0][1, 1] * 0.5

    def fill(axis: int, side: int, g: Any, at: Any) -> None:
        inner = g[at(0)].copy()
        g[at(-1)][0] = -inner[1]
        g[at(-1)][1] = np.roll(inner[0], -1, axis=1) * 0.5
        g[at(-1)][1][:, -1] = np.nan

    values = case.values()
    reference = padded_reference(case, values, fill)
    reads = all_reads(case, (1, 1))
    for ranks in GRIDS:
        blocks = run_fills(case, ranks, values, {"x": bc.Custom(rotate)}, reads)
        assert_reads_equal(case, blocks, reads, reference)


def test_a_later_condition_on_one_component_replaces_its_part() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1), components=(2,))

    def negate(u: Any) -> None:
        u[0][0, 0] = -u[0][1, 0]
        u[1][0, 0] = -u[1][1, 0]

    values = case.values()
    blocks = make_blocks(case, (1, 1), values)
    boundary = make_boundary(case, (1, 1), {"x": bc.Custom(negate)})
    boundary.view((1,))["x"] = bc.Outflow()
    exchange(case, blocks, all_reads(case))
    plan(boundary, blocks[0], all_reads(case)).run()
    np.testing.assert_array_equal(host(blocks[0].memory)[:, 0, 1:-1], [-values[0, 0], values[1, 0]])


def test_custom_on_a_component_view_gets_the_component() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1), components=(2,))
    values = case.values()
    blocks = make_blocks(case, (1, 1), values)
    boundary = make_boundary(case, (1, 1))
    boundary.view((1,))["x-"] = bc.Custom(linear)
    exchange(case, blocks, all_reads(case))
    plan(boundary, blocks[0], all_reads(case)).run()
    memory = host(blocks[0].memory)
    np.testing.assert_array_equal(memory[1, 0, 1:-1], 2 * values[1, 0] - values[1, 1])
    assert np.isnan(memory[0, 0]).all()


def test_custom_within_piecewise() -> None:
    case = Case((5, 6), (False, True), (False, False), (1, 1))
    condition = bc.Piecewise(lambda x, y: y > 1.0, bc.Custom(linear), bc.Dirichlet(0.0))

    def fill(axis: int, side: int, g: Any, at: Any) -> None:
        chosen = case.coordinates(axis, side)[1] > 1.0
        g[at(-1)] = np.where(chosen, 2 * g[at(0)] - g[at(1)], -g[at(0)])

    values = case.values()
    reference = padded_reference(case, values, fill)
    for ranks in GRIDS:
        blocks = run_fills(case, ranks, values, {"x": condition}, all_reads(case))
        assert_reads_equal(case, blocks, all_reads(case), reference)


def divergence_free(u: Any, v: Any) -> None:
    """Continue u so that the divergence with v vanishes in the cell at the face."""
    u[0, 0] = u[2, 0] + (v[1, 1] - v[1, 0])


@pytest.mark.parametrize("wraps", [False, True])
def test_other_arrays_beside_the_face(wraps: bool) -> None:
    u_case = Case((6, 8), (False, wraps), (True, False), (1, 1))
    v_case = Case((6, 8), (False, wraps), (False, True), (2, 2))
    u, v = u_case.values(), v_case.values(2)
    reads = {((), (1, 0)): (1, 0)}
    expected = u[-2] + (np.roll(v[-1], -1) - v[-1] if wraps else v[-1, 1:] - v[-1, :-1])
    for ranks in GRIDS:
        u_blocks, v_blocks = make_blocks(u_case, ranks, u), make_blocks(v_case, ranks, v)
        found = []
        for block, other in zip(u_blocks, v_blocks, strict=True):
            array = fake_array(other)
            boundary = make_boundary(u_case, ranks, {"x+": bc.Custom(divergence_free, array)})
            ((read_array, needed),) = boundary.conditions.other_reads(reads)
            assert read_array is array
            assert needed == {((), (0, 1)): (0, 1)}
            assert boundary.conditions.closure(reads) == {}
            exchange(v_case, v_blocks, needed)
            plan(boundary, block, reads).run()
            if block.owned.stop[0] == 7:
                found.append(host(block.memory)[-1, 1:-1])
        np.testing.assert_array_equal(np.concatenate(found), expected)


def test_layers_of_another_array() -> None:
    case = Case((5, 4), (False, True), (False, False), (2, 1))

    def follow(u: Any, v: Any) -> None:
        u[0, 0] = v[0, 0] + v[1, 0]

    values, others = case.values(), case.values(2)
    (block,) = make_blocks(case, (1, 1), values)
    (other,) = make_blocks(case, (1, 1), others)
    inner = make_boundary(case, (1, 1), {"x": bc.Symmetry(-1)})
    reads = all_reads(case)
    boundary = make_boundary(case, (1, 1), {"x": bc.Custom(follow, fake_array(other, inner))})
    ((_, needed),) = boundary.conditions.other_reads(reads)
    assert needed[(), (-1, 0)] == (2, 0)
    exchange(case, [other], {**needed, **inner.conditions.closure(needed)})
    plan(inner, other, needed).run()
    plan(boundary, block, reads).run()
    for m in (1, 2):
        np.testing.assert_array_equal(host(block.memory)[2 - m, 1:-1], -others[m - 1] + others[0])
        np.testing.assert_array_equal(host(block.memory)[6 + m, 1:-1], -others[5 - m] + others[-1])


def test_arrays_read_in_owned_points_only_need_no_regions() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1))
    (other,) = make_blocks(case, (1, 1), case.values())

    def take(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 0]

    array = fake_array(other)
    boundary = make_boundary(case, (1, 1), {"x": bc.Custom(take, array)})
    assert boundary.conditions.other_reads({((), (-1, 0)): (1, 0)}) == [(array, {})]
    assert boundary.conditions.other_reads({((), (0, 1)): (0, 1)}) == []


def test_component_views_of_other_arrays() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1))
    pair = Case((5, 4), (False, True), (False, False), (1, 1), components=(2,))
    values, others = case.values(), pair.values(2)
    (block,), (other,) = make_blocks(case, (1, 1), values), make_blocks(pair, (1, 1), others)

    def take(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 1]

    array = fake_array(other, None, (1,))
    boundary = make_boundary(case, (1, 1), {"x": bc.Custom(take, array)})
    ((_, needed),) = boundary.conditions.other_reads({((), (-1, 0)): (1, 0)})
    assert needed == {((1,), (0, 1)): (0, 1)}
    exchange(pair, [other], needed)
    plan(boundary, block, {((), (-1, 0)): (1, 0)}).run()
    np.testing.assert_array_equal(host(block.memory)[0, 1:-1], np.roll(others[1, 0], -1))


def refused(
    kernel: Any, text: str, *arrays: Any, case: Case | None = None, reads: Any = None
) -> None:
    case = case or CASE
    reads = all_reads(case) if reads is None else reads

    def ask() -> None:
        boundary = make_boundary(case, (1, 1), {"x-": bc.Custom(kernel, *arrays)})
        boundary.conditions.closure(reads)
        boundary.conditions.other_reads(reads)

    with pytest.raises(BoundaryError) as caught:
        ask()
    assert str(caught.value) == text


def other_of(case: Case, boundary: Any = None) -> Any:
    return fake_array(make_blocks(case, (1, 1), case.values())[0], boundary)


CASE = Case((5, 4), (False, False), (False, False), (1, 1))


def test_errors_name_the_kernel_the_side_and_the_cure() -> None:
    other = other_of(CASE)

    def outward(u: Any) -> None:
        u[0, 0] = u[-1, 0]

    refused(
        outward,
        "The kernel outward of Custom on x- reads u at offset -1 along x; offsets there count "
        "inward from the "
        "face, from 0 for the layer.",
    )

    def layer(u: Any) -> None:
        u[0, 0] = u[0, 1]

    refused(
        layer,
        "The kernel layer of Custom on x- reads u in the layer that it fills; read inside, at "
        "offsets of 1 and more.",
    )

    def foreign(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 0]
        v[0, 0] = 0.0

    refused(
        foreign,
        "The kernel foreign of Custom on x- writes another array than its first; give that array "
        "a condition of "
        "its own.",
        other,
    )

    def scalar(u: Any, *, r: Any) -> None:
        u[0, 0] = r

    refused(
        scalar,
        "The kernel scalar of Custom on x- has the scalar 'r' without a number as default; give "
        "it one, or use "
        "the scalar 'time'.",
    )
    refused(
        linear,
        "The kernel linear of Custom on x- takes 1 arrays, but the condition has 2 (the array "
        "itself and 1 more); "
        "pass the others as in Custom(kernel, v).",
        other,
    )

    def reducing(u: Any) -> Any:
        u[0, 0] = u[1, 0]
        return language.reduce.max(u[1, 0])

    refused(
        reducing,
        "The kernel reducing of Custom on x- returns a reduction; it may only write the layer.",
    )

    def part(u: Any) -> None:
        u[0][0, 0] = u[1][1, 0]

    refused(
        part,
        "The kernel part of Custom on x- does not write component (1,) of its first array; write "
        "all of them.",
        case=Case((5, 4), (False, False), (False, False), (1, 1), components=(2,)),
    )

    def take(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 0]

    refused(
        take,
        "The kernel take of Custom on x- reads an array of shape (6, 4), which lies on another "
        "grid; use arrays of "
        "one grid.",
        other_of(Case((6, 4), (False, False), (False, False), (1, 1))),
    )


def test_errors_of_reads_that_no_rank_can_serve() -> None:
    def aside(u: Any) -> None:
        u[0, 0] = u[1, 1]

    refused(
        aside,
        "The Custom condition on x- reads layers of its own array beyond y+, which are not filled "
        "before it, as "
        "those of earlier axes with conditions are; read at offset 0 along y.",
        reads={((), (-1, 0)): (1, 0)},
    )
    refused(
        aside,
        "The Custom condition on x- reads 2 cells beyond a block along y, but the halo there is 1 "
        "wide; make the "
        "halo wider.",
        case=Case((5, 4), (False, True), (False, False), (1, 1)),
    )

    def beside(u: Any, v: Any) -> None:
        u[0, 0] = v[1, -1]

    refused(
        beside,
        "The Custom condition on x- reads layers of another array beyond y-, which no condition "
        "fills; read at "
        "offset 0 along y.",
        other_of(CASE),
        reads={((), (-1, 0)): (1, 0)},
    )

    def follow(u: Any, v: Any) -> None:
        u[0, 0] = v[0, 0]

    refused(
        follow,
        "The Custom condition on x- reads layers of another array, which has no condition on x-; "
        "give it one.",
        other_of(CASE),
        reads={((), (-1, 0)): (1, 0)},
    )


def test_tangential_reads_beyond_an_earlier_axis_with_conditions() -> None:
    case = Case((6, 7), (False, False), (False, False), (2, 2))

    def smooth(u: Any) -> None:
        u[0, 0] = 0.5 * (u[-1, 1] + u[1, 1])

    def fill(axis: int, side: int, g: Any, at: Any) -> None:
        if axis == 0:
            g[at(-1)], g[at(-2)] = g[at(0)], g[at(0)]
        else:
            inner = g[at(0)].copy()
            g[at(-1)][1:-1] = 0.5 * (inner[:-2] + inner[2:])

    values = case.values()
    reference = padded_reference(case, values, fill)
    reads = all_reads(case, (1, 1))
    for ranks in GRIDS:
        blocks = run_fills(case, ranks, values, {"x": bc.Outflow(), "y": bc.Custom(smooth)}, reads)
        assert_reads_equal(case, blocks, reads, reference)


def test_what_custom_accepts() -> None:
    with pytest.raises(BoundaryError) as caught:
        bc.Custom(3.0)
    assert (
        str(caught.value)
        == "The kernel of Custom must be a function or a da.stencil kernel, not 3.0."
    )
    with pytest.raises(BoundaryError) as caught:
        bc.Custom(linear, 2.0)
    assert str(caught.value) == (
        "The arrays of Custom must be DistArrays, not float; give numbers as defaults of "
        "keyword-only parameters "
        "of the kernel."
    )
    assert repr(bc.Custom(linear)) == "Custom(linear, 0 arrays)"
