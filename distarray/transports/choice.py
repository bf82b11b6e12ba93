"""Which device and which transport all ranks take, agreed over them.

The first choice of a transport on some ranks is printed once, by rank 0 to stderr, with its reason;
so is that a GPU, or a transport that was asked for, is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from distarray.arguments import alike, backend_for, unused_gpu
from distarray.backends.base import Backend
from distarray.comm import default, loaded_mpi
from distarray.comm.base import Communicator
from distarray.errors import BackendError, CommunicationError, DistArrayError, shown
from distarray.progress import tell_once
from distarray.transports.base import Device, Transport
from distarray.transports.communicator import DeviceCommunicator
from distarray.transports.connection import connect_nccl
from distarray.transports.detection import MpiSupport, probed, said_of_device_memory
from distarray.transports.device import DeviceTransport
from distarray.transports.host import HostTransport
from distarray.transports.staged import StagedTransport
from distarray.tuning import store

TRANSPORTS = ("auto", "nccl", "device", "staged", "host")
_VARIABLE = "DISTARRAY_TRANSPORT"
_DEVICES = ("cpu", "cuda", "simulated")
#: Ranks that are named where many could be.
_NAMED = 3


def place(
    device: str, transport: str, comm: Any, *, here: Backend | None = None
) -> tuple[Backend, Communicator]:
    """Backend and communicator for what the user gave. Collective.

    Parameters
    ----------
    device : "auto", "cpu", "cuda" or "simulated"
    transport : "auto", "nccl", "device", "staged" or "host"
    comm : mpi4py communicator, Communicator or None
        See `comm.default`.
    here : Backend, optional
        Where values are now, which use `comm`: if that is the device, nothing else is chosen.

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
    given = default(comm)
    base = given.base if isinstance(given, DeviceCommunicator) else given
    backend = _agreed(base, (device, demanded), backend, error)
    if backend.host and device == "auto" and demanded != "auto" and base.size > 1:
        _tell_once(base, f"transport {demanded}: not used, since the device is {backend.name}")
    if here is not None and backend.name == here.name:
        return here, given
    return backend, on_device(base, backend, demanded)


def _demanded(transport: str) -> str:
    """The transport that is asked for, by the argument or else by the variable."""
    subject = f"transport={shown(transport)}"
    if transport == "auto":
        transport = os.environ.get(_VARIABLE) or "auto"
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
        known = base.allgather((asked, getattr(backend, "name", ""), unused_gpu(asked[0])))
        _require_equal([given for given, _, _ in known])
        without = [rank for rank, (_, name, _) in enumerate(known) if name == "cpu"]
        reason = next((f": {known[rank][2]}" for rank in without if known[rank][2]), "")
        some = ", ".join(map(str, without[:_NAMED])) + ", ..." * (len(without) > _NAMED)
        _tell_once(
            base,
            f"device cpu: no other works on {len(without)} of {base.size} ranks (ranks {some})"
            f"{reason}",
        )
        return backend_for("cpu")
    if error is not None or backend is None:
        raise error or BackendError(f"The device {shown(asked[0])} has no backend; use 'cpu'.")
    if backend.host and base.rank == 0 and (reason := unused_gpu(asked[0])):
        _tell_once(base, f"device cpu: {reason}")
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

    The same is returned for the same arguments, and for others that lead to the same transport. It
    lives as long as the one given.

    Raises
    ------
    CommunicationError
        The transport does not work, on all ranks alike.
    """
    if backend.host:
        return base
    key = backend.name, transport
    if key not in base.on_devices:
        chosen, reason = _choose(base, cast("Device", backend), transport)
        if base.size > 1:
            _tell_once(base, f"transport {chosen.transport.name}: {reason}")
        base.on_devices[key] = chosen
    found: DeviceCommunicator = base.on_devices[key]
    return found


def _choose(base: Communicator, backend: Device, transport: str) -> tuple[DeviceCommunicator, str]:
    """The communicator with the transport, and why it is taken. Collective."""
    if transport != "auto":
        return _with(base, backend, transport), "asked for"
    if base.size == 1:
        return _with(base, backend, "staged"), "one rank sends no messages"
    stored = store.transport(base, backend.name)
    if stored is not None:
        with contextlib.suppress(CommunicationError):  # one that worked when it was measured
            found = _with(base, backend, stored)
            store.note(f"transport {stored} on {backend.name}")
            return found, "`python -m distarray tune` found it fastest"
    if backend.name != "cuda":
        reason = "taken on this device unless another is asked for"
        return _with(base, backend, "staged"), reason
    try:
        found = _with(base, backend, "nccl")
    except CommunicationError as error:
        without = str(error)
    else:
        return found, "NCCL connects all ranks"
    answer = _mpi_takes_device_memory(base, backend)
    kind = "device" if answer.works else "staged"
    return _with(base, backend, kind), f"{answer.reason}; {without}"


def working(base: Communicator, backend: Backend) -> list[str]:
    """The transports that work here, fastest as a rule first; none on the host. Collective.

    MPI is handed memory of a GPU only if it is known to take it: else it may end the process.
    """
    if backend.host or base.size == 1:
        return []
    found = []
    for name in TRANSPORTS[1:]:
        try:
            if name != "device" or _may_send_from(base, cast("Device", backend)):
                _with(base, cast("Device", backend), name)
                found.append(name)
        except CommunicationError:  # the same on all ranks
            continue
    return found


def _may_send_from(base: Communicator, backend: Device) -> bool:
    return backend.name != "cuda" or _mpi_takes_device_memory(base, backend).works


_MAKERS: dict[str, Callable[[Communicator, Device], Transport]] = {
    "nccl": connect_nccl,
    "device": DeviceTransport,
    "staged": StagedTransport,
    "host": HostTransport,
}


def _with(base: Communicator, backend: Device, transport: str) -> DeviceCommunicator:
    """The communicator with a transport, one for each. Collective."""
    key = backend.name, transport
    if key not in base.on_devices:
        made = _MAKERS[transport](base, backend)
        base.on_devices[key] = DeviceCommunicator(base, backend, made)
    found: DeviceCommunicator = base.on_devices[key]
    return found


def _mpi_takes_device_memory(base: Communicator, backend: Device) -> MpiSupport:
    """Whether MPI takes it on all ranks. Collective; one small message if they are told alike."""
    said = said_of_device_memory(loaded_mpi(), os.environ)
    known: list[MpiSupport | None] = [said] if alike(base, repr(said)) else base.allgather(said)
    refusing = [answer for answer in known if answer is not None and not answer.works]
    certain = refusing or [answer for answer in known if answer is not None]
    if refusing or None not in known:
        return certain[0]
    tried: MpiSupport = base.bcast(probed(backend.name) if base.rank == 0 else None)
    return MpiSupport(tried.works, f"{tried.reason} (by rank 0 on its own node)")


def _tell_once(base: Communicator, text: str) -> None:
    if base.rank == 0:
        tell_once(text)
