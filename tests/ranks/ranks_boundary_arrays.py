"""Conditions that read other arrays: filled before these are written, and again whenever what they
read has changed, at any depth and on every process grid.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import distarray as da
from tests.ranks.bits import runs
from tests.ranks.common import refused


@da.stencil
def both_sides(u: Any, v: Any) -> None:
    v[0] = u[1] + u[-1]


@da.stencil
def left(u: Any, out: Any) -> None:
    out[0] = u[-1]


def second_inside(u: Any, v: Any) -> None:
    u[0] = v[2]


def first_inside(u: Any, v: Any) -> None:
    u[0] = v[1]


def layer(u: Any, v: Any) -> None:
    u[0] = v[0]


def first_of(out: da.DistArray) -> float:
    return float(out.gather()[0])


def test_layers_are_filled_before_the_arrays_they_read_are_written() -> None:
    """With u = 0, 1, ..., 11 and v = 100 the layer holds 100 as v was before the call, so that
    v[0] = u[1] + 100.
    """
    for overlap in (False, True):
        for grid in runs((12,), periodic=False):
            u, v = grid.empty(), grid.full(100.0)
            u[...] = np.arange(12.0)
            u.boundary["x-"] = da.Custom(second_inside, v)
            both_sides.apply(u, v, overlap=overlap)
            assert first_of(v) == 101.0
            assert first_of(v[1:]) == 2.0


def test_layers_are_filled_before_arrays_read_at_depth_are_written() -> None:
    """The layer of u is v's layer, which is the second value of w, which the kernel writes."""
    for overlap in (False, True):
        for grid in runs((12,), periodic=False):
            u, v, w = grid.empty(), grid.zeros(), grid.full(100.0)
            u[...] = np.arange(12.0)
            v.boundary["x-"] = da.Custom(second_inside, w)
            u.boundary["x-"] = da.Custom(layer, v)
            both_sides.apply(u, w, overlap=overlap)
            assert first_of(w) == 101.0


def test_layers_of_layers_follow_their_arrays() -> None:
    for grid in runs((8,), periodic=False):
        u, v, w, out = (grid.zeros() for _ in range(4))
        v.boundary["x-"] = da.Custom(first_inside, w)
        u.boundary["x-"] = da.Custom(layer, v)
        left(u, out)
        assert first_of(out) == 0.0
        w[...] = 5.0
        left(u, out)
        assert first_of(out) == 5.0


def test_a_later_condition_of_the_array_that_is_read_may_depend_on_time() -> None:
    """Where v = 0 its layer is 2 f(t)."""
    for grid in runs((8,), periodic=False):
        u, v, out = (grid.zeros() for _ in range(3))
        v.boundary["x-"] = da.Dirichlet(1.0)
        u.boundary["x-"] = da.Custom(layer, v)
        left(u, out, time=1.0)
        assert first_of(out) == 2.0
        v.boundary["x-"] = da.Dirichlet(lambda t, x: t)
        for time in (1.0, 2.0, 2.0, 3.0, 1.0):
            left(u, out, time=time)
            assert first_of(out) == 2.0 * time


def test_points_on_faces_of_arrays_that_are_read_are_fixed_at_the_time() -> None:
    """The layer of u is the point of v on the face, alone or with one further inside."""

    def two(u: Any, v: Any) -> None:
        u[0] = v[1] + v[2]

    for kernel in (first_inside, two):
        for grid in runs((8,), periodic=False):
            u, v, out = grid.zeros(), grid.zeros(location="x"), grid.zeros()
            u.boundary["x-"] = da.Custom(kernel, v)
            v.boundary["x-"] = da.Dirichlet(lambda t, x: t + 1.0)
            for time in (1.0, 2.0, 2.0, 3.0, 1.0):
                left(u, out, time=time)
                assert first_of(out) == time + 1.0
                assert first_of(v) == time + 1.0


def test_arrays_may_read_owned_points_of_each_other() -> None:
    for grid in runs((8,), periodic=False):
        u, v, out = grid.full(2.0), grid.full(3.0), grid.zeros()
        u.boundary["x-"] = da.Custom(first_inside, v)
        v.boundary["x-"] = da.Custom(first_inside, u)
        left(u, out)
        assert first_of(out) == 3.0
        left(v, out)
        assert first_of(out) == 2.0
        u[...] = 7.0
        left(v, out)
        assert first_of(out) == 7.0


def test_arrays_may_not_read_layers_of_each_other() -> None:
    for grid in runs((8,), periodic=False):
        u, v, out = grid.zeros(), grid.zeros(), grid.zeros()
        u.boundary["x-"] = da.Custom(layer, v)
        v.boundary["x-"] = da.Custom(layer, u)
        text = "Custom conditions of two arrays read each other's layers"
        refused(da.BoundaryError, text, functools.partial(left, u, out))
