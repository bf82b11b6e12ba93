"""Measures steps and solutions of the solvers beside C written by hand, in one run and in turn, on
one core: `python -m solvers bench`.

Names of parts, such as `bench euler lbm`, leave out the others. Beside `multigrid` and the direct
solution there is no loop; the second is printed beside the first. `solvers.euler.bench`,
`solvers.lbm.bench`, `solvers.multigrid.bench` and `solvers.fft_poisson.bench` say more, each alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import distarray as da
from solvers.by_hand import compiled, load_line, unwritable
from solvers.diffusion import DiffusionConfig, DiffusionSolver
from solvers.euler import bench as euler_bench
from solvers.fft_poisson import FFTPoisson
from solvers.lbm import bench as lbm_bench
from solvers.multigrid import Multigrid
from solvers.wave import WaveConfig, WaveSolver

_HEAD = f"{'what':<44}{'median':>12}{'beside':>12}{'ratio':>8}{'gate':>7}"


@dataclass(frozen=True)
class Row:
    """One line of the table: medians in seconds, and the largest ratio that is accepted.

    Attributes
    ----------
    part, name : str
    seconds, reference : float
    gate : float or None
    difference : float
        The largest of what both computed, relative to the largest value; nan if not compared.
    """

    part: str
    name: str
    seconds: float
    reference: float
    gate: float | None = None
    difference: float = float("nan")

    @property
    def ratio(self) -> float:
        return self.seconds / self.reference

    @property
    def missed(self) -> bool:
        return self.gate is not None and self.ratio > self.gate

    def __str__(self) -> str:
        kept = "" if self.gate is None else f"{self.gate:>7}{'  MISSED' if self.missed else '  ok'}"
        times = f"{1e3 * self.seconds:>9.3f} ms{1e3 * self.reference:>9.3f} ms"
        return f"{self.name:<44}{times}{self.ratio:>8.3f}{kept}"


@dataclass(frozen=True)
class Sizes:
    """Cells along each axis of each part, and repetitions."""

    euler: int = 512
    lbm: int = 96
    diffusion: int = 192
    wave: int = 192
    poisson: int = 96
    repeat: int = 7


QUICK = Sizes(euler=16, lbm=8, diffusion=12, wave=12, poisson=16, repeat=1)


def _in_turn(repeat: int, *acts: Callable[[], object]) -> list[float]:
    """The median time of each, after one round to warm up."""
    times: list[list[float]] = [[] for _ in acts]
    for round_ in range(repeat + 1):
        for act, found in zip(acts, times, strict=True):
            began = time.perf_counter()
            act()
            if round_:
                found.append(time.perf_counter() - began)
    return [statistics.median(found) for found in times]


class ByHand:
    """Steps of `bench.c` from two states, the older one last."""

    def __init__(self, name: str, width: int, states: Sequence[Any], factor: float) -> None:
        text = resources.files("solvers").joinpath("bench.c").read_text("utf-8")
        pointer, index, number = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
        self._function = compiled(text, name, pointer, pointer, index, number)
        self._inside, self._factor = (slice(width, -width),) * 3, factor
        self._cells = len(states[0])
        self._states = [np.pad(state, width) for state in states]

    def step(self) -> None:
        """Advance by a step."""
        new, old = self._states
        self._function(new.ctypes.data, old.ctypes.data, self._cells, self._factor)
        self._states.reverse()

    def difference(self, found: Any) -> float:
        """The largest from what a solver found, relative to the largest value."""
        mine = self._states[0][self._inside]
        return float(np.max(abs(mine - found)) / np.max(abs(found)))


def _bump(x: Any, y: Any, z: Any) -> Any:
    return np.exp(-30.0 * ((x - 0.5) ** 2 + (y - 0.4) ** 2 + (z - 0.6) ** 2))


def diffusion(sizes: Sizes) -> Iterator[Row]:
    """Explicit steps."""
    n = sizes.diffusion
    config = DiffusionConfig(cells=(n,) * 3, periodic=True, initial=_bump)
    solver = DiffusionSolver(config, device="cpu")
    dt = solver.stable_dt()
    start = np.asarray(solver.fields["u"].gather())
    beside = ByHand("diffusion_step", 1, [start, start], dt * n * n)
    ours, loop = _in_turn(sizes.repeat, lambda: solver.step(dt), beside.step)
    difference = beside.difference(solver.fields["u"].gather())
    yield Row("diffusion", f"diffusion {n}^3, explicit step", ours, loop, None, difference)


def wave(sizes: Sizes) -> Iterator[Row]:
    """Leap-frog steps of order 8 in space."""
    n = sizes.wave
    solver = WaveSolver(WaveConfig(cells=(n,) * 3, periodic=True, initial=_bump), device="cpu")
    dt = solver.stable_dt()
    solver.step(dt)  # the first one has no older state
    states = [np.asarray(solver.fields[name].gather()) for name in ("p", "old")]
    beside = ByHand("wave_step", 4, states, (dt * n) ** 2)
    ours, loop = _in_turn(sizes.repeat, lambda: solver.step(dt), beside.step)
    difference = beside.difference(solver.fields["p"].gather())
    yield Row("wave", f"wave {n}^3, order 8, leap-frog step", ours, loop, None, difference)


def euler(sizes: Sizes) -> Iterator[Row]:
    """Steps of compressible flow."""
    found = euler_bench.measure(sizes.euler, sizes.repeat, 1)
    name = f"Euler {found.cells}^2, MUSCL-HLLC, step of SSP-RK2"
    yield Row("euler", name, found.library, found.by_hand, euler_bench.GATE, found.difference)


def lbm(sizes: Sizes) -> Iterator[Row]:
    """Steps of the lattice Boltzmann method; the same bits are demanded."""
    for row in lbm_bench.rows([sizes.lbm], repeat=sizes.repeat, steps=4):
        name = f"D3Q19 {row.cells}^3, {row.dtype}, step"
        difference = 0.0 if row.same_bits else float("inf")
        yield Row("lbm", name, row.step, row.loop, lbm_bench.GATE, difference)


def poisson(sizes: Sizes) -> Iterator[Row]:
    """Multigrid to a residual of 1e-8 beside the direct solution."""
    n = sizes.poisson
    grid = da.Grid((n,) * 3, device="cpu")
    rhs, out = da.random.normal(grid, seed=1), grid.zeros()
    direct = FFTPoisson(grid, dict.fromkeys(grid.axes, da.Dirichlet(0.0)))
    cycles = Multigrid(direct.operator)
    found = [out]

    def solve() -> None:
        found[0] = cycles.solve(rhs, rtol=1e-8).x

    ours, other = _in_turn(sizes.repeat, solve, lambda: direct.solve_into(rhs, out))
    exact = np.asarray(out.gather())
    difference = float(np.max(abs(np.asarray(found[0].gather()) - exact)) / np.max(abs(exact)))
    name = f"Poisson {n}^3, multigrid, beside FFT"
    yield Row("poisson", name, ours, other, None, difference)


PARTS: dict[str, Callable[[Sizes], Iterator[Row]]] = {
    "diffusion": diffusion,
    "wave": wave,
    "euler": euler,
    "lbm": lbm,
    "poisson": poisson,
}

#: Largest relative difference that is accepted; the tolerance of multigrid for `poisson`.
SAME = {"poisson": 1e-6}
ROUND_OFF = 1e-11


def wrong(row: Row) -> bool:
    """Whether both sides computed different things. Local."""
    return not row.difference <= SAME.get(row.part, ROUND_OFF)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a gate was missed or the numbers differ. Local: for one rank."""
    parser = argparse.ArgumentParser(prog="python -m solvers bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="measurements of each")
    parser.add_argument("--quick", action="store_true", help="small sizes and no gates")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]} is no part; use {', '.join(PARTS)}")
    if options.repeat is not None and options.repeat < 1:
        parser.error(f"--repeat must be at least 1, not {options.repeat}")
    reason = options.json and unwritable(options.json)
    if reason:
        parser.error(f"the file {options.json} cannot be written: {reason}; give --json another")
    sizes = QUICK if options.quick else Sizes()
    if options.repeat is not None:
        sizes = Sizes(**(asdict(sizes) | {"repeat": options.repeat}))
    rows = _measured(options.parts or list(PARTS), sizes, gates=not options.quick)
    load = load_line()
    print(load)
    if options.json is not None:
        known = {"rows": [asdict(row) | {"ratio": row.ratio} for row in rows], "load": load}
        try:
            options.json.write_text(json.dumps(known, indent=1) + "\n")
        except OSError as error:  # such as a disk that is full by now
            said = f"the file {options.json} was not written: {error.strerror}; free some space"
            print(f"python -m solvers bench: {said}", file=sys.stderr)
            return 1
    return int(any(row.missed or wrong(row) for row in rows))


def _measured(parts: Sequence[str], sizes: Sizes, *, gates: bool) -> list[Row]:
    """The rows, each shown as it is known, on one core."""
    os.environ["OMP_NUM_THREADS"] = "1"
    pinned = hasattr(os, "sched_setaffinity")
    cores = os.sched_getaffinity(0) if pinned else set()
    if pinned:
        os.sched_setaffinity(0, {min(cores)})
    rows = []
    try:
        print(_HEAD, flush=True)
        for part in parts:
            for row in PARTS[part](sizes):
                known = row if gates else Row(**(asdict(row) | {"gate": None}))
                print(f"{known}{'  NUMBERS DIFFER' if wrong(known) else ''}", flush=True)
                rows.append(known)
    finally:
        if pinned:
            os.sched_setaffinity(0, cores)
    return rows


if __name__ == "__main__":
    sys.exit(main())
