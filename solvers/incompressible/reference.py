"""Published centre-line values of the lid-driven cavity, and how far a flow is from them.

The tables lie in `data/`, each with its source in its first lines. They hold u on the line x = 1/2
and v on the line y = 1/2 of the unit square, whose lid at y = 1 moves with unit speed in +x.
"""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.solver import IncompressibleSolver

Array = np.ndarray[Any, np.dtype[np.float64]]

#: Neighbours that an interpolated value is made of: cubic, so that it adds less than the scheme's
#: own error.
POINTS = 4
#: Fewest cells per axis that have this many faces.
FEWEST_CELLS = POINTS - 1
#: Reynolds numbers with a table.
PUBLISHED = (100, 1000)


@dataclass(frozen=True)
class Table:
    """Published values: rows (0 for u or 1 for v, coordinate along the line, value)."""

    source: str
    rows: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Comparison:
    """A flow beside a table: rows (0 or 1, coordinate, published, computed)."""

    source: str
    rows: tuple[tuple[int, float, float, float], ...]

    @property
    def largest(self) -> tuple[float, float]:
        """Largest deviation of u and of v."""
        return self._largest(0), self._largest(1)

    def text(self) -> str:
        """The table as a person reads it."""
        lines = [
            f"Centre lines against {self.source}",
            "  line       at  published   computed  deviation",
        ]
        for component, at, published, computed in self.rows:
            name = ("u(1/2, y)", "v(x, 1/2)")[component]
            lines.append(
                f"  {name} {at:.4f} {published:10.6f} {computed:10.6f} {computed - published:10.6f}"
            )
        u, v = self.largest
        return "\n".join([*lines, f"Largest deviation of u {u:.6f}, of v {v:.6f} of the lid speed"])

    def _largest(self, component: int) -> float:
        return max(
            abs(computed - published) for c, _, published, computed in self.rows if c == component
        )


def published_table(reynolds: float) -> Table | None:
    """The best table there is for a Reynolds number (lid speed x side / viscosity): 100 or 1000."""
    if reynolds == 100:
        rows = _read("marchi_re100.csv")
        return Table(
            "Marchi, Suero, Araki (2009), 1024^2 extrapolated, Re = 100",
            tuple((int(r["line"] == "v_y0.5"), float(r["coord"]), float(r["value"])) for r in rows),
        )
    if reynolds == 1000:
        rows = _read("botella_re1000.csv")
        return Table(
            "Botella, Peyret (1998), Chebyshev 160, Re = 1000",
            tuple((int(r["u"] == ""), float(r["coord"]), float(r["u"] or r["v"])) for r in rows),
        )
    return None


def compare_centre_lines(flow: IncompressibleSolver) -> Comparison | None:
    """Compare a cavity, a unit square whose lid alone moves with speed 1, with its table.

    None for another flow, for a Reynolds number without a table, and for fewer than `FEWEST_CELLS`
    along an axis. Collective.
    """
    config = flow.config
    lid = dict(config.walls) == {"y+": (1.0, 0.0)} and config.force is None
    unit = tuple(flow.grid.bounds) == ((0.0, 1.0), (0.0, 1.0)) and not any(config.periodic_axes)
    if not (lid and unit and config.viscosity > 0.0) or min(config.cells) < FEWEST_CELLS:
        return None
    table = published_table(round(1.0 / config.viscosity, 9))
    if table is None:
        return None
    lines = [centre_line(flow, component) for component in (0, 1)]
    rows = tuple((c, at, value, interpolate(*lines[c], at)) for c, at, value in table.rows)
    return Comparison(table.source, rows)


def why_not_compared(config: IncompressibleConfig) -> str:
    """What a user is told of a cavity without a comparison. Local."""
    if config.ndim != 2:
        return "No comparison: the published tables are of the square, not of the cube."
    if min(config.cells) < FEWEST_CELLS:
        cells = " x ".join(map(str, config.cells))
        return (
            f"No comparison: a centre line needs at least {FEWEST_CELLS} cells per axis, and there "
            f"are {cells}."
        )
    return (
        f"No comparison: published tables exist for the Reynolds numbers "
        f"{' and '.join(map(str, PUBLISHED))}, not for {1.0 / config.viscosity:g}."
    )


def centre_line(flow: IncompressibleSolver, component: int) -> tuple[Array, Array]:
    """Positions and values of velocity component 0 or 1 of a 2-D flow along the middle of the box
    across it. Collective.

    The walls at both ends are included.
    """
    u, along = flow.fields["uv"[component]], 1 - component
    (low, high), (start, end) = flow.grid.bounds[component], flow.grid.bounds[along]
    across = np.linspace(low, high, flow.config.cells[component] + 1)
    first, weights = _stencil(across, 0.5 * (low + high))
    lines = u[first : first + POINTS] if component == 0 else u[:, first : first + POINTS]
    values = np.moveaxis(lines.gather(), component, -1) @ weights
    cells = flow.config.cells[along]
    centres = start + (np.arange(cells) + 0.5) * (end - start) / cells
    walls = [float(flow.config.wall(along, side)[component]) for side in "-+"]  # type: ignore[arg-type]
    positions = np.concatenate(([start], centres, [end]))
    return positions, np.concatenate((walls[:1], values, walls[1:]))


def interpolate(positions: Array, values: Array, at: float) -> float:
    """Value at a position of the cubic through the four nearest points. Local."""
    first, weights = _stencil(positions, at)
    return float(values[first : first + POINTS] @ weights)


def _stencil(positions: Array, at: float) -> tuple[int, Array]:
    """First of the points around a position, and the weights of Lagrange's formula."""
    first = int(np.clip(np.searchsorted(positions, at) - POINTS // 2, 0, len(positions) - POINTS))
    near = positions[first : first + POINTS]
    others = [np.delete(near, i) for i in range(POINTS)]
    return first, np.array([np.prod((at - o) / (x - o)) for x, o in zip(near, others, strict=True)])


def _read(name: str) -> list[dict[str, str]]:
    text = (importlib.resources.files("solvers.incompressible") / "data" / name).read_text()
    return list(csv.DictReader(_without_comments(text.splitlines())))


def _without_comments(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not line.startswith("#")]
