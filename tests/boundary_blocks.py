"""Blocks of all ranks of a process grid in one process, and boundary layers computed by plain
loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distarray.arguments import backend_for
from distarray.arraylike import ArrayMarker
from distarray.block import Block
from distarray.boundary import Boundary, BoundaryFill
from distarray.decomposition import Decomposition
from distarray.geometry import AxisGeometry
from distarray.layout import HaloReads, Layout
from tests.devices import host

NAMES = ("x", "y", "z")


def poisoned(layout: Layout, rank: int) -> Block:
    """A block of the device under test in which nothing unfilled looks like a value."""
    block = Block(layout, rank, backend_for("auto"))
    block.memory[...] = np.nan if layout.dtype.kind in "fc" else 111
    return block


@dataclass
class Case:
    """An array on a grid, described without the code under test."""

    cells: tuple[int, ...]
    periodic: tuple[bool, ...]
    staggered: tuple[bool, ...]
    halo: tuple[int, ...]
    components: tuple[int, ...] = ()
    dtype: Any = np.float64
    faces: dict[int, Any] = field(default_factory=dict)  # positions of stretched axes
    low: float = 0.5
    width: float = 0.25  # of the cells of uniform axes

    @property
    def ndim(self) -> int:
        return len(self.cells)

    @property
    def points(self) -> tuple[int, ...]:
        return tuple(
            n + (s and not p)
            for n, s, p in zip(self.cells, self.staggered, self.periodic, strict=True)
        )

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: self.ndim]

    def axes(self) -> tuple[AxisGeometry, ...]:
        made = []
        for axis, (n, wraps) in enumerate(zip(self.cells, self.periodic, strict=True)):
            faces = self.faces.get(axis)
            low, high = (self.low, self.low + n * self.width) if faces is None else faces[[0, -1]]
            made.append(AxisGeometry(n, float(low), float(high), wraps, faces))
        return tuple(made)

    def layout(self, ranks: Sequence[int]) -> Layout:
        decomposition = Decomposition(self.cells, ranks, periodic=self.periodic, halo=self.halo)
        return Layout(
            decomposition, self.staggered, self.halo, self.components, np.dtype(self.dtype)
        )

    def values(self, seed: int = 1) -> Any:
        rng = np.random.default_rng(seed)
        values = rng.uniform(-1, 1, self.components + self.points)
        if np.dtype(self.dtype).kind == "c":
            values = values + 1j * rng.uniform(-1, 1, values.shape)
        return values.astype(self.dtype)

    def position(self, axis: int, index: int) -> float:
        """Of a point or cell centre, wrapped on periodic axes, reflected beyond other ends."""
        n, faces = self.cells[axis], self.faces.get(axis)
        if self.periodic[axis]:
            index %= n
        if faces is None:
            return self.low + (index + (0.0 if self.staggered[axis] else 0.5)) * self.width
        if self.staggered[axis]:
            return float(self._face(axis, index))
        return float(0.5 * (self._face(axis, index) + self._face(axis, index + 1)))

    def _face(self, axis: int, index: int) -> Any:
        faces, n = self.faces[axis], self.cells[axis]
        if index < 0:
            return 2 * faces[0] - faces[-index]
        return 2 * faces[-1] - faces[2 * n - index] if index > n else faces[index]

    def coordinates(self, face_axis: int, side: int) -> list[Any]:
        """Coordinates of the points of a face, all halo cells beside it included."""
        found = []
        for axis in range(self.ndim):
            if axis == face_axis:
                end = self.axes()[axis]
                values = np.array([end.low if side < 0 else end.high])
            else:
                h = self.halo[axis]
                values = np.array(
                    [self.position(axis, i) for i in range(-h, self.points[axis] + h)]
                )
            found.append(values.reshape([-1 if a == axis else 1 for a in range(self.ndim)]))
        return found

    def mirror_distance(self, axis: int, layer: int) -> float:
        on = self.staggered[axis]
        if axis not in self.faces:
            return (2 * layer if on else 2 * layer - 1) * self.width
        raise NotImplementedError


def all_reads(case: Case, widths: Sequence[int] | None = None) -> HaloReads:
    """Every face, edge and corner of every component."""
    widths = case.halo if widths is None else widths
    reads: HaloReads = {}
    for component in np.ndindex(*case.components):
        for direction in itertools.product((-1, 0, 1), repeat=case.ndim):
            size = tuple(w * abs(d) for w, d in zip(widths, direction, strict=True))
            if any(direction) and all(w or not d for w, d in zip(size, direction, strict=True)):
                reads[component, direction] = size
    return reads


def padded_reference(case: Case, values: Any, fill: Callable[[int, int, Any, Any], None]) -> Any:
    """The global array with its halo. `fill(axis, side, g, at)` writes the layers; `at(k)` selects
    inward position k, -m for layer m.
    """
    h, lead = case.halo, len(case.components)
    shape = tuple(n + 2 * w for n, w in zip(case.points, h, strict=True))
    g = np.full(
        case.components + shape, np.nan if np.dtype(case.dtype).kind in "fc" else 77, case.dtype
    )
    inner = (..., *(slice(w, w + n) for n, w in zip(case.points, h, strict=True)))
    g[inner] = values
    for axis in range(case.ndim):
        if case.periodic[axis]:
            indices = (np.arange(-h[axis], case.points[axis] + h[axis])) % case.points[axis] + h[
                axis
            ]
            g = np.take(g, indices, axis=lead + axis)
    for axis in range(case.ndim):
        for side in (-1, 1):
            if not case.periodic[axis]:
                fill(axis, side, g, _selector(case, axis, side, lead))
    return g


def _selector(case: Case, axis: int, side: int, lead: int) -> Callable[[int], tuple[Any, ...]]:
    def at(k: int) -> tuple[Any, ...]:
        index = case.halo[axis] + (k if side < 0 else case.points[axis] - 1 - k)
        full = [slice(None)] * (lead + case.ndim)
        full[lead + axis] = slice(index, index + 1)
        return tuple(full)

    return at


def make_blocks(case: Case, ranks: Sequence[int], values: Any) -> list[Block]:
    """Blocks of all ranks with their owned values; halos poisoned."""
    layout = case.layout(ranks)
    blocks = [poisoned(layout, rank) for rank in range(layout.decomposition.size)]
    for block in blocks:
        block.owned_memory[...] = values[(..., *block.owned.slices())]
    return blocks


def make_boundary(case: Case, ranks: Sequence[int], conditions: Any = None) -> Boundary:
    return Boundary(case.layout(ranks), case.axes(), case.names, conditions)


def plan(boundary: Boundary, block: Block, reads: HaloReads) -> BoundaryFill:
    return BoundaryFill(boundary.conditions, block, reads)


def exchange(case: Case, blocks: Sequence[Block], reads: HaloReads) -> None:
    """Copy the halo regions that have a neighbour, from the blocks' owned values."""
    layout = blocks[0].layout
    whole = np.empty(layout.shape, layout.dtype)
    for block in blocks:
        whole[(..., *block.owned.slices())] = host(block.owned_memory)
    for block in blocks:
        coords = layout.decomposition.coords(block.rank)
        for (component, direction), widths in reads.items():
            if layout.decomposition.neighbour(coords, direction) is not None:
                memory = host(block.component(component)).copy()
                for cell in region_cells(block, direction, widths):
                    source = tuple(
                        i % n if p else i
                        for i, n, p in zip(cell, case.points, case.periodic, strict=True)
                    )
                    memory[tuple(np.subtract(cell, block.padded.start))] = whole[component + source]
                block.component(component)[...] = memory


def region_cells(
    block: Block, direction: Sequence[int], widths: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Global indices of a halo region."""
    ranges = []
    for d, w, start, stop in zip(
        direction, widths, block.owned.start, block.owned.stop, strict=True
    ):
        ranges.append(
            range(start - w, start)
            if d < 0
            else range(stop, stop + w)
            if d > 0
            else range(start, stop)
        )
    return itertools.product(*ranges)


def run_fills(
    case: Case,
    ranks: Sequence[int],
    values: Any,
    conditions: Any,
    reads: HaloReads,
    time: float | None = None,
) -> list[Block]:
    """A refresh on all ranks: fix points, exchange what the fills ask for, fill."""
    blocks = make_blocks(case, ranks, values)
    boundary = make_boundary(case, ranks, conditions)
    refresh(case, boundary, blocks, reads, time)
    return blocks


def refresh(
    case: Case,
    boundary: Boundary,
    blocks: Sequence[Block],
    reads: HaloReads,
    time: float | None = None,
) -> None:
    for block in blocks:
        boundary.fix_values(block, time)
    exchange(case, blocks, {**reads, **boundary.conditions.closure(reads)})
    for block in blocks:
        fill = plan(boundary, block, reads)
        assert fill.stale(time)
        fill.run(time)
        assert not fill.stale(time)


def assert_reads_equal(
    case: Case, blocks: Sequence[Block], reads: HaloReads, reference: Any
) -> int:
    """Owned values and every halo cell that is read equal the reference to the bit; gives their
    number.
    """
    checked = 0
    for block in blocks:
        slices = [
            slice(a + h, b + h)
            for a, b, h in zip(block.owned.start, block.owned.stop, case.halo, strict=True)
        ]
        np.testing.assert_array_equal(host(block.owned_memory), reference[(..., *slices)])
        memory = host(block.memory)
        for (component, direction), widths in reads.items():
            for cell in region_cells(block, direction, widths):
                found = memory[component + tuple(np.subtract(cell, block.padded.start))]
                wanted = reference[component + tuple(np.add(cell, case.halo))]
                assert found == wanted, (block.rank, component, direction, cell, found, wanted)
                checked += 1
    return checked


class FakeArray(ArrayMarker):
    """What Custom asks of a DistArray."""

    def __init__(self, block: Block, boundary: Any, component_prefix: tuple[int, ...]) -> None:
        self.block, self.boundary, self.component_prefix = block, boundary, component_prefix
        self.device = block.backend.name


def fake_array(block: Block, boundary: Any = None, component_prefix: tuple[int, ...] = ()) -> Any:
    return FakeArray(block, boundary, component_prefix)
