"""Kernels in C that compute once what neighbouring points share: the same bits as NumPy, and as the
text that computes everything at each point; nothing is read that the kernel does not read.
"""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from distarray import exact
from distarray.backends import native
from distarray.geometry import AxisGeometry
from distarray.regions import Box
from distarray.stencil import codegen, language, sharing, staged, stages
from distarray.stencil.analysis import roots
from distarray.stencil.expression import FINE, Call, Coordinate, Program, Read, walk
from tests.kernel_cases import HALO, Case, diffuse, parameter, profile, same_bits
from tests.simd_report import row_loops
from tests.stencil_tools import traced

compiling = importlib.import_module("distarray.stencil.compile")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep whatever is computed twice, in tiles of a few points, compiled without optimisation."""
    for name, value in {"LEAST_SHARE": -1e9, "_BYTE": 0, "_KEEP": 0, "_LOAD": 0}.items():
        monkeypatch.setattr(sharing, name, value)
    sizes = {"_LEAST_ROW": 5, "_MOST_ROW": 5, "_ROW_OF_PLANE": 6, "_LEAST_ROWS": 3, "_MOST_ROWS": 3}
    for name, value in sizes.items():
        monkeypatch.setattr(staged, name, value)
    flags = [flag.replace("-O3", "-O1") for flag in native.FLAGS]
    monkeypatch.setattr(native, "FLAGS", flags)
    codegen.generate.cache_clear()
    yield
    codegen.generate.cache_clear()


# ---- random kernels


class RandomFlux:
    """A random function of the values around a face, the same for a generator of the same seed."""

    BINARY = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "fmax")
    UNARY = ("sqrt", "negative", "absolute", "floor")

    def __init__(self, choose: random.Random, ndim: int) -> None:
        self.ndim = ndim
        self.reads = [
            tuple(choose.randint(-1, 1) for _ in range(ndim)) for _ in range(choose.randint(2, 4))
        ]
        self.steps = [self._step(choose) for _ in range(choose.randint(2, 9))]
        self.inner = self._step(choose)

    def _step(self, choose: random.Random) -> tuple[str, int, int, int]:
        kind = choose.choice(("binary", "binary", "unary", "where", "slope", "cast"))
        return kind, choose.randrange(1 << 20), choose.randrange(1 << 20), choose.randrange(1 << 20)

    def __call__(self, arrays: Any, axis: int, n: int) -> Any:
        def moved(offset: Any) -> Any:
            return tuple(o + n * (a == axis) for a, o in enumerate(offset))

        u, v, fine, row = arrays
        cross = (axis + 1) % self.ndim
        values = [u[moved(offset)] for offset in self.reads]
        values += [v[n % 1][moved(self.reads[0])] * v[1][moved(self.reads[-1])]]
        values += [row[n if axis == 0 else 0] + 2.0]
        values += [
            fine.fine[tuple(2 * o + (a == cross) for a, o in enumerate(moved(self.reads[0])))]
        ]
        if cross != axis:
            values.append(values[0] * language.coordinate(cross))
        for kind, i, j, k in self.steps:
            a, b, c = (values[m % len(values)] for m in (i, j, k))
            if kind == "binary":
                values.append(getattr(np, self.BINARY[i % len(self.BINARY)])(a, b))
            elif kind == "unary":
                values.append(getattr(np, self.UNARY[i % len(self.UNARY)])(a))
            elif kind == "where":
                values.append(da.where(a > b, c, a))
            elif kind == "cast":
                values.append(a.astype("f4" if i % 2 else "f8") * b)
            else:
                values.append(self._slope(u, moved, axis) - self._slope(u, moved, axis, -1))
        return values[-1], values[-2]

    def _slope(self, u: Any, moved: Any, axis: int, more: int = 0) -> Any:
        low, high = ([more + d if a == axis else 0 for a in range(self.ndim)] for d in (0, 1))
        function = self.BINARY[self.inner[1] % len(self.BINARY)]
        return getattr(np, function)(u[moved(low)], u[moved(high)]) / (1.0 + abs(u[moved(low)]))


def random_case(seed: int) -> Case:
    """A kernel of one to three axes that adds differences of two random fluxes."""
    choose = random.Random(seed)
    ndim = choose.randint(1, 3)
    fluxes = [RandomFlux(choose, ndim) for _ in range(ndim)]
    axes = choose.sample(range(ndim), choose.randint(1, ndim))
    further = [choose.randint(1, 2) for _ in range(ndim)]
    here, reduced = (0,) * ndim, choose.random() < 0.4

    def kernel(u: Any, v: Any, fine: Any, row: Any, new: Any, other: Any, *, r: Any) -> Any:
        one: Any = u[here]
        two: Any = other[here]
        for axis in axes:
            high, low = (fluxes[axis]((u, v, fine, row), axis, n) for n in (further[axis], 0))
            one = one - r * (high[0] - low[0])
            two = two + (high[1] - low[1]) * language.index(axis)
        new[here], other[here] = one, two
        if reduced:
            reduce = language.reduce
            return reduce.max(new[here]), reduce.sum(one - two, reproducible=True)
        return None

    dtype = choose.choice(("f4", "f8"))
    parameters = [
        parameter("u", dtype, ndim=ndim),
        parameter("v", dtype, (2,), ndim=ndim),
        parameter("fine", "f8", ndim=ndim, level=1),
        profile("row", 0),
        parameter("new", choose.choice(("f4", "f8")), ndim=ndim),
        parameter("other", "f8", ndim=ndim),
    ]
    cells = tuple(choose.randint(9, 30 if ndim < 3 else 17) for _ in range(ndim))
    grid = tuple(AxisGeometry(4 * n, 0.0, 1.0, False, None) for n in cells)
    start = tuple(choose.randint(0, 3) for _ in range(ndim))
    special = choose.random() < 0.5
    return Case(
        kernel, parameters, cells, scalars={"r": 0.3}, axes=grid, start=start, special=special
    )


def inner_boxes(case: Case, choose: random.Random) -> list[tuple[Box]]:
    """The points whose reads lie in memory, cut in two along a random axis."""
    box = Box((2,) * len(case.cells), tuple(n - 2 for n in case.cells))
    axis = choose.randrange(box.ndim)
    cut = choose.randint(box.start[axis] + 1, box.stop[axis] - 1)
    pieces = [box.with_axis(axis, *pair) for pair in ((2, cut), (cut, box.stop[axis]))]
    return [(piece,) for piece in pieces]


def check(seed: int) -> bool:
    """Compare one random kernel with NumPy; whether it keeps values."""
    case = random_case(seed)
    keeps = stages.of_program(case.program) is not None
    if keeps:
        _, expected, found = case.agree(*inner_boxes(case, random.Random(seed)))
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(exact.carried(one) if one.size > 2 else one, other)
        require_known_reads(case.program)
    return keeps


@pytest.mark.usefixtures("eager")
def test_random_kernels_keep_their_bits() -> None:
    assert sum(map(check, range(14))) > 7
    assert check(487878)  # where a value is kept that its own stage alone uses


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_many_random_kernels_keep_their_bits(seed: int) -> None:
    check(seed)


def require_known_reads(program: Program) -> None:
    """Along each axis no stage reads beyond what the kernel reads itself."""
    found = stages.of_program(program)
    assert found is not None
    own = extents(program, roots(program), (0,) * program.ndim)
    loops = [(loop.span, [value for _, value in loop.values]) for loop in found.loops]
    for span, values in [*loops, ((0,) * program.ndim, roots(found.update))]:
        for key, reached in extents(program, values, span).items():
            for (low, high), (least, most) in zip(reached, own[key], strict=True):
                assert least <= low <= high <= most


def extents(program: Program, values: Any, span: Any) -> dict[Any, list[tuple[int, int]]]:
    """The lowest and highest cells that some values read, over the span of a stage."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for read in walk(values):
        if isinstance(read, Read):
            axes = range(program.ndim) if read.axis is None else (read.axis,)
            step = 2 if read.relation == FINE else 1
            pairs = [(o, o + step * span[a]) for a, o in zip(axes, read.offsets, strict=True)]
            key = read.parameter, read.component
            before = found.get(key, pairs)
            found[key] = [
                (min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, pairs, strict=True)
            ]
    return found


# ---- a flow


def flow(ndim: int) -> Any:
    """Two conserved quantities with limited slopes: divisions, roots and choices at each face."""

    def kernel(rho: Any, m: Any, rho_new: Any, m_new: Any, *, r: Any) -> None:
        def cell(axis: int, k: int) -> tuple[Any, Any]:
            return rho.shift(axis, k), m.shift(axis, k) / rho.shift(axis, k)

        def slope(axis: int, c: int, k: int) -> Any:
            a, b = (cell(axis, k + n)[c] - cell(axis, k + n - 1)[c] for n in (0, 1))
            return da.where(a * b > 0.0, 2.0 * a * b / (a + b), 0.0)

        def flux(axis: int, n: int) -> tuple[Any, Any]:
            left, right = (
                [cell(axis, n + k)[c] + sign * slope(axis, c, n + k) for c in (0, 1)]
                for k, sign in ((-1, 0.5), (0, -0.5))
            )
            speed = np.sqrt(np.maximum(abs(left[0]), abs(right[0]))) + abs(left[1])
            mass = 0.5 * (left[0] * left[1] + right[0] * right[1] - speed * (right[0] - left[0]))
            return mass, mass * da.where(mass > 0.0, left[1], right[1]) + speed

        faces = [(flux(axis, 1), flux(axis, 0)) for axis in range(ndim)]
        for c, (new, old) in enumerate(((rho_new, rho), (m_new, m))):
            new[...] = old[...] - r * sum(high[c] - low[c] for high, low in faces)

    return kernel


def flow_case(cells: tuple[int, ...], dtype: str = "f8", **options: Any) -> Case:
    ndim = len(cells)
    parameters = [parameter(n, dtype, ndim=ndim) for n in ("rho", "m", "rho_new", "m_new")]
    case = Case(flow(ndim), parameters, cells, scalars={"r": 0.1}, special=False, **options)
    rng = np.random.default_rng(3)
    case.views[0].memory[...] = 1.0 + rng.random(case.views[0].memory.shape)
    case.views[1].memory[...] = rng.standard_normal(case.views[1].memory.shape)
    return case


@pytest.mark.parametrize(
    ("cells", "dtype"), [((1100,), "f4"), ((5, 530), "f4"), ((5, 530), "f8"), ((3, 35, 70), "f8")]
)
def test_each_flux_of_a_flow_is_computed_once(cells: tuple[int, ...], dtype: str) -> None:
    case, ndim = flow_case(cells, dtype), len(cells)
    found = stages.of_program(case.program)
    assert found is not None
    text = codegen.source(case.program)
    whole = text[text.index("\nvoid ") :]
    assert whole.count("sqrt") == ndim  # one for each axis: each flux once
    # Fluxes of mass and momentum together; both slopes together; the velocity of a cell.
    along = [tuple(int(a == axis) for a in range(ndim)) for axis in range(ndim)]
    faces = sorted((loop.span, len(loop.values)) for loop in found.loops if max(loop.span) == 1)
    assert faces == sorted((span, 2) for span in along)
    boxes = [case.box, case.box.with_axis(ndim - 1, 1, 2), case.box.with_axis(0, 1, 2)]
    for box in boxes:
        case.agree((box,))


def test_functions_of_the_library_give_the_bits_of_the_text_without_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NumPy has others, which may differ in the last place."""

    def kernel(u: Any, new: Any) -> None:
        def flux(axis: int, n: int) -> Any:
            return np.exp(np.sin(u.shift(axis, n))) ** 0.3 * u.shift(axis, n - 1)

        new[0, 0] = (flux(0, 1) - flux(0, 0)) + (flux(1, 1) - flux(1, 0))

    case = Case(kernel, [parameter("u"), parameter("new")], (9, 70))
    (_, one), _ = case.run("compiled", [(case.box,)])
    assert "kept" in codegen.source(case.program)
    plain = codegen.generate(case.program, staged=False)
    assert "kept" not in plain.text
    monkeypatch.setattr(codegen, "generate", lambda *_, **__: plain)
    (_, other), _ = case.run("compiled", [(case.box,)])
    same_bits(one, other)


def test_threads_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = flow_case((270, 130))
    one, _ = case.run("compiled", [(case.box,)])
    for threads in "2", "3":
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        several, _ = case.run("compiled", [(case.box,)])
        for a, b in zip(one, several, strict=True):
            same_bits(a, b)


def test_fast_kernels_keep_values_and_stay_close() -> None:
    case = flow_case((9, 140), fast=True)
    assert stages.of_program(case.program) is not None
    exactly, _ = case.run("numpy", [(case.box,)])
    fast, _ = case.run("compiled", [(case.box,)])
    for a, b in zip(fast, exactly, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


MUTATIONS = {
    "a plane too early": (r"\(i - chunk_begin \+ 1\) % 2", "(i - chunk_begin) % 2"),
    "all planes in one": (r"\(i - chunk_begin( \+ \d)?\) % \d", "0"),
    "a stage that starts late": (r"plane >= chunk_begin - 1\b", "plane >= chunk_begin"),
    "no planes ahead of a chunk": (r"plane = chunk_begin - \d", "plane = chunk_begin"),
    "a stage of the wrong plane": (r"i = plane \+ 1;", "i = plane;"),
    "a row too short": (r"tile_(\d)_end \+ 1;", r"tile_\1_end;"),
    "a point too low": (r"- (tile_\d) \+ 1\]", r"- \1]"),
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.usefixtures("eager")
def test_a_wrong_text_changes_bits(name: str) -> None:
    """What the comparisons above would see: mistakes in the text of a flow on two axes."""
    case = flow_case((7, 23))
    code = codegen.generate(case.program)
    text, count = re.subn(*MUTATIONS[name], code.text)
    assert count
    expected, _ = case.run("numpy", [(case.box,)])
    views = [compiling.ArrayView(v.memory.copy(), v.origin, v.start) for v in case.views]
    function = native.load(text, code.symbol)
    launch = compiling.NativeLaunch(case.program, code, function, views, case.geometry)
    launch.set_scalars(case.scalars)
    launch.run(case.box)
    with pytest.raises(AssertionError):
        same_bits(views[2].memory, expected[2])


# ---- SIMD


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_loops_with_divisions_roots_and_choices_are_simd_code(dtype: str) -> None:
    text = codegen.source(flow_case((5, 70), dtype).program)
    loops = row_loops(text)
    assert len(loops) == 6  # velocities, slopes and fluxes along two axes, the update
    assert [str(loop) for loop in loops if not loop.simd] == []


# ---- what is left as it is


def of(function: Any, ndim: int = 2, **options: Any) -> stages.Staged | None:
    return stages.of_program(traced(function, ndim, **options))


def heavy(value: Any) -> Any:
    return np.sqrt(np.sqrt(value) / (1.0 + np.sqrt(2.0 + value)))


def test_cheap_kernels_keep_nothing() -> None:
    assert of(diffuse, 3, scalars={"r": float}) is None

    def gradients(k: Any, u: Any, new: Any) -> None:
        def flux(n: int) -> Any:
            return (k[0, n] + k[0, n - 1]) * (u[0, n] - u[0, n - 1])

        new[0, 0] = u[0, 0] + flux(1) - flux(0)

    assert of(gradients) is None


def test_kernels_whose_order_counts_keep_nothing() -> None:
    def kernel(u: Any, new: Any) -> Any:
        new[0, 0] = heavy(u[0, 1]) - heavy(u[0, 0])
        return language.reduce.sum(new[0, 0], reproducible=reproducible)

    reproducible = True
    assert of(kernel) is not None
    reproducible = False
    assert of(kernel) is None

    def colours(u: Any, v: Any) -> None:
        u[0, 0] = u[0, 0] + heavy(v[0, 1]) - heavy(v[0, 0])

    assert of(colours) is not None
    assert of(colours, colours=2) is None
    assert of(lambda u, v: v.__setitem__((0,) * 4, heavy(u.shift(3, 1)) - heavy(u[...])), 4) is None


def test_what_the_kernel_writes_is_not_kept() -> None:
    def kernel(u: Any, v: Any) -> None:
        u[0, 0] = heavy(v[0, 1] * u[0, 0]) - heavy(v[0, 0] * u[0, -1])

    assert of(kernel, in_place=True) is None


@pytest.mark.usefixtures("eager")
def test_coarse_cells_and_positions_are_those_of_the_point() -> None:
    """What depends on them is not that of a neighbour, so that `u` alone is kept."""
    parameters = [parameter("coarse", level=-1), parameter("u"), parameter("new")]
    grid = tuple(AxisGeometry(4 * n, 0.0, 1.0, False, None) for n in (9, 41))

    def kernel(coarse: Any, u: Any, new: Any) -> None:
        def flux(n: int) -> Any:
            return heavy(abs(u[n, 0])) * heavy(abs(coarse.coarse[n, 0]))

        def placed(n: int) -> Any:
            return heavy(abs(u[n, 0]) + language.coordinate(0)) * heavy(abs(u[n, 0]))

        new[0, 0] = flux(1) - flux(0) + (placed(1) - placed(0))

    case = Case(kernel, parameters, (9, 41), axes=grid, start=(1, 3), special=False)
    found = stages.of_program(case.program)
    assert found is not None
    nodes = list(walk(value for loop in found.loops for _, value in loop.values))
    assert {case.program.arrays[n.parameter].name for n in nodes if isinstance(n, Read)} == {"u"}
    assert not any(isinstance(n, Coordinate) for n in nodes)
    case.agree((Box((1, 1), (8, 40)),))


def test_one_array_that_is_read_and_written() -> None:
    """The last stage of a step writes over the state at its start."""

    def kernel(start: Any, now: Any, new: Any) -> None:
        new[0, 0] = 0.5 * start[0, 0] + heavy(abs(now[1, 0])) - heavy(abs(now[0, 0]))

    case = Case(kernel, [parameter(n) for n in ("start", "now", "new")], (7, 40), special=False)
    assert stages.of_program(case.program) is not None
    expected = case.run("numpy", [(case.box,)])[0][2]
    memory = case.views[0].memory.copy()
    first, now, _ = (compiling.ArrayView(v.memory, v.origin, v.start) for v in case.views)
    first = compiling.ArrayView(memory, first.origin, first.start)
    case.bound("compiled", [first, now, first]).run(case.box)
    i = slice(HALO, -HALO)
    same_bits(memory[i, i], expected[i, i])


def test_a_value_made_of_another_at_the_same_point_is_kept_with_it() -> None:
    def kernel(u: Any, a: Any, b: Any) -> None:
        def flux(n: int) -> Any:
            mass = heavy(abs(u[0, n]))
            return mass, mass / (1.0 + u[0, n] * u[0, n])

        (high, more), (low, less) = flux(1), flux(0)
        a[0, 0], b[0, 0] = high - low, more - less

    found = of(kernel)
    assert found is not None
    assert [len(loop.values) for loop in found.loops] == [2]
    values = [value for _, value in found.loops[0].values]
    assert sum(isinstance(n, Call) and n.function == "sqrt" for n in walk(values)) == 3
