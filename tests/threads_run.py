"""A program that prints, as one line of JSON, digests of all that threads compute together, and how
many they were; started with other numbers of threads by test_threads.py.

THREADS_PROBE names the library of `PROBE`, which has to be preloaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import distarray as da
from distarray.backends.base import BoxCopy
from distarray.backends.cpu import CpuBackend
from distarray.comm import default

#: Stands between a compiled text and GCC's OpenMP, and notes the sizes of teams.
PROBE = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
int most, regions;
struct call { void (*work)(void *); void *data; };
static void noted(void *data) {
  const struct call *call = data;
  if (omp_get_thread_num() == 0) {
    const int size = omp_get_num_threads();
    most = size > most ? size : most;
    regions += size > 1;
  }
  call->work(call->data);
}
void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
  void (*real)(void (*)(void *), void *, unsigned, unsigned) = dlsym(RTLD_NEXT, "GOMP_parallel");
  struct call call = {work, data};
  real(noted, &call, threads, flags);
}
"""

Results = Iterator[tuple[str, Any]]


@da.stencil
def heat(u, new, *, r):
    """Loops over blocks of rows."""
    new[0, 0, 0] = u[0, 0, 0] + r * (
        u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]
        - 6.0 * u[0, 0, 0]
    )  # fmt: skip


@da.stencil
def line(u, new):
    """One axis."""
    new[0] = np.sqrt(u[1] * u[1] + u[-1] * u[-1])


@da.stencil
def fluxes(u, new):
    """Values of faces that are kept."""

    def flux(axis: int, n: int) -> Any:
        a, b = u.shift(axis, n - 1), u.shift(axis, n)
        return np.sqrt(a * a + b * b + 1.0) / (2.0 + abs(a - b)) + a / (1.0 + b * b)

    new[0, 0] = sum(flux(axis, 1) - flux(axis, 0) for axis in range(2))


@da.stencil
def reduced(u, new):
    """All kinds of reductions in one pass."""
    new[0, 0] = u[0, 1] * u[1, 0] - u[0, 0] / 3.0
    reduce, value = da.reduce, new[0, 0]
    return (
        reduce.sum(value),
        reduce.sum(value, reproducible=True),
        reduce.min(value),
        reduce.max(value),
    )


@da.stencil(colours=2)
def relax(u):
    """In place."""
    u[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1]) + 0.01


def three_axes() -> Results:
    grid = da.Grid((24, 200, 200), periodic=(True, True, False), halo=2)
    u = grid.from_function(lambda x, y, z: np.sin(7.0 * x + y * z) + z)
    u.boundary["z"] = da.Neumann(0.5)
    new = grid.zeros_like(u)
    yield "steps", da.iterate(heat, u, new, steps=4, r=0.1, tile=1).local
    yield "tiles", da.iterate(heat, u, new, steps=8, r=0.1, tile=4).local
    yield "sum", u.sum()
    yield "exact sum", u.sum(reproducible=True)
    yield "extrema", (u.min(), u.max())
    yield "dot", (da.dot(u, new), da.norm(u), u.mean(), u.var())


def two_axes() -> Results:
    grid = da.Grid((300, 401), periodic=(True, False))
    u = grid.from_function(lambda x, y: np.cos(31.0 * x) * np.exp(y) + x)
    u.boundary["y"] = da.Dirichlet(0.25)
    new = grid.zeros_like(u)
    pending = reduced(u, new)
    yield "reductions", [*(value.result() for value in pending), *new.local.ravel()]
    fluxes(u, new)
    yield "fluxes", new.local
    relax(u)
    yield "colours", u.local


def one_axis() -> Results:
    grid = da.Grid((600_000,), periodic=True)
    u = grid.from_function(lambda x: np.sin(40.0 * x) + x)
    new = grid.zeros_like(u)
    line(u, new)
    yield "line", new.local
    yield "line sum", (u.sum(), new.max())


def copies() -> Results:
    rng = np.random.default_rng(5)
    source = rng.random((3, 40, 50, 60))
    target = np.zeros((3, 42, 52, 62))
    inner = target[:, 1:-1, 1:-1, 1:-1]
    turned = np.zeros((60, 50, 40, 3))
    CpuBackend().prepare_copies([BoxCopy(source, inner), BoxCopy(source.T, turned)])()
    np.testing.assert_array_equal(inner, source)
    np.testing.assert_array_equal(turned, source.T)
    yield "copies", target


def digest(value: Any) -> str:
    """Of all bits of a value."""
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


def main() -> None:
    probe = ctypes.CDLL(os.environ["THREADS_PROBE"])
    regions = ctypes.c_int.in_dll(probe, "regions")
    parts: list[Callable[[], Results]] = [three_axes, two_axes, one_axis, copies]
    digests: dict[str, str] = {}
    shared = []
    for part in parts:
        for name, value in part():
            digests[name] = digest(value)
            shared += [name] * bool(regions.value)
            regions.value = 0
    team = ctypes.c_int.in_dll(probe, "most").value
    found = {"rank": default().rank, "digests": digests, "shared": shared, "team": team}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
