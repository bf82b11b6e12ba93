"""CUDA text run on the CPU where it has cases that C text has not; the others are in
`test_codegen`.
"""

from __future__ import annotations

import numpy as np
import pytest

from distarray import exact
from distarray.regions import Box
from distarray.stencil import evaluate, language
from distarray.stencil.cuda import packing, states, tiles
from distarray.stencil.launch import ArrayView
from tests.cuda_host import HostLaunch
from tests.kernel_cases import HALO, Case, diffuse, parameter, profile, same_bits, several


@pytest.fixture(autouse=True)
def way(monkeypatch):
    monkeypatch.setattr(Case, "way", "cuda")


def both(case, views_of, work, **options):
    """The arrays and partial results that NumPy and CUDA text leave of the same work."""
    results = []
    for bind in (evaluate.bind, lambda *a: HostLaunch(*a, **options)):
        views = views_of([view.memory.copy() for view in case.views])
        launch = bind(case.program, views, case.geometry)
        launch.reset_reductions()
        launch.set_scalars(case.scalars)
        work(launch)
        results.append(([view.memory.copy() for view in views], launch.partials()))
    (expected, partials), (found, found_partials) = results
    for one, other in zip(expected, found, strict=True):
        same_bits(one, other)
    return partials, found_partials


def as_they_are(case):
    return lambda copies: [
        ArrayView(copy, view.origin, view.start)
        for copy, view in zip(copies, case.views, strict=True)
    ]


# ---- steps along axis 0


@pytest.fixture(params=[1, 10**6], ids=["many steps", "one step"])
def steps(request, monkeypatch):
    """As many steps a thread as there may be, or one."""
    monkeypatch.setattr(packing, "ENOUGH_TILES", request.param)


COLUMNS = {
    "around": [(-1, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, -1)],
    "wide": [(n, 0, 0) for n in (-2, -1, 0, 1, 2)],
    "beside": [(n, 1, -1) for n in (0, 1)] + [(n, 0, 2) for n in (-2, -1)],
    "gap": [(-1, 0, 0), (1, 0, 0)],
    "far": [(-2, 0, 0), (2, 0, 0)],
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i2"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_kept_in_variables(name, dtype, steps):
    def kernel(u, v, new):
        new[0, 0, 0] = sum(u[offsets] * v[offsets] for offsets in COLUMNS[name])

    parameters = [parameter(n, dtype, ndim=3) for n in ("u", "v", "new")]
    case = Case(kernel, parameters, (37, 9, 21), special=False)
    case.agree()
    case.agree((Box((3, 2, 1), (5, 4, 20)),), (Box((8, 0, 0), (37, 9, 3)),))


def test_columns_of_components(steps):
    def kernel(U, w):
        for c in range(2):
            U[c][0, 0, 0] = U[2][1, 0, 0] - U[2][-1, 0, 0] + w[1, c][0, 0, 0] * w[1, c][1, 0, 0]

    parameters = [parameter("U", components=(3,), ndim=3)]
    parameters += [parameter("w", components=(2, 2), ndim=3)]
    Case(kernel, parameters, (19, 5, 33), special=False).agree()


def test_columns_in_four_axes(steps):
    def kernel(u, new):
        new[0, 0, 0, 0] = u[1, 0, 0, 0] + u[0, 1, 0, 0] * u[-1, 0, 0, 0] - u[0, 0, 0, 1]

    Case(kernel, [parameter("u", ndim=4), parameter("new", ndim=4)], (18, 3, 4, 9)).agree()


# ---- boxes


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_boxes_with_masks_of_their_own(ndim, steps):
    centre = (0,) * ndim

    def kernel(u, v, w, p):
        u[centre] = p.shift(0, 1) - p.shift(ndim - 1, -1)
        v[centre] = u[centre] * 2.0
        w[centre] = p.shift(0, -2) + language.index(0)
        return language.reduce.max(p[centre]), language.reduce.sum(p[centre], reproducible=True)

    case = Case(kernel, [parameter(n, ndim=ndim) for n in "uvwp"], (9, 10, 40)[-ndim:])
    inner = Box((2,) * ndim, tuple(n - 1 for n in case.cells))
    parts = [inner, *case.box.difference(inner)]
    boxes = [(part, mask) for part, mask in zip(parts, (31, 1, 2, 20, 9, 12, 7), strict=False)]
    partials, found = both(case, as_they_are(case), lambda launch: launch.run_boxes(boxes))
    np.testing.assert_array_equal(partials[0], found[0])
    np.testing.assert_array_equal(exact.carried(partials[1]), found[1])


def test_more_boxes_than_one_launch_takes():
    case = Case(several, [parameter(n) for n in "uvwp"], (5, 100), special=False)
    boxes = [(Box((k % 5, k), (5, k + 1)), 1 + k % 7) for k in range(100)]
    both(case, as_they_are(case), lambda launch: launch.run_boxes(boxes))


@pytest.mark.parametrize("start", [(0, 0), (3, 2)])
def test_boxes_of_one_colour(start, steps):
    def kernel(u, *, w):
        u[0, 0] = u[0, 0] - w * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])

    case = Case(
        kernel,
        [parameter("u")],
        (70, 41),
        scalars={"w": 0.3},
        start=start,
        colours=2,
        special=False,
    )
    boxes = [(box, -1) for box in case.box.difference(Box((1, 3), (66, 40)))]
    for colour in (0, 1):
        both(case, as_they_are(case), lambda launch, c=colour: launch.run_boxes(boxes, c))


# ---- strides and indices


@pytest.mark.parametrize("place", ["every second", "backwards", "one value", "columns"])
@pytest.mark.parametrize("dtype", ["f8", "c8", "?"])
def test_any_strides(place, dtype):
    """What array operations do: views of any kind, no halo."""
    views = {
        "every second": lambda a: a[::2, 1::3],
        "backwards": lambda a: a[::-1, ::-1],
        "one value": lambda a: np.broadcast_to(a[3, 4], a.shape),
        "columns": lambda a: a.T,
    }

    def kernel(a, b, new):
        new[0, 0] = np.where(a[0, 0] == b[0, 0], a[0, 0], b[0, 0])

    case = Case(kernel, [parameter(n, dtype) for n in ("a", "b", "new")], (30, 30))
    sample = views[place](case.views[0].memory)

    def views_of(copies):
        memories = [views[place](copies[0]), views["columns"](copies[1]), copies[2][:, ::-1]]
        memories[1:] = [m[: sample.shape[0], : sample.shape[1]] for m in memories[1:]]
        return [ArrayView(memory, (0, 0), (0, 0)) for memory in memories]

    box = Box.of_shape(sample.shape)
    both(case, views_of, lambda launch: launch.run(box))


def test_strided_arrays_of_all_kinds():
    def kernel(U, fine, coarse, row, column, new):
        new[0, 0] = (
            U[1][0, 1]
            + fine.fine[1, -1] * coarse.coarse[-1, 1]
            + row[1] * column[-1]
            + language.index(1)
        )

    parameters = [
        parameter("U", components=(2,)),
        parameter("fine", level=1),
        parameter("coarse", level=-1),
        profile("row", 0),
        profile("column", 1),
        parameter("new"),
    ]
    case = Case(kernel, parameters, (6, 71), start=(3, 5), special=False)

    def views_of(copies):
        spread = [np.repeat(copy, 2, axis=-1)[..., ::2] for copy in copies]
        return as_they_are(case)(spread)

    both(case, views_of, lambda launch: launch.run(case.box))


@pytest.mark.parametrize("start", [(0, 0, 0), (10**10 + 1, 3, 2 * 10**11)])
def test_indices_of_64_bits(start):
    def kernel(u, coarse, fine, new):
        new[0, 0, 0] = u[1, 0, 0] + u[-1, 0, 2] * coarse.coarse[0, 1, 0] - fine.fine[1, 0, -1]
        return language.reduce.sum(new[0, 0, 0], reproducible=True)

    parameters = [parameter("u", ndim=3), parameter("coarse", ndim=3, level=-1)]
    parameters += [parameter("fine", ndim=3, level=1), parameter("new", ndim=3)]
    case = Case(kernel, parameters, (20, 5, 40), start=start, special=False)
    for wide in (False, True):
        both(case, as_they_are(case), lambda launch: launch.run(case.box), wide=wide)


# ---- reductions


@pytest.fixture(params=[(1024, 8, 128), (3, 2, 2), (700, 1, 700)], ids=str)
def blocks(request, monkeypatch):
    """Few blocks with many tiles, or many states to merge."""
    most, tiles, least = request.param
    for name in ("MOST_BLOCKS", "MOST_BLOCKS_EXACT"):
        monkeypatch.setattr(packing, name, most)
    monkeypatch.setattr(packing, "TILES_PER_BLOCK", tiles)
    monkeypatch.setattr(packing, "LEAST_BLOCKS", least)


@pytest.mark.parametrize("shape", [(40000,), (300, 200), (50, 9, 130)])
def test_reductions_over_many_tiles(shape, blocks, steps):
    centre = (0,) * len(shape)

    def kernel(u, new):
        new[centre] = u[centre] * 0.5
        reduce = language.reduce
        return (
            reduce.sum(u[centre]),
            reduce.sum(u[centre], reproducible=True),
            reduce.min(u[centre]),
            reduce.max(new[centre]),
        )

    ndim = len(shape)
    parameters = [parameter("u", ndim=ndim), parameter("new", ndim=ndim)]
    case = Case(kernel, parameters, shape, special=False)
    _, partials, found = case.agree(
        (case.box.with_axis(0, 0, 7),), (case.box.with_axis(0, 7, shape[0]),)
    )
    np.testing.assert_allclose(found[0], partials[0], rtol=1e-12, atol=1e-7)
    np.testing.assert_array_equal(found[1], exact.carried(partials[1]))
    np.testing.assert_array_equal(found[2:], partials[2:])


def test_states_are_merged_in_several_launches(monkeypatch):
    monkeypatch.setattr(packing, "LEAST_BLOCKS", 10**6)

    def kernel(u):
        return language.reduce.sum(u[0])

    case = Case(kernel, [parameter("u", ndim=1)], (states.FAN**2 * 20,), special=False)
    launch = case.bound("cuda", case.views)
    assert len(packing.launches(launch.code, [(case.box, -1)], (0,))) == 1 + 3
    launch.run(case.box)
    np.testing.assert_allclose(
        launch.partials()[0], case.views[0].memory[HALO:-HALO].sum(), rtol=1e-12
    )


MAGNITUDES = {
    "alike": lambda rng, n: rng.standard_normal(n),
    "all": lambda rng, n: rng.standard_normal(n) * 2.0 ** rng.integers(-1070, 1000, n),
    "huge": lambda rng, n: rng.uniform(-1, 1, n) * 1.7e308,
    "tiny": lambda rng, n: rng.integers(-9, 9, n) * 5e-324,
    "cancelling": lambda rng, n: np.resize([1e300, 1.0, -1e300, 1e-300], n),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.01, np.inf, rng.standard_normal(n)),
    "no numbers": lambda rng, n: rng.choice([1.0, np.nan, -np.inf, np.inf], n),
    "zero": lambda rng, n: np.resize([0.0, -0.0], n),
}


@pytest.mark.parametrize("name", MAGNITUDES)
def test_exact_sums_of_all_magnitudes(name, blocks):
    def kernel(u):
        return language.reduce.sum(u[0], reproducible=True)

    case = Case(kernel, [parameter("u", ndim=1)], (9000,))
    values = MAGNITUDES[name](np.random.default_rng(3), 9000)
    case.views[0].memory[HALO:-HALO] = values
    launch = case.bound("cuda", case.views)
    for _ in range(2):
        launch.run(case.box)
    np.testing.assert_array_equal(
        launch.partials()[0], exact.carried(2 * exact.partial_sum(values))
    )


@pytest.mark.parametrize("name", ["alike", "all", "cancelling"])
def test_exact_sums_of_a_fast_kernel(name):
    def kernel(u, new):
        new[0] = u[0] * 2.0
        return language.reduce.sum(u[0], reproducible=True)

    case = Case(kernel, [parameter("u", ndim=1), parameter("new", ndim=1)], (9000,), fast=True)
    values = MAGNITUDES[name](np.random.default_rng(3), 9000)
    case.views[0].memory[HALO:-HALO] = values
    launch = case.bound("cuda", case.views)
    launch.run(case.box)
    np.testing.assert_array_equal(launch.partials()[0], exact.partial_sum(values))


# ---- arithmetic that C leaves undefined


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_integers_wrap_around(dtype):
    """Also where a compiler could find out that they did, had they not to."""

    def kernel(a, grows, product, back):
        grows[0, 0] = a[0, 0] + 1 > a[0, 0]
        product[0, 0] = (a[0, 0] * 2) // 2
        back[0, 0] = -a[0, 0] - 1 - a[0, 0]

    kinds = {"a": dtype, "grows": "?", "product": dtype, "back": dtype}
    case = Case(kernel, [parameter(n, k) for n, k in kinds.items()], (4, 30))
    limits = np.iinfo(dtype)
    case.views[0].memory[...] = np.resize([limits.max, limits.min, 3, -1], (8, 34))
    (_, grows, *_), _, _ = case.agree()
    assert not grows[HALO:-HALO, HALO:-HALO][0, 2]


def test_long_marches_keep_the_bits():
    case = Case(
        diffuse,
        [parameter("u", ndim=3), parameter("new", ndim=3)],
        (40, 130, 260),
        scalars={"r": 0.1},
        special=False,
    )
    code = case.bound("cuda", case.views).code
    (launch,) = packing.launches(code, [(case.box, -1)], (0, 0, 0))
    assert launch.values.view(tiles.launch_dtype(3, False))["steps"] > 1
    case.agree()
