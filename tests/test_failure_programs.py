"""Programs whose own functions fail on one rank: the job ends within ten seconds and says why."""

from __future__ import annotations

import time
from pathlib import Path

from tests import devices
from tests.harness import RanksResult, run_ranks

#: A time loop, with what each test makes of it.
PROGRAM = """
import os, signal, sys, time
import numpy as np
import distarray as da

grid = da.Grid((24, 8), ranks=(3, 1))
rank = grid.rank

@da.stencil
def diffuse(u, new, *, r=0.1):
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0])

def mark():
    print("failed at", time.time(), flush=True)

def run(callback=None, **options):
    u = grid.from_function(lambda x, y: x + y, **options)
    da.iterate(diffuse, u, grid.empty_like(u), steps=10**6, callback=callback, every=20)
"""

#: Seconds from the failure to the end of the job, besides what a busy machine takes.
LIMIT = 10.0


def job(folder: Path, text: str, **options) -> RanksResult:
    script = folder / "job.py"
    script.write_text(PROGRAM + text)
    begun = time.time()
    result = run_ranks(script, 3, check=False, timeout=120.0, **options)
    ended = time.time()
    failures = [line for line in result.stdout.splitlines() if line.startswith("failed at")]
    assert failures, result.report()
    failed = float(failures[0].split()[-1])
    assert ended - failed < LIMIT + 3.0 * (failed - begun), result.report()
    assert result.returncode != 0, result.report()
    return result


def test_a_callback_that_fails_on_one_rank(tmp_path):
    text = """
def callback(steps, time, arrays):
    if rank == 1 and steps == 40:
        mark()
        raise ValueError("in a callback")
run(callback)
"""
    result = job(tmp_path, text)
    assert "distarray: rank 1 of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert result.stderr.count("ValueError: in a callback") == 1


def test_a_rank_killed_in_the_middle_of_iterate(tmp_path):
    text = """
def callback(steps, time, arrays):
    if rank == 1 and steps == 40:
        mark()
        os.kill(os.getpid(), signal.SIGKILL)
run(callback)
"""
    job(tmp_path, text)


def test_an_interrupt_of_one_rank_in_the_middle_of_iterate(tmp_path):
    text = """
def callback(steps, time, arrays):
    if rank == 2 and steps == 40:
        mark()
        os.kill(os.getpid(), signal.SIGINT)
run(callback)
"""
    result = job(tmp_path, text)
    assert "distarray: rank 2 of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert "KeyboardInterrupt" in result.stderr


def test_an_exit_of_one_rank_in_the_middle_of_iterate(tmp_path):
    text = """
def callback(steps, time, arrays):
    if rank == 0 and steps == 40:
        mark()
        sys.exit(3)
run(callback)
"""
    result = job(tmp_path, text)
    assert result.returncode == 3
    assert "sys.exit(3) was called here:" in result.stderr


def test_a_boundary_function_of_the_wrong_shape_on_one_rank(tmp_path):
    text = """
def wall(t, x, y):
    mark()
    return np.zeros(5)
run(boundary={"x-": da.Dirichlet(wall)})
"""
    result = job(tmp_path, text)
    assert "distarray: rank 0 of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert "BoundaryError: The function of Dirichlet on x- returned shape (5,)" in result.stderr


def test_a_function_of_position_that_fails_on_one_rank_fails_on_all(tmp_path):
    text = """
def start(x, y):
    if rank == 2:
        mark()
        raise ValueError("at a point of mine")
    return x + y
grid.from_function(start)
"""
    result = job(tmp_path, text)
    assert "distarray: rank 0 of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert "It was raised on rank 2:" in result.stderr
    assert result.stderr.count("all ranks are ended") == 1


def test_a_compiler_that_fails_on_one_rank(tmp_path):
    """Each rank has a cache of its own, as on different nodes; the disk of one fills up."""
    for tool in ("cc", "c++"):
        compiler = tmp_path / f"full-{tool}"
        compiler.write_text(
            f'#!/bin/sh\ncase "$*" in *.trial-*) exec {tool} "$@";; esac\n'
            "echo 'error: no space left on device' >&2\nexit 1\n"
        )
        compiler.chmod(0o755)
    text = f"""
os.environ["DISTARRAY_CACHE"] = {str(tmp_path)!r} + f"/cache{{rank}}"
if rank == 1:
    os.environ["CC"], os.environ["CXX"] = {str(tmp_path / "full-cc")!r}, {str(compiler)!r}
    mark()
run()
"""
    result = job(tmp_path, text)
    # On a device all ranks agree on what was compiled, and rank 0 tells of the failure.
    first = "1" if devices.current() == "cpu" else "0"
    assert f"distarray: rank {first} of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert "no space left on device" in result.stderr


def test_bad_input_of_all_ranks_is_printed_once(tmp_path):
    result = job(tmp_path, "mark()\nrun(halo=-1)")
    assert result.returncode == 1
    assert result.stderr.count("GridError: Halo widths must be whole numbers from 0") == 1
