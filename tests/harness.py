"""Starts programs on several ranks, with this interpreter's MPI, and never waits for ever.

A hang is a failure: after `timeout` seconds every rank writes the Python stacks of its threads, the
job is ended and `RanksFailed` shows them. Nothing here imports the code under test.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The folder in which each rank leaves a file named after its process id, see `ranks_runner.py`.
FOLDER_VARIABLE = "DISTARRAY_TEST_FOLDER"

#: A process started by a launcher inherits these; left in place they confuse the next launcher.
LAUNCHER_PREFIXES = (
    "PMI_",
    "PMI2_",
    "PMIX_",
    "OMPI_",
    "PRTE_",
    "HYDRA_",
    "HYDI_",
    "MPI_LOCAL",
    "MPIEXEC_",
)

#: Open MPI refuses root and more ranks than cores unless told; other libraries ignore these.
#: An empty `opal_signal` leaves the report of a crash to Python's faulthandler. Looking for
#: libfabric's networks takes a second at every start, and all ranks are on this machine. Ranks that
#: wait leave their core to other tests.
OPEN_MPI = {
    "OMPI_MCA_btl": "^ofi",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_opal_signal": "",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

#: On which ranks write their stacks; checkpointers take SIGTERM and SIGUSR1.
STACKS_SIGNAL = signal.SIGUSR2

#: What a job says of each of several test files.
STARTED, PASSED = "started", "passed on all ranks"

STACKS_SECONDS = 1.0  # for the ranks to write their stacks
END_SECONDS = 5.0  # for a launcher to end its ranks before they are killed


@dataclass(frozen=True)
class RanksResult:
    """What a job left behind. `stacks` is empty unless it hung or crashed."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    stacks: str = ""

    def report(self) -> str:
        """Everything a person needs to see of a failure."""
        cause = "was ended after" if self.timed_out else f"ended with code {self.returncode} after"
        parts = [f"{' '.join(self.command)}\n{cause} {self.seconds:.1f} s"]
        for title, text in (
            ("stdout", self.stdout),
            ("stderr", self.stderr),
            ("stacks", self.stacks),
        ):
            if text.strip():
                parts.append(f"--- {title} ---\n{text.rstrip()}")
        return "\n".join(parts)


class RanksFailed(AssertionError):
    """A job hung, or ended with a code other than 0; `result` holds the details."""

    def __init__(self, result: RanksResult) -> None:
        super().__init__(result.report())
        self.result = result


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tests-")


def clean_environment() -> dict[str, str]:
    """This process's environment without the variables of a launcher, and with a folder of its own
    for temporary files: Open MPI's launcher does not start (code 213) where it finds what a killed
    one of the same process id has left.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
    return kept | {"TMPDIR": _scratch().name}


def mpirun() -> str:
    """The launcher that belongs to the running interpreter."""
    for folder in (Path(sys.prefix) / "bin", Path(sys.executable).parent):
        if (folder / "mpirun").is_file():
            return str(folder / "mpirun")
    found = shutil.which("mpirun")
    if found is None:
        raise RuntimeError(
            "No mpirun beside this Python or on PATH; install an MPI: pip install '.[mpi]'."
        )
    return found


def run_ranks(
    target: str | Path,
    n: int,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    timeout: float = 60.0,
    check: bool = True,
    cwd: Path | str = ROOT,
) -> RanksResult:
    """Run a script (a path ending in .py) or a module (its name) on n ranks.

    Parameters
    ----------
    env : changes to the environment; None removes a variable
    timeout : seconds after which the ranks write their stacks and are ended; always `RanksFailed`
    check : raise `RanksFailed` when the job's exit code is not 0
    """
    return _run([mpirun(), "-n", str(n)], _program(target, args), env, timeout, check, cwd)


def run_serial(
    target: str | Path,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    timeout: float = 60.0,
    check: bool = True,
    cwd: Path | str = ROOT,
) -> RanksResult:
    """As `run_ranks`, in one process without a launcher."""
    return _run([], _program(target, args), env, timeout, check, cwd)


def run_test_file(path: str | Path, n: int, *names: str, timeout: float = 60.0) -> RanksResult:
    """Run the test functions of a file (those whose name contains one of `names`) on n ranks."""
    return _run([mpirun(), "-n", str(n)], [str(path), *names], None, timeout, True, ROOT)


def run_test_files(paths: Sequence[str | Path], n: int, timeout: float) -> RanksResult:
    """Run several test files by one job, up to the first that fails, whose result has a code other
    than 0; `timeout` holds for each of them. See `ran` and `passed`.
    """
    command = [mpirun(), "-n", str(n)]
    try:
        return _run(command, ["--files", *map(str, paths)], None, timeout, False, ROOT)
    except RanksFailed as hang:
        return hang.result


def ran(result: RanksResult, path: str | Path) -> bool:
    """Whether a job of several test files came as far as this one."""
    return f"{path}: {STARTED}\n" in result.stdout


def passed(result: RanksResult, path: str | Path) -> bool:
    """Whether this one of several test files passed on all ranks."""
    return f"{path}: {PASSED}\n" in result.stdout


def _program(target: str | Path, args: Sequence[str]) -> list[str]:
    return ["--script" if str(target).endswith(".py") else "--module", str(target), *args]


def _run(
    launcher: list[str],
    program: list[str],
    env: Mapping[str, str | None] | None,
    timeout: float,
    check: bool,
    cwd: Path | str,
) -> RanksResult:
    command = [*launcher, sys.executable, "-m", "tests.ranks_runner", *program]
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        result = _watched(
            command,
            Path(name),
            environment({FOLDER_VARIABLE: name} | dict(env or {})),
            timeout,
            cwd,
        )
    if result.timed_out or (check and result.returncode):
        raise RanksFailed(result)
    return result


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """The variables of a job: this process's without a launcher's, and these changes."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    variables = clean_environment() | OPEN_MPI
    variables |= {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": path,
    }
    if folder := changes.get(FOLDER_VARIABLE):
        variables["TMPDIR"] = folder
    for variable, value in changes.items():
        variables.pop(variable, None)
        if value is not None:
            variables[variable] = value
    return variables


def _watched(
    command: list[str], folder: Path, variables: dict[str, str], timeout: float, cwd: Path | str
) -> RanksResult:
    # Output goes to files: a rank that outlives the launcher cannot keep us waiting on a pipe.
    start = time.monotonic()
    timed_out = False
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=variables,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            _wait(process, folder / "stdout", timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _signal_ranks(folder, STACKS_SIGNAL)
            time.sleep(STACKS_SECONDS)
        finally:
            _end(process, folder)
    seconds = time.monotonic() - start
    texts = [(folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    return RanksResult(
        tuple(command), process.returncode, *texts, seconds, timed_out, _stacks(folder)
    )


def _wait(process: subprocess.Popen[bytes], output: Path, timeout: float) -> None:
    """Wait for the end of a job, as long as one test file or more passes in each `timeout`."""
    before = -1
    while (count := output.read_bytes().count(f": {PASSED}\n".encode())) > before:
        before = count
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
            return
    raise subprocess.TimeoutExpired(process.args, timeout)


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    _signal_ranks(folder, signal.SIGKILL)


def _signal_ranks(folder: Path, number: signal.Signals) -> None:
    for path in folder.glob("pid.*"):
        if _alive(path):
            try:
                os.kill(int(path.suffix[1:]), number)
            except ProcessLookupError:
                continue


def _alive(path: Path) -> bool:
    # A rank locks its file as long as it lives: a process id used again is never signalled.
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _stacks(folder: Path) -> str:
    texts = []
    for path in sorted(folder.glob("pid.*")):
        title, _, stacks = path.read_text(errors="replace").partition("\n")
        if stacks.strip():
            texts.append(f"{title} (process {path.suffix[1:]})\n{stacks.strip()}\n")
    return "\n".join(texts)
