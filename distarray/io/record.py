"""What a file says about itself, as plain values: grid, arrays, step, time, attributes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: Version of the layout of files; files of a newer version are refused.
FORMAT_VERSION = 1
#: Top-level names that arrays may not take: what the library keeps beside the arrays.
RESERVED_NAMES = ("distarray", "VTKHDF")

_WORDS = {
    "cells": "shape",
    "axes": "axes",
    "periodic": "periodic",
    "bounds": "bounds",
    "faces": "face positions",
}


@dataclass(frozen=True)
class GridRecord:
    """The grid of a file. `faces` holds the face positions of stretched axes, None for others."""

    cells: tuple[int, ...]
    bounds: tuple[tuple[float, float], ...]
    axes: tuple[str, ...]
    periodic: tuple[bool, ...]
    faces: tuple[tuple[float, ...] | None, ...]

    def mismatch(self, grid: GridRecord) -> str | None:
        """What differs first between the file's grid (self) and another; part of a sentence."""
        for name, word in _WORDS.items():
            mine, other = getattr(self, name), getattr(grid, name)
            if mine != other:
                if name == "faces":
                    axis = next(
                        a for a, (m, o) in enumerate(zip(mine, other, strict=True)) if m != o
                    )
                    return f"other face positions along axis {self.axes[axis]} than the grid"
                return f"{word} {mine}, the grid has {word} {other}"
        return None


@dataclass(frozen=True)
class ArrayRecord:
    """One array of a file. Its values start at the byte `offset`, in C order, components first."""

    name: str
    dtype: str
    location: str | None
    components: tuple[int, ...]
    points: tuple[int, ...]
    halo: tuple[int, ...]
    boundary: str
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.components + self.points

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def at(self, offset: int) -> ArrayRecord:
        return replace(self, offset=offset)


@dataclass(frozen=True)
class FileRecord:
    """Everything a file holds but the values. `attrs` is JSON text (see `plain`)."""

    grid: GridRecord
    arrays: tuple[ArrayRecord, ...]
    step: int | None
    time: float | None
    attrs: str
    library_version: str


def library_version() -> str:
    """Version of the installed package; "unknown" in a checkout that was never installed."""
    from importlib import metadata  # 40 ms, not for those who save nothing

    try:
        return metadata.version("distarray-mpi")
    except metadata.PackageNotFoundError:
        return "unknown"


def name_problem(name: Any) -> str | None:
    """Why a name cannot be an array's name in a file: the rule it breaks, or None."""
    if not isinstance(name, str):
        return "names must be strings"
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        return "names must not be empty, '.' or '..', nor contain '/' or a zero byte"
    if name in RESERVED_NAMES:
        return f"the names {', '.join(RESERVED_NAMES)} are kept for the library"
    return None


def halo_problem(grid: GridRecord, halo: tuple[int, ...]) -> str | None:
    """Why an array of a file cannot have this halo: the rule it breaks, or None.

    A halo far beyond the grid is no kernel's; memory for it would be asked for when it is loaded.
    """
    if len(halo) != len(grid.cells):
        return f"a halo has one width per axis, {len(grid.cells)}"
    if any(not 0 <= width <= max(cells, 64) for width, cells in zip(halo, grid.cells, strict=True)):
        return "a halo is at least 0 and at most as wide as the grid or 64 cells"
    return None


def points_of(grid: GridRecord, location: str | None) -> tuple[int, ...]:
    """Points along each axis: one more than cells on axes of the location that do not wrap."""
    return tuple(
        cells + (axis in (location or "") and not wraps)
        for cells, axis, wraps in zip(grid.cells, grid.axes, grid.periodic, strict=True)
    )


def batches(sizes: Sequence[int], limit: int) -> Iterator[range]:
    """Consecutive runs of items whose sizes sum to at most `limit`, or one larger item alone."""
    first, total = 0, 0
    for index, size in enumerate(sizes):
        if index > first and total + size > limit:
            yield range(first, index)
            first, total = index, 0
        total += size
    if first < len(sizes):
        yield range(first, len(sizes))
