"""What tests of equal bits share: the whole domain in NumPy, and all process grids to compare with.

`Field` holds a global array with layers around it, made by the rules of boundary conditions alone.
`Field` holds a global array with layers around it, made by the rules of conditions alone.
of the library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import distarray as da
from distarray.decomposition import factorisations
from distarray.kernels.plan import OverlapChoice
from distarray.testing import wipe_halo
from tests.ranks.common import SIZE

Array = np.ndarray[Any, Any]

#: Layer m of a side, from `inside(k)`, the k-th plane counted inward from the face.
Fill = Callable[[Callable[[int], Array], int], Any]
#: For each axis None where it is periodic, else the fills of both sides (None: no condition).
Fills = Sequence[tuple[Fill | None, Fill | None] | None]

EXECUTOR = "DISTARRAY_EXECUTOR"


@contextlib.contextmanager
def executor(name: str) -> Iterator[None]:
    """Kernels first called inside run as this; "" compiles."""
    before = os.environ.get(EXECUTOR, "")
    os.environ[EXECUTOR] = name
    try:
        yield
    finally:
        os.environ[EXECUTOR] = before


@contextlib.contextmanager
def overlapping(wanted: bool) -> Iterator[None]:
    """Kernels called inside compute their core during the exchange, or not, whatever is faster."""
    kept = OverlapChoice.next
    OverlapChoice.next = lambda _: wanted  # type: ignore[method-assign]
    try:
        yield
    finally:
        OverlapChoice.next = kept  # type: ignore[method-assign]


def compiled() -> bool:
    """Whether kernels first called now compile."""
    return os.environ.get(EXECUTOR, "") == ""


def runs(
    shape: Sequence[int], *, least: int = 0, halo: int | tuple[int, ...] = 1, **options: Any
) -> Iterator[da.Grid]:
    """A grid for every process grid whose blocks have at least `least` cells.

    Every other one computes its core during the exchange. The last is made again for the NumPy
    executor.
    """
    widths = (halo,) * len(shape) if isinstance(halo, int) else halo
    fitting = [
        ranks
        for ranks in factorisations(SIZE, len(shape))
        if all(
            n // parts >= max(1, least, width)
            for n, parts, width in zip(shape, ranks, widths, strict=True)
        )
    ]
    assert fitting, f"no process grid of {SIZE} ranks fits {shape}"
    for number, ranks in enumerate(fitting):
        with overlapping(number % 2 == 0):
            yield da.Grid(shape, halo=halo, ranks=ranks, **options)
    with executor("numpy"), overlapping(len(fitting) % 2 == 0):
        yield da.Grid(shape, halo=halo, ranks=fitting[-1], **options)


def put(grid: da.Grid, values: Array, **options: Any) -> da.DistArray:
    """An array with these values, and nothing of use in its halo."""
    array = grid.empty(values.dtype, **options)
    array[...] = values
    wipe_halo(array)
    return array


def random_values(*shape: int, dtype: Any = float, seed: int = 1) -> Array:
    """The same numbers on every rank."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        return (values + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
    return values.astype(dtype)


def same(found: Any, expected: Any, *, sign_of_zero: bool = True) -> None:
    """Equal bits, NaN apart, and 0.0 and -0.0 unless `sign_of_zero`. Collective for a DistArray."""
    found = np.asarray(found.gather() if isinstance(found, da.DistArray) else found)
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    equal = _bits(found) == _bits(expected)
    if expected.dtype.kind in "fc":
        parts = equal.reshape(*found.shape, -1)
        one, other = (_parts(values).reshape(parts.shape) for values in (found, expected))
        parts |= np.isnan(one) & np.isnan(other)
        if not sign_of_zero:
            parts |= (one == 0) & (other == 0)
        equal = parts.all(axis=-1)
    if not equal.all():
        place = tuple(map(int, np.argwhere(~equal)[0]))
        raise AssertionError(
            f"{np.count_nonzero(~equal)} of {equal.size} values differ, the first at {place}: "
            f"{found[place]!r}, not {expected[place]!r}"
        )


def _parts(values: Array) -> Array:
    """Real and imaginary parts of complex numbers, beside each other."""
    plain = np.ascontiguousarray(values)
    return plain.view(plain.real.dtype) if plain.dtype.kind == "c" else plain


def _bits(values: Array) -> Array:
    parts = _parts(values)
    return parts.view(f"u{parts.itemsize}") if parts.dtype.kind == "f" else parts


# ---- the rules of boundary conditions


def dirichlet(g: Any, on_face: int = 0) -> Fill:
    return lambda inside, m: 2.0 * g - inside(m - 1 + on_face)


def neumann(g: Any, h: float, on_face: int = 0) -> Fill:
    return lambda inside, m: inside(m - 1 + on_face) + (2 * m - 1 + on_face) * h * g


def robin(a: Any, b: Any, c: Any, h: float) -> Fill:
    def fill(inside: Callable[[int], Array], m: int) -> Any:
        d = (2 * m - 1) * h
        scale = a * d + 2.0 * b
        return 2.0 * c * d / scale + (2.0 * b - a * d) / scale * inside(m - 1)

    return fill


def symmetry(sign: int, on_face: int = 0) -> Fill:
    return lambda inside, m: sign * inside(m - 1 + on_face)


def outflow() -> Fill:
    return lambda inside, m: inside(0)


def line() -> Fill:
    """Extrapolate(1)."""
    return lambda inside, m: (1.0 + m) * inside(0) + (-float(m)) * inside(1)


def both(fill: Fill) -> tuple[Fill, Fill]:
    return fill, fill


def layered(values: Array, fills: Fills, width: int = 1) -> Array:
    """The array with `width` layers around it: periodic halos first, then the axes in order."""
    ndim = len(fills)
    lead = values.ndim - ndim
    around = [(0, 0)] * lead + [(width, width)] * ndim
    empty = np.nan if values.dtype.kind in "fc" else 0
    padded = np.pad(values, around, constant_values=empty)
    for axis, sides in enumerate(fills):
        if sides is None:
            n = values.shape[lead + axis]
            padded = np.take(padded, np.arange(-width, n + width) % n + width, axis=lead + axis)
    for axis, sides in enumerate(fills):
        for end, fill in enumerate(sides or ()):
            if fill is not None:
                planes = np.moveaxis(padded, lead + axis, 0)
                planes = planes if end == 0 else planes[::-1]
                _fill(planes, fill, width, lead + axis)
    return padded


def _fill(planes: Array, fill: Fill, width: int, axis: int) -> None:
    def inside(k: int) -> Array:
        return np.expand_dims(planes[width + k], axis)

    with np.errstate(invalid="ignore"):
        for m in range(1, width + 1):
            planes[width - m] = np.broadcast_to(fill(inside, m), inside(0).shape).squeeze(axis)


# ---- kernels on NumPy slices


class Field:
    """A global array and its layers, read and written as in a kernel, at all points of a box."""

    def __init__(self, values: Array, fills: Fills | None = None, width: int = 1) -> None:
        self.fills = fills or (None,) * values.ndim
        self.width = width
        self.memory = layered(values, self.fills, width)
        self.box: list[tuple[int, int]] = []

    @property
    def points(self) -> tuple[int, ...]:
        return tuple(n - 2 * self.width for n in self.memory.shape)

    @property
    def values(self) -> Array:
        inner = tuple(slice(self.width, self.width + n) for n in self.points)
        return self.memory[inner].copy()

    def __getitem__(self, offsets: Any) -> Array:
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        return self.memory[
            tuple(
                slice(self.width + low + d, self.width + high + d)
                for (low, high), d in zip(self.box, offsets, strict=True)
            )
        ]

    def __setitem__(self, offsets: Any, value: Any) -> None:
        with np.errstate(all="ignore"):
            self[offsets][...] = value

    def shift(self, axis: int, n: int) -> Array:
        return self[tuple(n if a == axis else 0 for a in range(len(self.box)))]


def evaluate(
    kernel: Any, *fields: Any, box: Sequence[tuple[int, int]] | None = None, **scalars: Any
) -> None:
    """The text of a kernel on NumPy slices. A list stands for an array with components.

    `box` holds the points to compute, by default all of the last field.
    """
    if box is None:
        last = fields[-1][0] if isinstance(fields[-1], list) else fields[-1]
        box = [(0, n) for n in last.points]
    for field in fields:
        for part in field if isinstance(field, list) else [field]:
            part.box = list(box)
    with np.errstate(all="ignore"):
        kernel.function(*fields, **scalars)


def advanced(
    kernel: Any,
    values: Array,
    steps: int,
    fills: Fills | Callable[[int], Fills],
    *,
    width: int = 1,
    box: Sequence[tuple[int, int]] | None = None,
    **scalars: Any,
) -> Array:
    """A kernel (u, new, *, scalars) repeated; `fills` may be a function of the step number."""
    for step in range(steps):
        u = Field(values, fills(step) if callable(fills) else fills, width)
        new = Field(values)
        evaluate(kernel, u, new, box=box, **scalars)
        values = new.values
    return values


def centres(n: int, width: int = 0, *, low: float = 0.0, h: float, periodic: bool = False) -> Array:
    """Positions of cell centres, `width` beyond both ends."""
    i = np.arange(-width, n + width)
    return low + ((i % n if periodic else i) + 0.5) * h
