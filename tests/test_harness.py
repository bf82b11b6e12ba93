"""A job that hangs, fails on one rank or crashes ends soon, and says where."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import harness, test_ranks
from tests.harness import (
    RanksFailed,
    RanksResult,
    clean_environment,
    passed,
    ran,
    run_ranks,
    run_serial,
    run_test_files,
)
from tests.harness import run_test_file as run_file

HANG = """
from mpi4py import MPI
def test_one_rank_waits_for_ever():
    if MPI.COMM_WORLD.Get_rank() == 1:
        print("waits", flush=True) or MPI.COMM_WORLD.Recv(bytearray(1), source=0)
"""

ONE_RANK_FAILS = """
from mpi4py import MPI
def test_passes():
    pass
def test_one_rank_fails():
    if MPI.COMM_WORLD.Get_rank() == 1:
        raise ValueError("only here")
    MPI.COMM_WORLD.Barrier() if {others_wait} else None
def test_after():
    pass
"""

ALL_RANKS_FAIL = """
def test_fails():
    assert 1 + 1 == 3
def test_passes():
    pass
"""

CRASH = """
import ctypes, time
from mpi4py import MPI
def test_one_rank_crashes():
    if MPI.COMM_WORLD.Get_rank() == 1:
        ctypes.string_at(0)
    MPI.COMM_WORLD.Barrier()
"""

KILLED = """
import os, signal
from mpi4py import MPI
def test_one_rank_is_killed():
    if MPI.COMM_WORLD.Get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    MPI.COMM_WORLD.Barrier()
"""

WARNING = """
import warnings
def test_warns():
    warnings.warn("not expected")
"""


IMPORT_FAILS_ON_ONE_RANK = """
from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank() == 2:
    raise RuntimeError("cannot be imported")
def test_passes():
    MPI.COMM_WORLD.Barrier()
"""


def failure(folder: Path, text: str) -> RanksResult:
    file = folder / "ranks_case.py"
    file.write_text(text)
    with pytest.raises(RanksFailed) as caught:
        run_file(file, 3)
    return caught.value.result


def over_once(monkeypatch: pytest.MonkeyPatch, reached: Callable[[str], bool]) -> None:
    """Let the time of a job be over as soon as what it has printed says how far it came."""

    def wait(process: subprocess.Popen[bytes], output: Path, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not reached(output.read_text()) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(harness, "_wait", wait)


def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import time\ntime.sleep(600)\n")
    with pytest.raises(RanksFailed) as caught:
        run_serial(script, timeout=1)
    assert caught.value.result.timed_out


def test_hang_is_ended_with_the_stacks_of_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_once(monkeypatch, lambda printed: "waits" in printed)
    result = failure(tmp_path, HANG)
    assert result.timed_out
    assert all(f"rank {rank} (process" in result.stacks for rank in range(3))
    assert 'ranks_case.py", line 5 in test_one_rank_waits_for_ever' in result.stacks


def test_failure_on_one_rank_is_reported_with_its_traceback(tmp_path: Path) -> None:
    result = failure(tmp_path, ONE_RANK_FAILS.format(others_wait=False))
    assert "FAILED test_one_rank_fails on rank 1 of 3" in result.stderr
    assert "ValueError: only here" in result.stderr
    assert "1 passed, 1 failed, 3 found" in result.stdout


def test_failure_on_one_rank_ends_the_others_that_wait(tmp_path: Path) -> None:
    result = failure(tmp_path, ONE_RANK_FAILS.format(others_wait=True))
    assert not result.timed_out
    assert "rank 1 failed while other ranks wait for it" in result.stderr
    assert "ValueError: only here" in result.stderr
    assert "rank 0 (process" in result.stacks


def test_failure_on_all_ranks_is_reported_once_and_later_tests_run(tmp_path: Path) -> None:
    result = failure(tmp_path, ALL_RANKS_FAIL)
    assert result.stderr.count("AssertionError") == 1
    assert "FAILED test_fails on rank 0, 1, 2 of 3" in result.stderr
    assert "1 passed, 1 failed, 2 found" in result.stdout


@pytest.mark.parametrize("text", [CRASH, KILLED], ids=["crash", "killed"])
def test_end_of_one_rank_ends_the_job(tmp_path: Path, text: str) -> None:
    result = failure(tmp_path, text)
    assert not result.timed_out
    if text is CRASH:
        assert "Fatal Python error: Segmentation fault" in result.stacks
        assert "in test_one_rank_crashes" in result.stacks


def test_warning_is_a_failure(tmp_path: Path) -> None:
    assert "UserWarning: not expected" in failure(tmp_path, WARNING).stderr


def test_file_without_tests_fails(tmp_path: Path) -> None:
    assert "0 passed, 0 failed, 0 found" in failure(tmp_path, "").stdout


def test_names_choose_functions(tmp_path: Path) -> None:
    file = tmp_path / "ranks_case.py"
    file.write_text(ALL_RANKS_FAIL)
    assert "1 passed, 0 failed, 1 found" in run_file(file, 2, "passes").stdout


def test_files_of_one_job_run_up_to_the_first_that_fails(tmp_path: Path) -> None:
    texts = ["def test_a(): pass", ALL_RANKS_FAIL, "def test_b(): pass"]
    files = [tmp_path / f"ranks_{number}.py" for number in range(3)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    result = run_test_files(files, 2, timeout=60)
    assert [ran(result, file) for file in files] == [True, True, False]
    assert [passed(result, file) for file in files] == [True, False, False]
    assert result.returncode == 1
    assert run_test_files(files[::2], 2, timeout=60).returncode == 0


@pytest.mark.slow
def test_each_file_of_a_job_has_its_time(tmp_path: Path) -> None:
    waits = "import time\ndef test_waits(): time.sleep(16)"

    files = [tmp_path / f"ranks_{name}.py" for name in "abc"]
    for file, text in zip(files, (waits, waits, HANG), strict=True):
        file.write_text(text)
    result = run_test_files(files, 2, timeout=30)
    assert [passed(result, file) for file in files] == [True, True, False]
    assert result.timed_out
    assert "ranks_c.py" in result.stacks


def test_scripts_run_as_python_would_run_them(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("value = 3\n")
    script.write_text(
        "import os, sys, beside\n"
        "print(__name__, sys.argv[1:], beside.value, end=' ')\n"
        "print(os.environ.get('ADDED'), os.environ.get('USER'))\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    result = run_serial(script, args=["7"], env={"ADDED": "x", "USER": None}, check=False)
    assert (result.returncode, result.stdout) == (7, "__main__ ['7'] 3 x None\n")
    assert run_ranks(script, 2, args=["0"]).stdout.count("__main__ ['0'] 3") == 2


def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over_once(monkeypatch, lambda printed: len(printed.split()) == 2)
    script = tmp_path / "program.py"
    script.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(RanksFailed) as caught:
        run_ranks(script, 2)
    numbers = [int(number) for number in caught.value.result.stdout.split()]
    assert len(numbers) == 2
    for number in numbers:
        assert ended(number)


def ended(number: int) -> bool:
    """Whether a process is gone within a minute, by which the machine may be busy."""
    for _ in range(1200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_launcher_variables_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PRTE_LAUNCHED"):
        monkeypatch.setenv(name, "1")
        assert name not in clean_environment()


def test_import_that_fails_on_one_rank_is_a_failure(tmp_path: Path) -> None:
    result = failure(tmp_path, IMPORT_FAILS_ON_ONE_RANK)
    assert not result.timed_out
    assert "on rank 2 of 3" in result.stderr
    assert "RuntimeError: cannot be imported" in result.stderr


def test_files_that_a_job_did_not_reach_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five files the second fails, and the last wants a job of its own."""
    files = [tmp_path / f"ranks_{name}.py" for name in "abcde"]
    calls: list[list[Path]] = []
    for file in files:
        file.write_text("ALONE = True\n" if file == files[4] else "")

    def run(paths: Sequence[Path], n: int, _limit: float) -> RanksResult:
        calls.append(list(paths))
        printed = ""
        for path in paths:
            printed += f"{path}: {harness.STARTED}\n"
            if path == files[1]:
                break
            printed += f"{path}: {harness.PASSED}\n"
        return RanksResult((), 1, printed, "", 0.0)

    monkeypatch.setattr(test_ranks, "run_test_files", run)
    jobs = test_ranks.Jobs([(file, 2) for file in files])
    outcomes = [passed(jobs.result(file, 2), file) for file in files]
    assert outcomes == [True, False, True, True, True]
    assert calls == [files[:4], files[2:4], files[4:]]
