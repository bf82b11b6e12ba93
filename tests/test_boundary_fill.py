"""Boundary layers against a few lines of NumPy on the whole array, to the bit, on many process
grids.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import distarray.boundary as bc
from distarray.block import reads_of_offsets
from tests.boundary_blocks import (
    Case,
    all_reads,
    assert_reads_equal,
    make_blocks,
    make_boundary,
    padded_reference,
    plan,
    poisoned,
    refresh,
    run_fills,
)
from tests.devices import host

GRIDS_2D = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)]
GRIDS_3D = [(1, 1, 1), (2, 1, 2), (1, 2, 2), (2, 2, 2)]
STAGGERED_2D = list(itertools.product((False, True), repeat=2))


def both(
    reference: Any, case: Case, values: Any, conditions: Any, grids: Any, time: float | None = None
) -> None:
    """Compare on all process grids, first all cells of the halo, then those a star reads."""
    star = {(c, d): w for (c, d), w in all_reads(case).items() if sum(map(abs, d)) == 1}
    for ranks, reads in itertools.product(grids, (all_reads(case), star)):
        blocks = run_fills(case, ranks, values, conditions, reads, time)
        assert assert_reads_equal(case, blocks, reads, reference) > 0


def mirror(case: Case, axis: int, layer: int) -> int:
    return layer if case.staggered[axis] else layer - 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("staggered", STAGGERED_2D)
@pytest.mark.parametrize("halo", [1, 2, 3])
def test_mirror_conditions(dtype: Any, staggered: Any, halo: int) -> None:
    case = Case((10, 9), (False, False), staggered, (halo, halo), dtype=dtype)
    kind = np.dtype(dtype).type
    conditions = {
        "x-": bc.Neumann(0.3),
        "x+": bc.Robin(2.0, 0.7, 0.1),
        "y-": bc.Symmetry(-1),
        "y+": bc.Symmetry(),
    }

    def fill(axis: int, side: int, g: Any, at: Any) -> None:
        for m in range(1, halo + 1):
            w, d = g[at(mirror(case, axis, m))], case.mirror_distance(axis, m)
            if (axis, side) == (0, -1):
                g[at(-m)] = w + kind(d * 0.3)
            elif (axis, side) == (0, 1):
                # a (layer + w) / 2 + b (layer - w) / d = c
                beta = (2.0 * 0.7 - 2.0 * d) / (2.0 * d + 2.0 * 0.7)
                alpha = 2.0 * 0.1 * d / (2.0 * d + 2.0 * 0.7)
                if np.dtype(dtype).kind == "c":
                    g[at(-m)] = (w.real * beta + alpha) + 1j * (w.imag * beta)
                else:
                    g[at(-m)] = w * kind(beta) + kind(alpha)
            else:
                g[at(-m)] = -w if side < 0 else w

    values = case.values()
    both(padded_reference(case, values, fill), case, values, conditions, GRIDS_2D)


def test_robin_satisfies_its_equation() -> None:
    case = Case((8, 8), (False, True), (False, False), (2, 1))
    values = case.values()
    (block,) = run_fills(case, (1, 1), values, {"x": bc.Robin(1.5, -0.25, 0.75)}, all_reads(case))
    for m, side in itertools.product((1, 2), (-1, 1)):
        layer = host(block.memory)[2 - m if side < 0 else 9 + m, 1:-1]
        w, d = values[m - 1 if side < 0 else 8 - m], (2 * m - 1) * case.width
        np.testing.assert_allclose(1.5 * (layer + w) / 2 - 0.25 * (layer - w) / d, 0.75, rtol=1e-13)


@pytest.mark.parametrize("staggered", STAGGERED_2D)
def test_dirichlet_with_functions_of_time_and_place(staggered: Any) -> None:
    case = Case((7, 9), (False, False), staggered, (2, 2))

    def g(t: float, x: Any, y: Any) -> Any:
        return t * x * x - 3.0 * y + 1.0

    values = case.values()
    for axis, side in itertools.product((0, 1), (-1, 1)):
        if staggered[axis]:
            plane = [slice(None)] * 2
            plane[axis] = slice(0, 1) if side < 0 else slice(-1, None)
            coords = case.coordinates(axis, side)
            other = 1 - axis
            coords[other] = coords[other].take(range(2, 2 + case.points[other]), axis=other)
            values[tuple(plane)] = g(2.5, *coords)

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for m in (1, 2):
            p[at(-m)] = 2 * g(2.5, *case.coordinates(axis, side)) - p[at(mirror(case, axis, m))]

    start = case.values()
    both(
        padded_reference(case, values, fill),
        case,
        start,
        {"x": bc.Dirichlet(g), "y": bc.Dirichlet(g)},
        GRIDS_2D,
        2.5,
    )


@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_arrays_over_the_face(kind: str) -> None:
    case = Case((6, 8), (False, True), (False, True), (2, 2))
    along_y = np.linspace(-1.0, 2.0, 8)
    halo_y = along_y[np.arange(-2, 10) % 8][None, :]

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for m in (1, 2):
            w, d = p[at(m - 1)], (2 * m - 1) * case.width
            if kind == "Dirichlet":
                p[at(-m)] = 2 * halo_y - w
            elif kind == "Neumann":
                p[at(-m)] = w + d * halo_y
            else:
                a, b = 1.0 + halo_y * halo_y, 0.5
                p[at(-m)] = w * ((2 * b - a * d) / (a * d + 2 * b)) + 2 * halo_y * d / (
                    a * d + 2 * b
                )

    condition = (
        bc.Robin(1.0 + along_y * along_y, 0.5, along_y)
        if kind == "Robin"
        else getattr(bc, kind)(along_y)
    )
    values = case.values()
    both(padded_reference(case, values, fill), case, values, {"x": condition}, GRIDS_2D)


def lagrange(nodes: Any, place: float) -> list[float]:
    return [
        np.prod([(place - b) / (a - b) for j, b in enumerate(nodes) if j != i])
        for i, a in enumerate(nodes)
    ]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("staggered", [False, True])
def test_extrapolation_continues_the_polynomial(degree: int, staggered: bool) -> None:
    case = Case((9, 6), (False, True), (staggered, False), (2, 1))

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for m in (1, 2):
            weights = np.rint(lagrange(range(degree + 1), -m))
            total = weights[0] * p[at(0)]
            for k in range(1, degree + 1):
                total = total + weights[k] * p[at(k)]
            p[at(-m)] = total

    values = case.values()
    condition = bc.Extrapolate(degree) if degree else bc.Outflow()
    both(padded_reference(case, values, fill), case, values, {"x": condition}, GRIDS_2D)


@pytest.mark.parametrize("staggered", [False, True])
def test_stretched_axis(staggered: bool) -> None:
    faces = np.cumsum([0.0, 0.1, 0.15, 0.25, 0.3, 0.35, 0.5, 0.55, 0.4]) - 0.2
    case = Case((8, 5), (False, True), (staggered, False), (2, 1), faces={0: faces})
    place = np.array([case.position(0, i) for i in range(case.points[0])])
    values = np.repeat((1.0 + 2.0 * place - place**2)[:, None], 5, axis=1)
    reads = all_reads(case)
    for ranks in GRIDS_2D:
        exact = {"x-": bc.Extrapolate(2), "x+": bc.Extrapolate(2)}
        for block in run_fills(case, ranks, values, exact, reads):
            for i in range(block.padded.start[0], block.padded.stop[0]):
                x = case.position(0, i)
                found = host(block.memory)[i - block.padded.start[0], 1:-1]
                np.testing.assert_allclose(found, 1.0 + 2.0 * x - x**2, rtol=1e-12)
    slope = np.repeat((3.0 * place)[:, None], 5, axis=1)
    (block,) = run_fills(
        case, (1, 1), slope, {"x-": bc.Neumann(-3.0), "x+": bc.Neumann(3.0)}, reads
    )
    for i in range(block.padded.start[0], block.padded.stop[0]):
        np.testing.assert_allclose(
            host(block.memory)[i - block.padded.start[0], 1:-1],
            3.0 * case.position(0, i),
            rtol=1e-12,
            atol=1e-14,
        )


@pytest.mark.parametrize(
    "staggered", [(False, False, False), (True, False, True), (True, True, True)]
)
def test_three_dimensions_with_a_periodic_axis_in_between(staggered: Any) -> None:
    case = Case((6, 5, 7), (False, True, False), staggered, (2, 1, 2))

    def g(t: float, x: Any, y: Any, z: Any) -> Any:
        return x + y * z - t

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for m in (1, 2):
            w, d = p[at(mirror(case, axis, m))], case.mirror_distance(axis, m)
            if axis == 0:
                p[at(-m)] = w + d * g(0.0, *case.coordinates(axis, side))
            else:
                p[at(-m)] = -w if side < 0 else p[at(0)]

    values = case.values()
    conditions = {"x": bc.Neumann(g), "z-": bc.Symmetry(-1), "z+": bc.Outflow()}
    reference = padded_reference(case, values, fill)
    for ranks in GRIDS_3D:
        reads = all_reads(case)
        assert_reads_equal(
            case, run_fills(case, ranks, values, conditions, reads), reads, reference
        )


def test_components_with_their_own_values() -> None:
    case = Case((6, 7), (False, False), (False, True), (2, 2), components=(3,))
    column = np.linspace(0.0, 1.0, 8)

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for c, m in itertools.product(range(3), (1, 2)):
            q, layer, inner = p[c], at(-m)[1:], at(mirror(case, axis, m))[1:]
            if axis == 1:
                q[layer] = (1, -1, 1)[c] * q[inner]
            else:
                g = (1.5, case_column(column), case.coordinates(axis, side)[1])[c]
                q[layer] = 2 * g - q[inner]

    def case_column(values: Any) -> Any:
        inside = np.abs(np.arange(-2, 10))
        return values[np.where(inside > 7, 14 - inside, inside)][None, :]

    values = case.values()
    conditions = {"x": bc.Dirichlet([1.5, column, lambda t, x, y: y]), "y": bc.Symmetry([1, -1, 1])}
    both(padded_reference(case, values, fill), case, values, conditions, GRIDS_2D)


def test_function_that_returns_a_sequence_over_components() -> None:
    case = Case((5, 5), (False, True), (False, False), (1, 1), components=(2,))
    reads = all_reads(case)
    value = bc.Dirichlet(lambda t, x, y: (t, 2.0 * y))
    values = case.values()
    (block,) = run_fills(case, (1, 1), values, {"x-": value}, reads, 4.0)
    np.testing.assert_array_equal(host(block.memory)[0, 0, 1:-1], 8.0 - values[0, 0])
    y = np.array([case.position(1, i) for i in range(5)])
    np.testing.assert_array_equal(host(block.memory)[1, 0, 1:-1], 4.0 * y - values[1, 0])


def test_matrix_components_with_arrays_over_the_face() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1), components=(2, 2))
    face = np.arange(16.0).reshape(2, 2, 4)
    values = case.values()
    (block,) = run_fills(
        case,
        (1, 1),
        values,
        {"x-": bc.Dirichlet(face), "x+": bc.Dirichlet([[1, 2], [3, 4]])},
        all_reads(case),
    )
    memory = host(block.memory)
    np.testing.assert_array_equal(memory[:, :, 0, 1:-1], 2 * face - values[:, :, 0])
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])[..., None]
    np.testing.assert_array_equal(memory[:, :, -1, 1:-1], 2 * numbers - values[:, :, -1])


@pytest.mark.parametrize("staggered", STAGGERED_2D)
def test_piecewise_joins_two_conditions(staggered: Any) -> None:
    case = Case((6, 8), (False, True), staggered, (2, 2))

    def inlet(x: Any, y: Any) -> Any:
        return (y > 1.0) & (y < 1.9)

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        chosen = inlet(*case.coordinates(axis, side))
        for m in (1, 2):
            w = p[at(mirror(case, axis, m))]
            p[at(-m)] = np.where(chosen, 2.0 * 3.0 - w, w)

    values = case.values()
    fixed = values.copy()
    if staggered[0]:
        y = np.array([case.position(1, i) for i in range(8)])
        fixed[0, inlet(0, y)] = fixed[-1, inlet(0, y)] = 3.0
    condition = bc.Piecewise(inlet, bc.Dirichlet(3.0), bc.Neumann(0.0))
    both(padded_reference(case, fixed, fill), case, values, {"x": condition}, GRIDS_2D)


def test_integers_and_booleans() -> None:
    case = Case((5, 4), (False, True), (False, False), (1, 1), dtype=np.int32)
    values = np.arange(20, dtype=np.int32).reshape(5, 4)
    conditions = {"x-": bc.Dirichlet(2), "x+": bc.Extrapolate(1)}
    (block,) = run_fills(case, (1, 1), values, conditions, all_reads(case))
    np.testing.assert_array_equal(host(block.memory)[0, 1:-1], 4 - values[0])
    np.testing.assert_array_equal(host(block.memory)[-1, 1:-1], 2 * values[-1] - values[-2])
    flags = Case((5, 4), (False, True), (False, False), (1, 1), dtype=np.bool_)
    (block,) = run_fills(
        flags, (1, 1), values % 2 == 0, {"x-": bc.Symmetry(), "x+": bc.Outflow()}, all_reads(flags)
    )
    np.testing.assert_array_equal(host(block.memory)[0, 1:-1], values[0] % 2 == 0)


def test_a_condition_on_one_side_leaves_the_other_alone() -> None:
    case = Case((5, 4), (False, False), (False, False), (1, 1))
    (block,) = run_fills(
        case,
        (1, 1),
        case.values(),
        {"x-": bc.Dirichlet(1.0), "y": bc.Neumann(0.0)},
        all_reads(case),
    )
    assert np.isfinite(host(block.memory)[:-1]).all()
    assert np.isnan(host(block.memory)[-1]).all()


def test_upwind_reads_fill_one_side_and_need_no_other() -> None:
    case = Case((6, 6), (False, False), (False, False), (2, 2))
    reads = reads_of_offsets({(): {(-2, 0), (0, -1)}})
    boundary = make_boundary(case, (2, 2), {"x": bc.Neumann(0.0), "y": bc.Neumann(0.0)})
    assert boundary.conditions.closure(reads) == {}
    blocks = make_blocks(case, (2, 2), case.values())
    refresh(case, boundary, blocks, reads)
    assert np.isfinite(host(blocks[0].memory)[:2, 2:5]).all()
    assert np.isnan(host(blocks[3].memory)[-2:]).all()
    assert np.isnan(host(blocks[0].memory)[2:, :1]).all()


def test_closure_asks_for_the_neighbour_beside_a_corner_that_is_read_alone() -> None:
    case = Case((6, 6, 6), (False, False, True), (False,) * 3, (2, 2, 2))
    boundary = make_boundary(case, (2, 1, 1), {"x": bc.Neumann(0.0), "y+": bc.Neumann(0.0)})
    corner = {((), (-1, 1, 1)): (2, 1, 1)}
    assert boundary.conditions.closure(corner) == {
        ((), (0, 1, 1)): (0, 1, 1),
        ((), (-1, 0, 1)): (2, 0, 1),
        ((), (0, 0, 1)): (0, 0, 1),
    }
    closed = {**corner, **boundary.conditions.closure(corner)}
    assert boundary.conditions.closure(closed) == {}


def test_blocks_narrower_than_the_mirror_depth_read_their_neighbour() -> None:
    case = Case((4, 6), (False, True), (True, False), (2, 1))
    values = case.values()

    def fill(axis: int, side: int, p: Any, at: Any) -> None:
        for m in (1, 2):
            p[at(-m)] = p[at(m)]

    reference = padded_reference(case, values, fill)
    reads = all_reads(case)
    boundary = make_boundary(case, (2, 1), {"x": bc.Symmetry()})
    # The low rank owns points 0 and 1, and mirrors 1 and 2; other halo regions are read anyway.
    assert boundary.conditions.closure({((), (-1, 0)): (2, 0)}) == {((), (1, 0)): (1, 0)}
    for ranks in ((1, 1), (2, 1), (2, 3)):
        blocks = run_fills(case, ranks, values, {"x": bc.Symmetry()}, reads)
        assert_reads_equal(case, blocks, reads, reference)


def test_ranks_beyond_the_process_grid_do_nothing() -> None:
    case = Case((4, 4), (False, False), (False, False), (1, 1))
    block = poisoned(case.layout((2, 1)), 5)
    boundary = make_boundary(case, (2, 1), {"x": bc.Dirichlet(1.0)})
    fill = plan(boundary, block, all_reads(case))
    assert fill.stale(0.0)
    fill.run(0.0)
    assert not fill.stale(0.0)
