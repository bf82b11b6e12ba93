"""Starts `program.py` on ranks, kills what is to be killed, and reads what the program noted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.harness import FOLDER_VARIABLE, ROOT, environment, mpirun

PROGRAM = Path(__file__).with_name("program.py")

#: Seconds after which a job has hung; the machine may be busy.
LONGEST = 120.0
#: Seconds that ranks have to end by themselves when another rank or the launcher was killed.
LEFT_ALONE = 20.0


@dataclass
class Job:
    """A job under way, in a folder of its own for what it prints and for its process numbers."""

    process: subprocess.Popen[bytes]
    folder: Path

    def ranks(self) -> dict[int, int]:
        """Process numbers by rank; those that have started."""
        found = {}
        for path in self.folder.glob("pid.*"):
            title = path.read_text().partition("\n")[0]
            if title.startswith("rank "):
                found[int(title[5:])] = int(path.suffix[1:])
        return found

    def alive(self) -> list[int]:
        """Ranks that have not ended, by process number."""
        return [process for process in self.ranks().values() if _runs(process)]

    def output(self) -> str:
        return "".join((self.folder / name).read_text() for name in ("out", "err"))

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Look until the condition holds, or the job has ended."""
        deadline = time.monotonic() + LONGEST
        while not condition() and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the job hangs:\n{self.output()}")
            time.sleep(0.001)

    def wait(self) -> int:
        """Its exit code, once all of its processes have ended; what is left over is killed."""
        self.wait_until(lambda: False)
        deadline = time.monotonic() + LEFT_ALONE
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill(self.alive())
        return self.process.returncode

    def kill(self, processes: list[int]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _runs(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@contextlib.contextmanager
def started(
    ranks: int, *arguments: str | Path, env: Mapping[str, str | None] | None = None
) -> Iterator[Job]:
    """The program on some ranks; nothing of it is left when the block ends."""
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        folder = Path(name)
        command = [mpirun(), "-n", str(ranks)] if ranks > 1 else []
        command += [sys.executable, "-m", "tests.ranks_runner", "--script", str(PROGRAM)]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=environment({FOLDER_VARIABLE: name} | dict(env or {})),
                start_new_session=True,
            )
        job = Job(process, folder)
        try:
            yield job
        finally:
            job.kill([process.pid] if process.poll() is None else [])
            process.wait()
            job.kill(job.alive())


def finish(ranks: int, *arguments: str | Path, env: Mapping[str, str | None] | None = None) -> str:
    """Run the program to its end, which must be good; what it printed."""
    with started(ranks, *arguments, env=env) as job:
        code = job.wait()
        assert code == 0, f"ended with code {code}:\n{job.output()}"
        return job.output()


def notes(result: Path) -> list[str]:
    """What the program has noted so far."""
    try:
        return Path(f"{result}.log").read_text().splitlines()
    except FileNotFoundError:
        return []


def noted(lines: list[str], word: str) -> list[int]:
    """The steps of the notes that start with this word."""
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


def same_bits(one: Path, other: Path) -> bool:
    """Whether two results are equal to the last bit."""
    with np.load(one) as a, np.load(other) as b:
        return a.files == b.files and all(
            a[name].dtype == b[name].dtype
            and a[name].shape == b[name].shape
            and a[name].tobytes() == b[name].tobytes()
            for name in a.files
        )
