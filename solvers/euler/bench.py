"""Measures a step of the two-dimensional Euler equations, MUSCL with HLLC, beside C written by hand
for the same scheme, which computes the flux of each face once (`bench.c`).

`python -m solvers.euler.bench` takes both in turn on one core, compares their numbers, and prints
the medians of the time that the core gave them, and their ratio.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

import distarray as da
from solvers.by_hand import compiled, load_line
from solvers.euler.config import EulerConfig
from solvers.euler.exact import vortex
from solvers.euler.solver import EulerSolver

#: As the library compiles kernels; for what the compiler reports alone.
FLAGS = (
    "-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-fopenmp-simd",
    "-fno-thread-jumps",
)  # fmt: skip
#: Reported by GCC for every loop that it made SIMD code of.
REPORT = "-fopt-info-vec-optimized"
LAYERS = 2
#: Largest ratio that is accepted.
GATE = 1.15

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Result:
    """Seconds for a step, medians, and the largest relative difference of the states."""

    cells: int
    library: float
    by_hand: float
    difference: float

    @property
    def ratio(self) -> float:
        return self.library / self.by_hand

    def __str__(self) -> str:
        kept = "ok" if self.ratio <= GATE else "MISSED"
        per_cell = 1e9 / self.cells**2
        return (
            f"Euler 2-D MUSCL-HLLC, {self.cells}^2 cells, SSP-RK2, a step on one core\n"
            f"  library  {1e3 * self.library:8.3f} ms  {per_cell * self.library:6.1f} ns a cell\n"
            f"  C        {1e3 * self.by_hand:8.3f} ms  {per_cell * self.by_hand:6.1f} ns a cell\n"
            f"  ratio    {self.ratio:8.3f}     gate {GATE} {kept}\n"
            f"  largest relative difference of the states {self.difference:.1e}"
        )


class ByHand:
    """The same flow in C."""

    def __init__(self, flow: EulerSolver) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_double
        arguments = [pointer] * 6 + [ctypes.c_ssize_t] * 2 + [number] * 5
        self._stage = compiled(_text(), "stage", *arguments, result=number)
        fields = [flow.fields[name].gather() for name in ("density", "momentum", "energy")]
        density, momentum, energy = (np.asarray(values) for values in fields)
        self.state: Floats = np.concatenate([density[None], momentum, energy[None]])
        self._spare = np.empty_like(self.state)
        nx, ny = self.cells = density.shape
        self._w = [np.ones((4, nx + 2 * LAYERS, ny + 2 * LAYERS)) for _ in range(2)]
        inside = (slice(None), slice(LAYERS, -LAYERS), slice(LAYERS, -LAYERS))
        self._w[0][inside] = flow.primitive.gather()
        self._rows = np.empty(12 * (ny + 1))
        self._numbers = flow.config.gamma, *(1.0 / h for h in flow.grid.spacing if h is not None)

    def step(self, dt: float) -> float:
        """Advance by a time step; the largest rate at which waves cross cells."""
        state, spare, (w, w_new) = self.state, self._spare, self._w
        self._run(w, state, state, spare, w_new, dt, 0.0)
        return self._run(w_new, spare, state, state, w, dt, 0.5)

    def _run(self, *given: Any) -> float:
        *arrays, dt, keep = given
        addresses = [array.ctypes.data for array in (*arrays, self._rows)]
        return float(self._stage(*addresses, *self.cells, dt, keep, *self._numbers))


def problem(cells: int) -> EulerSolver:
    """The flow that is measured."""
    config = EulerConfig(
        cells=(cells, cells),
        initial=lambda x, y: vortex(0.0, x, y),
        bounds=((-10.0, 10.0),) * 2,
        periodic=True,
    )
    return EulerSolver(config, device="cpu")


def measure(cells: int, repeat: int, steps: int) -> Result:
    """Take both in turn, and compare what they computed."""
    flow = problem(cells)
    dt = 0.5 * flow.stable_dt()
    by_hand = ByHand(flow)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat + 1):
        for one, taken in zip((flow, by_hand), seconds, strict=True):
            began = time.process_time()
            for _ in range(steps):
                one.step(dt)  # type: ignore[attr-defined]
            taken.append((time.process_time() - began) / steps)
    # The first ones compile, and touch memory for the first time.
    library, hand = (statistics.median(taken[1:]) for taken in seconds)
    density, energy = (np.asarray(flow.fields[name].gather()) for name in ("density", "energy"))
    difference = max(
        float(np.max(abs(a / b - 1.0)))
        for a, b in ((density, by_hand.state[0]), (energy, by_hand.state[3]))
    )
    return Result(cells, library, hand, difference)


def _text() -> str:
    return resources.files("solvers.euler").joinpath("bench.c").read_text("utf-8")


def _said(text: str, *more: str) -> str:
    """What the compiler reports of a C text."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise da.BackendError("The comparison needs a C compiler, found none; install gcc.")
    command = [compiler, *FLAGS, *more, REPORT, "-x", "c", "-", "-S", "-o", os.devnull]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise da.BackendError(f"The compiler failed: {done.stderr.strip()}; set CC to another one.")
    return done.stderr


def report(flow: EulerSolver) -> str:
    """Which loops of both the compiler made SIMD code of."""
    kernel = _said(flow._stage.source("c"), "-fopenmp")
    return f"C by hand:\n{_said(_text())}Kernel of the last stage:\n{kernel}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if the gate was missed or the numbers differ."""
    parser = argparse.ArgumentParser(prog="python -m solvers.euler.bench", description=__doc__)
    parser.add_argument("--cells", type=int, default=512, help="along each axis")
    parser.add_argument("--repeat", type=int, default=9, help="measurements of each")
    parser.add_argument("--steps", type=int, default=3, help="in a measurement")
    parser.add_argument("--report", action="store_true", help="print the compiler's report of SIMD")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    result = measure(options.cells, options.repeat, options.steps)
    print(result)
    print(f"  {load_line()}")
    if options.report:
        flow = problem(16)
        flow.step(0.1 * flow.stable_dt())
        print(report(flow))
    return int(result.ratio > GATE or not result.difference < 1e-11)


if __name__ == "__main__":
    sys.exit(main())
