"""Helpers for tests that run on several ranks.

Every check fails on all ranks together, so that a failing test ends instead of hanging. Start such
tests with `mpirun -n 4 python -m pytest test_mine.py`; each rank then runs the same test functions.
Expected values come from NumPy on the whole array:

>>> import numpy as np
>>> import distarray as da
>>> from distarray.testing import assert_equal, process_grids
>>> for ranks in process_grids(1, 2):
...     u = da.asarray(np.arange(12.0).reshape(3, 4), ranks=ranks)
...     assert_equal(u + 1.0, np.arange(12.0).reshape(3, 4) + 1.0)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.comm import default
from distarray.comm.base import Communicator, PersistentExchange, Request, Transfer
from distarray.decomposition import factorisations
from distarray.deferred import settle_readers

__all__ = [
    "WatchedCommunicator",
    "assert_equal",
    "assert_same_on_all_ranks",
    "process_grids",
    "wipe_halo",
]


def process_grids(size: int, ndim: int) -> list[tuple[int, ...]]:
    """Every process grid of `size` ranks with `ndim` axes. Local."""
    return list(factorisations(size, ndim))


def assert_equal(array: DistArray, expected: Any, *, tolerance: float = 0.0) -> None:
    """Check all values against a host array that every rank has. Collective.

    Parameters
    ----------
    array : DistArray
    expected : array_like of the global shape
    tolerance : largest absolute difference; 0.0 compares exactly (NaN equals NaN)

    Raises
    ------
    AssertionError
        On all ranks, with the place and size of the largest difference.
    """
    found = np.asarray(array.gather())
    wanted = np.asarray(expected)
    if found.shape != wanted.shape:
        raise AssertionError(f"The shape is {found.shape}, not {wanted.shape}.")
    wrong = ~np.isclose(found, wanted, rtol=0.0, atol=tolerance, equal_nan=True)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} values differ, the first at {place}: "
            f"{found[place]!r}, not {wanted[place]!r}."
        )


def assert_same_on_all_ranks(value: Any, comm: Any = None) -> None:
    """Check that every rank has the same bits. Collective over `comm` (default as for a grid).

    Parameters
    ----------
    value : array_like or str

    Raises
    ------
    AssertionError
        On all ranks, naming those that differ from rank 0.
    """
    communicator = default(comm)
    digest = np.frombuffer(hashlib.sha256(_bits(value)).digest(), np.int64)
    all_digests = np.zeros((communicator.size, digest.size), np.int64)
    all_digests[communicator.rank] = digest
    all_digests = communicator.allreduce(all_digests, "sum")
    others = [r for r in range(communicator.size) if (all_digests[r] != all_digests[0]).any()]
    if others:
        raise AssertionError(f"Ranks {others} have another value than rank 0.")


def _bits(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value)
    return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()


def wipe_halo(array: DistArray) -> None:
    """Overwrite the halo and boundary layers, so that a missing refresh shows. Collective.

    Floats become NaN, other types their largest value. The owned values stay; the halo counts as
    stale.
    """
    block = array.block
    settle_readers(block)
    memory = block.component(array.component_prefix)
    owned = (..., *block.owned.slices(block.padded.start))
    kept = memory[owned].copy()
    memory[...] = _filler(array.dtype)
    memory[owned] = kept
    block.changed(array.component_prefix)


def _filler(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fc":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).max


class WatchedCommunicator:
    """A communicator that notes its halo exchanges and may delay what they deliver. Local to use.

    Give it to a grid as `comm`. Everything else goes to the communicator that it wraps.

    Parameters
    ----------
    comm : as for a grid
    polls : int
        An exchange is complete when it has been polled this many times and its messages are there;
        waiting for it makes the polls that are missing.

    Attributes
    ----------
    sent : list of list of (rank, bytes)
        For every exchange started since `clear`, the messages sent.
    log : list of str
        In order: "start", "poll" (while something else may be computed), "wait" for every poll that
        waiting had to make, "done". A test may add entries of its own.
    """

    #: No message goes by memory that ranks share, where none would be noted.
    shared_memory = None

    def __init__(self, comm: Any = None, *, polls: int = 0) -> None:
        self.inner: Communicator = default(comm)
        self.polls = polls
        self.on_devices: dict[tuple[str, str], Any] = {}
        self.kept: dict[str, Any] = {}
        self.sent: list[list[tuple[int, int]]] = []
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def clear(self) -> None:
        """Forget what was noted."""
        self.sent.clear()
        self.log.clear()

    def prepare_exchange(
        self, sends: Sequence[Transfer], receives: Sequence[Transfer]
    ) -> PersistentExchange:
        """As the wrapped communicator's, watched."""
        return _WatchedExchange(self, self.inner.prepare_exchange(sends, receives), sends)


class _WatchedExchange:
    def __init__(
        self, watcher: WatchedCommunicator, exchange: PersistentExchange, sends: Sequence[Transfer]
    ) -> None:
        self._watcher, self._exchange = watcher, exchange
        self._messages = [(rank, int(buffer.nbytes)) for rank, buffer in sends if buffer.nbytes]

    def start(self) -> Request:
        self._watcher.sent.append(self._messages)
        self._watcher.log.append("start")
        return _DelayedRequest(self._watcher, self._exchange.start())


class _DelayedRequest:
    """Complete after a number of polls; see `WatchedCommunicator`."""

    def __init__(self, watcher: WatchedCommunicator, request: Request) -> None:
        self._watcher, self._request, self._missing = watcher, request, watcher.polls

    def test(self) -> bool:
        self._watcher.log.append("poll")
        self._missing -= 1
        return self._request.test() and self._missing <= 0

    def wait(self) -> None:
        self._watcher.log.extend(["wait"] * max(0, self._missing))
        self._request.wait()
        self._watcher.log.append("done")
