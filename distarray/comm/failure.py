"""A rank that fails ends all ranks, and says why once.

An exception that nobody catches, KeyboardInterrupt and `sys.exit` with a code other than 0 leave
the other ranks waiting for messages that never come. The hooks set here print the rank and the
traceback, then end the whole job.

An error that all ranks have (bad input) is printed once: rank 0 prints and ends the job at once,
the others wait a moment first, during which they are ended if rank 0 failed too.

`sys.exit` is no error to Python's hooks. It is replaced (and with it `exit` and `quit`, which call
it) by one that watches the exception it raises: one that is caught goes while Python code runs, one
that ends the program goes when none is left to run. Not seen are a plain `raise SystemExit(code)`,
of which Python keeps neither exception nor code for the functions that it calls at its end, and a
`sys.exit` that was looked up before `note_exits` was called, at the import of the package.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NoReturn

#: Seconds that ranks other than 0 leave rank 0 to report an error that all have.
_PATIENCE = 2.0


class _Exit(SystemExit):
    """What `sys.exit` raises; unlike its base, it can be watched through a weak reference."""


@dataclass
class _Exits:
    """What is known of calls of `sys.exit`."""

    noted: bool = False
    #: The exception of the last call.
    last: weakref.ref[_Exit] | None = None
    #: Code and place of the call that ended the program.
    code: Any = None
    place: str = ""


_exits = _Exits()


def note_exits() -> None:
    """Note from now on which `sys.exit` ends the program. Local."""
    if not _exits.noted:
        _exits.noted = True
        sys.exit = _noted_exit
        _note_quitters()


def _note_quitters() -> None:
    """Let `exit` and `quit` of Python's site module do as `sys.exit` does; others stay."""
    for name in ("exit", "quit"):
        kind = type(getattr(builtins, name, None))
        if kind.__name__ == "Quitter":
            kind.__call__ = _quit  # type: ignore[method-assign]


def _quit(_quitter: Any, code: Any = None) -> NoReturn:
    with contextlib.suppress(Exception):  # as the original does, for shells that read on
        sys.stdin.close()
    _leave(code, sys._getframe(1))


def _noted_exit(status: Any = None, /) -> NoReturn:
    _leave(status, sys._getframe(1))


def _leave(status: Any, caller: FrameType) -> NoReturn:
    place = "".join(traceback.format_stack(caller))
    leaving = _Exit() if status is None else _Exit(status)
    _exits.last = weakref.ref(leaving, lambda _: _gone(status, place))
    try:
        raise leaving
    finally:
        del leaving  # or it would keep itself alive through its traceback


def _gone(status: Any, place: str) -> None:
    """The exception of a `sys.exit` is gone: it ended the program if no Python code called this."""
    caller = sys._getframe(1)
    if caller.f_back is None and threading.current_thread() is threading.main_thread():
        _exits.code, _exits.place = status, place


def is_failing() -> bool:
    """Whether `sys.exit` with an error code ends the program, as known at the exit. Local."""
    return _exits.code is not None and _exits.code != 0


@dataclass
class _Watch:
    """The hooks of this process and what they need to know."""

    rank: int
    size: int
    end_all: Callable[[int], None]
    #: Whether another rank is known to report the same failure.
    silent: bool = False
    process: int = field(default_factory=os.getpid)

    def fail(self, text: str, code: int) -> None:
        """Print the text with this rank's number, then end all ranks."""
        if self.rank != 0:
            time.sleep(_PATIENCE)
        if self.silent:
            self.end_all(code)
        sys.stdout.flush()
        sys.stderr.write(
            f"distarray: rank {self.rank} of {self.size} failed, all ranks are ended.\n{text}"
        )
        sys.stderr.flush()
        self.end_all(code)

    def in_this_process(self) -> bool:
        """False in a child made by fork, which inherits the hooks but is no rank."""
        return os.getpid() == self.process


#: The hooks of this process; at most one.
_installed: list[_Watch] = []


def install(rank: int, size: int, end_all: Callable[[int], None], *, silent: bool = False) -> None:
    """End all ranks by `end_all(code)` when this rank fails; the last call counts. Local.

    `silent` ranks leave it to rank 0 to print the failure that all of them have.
    """
    watch = _Watch(rank, size, end_all, silent)
    if _installed:
        vars(_installed[0]).update(vars(watch))
        return
    _installed.append(watch)
    _hook_exceptions(watch)
    note_exits()
    atexit.register(_report_exit, watch)


def _hook_exceptions(watch: _Watch) -> None:
    previous = sys.excepthook

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not watch.in_this_process():
            previous(kind, error, trace)
            return
        code = 130 if issubclass(kind, KeyboardInterrupt) else 1
        watch.fail("".join(traceback.format_exception(kind, error, trace)), code)

    sys.excepthook = report


def _report_exit(watch: _Watch) -> None:
    """When the interpreter exits: end all ranks if `sys.exit` with an error code is the reason."""
    code = _exits.code
    if code is None or code == 0 or not watch.in_this_process():
        return
    number = code if isinstance(code, int) else 1
    watch.fail(f"sys.exit({code!r}) was called here:\n{_exits.place}", number)


@contextlib.contextmanager
def deadline(action: str, seconds: float) -> Iterator[list[str]]:
    """End all ranks if what is enclosed takes longer, for calls of other libraries that wait for
    ranks which may have failed. Local.

    The list is for reasons why it may never end: they are printed, before what ranks print that
    only wait.
    """
    reasons: list[str] = []
    waiting = threading.get_ident()

    def end() -> None:
        if not reasons:
            time.sleep(_PATIENCE)
        frames = traceback.format_stack(sys._current_frames().get(waiting))
        why = "".join(f"{reason}\n" for reason in reasons)
        text = f"{action}, which has not ended after {seconds:g} s.\n{why}It is here:\n"
        _end_late(text + "".join(frames))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield reasons
    finally:
        timer.cancel()


def _end_late(text: str) -> None:
    """Print the text with this rank's number, then end all ranks, from any thread."""
    watch = _installed[0] if _installed else _Watch(0, 1, os._exit)
    sys.stderr.write(f"distarray: rank {watch.rank} of {watch.size} waits too long: {text}")
    sys.stderr.flush()
    watch.end_all(1)
