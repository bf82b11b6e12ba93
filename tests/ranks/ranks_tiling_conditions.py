"""Loops with boundary conditions, on faces and in chains: tiles give the bits of single steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import distarray as da
from distarray import spans
from distarray.comm import default
from distarray.tiling import loop
from tests.tile_loops import compare

SIZE = default().size


def test_random_loops() -> None:
    found = [compare(seed, SIZE) for seed in range(5)]
    assert "tiled" in found, found


@da.stencil
def far(u: Any, v: Any) -> None:
    v[0, 0] = 0.2 * (u[2, 0] + u[-2, 0] + u[1, 1] - u[0, -1])


@da.stencil
def back(v: Any, u: Any) -> None:
    u[0, 0] = 0.3 * (v[1, 0] + v[0, 0]) - 0.1 * v[0, 1]


def test_points_that_lack_layers_in_single_steps_lack_them_in_wide_halos_too() -> None:
    """The last face reads three layers of the cells, of which the halo has room for two."""
    found = []
    for tile in (1, 3):
        grid = da.Grid((12 * SIZE + 5, 9), ranks=(SIZE, 1), halo=2)
        u = grid.empty(boundary={"x": da.Neumann(0.5), "y": da.Outflow()})
        v = grid.zeros(location="x", boundary={"x": da.Outflow(), "y": da.Symmetry(-1)})
        u[...] = np.random.default_rng(3).random(u.shape)
        steps = [(far, (0, 1)), (back, (1, 0))]
        with spans.record() as recording:
            da.iterate(steps, u, v, steps=6, rotate=(), tile=tile)
        found.append((u.gather(), v.gather()))
    assert recording.named("tile")
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not found[0][1][-1].any()


@da.stencil
def diffuse(u: Any, new: Any) -> None:
    new[0, 0] = u[0, 0] + 0.125 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])


def test_boundary_functions_are_those_of_their_step() -> None:
    """A field that is linear in time and place stays so if its conditions are: all numbers are
    exact in binary.
    """
    sizes = loop.tile_sizes
    loop.tile_sizes = lambda calls: (5,)
    try:
        grid = da.Grid((16 * SIZE, 16), bounds=((0, 16 * SIZE), (0, 16)))

        def line(t: float, x: Any, y: Any) -> Any:
            return 2.0 * x - 3.0 * y + 0.5 * t

        @da.stencil
        def heated(u: Any, new: Any, *, dt: Any) -> None:
            spread = u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]
            new[0, 0] = u[0, 0] + 0.125 * spread + 0.5 * dt

        sides = {
            "x-": da.Dirichlet(line), "x+": da.Neumann(2.0), "y-": da.Neumann(lambda t, x, y: 3.0),
            "y+": da.Robin(1.0, 2.0, lambda t, x, y: line(t, x, y) - 6.0),
        }  # fmt: skip
        u = grid.from_function(lambda x, y: line(1.0, x, y), boundary=sides)
        with spans.record() as recording:
            newest = da.iterate(heated, u, u.copy(), steps=12, tile=4, time=1.0, dt=0.25)
        assert len(recording.named("tile")) == 3
        expected = grid.from_function(lambda x, y: line(4.0, x, y))
        np.testing.assert_array_equal(newest.gather(), expected.gather())
    finally:
        loop.tile_sizes = sizes


def test_conditions_without_values_in_wide_halos() -> None:
    """With a d + 2 b = 0 in the fourth layer, d = 7 h, no halo of four cells can be filled; where
    an axis is not divided, halos stay as they are.
    """
    found, tiles = [], 0
    for tile in (1, 4):
        grid = da.Grid((12 * SIZE, 10), ranks=(SIZE, 1), bounds=((0, 12 * SIZE), (0, 10)))
        u = grid.empty(boundary={"x": da.Robin(-2.0, 7.0, 1.0), "y": da.Outflow()})
        u[...] = np.random.default_rng(5).random(u.shape)
        with spans.record() as recording:
            newest = da.iterate(diffuse, u, u.copy(), steps=8, tile=tile)
        found.append(newest.gather())
        tiles = len(recording.named("tile"))
    assert tiles == (2 if SIZE == 1 else 0)
    np.testing.assert_array_equal(found[0], found[1])
