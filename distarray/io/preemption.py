"""Signals by which a batch system takes its machine back, and the agreement of ranks on what to do.

While a checkpointer is at work, SIGTERM and SIGUSR1 are noted instead of ending the process. Ranks
receive them at different times, or only one does; each save tells the others by a reduction that is
begun in one call and read in the next, so that nobody waits for it.

A signal for which the program has a handler of its own, or which it ignores, stays with it. In
children of the process, and when no checkpointer is left, signals do what they did before.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType

import numpy as np

from distarray.comm.base import Communicator, PendingReduction

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

#: With which a program leaves after the checkpoint that a signal asked for: EX_TEMPFAIL of
#: sysexits.h, "try again later".
EXIT_CODE = 75

#: Seconds in which signals count as one: a launcher and a batch system may both pass one on.
_SAME = 0.1


class _Watch:
    """The handlers of this process and what they noted."""

    def __init__(self) -> None:
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        self.noted: int | None = None
        self._first: float | None = None
        self._taken: list[signal.Signals] = []
        self._pipe: int | None = None  # the end into which Python writes

    def install(self) -> None:
        if self._taken or threading.current_thread() is not threading.main_thread():
            return  # Python sets handlers in the main thread alone
        self._taken = [n for n in SIGNALS if signal.getsignal(n) == signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._handle)
            signal.siginterrupt(number, False)  # calls inside MPI and HDF5 go on
        if self._taken:
            self._look_on()

    def restore(self) -> None:
        """Let signals do what they did before. One that nobody acted on is sent again."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._taken:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)
        self._taken = []
        self._look_away()
        waiting, self.noted, self._first = self.noted, None, None
        if waiting is not None:
            os.kill(os.getpid(), waiting)

    def ignore(self) -> None:
        """Let signals do nothing from now on."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._taken:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_IGN)
        self._taken = []
        self._look_away()
        self.noted, self._first = None, None

    def in_child(self) -> None:
        """After a fork: the child is no rank, and what it receives is not for its parent."""
        self.users.clear()
        self.noted = None
        self.restore()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """In the main thread, between two lines of Python."""
        if not self.users:
            self.noted = None
            self.restore()
            os.kill(os.getpid(), number)
        elif self._pipe is None:
            self._count(number)
        else:
            self.noted = self.noted or number  # the other thread counts

    def _count(self, number: int) -> None:
        now = time.monotonic()
        self.noted = self.noted or number
        if self._first is None:
            self._first = now
        elif now - self._first > _SAME:
            _leave_at_once(number)

    # The main thread may be inside a call of MPI that does not return. To leave at the second
    # signal all the same, a thread reads the signals' numbers from a pipe, into which Python writes
    # them at once.

    def _look_on(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if before != -1:  # an event loop has one of its own
            signal.set_wakeup_fd(before)
            os.close(reading)
            os.close(writing)
            return
        self._pipe = writing
        threading.Thread(
            target=self._read, args=(reading,), name="distarray signals", daemon=True
        ).start()

    def _look_away(self) -> None:
        if self._pipe is None:
            return
        if (number := signal.set_wakeup_fd(-1)) != self._pipe:
            signal.set_wakeup_fd(number)
        os.close(self._pipe)  # which ends the thread, and that closes the other end
        self._pipe = None

    def _read(self, reading: int) -> None:
        while octets := os.read(reading, 64):
            for number in octets:
                if number in SIGNALS and self.users:
                    self._count(number)
        os.close(reading)


def _leave_at_once(number: int) -> None:
    name = signal.Signals(number).name
    os.write(2, f"distarray: left at a second signal, {name}, without a checkpoint.\n".encode())
    os._exit(128 + number)


#: Signals belong to the process, and so does the watch over them.
_watch = _Watch()
os.register_at_fork(after_in_child=_watch.in_child)


def watch(user: object) -> None:
    """Note signals from now on, for as long as `user` lives or until `unwatch`. Local."""
    _watch.users.add(user)
    _watch.install()


def unwatch(user: object) -> None:
    """The last user restores the handlers of before. Local."""
    if user in _watch.users:
        _watch.users.discard(user)
        if not _watch.users:
            _watch.restore()


def noted() -> int:
    """The number of the signal that was noted; 0 for none. Local."""
    return _watch.noted or 0


def acted() -> None:
    """What was noted has been acted on. Local."""
    _watch.noted = None


def leave() -> None:
    """The process ends with `EXIT_CODE`; a signal that comes late must not change that. Local.

    Batch systems send them to all ranks, of which some are slow.
    """
    _watch.ignore()


@contextlib.contextmanager
def noting(*, last: bool) -> Iterator[None]:
    """Note signals while what is enclosed runs, also before its first checkpoint and after its last
    one. What is noted too late for a checkpoint is forgotten: the end is near. Local.

    Parameters
    ----------
    last : bool
        Whether the process ends after this, with a code that signals must not change.
    """
    user = _User()
    watch(user)
    try:
        yield
    finally:
        if last:
            leave()
        acted()
        unwatch(user)


class _User:
    """One who has signals noted; unlike its base, it can be referred to weakly."""


class Agreement:
    """The largest of small numbers over all ranks, begun in one call and read in a later one."""

    def __init__(self) -> None:
        self._pending: PendingReduction | None = None

    def begin(self, communicator: Communicator, values: Sequence[int]) -> None:
        """Collective."""
        self._pending = communicator.begin_allreduce(np.array(values, np.int64), "max")

    def read(self) -> tuple[int, ...] | None:
        """What was begun before; None if nothing was. Local; alike on all ranks."""
        pending, self._pending = self._pending, None
        return None if pending is None else tuple(map(int, pending.result()))
