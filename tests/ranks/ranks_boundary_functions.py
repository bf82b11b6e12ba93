"""Functions of conditions that fail on some ranks only: all ranks learn of it at the assignment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mpi4py import MPI

import distarray as da
from tests.ranks.bits import runs, same
from tests.ranks.common import refused


@da.stencil
def below(u: Any, out: Any) -> None:
    out[0, 0] = u[-1, 0]


def far(*coordinates: Any) -> bool:
    """Whether the largest y is among the coordinates: on the last ranks along y."""
    return bool(np.max(coordinates[-1]) > 11.0)


def raises(t: float, x: Any, y: Any) -> Any:
    if far(y):
        raise ValueError("no value here")
    return t + y


def gives_text(t: float, x: Any, y: Any) -> Any:
    return "text" if far(y) else y


def masks_by_number(x: Any, y: Any) -> Any:
    return y if far(y) else y > 3.0


def odd_shape(t: float, x: Any, y: Any) -> Any:
    return np.zeros(1000) if far(y) else y


def complex_far(t: float, x: Any, y: Any) -> Any:
    return y + 1j if far(y) else y


def singular(t: float, x: Any, y: Any) -> Any:
    """A Robin coefficient a with a d + 2 b = 0 for d = 1, b = -1/2, in the last row."""
    return np.where(y > 11.0, 1.0, 0.0)


def failing() -> Iterator[tuple[da.Grid, str, Any, type[Exception], str]]:
    """A grid, where values lie, a condition that fails on some ranks, and how."""
    cases: list[tuple[Any, type[Exception], str]] = [
        (da.Dirichlet(raises), ValueError, "no value here"),
        (da.Neumann(raises), ValueError, "no value here"),
        (da.Piecewise(far_mask, da.Dirichlet(raises), da.Outflow()), ValueError, "no value here"),
        (da.Dirichlet(gives_text), da.BoundaryError, "must be numbers"),
        (da.Dirichlet(odd_shape), da.BoundaryError, "returned shape (1000,)"),
        (da.Neumann(complex_far), da.BoundaryError, "Neumann on x- has complex values"),
        (
            da.Piecewise(masks_by_number, da.Outflow(), da.Dirichlet(0.0)),
            da.BoundaryError,
            "The mask of Piecewise on x- returned float64",
        ),
    ]
    for grid in runs((6, 12), bounds=[(0, 6), (0, 12)]):
        for location in ("", "x"):
            for condition, kind, text in cases:
                yield grid, location, condition, kind, text
        yield grid, "", da.Robin(singular, -0.5, 0.0), da.BoundaryError, "a d + 2 b = 0"


def far_mask(x: Any, y: Any) -> Any:
    return y > 3.0


def assign(u: da.DistArray, condition: Any) -> None:
    u.boundary["x-"] = condition


def create(grid: da.Grid, location: str, condition: Any) -> None:
    grid.zeros(location=location or None, boundary={"x-": condition})


def attempts(grid: da.Grid, location: str, condition: Any) -> Iterator[Callable[[], Any]]:
    u = grid.zeros(location=location or None)
    yield functools.partial(assign, u, condition)
    assert "x-" not in u.boundary
    yield functools.partial(create, grid, location, condition)


def test_functions_that_fail_on_some_ranks_fail_on_all_at_the_assignment() -> None:
    for grid, location, condition, kind, text in failing():
        for attempt in attempts(grid, location, condition):
            refused(kind, text, attempt)


def test_the_condition_before_stays_when_the_new_one_is_refused() -> None:
    for grid in runs((6, 12), bounds=[(0, 6), (0, 12)]):
        u, out = grid.zeros(), grid.zeros()
        kept = da.Dirichlet(2.0)
        u.boundary["x-"] = kept
        refused(ValueError, "no value here", lambda u=u: assign(u, da.Dirichlet(raises)))
        assert u.boundary["x-"] is kept
        below(u, out)
        same(out[0], np.full(12, 4.0))


def test_fractions_on_faces_of_whole_numbers_are_refused_on_all_ranks() -> None:
    for grid in runs((6, 12), bounds=[(0, 6), (0, 12)]):
        u = grid.zeros(int, location="x")
        text = "Dirichlet on x- gives fractions to an array of int64"
        refused(da.BoundaryError, text, lambda u=u: assign(u, da.Dirichlet(0.5)))
        refused(da.BoundaryError, text, lambda u=u: assign(u, da.Dirichlet(lambda t, x, y: 0.5)))


def test_a_function_that_is_singular_at_a_later_time() -> None:
    """The same sentence as at the assignment. Every rank has a grid alone: ranks of one grid would
    not learn of it.
    """
    grid = da.Grid((6, 12), bounds=[(0, 6), (0, 12)], comm=MPI.COMM_SELF)
    u, out = grid.zeros(), grid.zeros()
    u.boundary["x-"] = da.Robin(lambda t, x, y: t, -0.5, 0.0)
    below(u, out, time=0.5)
    refused(da.BoundaryError, "a d + 2 b = 0", lambda: below(u, out, time=1.0))
