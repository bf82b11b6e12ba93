"""The table of the bench."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEAD = (
    f"{'what':<52}{'on':>3}{'median':>10}{'GB/s':>7}"
    f"{'beside':>10}{'GB/s':>7}{'ratio':>8}{'gate':>9}"
)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    part : str
        Of the bench.
    name : str
    ranks : int
    seconds : float
        Median.
    reference : float or None
        That of what stands beside it.
    gate : float or None
        The largest ratio that is accepted, or the longest time where nothing stands beside it.
    nbytes : int or None
        Bytes that have to move at least, of all ranks together.
    """

    part: str
    name: str
    ranks: int
    seconds: float
    reference: float | None = None
    gate: float | None = None
    nbytes: int | None = None

    @property
    def figure(self) -> float:
        """What the gate is for: the ratio, or the time where nothing stands beside it."""
        return self.seconds if self.reference is None else self.seconds / self.reference

    @property
    def missed(self) -> bool:
        return self.gate is not None and self.figure > self.gate

    def __str__(self) -> str:
        beside, ratio, gate = f"{'':>17}", "", ""
        if self.reference is not None:
            beside = f"{duration(self.reference):>10}{self._rate(self.reference):>7}"
            ratio = f"{self.figure:.3f}"
        if self.gate is not None:
            gate = duration(self.gate) if self.reference is None else f"{self.gate:.3g}"
        kept = "" if self.gate is None else "  MISSED" if self.missed else "  ok"
        own = f"{duration(self.seconds):>10}{self._rate(self.seconds):>7}"
        return f"{self.name:<52}{self.ranks:>3}{own}{beside}{ratio:>8}{gate:>9}{kept}".rstrip()

    def _rate(self, seconds: float) -> str:
        return "" if self.nbytes is None else f"{self.nbytes / seconds / 1e9:.2f}"


def known_of(
    rows: Sequence[dict[str, Any]], ratios: Mapping[str, float], remarks: Sequence[str]
) -> dict[str, Any]:
    """What --json writes: rows, the ratio of each, and what there is to know of them. Local."""
    return {
        "rows": list(rows),
        "ratios": dict(ratios),
        "remarks": list(remarks),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}",
    }


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them. Local."""
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * scale:.3g} {unit}"
