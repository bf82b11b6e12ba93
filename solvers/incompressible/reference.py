"""Published values of the lid-driven cavity, and how far a flow is from them.

The tables lie in `data/`, each with its source in its first lines. They hold u on the line x = 1/2
and v on the line y = 1/2 of the unit square, whose lid at y = 1 moves with unit speed in +x, and
the extrema on these lines. Misprints of Ghia, Ghia and Shin (`ghia_corrections.csv`) are left out.
"""

from __future__ import annotations

import csv
import importlib.resources
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solvers.comparison import Comparison, Row
from solvers.incompressible.config import IncompressibleConfig
from solvers.incompressible.metrics import Floats
from solvers.incompressible.solver import IncompressibleSolver

#: Neighbours that an interpolated value is made of: cubic, so that it adds less than the scheme's
#: own error.
POINTS = 4
#: Fewest cells per axis that have this many faces.
FEWEST_CELLS = POINTS - 1
#: Reynolds numbers with a table.
PUBLISHED = (100, 400, 1000, 3200, 5000, 7500, 10000)
#: What a plain scheme of second order reaches on so many cells per axis, by Reynolds number: about
#: twice the deviation of an independent solver of vorticity and stream function.
GATES = {
    100: {64: 0.006, 128: 0.0015},
    400: {128: 0.01},
    1000: {128: 0.03, 256: 0.008},
    3200: {256: 0.03},
}
#: The same for extrema, as a share.
EXTREMA_GATES = {1000: {128: 0.035, 256: 0.01}}
#: Entries of Ghia's table that are misprints or doubtful: (line, Reynolds number, coordinate).
DOUBTFUL = {("u", 3200, 0.4531), ("u", 7500, 0.5), ("u", 10000, 0.5), ("v", 400, 0.9063)}


@dataclass(frozen=True)
class Table:
    """Published values: rows (0 for u or 1 for v, coordinate along the line, value)."""

    source: str
    rows: tuple[tuple[int, float, float], ...]


def published_table(reynolds: float) -> Table | None:
    """The best table there is for a Reynolds number (lid speed x side / viscosity), one of
    `PUBLISHED`, else None. Local.
    """
    if reynolds == 100:
        rows = read_table("marchi_re100.csv")
        return Table(
            "Marchi, Suero, Araki (2009), 1024^2 extrapolated, Re = 100",
            tuple((int(r["line"] == "v_y0.5"), float(r["coord"]), float(r["value"])) for r in rows),
        )
    if reynolds == 1000:
        rows = read_table("botella_re1000.csv")
        return Table(
            "Botella, Peyret (1998), Chebyshev 160, Re = 1000",
            tuple((int(r["u"] == ""), float(r["coord"]), float(r["u"] or r["v"])) for r in rows),
        )
    if reynolds in PUBLISHED:
        return _ghia(int(reynolds))
    return None


def compare_centre_lines(flow: IncompressibleSolver) -> Comparison | None:
    """Compare a cavity, a unit square whose lid alone moves with speed 1, with its table.

    None for another flow, for a Reynolds number without a table, and for fewer than `FEWEST_CELLS`
    along an axis. Collective.
    """
    table = _table_of(flow)
    if table is None:
        return None
    gate = _gate(GATES, flow)
    lines = [centre_line(flow, component) for component in (0, 1)]
    rows = tuple(
        Row(
            f"{('u(1/2, y)', 'v(x, 1/2)')[c]} {at:.4f}",
            interpolate(*lines[c], at), value, gate,
        )
        for c, at, value in table.rows
    )  # fmt: skip
    return Comparison(table.source, rows, groups=("u", "v"))


def compare_extrema(flow: IncompressibleSolver) -> Comparison | None:
    """Compare the extrema on the centre lines of such a cavity, Re = 100, 400 or 1000, with the
    best that were published or extrapolated. None for another flow. Collective.
    """
    if _table_of(flow) is None:
        return None
    reynolds = _reynolds(flow.config)
    found = [
        row
        for row in read_table("cavity_extrema.csv")
        if float(row["re"]) == reynolds and row["quantity"] in ("u_min", "v_max", "v_min")
    ]
    for source in ("botella98", "recomputed"):
        rows = [row for row in found if row["source"] == source]
        if rows:
            break
    else:
        return None
    share = _gate(EXTREMA_GATES, flow)
    compared = []
    for row in rows:
        positions, values = centre_line(flow, int(row["quantity"].startswith("v")))
        sign = 1.0 if row["quantity"].endswith("max") else -1.0
        value = sign * _peak(positions, sign * values)
        reference = float(row["value"])
        gate = None if share is None else share * abs(reference)
        compared.append(Row(row["quantity"], value, reference, gate))
    names = {"botella98": "Botella, Peyret (1998)", "recomputed": "an extrapolated solution"}
    return Comparison(f"extrema of {names[source]}, Re = {reynolds:g}", tuple(compared))


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
    reynolds = 1.0 / config.viscosity if config.viscosity > 0.0 else math.inf
    return (
        f"No comparison: published tables exist for the Reynolds numbers "
        f"{', '.join(map(str, PUBLISHED))}, not for {reynolds:g}."
    )


def centre_line(flow: IncompressibleSolver, component: int) -> tuple[Floats, Floats]:
    """Positions and values of velocity component 0 or 1 of a 2-D flow along the middle of the box
    across it. Collective.

    The walls at both ends are included.
    """
    return cross_line(flow, component, 0.5 * sum(flow.grid.bounds[component]))


def cross_line(flow: IncompressibleSolver, component: int, at: float) -> tuple[Floats, Floats]:
    """Positions and values of a velocity component of a 2-D flow between two walls, along the line
    across it at a position. Collective.

    The walls at both ends are included.
    """
    u, along = flow.fields["uv"[component]], 1 - component
    across = np.ravel(faces(flow, component))
    first, weights = _stencil(across, at)
    lines = u[first : first + POINTS] if component == 0 else u[:, first : first + POINTS]
    values = np.moveaxis(lines.gather(), component, -1) @ weights
    ends = faces(flow, along)
    walls = [float(flow.config.wall(along, side)[component]) for side in "-+"]  # type: ignore[arg-type]
    positions = np.concatenate((ends[:1], 0.5 * (ends[1:] + ends[:-1]), ends[-1:]))
    return positions, np.concatenate((walls[:1], values, walls[1:]))


def faces(flow: IncompressibleSolver, axis: int) -> Floats:
    """Positions of all faces along an axis, both ends included, on every rank. Local."""
    cells, (low, high) = flow.config.cells[axis], flow.grid.bounds[axis]
    given = (flow.config.coordinates or {}).get("xyz"[axis])
    if given is not None:
        return np.asarray(given, np.float64)
    return np.linspace(low, high, cells + 1)


def interpolate(positions: Floats, values: Floats, at: float) -> float:
    """Value at a position of the cubic through the four nearest points. Local."""
    first, weights = _stencil(positions, at)
    return float(values[first : first + POINTS] @ weights)


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of a table in `data/`. Local."""
    text = (importlib.resources.files("solvers.incompressible") / "data" / name).read_text()
    return list(csv.DictReader(_without_comments(text.splitlines())))


def peak(positions: Floats, values: Floats) -> tuple[float, float]:
    """Position and value of the largest, from the parabola through it and its neighbours. Local."""
    k = int(np.clip(np.argmax(values), 1, len(values) - 2))
    near = slice(k - 1, k + 2)
    origin = positions[k]
    a, b, c = np.polyfit(positions[near] - origin, values[near], 2)
    if a == 0.0:
        return float(origin), float(values[k])
    return float(origin - b / (2.0 * a)), float(c - b * b / (4.0 * a))


def _peak(positions: Floats, values: Floats) -> float:
    return peak(positions, values)[1]


def _ghia(reynolds: int) -> Table:
    rows = []
    for component, name in enumerate("uv"):
        for row in read_table(f"ghia_{name}.csv"):
            printed = float(row["xy"[1 - component] + "_printed"])
            if (name, reynolds, printed) not in DOUBTFUL:
                exact = float(row["coord_exact"])
                rows.append((component, exact, float(row[f"re{reynolds}"])))
    return Table(f"Ghia, Ghia, Shin (1982), Re = {reynolds}", tuple(rows))


def _table_of(flow: IncompressibleSolver) -> Table | None:
    config = flow.config
    lid = dict(config.walls) == {"y+": (1.0, 0.0)} and config.force is None
    unit = tuple(flow.grid.bounds) == ((0.0, 1.0), (0.0, 1.0)) and not any(config.periodic_axes)
    if not (lid and unit and config.viscosity > 0.0) or min(config.cells) < FEWEST_CELLS:
        return None
    return published_table(_reynolds(config))


def _reynolds(config: IncompressibleConfig) -> float:
    return round(1.0 / config.viscosity, 9)


def _gate(gates: dict[int, dict[int, float]], flow: IncompressibleSolver) -> float | None:
    """The gate of the finest grid that is no finer than the flow's."""
    known = gates.get(int(_reynolds(flow.config)), {})
    fitting = [cells for cells in known if cells <= min(flow.config.cells)]
    return known[max(fitting)] if fitting else None


def _stencil(positions: Floats, at: float) -> tuple[int, Floats]:
    """First of the points around a position, and the weights of Lagrange's formula."""
    first = int(np.clip(np.searchsorted(positions, at) - POINTS // 2, 0, len(positions) - POINTS))
    near = positions[first : first + POINTS]
    others = [np.delete(near, i) for i in range(POINTS)]
    return first, np.array([np.prod((at - o) / (x - o)) for x, o in zip(near, others, strict=True)])


def _without_comments(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not line.startswith("#")]
