"""The order in which tiles are computed, simulated cell by cell; and what is not tiled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from distarray import spans
from distarray.regions import Box
from distarray.tiling import loop, schedule
from distarray.tiling.program import Call, Form
from distarray.tiling.schedule import Application
from tests.tile_loops import compare

#: Random loops that are tiled, of each kind.
SEEDS = (1, 3, 4, 10, 11, 17, 29, 31, 41, 42)

reaches = st.tuples(st.integers(0, 2), st.integers(0, 2))


@st.composite
def programs(draw):
    """Applications on three arrays in two dimensions, each of which writes one that it reads at
    offset zero at most.
    """
    found = []
    for _ in range(draw(st.integers(1, 6))):
        target = draw(st.integers(0, 2))
        reads = {}
        for array in draw(st.sets(st.integers(0, 2), max_size=3)):
            widths = [draw(reaches) if array != target else (0, 0) for _ in range(2)]
            reads[array] = (tuple(w[0] for w in widths), tuple(w[1] for w in widths))
        found.append(Application(reads, frozenset({target})))
    return found


def compute(state, number, one, box, origin):
    """Each point becomes a number that tells the application and all that it reads apart; indices
    go around.
    """
    (target,) = one.writes
    axes = [np.arange(a, b) + o for a, b, o in zip(box.start, box.stop, origin, strict=True)]
    total = np.full(box.shape, number + 1, np.uint64)
    for array, (low, high) in sorted(one.reads.items()):
        steps = [range(-a, b + 1) for a, b in zip(low, high, strict=True)]
        for step in itertools.product(*steps):
            places = [
                (points + d) % n
                for points, d, n in zip(axes, step, state[array].shape, strict=True)
            ]
            total = total * np.uint64(6364136223846793005) + state[array][np.ix_(*places)]
    state[target][np.ix_(*axes)] = total


def run_tiles(state, program, boxes, sizes, around, origin, *, at_once):
    """Compute all tiles of a program, each application of which has one box."""
    lags, leads = (schedule.shifts(p, 2) for p in (program, schedule.mirrored(program)))
    cuts = [
        schedule.cut(
            [(box.start[axis], box.stop[axis]) for box in boxes],
            [lag[axis] for lag in lags],
            size,
            around[axis],
        )
        for axis, size in enumerate(sizes)
    ]
    pieces = []
    for number, (box, lag, lead) in enumerate(zip(boxes, lags, leads, strict=True)):
        ends = list(zip(box.start, box.stop, strict=True))
        parts = [one.ranges(*ends[axis], lag[axis], lead[axis]) for axis, one in enumerate(cuts)]
        pieces += [
            schedule.Piece(number, ranges, ends[len(cuts) :])
            for ranges in itertools.product(*parts)
        ]
    which, bounds, tiles = schedule.entries(pieces)
    order, starts, groups = schedule.fronts(tiles)
    if at_once:  # tiles of a group in any order
        random = np.random.default_rng(len(order))
        kept = [
            entry
            for first, last in itertools.pairwise(groups)
            for tile in random.permutation(np.arange(first, last))
            for entry in order[starts[tile] : starts[tile + 1]]
        ]
        assert sorted(kept) == list(range(len(which)))
        which, bounds = which[kept], bounds[kept]
    for piece, ends in zip(which, bounds, strict=True):
        number = pieces[piece].work
        compute(state, number, program[number], Box(*map(tuple, ends.T)), origin)


@settings(max_examples=60, deadline=None)
@given(programs(), st.tuples(st.integers(1, 5), st.integers(1, 5)), st.booleans(), st.booleans())
def test_tiles_compute_what_steps_do(program, sizes, cut_both, at_once):
    """On a block whose surroundings are as large as the margins ask; points computed by each
    application shrink by its reach, as if those of neighbours were computed by them.
    """
    shape, room = (7, 6), 30
    origin = (room, room)
    start = np.random.default_rng(3).integers(0, 2**60, (3, 7 + 2 * room, 6 + 2 * room))
    state = [a.astype(np.uint64) for a in start]
    margins = schedule.margins(program, 2)
    grown = [
        Box(tuple(-a for a in low), tuple(n + b for n, b in zip(shape, high, strict=True)))
        for low, high in margins
    ]
    expected = [a.copy() for a in state]
    everywhere = Box((-room + 14,) * 2, (7 + room - 14, 6 + room - 14))
    for number, one in enumerate(program):
        compute(expected, number, one, everywhere, origin)
    cut = sizes if cut_both else sizes[:1]
    run_tiles(state, program, grown, cut, (0, 0), origin, at_once=at_once)
    owned = (slice(room, room + 7), slice(room, room + 6))
    last_written = {array for one in program for array in one.writes}
    for array in last_written:
        np.testing.assert_array_equal(state[array][owned], expected[array][owned])


@settings(max_examples=60, deadline=None)
@given(
    programs(), st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(1, 2), st.booleans()
)
def test_tiles_of_closed_axes_compute_what_steps_do(program, sizes, cut, at_once):
    """Periodic axes that one rank holds whole: nothing is computed twice, and no cell but theirs is
    needed.
    """
    shape = (25, 26)  # lags and leads of six applications of reach two are at most 24
    start = np.random.default_rng(4).integers(0, 2**60, (3, *shape)).astype(np.uint64)
    expected, state = ([a.copy() for a in start] for _ in range(2))
    boxes = [Box((0, 0), shape)] * len(program)
    for number, one in enumerate(program):
        compute(expected, number, one, boxes[number], (0, 0))
    run_tiles(state, program, boxes, sizes[:cut], shape, (0, 0), at_once=at_once)
    np.testing.assert_array_equal(state, expected)


def test_what_must_be_fresh_before_a_tile():
    """Two arrays that swap, read one point around: the first is read three points beyond, the
    second only where it was not written.
    """
    there = Application({0: ((1,), (1,))}, frozenset({1}))
    back = Application({1: ((1,), (1,))}, frozenset({0}))
    program = [there, back, there]
    assert schedule.margins(program, 1) == [((2,), (2,)), ((1,), (1,)), ((0,), (0,))]
    assert schedule.shifts(program, 1) == [(0,), (1,), (2,)]
    assert schedule.needs(program, 1, whole=True) == {0: ((3,), (3,))}
    assert schedule.needs(program, 1, whole=False) == {0: ((3,), (3,)), 1: ((2,), (2,))}


@da.stencil
def spread(u, new):
    new[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])


def tiles_of(call) -> int:
    with spans.record() as recording:
        call()
    return len(recording.named("tile"))


@pytest.mark.parametrize(("tile", "tiles"), [(1, 0), (2, 6), (5, 3), (8, 1)])
def test_steps_are_made_in_tiles(tile, tiles):
    u = da.Grid((20, 16), periodic=True).ones()
    new = u.copy()
    assert tiles_of(lambda: da.iterate(spread, u, new, steps=13, tile=tile)) == tiles


def test_callbacks_come_between_tiles():
    u = da.Grid((20, 16), periodic=True).from_function(lambda x, y: x + y * y)
    seen = {}
    for tile in (1, 4):
        start, new = u.copy(), u.copy()
        seen[tile] = []
        da.iterate(
            spread, start, new, steps=14, tile=tile, every=6,
            callback=lambda n, _, arrays, tile=tile: seen[tile].append((n, arrays[0].gather())),
        )  # fmt: skip
    assert [n for n, _ in seen[4]] == [6, 12]
    for (_, one), (_, other) in zip(*seen.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def random(grid, seed, **options):
    array = grid.empty(**options)
    array[...] = np.random.default_rng(seed).random(array.shape)
    return array


def same_with_and_without_tiles(run, tiles):
    """`run(tile)` gives arrays; `tiles` is how many tiles of four steps there are."""
    expected, found = run(1), []
    assert tiles_of(lambda: found.extend(run(4))) == tiles
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.gather(), other.gather())


@da.stencil
def leap(old, u, new):
    new[0, 0] = 2 * u[0, 0] - old[0, 0] + 0.1 * (u[1, 0] + u[0, -1] - 2 * u[0, 0])


@pytest.mark.parametrize("halo", [(1, 1, 1), (9, 9, 9), (1, 9, 4)])
def test_single_steps_between_tiles_leave_arrays_in_other_places(halo):
    def run(tile):
        grid = da.Grid((20, 16), periodic=True)
        arrays = [random(grid, n, halo=width) for n, width in enumerate(halo)]
        ignored = {"callback": lambda *_: None, "every": 5}
        da.iterate(leap, *arrays, steps=23, rotate=(0, 1, 2), tile=tile, **ignored)
        return arrays

    same_with_and_without_tiles(run, 5)


def test_an_array_that_is_passed_twice():
    @da.stencil
    def weighted(u, new, weight):
        new[0, 0] = u[1, 0] - weight[0, 0] * u[-1, 0]

    def run(tile):
        grid = da.Grid((20, 16), periodic=True)
        u, new = random(grid, 1), random(grid, 2)
        da.iterate(weighted, u, new, u, steps=9, tile=tile)
        return u, new

    same_with_and_without_tiles(run, 2)


def test_components_that_are_written_alone():
    @da.stencil
    def one(u, v):
        v[0][0, 0] = u[0][1, 0] + u[1][0, -1]

    @da.stencil
    def other(v, u):
        u[1][0, 0] = 0.3 * v[0][-1, 0] + 0.2 * v[1][1, 0]

    def run(tile):
        grid = da.Grid((20, 16), periodic=True)
        u, v = random(grid, 1, components=2), random(grid, 2, components=2)
        da.iterate([(one, (0, 1)), (other, (1, 0))], u, v, steps=9, rotate=(), tile=tile)
        return u, v

    same_with_and_without_tiles(run, 2)


def test_an_array_is_read_unless_it_is_written_whole():
    @da.stencil
    def half(u, v):
        v[0][0, 0] = u[0][1, 0]

    grid = da.Grid((20, 16), periodic=True)
    for kernel, components, read in ((spread, (), [True, False]), (half, (2,), [True, True])):
        arrays = (grid.ones(components=components), grid.ones(components=components))
        reads = Form(Call(kernel.prepare(arrays, {})[0], arrays)).application.reads
        assert [array.block.serial in reads for array in arrays] == read


@da.stencil
def scaled(u, new, *, r):
    new[0, 0] = r * (u[1, 0] + u[0, -1])


@pytest.mark.parametrize("first", [0, 3])
def test_functions_are_called_once_for_each_step_in_order(first):
    u = da.Grid((20, 16), periodic=True).ones()
    for tile, steps in ((4, 11), (8, 3)):
        called = []
        strength = lambda m, called=called: called.append(m) or 0.1 * m  # noqa: E731
        da.iterate(scaled, u, u.copy(), steps=steps, tile=tile, first=first, r=strength)
        assert called == list(range(first, first + steps))


@pytest.mark.parametrize("strength", [lambda m: 1 if m < 5 else 0.25, lambda m: (2, 0.5)[m % 2]])
def test_functions_that_give_numbers_of_several_kinds(strength):
    def run(tile):
        grid = da.Grid((20, 16), periodic=True)
        u, new = random(grid, 1), random(grid, 2)
        da.iterate(scaled, u, new, steps=13, tile=tile, r=strength)
        return u, new

    same_with_and_without_tiles(run, 3)


def test_a_loop_chooses_its_tile_for_its_own_rotation(monkeypatch):
    """What was fastest for three rotating arrays is no number of steps for two."""
    monkeypatch.setattr(loop, "LEAST_STEPS", 1)
    monkeypatch.setattr(loop, "WORTH_TILING", 0)
    for rotate in ((0, 1, 2), (1, 2), ()):
        found = []
        for tile in (1, "auto"):
            grid = da.Grid((20, 16), periodic=True)
            arrays = [random(grid, n) for n in range(3)]
            da.iterate(leap, *arrays, steps=70, rotate=rotate, tile=tile)
            found.append([array.gather() for array in arrays])
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        for kept in leap.depths.values():
            kept.update(dict.fromkeys(kept, 3))


def test_functions_may_look_at_arrays_unless_a_tile_is_asked_for(monkeypatch):
    monkeypatch.setattr(loop, "LEAST_STEPS", 1)
    monkeypatch.setattr(loop, "WORTH_TILING", 0)
    u = da.Grid((20, 16), periodic=True).ones()
    new = u.copy()
    largest = lambda m: 0.25 + 0 * float((u, new)[m % 2].max())  # noqa: E731
    assert tiles_of(lambda: da.iterate(scaled, u, new, steps=70, r=largest)) == 0


def test_more_steps_than_a_tile_can_hold():
    u = da.Grid((300, 8), periodic=True).ones()
    assert tiles_of(lambda: da.iterate(spread, u, u.copy(), steps=128, tile=10**9)) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed):
    assert compare(seed, 1) == "tiled"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_more_random_loops(seed):
    assert compare(seed, 1)


def test_boundary_functions_are_called_at_the_times_of_steps():
    called = []

    def value(t, x, y):
        called.append(t)
        return t + 0 * x

    u = da.Grid((20, 16)).ones(boundary={"x-": da.Neumann(value), "y": da.Outflow()})
    new = u.copy()
    del called[:]
    assert tiles_of(lambda: da.iterate(spread, u, new, steps=8, tile=4, time=1.0, dt=0.5)) == 2
    assert {1.0 + 0.5 * m for m in range(8)} <= set(called)
    assert u.boundary.conditions.time == 4.5


def test_a_callback_may_change_conditions():
    def run(tile, change):
        grid = da.Grid((20, 16))
        u = random(grid, 1, boundary={"x": da.Dirichlet(1.0), "y": da.Outflow()})
        new = u.copy()

        def callback(steps, time, arrays):
            if steps == 8:
                arrays[0].boundary["x-"] = change

        da.iterate(spread, u, new, steps=16, tile=tile, callback=callback, every=4)
        return u, new

    for change, tiles in ((da.Extrapolate(2), 4), (da.Custom(copied), 2)):
        same_with_and_without_tiles(lambda tile, change=change: run(tile, change), tiles)


@da.stencil
def copied(layer):
    layer[0, 0] = layer[1, 0]


@da.stencil
def faster(p, v):
    v[0, 0] = v[0, 0] + p[0, 0] - p[-1, 0]


def partly_fixed():
    half = da.Piecewise(lambda x, y: y < 0.5, da.Dirichlet(0.0), da.Outflow())
    v = da.Grid((8, 8)).ones(location="x", boundary={"x": half})
    return (v.grid.ones(), v), faster


def two_colours():
    @da.stencil(colours=2)
    def relax(u, new):
        new[0, 0] = 0.5 * (u[0, 0] + new[0, 1])

    u = da.Grid((8, 8), periodic=True).ones()
    return (u, u.copy()), relax


def reduction_alone():
    @da.stencil
    def largest(u):
        return da.reduce.max(u[0, 0])

    return (da.Grid((8, 8), periodic=True).ones(),), largest


def one_component():
    u = da.Grid((8, 8), periodic=True).ones(components=2)
    return (u[0], u[1]), spread


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partly_fixed, "fixes some points of a face and leaves others free"),
        (two_colours, "kernel relax has two colours"),
        (reduction_alone, "kernel largest writes nothing"),
        (one_component, "is a component of another"),
    ],
)
def test_what_else_is_not_tiled(make, why, capsys):
    arrays, kernel = make()
    assert tiles_of(lambda: da.iterate(kernel, *arrays, steps=4, rotate=(), tile=2)) == 0
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("tile", [0, -1, 2.5, True, "all"])
def test_tiles_that_are_refused(tile):
    u = da.Grid((8, 8), periodic=True).ones()
    with pytest.raises(da.ArrayError, match=r"tile of iterate must be a number of steps from 1 or"):
        da.iterate(spread, u, u.copy(), steps=4, tile=tile)


def test_what_cannot_be_tiled_is_said_once(capsys):
    @da.stencil
    def mean(layer):
        layer[0, 0] = 0.5 * (layer[1, 0] + layer[2, 0])

    u = da.Grid((8, 8)).ones(boundary={"x": da.Custom(mean)})
    assert tiles_of(lambda: da.iterate(spread, u, u.copy(), steps=8, tile=4)) == 0
    da.iterate(spread, u, u.copy(), steps=8, tile=4)
    text = "iterate makes one step at a time: a Custom condition runs a kernel for each layer."
    assert capsys.readouterr().err.count(text) == 1
