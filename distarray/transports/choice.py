"""Which device and which transport all ranks take, agreed over them.

The first choice of a transport on some ranks is printed once, by rank 0 to stderr, with its reason.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from distarray.arguments import backend_for
from distarray.backends.base import Backend
from distarray.comm import default, loaded_mpi
from distarray.comm.base import Communicator
from distarray.errors import BackendError, CommunicationError, DistArrayError, shown
from distarray.transports.base import Device, Transport
from distarray.transports.communicator import DeviceCommunicator
from distarray.transports.connection import connect_nccl
from distarray.transports.detection import Answer, probed, said_of_device_memory
from distarray.transports.device import DeviceTransport
from distarray.transports.host import HostTransport
from distarray.transports.staged import StagedTransport

TRANSPORTS = ("auto", "nccl", "device", "staged", "host")
_VARIABLE = "DISTARRAY_TRANSPORT"
_DEVICES = ("cpu", "cuda", "simulated")

_printed: set[str] = set()


def place(device: str, transport: str, comm: Any) -> tuple[Backend, Communicator]:
    """Backend and communicator for what the user gave. Collective.

    Parameters
    ----------
    device : "auto", "cpu", "cuda" or "simulated"
    transport : "auto", "nccl", "device", "staged" or "host"
    comm : mpi4py communicator, Communicator or None
        See `comm.default`.

    Raises
    ------
    BackendError
        The device does not work on some rank, on all ranks alike.
    CommunicationError
        The ranks were given different devices or transports, or the transport does not work.
    """
    backend: Backend | None = None
    error: DistArrayError | None = None
    demanded = ""
    try:
        # Before anything touches MPI, which may take the device that is current.
        backend = backend_for(device)
        demanded = _demanded(transport)
    except DistArrayError as wrong:
        error = wrong
    base = default(comm)
    if isinstance(base, DeviceCommunicator):
        base = base.base
    backend = _agreed(base, (device, demanded), backend, error)
    return backend, on_device(base, backend, demanded)


def _demanded(transport: str) -> str:
    """The transport that is asked for, by the argument or else by the variable."""
    subject = f"transport={shown(transport)}"
    if transport == "auto":
        transport = os.environ.get(_VARIABLE, "auto")
        subject = f"{_VARIABLE}={transport}"
    if transport not in TRANSPORTS:
        raise CommunicationError(
            f"{subject} is unknown; use {', '.join(map(repr, TRANSPORTS[:-1]))} or "
            f"'{TRANSPORTS[-1]}'."
        )
    return transport


# ---- agreement on the device


def _agreed(
    base: Communicator,
    asked: tuple[str, str],
    backend: Backend | None,
    error: DistArrayError | None,
) -> Backend:
    """The device that all ranks take. Collective; one small message if they agree."""
    if base.size > 1 and not _alike(base, asked, backend, error):
        base.agree(error)
        known = base.allgather((asked, getattr(backend, "name", "")))
        _require_equal([given for given, _ in known])
        without = [rank for rank, (_, name) in enumerate(known) if name == "cpu"]
        _print_once(base, f"device cpu: no other works on ranks {without} of {base.size}")
        return backend_for("cpu")
    if error is not None or backend is None:
        raise error or BackendError(f"The device {shown(asked[0])} has no backend; use 'cpu'.")
    return backend


def _alike(
    base: Communicator,
    asked: tuple[str, str],
    backend: Backend | None,
    error: DistArrayError | None,
) -> bool:
    """Whether all ranks were asked for the same, and have found the same. Collective."""
    digest = hashlib.blake2b(repr(asked).encode(), digest_size=7).digest()
    number = int.from_bytes(digest, "little")
    found = _DEVICES.index(getattr(backend, "name", "cpu"))
    values = np.array([number, -number, found, -found, error is not None], np.int64)
    most, least, last, first, failed = map(int, base.allreduce(values, "max"))
    return most == -least and last == -first and not failed


def _require_equal(asked: list[tuple[str, str]]) -> None:
    for what, values in zip(("device", "transport"), zip(*asked, strict=True), strict=True):
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise CommunicationError(
                f"The {what} differs between ranks, rank 0 has {values[0]!r} and rank {other} has "
                f"{values[other]!r}; pass the same on all ranks."
            )


# ---- choice of the transport


def on_device(base: Communicator, backend: Backend, transport: str = "auto") -> Communicator:
    """The communicator for arrays of a backend: the one given, or one that has a transport beside
    it. Collective.

    The same is returned for the same arguments. It lives as long as the one given.

    Raises
    ------
    CommunicationError
        The transport does not work, on all ranks alike.
    """
    if backend.host:
        return base
    kept: dict[tuple[str, str], DeviceCommunicator] = vars(base).setdefault("_on_devices", {})
    key = backend.name, transport
    if key not in kept:
        device = cast("Device", backend)
        chosen, reason = _choose(base, device, transport)
        if base.size > 1:
            _print_once(base, f"transport {chosen.name}: {reason}")
        kept[key] = DeviceCommunicator(base, device, chosen)
    return kept[key]


def _choose(base: Communicator, backend: Device, transport: str) -> tuple[Transport, str]:
    """The transport, and why it is taken. Collective."""
    if transport == "nccl":
        return connect_nccl(base, backend), "asked for"
    if transport != "auto":
        return _BY_MPI[transport](base, backend), "asked for"
    if base.size == 1:
        return StagedTransport(base, backend), "one rank sends no messages"
    if backend.name != "cuda":
        return StagedTransport(base, backend), "taken on this device unless another is asked for"
    try:
        found = connect_nccl(base, backend)
    except CommunicationError as error:
        without = str(error)
    else:
        return found, "NCCL connects all ranks"
    answer = _mpi_takes_device_memory(base, backend)
    kind = DeviceTransport if answer.works else StagedTransport
    return kind(base, backend), f"{answer.reason}; {without}"


_BY_MPI: dict[str, Callable[[Communicator, Device], Transport]] = {
    kind.name: kind for kind in (HostTransport, StagedTransport, DeviceTransport)
}


def _mpi_takes_device_memory(base: Communicator, backend: Device) -> Answer:
    """Whether MPI takes it on all ranks. Collective."""
    known = base.allgather(said_of_device_memory(loaded_mpi(), os.environ))
    refusing = [answer for answer in known if answer is not None and not answer.works]
    if refusing or None not in known:
        answer: Answer = (refusing or known)[0]
        return answer
    tried: Answer = base.bcast(probed(backend.name) if base.rank == 0 else None)
    return tried


def _print_once(base: Communicator, text: str) -> None:
    if base.rank == 0 and text not in _printed:
        _printed.add(text)
        sys.stderr.write(f"distarray: {text}\n")
        sys.stderr.flush()
