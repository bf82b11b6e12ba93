"""Measures the package beside a hand-written loop, in one run, and prints the ratios.

Rows name what is timed, its median, the median of what it is measured against, and their ratio with
the gate that it should keep. The two are timed in turn, so that other programs on the machine slow
both. Started alone it measures one rank, then starts two with mpirun; started by mpirun it measures
the ranks of that job.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm import Communicator, SerialCommunicator, default
from distarray.errors import BackendError, CommunicationError
from distarray.grid import Grid
from distarray.iterate import iterate
from distarray.kernels.apply import stencil
from distarray.launcher import child_environment, mpirun

#: The loop that the package is measured against: a 7-point step on a cube with a periodic layer,
#: filled in place first.
LOOP = r"""
#include <stddef.h>
#include <string.h>

static void fill_layers(double *u, ptrdiff_t n) {
  const ptrdiff_t row = n, plane = n * n;
  memcpy(u, u + (n - 2) * plane, plane * sizeof *u);
  memcpy(u + (n - 1) * plane, u + plane, plane * sizeof *u);
  for (ptrdiff_t i = 0; i < n; i++) {
    double *p = u + i * plane;
    memcpy(p, p + (n - 2) * row, row * sizeof *p);
    memcpy(p + (n - 1) * row, p + row, row * sizeof *p);
    for (ptrdiff_t j = 0; j < n; j++) {
      p[j * row] = p[j * row + n - 2];
      p[j * row + n - 1] = p[j * row + 1];
    }
  }
}

void heat_step(double *restrict u, double *restrict v, ptrdiff_t n, double r) {
  const ptrdiff_t row = n, plane = n * n;
  fill_layers(u, n);
  for (ptrdiff_t i = 1; i < n - 1; i++)
    for (ptrdiff_t j = 1; j < n - 1; j++) {
      const double *restrict p = u + i * plane + j * row;
      double *restrict q = v + i * plane + j * row;
#pragma GCC ivdep
      for (ptrdiff_t k = 1; k < n - 1; k++)
        q[k] = p[k] + r * (p[k + plane] + p[k - plane] + p[k + row] + p[k - row]
                           + p[k + 1] + p[k - 1] - 6 * p[k]);
    }
}
"""


@stencil
def diffuse(u: Any, new: Any, *, r: Any) -> None:
    """One explicit step of the heat equation."""
    new[0, 0, 0] = u[0, 0, 0] + r * (
        u[1, 0, 0]
        + u[-1, 0, 0]
        + u[0, 1, 0]
        + u[0, -1, 0]
        + u[0, 0, 1]
        + u[0, 0, -1]
        - 6.0 * u[0, 0, 0]
    )


@dataclass(frozen=True)
class Row:
    """One line of the table: medians in seconds, and the largest ratio or time accepted."""

    name: str
    ranks: int
    seconds: float
    reference: float | None
    gate: float

    @property
    def figure(self) -> float:
        """What the gate is for: the ratio, or the time where nothing stands beside it."""
        return self.seconds if self.reference is None else self.seconds / self.reference

    def __str__(self) -> str:
        kept = "ok" if self.figure <= self.gate else "MISSED"
        line = f"{self.name:<46}{self.ranks:>3}{_time(self.seconds):>12}"
        if self.reference is None:
            return f"{line}{'':>24}{_time(self.gate):>12}  {kept}"
        return f"{line}{_time(self.reference):>12}{self.figure:>12.3f}{self.gate:>12.2f}  {kept}"


#: Cells along each axis of the large cubes that the gates are meant for.
GATE_CELLS = 256
_HEAD = f"{'what':<46}{'on':>3}{'median':>12}{'beside':>12}{'ratio':>12}{'gate':>12}"


def _time(seconds: float) -> str:
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * scale:.3g} {unit}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--cells", type=int, default=GATE_CELLS, help="cells along each axis of the large cubes"
    )
    parser.add_argument(
        "--repeat", type=int, default=7, help="measurements of each, of which the median is taken"
    )
    parser.add_argument(
        "--files", metavar="FOLDER", help="measure files in this folder instead (see bench_files)"
    )
    parser.add_argument(
        "--mebibytes", type=int, default=256, help="size of these files; the gates are for 2048"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")


def run(options: argparse.Namespace) -> int:
    """Print the table; 1 if a gate was missed. Collective under a launcher."""
    for name in ("cells", "repeat", "mebibytes"):
        if getattr(options, name) < 1:
            print(f"--{name} must be at least 1, not {getattr(options, name)}.", file=sys.stderr)
            return 2
    if options.files is not None:
        from distarray import bench_files

        return bench_files.run(options)
    communicator = default()
    load = _load()
    with _pinned(communicator.rank):
        several = communicator.size > 1
        rows = _rank_rows(communicator, options) if several else _single_rows(options)
    if not several:
        # The ranks started here inherit the cores of this process, so it is free again.
        rows += _started(options)
    if communicator.rank == 0:
        _show(rows, options.json)
        for remark in remarks(options.cells, load, _load()):
            print(remark)
    return int(any(row.figure > row.gate for row in rows))


def _show(rows: Sequence[Row], path: Path | None) -> None:
    print("\n".join([_HEAD, *map(str, rows)]))
    if path is not None:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def _load() -> float | None:
    """The load average of the last minute, where the system tells it. Local."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # a system without it, or one that hides it
        return None


def remarks(cells: int, start: float | None, end: float | None) -> list[str]:
    """What to know of the table: how busy the machine was at its start and end, and what the gates
    are meant for. Local.
    """
    lines, cores = [], os.cpu_count() or 1
    if start is not None and end is not None:
        lines.append(f"load average {start:.2f} at the start, {end:.2f} at the end, {cores} cores")
        if max(start, end) > cores:
            lines.append("More programs ran than there are cores; repeat on an idle machine.")
    if cells != GATE_CELLS:
        lines.append(f"The gates are meant for --cells {GATE_CELLS}, not {cells}.")
    return lines


@contextmanager
def _pinned(rank: int) -> Iterator[None]:
    """Keep this process on one core, where the system lets it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _medians(
    repeat: int, *actions: Callable[[], None], before: Callable[[], None] | None = None
) -> list[float]:
    """The median time of each action, timed in turn after one call of each to warm up."""
    times: list[list[float]] = [[] for _ in actions]
    for round_ in range(repeat + 1):
        for action, found in zip(actions, times, strict=True):
            if before is not None:
                before()
            began = time.perf_counter()
            action()
            if round_:
                found.append(time.perf_counter() - began)
    return [statistics.median(found) for found in times]


def _heat(cells: Sequence[int], communicator: Communicator) -> tuple[DistArray, DistArray]:
    grid = Grid(cells, periodic=True, comm=communicator)
    u = grid.from_function(lambda x, y, z: np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y) + 0 * z)
    return u, grid.empty_like(u)


def _stepped(u: DistArray, new: DistArray, steps: int) -> Callable[[], None]:
    def act() -> None:
        iterate(diffuse, u, new, steps=steps, tile=1, r=0.1)

    return act


def _called(u: DistArray, new: DistArray, pairs: int) -> Callable[[], None]:
    def act() -> None:
        for _ in range(pairs):
            diffuse(u, new, r=0.1)
            diffuse(new, u, r=0.1)

    return act


def _looped(cells: int, steps: int) -> Callable[[], None]:
    """Steps of the hand-written loop."""
    backend = Grid((1,), comm=SerialCommunicator()).backend
    function = backend.load(LOOP, "heat_step", fast=True)
    if function is None:
        raise BackendError(
            "bench needs a C compiler for the loop it measures against; install gcc or clang."
        )
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double]
    function.restype = None
    state = [np.random.default_rng(0).random((cells + 2,) * 3) for _ in range(2)]

    def act() -> None:
        for _ in range(steps):
            function(state[0].ctypes.data, state[1].ctypes.data, cells + 2, 0.1)
            state.reverse()

    return act


def _single_rows(options: argparse.Namespace) -> list[Row]:
    """What one rank measures."""
    alone, cells, steps = SerialCommunicator(), options.cells, 10
    ours, loop = _medians(
        options.repeat, _stepped(*_heat((cells,) * 3, alone), steps), _looped(cells, steps)
    )
    rows = [
        Row(f"diffuse {cells}^3 by iterate, beside a C loop", 1, ours / steps, loop / steps, 1.08)
    ]
    (call,) = _medians(options.repeat, _called(*_heat((16,) * 3, alone), 500))
    rows.append(Row("kernel(u, new, r=0.1) at 16^3, periodic", 1, call / 1000, None, 40e-6))
    plain, loaded = _medians(
        options.repeat, lambda: _python("pass"), lambda: _python("import distarray")
    )
    rows.append(Row("import distarray, over plain Python", 1, loaded - plain, None, 0.35))
    return rows


def _python(text: str) -> None:
    subprocess.run([sys.executable, "-c", text], check=True, env=child_environment())


def _rank_rows(communicator: Communicator, options: argparse.Namespace) -> list[Row]:
    """What several ranks measure: together, and each for itself at the same time."""
    cells, steps, size = options.cells, 10, communicator.size
    together = _stepped(*_heat((cells * size, cells, cells), communicator), steps)
    alone = _stepped(*_heat((cells,) * 3, SerialCommunicator()), steps)
    ours, own = _medians(options.repeat, together, alone, before=communicator.barrier)
    mean = float(communicator.allreduce(np.array([own]), "sum")[0]) / size
    slowest = float(communicator.allreduce(np.array([ours]), "max")[0])
    name = f"{size} x {cells}^3 by iterate, beside {size} single runs"
    rows = [Row(name, size, slowest / steps, mean / steps, 1.08)]
    (call,) = _medians(
        options.repeat, _called(*_heat((16,) * 3, communicator), 500), before=communicator.barrier
    )
    call = float(communicator.allreduce(np.array([call]), "max")[0])
    rows.append(Row("kernel(u, new, r=0.1) at 16^3, periodic", size, call / 1000, None, 100e-6))
    return rows


def _started(options: argparse.Namespace) -> list[Row]:
    """The rows of two ranks, started by the mpirun beside this Python or on the path."""
    launcher = mpirun()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [launcher, "-n", "2", sys.executable, "-m", "distarray", "bench"]
        command += [
            "--cells",
            str(options.cells),
            "--repeat",
            str(options.repeat),
            "--json",
            str(path),
        ]
        try:
            done = subprocess.run(
                command, env=child_environment(), capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise CommunicationError(
                f"bench cannot start two ranks with {launcher} ({error}); "
                "install the extra mpi (in a clone: pip install '.[mpi]')."
            ) from None
        if not path.exists():
            raise CommunicationError(
                f"bench started two ranks with {launcher}, which failed; python -m distarray "
                f"doctor says more.\n{done.stderr}"
            )
        return [Row(**row) for row in json.loads(path.read_text())]
