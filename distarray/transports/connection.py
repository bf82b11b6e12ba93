"""NCCL connected over the ranks of a communicator, tried with one exchange.

The ranks of a group leave it together: when a later group is connected over ranks that have all let
go of it, since garbage collectors differ, and at the end of the program.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import secrets
import weakref
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from distarray.comm import failure, nccl
from distarray.comm.base import Communicator, message_limit
from distarray.errors import CommunicationError
from distarray.transports.base import Device
from distarray.transports.communicator import DeviceCommunicator
from distarray.transports.nccl import NcclTransport

#: The first version that lets ranks share a GPU, and the variable that makes it.
_SHARING, _SHARE = 23000, "NCCL_MULTI_RANK_GPU_ENABLE"
_NBYTES = 64

#: What a rank finds: why it has no NCCL, the version, its device, whether devices may be shared.
_Finding = tuple[str, int, str, bool]


def connect_nccl(base: Communicator, backend: Device) -> ConnectedTransport:
    """NCCL over all ranks, each on its device, which is selected already. Collective.

    Raises
    ------
    CommunicationError
        It is missing on some rank, its versions differ, ranks share a GPU, or it does not work; on
        all ranks alike.
    """
    binding: Any = None
    missing, version, device = "", 0, ""
    try:
        binding = backend.nccl_binding()
        version, device = binding.version(), binding.device
        binding.require_ready()
    except Exception as wrong:  # whatever a library that is not whole raises
        missing = str(wrong) or type(wrong).__name__
    finding = missing, version, device, os.environ.get(_SHARE) == "1"
    obstacle = None if _fit(base, finding) else _obstacle(base.allgather(finding))
    if obstacle is not None:
        raise obstacle
    leave_abandoned(base)
    ranks = nccl.connect(binding, base)
    limit = int(base.allreduce(np.array([message_limit()], np.int64), "min")[0])
    transport = ConnectedTransport(base, backend, ranks, limit)
    try:
        _warm_up(base, backend, transport)
    except CommunicationError:
        transport.give_up()
        raise
    return transport


def _fit(base: Communicator, finding: _Finding) -> bool:
    """Whether nothing speaks against NCCL, each rank having a device of its own. Collective; two
    messages of numbers.
    """
    missing, version, device, _ = finding
    failed, newest, oldest = base.allreduce(np.array([missing != "", version, -version]), "max")
    devices = np.zeros(base.size, np.int64)
    digest = hashlib.blake2b(device.encode(), digest_size=7).digest()
    devices[base.rank] = int.from_bytes(digest, "little")
    devices = base.allreduce(devices, "sum")
    return not failed and newest == -oldest and len(set(devices.tolist())) == base.size


def _obstacle(known: list[_Finding]) -> CommunicationError | None:
    """What all ranks' findings say against NCCL; the same everywhere."""
    for rank, (missing, *_) in enumerate(known):
        if missing:
            return CommunicationError(f"NCCL cannot be used on rank {rank}: {missing}")
    versions = sorted({version for _, version, _, _ in known})
    if len(versions) > 1:
        return CommunicationError(
            f"NCCL needs one version on all ranks, got {' and '.join(map(_shown, versions))}; "
            "install the same everywhere."
        )
    device, sharing = Counter(device for _, _, device, _ in known).most_common(1)[0]
    allowed = versions[0] >= _SHARING and all(share for *_, share in known)
    if sharing > 1 and not allowed:
        return CommunicationError(
            f"NCCL {_shown(versions[0])} gives each rank a GPU of its own, {sharing} ranks share "
            f"{device}; start fewer ranks, or set {_SHARE}=1 with NCCL 2.30 or later."
        )
    return None


def _shown(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _warm_up(base: Communicator, backend: Device, transport: NcclTransport) -> None:
    """One exchange around the ring of ranks: connections are made and tried. Collective."""
    with failure.deadline("NCCL sends a first message", nccl.MOST_SECONDS) as reasons:
        error = _tried(base, backend, transport)
        reasons.extend([] if error is None else [str(error)])
        base.agree(error)


def _tried(
    base: Communicator, backend: Device, transport: NcclTransport
) -> CommunicationError | None:
    """What went wrong with one exchange around the ring of ranks. Collective."""
    try:
        after, before = (base.rank + 1) % base.size, (base.rank - 1) % base.size
        sent, received = backend.buffer(_NBYTES), backend.buffer(_NBYTES)
        sent[...] = np.full(_NBYTES, base.rank % 251, np.uint8)
        communicator = DeviceCommunicator(base, backend, transport)
        communicator.exchange([(after, sent)], [(before, received)])
        if not np.all(backend.to_host(received) == before % 251):
            return CommunicationError(
                "NCCL delivered other values than were sent; use transport='staged'."
            )
    except Exception as wrong:  # whatever the library's binding raises
        return CommunicationError(
            f"NCCL cannot send messages ({type(wrong).__name__}: {wrong}); set NCCL_DEBUG=INFO to "
            "see more, or use transport='staged'."
        )
    return None


# ---- leaving


class _Group(NamedTuple):
    """One rank of a group that no transport uses any more, with a name that all its ranks know."""

    number: int
    name: str
    size: int
    ranks: nccl.NcclRanks
    backend: Device

    def leave(self) -> None:
        """Give everything back, once its work is done. Collective over its ranks."""
        self.backend.communication.synchronize()
        self.ranks.destroy()


_numbers = itertools.count()
_abandoned: list[_Group] = []
_used: weakref.WeakSet[ConnectedTransport] = weakref.WeakSet()


class ConnectedTransport(NcclTransport):
    """A transport whose group is left in order once it is gone. Creation is Collective."""

    def __init__(
        self, base: Communicator, backend: Device, ranks: nccl.NcclRanks, limit: int
    ) -> None:
        super().__init__(base, backend, ranks, limit)
        name = base.bcast(secrets.token_hex(8) if base.rank == 0 else "")
        # Not kept by anything but this object: it may keep the communicator that keeps this.
        self.group = _Group(next(_numbers), name, base.size, ranks, backend)
        _used.add(self)

    def give_up(self) -> None:
        """Stop at once: the group does not work, and is not left in order. Local."""
        self.group.ranks.abort()
        _used.discard(self)
        del self.group

    def __del__(self) -> None:
        if hasattr(self, "group"):
            _abandoned.append(self.group)


def leave_abandoned(base: Communicator) -> None:
    """Leave the groups over these ranks that all of them have let go of. Collective."""
    here = {group.name: group for group in list(_abandoned) if group.size == base.size}
    for name in sorted(set(here).intersection(*base.allgather(set(here)))):
        _abandoned.remove(here[name])
        here[name].leave()


@atexit.register
def _leave_all() -> None:
    """Leave all groups, in the order in which they were connected. Collective, unless this rank
    ends with an error: the others are ended then.
    """
    if failure.is_failing():
        return
    for group in sorted([*_abandoned, *(transport.group for transport in _used)]):
        with contextlib.suppress(Exception):  # nobody is left to be told
            group.leave()
