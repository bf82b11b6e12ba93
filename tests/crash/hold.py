"""How long checkpoints hold a run: `mpirun -n 2 python -m tests.crash.hold FOLDER [CELLS]`.

A state of one array of CELLS^3 doubles (256) is written in the foreground and in the background,
into FOLDER, which should lie on the disk in question. Times are seconds, of the slowest rank:

    copy          the owned values copied into memory that was there before: what a run must wait
    foreground    `save` until the file is in place
    background    the call of `save` that begins a checkpoint
    later calls   all calls of `save` after it until the file is in place, together (each finds
                  that threads are at work, or takes a step that ranks take together)
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import distarray as da

REPEATS = 3


def seconds(grid: da.Grid, call: Callable[[], object]) -> float:
    """The time of a call on the slowest rank."""
    grid.communicator.barrier()
    start = time.perf_counter()
    call()
    return float(grid.communicator.allreduce(np.array([time.perf_counter() - start]), "max")[0])


def background(grid: da.Grid, folder: Path, u: da.DistArray) -> tuple[float, float]:
    """The time of the call that begins, and of all later ones, of the best repeat."""
    times = []
    with da.Checkpointer(folder, every=1000, background=True) as checkpoints:
        for step in range(1000, 1000 * (REPEATS + 2), 1000):
            begun = seconds(grid, lambda step=step: checkpoints.save({"u": u}, step=step))
            later, n = 0.0, 0
            while not grid.communicator.bcast((folder / f"checkpoint_{step:010d}.h5").exists()):
                n += 1
                time.sleep(0.01)
                later += seconds(
                    grid, lambda step=step, n=n: checkpoints.save({"u": u}, step=step + n % 999)
                )
            times.append((begun, later))
    return min(times[1:])  # the first takes memory for its copy


def main(name: str, cells: str = "256") -> None:
    """Print the table."""
    grid = da.Grid((int(cells),) * 3)
    u = grid.from_function(lambda x, y, z: x + 2 * y + 3 * z)
    folder, target = Path(name) / "hold", np.empty(u.local_shape)
    copy = min(seconds(grid, lambda: np.copyto(target, u.local)) for _ in range(REPEATS + 1))
    with da.Checkpointer(folder / "foreground", every=1) as checkpoints:
        whole = min(
            seconds(grid, lambda step=step: checkpoints.save({"u": u}, step=step))
            for step in range(REPEATS)
        )
    begun, later = background(grid, folder / "background", u)
    da.log(f"{u.nbytes / 2**20:.0f} MiB on {grid.size} ranks")
    for what, value in (
        ("copy", copy), ("foreground", whole), ("background", begun), ("later calls", later),
    ):  # fmt: skip
        da.log(f"{what:12s} {value:8.4f} s")
    if grid.is_root:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
