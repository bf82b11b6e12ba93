"""Points as stages of iterate: in tiles the bits are those of `add` and `sample` between single
steps, on any ranks and process grid; a recording adds over ranks once.
"""

import contextlib
import math
import weakref
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from distarray import spans
from distarray.points import _places
from distarray.testing import process_grids
from tests.ranks.common import SIZE, from_root

RANKS = (1, 2, 3, 4)
SELDOM = (1, 3)
STEPS = 13


@da.stencil
def leap(old, u, new, *, r):
    new[0, 0] = (
        2 * u[0, 0] - old[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])
    )


@da.stencil
def spread(u, new, *, r):
    new[0, 0] = u[0, 0] + r * (u[1, 1] + u[-2, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])


@da.stencil
def spread_3d(u, new, *, r):
    new[0, 0, 0] = u[0, 0, 0] + r * (
        u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
        - 6 * u[0, 0, 0]
    )  # fmt: skip


def places(shape):
    """Several in one cell, at seams of ranks, at the outermost cells and at random."""
    rng = np.random.default_rng(5)
    ndim = len(shape)
    edges = [[0.001] * ndim, [0.999] * ndim, [0.0] * ndim, [0.5] * ndim]
    near = [[0.5 + 0.1 / n for n in shape], [0.5 - 0.2 / n for n in shape], [1 / 3] * ndim]
    return np.concatenate([edges, near, near, rng.random((6, ndim))])


def strengths(count, components=()):
    """Of all steps, of which some differ much in size: orders of addition show."""
    rng = np.random.default_rng(7)
    shape = (STEPS, *components, count)
    return (rng.random(shape) - 0.5) * 10.0 ** rng.integers(-6, 2, shape)


def arrays_of(shape, states, *, periodic, ranks=None, comm=None, dtype="f8", boundary=None):
    grid = da.Grid(shape, periodic=periodic, halo=2, ranks=ranks, comm=comm)
    found = [grid.empty(dtype, boundary=boundary) for _ in range(states)]
    for array in found:  # all alike, since iterate copies what kernels do not compute
        array[...] = np.random.default_rng(3).random(shape)
    return grid, found


def by_hand(kernel, arrays, points, values, order):
    """Single steps with `add` and `sample` between them."""
    arrays, rows = list(arrays), []
    for m in range(STEPS):
        kernel(*arrays, r=0.1)
        points.add(arrays[-1], values[m], order)
        rows.append(points.sample(arrays[-1], order))
        points.add(arrays[-1], 0.5 * values[m], 1 - order)
        arrays = [*arrays[1:], arrays[0]]
    return np.stack(rows), [a.gather() for a in arrays]


def by_iterate(kernel, arrays, points, values, order, tile):
    record, last = points.recording(order), len(arrays) - 1
    step = [
        (kernel, tuple(range(len(arrays)))),
        (points.adding(values, order), (last,)),
        (record, (last,)),
        (points.adding(lambda m: 0.5 * values[m], 1 - order), (last,)),
    ]
    with spans.record() as found:
        newest = da.iterate(step, *arrays, steps=STEPS, rotate=range(len(arrays)), tile=tile, r=0.1)
    start = STEPS % len(arrays)
    state = [*arrays[start:], *arrays[:start]]
    assert newest is state[-2]
    return (record.read(), [a.gather() for a in state]), len(found.named("tile"))


def same(found, expected):
    assert found[0].dtype == expected[0].dtype
    assert found[0].tobytes() == expected[0].tobytes()
    for one, other in zip(found[1], expected[1], strict=True):
        assert one.tobytes() == other.tobytes()


def compare(shape, kernel, states, order, tile, **options):
    """Single steps of one rank by hand, single steps of all ranks, and tiles."""

    def made(**placed):
        grid, arrays = arrays_of(shape, states, **options | placed)
        points = grid.points(places(shape))
        return arrays, points, strengths(len(points))

    expected = from_root(lambda: by_hand(kernel, *made(comm=MPI.COMM_SELF), order))
    for ranks in process_grids(SIZE, len(shape)):
        for how in (1, tile):
            found, tiles = by_iterate(kernel, *made(ranks=ranks), order, how)
            assert (tiles > 0) == (how > 1)
            same(found, expected)


def test_tiles_with_points_have_the_bits_of_add_and_sample():
    for periodic in (True, False, (True, False), (False, True)):
        compare((41, 38), spread, 2, 1, 4, periodic=periodic, dtype="f4")
        compare((41, 38), leap, 3, 0, 3, periodic=periodic)


def test_layers_of_conditions_follow_from_what_was_added():
    for boundary in (da.Neumann(0.3), da.Dirichlet(0.5), da.Symmetry(-1)):
        options = {"periodic": (False, True), "boundary": {"x": boundary}}
        compare((40, 33), spread, 2, 1, 4, **options)


def test_a_callback_that_fixes_points_ends_the_tiles():
    """Tiles would add to points on the face, which single steps fix first."""
    found = []
    for comm, tile in ((MPI.COMM_SELF, 1), (None, 4)):
        grid = da.Grid((24, 22), halo=2, comm=comm)
        start = {"x": da.Neumann(0.0), "y": da.Neumann(0.0)}
        arrays = [
            grid.from_function(lambda x, y: x * x + y, location="xy", boundary=start)
            for _ in range(2)
        ]
        points = grid.points([[0.0, 0.5], [0.01, 0.5], [0.51, 0.49]])
        record = points.recording()
        step = [(spread, (0, 1)), (points.adding(lambda m: 0.1 + m), (1,)), (record, (1,))]

        def fix(done, time, arrays):
            if done == 8:
                for array in arrays:
                    array.boundary["x"] = da.Dirichlet(1.0)

        with spans.record() as recording:
            newest = da.iterate(step, *arrays, steps=24, tile=tile, every=8, callback=fix, r=0.1)
        assert len(recording.named("tile")) == (2 if tile > 1 else 0)
        found.append((record.read(), [newest.gather()]))
    same(*found)


def test_in_three_dimensions():
    compare((26, 25, 24), spread_3d, 2, 1, 2, periodic=(True, False, True))
    compare((26, 25, 24), spread_3d, 2, 0, 4, periodic=False, dtype="f4")


def test_points_before_the_kernel():
    """What is added is read by the kernel of the same step; the target is recorded before it."""
    for periodic, boundary in ((True, None), (False, {"x": da.Neumann(0.2), "y": da.Symmetry(1)})):
        found = []
        for comm, tile in ((MPI.COMM_SELF, 1), (None, 4)):
            options = {"periodic": periodic, "comm": comm, "boundary": boundary}
            grid, arrays = arrays_of((42, 39), 2, **options)
            points = grid.points(places(grid.shape))
            old, new = points.recording(), points.recording(0)
            values = strengths(len(points))
            step = [(old, (1,)), (points.adding(values), (0,)), (spread, (0, 1)), (new, (1,))]
            if comm is None:
                da.iterate(step, *arrays, steps=STEPS, tile=tile, r=0.1)
                rows = old.read(), new.read()
            else:
                kept = []
                state = list(arrays)
                for m in range(STEPS):
                    before = points.sample(state[1])
                    points.add(state[0], values[m])
                    spread(*state, r=0.1)
                    kept.append((before, points.sample(state[1], 0)))
                    state.reverse()
                rows = tuple(np.stack(all_of) for all_of in zip(*kept, strict=True))
            found.append([*rows, *(a.gather() for a in arrays)])
        for one, other in zip(*found, strict=True):
            assert one.tobytes() == other.tobytes()


def test_on_a_device_steps_are_made_one_by_one():
    found = []
    for options in ({"comm": MPI.COMM_SELF}, {"device": "simulated"}):
        grid = da.Grid((24, 22), periodic=True, halo=2, **options)
        arrays = [grid.from_function(lambda x, y: x * y), grid.zeros()]
        points = grid.points(places(grid.shape))
        found.append(by_iterate(spread, arrays, points, strengths(len(points)), 1, 1)[0])
    same(*found)


def test_complex_values():
    compare((30, 31), spread, 2, 1, 4, periodic=True, dtype="c16")


@contextlib.contextmanager
def counted_sums(grid):
    """The operations of all reductions over ranks."""
    kind = type(grid.communicator)
    allreduce, found = kind.allreduce, []

    def counted(self, values, op):
        found.append(op)
        return allreduce(self, values, op)

    kind.allreduce = counted
    try:
        yield found
    finally:
        kind.allreduce = allreduce


def test_a_recording_adds_over_ranks_once():
    grid, arrays = arrays_of((40, 40), 2, periodic=True)
    points = grid.points(places((40, 40)))
    record = points.recording()
    step = [(spread, (0, 1)), (record, (1,))]
    with counted_sums(grid) as sums:
        for tile in (1, 4):
            da.iterate(step, *arrays, steps=12, tile=tile, r=0.1)
        assert "sum" not in sums
        assert len(record) == 24
        assert record.read().shape == (24, len(points))
        assert sums.count("sum") == (SIZE > 1)
        assert len(record) == 0


def test_a_long_recording_is_added_in_blocks_of_steps():
    grid, arrays = arrays_of((40, 40), 2, periodic=True)
    points = grid.points(places((40, 40)))
    for array, components in ((arrays[0], ()), (grid.zeros(components=(2,)), (2,))):
        array[...] = np.random.default_rng(1).random((*components, 40, 40))
        expected = points.sample(array)
        row = 8 * math.prod(components) * 4 * len(points)
        for steps, at_a_time, sums_made in ((7, 3 * row, 3), (7, row - 1, 7), (6, 3 * row + 1, 2)):
            record = points.recording()
            for step in range(steps):
                record.run(array, step)
            with mock.patch("distarray.points._SUMMED", at_a_time), counted_sums(grid) as sums:
                found = record.read()
            assert found.tobytes() == np.stack([expected] * steps).tobytes()
            assert sums.count("sum") == sums_made * (SIZE > 1)


def test_cells_are_found_once_for_a_layout_and_no_array_is_kept():
    grid, (u, other) = arrays_of((40, 40), 2, periodic=True)
    points, alive = grid.points(places((40, 40))), weakref.ref(u)
    with mock.patch("distarray.points._places", wraps=_places) as found:
        record = points.recording()
        da.iterate(
            [(spread, (0, 1)), (points.adding(lambda m: 1.0), (1,)), (record, (1,))],
            *(u, other), steps=5, tile=1, r=0.1,
        )  # fmt: skip
        record.read()
        assert found.call_count == 1
        points.sample(grid.zeros(location="x"))
        points.sample(u, order=0)
        assert found.call_count == 3
    del u, other
    assert alive() is None


def test_points_on_fixed_faces_are_not_tiled():
    grid = da.Grid((20, 20), halo=2)
    u, new = (grid.zeros(location="xy", boundary={"x": da.Dirichlet(1.0)}) for _ in range(2))
    source = grid.points([[0.0, 0.5], [0.51, 0.49]]).adding(lambda m: 1.0 + m)
    with spans.record() as found:
        da.iterate([(spread, (0, 1)), (source, (1,))], u, new, steps=8, tile=2, r=0.1)
    assert not found.named("tile")


def test_what_does_not_fit_is_refused():
    grid, arrays = arrays_of((20, 20), 2, periodic=True)
    points = grid.points([[0.5, 0.5]])
    other = da.Grid((20, 20), halo=2).points([[0.5, 0.5]])
    with pytest.raises(da.ArrayError, match="one array, got the positions"):
        da.iterate([(spread, (0, 1)), (points.recording(), (0, 1))], *arrays, steps=1, r=0.1)
    with pytest.raises(da.ArrayError, match="another grid"):
        da.iterate([(spread, (0, 1)), (other.recording(), (1,))], *arrays, steps=1, r=0.1)
    with pytest.raises(da.StencilError, match="has no kernel"):
        da.iterate([(points.recording(), (1,))], *arrays, steps=1)
    step = [(spread, (0, 1)), (points.adding(np.ones((2, 1))), (1,))]
    with pytest.raises(da.ArrayError, match="2 rows, and step 2"):
        da.iterate(step, *arrays, steps=3, r=0.1)
    with pytest.raises(da.ArrayError, match="got the number"):
        points.adding(1.0)
    with pytest.raises(da.ArrayError, match=r"called as f\(step\), but it takes no arguments"):
        points.adding(lambda: 1.0)
    with pytest.raises(da.ArrayError, match="order=2"):
        points.recording(2)
    with pytest.raises(da.ArrayError, match="holds no steps"):
        points.recording().read()
