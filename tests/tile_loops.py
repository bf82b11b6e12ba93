"""Random time loops, the same on all ranks for the same seed, made with and without tiles.

Kernels are drawn from few, so that little is compiled; grids, locations, components, conditions,
chains, rotations, scalars and process grids are drawn freely.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

import distarray as da
from distarray import spans
from distarray.tiling import loop

NAMES = ("x", "y", "z")


@functools.cache
def offsets(pattern: str, ndim: int) -> tuple[tuple[int, ...], ...]:
    unit = [tuple(int(a == axis) for a in range(ndim)) for axis in range(ndim)]
    nothing = (0,) * ndim
    both = [tuple(s * n for n in one) for one in unit for s in (1, -1)]
    match pattern:
        case "point":
            return (nothing,)
        case "star":
            return (nothing, *both)
        case "far":
            return (nothing, *both, *(tuple(2 * n for n in one) for one in both))
        case "box":
            return tuple(itertools.product((-1, 0, 1), repeat=ndim))
        case "up":
            return (nothing, *(tuple(-n for n in one) for one in unit))
        case "down":
            return (nothing, *unit)
        case "lopsided":
            return ((1,) * ndim, (0,) * (ndim - 1) + (-2,), (2,) + (0,) * (ndim - 1))
    raise ValueError(pattern)


@functools.cache
def kernel(pattern: str, ndim: int, extra: str, components: tuple[int, ...]) -> Any:
    """Weighted values of u, and more: of a coefficient, a profile, positions, the time or a
    reduction.
    """
    places = offsets(pattern, ndim)
    here = ", ".join("0" * ndim)
    weight = 1.0 / (len(places) + 2)

    def of(name: str, component: tuple[int, ...], place: Any = None) -> str:
        chosen = "".join(f"[{c}]" for c in component)
        return f"{name}{chosen}[{here if place is None else ', '.join(map(str, place))}]"

    arrays, scalars, after = ["u", "new"], ["r"], ""
    more = "0"
    if extra == "coefficient":
        arrays.append("c")
        more = f"r * c[{', '.join(map(str, places[-1]))}] * {{u}}"
    elif extra == "profile":
        arrays.append("p")
        more = "r * p[1] * {u} + 0.25 * p[-1]"
    elif extra == "positions":
        more = (
            "r * (da.coordinate(0) + da.spacing(1) + da.coordinate(1, 'y')) + 0.001 * da.index(0)"
        )
    elif extra == "time":
        scalars += ["time", "dt"]
        more = "r * time + dt * {u}"
    elif extra == "reduction":
        first = (0,) * len(components)
        largest, total = f"abs({of('u', first)})", of("new", first)
        after = f"    return da.reduce.max({largest}), da.reduce.sum({total})\n"
    lines = [f"def made({', '.join(arrays)}, *, {', '.join(scalars)}):"]
    for number, component in enumerate(np.ndindex(*components)):
        other = tuple((c + 1) % n for c, n in zip(component, components, strict=True))
        terms = [
            f"{weight * (1 + 0.1 * n)!r} * {of('u', component if n % 2 else other, place)}"
            for n, place in enumerate(places)
        ]
        own = more.format(u=of("u", component))
        lines.append(f"    {of('new', component)} = {' + '.join(terms)} + {own} + {0.01 * number}")
    text = "\n".join(lines) + "\n" + after
    names: dict[str, Any] = {"da": da}
    exec(compile(text, f"<{pattern} {extra}>", "exec"), names)
    made = names["made"]
    made.__name__ = f"fuzz_{pattern}_{extra}_{ndim}_{len(components)}"
    return da.stencil(made)


@functools.cache
def whole(pattern: str, ndim: int) -> Any:
    """A kernel of integers."""
    terms = " + ".join(
        f"{n + 1} * u[{', '.join(map(str, p))}]" for n, p in enumerate(offsets(pattern, ndim))
    )
    here = ", ".join("0" * ndim)
    names: dict[str, Any] = {}
    exec(f"def made(u, new):\n    new[{here}] = ({terms}) // 2\n", names)
    made = names["made"]
    made.__name__ = f"fuzz_whole_{pattern}_{ndim}"
    return da.stencil(made)


@functools.cache
def leap_frog(ndim: int) -> tuple[Any, Any]:
    """Velocities on faces from the pressure in cells, and back."""
    units = [tuple(int(a == axis) for a in range(ndim)) for axis in range(ndim)]
    here = ", ".join("0" * ndim)
    faces = [f"v{axis}" for axis in range(ndim)]
    up = "\n".join(
        f"    {v}[{here}] = {v}[{here}] - r * (p[{here}] - p[{', '.join(str(-n) for n in unit)}])"
        for v, unit in zip(faces, units, strict=True)
    )
    flux = " + ".join(
        f"({v}[{', '.join(map(str, unit))}] - {v}[{here}])"
        for v, unit in zip(faces, units, strict=True)
    )
    names: dict[str, Any] = {}
    arguments = ", ".join(["p", *faces])
    exec(f"def faster({arguments}, *, r):\n{up}\n", names)
    exec(f"def fuller({arguments}, *, r):\n    p[{here}] = p[{here}] - r * ({flux})\n", names)
    return da.stencil(names["faster"]), da.stencil(names["fuller"])


class Loop:
    """One random loop; `run` makes it and gives all that it leaves."""

    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.size = seed, size
        rng = self.rng = np.random.default_rng(seed)
        self.ndim = int(rng.choice([2, 3], p=[0.65, 0.35]))
        self.periodic = tuple(bool(b) for b in rng.random(self.ndim) < 0.4)
        self.ranks = self._ranks()
        least = 5 if self.ndim == 3 else 7
        self.shape = tuple(
            int(
                n * rng.integers(least, least + 5) + rng.integers(0, n)
                if n > 1
                else rng.integers(6, 22)
            )
            for n in self.ranks
        )
        self.dtype = np.dtype(rng.choice(["f8", "f8", "f8", "f4", "c16", "i8", "i2"]))
        self.kind = str(rng.choice(["one", "one", "chain", "three", "leap-frog"]))
        if self.dtype.kind == "i":
            self.kind = str(rng.choice(["one", "chain"]))
        elif self.dtype.kind == "c" and self.kind == "leap-frog":
            self.kind = "one"
        places = ["", "", "x", "y", "xy"] + (["z", "xyz"] if self.ndim == 3 else [])
        self.location = str(rng.choice(places)) or None
        self.other = str(rng.choice(places)) or None
        self.components: tuple[int, ...] = ()
        if self.dtype.kind == "f" and rng.random() < 0.3:
            self.components = ((2,), (2, 2), (1, 3))[rng.integers(3)]
        self.tile = int(rng.integers(2, 7))
        self.steps = self.tile + int(rng.integers(0, 10))
        #: Small tiles, so that there are several.
        self.sizes = tuple(int(n) for n in rng.integers(1, 7, self.ndim - 1))
        self.first = int(rng.integers(0, 3))
        self.dt = None if rng.random() < 0.2 else 0.125
        self.every = int(rng.choice([0, 0, 3, 5]))
        self.stretched = rng.random() < 0.3

    def _ranks(self) -> tuple[int, ...]:
        """A random process grid."""
        left, found = self.size, []
        for _ in range(self.ndim - 1):
            part = int(self.rng.choice([n for n in range(1, left + 1) if left % n == 0]))
            found.append(part)
            left //= part
        found.append(left)
        return tuple(int(n) for n in self.rng.permutation(found))

    # ---- arrays

    def _array(
        self,
        grid: da.Grid,
        rng: Any,
        location: str | None,
        components: tuple[int, ...],
        *,
        conditions: float,
    ) -> Any:
        halo = tuple(int(rng.choice([2, 2, 2, 4, 7])) for _ in range(self.ndim))
        narrowest = [part.narrowest for part in grid.decomposition.axes]
        halo = tuple(map(min, halo, narrowest))
        array: Any = grid.empty(self.dtype, components, location, halo=halo)
        if self.dtype.kind == "i":
            array[...] = rng.integers(-50, 50, array.shape)
        else:
            values = rng.random(array.shape) - 0.5
            array[...] = values + (1j * rng.random(array.shape) if self.dtype.kind == "c" else 0)
        for axis, side in itertools.product(range(self.ndim), "-+"):
            if not self.periodic[axis] and rng.random() < conditions:
                array.boundary[NAMES[axis] + side] = self._condition(rng, array, axis)
        return array

    def _condition(self, rng: Any, array: Any, axis: int, depth: int = 0) -> Any:
        kinds = ["Dirichlet", "Neumann", "Symmetry", "Outflow", "Extrapolate"]
        if self.dtype.kind != "i":
            kinds += ["Robin", "Dirichlet", "Neumann"] + (["Piecewise"] if not depth else [])
        kind = str(rng.choice(kinds))
        on_face = array.layout.staggered[axis]
        value = functools.partial(self._value, rng, array, axis)
        if kind == "Dirichlet":
            return da.Dirichlet(value())
        if kind == "Neumann":
            return da.Neumann(value() if self.dtype.kind != "i" else 0)
        if kind == "Robin":
            return da.Robin(1.0 + rng.random(), 0.5 + rng.random(), value())
        if kind == "Symmetry":
            if array.components and rng.random() < 0.5:
                return da.Symmetry(1)
            return da.Symmetry(int(rng.choice([1, -1])))
        if kind == "Outflow":
            return da.Outflow()
        if kind == "Extrapolate":
            return da.Extrapolate(int(rng.integers(0, 3)))
        a = self._condition(rng, array, axis, 1)
        b = self._condition(rng, array, axis, 1)
        if on_face and isinstance(a, da.Dirichlet) != isinstance(b, da.Dirichlet):
            return a
        other = (axis + 1) % self.ndim
        return da.Piecewise(lambda *x: x[other] < 0.4, a, b)

    def _value(self, rng: Any, array: Any, axis: int) -> Any:
        chosen = rng.random()
        if self.dtype.kind == "i":
            return int(rng.integers(-5, 5))
        if chosen < 0.35:
            return float(rng.random())
        if chosen < 0.5:
            points = array.layout.points
            return rng.random(points[:axis] + points[axis + 1 :])
        if chosen < 0.6 and len(array.components) == 1:
            return [float(rng.random()) for _ in range(array.components[0])]
        a, b = rng.random(2)
        if chosen < 0.7:
            return lambda t, *x: a + b * t
        return lambda t, *x: a * np.sin(t) + b * sum(np.cos(3 * c) for c in x)

    # ---- the loop

    def run(self, tile: int) -> tuple[list[Any], int]:
        """Bytes of all arrays afterwards, and how many tiles there were."""
        rng = np.random.default_rng([self.seed, 1])
        coordinates = {}
        if self.stretched:
            faces = np.cumsum(0.5 + np.random.default_rng(self.seed).random(self.shape[1] + 1))
            coordinates = {"y": faces}
        grid = da.Grid(
            self.shape,
            periodic=self.periodic,
            halo=0,
            ranks=self.ranks,
            coordinates=coordinates or None,
        )
        step, arrays, rotate = getattr(self, "_" + self.kind.replace("-", "_"))(grid, rng)
        scalars: dict[str, Any] = {}
        named = {name for k, _ in step for name in k.scalar_names}
        if "r" in named:
            scalars["r"] = (lambda m: 0.125 + 0.01 * m) if rng.random() < 0.4 else 0.125
        dt = 0.25 if "dt" in named and self.dt is None else self.dt
        seen: list[Any] = []
        with spans.record() as recording:
            newest = da.iterate(
                step, *arrays, steps=self.steps, rotate=rotate, time=0.5, dt=dt,
                first=self.first, tile=tile, every=self.every,
                callback=(lambda n, t, all_: seen.append(all_[0].gather())) if self.every else None,
                **scalars,
            )  # fmt: skip
        fields = [a for a in arrays if isinstance(a, da.DistArray)]
        left = [a.gather() for a in (newest, *fields)] + seen
        left += [np.array(a.boundary.conditions.time) for a in fields if a.boundary]
        for one, positions in step:  # what a call finds afterwards
            values = {
                n: (v(3) if callable(v) else v) for n, v in scalars.items() if n in one.scalar_names
            }
            if "dt" in one.scalar_names:
                values["dt"] = 0.25
            one(
                *(arrays[p] for p in positions),
                **values,
                **({"time": 7.0} if rng.random() < 0.5 or "time" in one.scalar_names else {}),
            )
        left += [a.gather() for a in fields]
        return left, len(recording.named("tile"))

    def _kernel(
        self, rng: Any, grid: da.Grid, arrays: list[Any], positions: tuple[int, int]
    ) -> Any:
        """A stage from one array to another."""
        pattern = str(rng.choice(["star", "star", "far", "box", "up", "down", "lopsided"]))
        if self.dtype.kind == "i":
            return whole(pattern, self.ndim), positions
        extra = str(
            rng.choice(["none", "none", "coefficient", "profile", "positions", "time", "reduction"])
        )
        if self.dtype.kind == "c" and extra in ("reduction",):
            extra = "none"
        more = []
        if extra == "coefficient":
            arrays.append(self._array(grid, rng, self.other, (), conditions=0.8))
            more.append(len(arrays) - 1)
        elif extra == "profile":
            axis = int(rng.integers(self.ndim))
            narrowest = [part.narrowest for part in grid.decomposition.axes]
            halo = min(1 + int(rng.integers(2)), *narrowest)
            arrays.append(grid.profile(axis, rng.random(self.shape[axis]), halo=halo))
            more.append(len(arrays) - 1)
        return kernel(pattern, self.ndim, extra, self.components), (*positions, *more)

    def _one(self, grid: da.Grid, rng: Any) -> Any:
        arrays = [
            self._array(grid, rng, self.location, self.components, conditions=0.85)
            for _ in range(2)
        ]
        return [self._kernel(rng, grid, arrays, (0, 1))], arrays, (0, 1)

    def _chain(self, grid: da.Grid, rng: Any) -> Any:
        """By way of an array of perhaps another location; back into the first, or with rotation."""
        arrays = [
            self._array(grid, rng, self.location, self.components, conditions=0.85)
            for _ in range(2)
        ]
        arrays.append(self._array(grid, rng, self.other, self.components, conditions=0.85))
        back = rng.random() < 0.5
        stages = [
            self._kernel(rng, grid, arrays, (0, 2)),
            self._kernel(rng, grid, arrays, (2, 0 if back else 1)),
        ]
        return stages, arrays, () if back else (0, 1)

    def _three(self, grid: da.Grid, rng: Any) -> Any:
        """Three rotating states."""
        arrays = [
            self._array(grid, rng, self.location, self.components, conditions=0.85)
            for _ in range(3)
        ]
        stages = [self._kernel(rng, grid, arrays, (1, 2))]
        if rng.random() < 0.5:
            arrays.append(self._array(grid, rng, self.other, self.components, conditions=0.85))
            stages = [
                self._kernel(rng, grid, arrays, (0, 3)),
                self._kernel(rng, grid, arrays, (3, 2)),
            ]
        return stages, arrays, (0, 1, 2)

    def _leap_frog(self, grid: da.Grid, rng: Any) -> Any:
        p = self._array(grid, rng, None, (), conditions=0.7)
        faces = [self._array(grid, rng, NAMES[a], (), conditions=0.7) for a in range(self.ndim)]
        every = tuple(range(self.ndim + 1))
        faster, fuller = leap_frog(self.ndim)
        return [(faster, every), (fuller, every)], [p, *faces], ()

    def __repr__(self) -> str:
        kept = (
            "seed",
            "size",
            "shape",
            "ranks",
            "periodic",
            "dtype",
            "kind",
            "location",
            "other",
            "components",
            "steps",
            "tile",
            "sizes",
            "dt",
            "every",
        )
        return ", ".join(f"{name}={getattr(self, name)}" for name in kept)


def compare(seed: int, size: int) -> str:
    """Gives "tiled", "single" where nothing was tiled, or "refused" where single steps are refused.

    Raises
    ------
    AssertionError
        Tiles gave other bits.
    """
    one = Loop(seed, size)
    try:
        expected, none = one.run(1)
    except da.DistArrayError:
        return "refused"
    assert none == 0
    sizes = loop.tile_sizes
    try:
        loop.tile_sizes = lambda calls: one.sizes
        found, tiles = one.run(one.tile)
    finally:
        loop.tile_sizes = sizes
    assert len(found) == len(expected), one
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        assert same or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), (
            f"array {number} of {one}"
        )
        assert same or not np.isfinite(a).all(), f"signs of zeros in array {number} of {one}"
    return "tiled" if tiles else "single"
