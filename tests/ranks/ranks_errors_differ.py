"""What ranks describe differently, and functions that fail on one of them, are errors on all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import distarray as da
from tests.ranks.refusals import names, refuse, still_works

RANKS = (1, 3)
SELDOM = (1,)

world = MPI.COMM_WORLD
RANK, SIZE = world.Get_rank(), world.Get_size()


def differ(start: str, call: Callable[[], Any]) -> None:
    """The call, given other arguments on rank 1 than on the others, is refused on all of them."""
    if SIZE == 1:
        call()  # one rank agrees with itself
        return
    with pytest.raises(da.CommunicationError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{start} differs between ranks, rank 0 has "), message
    assert message.endswith("; pass the same on all ranks."), message
    assert len(set(world.allgather(message))) == 1
    still_works(names())


def test_grids() -> None:
    ranks, odd = (SIZE, 1), RANK == 1
    differ("The grid", lambda: da.Grid((9 + 3 * odd, 8), ranks=ranks))
    differ("The grid", lambda: da.Grid((9, 8), bounds=[(0, 1 + odd), (0, 1)], ranks=ranks))
    differ("The grid", lambda: da.Grid((9, 8), periodic=bool(odd), ranks=ranks))
    differ("The grid", lambda: da.Grid((9, 9), ranks=(1, SIZE) if odd else ranks))
    faces = np.linspace(0.0, 1.0, 9)
    faces[4] += 0.01 * odd
    differ("The grid", lambda: da.Grid((9, 8), coordinates={"y": faces}, ranks=ranks))


def test_roots() -> None:
    u = names()["u"]
    root = 1 if RANK == 1 else 0
    differ("root of gather", lambda: u.gather(root=root))
    differ("root of gather", lambda: u.gather(root=0 if RANK == 1 else None))
    differ("root of from_root", lambda: da.from_root(np.ones((9, 8)), root=root))


@da.stencil
def halve(u: Any, new: Any) -> None:
    new[0, 0] = 0.5 * u[1, 0]


@da.stencil
def move(u: Any, new: Any) -> None:
    new[0, 0] = u[1, 0]


def test_loops() -> None:
    """Of any length: halos of few steps are as well mistaken for those of others."""
    known, odd = names(), RANK == 1
    arrays = known["u"], known["new"]
    both = [(halve, (0, 1)), (move, (1, 0))]
    for options in (
        {"steps": 20 + 10 * odd},
        {"steps": 2 + 2 * odd},
        {"steps": 1 - odd},
        {"steps": 20, "tile": 4 - 2 * odd},
        {"steps": 4, "tile": 1 if odd else 2},
        {"steps": 4, "tile": 2 if odd else "auto"},
        {"steps": 20, "every": 30 - odd},
        {"steps": 2, "every": 1 + odd},
        {"steps": 2, "rotate": () if odd else (0, 1)},
        {"steps": 2, "first": int(odd)},
        {"steps": 2, "time": 0.5 * odd},
        {"steps": 2, "dt": 0.5 if odd else None},
        {"steps": 2, "step": move if odd else halve},
        {"steps": 2, "step": both[: 1 + odd]},
        {"steps": 2, "step": [(halve, (0, 1)), (move, (1, 0) if odd else (0, 1))]},
    ):
        step: Any = options.pop("step", halve)
        differ("The call of iterate", functools.partial(da.iterate, step, *arrays, **options))


def test_numbers_of_loops_are_compared_by_their_values() -> None:
    known, odd = names(), RANK == 1
    arrays = known["u"], known["new"]
    steps, tile, first = (np.int64(4), np.int32(2), np.int8(1)) if odd else (4, 2, 1)
    time, dt = (np.float64(1.0), 2) if odd else (1, np.float64(2.0))
    rotate = range(2) if odd else np.array([0, 1])
    da.iterate(halve, *arrays, steps=steps, tile=tile, first=first, time=time, dt=dt, rotate=rotate)
    still_works(names())


def test_points() -> None:
    grid, odd = names()["grid"], RANK == 1
    differ("The call of grid.points", lambda: grid.points([[0.5, 0.5]] * (2 + odd)))
    differ("The call of grid.points", lambda: grid.points([[0.5, 0.25 + 0.5 * odd]]))
    differ("The call of grid.points", lambda: grid.points(np.zeros((int(odd), 2))))
    differ("The call of grid.points", lambda: grid.points([[0.5, 0.5 + 7.0 * odd]]))


def test_points_of_loops() -> None:
    known, odd = names(), RANK == 1
    arrays, points = (known["u"], known["new"]), known["somewhere"]
    for one, other in (
        (points.recording(0), points.recording(1)),
        (points.adding(np.ones((3, 1)), 0), points.adding(np.ones((3, 1)), 1)),
        (points.adding(np.ones((3, 1))), points.adding(np.ones((2, 1)))),
        (points.adding(np.ones((3, 1))), points.adding(np.ones((3, 4)))),
        (points.adding(np.ones((3, 1))), points.adding(np.ones((3, 1), complex))),
        (points.adding(np.ones((3, 1))), points.adding(float)),
        (points.adding(np.ones((3, 1))), points.recording()),
    ):
        step = [(halve, (0, 1)), (other if odd else one, (1,))]
        differ("The call of iterate", functools.partial(da.iterate, step, *arrays, steps=3))
    many = [(halve, (0, 1)), *[(points.recording(), (1,))] * (1 + odd)]
    differ("The call of iterate", functools.partial(da.iterate, many, *arrays, steps=3))


def test_a_function_that_fails_on_one_rank() -> None:
    """All ranks raise what the function raised; those where it did not are told where it was."""
    last = SIZE - 1

    def failing(x: Any, y: Any) -> Any:
        if last == RANK:
            raise ZeroDivisionError("at a point of mine")
        return x + y

    grid = names()["grid"]
    with pytest.raises(ZeroDivisionError, match="at a point of mine") as caught:
        grid.from_function(failing)
    notes = getattr(caught.value, "__notes__", [])
    assert last == RANK or f"It was raised on rank {last}:" in notes[0]
    with pytest.raises(da.ArrayError, match=r"^Values of shape \(5,\) do not broadcast"):
        grid.from_function(lambda x, y: np.zeros(5) if last == RANK else x + y)
    still_works(names())


def test_values_that_only_root_knows_to_be_wrong() -> None:
    refuse(
        da.ArrayError,
        {
            "da.from_root('text' if rank == 0 else np.zeros(3))": (
                "Values of from_root must be numbers of at most 64 bits or arrays of them, got "
                "'text'; convert what you give."
            ),
            "da.from_root(np.zeros(3) if rank == 0 else None, like=grid)": (
                "Values of shape (3,) do not fit $grid; their last axes must have (9, 8) entries."
            ),
        },
        {"rank": RANK},
    )


def test_arrays_become_numpy_arrays_on_one_rank_only() -> None:
    if SIZE == 1:
        refuse(
            da.ArrayError,
            {
                "np.array(u, dtype=int, copy=False)": (
                    "$u does not become int64 without a copy; leave copy=False out."
                )
            },
        )
        return
    refuse(
        da.UnsupportedError,
        {
            "np.asarray(u)": (
                "$u is spread over $size ranks and does not become a NumPy array silently; call "
                "gather()."
            )
        },
    )
