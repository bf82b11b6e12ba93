"""Files beside plain ones of NumPy, in turn, in one folder: the part `checkpoint`, and alone, with
the memory that it takes, `bench --files FOLDER`.

Each rank writes what it owns of one array, cut along its first axis, and reads it again:

    beside     `numpy.tofile` and fsync to a file of its own; `numpy.fromfile`
    values     what the library does to bring the values into one file on the disk, or out of it
    all        `da.save` or `da.load`: with checksums, read back and compared before it has its name

Files are read after the system was asked to forget their pages. Times are medians of those of the
slowest rank. Memory is the most that a rank holds during a call beyond what it held before, and
beyond the array that is made.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from distarray import io
from distarray.array import DistArray
from distarray.bench.table import Row, known_of
from distarray.bench.timing import Sizes, load, load_line
from distarray.bench.two_ranks import on_two_ranks
from distarray.comm import Communicator, default
from distarray.grid import Grid
from distarray.io import place
from distarray.io.header import read_record
from distarray.io.read import read_values
from distarray.io.write import WritePlan, begin_save
from distarray.tuning.options import refuse, write_json

MIB = 1 << 20
#: Most bytes that a rank may hold besides the state.
GATE_MEMORY = 64 * MIB
#: Largest ratios of what is timed beside plain files.
GATES = {"values": 1.15, "all": 1.40}
_HEAD = (
    f"{'what':<34}{'median':>10}{'GB/s':>8}{'beside':>10}{'GB/s':>8}"
    f"{'ratio':>8}{'gate':>7}{'':>8}{'memory':>10}{'gate':>8}"
)


@dataclass(frozen=True)
class FileRow:
    """One line of the table: medians in seconds, bytes moved, the largest ratio that is accepted
    (None for no gates, of memory neither), and the most that a rank held.
    """

    name: str
    seconds: float
    beside: float
    nbytes: int
    gate: float | None
    memory: int

    @property
    def kept(self) -> bool:
        return self.gate is None or self.ratio <= self.gate

    @property
    def small(self) -> bool:
        return self.gate is None or self.memory < GATE_MEMORY

    @property
    def ratio(self) -> float:
        return self.seconds / self.beside

    def __str__(self) -> str:
        rate, other = (self.nbytes / 1e9 / value for value in (self.seconds, self.beside))
        gate, limit = f"{'':>15}", ""
        if self.gate is not None:
            gate = f"{self.gate:>7.2f}{_word(self.kept):>8}"
            limit = f"{GATE_MEMORY // MIB:>4} MiB  {_word(self.small)}"
        return (
            f"{self.name:<34}{self.seconds:>8.2f} s{rate:>8.2f}{self.beside:>8.2f} s{other:>8.2f}"
            f"{self.ratio:>8.2f}{gate}{self.memory / MIB:>6.0f} MiB{limit}"
        )


def _word(kept: bool) -> str:
    return "ok" if kept else "MISSED"


def wrong(options: argparse.Namespace) -> str:
    """What is wrong with the options beside --files, or nothing. Local."""
    if options.parts:
        return (
            f"--files measures checkpoints alone, got the part {options.parts[0]}; leave out one "
            "of both."
        )
    for name in ("cells", "block", "steps"):
        if getattr(options, name) is not None:
            return (
                f"--files measures checkpoints alone, got --{name}; leave it out, or set their "
                "size with --mebibytes."
            )
    return ""


def run(options: argparse.Namespace) -> int:
    """Print the table; 1 if a gate was missed, unless a launcher was used. Collective under one."""
    communicator = default()
    unused: str = communicator.bcast("" if communicator.rank else _unused(Path(options.files)))
    if unused:
        return refuse("bench", communicator, unused, 1)
    folder = Path(options.files) / "distarray-bench"
    with _signals(folder, at_once=communicator.size > 1):
        return (
            _started(options) if communicator.size == 1 else _table(options, communicator, folder)
        )


def _table(options: argparse.Namespace, communicator: Communicator, folder: Path) -> int:
    before = load()
    if communicator.rank == 0:
        folder.mkdir(exist_ok=True)
    communicator.barrier()
    try:
        files = _Files(folder, options.mebibytes * MIB, communicator)
        rows = [
            replace(row, gate=None) if options.quick else row
            for row in _rows(files, options.repeat)
        ]
    finally:
        communicator.barrier()
        if communicator.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    if communicator.rank == 0:
        print(f"{rows[0].nbytes / 2**30:.2f} GiB from {communicator.size} ranks in {options.files}")
        busy = load_line(before, load())
        print("\n".join([_HEAD, *map(str, rows), busy]))
        ratios = {f"{row.name}, {communicator.size}": row.ratio for row in rows}
        known = known_of(
            [asdict(row) | {"ranks": communicator.size} for row in rows], ratios, [busy]
        )
        return write_json("bench", communicator, options.json, known)
    return 0  # one that fails would end the job with many words


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """What several ranks write and read, in the folder of `sizes`. Collective."""
    if communicator.size == 1 or sizes.folder is None:
        return
    found = _Files(Path(sizes.folder), sizes.mebibytes * MIB, communicator)
    for row in _rows(found, sizes.repeat):
        yield Row(
            "checkpoint", row.name, communicator.size, row.seconds, row.beside, row.gate, row.nbytes
        )


def _unused(folder: Path) -> str:
    """Why a folder takes no files, or nothing. Local."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"The folder {folder} takes no files: {error.strerror}; give --files another."


@contextlib.contextmanager
def _signals(folder: Path, *, at_once: bool) -> Iterator[None]:
    """Let SIGTERM and SIGINT remove what was written before they end the program: ranks at once,
    who started ranks after these. Local.
    """

    def end(number: int, _: object) -> None:
        if not at_once:
            raise SystemExit(128 + number)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + number)  # nobody waits for a rank that leaves

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except SystemExit:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _started(options: argparse.Namespace) -> int:
    arguments = [] if options.json is None else ["--json", str(options.json)]
    arguments += ["--quick"] if options.quick else []
    for name in ("files", "mebibytes", "repeat"):
        arguments += [f"--{name}", str(getattr(options, name))]
    done = on_two_ranks(arguments)
    print(done.stdout, end="")
    return done.returncode or int(_word(False) in done.stdout)


class _Files:
    """The array, the files in a folder, and what is timed."""

    def __init__(self, folder: Path, nbytes: int, communicator: Communicator) -> None:
        self.communicator = communicator
        edge = max(8, round((nbytes / 8 / communicator.size) ** (1 / 3)))
        shape, ranks = (edge * communicator.size, edge, edge), (communicator.size, 1, 1)
        self.grid = Grid(shape, ranks=ranks, comm=communicator)
        self.u = self.grid.empty()
        with self.u.writing() as block:
            block[...] = np.random.default_rng(communicator.rank).random((edge, edge, edge))
        self.plain = np.ascontiguousarray(self.u.local)
        self.own = folder / f"plain-{communicator.rank}"
        self.plans: list[WritePlan] = []
        self.whole, self.values = folder / "whole.h5", folder / "values.h5"

    @property
    def arrays(self) -> Mapping[str, DistArray]:
        return {"u": self.u}

    def write_plain(self) -> None:
        with self.own.open("wb") as file:
            self.plain.tofile(file)
            file.flush()
            os.fsync(file.fileno())

    def write_values(self) -> None:
        plan = begin_save(self.values, self.arrays, checksums=False)
        self.plans.append(plan)  # its file goes when nobody looks at the clock
        plan.lay_out()
        plan.write([self.u])
        place.sync(plan.partial)
        self.communicator.barrier()

    def write_all(self) -> None:
        io.save(self.whole, self.arrays)

    def read_plain(self) -> object:
        return np.fromfile(self.own)

    def read_values(self) -> object:
        found = self.grid.empty()
        read_values(str(self.whole), read_record(str(self.whole)).arrays, [found], None)
        return found

    def read_all(self) -> object:
        return io.load(self.whole, self.grid).arrays["u"]

    def remove(self, *paths: Path) -> None:
        self.communicator.barrier()
        while self.plans:
            self.plans.pop().abandon()
        for path in paths:
            if path is self.own or self.communicator.rank == 0:
                path.unlink(missing_ok=True)
        self.communicator.barrier()

    def forget(self) -> None:
        """Ask the system to forget the pages of the files."""
        self.communicator.barrier()
        for path in (self.own, self.whole):
            with place.opened(str(path)) as descriptor:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self.communicator.barrier()


def _rows(files: _Files, repeat: int) -> Iterator[FileRow]:
    def fresh() -> None:
        files.remove(files.own, files.whole)

    made = files.u.padded.nbytes
    writes = (files.write_plain, files.write_values, files.write_all)
    times, memory = _measured(files.communicator, repeat, writes, fresh)
    for k, (name, gate) in enumerate(GATES.items(), 1):
        what = f"write, {name}, beside tofile"
        yield FileRow(what, times[k], times[0], files.u.nbytes, gate, memory[k])
    files.write_plain()
    reads = (files.read_plain, files.read_values, files.read_all)
    times, memory = _measured(files.communicator, repeat, reads, files.forget)
    for k, (name, gate) in enumerate(GATES.items(), 1):
        what = f"read, {name}, beside fromfile"
        yield FileRow(what, times[k], times[0], files.u.nbytes, gate, memory[k] - made)


def _measured(
    communicator: Communicator,
    repeat: int,
    actions: tuple[Callable[[], object], ...],
    before: Callable[[], None],
) -> tuple[list[float], list[int]]:
    """The median time and the largest growth in memory of each action, of the rank that has most;
    in turn, after one call of each to warm up.
    """
    times: list[list[float]] = [[] for _ in actions]
    memory = [0] * len(actions)
    for round_ in range(repeat + 1):
        for k, action in enumerate(actions):
            before()
            held = _forget_peak()
            began = time.perf_counter()
            result = action()
            seconds = time.perf_counter() - began
            grown = _peak() - held
            del result
            found = communicator.allreduce(np.array([seconds, grown]), "max")
            memory[k] = max(memory[k], int(found[1]))
            if round_:
                times[k].append(float(found[0]))
    return [statistics.median(found) for found in times], memory


def _forget_peak() -> int:
    """The bytes that this process holds; the peak is measured from now on, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
