"""A checkpoint that is written behind the run: the state is copied, a thread writes the copy.

The thread of each rank makes no MPI call. What ranks do together is done on the main thread, by
`advance`, in the calls of a checkpointer that find the threads of all ranks ready; it takes no
longer than a message:

    copy                       the run is held for this alone
    thread    create           root lays out the file
    together  share            where arrays start
    thread    write            this rank's values to their places in the file
    together  combine          the checksums of all ranks
    thread    check            sealed by root; this rank's share read back; flushed to the disk
    together  rename           once all ranks have checked it
    thread    settle           root flushes the folder, and lists the file
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from distarray.array import DistArray
from distarray.backends.base import BoxCopy
from distarray.io.agreement import agreed
from distarray.io.write import WritePlan

Values = np.ndarray[Any, Any]


class Copies:
    """Host memory for what this rank owns of arrays, kept from one checkpoint to the next."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, Values]] = []

    def take(self, arrays: Iterable[DistArray]) -> list[Values]:
        """Copies of the owned values; those of the last call are overwritten. Local."""
        kept, self._kept = self._kept, []
        for k, array in enumerate(arrays):
            backend = array.block.backend
            memory = kept[k][1] if k < len(kept) and kept[k][0] is backend else None
            if memory is None or memory.size != array.local.nbytes:
                memory = _memory(array)
            self._kept.append((backend, memory))
            _copy(array, memory.view(array.dtype).reshape(array.local_shape))
        return [
            memory.view(array.dtype).reshape(array.local_shape)
            for array, (_, memory) in zip(arrays, self._kept, strict=True)
        ]


def _memory(array: DistArray) -> Values:
    """Bytes for the owned values: pinned ones for an array on a device, which fills them fast."""
    backend, nbytes = array.block.backend, array.local.nbytes
    return np.empty(nbytes, np.uint8) if backend.host else backend.pinned(nbytes)


def _copy(array: DistArray, target: Values) -> None:
    backend, local = array.block.backend, array.local
    if backend.host:
        target[...] = local
    elif local.nbytes:
        packed = backend.empty(local.shape, local.dtype)
        backend.prepare_copies([BoxCopy(local, packed)])()
        octets = target.reshape(-1).view(np.uint8)
        backend.begin_to_host(packed, octets, backend.compute)
        arrived = backend.event()
        backend.compute.record(arrived)
        arrived.synchronize()
        backend.host_access(octets, write=False, what="a checkpoint")


class _Task:
    """One piece of work of this rank on another thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="distarray checkpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # raised where the result is asked for
            self._error = error

    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Return once it is done."""
        self._thread.join()

    def result(self) -> None:
        """Return once it is done, or raise what it raised."""
        self.wait()
        if self._error is not None:
            raise self._error


class BackgroundWrite:
    """A file on its way behind the run.

    Parameters
    ----------
    plan : WritePlan
        The file, not yet laid out.
    copies : list of ndarray
        What this rank owns of each array; must not change until `advance` has said that the file is
        in place.
    listed : function
        Called last of all, on root, on another thread, once the file is in place.
    """

    def __init__(self, plan: WritePlan, copies: list[Values], listed: Callable[[], None]) -> None:
        self.plan = plan
        self._listed = listed
        self._subject = f"The file '{plan.partial}' cannot be written"
        self._copies = copies
        self._stage = 0
        self._task = self._creating = _Task(plan.create)
        self._dropped = weakref.finalize(self, _say_dropped, plan, self._creating)

    def _next(self) -> tuple[Callable[[], None], Callable[[], None]] | None:
        """What ranks do together next, and what threads do then; None once all is done."""
        plan, copies, listed = self.plan, self._copies, self._listed

        def settle() -> None:
            plan.settle()
            if plan.communicator.rank == 0:
                listed()

        stages = (
            (plan.share, lambda: plan.write_here(copies)),
            (plan.combine, plan.check),
            (self._rename, settle),
        )
        self._stage += 1
        return stages[self._stage - 1] if self._stage <= len(stages) else None

    def _rename(self) -> None:
        target = self.plan.target
        with agreed(self.plan.communicator, f"The file '{target}' cannot be put in place"):
            self.plan.rename()
        self._subject = f"The folder '{os.path.dirname(target)}' cannot be written"

    def let_go(self) -> None:
        """Give the file up without a word to other ranks; others may replace it. Local."""
        _let_go(self.plan, self._creating)

    def busy(self) -> bool:
        """Whether this rank's thread is still at work. Local."""
        return not self._task.done()

    def advance(self) -> bool:
        """Wait for the threads of all ranks and go on; whether the file is in place and all is
        done. Collective.

        Raises
        ------
        FileError
            On all ranks, if the thread of one has met an error; nothing of the file is left, unless
            it has its name.
        """
        plan = self.plan
        try:
            with agreed(plan.communicator, self._subject):
                self._task.result()
            stage = self._next()
            if stage is None:
                self._dropped.detach()
                return True
            together, behind = stage
            together()
        except BaseException:
            self._dropped.detach()
            plan.abandon()
            raise
        self._task = _Task(behind)
        return False


def _let_go(plan: WritePlan, creating: _Task) -> None:
    """Let others, in this process too, replace the file; it must not be created after that."""
    creating.wait()
    plan.let_go()


def _say_dropped(plan: WritePlan, creating: _Task) -> None:
    """The program, or its checkpointer, went without `close`."""
    _let_go(plan, creating)
    if plan.communicator.rank == 0:
        sys.stderr.write(
            f"distarray: the checkpoint '{plan.target}' was not finished, since its checkpointer "
            "was not closed.\n"
        )
