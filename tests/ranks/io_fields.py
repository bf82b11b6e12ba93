"""Fields of all kinds for the tests of files, and what these share on several ranks.

Every array holds the global index of its elements, so that a value tells where it belongs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from tests.devices import host

world = MPI.COMM_WORLD
SHAPE = (13, 9, 11)
OPTIONS = {
    "periodic": (True, False, False),
    "bounds": [(0.0, 1.0), (-1.0, 1.0), (0.0, 3.0)],
    "coordinates": {"y": np.linspace(-1.0, 1.0, 10) ** 3},
}
FIELDS: dict[str, dict[str, Any]] = {
    "temperature": {"dtype": "f8"},
    "u": {"dtype": "f4", "location": "x"},
    "nodes": {"dtype": "i8", "location": "xyz"},
    "B": {"dtype": "c16", "location": "yz", "components": (2, 3)},
    "z": {"dtype": "c8"},
    "solid": {"dtype": "?"},
}
CONDITIONS = {
    "y-": da.Dirichlet(0.5),
    "y+": da.Neumann(np.arange(143.0).reshape(13, 11)),
    "z-": da.Robin(1.0, 2.0, -0.1),
    "z+": da.Extrapolate(2),
}


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The index of each element in C order, as its value."""
    index = np.arange(math.prod(shape)).reshape(shape)
    kind = np.dtype(dtype).kind
    return (
        (index % 3 == 0)
        if kind == "b"
        else (index * (1 - 2j) if kind == "c" else index).astype(dtype)
    )


def fields(grid: da.Grid) -> dict[str, da.DistArray]:
    made = {}
    for name, options in FIELDS.items():
        made[name] = array = grid.empty(**options)
        with array.writing() as block:
            block[...] = numbers(array.shape, array.dtype)[array.local_slices]
    made["temperature"].boundary.update(CONDITIONS)
    return made


def save(path: Path, comm: Any = None, ranks: Any = None) -> None:
    grid = da.Grid(SHAPE, comm=comm, ranks=ranks, **OPTIONS)
    da.save(path, fields(grid), step=7, time=0.1, attrs={"viscosity": 1e-3, "cells": [1, 2]})


def check(path: Path, comm: Any = None, ranks: Any = None) -> None:
    """Load everything and compare what this rank owns."""
    grid = da.Grid(SHAPE, comm=comm, ranks=ranks, **OPTIONS)
    found = da.load(path, grid)
    assert (found.step, found.time) == (7, 0.1)
    assert found.attrs == {"viscosity": 1e-3, "cells": [1, 2]}
    assert list(found.arrays) == list(FIELDS)
    for name, options in FIELDS.items():
        array = found.arrays[name]
        assert array.dtype == np.dtype(options["dtype"])
        assert array.location == options.get("location")
        assert array.name == name
        np.testing.assert_array_equal(
            host(array.local), numbers(array.shape, array.dtype)[array.local_slices]
        )
        assert array.local_shape[array.ndim - 3 :] == array.block.owned.shape
    boundary = found.arrays["temperature"].boundary
    assert sorted(boundary) == sorted(CONDITIONS)
    assert boundary["y-"].value == 0.5
    np.testing.assert_array_equal(boundary["y+"].value, CONDITIONS["y+"].value)
    assert (boundary["z-"].a, boundary["z-"].b, boundary["z-"].c) == (1.0, 2.0, -0.1)
    assert boundary["z+"].degree == 2


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sub(n: int) -> Any:
    """A communicator of the first n ranks; COMM_NULL elsewhere."""
    return world.Split(0 if world.rank < n else MPI.UNDEFINED, world.rank)


def counts() -> list[int]:
    return [n for n in (1, 2, 3, 4, 8) if n <= world.size]


def error(action: Callable[[], Any]) -> str:
    """The text of the FileError that an action raises, checked to be the same everywhere."""
    try:
        action()
    except da.FileError as problem:
        text = str(problem)
    else:
        text = "no error"
    assert world.allgather(text) == [text] * world.size
    return text


def on_root(action: Callable[[], Any]) -> None:
    if world.rank == 0:
        action()
    world.Barrier()


def saved(folder: Path) -> tuple[Path, da.Grid]:
    grid = da.Grid((12, 9))
    path = folder / "a.h5"
    da.save(path, {"u": grid.ones(), "v": grid.zeros(location="x")}, step=1)
    return path, grid
