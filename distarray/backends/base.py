"""What a device must offer. The rest of the package knows devices through this protocol only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class BoxCopy:
    """One strided copy between two arrays of equal shape and dtype on the backend."""

    source: Any
    target: Any


class CopyList(Protocol):
    """Prepared copies that are carried out by one call."""

    def __call__(self) -> None: ...


class Backend(Protocol):
    """Memory and kernels of one device."""

    name: str

    def allocate(
        self,
        components: tuple[int, ...],
        shape: tuple[int, ...],
        halo: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Any:
        """Zeroed memory for one block, shape components + shape (halo included in shape), its rows
        padded. Local.

        The last axis is contiguous. Each row, or its owned part, starts a cache line. The row
        pitch is chosen so that rows, planes and components do not share cache sets.
        """
        ...

    def buffer(self, nbytes: int) -> Any:
        """A contiguous byte buffer for messages, kept for life by its owner. Local."""
        ...

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies to be carried out later, many times, by one call each. Local."""
        ...

    def to_host(self, values: Any) -> np.ndarray[Any, Any]:
        """A host array with the values; may share memory on the CPU. Local."""
        ...

    def asarray(self, values: np.ndarray[Any, Any]) -> Any:
        """The values of a host array on the device; may share memory on the CPU. Local."""
        ...

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled function from source text in the backend's language, or None where nothing
        compiles. Local.

        Compiled once per node and cached for the user alone.
        """
        ...
