"""Measures the package beside loops written by hand, in one run. The two sides of a ratio are timed
in turn, so that other programs on the machine slow both.

Started alone, the command measures one rank, then starts two with mpirun; started by mpirun, it
measures the ranks of that job. The exit code is 1 if a ratio of a run started alone misses its
gate. Names of parts, such as `bench heat exchange`, leave out the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from distarray.bench import (
    exchange,
    expressions,
    files,
    heat,
    movement,
    overhead,
    sums,
    timeline,
    wave,
)
from distarray.bench.table import HEAD, Row, known_of
from distarray.bench.timing import Sizes, load, load_line, pinned
from distarray.bench.two_ranks import on_two_ranks
from distarray.comm import Communicator, SerialCommunicator, default
from distarray.errors import CommunicationError
from distarray.tuning.options import refuse, unwritable, write_json

#: Parts in the order in which they are measured.
PARTS: dict[str, Callable[[Communicator, Sizes], Iterator[Row]]] = {
    "copy": movement.copy,
    "heat": heat.rows,
    "wave": wave.rows,
    "efficiency": heat.efficiency,
    "expressions": expressions.rows,
    "exchange": exchange.rows,
    "sums": sums.rows,
    "redistribute": movement.redistribute,
    "checkpoint": files.rows,
    "overhead": overhead.rows,
    "timeline": timeline.rows,
}

#: The sizes that the gates are meant for, and those of a run that is only to show that all works.
USUAL = {"cells": 256, "block": 64, "steps": 96, "repeat": 5, "mebibytes": 256}
QUICK = {"cells": 12, "block": 8, "steps": 4, "repeat": 1, "mebibytes": 1}
_HELP = {
    "cells": "cells along each axis of large cubes",
    "block": "cells along each axis of the blocks whose halos are exchanged",
    "steps": "steps of a loop in one measurement",
    "repeat": "measurements of each, of which the median is taken",
    "mebibytes": "size of a checkpoint; the gates are for 2048",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "parts", nargs="*", metavar="PART",
        help=f"what to measure, of {', '.join(PARTS)} (default: everything)",
    )  # fmt: skip
    for name, text in _HELP.items():
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"{text} (default: {USUAL[name]})"
        )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and no gates, to see that all works"
    )
    parser.add_argument(
        "--files", metavar="FOLDER",
        help="measure checkpoints of two ranks alone, in this folder, with the memory they take",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")


def run(options: argparse.Namespace) -> int:
    """Print the table; 1 if a gate was missed, unless a launcher was used. Collective under one."""
    communicator = default()
    wrong = _wrong(options)
    if wrong:
        return refuse("bench", communicator, wrong, 2)
    unwritten = unwritable(communicator, options.json)
    if unwritten:
        return refuse("bench", communicator, unwritten, 1)
    for name, value in (QUICK if options.quick else USUAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.files is not None:
        return files.run(options)
    options.parts = options.parts or list(PARTS)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    before = load()
    several = communicator.size > 1
    shown = communicator.rank == 0
    if shown:
        print(HEAD, flush=True)
    with pinned(communicator.rank):
        rows = list(_measured(communicator if several else SerialCommunicator(), options))
    if not several:
        # The ranks started here inherit the cores of this process, so it is free again.
        rows += _started(options)
    if shown:
        remarks = list(remarks_on(options, before, load()))
        print("\n".join(remarks))
        ratios = {f"{row.name}, {row.ranks}": row.figure for row in rows if row.reference}
        known = known_of([asdict(row) for row in rows], ratios, remarks)
        code = write_json("bench", communicator, options.json, known)
        if code:
            return code
    return int(any(row.missed for row in rows) and not several)


def _wrong(options: argparse.Namespace) -> str:
    """What is wrong with the options, or nothing."""
    for part in options.parts:
        if part not in PARTS:
            return f"{part} is no part of the bench; use {', '.join(PARTS)}."
    for name in USUAL:
        given = getattr(options, name)
        if given is not None and given < 1:
            return f"--{name} must be at least 1, not {given}."
    if options.files is not None:
        return files.wrong(options)
    return ""


def _measured(communicator: Communicator, options: argparse.Namespace) -> Iterator[Row]:
    """The rows of these ranks, each shown as it is known. Collective."""
    with tempfile.TemporaryDirectory() as own:
        folder = communicator.bcast(own)
        sizes = Sizes(**{name: getattr(options, name) for name in USUAL}, folder=folder)
        for name, part in PARTS.items():
            for row in part(communicator, sizes) if name in options.parts else ():
                known = replace(row, gate=None) if options.quick else row
                if communicator.rank == 0:
                    print(known, flush=True)
                yield known
        communicator.barrier()


def _started(options: argparse.Namespace) -> list[Row]:
    """The rows of two ranks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        arguments = [*options.parts, *(["--quick"] if options.quick else [])]
        for name in USUAL:
            arguments += [f"--{name}", str(getattr(options, name))]
        done = on_two_ranks([*arguments, "--json", str(path)], stderr=subprocess.PIPE)
        if not path.exists():
            raise CommunicationError(
                f"bench started two ranks with {done.args[0]}, which failed; python -m distarray "
                f"doctor says more.\n{done.stderr}"
            )
        rows = [Row(**row) for row in json.loads(path.read_text())["rows"]]
        print("\n".join(map(str, rows)), flush=True)
        return rows


def remarks_on(
    options: argparse.Namespace, start: float | None, end: float | None
) -> Iterator[str]:
    """What to know of the table: how busy the machine was at its start and end, and what the gates
    are meant for. Local.
    """
    yield load_line(start, end)
    if max(start or 0.0, end or 0.0) > (os.cpu_count() or 1):
        yield "More programs ran than there are cores; repeat on an idle machine."
    for name in () if options.quick else ("cells", "block", "steps"):
        if getattr(options, name) != USUAL[name]:
            yield (f"The gates are meant for --{name} {USUAL[name]}, not {getattr(options, name)}.")
