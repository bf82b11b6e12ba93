"""What ranks need from one another. The rest of the package knows MPI through this protocol only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

#: (other rank, contiguous buffer of bytes or numbers)
Transfer = tuple[int, Any]


class Request(Protocol):
    """Communication under way."""

    def test(self) -> bool:
        """Whether it has completed; lets messages progress. Local."""
        ...

    def wait(self) -> None:
        """Return when it has completed. Local."""
        ...


class PersistentExchange(Protocol):
    """Sends and receives that are replayed many times with the same buffers."""

    def start(self) -> Request:
        """Start all of them. At most one start may be under way. Local."""
        ...


class PendingReduction(Protocol):
    """An all-reduce under way."""

    def test(self) -> bool: ...

    def result(self) -> np.ndarray[Any, Any]:
        """The reduced array, once complete. Local; may be called many times."""
        ...


class Communicator(Protocol):
    """A group of ranks. Messages larger than the library's limit are split inside.

    `op` is "sum", "prod", "min", "max"; bool arrays use "min" for all and "max" for any.
    """

    rank: int
    size: int

    def barrier(self) -> None: ...

    def bcast(self, value: Any, root: int = 0) -> Any:
        """A small Python object (plain data) from root on every rank. Collective."""
        ...

    def allreduce(self, values: np.ndarray[Any, Any], op: str) -> np.ndarray[Any, Any]:
        """Elementwise reduction of equal-shaped host arrays. Collective."""
        ...

    def begin_allreduce(self, values: np.ndarray[Any, Any], op: str) -> PendingReduction:
        """Start an all-reduce; `values` may be reused at once. Collective."""
        ...

    def prepare_exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> PersistentExchange:
        """Set up a replayed exchange: at most one message per direction and rank; pairs match by order. Local."""
        ...

    def exchange(self, sends: Sequence[Transfer], receives: Sequence[Transfer]) -> None:
        """Send and receive once; empty buffers are skipped on both sides. Collective over those concerned."""
        ...

    def split(self, colour: int, key: int) -> Communicator:
        """The group of ranks with the same colour, ordered by key. Collective."""
        ...

    def agree(self, error: Exception | None) -> None:
        """Raise the same error on all ranks if any rank has one: the lowest such rank's. Collective."""
        ...

    def abort(self, code: int = 1) -> None:
        """End all ranks. Local."""
        ...
