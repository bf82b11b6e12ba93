"""Ranks and how they talk.

`base` is the protocol, `serial` one rank, `mpi` many; `mpi` and its part `mpi_files` alone import
mpi4py. `failure` ends all ranks when one fails. This file chooses; it loads MPI only when there is
a reason to.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from distarray.comm import failure
from distarray.comm.base import Communicator
from distarray.comm.serial import SerialCommunicator
from distarray.errors import CommunicationError, shown
from distarray.launcher import Launched, end_before_mpi, launched

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Communicator", "SerialCommunicator", "default", "loaded_mpi"]


def default(comm: Any = None) -> Communicator:
    """The communicator to use for what the user gave. Collective over it.

    The same object is returned for the same communicator, so that equal choices can be recognised
    by identity.

    Parameters
    ----------
    comm : mpi4py communicator, Communicator or None
        An mpi4py communicator is duplicated (once; the user may free theirs). None means the world
        if MPI is initialised already or a launcher started this process as a rank, else this
        process alone; the variable DISTARRAY_COMM=serial or DISTARRAY_COMM=world overrides the
        choice for None.

    Raises
    ------
    CommunicationError
        The value is no communicator; DISTARRAY_COMM has another value; MPI cannot be loaded though
        it is needed; or the launcher started several ranks of which MPI sees one.
    """
    if comm is None:
        return _from_environment()
    if _is_communicator(comm):
        return comm  # type: ignore[no-any-return]
    if not _mpi_is_loaded():
        raise _no_communicator(comm)
    mpi = _load_mpi()
    if not mpi.is_intracommunicator(comm):
        raise _no_communicator(comm)
    return mpi.of(comm)  # type: ignore[no-any-return]


def _no_communicator(value: Any) -> CommunicationError:
    return CommunicationError(
        f"comm must be an mpi4py intracommunicator or None, not {shown(value)}; "
        "pass mpi4py.MPI.COMM_WORLD, a part of it, or None."
    )


def _is_communicator(value: Any) -> bool:
    """Whether the value keeps the protocol (also one that wraps another communicator)."""
    return hasattr(value, "prepare_exchange") and hasattr(value, "begin_allreduce")


def _from_environment() -> Communicator:
    choice = os.environ.get("DISTARRAY_COMM", "")
    if choice not in ("", "serial", "world"):
        raise CommunicationError(
            f"The variable DISTARRAY_COMM must be 'serial', 'world' or unset, not {choice!r}; "
            "correct or unset it."
        )
    launch = launched()
    if choice == "serial" or not (choice == "world" or launch is not None or _mpi_is_initialised()):
        return SerialCommunicator()
    return _world(launch)


def _world(launch: Launched | None) -> Communicator:
    mpi = _load_mpi()
    if launch is not None:
        _refuse_foreign_launcher(launch, mpi.library_name())
    mpi.initialise()
    if launch is not None and mpi.world_size() == 1 and (launch.size > 1 or launch.rank > 0):
        raise _mixed(launch, f"{mpi.library_name()}, sees 1")
    return mpi.world()  # type: ignore[no-any-return]


def _refuse_foreign_launcher(launch: Launched, library: str) -> None:
    """Refuse Open MPI's mpirun with MPICH's family, which cannot be initialised under it.

    Libraries of that family built for PMIx could; DISTARRAY_COMM=world lets them try.
    """
    foreign = library.startswith(("MPICH", "Intel", "MVAPICH"))
    if foreign and launch.by_open_mpi and os.environ.get("DISTARRAY_COMM") != "world":
        raise _mixed(launch, f"{library}, is of another family")


def _mixed(launch: Launched, finding: str) -> CommunicationError:
    """The error for one MPI's launcher with another's library. Each rank sees itself alone."""
    failure.install(launch.rank, launch.size, os._exit, silent=launch.rank > 0)
    return CommunicationError(
        f"The launcher started {launch.size or 'several'} ranks ({launch.source}), but the MPI "
        f"library that mpi4py loads, {finding}: two MPI installations are mixed; start the program "
        f"with {_matching_launcher()}, or set DISTARRAY_COMM=serial for independent processes."
    )


def _matching_launcher() -> str:
    path = os.path.join(sys.prefix, "bin", "mpirun")
    return path if os.path.exists(path) else "the mpirun of the MPI that mpi4py was built for"


def _watch_from_the_start() -> None:
    """End all ranks also when one fails before its first communicator. Loads no MPI. Local."""
    launch = launched()
    if launch is None or os.environ.get("DISTARRAY_COMM") == "serial":
        return
    if launch.size > 1:
        failure.install(launch.rank, launch.size, _end_all)
    else:
        failure.note_exits()


def _end_all(code: int) -> None:
    """End every rank of the job, whether or not MPI is initialised. Local."""
    if _mpi_is_initialised():
        sys.modules["mpi4py.MPI"].COMM_WORLD.Abort(code)
    end_before_mpi(code)


def loaded_mpi() -> ModuleType | None:
    """The module `mpi` if it is in use. Loads no MPI. Local."""
    return _load_mpi() if _mpi_is_initialised() else None


def _mpi_is_loaded() -> bool:
    return "mpi4py.MPI" in sys.modules


def _mpi_is_initialised() -> bool:
    module = sys.modules.get("mpi4py.MPI")
    return module is not None and module.Is_initialized() and not module.Is_finalized()


def _load_mpi() -> ModuleType:
    try:
        from distarray.comm import mpi
    except ImportError as error:
        raise CommunicationError(
            f"MPI is needed to run on several ranks but mpi4py cannot be loaded ({error}); "
            "install an MPI wheel and mpi4py ('.[mpi]'), "
            "or set DISTARRAY_COMM=serial to run on one rank."
        ) from error
    return mpi


_watch_from_the_start()
