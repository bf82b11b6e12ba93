"""The line that says how far a run is: step, time, dt, residual, cells/s and the remaining time."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solvers.base import Solver


#: Seconds of a first step after which it is said why.
_LONG = 10.0
#: Seconds of a remaining time that is still said.
_LONGEST = 365.0 * 86400.0


class Progress:
    """Shows a solver's state on standard error now and then. Local; enable it on one rank.

    On a terminal the line is rewritten in place twice a second; elsewhere a line is printed every
    five seconds, both after the step, or the steps made at once, in which that is due. The last
    state is always printed. Rate and remaining time are those of the steps after the first, for
    which kernels are compiled: a line says so if that takes long.
    """

    def __init__(
        self, solver: Solver, *, until: float | None, steady: float | None, enabled: bool
    ) -> None:
        self._solver, self._until, self._steady, self._enabled = solver, until, steady, enabled
        self._terminal = sys.stderr.isatty()
        self._interval = 0.5 if self._terminal else 5.0
        self._cells = math.prod(solver.grid.shape)
        self._first_step = self._mark_step = solver.step_count
        self._first_time = self._mark_time = solver.time
        self._began = self._shown = self._mark = time.perf_counter()
        self._dt = 0.0
        self._measured: deque[tuple[float, float]] = deque(maxlen=10)  # times and residuals
        self._waiting = threading.Timer(_LONG, self._say_why)
        self._waiting.daemon = True

    def __enter__(self) -> Progress:
        if self._enabled:
            self._waiting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiting.cancel()
        if self._enabled and self._solver.step_count > self._first_step:
            self._print(end="\n")

    def show(self, dt: float) -> None:
        """Note a step of length `dt` and print a line if it is time."""
        if not self._enabled:
            return
        self._dt = dt
        self._waiting.cancel()
        if self._mark == self._began:  # kernels are compiled in the first step: no part of the rate
            self._mark, self._mark_step = time.perf_counter(), self._solver.step_count
            self._mark_time = self._solver.time
        residual = self._solver.residual
        if math.isfinite(residual) and (not self._measured or residual != self._measured[-1][1]):
            self._measured.append((self._solver.time, residual))
        if time.perf_counter() - self._shown > self._interval:
            self._shown = time.perf_counter()
            self._print(end="" if self._terminal else "\n")

    def _say_why(self) -> None:
        print(
            "In the first step: kernels may be compiling, once for all runs like this one",
            file=sys.stderr,
            flush=True,
        )

    def _print(self, end: str) -> None:
        start = "\r" if self._terminal else ""
        print(f"{start}{self.line()}", end=end, file=sys.stderr, flush=True)

    def line(self) -> str:
        """The text of the line now."""
        solver = self._solver
        more = solver.step_count > self._mark_step
        begin, first = (self._mark, self._mark_step) if more else (self._began, self._first_step)
        elapsed = max(time.perf_counter() - begin, 1e-9)
        rate = (solver.step_count - first) * self._cells / elapsed
        residual = f"{solver.residual:.3e}" if math.isfinite(solver.residual) else "unknown"
        return (
            f"step {solver.step_count:6d}  time {solver.time:8.4f}  dt {self._dt:.3e}  "
            f"residual {residual}  {rate:.2e} cells/s  ETA {self._remaining(elapsed)}"
        )

    def _remaining(self, elapsed: float) -> str:
        """Wall-clock seconds to the end: to `until`, or to `steady` if the residual falls on as it
        did.
        """
        solver = self._solver
        left = [] if self._until is None else [self._until - solver.time]
        if self._steady is not None:
            left += self._time_to_steady(self._steady)
        if left and min(left) <= 0.0 and solver.time > self._first_time:
            return "0 s"
        if not left or solver.time <= self._mark_time:
            return "unknown"
        seconds = min(left) * elapsed / (solver.time - self._mark_time)
        return f"{seconds:.0f} s" if seconds < _LONGEST else "more than a year"

    def _time_to_steady(self, steady: float) -> list[float]:
        """Time until the residual is below `steady`, from its recent decay; nothing if it grew."""
        if not self._measured:
            return []
        (before, first), (now, last) = self._measured[0], self._measured[-1]
        if last <= steady:
            return [0.0]
        if first <= last:
            return []
        return [(now - before) * math.log(last / steady) / math.log(first / last)]
