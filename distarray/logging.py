"""Messages of a program: printed once, whatever the number of ranks."""

from __future__ import annotations

import sys
from typing import Any

from distarray.comm import default as communicator_for
from distarray.pending import Pending


def log(*values: Any, sep: str = " ", end: str = "\n", comm: Any = None) -> None:
    """Print to standard output on rank 0 only. Collective.

    Parameters
    ----------
    *values : anything that prints
        Pending values are waited for, on all ranks alike.
    sep, end : str
        As for `print`.
    comm : mpi4py communicator or Communicator, optional
        Whose rank 0 prints; by default that of the world if there is one.
    """
    arrived = [value.result() if isinstance(value, Pending) else value for value in values]
    if communicator_for(comm).rank == 0:
        sys.stdout.write(sep.join(map(str, arrived)) + end)
        sys.stdout.flush()
