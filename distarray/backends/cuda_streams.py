"""Streams, events and captured work of a GPU, by the calls of `cupy.cuda`, which are handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distarray.errors import BackendError
from distarray.launcher import launched

_NOT_READY = 600  # cudaErrorNotReady


@dataclass(frozen=True)
class Gpu:
    """The GPU of this process: CuPy's calls for it, and what errors call it.

    Attributes
    ----------
    cuda : module
        `cupy.cuda`.
    index : int
        As CUDA counts the visible GPUs.
    """

    cuda: Any
    index: int

    @property
    def name(self) -> str:
        process = launched()
        return f"GPU {self.index}" + ("" if process is None else f" of rank {process.rank}")

    def failure(self, what: str, error: Exception) -> BackendError:
        """An error of CUDA, which may stem from earlier work, as the package's own."""
        if isinstance(error, BackendError):
            return error
        return BackendError(
            f"{self.name} failed at {what}, or in work given before: {error}; set "
            "CUDA_LAUNCH_BLOCKING=1 to find the call."
        )


class CudaEvent:
    """A mark in the work of a stream, without a time."""

    __slots__ = ("_event", "_gpu", "_runtime", "pointer")

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self._runtime = gpu, gpu.cuda.runtime
        try:
            # Destroys the event with the last reference.
            self._event = gpu.cuda.Event(disable_timing=True)
        except RuntimeError as error:
            raise gpu.failure("making an event", error) from error
        self.pointer: int = self._event.ptr

    def synchronize(self) -> None:
        """Return when the work before the mark is done. Local."""
        try:
            self._runtime.eventSynchronize(self.pointer)
        except RuntimeError as error:
            raise self._gpu.failure("waiting for its work", error) from error

    def done(self) -> bool:
        """Whether it is. Local."""
        status: int = self._runtime.eventQuery(self.pointer)
        if status not in {0, _NOT_READY}:
            raise self._gpu.failure("its work", self._runtime.CUDARuntimeError(status))
        return status == 0


class CudaStream:
    """A queue of work.

    Attributes
    ----------
    pointer : int
        As the CUDA libraries take it.
    cupy : cupy.cuda.Stream or None
        None for a stream of another library, known by its pointer alone.
    """

    __slots__ = ("_gpu", "_runtime", "cupy", "name", "pointer")

    def __init__(self, gpu: Gpu, name: str, stream: Any) -> None:
        self._gpu, self._runtime = gpu, gpu.cuda.runtime
        self.name = name
        self.cupy: Any = None if isinstance(stream, int) else stream
        self.pointer: int = stream if isinstance(stream, int) else stream.ptr

    def record(self, event: Any) -> None:
        """Let the event stand for all work given so far. Local."""
        try:
            self._runtime.eventRecord(event.pointer, self.pointer)
        except RuntimeError as error:
            raise self._gpu.failure("recording an event", error) from error

    def wait(self, event: Any) -> None:
        """Let the work given from now on run after what the event stands for. Local."""
        try:
            self._runtime.streamWaitEvent(self.pointer, event.pointer)
        except RuntimeError as error:
            raise self._gpu.failure("letting a stream wait for an event", error) from error

    def synchronize(self) -> None:
        """Return when all work given so far is done. Local."""
        try:
            self._runtime.streamSynchronize(self.pointer)
        except RuntimeError as error:
            raise self._gpu.failure("waiting for its work", error) from error


class CudaGraph:
    """Captured work, and the memory that it uses, which nobody else may be given meanwhile."""

    def __init__(self, gpu: Gpu, graph: Any, memory: Sequence[Any]) -> None:
        self._gpu, self._graph = gpu, graph
        self._memory = tuple(memory)

    def launch(self, stream: Any) -> None:
        """Give the work to a stream again. Local."""
        try:
            self._graph.launch(stream.cupy)
        except RuntimeError as error:
            raise self._gpu.failure("launching captured work", error) from error
