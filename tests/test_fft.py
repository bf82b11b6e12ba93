"""Transforms of distributed arrays on one rank, their errors, and the plans of their passes."""

from __future__ import annotations

import builtins
import inspect
import re
import tracemalloc

import numpy as np
import pytest
import scipy.fft

import distarray as da
from distarray import line_transforms
from distarray.decomposition import Decomposition
from distarray.layout import Layout
from distarray.pencils import GROUP_BYTES, Lines, Room, passes_of

rng = np.random.default_rng(5)


class Work:
    """Nothing is done with the lines along an axis."""

    def __init__(self, axis, length):
        self.axis, self.length, self.dtype = axis, length, np.dtype(float)

    def __call__(self, lines, box):
        return lines


def layout(points, ranks):
    ndim = len(points)
    return Layout(Decomposition(points, ranks), (False,) * ndim, (0,) * ndim, (), np.dtype(float))


def grids(points, ranks, axes, target=None):
    """Axes and process grid of each pass."""
    works = [Work(axis, points[axis]) for axis in axes]
    source = layout(points, ranks)
    wanted = None if target is None else layout(points, target)
    return [
        ([work.axis for work in one.works], one.before.decomposition.ranks)
        for one in passes_of(source, wanted, works, 64)
    ]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ((1, 1, 1), [([2, 1], (1, 1, 1)), ([0], (1, 1, 1))]),
        ((4, 1, 1), [([2, 1], (4, 1, 1)), ([0], (1, 4, 1))]),
        ((4, 2, 1), [([2], (4, 2, 1)), ([1], (4, 1, 2)), ([0], (1, 4, 2))]),
        # Nothing to be done where the last axis is cut, before its cuts have moved.
        ((1, 1, 4), [([], (1, 1, 4)), ([2, 1], (4, 1, 1)), ([0], (1, 4, 1))]),
    ],
)
def test_cuts_move_to_whole_axes(ranks, expected):
    assert grids((16, 12, 10), ranks, (2, 1, 0)) == expected


def test_cuts_move_where_they_fit():
    # Axis 1 is too short for the 8 cuts of axis 0.
    assert grids((16, 4, 12), (8, 1, 1), (2, 1, 0)) == [([2, 1], (8, 1, 1)), ([0], (1, 1, 8))]
    # No whole axis takes them: the array is divided anew, over as many of 64 ranks as fit.
    *_, (axes, chosen) = grids((8, 3), (8, 1), (1, 0))
    assert (axes, chosen) == ([0], (1, 3))


def test_the_last_pass_ends_where_it_should():
    assert grids((16, 12, 10), (1, 4, 1), (0, 1, 2), (4, 1, 1)) == [
        ([0], (1, 4, 1)),
        ([1, 2], (4, 1, 1)),
    ]
    assert grids((16, 12, 10), (4, 1, 1), (2, 1, 0), (4, 1, 1))[-1] == ([], (4, 1, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (16, 4), (2, 3, 7), (13,)])
def test_lines_come_in_full_groups_of_vectors(shape, dtype):
    values, room = rng.standard_normal(shape).astype(dtype), Room()
    for axis in range(len(shape)):
        room.take((1000,), np.dtype(float)).fill(np.nan)
        lines = Lines.of(values, axis, room)
        assert np.array_equal(lines.values, values)
        assert lines.memory.shape[lines.along] == shape[axis]
        count = lines.memory.shape[1 - lines.along]
        assert count * np.empty(0, dtype).real.itemsize % GROUP_BYTES == 0
        beyond = np.moveaxis(lines.memory, lines.along, -1)[values.size // shape[axis] :]
        assert not beyond.any()


def test_room_holds_what_was_taken_last_and_before_and_is_used_again():
    room = Room()
    first, second = room.take((3, 5), np.dtype(complex)), room.take((7,), np.dtype(np.float32))
    assert (first.shape, first.dtype, second.shape) == ((3, 5), np.dtype(complex), (7,))
    assert not np.shares_memory(first, second)
    third, fourth = room.take((15,), np.dtype(complex)), room.take((2,), np.dtype(np.float32))
    assert np.shares_memory(first, third)
    assert np.shares_memory(second, fourth)


@pytest.mark.parametrize("there", ["fftn", "rfftn", "dctn", "dstn"])
def test_transforms_run_again_without_new_memory(there):
    """But for what small things of Python take; the values are 2 MB."""
    pytest.importorskip("ducc0")
    u = da.asarray(rng.standard_normal((64, 64, 64)).astype(complex if there == "fftn" else float))
    spectrum = getattr(da.fft, there)(u)
    back = getattr(da.fft, f"i{there}")

    def run():
        getattr(da.fft, there)(u, out=spectrum)
        back(spectrum, out=u)

    for _ in range(2):  # memory is taken in turn, and may first have to grow
        run()
    tracemalloc.start()
    try:
        run()
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(1,), (300,), (4, 33), (40, 40, 40), (2, 3, 4, 5)])
def test_one_rank_gives_the_values_of_scipy(shape):
    host = rng.standard_normal(shape)
    u = da.asarray(host)
    np.testing.assert_allclose(da.fft.fftn(u).gather(), scipy.fft.fftn(host), atol=1e-10)
    np.testing.assert_allclose(da.fft.rfftn(u).gather(), scipy.fft.rfftn(host), atol=1e-10)
    np.testing.assert_allclose(da.fft.dstn(u).gather(), scipy.fft.dstn(host), atol=1e-10)


def test_names_of_axes():
    grid = da.Grid((6, 5), axes=("r", "t"))
    u = grid.from_function(lambda r, t: r * np.exp(t))
    expected = scipy.fft.fftn(u.gather(), axes=(1,))
    np.testing.assert_allclose(da.fft.fftn(u, axes="t").gather(), expected, atol=1e-12)
    np.testing.assert_allclose(da.fft.fftn(u, axes=1).gather(), expected, atol=1e-12)


REFUSED = [
    ("fftn(u, axes=2)", "fftn has no axis 2 to transform in U; use 0 to 1."),
    ("fftn(u, axes=1.0)", "fftn has no axis 1.0 to transform in U; use 0 to 1."),
    ("fftn(u, axes=True)", "fftn has no axis True to transform in U; use 0 to 1."),
    ("fftn(u, axes='x')", "fftn has no axis 'x' to transform in U; use 0 to 1."),
    ("fftn(pair, axes=0)", "fftn has no axis 0 to transform in PAIR; use 1 to 2."),
    ("fftn(pair, axes=-3)", "fftn has no axis -3 to transform in PAIR; use 1 to 2."),
    ("rfftn(u, axes=(0, -2))", "rfftn takes each axis once and at least one, got axes=(0, -2)"),
    ("dctn(u, axes=())", "dctn takes each axis once and at least one, got axes=(); correct it."),
    ("fftn(none)", "fftn needs elements along its axes, got NONE; leave such axes out."),
    (
        "fftn(u, norm='orthogonal')",
        "fftn has the norms 'backward', 'ortho' and 'forward', got norm='orthogonal'; use one",
    ),
    ("fftn(u, norm=[])", "fftn has the norms 'backward', 'ortho' and 'forward', got norm=[]"),
    ("rfftn(phasor)", "rfftn takes real values, got PHASOR; use fftn or the real part."),
    ("dctn(u, type=5)", "dctn has types 1 to 4, got type=5; use one of them."),
    ("dctn(u, type=np.array([1, 2]))", "dctn has types 1 to 4, got type=an array of int64"),
    ("dctn(u, type=2.0)", "dctn has types 1 to 4, got type=2.0; use one of them."),
    ("idstn(u, type=True)", "idstn has types 1 to 4, got type=True; use one of them."),
    ("idctn(thin, type=1)", "idctn of type 1 needs at least 2 elements along each axis, got THIN"),
    (
        "irfftn(phasor, length=5)",
        "irfftn of 4 elements gives 6 or 7, got length=5 for PHASOR; use 6.",
    ),
    ("irfftn(thin, length=0)", "irfftn of 1 elements gives 1, got length=0 for THIN; use 1."),
    (
        "fftn(u, ranks=(1, 1), like=u)",
        "fftn takes one of ranks=, like= and out=, got several; leave the others out.",
    ),
    ("rfftn(u, like=u)", "Values of shape (6, 3) cannot be placed as U; both need the same shape."),
    (
        "fftn(u, out=u)",
        "U cannot take what fftn makes of U: shape (6, 4) of complex128, on the same communicator;",
    ),
    ("fftn(np.zeros(3))", "fftn takes distributed arrays, got an array of float64"),
    ("dctn(u, out=np.zeros((6, 4)))", "dctn takes distributed arrays, got an array of float64"),
    ("fftn(u, like=3)", "fftn(like=3) is neither array nor grid; pass one of these."),
    ("idstn(u, like=3)", "idstn(like=3) is neither array nor grid; pass one of these."),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[call for call, _ in REFUSED])
def test_refused(call, text):
    names = {
        "u": da.zeros((6, 4)),
        "pair": da.Grid((6, 4)).zeros(components=(2,)),
        "phasor": da.zeros((6, 4), complex),
        "none": da.zeros((6, 0)),
        "thin": da.zeros((6, 1)),
    }
    for name, array in names.items():
        text = text.replace(name.upper(), repr(array))
    with pytest.raises(da.ArrayError) as raised:
        eval(f"da.fft.{call}", {"da": da, "np": np, **names})
    assert text in str(raised.value)


@pytest.mark.parametrize("name", [name for name in da.fft.__all__ if name != "LineTransform"])
def test_placements_are_named_in_the_signature(name):
    function = getattr(da.fft, name)
    assert {"ranks", "like", "out"} <= set(inspect.signature(function).parameters)
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'foo'"):
        function(da.zeros((6, 4)), foo=3)


def test_the_half_of_one_value_is_one_value():
    u = da.asarray(np.array([[3.0], [5.0]]))
    back = da.fft.irfftn(da.fft.rfftn(u, axes=1), axes=1)
    np.testing.assert_array_equal(back.gather(), u.gather())


def test_axes_of_map_lines_and_map_along_are_numbers():
    u = da.zeros((6, 4))
    for call in (
        lambda: da.map_lines(u, [(True, lambda block, where: block)]),
        lambda: da.map_along(u, True, lambda block: block),
    ):
        with pytest.raises(da.ArrayError, match="axis=True is none of the 2 axes"):
            call()


def test_what_map_lines_refuses():
    u = da.zeros((6, 4))
    for steps in (None, 5):
        with pytest.raises(da.ArrayError, match=f"takes steps .axis, function., got {steps}; pass"):
            da.map_lines(u, steps)
    with pytest.raises(da.ArrayError, match="made complex values for an array of float64"):
        da.map_lines(u, [(0, lambda block, where: 1j * block)])
    found = da.map_lines(u.astype(complex) + 1.0, [(0, lambda block, where: 1j * block)])
    np.testing.assert_array_equal(found.gather(), np.full((6, 4), 1j))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
def test_transforms_are_steps_of_map_lines(axis, kind):
    host = np.random.default_rng(9).random((5, 6, 7)).astype(kind)
    weights = np.arange(1.0, host.shape[axis] + 1).reshape(
        [-1 if a == axis else 1 for a in range(3)]
    )

    def weighted(block, where):
        return block * weights

    u = da.asarray(host)
    rounding = 30 * np.finfo(kind).eps
    for name in ("dct", "dst"):
        for number in (1, 2, 3, 4):
            there, back = (da.fft.LineTransform(way, number) for way in (name, f"i{name}"))
            modes = getattr(scipy.fft, name)(host, number, axis=axis)
            found = da.map_lines(u, [(axis, there)])
            assert found.dtype == kind
            np.testing.assert_allclose(found.gather(), modes, rtol=rounding, atol=100 * rounding)
            expected = getattr(scipy.fft, f"i{name}")(modes * weights, number, axis=axis)
            found = da.map_lines(u, [(axis, [there, weighted, back])])
            np.testing.assert_allclose(found.gather(), expected, rtol=rounding, atol=300 * rounding)
            found = da.map_lines(u, [(axis, [there, back]), (0, unchanged)])
            np.testing.assert_allclose(found.gather(), host, rtol=rounding, atol=100 * rounding)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize(("norm", "factor"), [(None, 0.0), ("ortho", -0.5), ("forward", -1.0)])
def test_hartley_transforms_are_their_defining_sums(axis, kind, norm, factor):
    pytest.importorskip("ducc0")
    rng = np.random.default_rng(9)
    host = rng.random((5, 6, 7)).astype(kind)
    if host.dtype.kind == "c":
        host += 1j * rng.random((5, 6, 7))
    n = host.shape[axis]
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    sums = n**factor * np.tensordot(np.cos(angle) + np.sin(angle), host, (1, axis))
    there, back = (da.fft.LineTransform(name, norm=norm) for name in ("dht", "idht"))
    rounding, u = 100 * np.finfo(kind).eps, da.asarray(host)
    found = da.map_lines(u, [(axis, there)])
    assert found.dtype == kind
    np.testing.assert_allclose(found.gather(), np.moveaxis(sums, 0, axis), atol=rounding)
    found = da.map_lines(u, [(axis, [there, back])])
    np.testing.assert_allclose(found.gather(), host, atol=rounding)


def unchanged(block, where):
    return block


def test_line_transforms_that_are_refused():
    for options, problem in {
        ("fft",): "name of a LineTransform is one of 'dct', 'idct', 'dst', 'idst', 'dht', 'idht', "
        "got 'fft'; use one of them.",
        ("dct", 5): "type of a LineTransform is one of 1, 2, 3, 4, got 5",
        ("dct", True): "type of a LineTransform is one of 1, 2, 3, 4, got True",
        ("dct", 2.0): "type of a LineTransform is one of 1, 2, 3, 4, got 2.0; use one of them.",
        (
            "dst",
            2,
            "half",
        ): "norm of a LineTransform is one of None, 'backward', 'ortho', 'forward'",
    }.items():
        with pytest.raises(da.ArrayError, match=re.escape(problem)):
            da.fft.LineTransform(*options)
    several = np.array(["dct", "dst"])
    for given in ({"name": several}, {"type": np.arange(2)}, {"norm": several}):
        what = f"The {next(iter(given))} of a LineTransform is one of .*, got an array of "
        with pytest.raises(da.ArrayError, match=what):
            da.fft.LineTransform(**({"name": "dct"} | given))
    step = da.fft.LineTransform("dct", 1)
    with pytest.raises(da.ArrayError, match="real or complex values, got int64; use astype"):
        da.map_lines(da.zeros((4, 4), dtype=np.int64), [(0, step)])
    with pytest.raises(
        da.ArrayError, match=r"dct of type 1 needs at least 2 values along.*, got 1;"
    ):
        da.map_lines(da.zeros((1, 4)), [(0, step)])
    empty = r"^dst of type 2 needs at least 1 value along its axis, got 0; use another axis\.$"
    with pytest.raises(da.ArrayError, match=empty):
        da.map_lines(da.zeros((0, 4)), [(0, da.fft.LineTransform("dst", np.int64(2)))])
    with pytest.raises(da.ArrayError, match="got no function"):
        da.map_lines(da.zeros((4, 4)), [(0, [])])


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("location", [None, "x", "y", "xy"])
def test_results_lie_on_no_grid(periodic, location):
    """Also where all axes that are transformed are whole from the start."""
    grid = da.Grid((6, 5), halo=2, periodic=periodic)
    u = grid.zeros(location=location)
    results = [
        da.fft.fftn(u, axes=1),
        da.fft.irfftn(da.fft.rfftn(u), length=u.shape[1]),
        da.map_lines(u, [(1, lambda block, where: block)]),
    ]
    for result in results:
        assert (result.grid, result.location, result.halo) == (None, None, (0, 0))
        assert result.shape == u.shape
        assert result.layout.staggered == result.decomposition.periodic == (False, False)


def without(monkeypatch, *names):
    """Let imports of these packages fail."""
    real = builtins.__import__

    def chosen(name, *rest):
        if name.split(".")[0] in names:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", chosen)
    line_transforms.library.cache_clear()


@pytest.fixture(autouse=True)
def _library_found_anew():
    yield
    line_transforms.library.cache_clear()


def test_without_a_library_the_extra_is_named(monkeypatch):
    without(monkeypatch, "ducc0", "scipy")
    for call in (lambda: da.fft.fftn(da.zeros((4, 4))), lambda: da.fft.LineTransform("dct")):
        with pytest.raises(da.UnsupportedError, match=r"install the extra fft .*'\.\[fft\]'"):
            call()


def test_scipy_has_no_hartley_transform(monkeypatch):
    without(monkeypatch, "ducc0")
    with pytest.raises(da.UnsupportedError, match="transform idht needs ducc0, found scipy alone"):
        da.fft.LineTransform("idht")
    da.fft.LineTransform("dct")


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("missing", [(), ("ducc0",)])
def test_either_library_does_all_transforms(monkeypatch, missing, norm):
    pytest.importorskip("ducc0")
    host = np.random.default_rng(3).random((6, 7)) + 1j * np.random.default_rng(4).random((6, 7))
    whole, real = da.asarray(host), da.asarray(host.real)
    calls = [(f"{back}fftn", whole, {}) for back in ("", "i")]
    calls += [("rfftn", real, {}), ("irfftn", whole, {})]
    calls += [("irfftn", u, {"axes": (axis,)}) for u in (whole, real) for axis in (0, 1)]
    calls += [
        (f"{back}{name}n", u, {"type": number})
        for back in ("", "i")
        for name in ("dct", "dst")
        for number in (1, 2, 3, 4)
        for u in (whole, real)
    ]
    expected = [getattr(scipy.fft, name)(u.gather(), norm=norm, **o) for name, u, o in calls]
    without(monkeypatch, *missing)
    assert line_transforms.library()[0] == ("scipy" if missing else "ducc0")
    for (name, u, options), values in zip(calls, expected, strict=True):
        found = getattr(da.fft, name)(u, norm=norm, **options).gather()
        np.testing.assert_allclose(found, values, rtol=1e-13, atol=1e-12, err_msg=name)
