"""Predicts steps of a loop on up to 10,000 GPUs from the blocks, messages and bytes that the
library plans, and from what is known of a machine: latency, bandwidth and memory. Weak scaling
keeps the block of each rank, strong scaling the grid.

With --validate it measures this machine instead, on the ranks of the job that mpirun started, and
prints steps of several grids as predicted and as measured.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from distarray.bench.table import duration
from distarray.bench.timing import load, load_line, pinned
from distarray.comm import default
from distarray.comm.base import Communicator
from distarray.errors import DistArrayError
from distarray.model import measure, scaling
from distarray.model.machine import NAMED, Link, Machine, machine_of
from distarray.model.traffic import Loop
from distarray.tuning.kernels import Case, case_of_name
from distarray.tuning.options import add_kernel, element_type, refuse, unwritable, write_json

#: Blocks that are measured on each rank, cells along each axis.
_BLOCKS = (32, 64, 96, 128)
#: By how much the speed of copies may change without a remark.
_UNSTEADY = 0.15


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add_kernel(parser)
    add(
        "--block", type=int, nargs="+", default=[256] * 3, metavar="N",
        help="cells of each rank along each axis, for weak scaling (default: 256 256 256)",
    )  # fmt: skip
    add(
        "--shape", type=int, nargs="+", default=[2048] * 3, metavar="N",
        help="cells of the grid along each axis, for strong scaling (default: 2048 2048 2048)",
    )  # fmt: skip
    add(
        "--ranks", type=int, nargs="+", default=list(scaling.RANKS), metavar="N",
        help="numbers of ranks, one GPU each, to predict steps for (default: "
        f"{' '.join(map(str, scaling.RANKS))})",
    )  # fmt: skip
    add(
        "--reductions", type=int, default=0, metavar="N",
        help="sums over all ranks in a step (default: 0)",
    )  # fmt: skip
    add(
        "--machine", nargs="+", default=list(NAMED), metavar="NAME",
        help=f"{', '.join(NAMED)}, or the path of a JSON file (default: both)",
    )  # fmt: skip
    add("--validate", action="store_true", help="measure this machine and compare")
    add("--json", type=Path, metavar="FILE", help="write all to this file as well")


def run(options: argparse.Namespace) -> int:
    """Print the tables; 1 where something cannot be modelled, 2 for a wrong option. Collective
    under a launcher.
    """
    communicator = default()
    wrong = _wrong(options)
    if wrong:
        return refuse("model", communicator, wrong, 2)
    unwritten = unwritable(communicator, options.json)
    if unwritten:
        return refuse("model", communicator, unwritten, 1)
    try:
        case = case_of_name(options.kernel, options.scalar, options.rotate)
        loop = _loop(case, options)
        machines = [machine_of(name) for name in options.machine]
        if not options.validate:
            tables = [_tables(loop, machine, options) for machine in machines]
    except DistArrayError as error:  # the same on all ranks
        return refuse("model", communicator, str(error), 1)
    found = _validated(case, loop, communicator) if options.validate else {"tables": tables}
    if communicator.rank == 0:
        lines = _validation_lines(found) if options.validate else _table_lines(loop, found)
        print("\n".join(lines))
        return write_json("model", communicator, options.json, _plain(found))
    return 0


def _wrong(options: argparse.Namespace) -> str:
    """What is wrong with the options, or nothing."""
    for name in ("block", "shape", "ranks"):
        if min(getattr(options, name)) < 1:
            return f"--{name} takes numbers from 1, not {min(getattr(options, name))}."
    if len(options.block) != len(options.shape):
        return (
            f"--block has {len(options.block)} axes and --shape {len(options.shape)}; "
            "give as many numbers for both."
        )
    if options.reductions < 0:
        return f"--reductions must not be negative, got {options.reductions}."
    return ""


def _loop(case: Case, options: argparse.Namespace) -> Loop:
    dtype = element_type(options.dtype)
    program = case.program(len(options.block), dtype)
    return Loop(case.name, program, dtype, case.rotate, options.reductions)


# ---- predictions


def _tables(loop: Loop, machine: Machine, options: argparse.Namespace) -> dict[str, Any]:
    periodic = (True,) * len(options.block)
    sizes = sorted(set(options.ranks))
    return {
        "machine": machine,
        "weak": scaling.weak(loop, machine, options.block, periodic, sizes),
        "strong": scaling.strong(loop, machine, options.shape, periodic, sizes),
    }


def _table_lines(loop: Loop, found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{loop.name}, {loop.dtype}, periodic: {loop.bytes_per_cell:.0f} bytes a cell that must "
        f"move, reach {max(loop.halo)}; predictions, nothing here was run"
    )
    for tables in found["tables"]:
        machine = tables["machine"]
        for kind in ("weak", "strong"):
            yield ""
            yield f"{machine.name}, {kind} scaling: {_said(machine)}"
            yield _HEAD
            yield from map(_row_line, tables[kind])


def _said(machine: Machine) -> str:
    """The inputs in one line."""
    return (
        f"memory {machine.memory[-1][1] / 1e9:.4g} GB/s, of which kernels have "
        f"{machine.share:.0%}; {_link_said(machine.intra)} in nodes of {machine.ranks_per_node}, "
        f"{_link_said(machine.inter)} between; {duration(machine.overhead)} a message, "
        f"{duration(machine.call)} a step; {machine.overlap:.0%} can overlap"
    )


def _link_said(link: Link) -> str:
    return f"{duration(link.latency)} and {link.bandwidth / 1e9:.3g} GB/s"


_HEAD = (
    f"{'ranks':>7} {'process grid':<14}{'block':<16}{'arrays':>9}{'messages':>9}{'bytes':>9}"
    f"{'between':>9}{'core':>10}{'exchange':>10}{'hidden':>8}{'a step':>10}{'cells/s':>10}"
    f"{'efficiency':>12}"
)


def _row_line(row: scaling.Row) -> str:
    hidden = "-" if math.isnan(row.hidden) else f"{row.hidden:.0%}"
    sent = sum(nbytes for _, nbytes in row.work.sends)
    return (
        f"{row.size:>7} {_joined(row.ranks):<14}{_joined(row.work.block):<16}"
        f"{_bytes(row.work.memory):>9}{len(row.work.sends):>9}{_bytes(sent):>9}{_bytes(row.between):>9}"
        f"{duration(row.time.core):>10}{duration(row.time.exchange):>10}{hidden:>8}"
        f"{duration(row.time.seconds):>10}{row.cells_per_second:>10.3g}{row.efficiency:>11.1%}"
    )


def _joined(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def _bytes(number: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number} B"


# ---- validation


def _validated(case: Case, loop: Loop, communicator: Communicator) -> dict[str, Any]:
    """This machine's inputs, and steps as predicted and measured. Collective."""
    before = load()
    ndim, size = loop.program.ndim, communicator.size
    shapes = [(n * size, *(n,) * (ndim - 1)) for n in _BLOCKS]
    with pinned(communicator.rank):
        machine = measure.this_machine(case, loop, communicator)
        rows = measure.compare(case, loop, machine, communicator, shapes)
        steady = measure.steadiness(machine, communicator)
    return {
        "machine": machine, "rows": rows, "load": (before, load()), "ranks": size,
        "steady": steady,
    }  # fmt: skip


def _validation_lines(found: dict[str, Any]) -> Iterator[str]:
    machine, rows = found["machine"], found["rows"]
    ranks = found["ranks"]
    yield f"measured on {ranks} rank{'s' * (ranks > 1)}: {_said(machine)}"
    speeds = ", ".join(f"{_bytes(int(n))}: {speed / 1e9:.3g}" for n, speed in machine.memory)
    yield f"copies by bytes of both arrays, GB/s read and written: {speeds}"
    yield f"{'shape':<18}{'process grid':<14}{'predicted':>12}{'measured':>12}{'ratio':>8}"
    for row in rows:
        yield (
            f"{_joined(row.shape):<18}{_joined(row.ranks):<14}{duration(row.predicted):>12}"
            f"{duration(row.measured):>12}{row.ratio:>8.2f}"
        )
    off = [max(row.ratio, 1 / row.ratio) for row in rows]
    yield (
        f"off by a factor of {statistics.median(off):.2f} in the median, {max(off):.2f} at most; "
        f"{load_line(*found['load'])}; copies had {found['steady']:.0%} of their speed at the end"
    )
    if abs(found["steady"] - 1.0) > _UNSTEADY:
        yield "The machine's speed has changed meanwhile; repeat on an idle one."


def _plain(value: Any) -> Any:
    """As JSON takes it."""
    if hasattr(value, "as_dict"):
        return _plain(value.as_dict())
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
