"""Computed values beside those of a reference, as a table. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One value.

    Parameters
    ----------
    station : str
        What it is, and where.
    computed, reference : float
    gate : float, optional
        Largest deviation that is accepted; None where nothing is claimed.
    """

    station: str
    computed: float
    reference: float
    gate: float | None = None

    @property
    def deviation(self) -> float:
        return self.computed - self.reference

    @property
    def accepted(self) -> bool:
        """Whether the deviation is within the gate; not for values that are not finite."""
        return self.gate is None or abs(self.deviation) <= self.gate


@dataclass(frozen=True)
class Comparison:
    """A flow beside a reference.

    Parameters
    ----------
    source : str
        What it is compared with.
    rows : tuple of Row
    groups : tuple of str
        Starts of stations; the largest deviation of each group closes the table.
    """

    source: str
    rows: tuple[Row, ...]
    groups: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether all rows with a gate are within it."""
        return all(row.accepted for row in self.rows)

    def ungated(self) -> Comparison:
        """The same without gates, for a state that is not the one they are meant for."""
        rows = tuple(dataclasses.replace(row, gate=None) for row in self.rows)
        return dataclasses.replace(self, rows=rows)

    def largest(self, start: str = "") -> float:
        """Largest deviation of the rows whose station starts like this."""
        return max(abs(row.deviation) for row in self.rows if row.station.startswith(start))

    def text(self) -> str:
        """The table as a person reads it."""
        width = max(7, *(len(row.station) for row in self.rows))
        lines = [
            f"Against {self.source}",
            f"  {'station':<{width}} {'computed':>13} {'reference':>13} {'deviation':>12}"
            f" {'gate':>9}",
        ]
        for row in self.rows:
            gate = "-" if row.gate is None else f"{row.gate:.3g}"
            note = "" if row.accepted else "  missed"
            lines.append(
                f"  {row.station:<{width}} {row.computed:13.7g} {row.reference:13.7g} "
                f"{row.deviation:12.3e} {gate:>9}{note}"
            )
        if self.groups:
            largest = (f"of {group} {self.largest(group):.6f}" for group in self.groups)
            lines.append(f"Largest deviation {', '.join(largest)}")
        return "\n".join(lines)


def relative(station: str, computed: float, reference: float, share: float | None) -> Row:
    """A row whose gate is a share of the reference."""
    gate = None if share is None else share * abs(reference)
    return Row(station, computed, reference, gate)
