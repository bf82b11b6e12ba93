"""Whether MPI takes the memory of CUDA devices: a wrong guess ends in a segmentation fault.

It cannot be asked portably. In this order, the first that says anything counts::

    kinds        what the library says of memory, by the standard since MPI 4.1
    queries      functions that Open MPI and MPICH have beyond the standard
    switches     settings that turn it on
    probe        a message to itself of device memory, in a child process; see `probe`

Where all are silent, the answer is no. So it is, before anything else, where a setting turns it
off: the queries of some libraries only tell what they were built with. Kinds that do not name CUDA
say nothing, since they may be those that the job asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from distarray.launcher import child_environment

#: Settings by which MPI libraries are told to take device memory, and to leave it.
SWITCHES = {
    "MPICH_GPU_SUPPORT_ENABLED": "Cray MPICH",
    "MPIR_CVAR_ENABLE_GPU": "MPICH",
    "OMPI_MCA_opal_cuda_support": "Open MPI",
    "OMPI_MCA_mpi_cuda_support": "Open MPI",
    "MV2_USE_CUDA": "MVAPICH2",
    "MVP_USE_CUDA": "MVAPICH",
}
_ON, _OFF = ("1", "2", "true", "yes", "on", "enabled"), ("0", "false", "no", "off", "disabled")

#: Seconds that a probe may take; it loads CUDA and MPI.
PROBE_SECONDS = 60
#: Exit codes of the probe; any other means that MPI crashed.
ARRIVED, DID_NOT_ARRIVE, NOT_TRIED = 0, 10, 11


@dataclass(frozen=True)
class MpiSupport:
    """Whether MPI takes device memory, and what says so."""

    works: bool
    reason: str


class Library(Protocol):
    """What an MPI library says of itself; `comm.mpi` is one."""

    def library_name(self) -> str: ...

    def memory_kinds(self) -> str | None:
        """Kinds of memory that it was asked for and takes, by MPI 4.1; None: it does not say."""
        ...

    def cuda_support(self) -> tuple[bool, str] | None:
        """What its own functions say, and the name of the function; None: it has none."""
        ...


def said_of_device_memory(
    library: Library | None, environment: Mapping[str, str]
) -> MpiSupport | None:
    """What library and settings say; None if they are silent, so that it must be tried. Local.

    `library` is None for ranks that do not talk by MPI.
    """
    if library is None:
        return MpiSupport(False, "the ranks do not talk by MPI")
    on, off = _switches(environment)
    if off:
        return MpiSupport(False, f"{off[0]}={environment[off[0]]} keeps MPI from device memory")
    kinds = library.memory_kinds()
    if kinds is not None and any(kind.split(":")[0] == "cuda" for kind in kinds.split(",")):
        return MpiSupport(True, f"MPI says mpi_memory_alloc_kinds={kinds}")
    found = library.cuda_support()
    if found is not None:
        works, name = found
        verb = "says" if works else "does not say"
        return MpiSupport(works, f"MPI {verb} that it takes device memory ({name})")
    if on:
        return MpiSupport(True, f"{on[0]}={environment[on[0]]} lets MPI take device memory")
    return None


def _switches(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The settings that turn it on and those that turn it off."""
    found = {name: environment.get(name, "").strip().lower() for name in SWITCHES}
    return (
        [name for name, value in found.items() if value in _ON],
        [name for name, value in found.items() if value in _OFF],
    )


def probed(device: str) -> MpiSupport:
    """What a message of device memory in a child process shows, which may crash. Local."""
    import subprocess  # only those that must try pay for loading it

    command = [sys.executable, "-m", "distarray.transports.probe", device]
    try:
        code = subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        code = None
    if code == ARRIVED:
        return MpiSupport(True, "a message of device memory arrived in a probe")
    if code in (None, NOT_TRIED):
        return MpiSupport(False, "MPI does not say that it takes device memory, and no probe ran")
    return MpiSupport(False, f"a message of device memory did not arrive in a probe (code {code})")
