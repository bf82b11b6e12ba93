"""Kernels of every kind, run on any device: those of README and of the solvers, and one for each
thing that generated text can contain.

Their results are compared between devices. Started as a program on the simulated device with
DISTARRAY_RECORD_KERNELS=FOLDER, it leaves their CUDA texts; see test_cuda_nvrtc.py.
"""

from __future__ import annotations

from typing import Any

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


Results = dict[str, np.ndarray[Any, Any]]

#: Results of functions that machines round differently, and of kernels that may be contracted.
ROUNDED = ("mixed new", "sine", "diffuse_fast float64", "diffuse_fast float32")


def results(device: str) -> Results:
    """What all kernels give on a device, on the host. Collective."""
    return {**three_axes(device), **two_axes(device), **reduced(device), **flows(device)}


def three_axes(device: str) -> Results:
    grid = da.Grid((12, 10, 14), periodic=(True, False, True), halo=4, device=device)
    found = {}
    for dtype in (np.float64, np.float32):
        u = grid.from_function(lambda x, y, z: x + y * z, dtype=dtype)
        u.boundary["y"] = da.Neumann(0.5)
        for kernel, scalars in (
            (diffuse, {"r": 0.1}),
            (diffuse_fast, {"r": 0.1}),
            (cube, {}),
            (eighth, {}),
        ):
            new = grid.zeros_like(u)
            kernel(u, new, **scalars)
            found[f"{kernel.__name__} {np.dtype(dtype)}"] = new.gather()
    A, B = grid.zeros(components=3), grid.zeros(components=3)
    for component in range(3):
        A[component][...] = (component + 1.0) * grid.from_function(lambda x, y, z: x * y + z)
    curl(A, B)
    return {**found, "curl": B.gather()}


def two_axes(device: str) -> Results:
    grid = da.Grid((12, 10), periodic=(True, False), device=device)
    u = grid.from_function(
        lambda x, y: x + y, boundary={"y-": da.Dirichlet(1.0), "y+": da.Robin(1.0, 2.0, 3.0)}
    )
    for _ in range(3):
        relax(u, grid.full(0.5))
    n = grid.from_function(lambda x, y: np.floor(97 * x - 31 * y), dtype=np.int64)
    z = grid.from_function(lambda x, y: x + 1j * y, dtype=np.complex128)
    new, count, turned = grid.zeros(), grid.zeros(dtype=np.int64), grid.zeros(dtype=np.complex128)
    pending = mixed(u, n, z, new, count, turned, a=2.0)
    coarse = grid.coarsen().zeros()
    restrict(u, coarse)
    outputs = {"mixed new": new, "mixed count": count, "mixed turned": turned, "coarse": coarse}
    return {
        "relax": u.gather(),
        **{name: array.gather() for name, array in outputs.items()},
        **{f"mixed {k}": np.asarray(value.result()) for k, value in enumerate(pending)},
        "sine": np.sin(u).gather(),
        "elementwise": (2.0 * u / (1.0 + u * u) - abs(u - 1.0)).gather(),
    }


def reduced(device: str) -> Results:
    grid = da.Grid((30, 20), device=device)
    u = grid.from_function(lambda x, y: np.exp(x) - 2.0 * y)
    return {
        "exact sum": np.asarray(u.sum(reproducible=True)),
        "max": np.asarray(u.max()),
        "argmin": np.asarray(u.argmin()),
        "any": np.asarray((u > 2.5).any()),
        "count": np.asarray((u > 0.0).sum()),
    }


#: A velocity without sines, which are the same on all machines only to the last digits.
WAVES = (
    lambda x, y, *z: y * (1.0 - y) + 0.0 * x,
    lambda x, y, *z: x * (x - 0.5) + 0.0 * y,
    lambda x, y, z: x * y + 0.0 * z,
)


def flows(device: str) -> Results:
    found = {}
    for cells in ((8, 8), (8, 8, 8)):
        for periodic in (False, True):
            wall = (1.0, *(0.0,) * (len(cells) - 1))
            config = IncompressibleConfig(
                cells=cells,
                viscosity=0.1,
                periodic=periodic,
                walls={} if periodic else {"y+": wall},
                initial=WAVES[: len(cells)] if periodic else None,
            )
            flow = IncompressibleSolver(config, device=device)
            for _ in range(2):
                flow.step(0.01)
            flow.max_divergence()
            for name, field in flow.fields.items():
                found[f"{len(cells)}-D {periodic=} {name}"] = field.gather()
    return found


def differences(found: Results, expected: Results) -> list[str]:
    """The results that differ in a bit, or where ROUNDED in more than the last digits."""
    assert found.keys() == expected.keys()
    return [
        f"{name}: {np.abs(found[name] - expected[name]).max()}"
        for name in expected
        if not _same(name, found[name], expected[name])
    ]


def _same(name: str, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return False
    if name in ROUNDED:
        return np.allclose(found, expected, rtol=8 * np.finfo(found.dtype).eps, atol=0)
    return found.tobytes() == expected.tobytes()


if __name__ == "__main__":
    results("auto")
