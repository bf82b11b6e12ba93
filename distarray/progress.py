"""What is said on standard error: how far a loop is, and what was chosen."""

from __future__ import annotations

import sys
import time
from types import TracebackType

#: What has been told.
_told: set[str] = set()


def tell_once(text: str) -> None:
    """Write a line, the first time it is given. Local; call it on one rank."""
    if text not in _told:
        _told.add(text)
        sys.stderr.write(f"distarray: {text}\n")
        sys.stderr.flush()


class Progress:
    """Counts steps and shows step, cells/s and remaining time at most four times a second. Local;
    show it on one rank.

    On a terminal the line is rewritten in place; elsewhere only the last line is printed.
    """

    def __init__(self, steps: int, *, cells: int, enabled: bool) -> None:
        self._steps, self._cells, self._enabled = steps, cells, enabled
        self._done = 0
        self._began = self._shown = time.perf_counter()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._enabled and self._done:
            print(("\r" if sys.stderr.isatty() else "") + self._line(), file=sys.stderr)

    def advance(self, steps: int = 1) -> None:
        """Note some steps."""
        self._done += steps
        if not self._enabled or not sys.stderr.isatty():
            return
        now = time.perf_counter()
        if now - self._shown > 0.25:
            self._shown = now
            print("\r" + self._line(), end="", file=sys.stderr, flush=True)

    def _line(self) -> str:
        elapsed = max(time.perf_counter() - self._began, 1e-9)
        rate = self._done / elapsed
        left = (self._steps - self._done) / rate
        return (
            f"step {self._done}/{self._steps}  {rate * self._cells:.3g} cells/s  "
            f"{elapsed:.1f} s elapsed  {left:.1f} s left"
        )
