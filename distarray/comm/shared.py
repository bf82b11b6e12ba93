"""Memory that the ranks of a node share: a file in memory that all of them map.

MPI's own windows do the same, but Open MPI's write to standard error where one of their parts is
missing, and a full disk in memory ends the program where here it is noticed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distarray.arraylike import HostArray

#: Where files are memory; elsewhere nothing is shared.
FOLDER = "/dev/shm"


@dataclass(frozen=True, eq=False)
class SharedMemory:
    """Memory of one node.

    Attributes
    ----------
    ranks : sequence of int
        Those that share it, in order: ranks of the communicator that made it.
    memory : ndarray of uint8
        Zeroed at first.
    """

    ranks: Sequence[int]
    memory: HostArray


def create(nbytes: int) -> str | None:
    """A new file of the user alone whose memory is there; None where that is impossible. Local."""
    path = None
    try:
        descriptor, path = tempfile.mkstemp(prefix="distarray-", dir=FOLDER)
        try:
            os.posix_fallocate(descriptor, 0, max(1, nbytes))
        finally:
            os.close(descriptor)
    except (AttributeError, OSError):  # systems without such calls or such a folder, or it is full
        remove(path)
        return None
    return path


def attach(path: str | None) -> HostArray | None:
    """The memory of a file, or None. Local."""
    if path is None:
        return None
    try:
        with open(path, "r+b") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    except (OSError, ValueError):
        return None


def remove(path: str | None) -> None:
    """Take the name away; the memory lives as long as it is mapped. Local."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
