"""What rank tests share."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mpi4py import MPI

from distarray.backends.base import Backend
from distarray.comm import Communicator
from distarray.decomposition import factorisations
from distarray.transports.choice import place

SIZE = MPI.COMM_WORLD.Get_size()


def process_grids(ndim: int, largest: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
    """All process grids of this number of ranks, at most `largest` along each axis."""
    for grid in factorisations(SIZE, ndim):
        if largest is None or all(n <= most for n, most in zip(grid, largest, strict=True)):
            yield grid


def from_root(make: Callable[[], Any]) -> Any:
    """What the root makes alone, on every rank; the others sleep meanwhile, since a wait in MPI
    would take processors from it. Collective.
    """
    world = MPI.COMM_WORLD
    found = make() if world.Get_rank() == 0 else None
    request = world.Ibarrier()
    while not request.Test():
        time.sleep(1e-3)
    return world.bcast(found, root=0)


def backend() -> Backend:
    """The backend of the device under test."""
    return place("auto", "auto", None)[0]


def communicator() -> Communicator:
    """All ranks, as they exchange what lies on the device under test."""
    return place("auto", "auto", None)[1]


def refused(kind: type[Exception], text: str, call: Callable[[], Any]) -> None:
    """The call raises this error with this text in its message, and the same message on all
    ranks.
    """
    try:
        call()
    except kind as error:
        message = str(error)
    else:
        raise AssertionError(f"no {kind.__name__} ({text})")
    assert re.search(re.escape(text), message), message
    assert len(set(MPI.COMM_WORLD.allgather(message))) == 1, message
