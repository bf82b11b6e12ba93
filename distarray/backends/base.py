"""What a device must offer. The rest of the package knows devices through this protocol only.

Work on a device goes through streams: what one stream is given runs in order, after what was
recorded by the events it waits for. The host goes on at once. On the CPU everything is done when
the call returns, and streams and events do nothing, so that one text serves all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray.arraylike import HostArray
from distarray.errors import BackendError

if TYPE_CHECKING:
    from distarray.stencil.expression import Program
    from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry


@dataclass(frozen=True)
class BoxCopy:
    """One strided copy between two arrays of equal shape and dtype on the backend."""

    source: Any
    target: Any

    def require_alike(self) -> None:
        """Refuse sides of different shape or dtype. Local."""
        source, target = self.source, self.target
        if source.shape != target.shape or source.dtype != target.dtype:
            raise BackendError(
                f"A copy goes from shape {source.shape}, {source.dtype} to {target.shape}, "
                f"{target.dtype}; both sides must agree, so convert or reshape one."
            )


class Event(Protocol):
    """A mark in the work of a stream, set by `Stream.record`; nothing before it was recorded."""

    def synchronize(self) -> None:
        """Return when the work before the mark is done. Local."""
        ...

    def done(self) -> bool:
        """Whether it is. Local."""
        ...


class Stream(Protocol):
    """A queue of work on a device."""

    name: str

    def record(self, event: Event) -> None:
        """Let the event stand for all work given so far. Local."""
        ...

    def wait(self, event: Event) -> None:
        """Let the work given from now on run after what the event now stands for. Local."""
        ...

    def synchronize(self) -> None:
        """Return when all work given so far is done. Local."""
        ...


class Graph(Protocol):
    """Captured work that is given to a stream again by one call."""

    def launch(self, stream: Stream) -> None: ...


class CopyList(Protocol):
    """Prepared copies that are carried out by one call, as work of a stream (compute for None)."""

    def __call__(self, stream: Stream | None = None) -> None: ...


class Backend(Protocol):
    """Memory and kernels of one device.

    Attributes
    ----------
    name : "cpu", "cuda" or "simulated"
    host : bool
        Whether its arrays are NumPy arrays that the host may use at any time. Others are
        `DeviceArray`s, whose shape, strides and basic views the host knows, and whose values it
        gets by `to_host`.
    compute, communication : Stream
        Kernels and array operations are given to `compute`; packing, unpacking and transfers of
        messages to `communication`, which has the higher priority.
    """

    name: str
    host: bool
    compute: Stream
    communication: Stream

    def event(self) -> Event:
        """A new event. Local."""
        ...

    def allocate(
        self,
        components: tuple[int, ...],
        shape: tuple[int, ...],
        halo: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        again: bool = False,
    ) -> Any:
        """Zeroed memory for one block, shape components + shape (halo included in shape). `again`
        permits that of a block that is gone, whose owned values are any. Local.

        The last axis is contiguous. The first row, or its owned part, starts a cache line, and so
        does each on devices and where vectors are as wide as a line. Pitches are chosen so that
        rows, planes and components do not share cache sets.
        """
        ...

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A contiguous array without values. Local."""
        ...

    def buffer(self, nbytes: int) -> Any:
        """A contiguous byte buffer for messages, kept for life by its owner. Local."""
        ...

    def pinned(self, nbytes: int) -> HostArray:
        """Contiguous bytes of the host that the device reaches without a further copy. Local."""
        ...

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies to be carried out later, many times, by one call each. Local."""
        ...

    def prepare_map(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        target: Any,
        where: Any = None,
    ) -> Callable[[], None]:
        """The call, to be made many times, of a ufunc (or `np.copyto` of one operand) into
        `target`; `where` is a boolean array of the target's shape or None. Local.

        Operands are arrays of the backend or numbers that do not change.
        """
        ...

    def to_host(self, values: Any) -> HostArray:
        """A host array with the values, once the compute stream has made them; may share memory on
        the CPU. Local.
        """
        ...

    def asarray(self, values: HostArray) -> Any:
        """The values of a host array on the device; may share memory on the CPU. Local."""
        ...

    def begin_to_host(self, source: Any, target: HostArray, stream: Stream) -> None:
        """Give a stream the copy of a contiguous array into pinned memory of as many bytes. The
        host may read `target` once an event recorded afterwards is done. Local.
        """
        ...

    def begin_to_device(self, source: HostArray, target: Any, stream: Stream) -> None:
        """Give a stream the copy of pinned memory into a contiguous array of as many bytes. The
        host may write `source` again once an event recorded afterwards is done. Local.
        """
        ...

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        """Say that the host, or MPI on its behalf, now reads or writes pinned memory or a message
        buffer. Local.

        The simulated device reports a race if work of a stream is not known to be done; others do
        nothing.
        """
        ...

    def message_memory(self, buffer: Any) -> Any:
        """A message buffer as MPI takes it: by its address on the device. Local."""
        ...

    def bind(
        self, program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry
    ) -> BoundLaunch:
        """A launch of the program on arrays of this backend. Local."""
        ...

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled C function of the host, or None where nothing compiles. Local.

        Compiled once per node and cached for the user alone.
        """
        ...

    def begin_capture(self) -> bool:
        """Keep the work given from now on instead of doing it, if the device can; whether it does.
        Local.
        """
        ...

    def end_capture(self) -> Graph:
        """The work kept since `begin_capture`. Local."""
        ...
