"""Kernels with arrays for every executor, to be compared to the bit."""

from __future__ import annotations

import numpy as np

from distarray.backends.cpu import CpuBackend
from distarray.regions import Box
from distarray.stencil import compile, evaluate, language, tracing
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.launch import ArrayView, LaunchGeometry
from tests.cuda_host import HostLaunch

BACKEND = CpuBackend()
HALO = 2


def parameter(name, dtype="f8", components=(), ndim=2, level=0):
    return ArrayParameter(name, np.dtype(dtype), components, (False,) * ndim, level=level)


def profile(name, axis, dtype="f8"):
    return ArrayParameter(name, np.dtype(dtype), (), None, profile_axis=axis)


def values_of(shape, dtype, rng, special=True):
    """Values of all magnitudes and signs, with the special ones among floats."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        small = rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
        return np.where(rng.random(shape) < 0.5, small, values)
    if dtype.kind == "c":
        values = np.empty(shape, dtype)
        values.real = values_of(shape, values.real.dtype, rng, special)
        values.imag = values_of(shape, values.real.dtype, rng, special)
        return values
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    if special:
        chosen = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.0, 5e-324, 1e300], shape)
        values = np.where(rng.random(shape) < 0.3, chosen, values)
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype)


class Case:
    """A kernel with arrays for all executors.

    `way` is the one that is compared to NumPy: "compiled" C, or "cuda" text run on the CPU.
    """

    way = "compiled"

    def __init__(
        self, function, parameters, cells, *, scalars=(), start=None, special=True, **options
    ):
        kinds = {name: type(value) for name, value in dict(scalars).items()}
        geometry_axes = options.pop("axes", None)
        periodic = options.pop("periodic", (False,) * len(cells))
        self.program = tracing.trace(
            function, parameters, kinds, options.pop("statics", {}), ndim=len(cells), **options
        )
        self.cells = cells
        start = start or (0,) * len(cells)
        self.geometry = LaunchGeometry(start, tuple(4 * n for n in cells), periodic, geometry_axes)
        rng = np.random.default_rng(5)
        self.views = [self._view(p, rng, special) for p in parameters]
        self.scalars = tuple(dict(scalars)[name] for name, _ in self.program.scalars)

    def _view(self, p, rng, special):
        if p.staggered is None:
            extents, start = [self.cells[p.profile_axis]], [self.geometry.start[p.profile_axis]]
        else:
            extents, start = list(self.cells), list(self.geometry.start)
        if p.level > 0:
            extents, start = [2 * n for n in extents], [2 * s for s in start]
        if p.level < 0:
            extents, start = [n // 2 + 1 for n in extents], [-(-s // 2) for s in start]
        shape = tuple(n + 2 * HALO for n in extents)
        memory = BACKEND.allocate(p.components, shape, (HALO,) * len(shape), p.dtype)
        memory[...] = values_of(memory.shape, p.dtype, rng, special)
        return ArrayView(memory, (HALO,) * len(shape), tuple(start))

    @property
    def box(self):
        return Box.of_shape(self.cells)

    def run(self, way, runs):
        """Final array contents and partial results of one executor."""
        views = [ArrayView(self._copy(v.memory), v.origin, v.start) for v in self.views]
        launch = self.bound(way, views)
        launch.reset_reductions()
        launch.set_scalars(self.scalars)
        for run in runs:
            launch.run(*run)
        return [view.memory.copy() for view in views], launch.partials()

    def bound(self, way, views):
        """A launch of one executor on these arrays."""
        if way == "numpy":
            return evaluate.bind(self.program, views, self.geometry)
        if way == "cuda":
            return HostLaunch(self.program, views, self.geometry)
        launch = BACKEND.bind(self.program, views, self.geometry)
        assert isinstance(launch, compile.NativeLaunch)
        return launch

    def _copy(self, memory):
        shape = memory.shape
        copy = BACKEND.allocate((), shape, (HALO,) * len(shape), memory.dtype)
        copy[...] = memory
        return copy

    def agree(self, *runs):
        """Both executors leave the same bits; gives the compiled results."""
        runs = runs or ((self.box,),)
        arrays, partials = self.run("numpy", runs)
        compiled, compiled_partials = self.run(self.way, runs)
        for one, other in zip(arrays, compiled, strict=True):
            same_bits(one, other)
        return compiled, partials, compiled_partials


def same_bits(one, other, name=""):
    """Equal bits, all NaN alike."""
    assert one.dtype == other.dtype
    if one.dtype.kind == "c":
        same_bits(one.real.copy(), other.real.copy(), name)
        same_bits(one.imag.copy(), other.imag.copy(), name)
    else:
        np.testing.assert_array_equal(one, other, err_msg=name)
        if one.dtype.kind == "f":
            numbers = ~np.isnan(one)
            np.testing.assert_array_equal(np.signbit(one[numbers]), np.signbit(other[numbers]))


def diffuse(u, new, *, r):
    around = sum(u.shift(axis, n) for axis in range(3) for n in (1, -1))
    new[0, 0, 0] = u[0, 0, 0] + r * (around - 6.0 * u[0, 0, 0])


def positions(u, new):
    new[0, 0] = (
        u[0, 0] * language.coordinate("y")
        + language.spacing("x", "x") * language.coordinate("x", "x")
        + language.index(0) // 2 % 3
        + language.index("y") * language.spacing("y")
    )


def several(u, v, w, p):
    u[0, 0] = p[0, 0] - p[-1, 0] + 1.0
    v[0, 0] = p[0, 0] - p[0, -1] * language.index(0)
    w[0, 0] = u[0, 0] * 2.0 + v[0, 0]
