"""Published and recomputed numbers, and flows beside them."""

from __future__ import annotations

import csv
import importlib.resources
from dataclasses import dataclass

from solvers.shallow_water.exact import DamBreak


@dataclass(frozen=True)
class DamBreakRow:
    """A row of the table of dam breaks: depth and velocity between fan and bore (at the dam on a
    dry bed), and the speed of the bore.
    """

    problem: DamBreak
    depth: float
    velocity: float
    bore: float


def dam_breaks() -> tuple[DamBreakRow, ...]:
    """The table of dam breaks. Local."""
    folder = importlib.resources.files("solvers.shallow_water") / "data"
    lines = (folder / "dam_break.csv").read_text("utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return tuple(
        DamBreakRow(
            DamBreak(float(row["h_l"]), float(row["h_r"]), float(row["g"])),
            float(row["h_star"]),
            float(row["u_star"]),
            float(row["shock"]),
        )
        for row in rows
    )
