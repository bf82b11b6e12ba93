"""A rank that fails ends all ranks and says why, once; each job here is a script under mpirun."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness import RanksResult, run_ranks, run_serial

#: Everyone works on for ever, unless ended.
WORK = """
import os, signal, sys, time
import numpy as np
from distarray import comm
from distarray.errors import DecompositionError
world = comm.default()

def work(turns=100_000):
    for _ in range(turns):
        world.allreduce(np.ones(1), "sum")
        time.sleep(0.01)

work(5)
"""


def job(folder: Path, text: str, n: int = 3, **options) -> RanksResult:
    script = folder / "job.py"
    script.write_text(WORK + text)
    return run_ranks(script, n, check=False, timeout=120.0, **options)


def test_an_exception_on_one_rank_ends_all(tmp_path):
    result = job(tmp_path, "if world.rank == 1: raise ValueError('broken on purpose')\nwork()")
    assert result.returncode == 1
    assert "distarray: rank 1 of 3 failed, all ranks are ended.\nTraceback" in result.stderr
    assert result.stderr.count("ValueError: broken on purpose") == 1


def test_an_exception_on_all_ranks_is_printed_once(tmp_path):
    result = job(tmp_path, "raise DecompositionError('the same words on all ranks')")
    assert result.returncode == 1
    assert result.stderr.count("DecompositionError: the same words on all ranks") == 1
    assert "distarray: rank 0 of 3 failed" in result.stderr


def test_an_agreed_error_is_printed_once(tmp_path):
    text = "world.agree(DecompositionError('mine alone') if world.rank == 2 else None)"
    result = job(tmp_path, text)
    assert result.returncode == 1
    assert result.stderr.count("DecompositionError: mine alone") == 1


def test_sys_exit_on_one_rank_ends_all_with_its_code(tmp_path):
    result = job(tmp_path, "if world.rank == 2: sys.exit(3)\nwork()")
    assert result.returncode == 3
    assert "distarray: rank 2 of 3 failed, all ranks are ended." in result.stderr
    assert "sys.exit(3) was called here:" in result.stderr
    assert "if world.rank == 2: sys.exit(3)" in result.stderr


def test_sys_exit_with_a_message_ends_all(tmp_path):
    result = job(tmp_path, "if world.rank == 0: sys.exit('no more')\nwork()")
    assert result.returncode == 1
    assert "sys.exit('no more') was called here:" in result.stderr


@pytest.mark.slow
def test_sys_exit_of_a_main_function_ends_all(tmp_path):
    text = "def main():\n    if world.rank == 1: return 4\n    work()\nsys.exit(main())"
    assert job(tmp_path, text).returncode == 4


def test_a_keyboard_interrupt_on_one_rank_ends_all(tmp_path):
    text = "if world.rank == 1: os.kill(os.getpid(), signal.SIGINT)\nwork()"
    result = job(tmp_path, text)
    assert result.returncode != 0
    assert "distarray: rank 1 of 3 failed, all ranks are ended." in result.stderr
    assert "KeyboardInterrupt" in result.stderr


def test_a_killed_rank_ends_the_job_within_ten_seconds(tmp_path):
    text = """
if world.rank == 1:
    print("killed at", time.time(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
work()
"""
    begun = time.time()
    result = job(tmp_path, text)
    ended = time.time()
    assert result.returncode != 0
    killed = float(result.stdout.split("killed at")[1].split()[0])
    assert ended - killed < 10.0 + 3.0 * (killed - begun)  # a busy machine is slow in both


@pytest.mark.parametrize(
    "text",
    [
        "sys.exit(0)",
        "try: sys.exit(3)\nexcept SystemExit: pass",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in (
                "sys.exit()",
                "raise SystemExit",
                "try: sys.exit(3)\nexcept SystemExit: pass\nsys.exit(0)",
                "try: raise ValueError\nexcept ValueError: pass",
            )
        ),
    ],
)
def test_programs_that_end_well_end_with_code_0(tmp_path, text):
    result = job(tmp_path, text, n=2)
    assert result.returncode == 0, result.report()
    assert "failed" not in result.stderr


def test_output_before_a_failure_is_kept(tmp_path):
    result = job(tmp_path, "if world.rank == 0: sys.stdout.write('words'); sys.exit(2)\nwork()")
    assert "words" in result.stdout


def test_a_forked_child_is_no_rank(tmp_path):
    text = """
child = os.fork()
if child == 0:
    sys.excepthook(ValueError, ValueError("in a child"), None)
    os._exit(1)
_, status = os.waitpid(child, 0)
world.barrier()
print(f"children ended with {os.waitstatus_to_exitcode(status)}")
"""
    result = job(tmp_path, text, n=2)
    assert "all ranks are ended" not in result.stderr
    assert result.stdout.count("children ended with 1") == 2


def test_a_single_process_fails_as_python_does(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(WORK + "raise ValueError('alone')")
    result = run_serial(script, check=False)
    assert result.returncode == 1
    assert "distarray: rank" not in result.stderr
    assert "ValueError: alone" in result.stderr


#: Rank 1 fails before any grid; the others wait for it, with MPI initialised by whom it says.
EARLY = """
import os, sys, time
import distarray as da
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
"""


@pytest.mark.parametrize(
    "first", ["", pytest.param("from mpi4py import MPI\n", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("failing", "code", "words"),
    [
        ("raise ValueError('early')", 1, "ValueError: early"),
        ("sys.exit(5)", 5, "sys.exit(5) was called here:"),
        pytest.param("exit(5)", 5, "rank == 1: exit(5)", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_fails_before_its_first_grid_ends_all(tmp_path, first, failing, code, words):
    script = tmp_path / "job.py"
    script.write_text(f"{first}{EARLY}if rank == 1: {failing}\nda.Grid((6, 6))\ntime.sleep(90)")
    result = run_ranks(script, 3, check=False, timeout=60.0)
    assert result.returncode == code, result.report()
    assert "distarray: rank 1 of 3 failed, all ranks are ended." in result.stderr
    assert words in result.stderr


def test_independent_processes_fail_alone(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(EARLY + "print(sys.excepthook is sys.__excepthook__)")
    result = run_ranks(script, 2, env={"DISTARRAY_COMM": "serial"})
    assert result.stdout.split() == ["True"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["exit(3)", "quit(3)"])
def test_exit_and_quit_on_one_rank_end_all_with_their_code(tmp_path, leave):
    result = job(tmp_path, f"if world.rank == 2: {leave}\nwork()")
    assert result.returncode == 3
    assert "distarray: rank 2 of 3 failed, all ranks are ended." in result.stderr
    assert f"if world.rank == 2: {leave}" in result.stderr


def test_ranks_that_wait_too_long_are_ended_and_the_one_with_a_reason_is_heard(tmp_path):
    text = """
from distarray.comm import failure
with failure.deadline("The ranks meet", 1.0) as reasons:
    if world.rank == 1:
        reasons.append("ValueError: no memory on purpose")
        world.barrier()
    time.sleep(600)  # as another library waits
"""
    result = job(tmp_path, text)
    assert result.returncode == 1
    assert (
        "distarray: rank 1 of 3 waits too long: The ranks meet, which has not ended after 1 s.\n"
        "ValueError: no memory on purpose\nIt is here:\n"
    ) in result.stderr, result.report()
    assert "world.barrier()" in result.stderr


def test_what_ends_in_time_is_not_ended_later(tmp_path):
    text = """
from distarray.comm import failure
with failure.deadline("The ranks meet", 1.0):
    world.barrier()
time.sleep(1.5)
world.barrier()
"""
    result = job(tmp_path, text)
    assert result.returncode == 0, result.report()


def test_a_rank_that_cannot_connect_nccl_is_heard_though_the_others_wait_in_the_library(tmp_path):
    text = """
from distarray.comm import nccl
nccl.MOST_SECONDS = 1.0

class Binding:
    def unique_id(self):
        return b"name"

    def connect(self, size, identity, rank, communicator):
        if rank == 1:
            raise RuntimeError("no memory on purpose")
        time.sleep(600)

nccl.connect(Binding(), world)
"""
    result = job(tmp_path, text)
    assert result.returncode == 1
    assert "NCCL cannot connect the ranks (RuntimeError: no memory on purpose)" in result.stderr


@pytest.mark.parametrize(("code", "expected"), [("sys.exit(3)", 3), ("pass", 0)])
def test_groups_of_nccl_are_left_at_the_end_but_not_waited_for_by_a_rank_that_fails(
    tmp_path, code, expected
):
    text = f"""
import distarray as da
from distarray.backends.simulated import nccl
left = nccl.StandInRanks.destroy
nccl.StandInRanks.destroy = lambda ranks: (left(ranks), print("a group is left", flush=True))
grid = da.Grid((8, 8), periodic=True, device="simulated", transport="nccl")
kept = da.zeros((8, 8), device="simulated", transport="nccl")
if world.rank == 2:
    {code}
world.barrier()
"""
    result = job(tmp_path, text)
    assert result.returncode == expected, result.report()
    assert result.stdout.count("a group is left") == (0 if expected else 3)
