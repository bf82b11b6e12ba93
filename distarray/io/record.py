"""What a file says about itself, as plain values: grid, arrays, step, time, attributes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distarray.io.tiles import tile_shape

#: Version of the layout of files; files of a newer version are refused.
FORMAT_VERSION = 2
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
    """One array of a file. Its values start at the byte `offset`, in C order, components first; the
    table of checksums of its tiles starts at the byte `checksums`, 0 where there is none.
    """

    name: str
    dtype: str
    location: str | None
    components: tuple[int, ...]
    points: tuple[int, ...]
    halo: tuple[int, ...]
    boundary: str
    offset: int = 0
    checksums: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.components + self.points

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def tile(self) -> tuple[int, ...]:
        """Extents of the tiles that have a checksum each."""
        return tile_shape(self.components, self.points)

    def at(self, offset: int, checksums: int = 0) -> ArrayRecord:
        return replace(self, offset=offset, checksums=checksums)


@dataclass(frozen=True)
class FileRecord:
    """Everything a file holds but the values. `attrs` is JSON text (see `attributes`); the digest
    of the file starts at the byte `digest`, 0 in files of version 1.
    """

    grid: GridRecord
    arrays: tuple[ArrayRecord, ...]
    step: int | None
    time: float | None
    attrs: str
    library_version: str
    version: int = FORMAT_VERSION
    digest: int = 0


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
    if not name.isascii() and any("\ud800" <= one <= "\udfff" for one in name):
        return "names must be text that UTF-8 can hold, without lone surrogates"
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
