"""A rank that fails ends all ranks, and says why once.

An exception that nobody catches, KeyboardInterrupt and `sys.exit` with a code other than 0 leave
the other ranks waiting for messages that never come. The hooks set here print the rank and the
traceback, then end the whole job.

An error that all ranks have (bad input) is printed once: rank 0 prints and ends the job at once,
the others wait a moment first, during which they are ended if rank 0 failed too.

`sys.exit` is no error to Python's hooks. Its code is noted when it is called; whether it ended the
program is seen when the interpreter exits: the outermost frame then has stopped somewhere else than
at a return. What cannot be seen is the code of a plain `raise SystemExit(code)`, and a `sys.exit`
that was looked up before `note_exits` was called, at the import of the package.
"""

from __future__ import annotations

import atexit
import dis
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NoReturn

#: Seconds that ranks other than 0 leave rank 0 to report an error that all have.
_PATIENCE = 2.0


@dataclass
class _LastExit:
    """Code and place of the last call of `sys.exit`."""

    code: Any = None
    place: str = ""
    noted: bool = False


_last_exit = _LastExit()


def note_exits() -> None:
    """Note the code of each `sys.exit` from now on. Local."""
    if _last_exit.noted:
        return
    _last_exit.noted = True
    leave = sys.exit

    def noted_exit(status: Any = None, /) -> NoReturn:
        _last_exit.code = status
        _last_exit.place = "".join(traceback.format_stack(sys._getframe(1)))
        leave(status)

    sys.exit = noted_exit


@dataclass
class _Watch:
    """The hooks of this process and what they need to know."""

    rank: int
    size: int
    end_all: Callable[[int], None]
    outermost: FrameType | None
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
    """End all ranks by `end_all(code)` when this rank fails. Later calls do nothing. Local.

    `silent` ranks leave it to rank 0 to print the failure that all of them have.
    """
    if _installed:
        return
    watch = _Watch(rank, size, end_all, _outermost_frame(), silent)
    _installed.append(watch)
    _hook_exceptions(watch)
    note_exits()
    atexit.register(_report_exit, watch)


def _outermost_frame() -> FrameType | None:
    """The frame whose end is the end of the program; None off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


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
    code = _last_exit.code
    if code is None or code == 0 or not watch.in_this_process() or not _unwound(watch.outermost):
        return
    number = code if isinstance(code, int) else 1
    watch.fail(f"sys.exit({code!r}) was called here:\n{_last_exit.place}", number)


def _unwound(frame: FrameType | None) -> bool:
    """Whether a finished frame was left by an exception instead of by a return."""
    if frame is None:
        return False
    return not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
