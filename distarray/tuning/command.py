"""Times ways to run a loop on this machine - transports x process grids x steps per pass over
memory - and keeps the fastest for "auto". Started by mpirun it tunes for the ranks of that job.

What is kept, steps and transport unless --apply says otherwise, is used by `iterate(tile="auto")`
for the same shape, element type, process grid and kernel, by transport="auto", and, after --apply
grid, by grids that name no process grid. What a program says itself counts first, and bits never
depend on it. DISTARRAY_TUNING=0 switches it off.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from distarray.bench.timing import load, load_line
from distarray.comm import SerialCommunicator, default
from distarray.comm.base import Communicator
from distarray.errors import DistArrayError
from distarray.grid import Grid
from distarray.tiling.loop import MOST_STEPS, WORTH_TILING
from distarray.tuning import store
from distarray.tuning.kernels import case_of_name, reach_of
from distarray.tuning.measure import (
    Candidate,
    Placement,
    Problem,
    best,
    depths,
    measure,
    process_grids,
    transports,
)
from distarray.tuning.options import add_kernel, element_type, refuse, unwritable, write_json

#: What may be kept.
KINDS = ("tile", "grid", "transport")
_AXES = "xyz"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add_kernel(parser)
    add(
        "--shape", type=int, nargs="+", default=[256] * 3, metavar="N",
        help="cells along each axis (default: 256 256 256)",
    )  # fmt: skip
    add(
        "--periodic", nargs="*", choices=tuple(_AXES), metavar="AXIS",
        help="periodic axes (default: all)",
    )  # fmt: skip
    add(
        "--device", default="auto", metavar="NAME",
        help="where to run: auto, cpu, cuda or simulated (default: auto)",
    )  # fmt: skip
    add(
        "--tiles", type=int, nargs="+", metavar="K",
        help="steps at a time (default: 1, 2, 4 and 8 rotations of the arrays)",
    )  # fmt: skip
    add(
        "--grids", type=int, default=6, metavar="N",
        help="process grids to try, 0 for all (default: 6)",
    )  # fmt: skip
    add("--steps", type=int, default=96, metavar="N", help="steps of a measurement (default: 96)")
    add(
        "--repeat", type=int, default=5, metavar="N",
        help="measurements of each, of which the median counts (default: 5)",
    )  # fmt: skip
    add(
        "--skip", type=float, default=1.5, metavar="TIMES",
        help="leave out what takes so many times the best in two rounds (default: 1.5)",
    )  # fmt: skip
    add(
        "--apply", nargs="*", choices=KINDS, default=["tile", "transport"],
        help="what is kept for auto (default: tile transport)",
    )  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write the table there as well")


def run(options: argparse.Namespace) -> int:
    """Measure, print the table, keep the choice; 1 where nothing can be measured or kept, 2 for a
    wrong option. Collective under a launcher.
    """
    communicator = default()
    wrong = _wrong(options)
    if wrong:
        return refuse("tune", communicator, wrong, 2)
    unwritten = unwritable(communicator, options.json)
    if unwritten:
        return refuse("tune", communicator, unwritten, 1)
    try:
        problem = _problem(options)
        candidates = [
            Candidate(transport, ranks, tile)
            for transport in transports(problem, communicator)
            for ranks in process_grids(problem, communicator.size, options.grids)
            for tile in depths(problem, options.tiles)
        ]
    except DistArrayError as error:  # the same on all ranks
        return refuse("tune", communicator, str(error), 1)
    before = load()
    cases = measure(problem, communicator, candidates)
    chosen = best(candidates)
    if communicator.rank:
        return 0
    print("\n".join(table(problem, candidates, chosen)))
    print(load_line(before, load()))
    code = _kept(options, problem, communicator, found(candidates, cases, chosen, problem))
    return write_json("tune", communicator, options.json, described(candidates, chosen)) or code


def _wrong(options: argparse.Namespace) -> str:
    """What is wrong with the options, or nothing."""
    for name, least in (("steps", 1), ("repeat", 1), ("grids", 0), ("skip", 1)):
        if not getattr(options, name) >= least:  # so that nan is refused
            return f"--{name} must be at least {least}, not {getattr(options, name)}."
    for name in ("shape", "tiles"):
        numbers = getattr(options, name) or (1,)
        if min(numbers) < 1:
            return f"--{name} takes numbers from 1, not {min(numbers)}."
    if len(options.shape) > len(_AXES):
        return f"--shape takes at most {len(_AXES)} numbers, not {len(options.shape)}."
    if max(options.tiles or (1,)) > MOST_STEPS:
        return f"--tiles takes numbers up to {MOST_STEPS}, not {max(options.tiles)}."
    beyond = set(options.periodic or ()) - set(_AXES[: len(options.shape)])
    if beyond:
        return f"--periodic names the axis {min(beyond)}, which a grid of {options.shape} lacks."
    return ""


def _problem(options: argparse.Namespace) -> Problem:
    shape = tuple(options.shape)
    case = case_of_name(options.kernel, options.scalar, options.rotate)
    dtype = str(element_type(options.dtype))
    device = Grid((1,), comm=SerialCommunicator(), device=options.device).device
    axes = _AXES[: len(shape)] if options.periodic is None else options.periodic
    return Problem(
        case=case,
        reach=reach_of(case.program(len(shape), dtype)),
        shape=shape,
        periodic=tuple(axis in axes for axis in _AXES[: len(shape)]),
        dtype=dtype,
        device=device,
        steps=options.steps,
        repeat=options.repeat,
        skip=options.skip,
    )


# ---- what is printed


def table(problem: Problem, candidates: Sequence[Candidate], chosen: Candidate) -> list[str]:
    """The lines of the table; `*` marks what is chosen. Local."""
    cells = " x ".join(map(str, problem.shape))
    lines = [
        f"{problem.case.name} on {cells} cells, {problem.dtype}, device {problem.device}, "
        f"{problem.repeat} measurements of {problem.steps} steps each",
        f"  {'transport':<11}{'process grid':<18}{'tile':>5}{'median a step':>16}{'spread':>9}"
        f"{'of the best':>13}",
    ]
    for one in candidates:
        mark = "*" if one is chosen else " "
        ranks = " x ".join(map(str, one.ranks))
        spread = "-" if one.behind else f"{one.spread:.0%}"
        name = "-" if one.transport == "auto" else one.transport
        lines.append(
            f"{mark} {name:<11}{ranks:<18}{one.tile:>5}{one.median * 1e3:>13.4g} ms"
            f"{spread:>9}{one.median / chosen.median:>13.3f}"
        )
    if any(one.behind for one in candidates):
        lines.append("  Without a spread: far behind, and left out of later rounds.")
    return lines


def described(candidates: Sequence[Candidate], chosen: Candidate) -> list[dict[str, Any]]:
    """The table as plain values. Local."""
    return [
        {**asdict(one), "median": one.median, "spread": one.spread, "chosen": one is chosen}
        for one in candidates
    ]


# ---- what is kept


def found(
    candidates: Sequence[Candidate],
    cases: dict[Placement, store.TileChoice],
    chosen: Candidate,
    problem: Problem,
) -> store.Choices:
    """The choices that the measurements speak for: steps at a time for every process grid that was
    timed to the end, process grid and transport of the best. Local.
    """
    tiles = []
    for (transport, ranks), case in cases.items():
        group = [o for o in candidates if (o.transport, o.ranks) == (transport, ranks)]
        through = [one for one in group if not one.behind]
        if transport == chosen.transport and through and len(group) > 1:
            tiles.append(replace(case, tile=best(through).tile))
    grid = store.GridChoice(problem.device, problem.shape, problem.periodic, chosen.ranks)
    several = chosen.transport != "auto"
    return store.Choices(
        tuple(tiles),
        (grid,) if np.prod(chosen.ranks) > 1 else (),
        (store.TransportChoice(problem.device, chosen.transport),) if several else (),
    )


def _kept(
    options: argparse.Namespace,
    problem: Problem,
    communicator: Communicator,
    choices: store.Choices,
) -> int:
    """Keep what was asked for, and say so. Local; by rank 0."""
    size = communicator.size
    kept = store.Choices(
        choices.tiles if "tile" in options.apply else (),
        choices.grids if "grid" in options.apply else (),
        choices.transports if "transport" in options.apply else (),
    )
    if not len(kept):
        print("nothing is kept")
        return 0
    try:
        path = store.write(store.this_machine(size), kept)
    except DistArrayError as error:
        return refuse("tune", communicator, str(error), 1)
    print(f"kept in {path}: {', '.join(said(kept, problem))}")
    nbytes = int(np.prod(problem.shape)) * np.dtype(problem.dtype).itemsize * problem.case.count
    if kept.tiles and nbytes // size < WORTH_TILING:
        print(
            f"auto makes single steps on arrays as small as these ({nbytes // size / 2**20:.3g} "
            "MiB a rank), whatever is kept; give iterate a tile"
        )
    return 0


def said(kept: store.Choices, problem: Problem) -> list[str]:
    """What choices say, in words. Local."""
    return [
        *(f"tile {one.tile} on {' x '.join(map(str, one.ranks))} ranks" for one in kept.tiles),
        *(f"process grid {' x '.join(map(str, one.ranks))}" for one in kept.grids),
        *(f"transport {one.transport} on {one.device}" for one in kept.transports),
    ]
