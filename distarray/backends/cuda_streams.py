"""Streams, events and captured work of a GPU, by the calls of `cupy.cuda`, which are handed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distarray.errors import BackendError

_NOT_READY = 600  # cudaErrorNotReady


def failure(what: str, error: Exception) -> BackendError:
    """An error of CUDA, which may stem from earlier work, as the package's own."""
    if isinstance(error, BackendError):
        return error
    return BackendError(f"The GPU failed at {what}, or in work given before: {error}.")


class CudaEvent:
    """A mark in the work of a stream, without a time."""

    __slots__ = ("_event", "_runtime", "pointer")

    def __init__(self, cuda: Any) -> None:
        self._runtime = cuda.runtime
        self._event = cuda.Event(disable_timing=True)  # destroys the event with the last reference
        self.pointer: int = self._event.ptr

    def synchronize(self) -> None:
        try:
            self._runtime.eventSynchronize(self.pointer)
        except RuntimeError as error:
            raise failure("waiting for its work", error) from error

    def done(self) -> bool:
        status: int = self._runtime.eventQuery(self.pointer)
        if status not in {0, _NOT_READY}:
            error = self._runtime.CUDARuntimeError(status)
            raise failure("its work", error)
        return status == 0


class CudaStream:
    """A queue of work.

    Attributes
    ----------
    pointer : int
        As the CUDA libraries take it.
    cupy : cupy.cuda.Stream
    """

    __slots__ = ("_runtime", "cupy", "name", "pointer")

    def __init__(self, cuda: Any, name: str, stream: Any) -> None:
        self._runtime = cuda.runtime
        self.name = name
        self.cupy = stream
        self.pointer: int = stream.ptr

    def record(self, event: Any) -> None:
        self._runtime.eventRecord(event.pointer, self.pointer)

    def wait(self, event: Any) -> None:
        self._runtime.streamWaitEvent(self.pointer, event.pointer)

    def synchronize(self) -> None:
        try:
            self._runtime.streamSynchronize(self.pointer)
        except RuntimeError as error:
            raise failure("waiting for its work", error) from error


class CudaGraph:
    """Captured work, and the memory that it uses, which nobody else may be given meanwhile."""

    def __init__(self, graph: Any, memory: Sequence[Any]) -> None:
        self._graph = graph
        self._memory = tuple(memory)

    def launch(self, stream: Any) -> None:
        try:
            self._graph.launch(stream.cupy)
        except RuntimeError as error:
            raise failure("launching captured work", error) from error
