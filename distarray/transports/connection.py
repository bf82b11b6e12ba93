"""NCCL connected over the ranks of a communicator, tried with one exchange."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np

from distarray.comm import nccl
from distarray.comm.base import Communicator, message_limit
from distarray.errors import CommunicationError
from distarray.transports.base import Device
from distarray.transports.communicator import DeviceCommunicator
from distarray.transports.nccl import NcclTransport

#: The first version that lets ranks share a GPU, and the variable that makes it.
_SHARING, _SHARE = 23000, "NCCL_MULTI_RANK_GPU_ENABLE"
_NBYTES = 64


def connect_nccl(base: Communicator, backend: Device) -> NcclTransport:
    """NCCL over all ranks, each on its device, which is selected already. Collective.

    Raises
    ------
    CommunicationError
        It is missing on some rank, its versions differ, ranks share a GPU, or it does not work; on
        all ranks alike.
    """
    binding, missing, version, device = None, "", 0, ""
    try:
        binding = backend.nccl_binding()
        version, device = binding.version(), binding.device
    except Exception as wrong:  # whatever a library that is not whole raises
        missing = str(wrong) or type(wrong).__name__
    known = base.allgather((missing, version, device, os.environ.get(_SHARE) == "1"))
    obstacle = _obstacle(known)
    if obstacle is not None or binding is None:
        raise obstacle or CommunicationError("There is no NCCL; use transport='staged'.")
    ranks = nccl.connect(binding, base)
    limit = int(base.allreduce(np.array([message_limit()], np.int64), "min")[0])
    transport = NcclTransport(base, backend, ranks, limit)
    _warm_up(base, backend, transport)
    return transport


def _obstacle(known: list[tuple[str, int, str, bool]]) -> CommunicationError | None:
    """What all ranks' findings say against NCCL; the same everywhere."""
    for rank, (missing, *_) in enumerate(known):
        if missing:
            return CommunicationError(f"NCCL is missing on rank {rank}: {missing}")
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
    error = None
    try:
        after, before = (base.rank + 1) % base.size, (base.rank - 1) % base.size
        sent, received = backend.buffer(_NBYTES), backend.buffer(_NBYTES)
        sent[...] = np.full(_NBYTES, base.rank % 251, np.uint8)
        communicator = DeviceCommunicator(base, backend, transport)
        communicator.exchange([(after, sent)], [(before, received)])
        if not np.all(backend.to_host(received) == before % 251):
            error = CommunicationError(
                "NCCL delivered other values than were sent; use transport='staged'."
            )
    except Exception as wrong:  # whatever the library's binding raises
        error = CommunicationError(
            f"NCCL cannot send messages ({type(wrong).__name__}: {wrong}); set NCCL_DEBUG=INFO to "
            "see more, or use transport='staged'."
        )
    base.agree(error)
