"""Points lying on faces, staleness, and what kernels may write."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import distarray.boundary as bc
from distarray.regions import Box
from tests.boundary_blocks import (
    Case,
    all_reads,
    exchange,
    fake_array,
    make_blocks,
    make_boundary,
    plan,
    refresh,
)
from tests.devices import host


def gathered(blocks: Any) -> Any:
    whole = np.empty(blocks[0].layout.shape, blocks[0].layout.dtype)
    for block in blocks:
        whole[(..., *block.owned.slices())] = block.owned_memory
    return whole


def test_points_on_faces_are_fixed_and_the_later_axis_wins_corners() -> None:
    case = Case((5, 4), (False, False), (True, True), (1, 1))
    values = case.values()
    expected = values.copy()
    expected[0], expected[:, -1] = 7.0, 9.0
    for ranks in ((1, 1), (2, 2)):
        blocks = make_blocks(case, ranks, values)
        boundary = make_boundary(case, ranks, {"x-": bc.Dirichlet(7.0), "y+": bc.Dirichlet(9.0)})
        for block in blocks:
            boundary.fix_values(block)
        np.testing.assert_array_equal(gathered(blocks), expected)


@pytest.mark.parametrize(
    "condition",
    [bc.Neumann(1.0), bc.Robin(1.0, 1.0, 1.0), bc.Symmetry(-1), bc.Extrapolate(1), bc.Outflow()],
)
def test_other_kinds_leave_points_on_faces_alone(condition: bc.Condition) -> None:
    case = Case((5, 4), (False, True), (True, False), (1, 1))
    values = case.values()
    blocks = make_blocks(case, (1, 1), values)
    boundary = make_boundary(case, (1, 1), {"x": condition})
    refresh(case, boundary, blocks, all_reads(case))
    np.testing.assert_array_equal(host(blocks[0].owned_memory), values)
    assert not boundary.fixed(0, -1)
    assert boundary.global_free_boxes(blocks[0]) == (blocks[0].owned,)


def test_cell_centres_have_no_fixed_points() -> None:
    case = Case((5, 4), (False, True), (False, True), (1, 1))
    boundary = make_boundary(case, (1, 1), {"x": bc.Dirichlet(3.0)})
    (block,) = make_blocks(case, (1, 1), case.values())
    assert not boundary.fixed(0, -1)
    assert boundary.global_free_boxes(block) == (block.owned,)


def test_halo_copies_of_fixed_points_follow_time_without_an_exchange() -> None:
    case = Case((4, 6), (False, True), (True, False), (1, 1))
    ranks = (4, 2)  # blocks of one cell: rank row 1 has halo copies of the points on the face
    values = case.values()
    blocks = make_blocks(case, ranks, values)
    boundary = make_boundary(case, ranks, {"x-": bc.Dirichlet(lambda t, x, y: t * y)})
    for block in blocks:
        boundary.fix_values(block, 1.0)
    exchange(case, blocks, all_reads(case))
    for block in blocks:
        block.refreshed(all_reads(case))
        boundary.fix_values(block, 2.0)
    whole = gathered(blocks)
    y = np.array([case.position(1, i) for i in range(6)])
    np.testing.assert_array_equal(whole[0], 2.0 * y)
    np.testing.assert_array_equal(whole[1:], values[1:])
    for block in blocks:
        for i, j in itertools.product(*map(range, block.padded.start, block.padded.stop)):
            if 0 <= i < 5:
                found = host(block.memory)[i - block.padded.start[0], j - block.padded.start[1]]
                assert found == whole[i, j % 6]


def test_values_are_fixed_again_after_a_write_at_the_time_last_used() -> None:
    case = Case((4, 4), (False, True), (True, False), (1, 1))
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1), {"x-": bc.Dirichlet(lambda t, x, y: t + 0 * y)})
    boundary.fix_values(block, 3.0)
    block.owned_memory[...] = 0.0
    boundary.fix_values(block)
    assert (host(block.owned_memory)[0] == 0.0).all()  # nobody said that it was written
    block.changed()
    boundary.fix_values(block)
    assert (host(block.owned_memory)[0] == 3.0).all()


def test_an_attached_boundary_fixes_points_at_once() -> None:
    case = Case((4, 4), (False, True), (True, False), (1, 1), components=(2,))
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1))
    boundary.attach(block)
    version = block.version
    boundary.view((1,))["x+"] = bc.Dirichlet(5.0)
    assert (host(block.owned_memory)[1, -1] == 5.0).all()
    assert (host(block.owned_memory)[0, -1] != 5.0).all()
    assert block.version > version


def test_piecewise_fixes_some_points_and_frees_the_others() -> None:
    case = Case((4, 8, 3), (False, False, True), (True, True, False), (1, 1, 1))

    def lid(x: Any, y: Any, z: Any) -> Any:
        return (y > 1.2) & (z < 1.0)

    conditions = {
        "x-": bc.Piecewise(lid, bc.Dirichlet(2.0), bc.Neumann(0.0)),
        "y+": bc.Piecewise(lambda x, y, z: x < 1.1, bc.Outflow(), bc.Dirichlet(4.0)),
        "y-": bc.Piecewise(lid, bc.Dirichlet(0.0), bc.Dirichlet(1.0)),
    }
    values = case.values()
    for ranks in ((1, 1, 1), (2, 2, 1), (1, 4, 3)):
        boundary = make_boundary(case, ranks, conditions)
        blocks = make_blocks(case, ranks, values)
        free = np.zeros(case.points, int)
        for block in blocks:
            boundary.fix_values(block)
            for box in boundary.global_free_boxes(block):
                assert block.owned.contains(box)
                assert not box.empty
                free[box.slices()] += 1
        x, y, z = (
            np.array([case.position(a, i) for i in range(case.points[a])]).reshape(
                [-1 if b == a else 1 for b in range(3)]
            )
            for a in range(3)
        )
        expected = np.ones(case.points, int)
        expected[:, 0] = 0
        expected[0][np.broadcast_to(lid(x, y, z)[0], (9, 3))] = 0
        expected[:, -1][np.broadcast_to(~(x < 1.1), case.points)[:, -1]] = 0
        np.testing.assert_array_equal(free, expected)
        whole = gathered(blocks)
        np.testing.assert_array_equal(whole[free == 1], values[free == 1])
        assert set(whole[free == 0]) == {1.0, 2.0, 4.0}
    assert boundary.fixed(1, -1)
    assert not boundary.fixed(0, -1)


def test_free_points_of_a_face_are_few_boxes() -> None:
    """A half plane is one box beside the core; a disc of n rows at most one a row."""
    case = Case((3, 48, 48), (False, False, False), (True, False, False), (1, 1, 1))
    (block,) = make_blocks(case, (1, 1, 1), case.values())
    middle = 0.5 + 24 * 0.25

    def half_y(x: Any, y: Any, z: Any) -> Any:
        return y > middle

    def half_z(x: Any, y: Any, z: Any) -> Any:
        return z > middle

    def disc(x: Any, y: Any, z: Any) -> Any:
        return (y - middle) ** 2 + (z - middle) ** 2 > 4.0**2

    for mask, most in ((half_y, 1), (half_z, 1), (disc, 32)):
        condition = bc.Piecewise(mask, bc.Dirichlet(2.0), bc.Neumann(0.0))
        for side in ("x-", "x+"):
            boundary = make_boundary(case, (1, 1, 1), {side: condition})
            core, *others = boundary.global_free_boxes(block)
            assert core.size == 3 * 48 * 48
            assert len(others) <= most
            y, z = (0.5 + (np.arange(48) + 0.5) * 0.25 for _ in range(2))
            free = ~np.broadcast_to(mask(0.0, y[:, None], z), (48, 48))
            assert sum(box.size for box in others) == free.sum()


def test_free_points_shrink_at_fixed_faces() -> None:
    case = Case((4, 4), (False, False), (True, False), (1, 1))
    boundary = make_boundary(case, (2, 1), {"x": bc.Dirichlet(0.0), "y": bc.Dirichlet(0.0)})
    low, high = make_blocks(case, (2, 1), case.values())
    assert boundary.global_free_boxes(low) == (Box((1, 0), (2, 4)),)
    assert boundary.global_free_boxes(high) == (Box((2, 0), (4, 4)),)


def test_a_fill_is_stale_after_writes_new_times_and_new_conditions() -> None:
    case = Case((4, 4), (False, True), (False, False), (1, 1))
    reads = all_reads(case)
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(
        case, (1, 1), {"x-": bc.Dirichlet(lambda t, x, y: t), "x+": bc.Neumann(0.0)}
    )
    fill = plan(boundary, block, reads)
    assert fill.stale(1.0)
    fill.run(1.0)
    assert not fill.stale(1.0)
    assert not fill.stale()
    assert fill.stale(2.0)
    block.changed()
    assert fill.stale(1.0)
    fill.run()
    assert not fill.stale(1.0)
    version = boundary.version
    boundary["x+"] = bc.Neumann(1.0)
    assert boundary.version != version
    assert fill.stale(1.0)


def test_constant_conditions_do_not_become_stale_with_time() -> None:
    case = Case((4, 4), (False, True), (False, False), (1, 1))
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1), {"x": bc.Dirichlet(1.0)})
    fill = plan(boundary, block, all_reads(case))
    fill.run(0.0)
    assert not fill.stale(9.0)


def test_two_fills_that_overlap_do_not_trust_each_other_across_times() -> None:
    case = Case((4, 4), (False, True), (False, False), (2, 1))
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1), {"x": bc.Dirichlet(lambda t, x, y: t)})
    narrow = plan(boundary, block, all_reads(case, (1, 1)))
    wide = plan(boundary, block, all_reads(case))
    narrow.run(1.0)
    wide.run(1.0)
    assert not narrow.stale(1.0)
    wide.run(2.0)
    assert narrow.stale(1.0)
    narrow.run(1.0)
    np.testing.assert_array_equal(host(block.memory)[1, 1:-1], 2.0 - host(block.owned_memory)[0])
    assert wide.stale(2.0)


def test_fills_follow_a_time_that_goes_back() -> None:
    case = Case((4, 4), (False, True), (True, False), (1, 1))
    (block,) = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1), {"x-": bc.Dirichlet(lambda t, x, y: t)})
    fill = plan(boundary, block, all_reads(case))
    for time in (1.0, 2.0, 1.0):
        assert fill.stale(time)
        fill.run(time)
        assert (host(block.owned_memory)[0] == time).all()
        inside = host(block.owned_memory)[1]
        np.testing.assert_array_equal(host(block.memory)[0, 1:-1], 2 * time - inside)


def test_a_fill_does_not_keep_its_block_alive() -> None:
    import gc
    import weakref

    case = Case((4, 4), (False, True), (True, False), (1, 1))
    blocks = make_blocks(case, (1, 1), case.values())
    boundary = make_boundary(case, (1, 1), {"x-": bc.Dirichlet(0.0)})
    boundary.attach(blocks[0])
    fill = plan(boundary, blocks[0], all_reads(case))
    gone = weakref.ref(blocks.pop())
    gc.collect()
    assert gone() is None
    assert not fill.stale(0.0)
    fill.run(0.0)
    boundary["x-"] = bc.Dirichlet(1.0)


def test_a_custom_fill_is_stale_when_an_array_that_it_reads_was_written() -> None:
    case = Case((4, 4), (False, True), (False, False), (1, 1))
    (block,) = make_blocks(case, (1, 1), case.values())
    (other,) = make_blocks(case, (1, 1), case.values(2))

    def copy(u: Any, v: Any) -> None:
        u[0, 0] = v[1, 0]

    boundary = make_boundary(case, (1, 1), {"x": bc.Custom(copy, fake_array(other))})
    fill = plan(boundary, block, all_reads(case))
    fill.run()
    assert not fill.stale()
    other.changed()
    assert fill.stale()
