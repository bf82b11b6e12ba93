"""Figures of one GPU, each beside what it is measured against in the same run; printed as JSON.

Times are between events of the stream that does the work, in microseconds, the median of
repetitions. Bandwidths count bytes read and written. `python -m tests.gpu.benchmark [CELLS]`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from distarray.backends.base import BoxCopy
from tests.gpu.delay import delay
from tests.gpu_kernels import diffuse

CELLS = 512
SMALL = 64
FIELDS = 8
REPEAT = 20
#: Larger than the second-level cache of any GPU so far.
FLUSH_BYTES = 512 << 20
SECTOR = 32
#: The kernel of a step, its launches queued behind a delay so that none waits for the host.
QUEUED = 200

GATES = {
    "diffuse share of copy": (0.85, "least"),
    "pack axis 0 share of copy": (0.5, "least"),
    "pack axis 1 share of copy": (0.5, "least"),
    "pack axis 2 share of copy, sectors": (0.5, "least"),
    "small step beside its kernel, us": (10.0, "most"),
}


class Timer:
    """Times between events of a stream of a CUDA backend."""

    def __init__(self, backend: Any) -> None:
        import cupy

        self._cuda = cupy.cuda
        self._backend = backend
        self._flushed = cupy.empty(FLUSH_BYTES, np.uint8)

    def microseconds(self, work: Callable[[], Any], stream: Any) -> float:
        """Of one call's work."""
        start, end = self._cuda.Event(), self._cuda.Event()
        start.record(stream.cupy)
        work()
        end.record(stream.cupy)
        end.synchronize()
        return 1000.0 * self._cuda.get_elapsed_time(start, end)

    def flush(self) -> None:
        """Leave nothing of use in the second-level cache, and the GPU idle."""
        self._flushed[...] = 1
        self._cuda.runtime.deviceSynchronize()

    def copy(self, nbytes: int) -> float:
        """Microseconds that the driver takes to copy some bytes within the device's memory."""
        runtime, compute = self._cuda.runtime, self._backend.compute
        source = self._backend.driver.allocate(nbytes)
        target = self._backend.driver.allocate(nbytes)

        def copy() -> None:
            runtime.memcpyAsync(
                target.address,
                source.address,
                nbytes,
                runtime.memcpyDeviceToDevice,
                compute.pointer,
            )

        copy()
        return statistics.median(self.microseconds(copy, compute) for _ in range(REPEAT))


def measured(cells: int) -> dict[str, float]:
    """All figures."""
    backend = da.Grid((4,), device="cuda").backend
    timer = Timer(backend)
    nbytes = 8 * cells**3
    copy = timer.copy(nbytes)
    bandwidth = 2 * nbytes / copy  # bytes a microsecond
    return {
        "cells along an axis": cells,
        "copy, us": copy,
        "copy, GB/s": bandwidth / 1000.0,
        **large_step(timer, cells, bandwidth),
        **packing(timer, cells, bandwidth),
        **small_step(timer),
    }


def large_step(timer: Timer, cells: int, bandwidth: float) -> dict[str, float]:
    """A step of the README's kernel, halo included."""
    grid = da.Grid((cells,) * 3, periodic=True, device="cuda")
    u, new = grid.ones(), grid.zeros()
    for _ in range(3):
        diffuse(u, new, r=0.1)
    step = statistics.median(
        timer.microseconds(lambda: diffuse(u, new, r=0.1), grid.backend.compute)
        for _ in range(REPEAT)
    )
    moved = 16 * cells**3
    return {
        "diffuse step, us": step,
        "diffuse, GB/s": moved / step / 1000.0,
        "diffuse share of copy": moved / step / bandwidth,
    }


def packing(timer: Timer, cells: int, bandwidth: float) -> dict[str, float]:
    """Both faces normal to an axis, of several fields, into one buffer."""
    grid = da.Grid((cells,) * 3, device="cuda")
    backend = grid.backend
    fields = [grid.full(float(n)) for n in range(FIELDS)]
    found = {}
    for axis in range(3):
        faces = [
            u.local[(slice(None),) * axis + (part,)]
            for u in fields
            for part in (slice(0, 1), slice(-1, None))
        ]
        nbytes = sum(face.nbytes for face in faces)
        taken = _time_of_packing(timer, backend, faces, nbytes)
        last = axis == 2
        moved = nbytes + nbytes // 8 * (SECTOR if last else 8)
        found[f"pack axis {axis}, us"] = taken
        name = f"pack axis {axis} share of copy" + (", sectors" if last else "")
        found[name] = moved / taken / bandwidth
    return found


def _time_of_packing(timer: Timer, backend: Any, faces: list[Any], nbytes: int) -> float:
    buffer, place, copies = backend.buffer(nbytes), 0, []
    for face in faces:
        packed = buffer[place : place + face.nbytes].view(face.dtype).reshape(face.shape)
        copies.append(BoxCopy(face, packed))
        place += face.nbytes
    pack, stream, times = backend.prepare_copies(copies), backend.communication, []
    for _ in range(REPEAT):
        timer.flush()
        times.append(timer.microseconds(lambda: pack(stream), stream))
    return statistics.median(times)


def small_step(timer: Timer) -> dict[str, float]:
    """A step of a small cube under a graph, and its kernel alone."""
    grid = da.Grid((SMALL,) * 3, periodic=True, device="cuda")
    u, new = grid.ones(), grid.zeros()
    backend, steps = grid.backend, 2000
    da.iterate(diffuse, u, new, steps=20, r=0.1)
    times = []
    for _ in range(5):
        backend.compute.synchronize()
        start = time.perf_counter()
        da.iterate(diffuse, u, new, steps=steps, r=0.1)
        backend.compute.synchronize()
        times.append((time.perf_counter() - start) / steps * 1e6)
    step, kernel = statistics.median(times), _kernel_alone(timer)
    return {
        "small step, us": step,
        "small kernel, us": kernel,
        "small step beside its kernel, us": step - kernel,
    }


def _kernel_alone(timer: Timer) -> float:
    """Microseconds of the kernel on a small cube without any halo to fill."""
    grid = da.Grid((SMALL,) * 3, device="cuda")
    u, new = grid.ones(), grid.zeros()
    diffuse(u, new, r=0.1)

    def queued(count: int) -> float:
        def work() -> None:
            delay(grid.backend, milliseconds=80.0)
            for _ in range(count):
                diffuse(u, new, r=0.1)

        return statistics.median(timer.microseconds(work, grid.backend.compute) for _ in range(5))

    return (queued(2 * QUEUED) - queued(QUEUED)) / QUEUED


def missed(figures: dict[str, float]) -> list[str]:
    """The gates that the figures do not keep."""
    return [
        f"{name} is {figures[name]:.3f}, at {side} {gate} was asked for"
        for name, (gate, side) in GATES.items()
        if (figures[name] < gate if side == "least" else figures[name] > gate)
    ]


if __name__ == "__main__":
    found = measured(int(sys.argv[1]) if len(sys.argv) > 1 else CELLS)
    print(json.dumps({"figures": found, "missed": missed(found)}))
