"""A run with checkpoints that is killed and started again: `program.py FOLDER RESULT [OPTION=...]`.

Two arrays, one on faces, advance by a scheme whose every step depends on all bits of the one
before. Started again, it goes on from the newest checkpoint. At the end the state goes to RESULT, a
NumPy file outside of the folder. Each line of the file RESULT.log is one thing that happened:

    found STEP      (or none)      the checkpoint it goes on from
    saved STEP                     `save` has returned and said that it wrote
    step STEP                      every step
    closed                         the checkpointer

Options: ranks and cells of the grid; steps; every, background, method of the checkpointer; and how
long to sleep: `pause` after each step, a minute on root after step `stuck`, and `after` the
checkpointer is closed; `late=yes`: it is closed once a signal has come.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

import distarray as da
from distarray.io import preemption

STEPS = 24


@da.stencil
def advance(u, v, new_u, new_v, *, dt):
    new_u[0, 0] = u[0, 0] + dt * (v[1, 0] - v[0, 0]) + dt * dt * (u[0, 1] - 2 * u[0, 0] + u[0, -1])
    new_v[0, 0] = v[0, 0] + dt * (u[0, 0] - u[-1, 0])


def start(grid: da.Grid) -> dict[str, da.DistArray]:
    """The state at the beginning."""
    wall = {"y": da.Dirichlet(0.25)}
    u = grid.from_function(lambda x, y: np.sin(2 * np.pi * x) + y * y, boundary=wall)
    v = grid.from_function(lambda x, y: np.cos(2 * np.pi * x) * y, location="x")
    return {"u": u, "v": v}


def note(log: int, text: str) -> None:
    """One line, written at once."""
    if log:
        os.write(log, f"{text}\n".encode())


def main(folder: str, result: str, *options: str) -> None:
    """Run to the end."""
    chosen = dict(option.split("=") for option in options)
    ranks = tuple(map(int, chosen.get("ranks", "0,0").split(",")))
    cells = tuple(map(int, chosen.get("cells", "24,18").split(",")))
    steps, pause = int(chosen.get("steps", STEPS)), float(chosen.get("pause", 0))
    stuck, after = (float(chosen.get(name, 0)) for name in ("stuck", "after"))
    grid = da.Grid(cells, periodic=(True, False), ranks=ranks)
    log = 0
    if grid.is_root:
        log = os.open(f"{result}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    checkpoints = da.Checkpointer(
        folder,
        every=int(chosen.get("every", 4)),
        background=chosen.get("background") == "yes",
        method=chosen.get("method"),
    )
    found = checkpoints.latest(grid)
    state = found.arrays if found else start(grid)
    step = int(found.step or 0) if found else 0
    note(log, f"found {step}" if found else "none")
    u, v = state["u"], state["v"]
    new_u, new_v = u.copy(), v.copy()
    while step < steps:
        advance(u, v, new_u, new_v, dt=0.1)
        u, v, new_u, new_v = new_u, new_v, u, v
        step += 1
        if checkpoints.save({"u": u, "v": v}, step=step, time=0.1 * step):
            note(log, f"saved {step}")
        note(log, f"step {step}")
        time.sleep(60.0 if grid.is_root and step == stuck else pause)
    while chosen.get("late") == "yes" and not preemption.noted():
        time.sleep(0.01)
    checkpoints.close()
    note(log, "closed")
    time.sleep(after)
    final = [u.gather(), v.gather()]
    if grid.is_root:
        np.savez(f"{result}.partial.npz", *final)
        os.replace(f"{result}.partial.npz", result)


if __name__ == "__main__":
    main(*sys.argv[1:])
