"""What each rank of a test job runs.

`python -m tests.ranks_runner FILE [NAME ...]` calls every `test_*` function of FILE (or those whose
name contains a NAME) on all ranks of the world, agrees on the outcome after each, and reports each
failure with its rank and traceback. A function with a parameter `folder` gets an empty folder that
all ranks share. `--files FILE ...` does so for several files in turn, up to the first that fails.
`--script FILE ARGS` and `--module NAME ARGS` run a program as Python would, but so that a hang can
be looked into.

Before anything else a rank names itself in the harness's folder and arranges for SIGUSR2 to write
its stacks there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import importlib.util
import inspect
import os
import runpy
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tests import devices
from tests.harness import FOLDER_VARIABLE, PASSED, ROOT, STACKS_SIGNAL, STARTED

GRACE_SECONDS = 5.0  # for the other ranks to arrive once a rank has failed
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def watch() -> None:
    """Name this process in the harness's folder, where SIGUSR2 and crashes now write its stacks."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        faulthandler.enable()
        return
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
    # It stays open, and locked, as long as the process lives.
    file = os.open(Path(folder) / f"pid.{os.getpid()}", os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, f"rank {rank}\n".encode())
    faulthandler.enable(file)
    faulthandler.register(STACKS_SIGNAL, file, all_threads=True)


def load(path: str) -> ModuleType:
    """Import a test file: by its module name inside this repository, by its path elsewhere."""
    file = Path(path).resolve()
    if file.is_relative_to(ROOT):
        return importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


class Ranks:
    """The ranks of the job and the communicator on which they agree; no test uses it."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.comm = MPI.COMM_WORLD.Dup()
        self.rank = self.comm.Get_rank()
        self.size = self.comm.Get_size()

    def shared_folder(self) -> Path:
        """A new empty folder, the same on all ranks; the harness removes it."""
        parent = os.environ.get(FOLDER_VARIABLE)
        return Path(self.comm.bcast(tempfile.mkdtemp(dir=parent) if self.rank == 0 else None))

    def agree(self, error: str | None) -> list[str | None]:
        """The tracebacks of all ranks; ends the job when the others do not come after a failure."""
        request = self.comm.Ibarrier()
        deadline = time.monotonic() + GRACE_SECONDS
        while not request.Test():
            if error is not None and time.monotonic() > deadline:
                self.abandon(error)
            time.sleep(5e-4)
        return list(self.comm.allgather(error))

    def abandon(self, error: str) -> None:
        """Report this rank's failure and where the others are, then end the job."""
        print(
            f"rank {self.rank} failed while other ranks wait for it:\n{error}",
            file=sys.stderr,
            flush=True,
        )
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder is not None:
            for path in Path(folder).glob("pid.*"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(path.suffix[1:]), STACKS_SIGNAL)
            time.sleep(1.0)
        self.comm.Abort(1)


def call(function: Callable[..., Any], ranks: Ranks) -> str | None:
    """The traceback of one call, or None. Anything raised counts, `pytest.skip` too, and races."""
    folder = ranks.shared_folder() if "folder" in inspect.signature(function).parameters else None
    try:
        function(*([folder] if folder else []))
        devices.finish(function)
    except BaseException:  # a rank that left early would leave the others waiting
        return traceback.format_exc()
    return None


def report(name: str, errors: list[str | None]) -> None:
    """Print each different traceback once, with the ranks that met it."""
    for text in dict.fromkeys(error for error in errors if error is not None):
        ranks = ", ".join(str(rank) for rank, error in enumerate(errors) if error == text)
        print(f"FAILED {name} on rank {ranks} of {len(errors)}\n{text}", file=sys.stderr)


def run_files(paths: list[str]) -> int:
    """Run whole test files in turn, each announced and closed by a line with its name."""
    ranks = Ranks()
    for path in paths:
        if ranks.rank == 0:
            print(f"{path}: {STARTED}", flush=True)
        if run_tests(path, [], ranks):
            return 1
        if ranks.rank == 0:
            print(f"{path}: {PASSED}", flush=True)
    return 0


def run_tests(path: str, names: list[str], ranks: Ranks) -> int:
    """Call the test functions of one file in their order; 0 when all pass on all ranks."""
    warnings.simplefilter("error")
    # Ranks of a test job share what GPUs there are.
    warnings.filterwarnings("ignore", r".*ranks of a node share|Each rank sees one GPU only")
    found: list[Callable[..., Any]] = []
    errors = ranks.agree(call(lambda: found.extend(functions_of(load(path), names)), ranks))
    if ranks.rank == 0:
        report(path, errors)
    passed = failed = left = 0
    for function in found if not any(errors) else []:
        why = devices.reason(path, function.__name__)
        if why:
            left += 1
            if ranks.rank == 0:
                print(f"{function.__name__}: not on device {devices.current()}: {why}", flush=True)
            continue
        start = time.monotonic()
        errors = ranks.agree(call(function, ranks))
        if ranks.rank == 0:
            report(function.__name__, errors)
            print(f"{function.__name__}: {time.monotonic() - start:.2f} s", flush=True)
        failed += any(errors)
        passed += not any(errors)
        if any(errors) and not all(errors):
            break  # the ranks that failed may have left messages behind
    if ranks.rank == 0:
        without = f", {left} left out" if left else ""
        print(f"{passed} passed, {failed} failed, {len(found)} found{without}", flush=True)
    return 0 if passed + left and not failed else 1


def functions_of(module: ModuleType, names: list[str]) -> list[Callable[..., Any]]:
    """The test functions of a module, in order; with `names`, those whose name contains one."""
    return [
        function
        for name, function in vars(module).items()
        if name.startswith("test_") and (not names or any(part in name for part in names))
    ]


def main(arguments: list[str]) -> int:
    """Run a test file, a script or a module, as the first argument says."""
    watch()
    if arguments[0] == "--files":
        return run_files(arguments[1:])
    if arguments[0] == "--script":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path(arguments[1]).resolve().parent)
        runpy.run_path(arguments[1], run_name="__main__")
        devices.finish()
    elif arguments[0] == "--module":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        devices.finish()
    else:
        return run_tests(arguments[0], arguments[1:], Ranks())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
