"""What the environment says about the launcher (mpirun, srun) of this process. Loads no MPI."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

#: Variables that name this process's rank, and how many ranks the same launcher started.
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIZE_VARIABLES = {
    "OMPI_COMM_WORLD_RANK": ("OMPI_COMM_WORLD_SIZE",),
    "PMIX_RANK": ("OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS"),
    "PMI_RANK": ("PMI_SIZE",),
}
#: Variables that name this process's rank among those of its node, and how many those are. Those of
#: the batch system come last: inside its jobs another launcher may have started this process.
_NODE_VARIABLES = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),  # Open MPI
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),  # MVAPICH
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),  # Cray PALS
    ("PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"),
    ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    ("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),  # IBM Spectrum
    ("FLUX_TASK_LOCAL_ID", ""),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
_PREFIXES = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "PALS_", "HYDI_", "HYDRA_", "MPIR_", "MPI_LOCAL")
#: Settings of a user that share a prefix with the launcher's own variables.
_KEPT = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_CC", "OMPI_CFLAGS")


@dataclass(frozen=True)
class Launched:
    """What a launcher says: this process's rank, the number of ranks (0 if unknown), and where."""

    rank: int
    size: int
    source: str

    @property
    def by_open_mpi(self) -> bool:
        """Whether Open MPI's own mpirun started the process."""
        return self.source.startswith("OMPI_")


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """What the launcher set, or None when no launcher started this process. Local.

    SLURM_* variables alone do not count: a batch script has them without being a rank.
    """
    for name in _RANK_VARIABLES:
        rank = _integer(environment.get(name))
        if rank is not None:
            return _with_size(environment, name, rank)
    return None


@dataclass(frozen=True)
class OnNode:
    """This process's rank among those of its node, and their number (0 if unknown)."""

    rank: int
    size: int


def on_node(environment: Mapping[str, str] = os.environ) -> OnNode | None:
    """Which of its node's ranks this process is, or None where nothing says so. Local."""
    for rank_name, size_name in _NODE_VARIABLES:
        rank = _integer(environment.get(rank_name))
        if rank is not None and rank >= 0:
            return OnNode(rank, _integer(environment.get(size_name)) or 0)
    return None


def _with_size(environment: Mapping[str, str], name: str, rank: int) -> Launched:
    for size_name in _SIZE_VARIABLES[name]:
        size = _integer(environment.get(size_name))
        if size is not None:
            return Launched(rank, size, f"{size_name}={size}")
    return Launched(rank, 0, f"{name}={rank}")


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A copy of the environment for child processes, without the launcher's variables. Local.

    A child that inherited them would take itself for this rank when it loads MPI.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_PREFIXES) or name.startswith(_KEPT)
    }


def end_before_mpi(code: int, environment: Mapping[str, str] = os.environ) -> NoReturn:
    """Leave at once with the code, and have the launcher end the other ranks. Local.

    Open MPI's mpirun ends them when one exits with an error; MPICH's does so only for a rank that
    MPI knows already, and before that must be told.
    """
    channel = _integer(environment.get("PMI_FD"))
    with contextlib.suppress(OSError):
        # In a child process the number may be that of any file.
        if channel is not None and stat.S_ISSOCK(os.fstat(channel).st_mode):
            os.write(channel, f"cmd=abort exitcode={code}\n".encode())
    os._exit(code)


def mpirun() -> str:
    """The mpirun beside this Python if there is one, else the one found by the path. Local."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    return beside if os.path.isfile(beside) else "mpirun"
