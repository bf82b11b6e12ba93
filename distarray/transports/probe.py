"""Whether a message of device memory arrives: `python -m distarray.transports.probe DEVICE`.

Run in a process of its own, since an MPI that does not take device memory crashes. The process is
one rank that sends to itself.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from distarray.arguments import backend_for
from distarray.comm import default
from distarray.transports.detection import ARRIVED, DID_NOT_ARRIVE, NOT_TRIED

_NBYTES = 1 << 20  # beyond what libraries send eagerly


def main(device: str) -> int:
    """Try it; an exit code. Local."""
    os.environ["DISTARRAY_COMM"] = "world"
    try:
        backend = backend_for(device)
        communicator = default()
        sent, received = backend.buffer(_NBYTES), backend.buffer(_NBYTES)
        expected = np.arange(_NBYTES).astype(np.uint8)
        sent[...] = expected
        backend.compute.synchronize()
    except Exception:  # whatever a machine without device or MPI raises
        return NOT_TRIED
    rank = communicator.rank
    communicator.exchange(
        [(rank, backend.message_memory(sent))], [(rank, backend.message_memory(received))]
    )
    arrived = np.array_equal(backend.to_host(received), expected)
    return ARRIVED if arrived else DID_NOT_ARRIVE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
