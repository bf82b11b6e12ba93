"""Runs kernels of every kind once, so that their CUDA texts are recorded; see test_cuda_nvrtc.py.

The kernels of README and of the solvers, and one for each thing that generated text can contain.
Started with DISTARRAY_DEVICE=simulated and DISTARRAY_RECORD_KERNELS=FOLDER.
"""

from __future__ import annotations

import numpy as np

import distarray as da
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver


@da.stencil
def diffuse(u, new, *, r):
    """Seven points, as in README."""
    new[0, 0, 0] = u[0, 0, 0] + r * (
        u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
        - 6.0 * u[0, 0, 0]
    )  # fmt: skip


@da.stencil(fast=True)
def diffuse_fast(u, new, *, r):
    """The same, contracted."""
    new[0, 0, 0] = u[0, 0, 0] + r * (u[1, 0, 0] + u[-1, 0, 0] - 2.0 * u[0, 0, 0])


@da.stencil
def cube(u, new):
    """All 27 neighbours with different weights, and a second sum over them: many values."""
    reads = [u[i, j, k] for i in range(-1, 2) for j in range(-1, 2) for k in range(-1, 2)]
    total = sum((1.0 + n / 8.0) * value for n, value in enumerate(reads))
    new[0, 0, 0] = total / (1.0 + sum(value * value for value in reads))


@da.stencil
def eighth(u, new):
    """Reach 4 along every axis."""
    new[0, 0, 0] = sum(
        (u.shift(axis, n) + u.shift(axis, -n)) / (1.0 + n) for axis in range(3) for n in range(1, 5)
    )


@da.stencil(colours=2)
def relax(u, f):
    """In place, one colour after the other."""
    u[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - f[0, 0])


@da.stencil
def mixed(u, n, z, new, count, turned, *, a):
    """Kinds of numbers, branches, functions, positions and fused reductions."""
    x = da.coordinate(0)
    new[0, 0] = da.where(u[0, 0] > x, np.sqrt(np.abs(u[1, 0])), np.exp(-u[0, 1]) + np.tanh(a * x))
    count[0, 0] = n[0, 0] // 3 + da.index(1) % 5
    turned[0, 0] = z[0, 0] * z[0, 1] / (2.0 + z[1, 0])
    return da.reduce.max(u[0, 0]), da.reduce.sum(u[0, 0], reproducible=True), da.reduce.min(n[0, 0])


@da.stencil
def restrict(f, c):
    """From a finer grid."""
    c[0, 0] = 0.25 * (f.fine[0, 0] + f.fine[1, 0] + f.fine[0, 1] + f.fine[1, 1])


@da.stencil
def curl(A, B):
    """Components."""
    B[0][0, 0, 0] = A[2][0, 1, 0] - A[2][0, -1, 0] - A[1][0, 0, 1] + A[1][0, 0, -1]
    B[1][0, 0, 0] = A[0][0, 0, 1] - A[0][0, 0, -1] - A[2][1, 0, 0] + A[2][-1, 0, 0]
    B[2][0, 0, 0] = A[1][1, 0, 0] - A[1][-1, 0, 0] - A[0][0, 1, 0] + A[0][0, -1, 0]


def three_axes() -> None:
    grid = da.Grid((12, 10, 14), periodic=(True, False, True), halo=4)
    for dtype in (np.float64, np.float32):
        u = grid.from_function(lambda x, y, z: x + y * z, dtype=dtype)
        u.boundary["y"] = da.Neumann(0.5)
        new = grid.zeros_like(u)
        diffuse(u, new, r=0.1)
        diffuse_fast(u, new, r=0.1)
        cube(u, new)
        eighth(u, new)
    A, B = grid.zeros(components=3), grid.zeros(components=3)
    curl(A, B)


def two_axes() -> None:
    grid = da.Grid((12, 10), periodic=(True, False))
    u = grid.from_function(
        lambda x, y: x + y, boundary={"y-": da.Dirichlet(1.0), "y+": da.Robin(1.0, 2.0, 3.0)}
    )
    relax(u, grid.zeros())
    n, z = grid.zeros(np.int64), grid.full(1.0 + 2.0j, dtype=np.complex128)
    mixed(u, n, z, grid.zeros(), grid.zeros(np.int64), grid.zeros(np.complex128), a=2.0)
    coarse = grid.coarsen()
    restrict(u, coarse.zeros())
    v = np.sin(u) + 2.0 * u - 1.0
    float(v.sum())
    float(v.max())


def flows() -> None:
    for cells in ((8, 8), (8, 8, 8)):
        for periodic in (False, True):
            config = IncompressibleConfig(cells=cells, viscosity=0.1, periodic=periodic)
            flow = IncompressibleSolver(config)
            flow.step(0.01)
            flow.max_divergence()


if __name__ == "__main__":
    three_axes()
    two_axes()
    flows()
