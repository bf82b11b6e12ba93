"""Removes each record, wait and synchronize of the library, one at a time, on the simulated device:
each time a race must be reported. Run on two ranks by `test_simulated_mutations.py`.

Sites are found by running: places in the library's text that record an event, let a stream wait for
one, or wait for one on the host. Together the workloads must meet every such place that the text
has. Races are noted and the work then goes on, so that ranks stay together.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import distarray as da
from distarray.backends.simulated.driver import finish
from distarray.backends.simulated.memory import Memory
from distarray.backends.simulated.schedule import Schedule, SimulatedEvent, SimulatedStream
from distarray.errors import BackendError, RaceError
from distarray.io.background import Copies
from distarray.placement import move
from distarray.transfer import Selection, Stride
from distarray.transports import nccl
from tests.devices import provokes_races
from tests.ranks.bits import random_values
from tests.ranks.common import SIZE

PACKAGE = Path(da.__file__).parent
CALLS = ("record", "wait", "synchronize")

#: The devices themselves, and what runs when nothing else does: how `transport="auto"` is chosen,
#: and how groups of NCCL are left.
LEFT_OUT = (
    "backends/simulated/",
    "backends/cuda",
    "transports/probe.py",
    "transports/connection.py",
)


class Needless(NamedTuple):
    """Calls that some transports do without: how often each of two lines, and why."""

    file: str
    texts: tuple[str, str]
    times: dict[str, int]
    why: str


NEEDLESS = (
    Needless(
        "halo/exchange.py",
        ("communication.record(self._packed)", "compute.wait(self._packed)"),
        {"host": 1},
        "before it copies to the host, the transport itself lets compute wait for the packing",
    ),
    Needless(
        "redistribute.py",
        ("communication.record(self._event)", "compute.wait(self._event)"),
        {"host": 2, "device": 1},
        "after packing as above; before values are cast, the host has waited for what it received",
    ),
    Needless(
        "redistribute.py",
        ("compute.record(self._event)", "communication.wait(self._event)"),
        {"host": 1},
        "compute copies to the device, and the transport lets communication wait for it",
    ),
    Needless(
        "transports/communicator.py",
        ("compute.record(event)", "communication.wait(event)"),
        {"host": 1},
        "compute copies to the host",
    ),
    Needless(
        "transports/communicator.py",
        ("communication.record(event)", "compute.wait(event)"),
        {"host": 1, "device": 1},
        "the host has waited for what it received, and compute copies it to the device",
    ),
)


class Site(NamedTuple):
    """A call in the library's text."""

    file: str
    line: int
    call: str

    @property
    def text(self) -> str:
        return linecache.getline(str(PACKAGE / self.file), self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}"


def sites_in_text() -> set[Site]:
    """Every call that records or waits for an event: `stream.record(event)`, `stream.wait(event)`,
    `event.synchronize()`.
    """
    found = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(LEFT_OUT):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                call, count = node.func.attr, len(node.args)
                if call in CALLS and count == (call != "synchronize") and not node.keywords:
                    found.add(Site(file, node.lineno, call))
    return found


class Watch:
    """What happens while streams are watched: sites that are met, races that are reported."""

    def __init__(self) -> None:
        self.met: set[Site] = set()
        self.reports: list[str] = []
        self.dropped: Site | None = None

    def skips(self, call: str) -> bool:
        """Note the library's call two frames up; whether it is the one that is dropped."""
        frame = sys._getframe(2)
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return False
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(LEFT_OUT):
            return False
        site = Site(file, frame.f_lineno, call)
        self.met.add(site)
        return site == self.dropped


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Streams whose calls are watched, and which go on after a race."""
    watch = Watch()
    kept = [(SimulatedStream, "record"), (SimulatedStream, "wait"), (SimulatedEvent, "synchronize")]
    kept += [(Schedule, "give"), (Schedule, "check_host")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in kept]

    def calling(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            return None if watch.skips(name) else original(self, *arguments)

        return call

    def going_on(original: Callable[..., Any]) -> Callable[..., Any]:
        def give(self: Any, *arguments: Any) -> Any:
            try:
                return original(self, *arguments)
            except RaceError as race:
                watch.reports.append(str(race))
            unordered = Memory.unordered
            Memory.unordered = lambda *_: None  # type: ignore[method-assign]
            try:
                return original(self, *arguments)
            finally:
                Memory.unordered = unordered  # type: ignore[method-assign]

        return give

    for owner, name, original in originals:
        change = calling(name, original) if name in CALLS else going_on(original)
        setattr(owner, name, change)
    try:
        yield watch
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


# ---- workloads: with kernels and grids of their own each time, so that all is prepared anew


def smooth(u: Any, new: Any, *, r: float) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def drift(u: Any) -> None:
    """In place; its core reaches into what is sent to the other side."""
    u[0, 0] = 0.5 * u[0, 0] + 0.5 * u[-1, 0]


def largest(u: Any) -> Any:
    return da.reduce.max(u[0, 0]), da.reduce.sum(u[0, 0])


def scale(u: Any, new: Any, *, by: float) -> None:
    new[0, 0] = u[0, 0] / by


def across(u: Any, new: Any) -> None:
    """Needs no message: its neighbours lie within the rank, or in layers of conditions."""
    new[0, 0] = u[0, -1] - 3.0 * u[0, 1]


def made(transport: str, **options: Any) -> tuple[da.Grid, da.DistArray, da.DistArray]:
    grid = da.Grid(
        (16, 12), periodic=True, ranks=(SIZE, 1), device="simulated", transport=transport, **options
    )
    u = grid.empty()
    u[...] = random_values(16, 12)
    return grid, u, grid.zeros()


def kernels(transport: str) -> None:
    """Calls that overlap the exchange, into other arrays and in place, each array written at once
    after it was read.
    """
    _, u, new = made(transport)
    step, move = da.stencil(smooth), da.stencil(colours=2)(drift)
    for _ in range(3):
        step.apply(u, new, r=0.1, overlap=True)
        step.apply(new, u, r=0.1, overlap=True)
        move.apply(u, overlap=True)
    step.apply(u, new, r=0.1, overlap=False)
    step.apply(new, u, r=0.1, overlap=False)
    new.gather()


def loops(transport: str) -> None:
    """Time loops, as graphs where the transport allows them."""
    _, u, new = made(transport)
    step = da.stencil(smooth)
    da.iterate(step, u, new, steps=14, r=0.1)
    da.iterate(step, u, new, steps=8, r=0.2)
    u.gather()


def reductions(transport: str) -> None:
    """Fused reductions whose results are read, passed on and dropped."""
    _, u, new = made(transport)
    norms, divide = da.stencil(largest), da.stencil(scale)
    for _ in range(3):
        most, total = norms(u)
        divide(u, new, by=most)
        norms(new)
        float(total)
        u += 0.5
    float(most)


def transfers(transport: str) -> None:
    """Values that move to other ranks, within one array too, and messages and collectives of device
    arrays.
    """
    grid, u, new = made(transport)
    for _ in range(2):
        new[...] = u.redistribute(ranks=(1, SIZE))
        new += 1.0
        down = Selection((Stride(0, 1, 13), Stride(0, 1, 12)), (Stride(3, 1, 13), Stride(0, 1, 12)))
        move(u, u, down)
        u += 1.0
        u[:-1] = new.astype(np.float32)[1:]
        u += 1.0
    u.gather()
    communicator, backend = u.communicator, u.block.backend
    other = (grid.rank + 1) % SIZE
    received = backend.empty((SIZE, 4), float)
    for number in range(2):
        values = backend.asarray(np.full((SIZE, 4), float(number + grid.rank)))
        values += 1.0
        communicator.exchange([(other, values)], [(other, received)])
        values += received
        communicator.all_gather(values).get()
        values *= 2.0
        communicator.reduce_scatter(values, "sum").get()
        values *= 2.0
        values += communicator.allreduce(values, "max")
        communicator.broadcast(values)
        values += 1.0


def conditions(transport: str) -> None:
    """Conditions that depend on the time: their values are uploaded for each call, and the host is
    held up by nothing else.
    """
    grid = da.Grid((16, 12), ranks=(SIZE, 1), device="simulated", transport=transport)
    u, new = grid.ones(), grid.zeros()
    u.boundary["y"] = da.Dirichlet(lambda t, x, y: t * x)
    kernel = da.stencil(across)
    for number in range(5):
        kernel(u, new, time=float(number))
    new.gather()


def checkpoints(transport: str) -> None:
    """Values that go to the host to be written behind the run."""
    _, u, new = made(transport)
    kept = Copies()
    for _ in range(2):
        kept.take([u, new])
        u += 1.0


WORKLOADS = (kernels, loops, reductions, transfers, conditions, checkpoints)


def agreed(communicator: Any, found: list[Any]) -> list[Any]:
    """What all ranks found."""
    return [one for some in communicator.allgather(found) for one in some]


def run(watch: Watch, workload: Callable[[str], None], transport: str, site: Site | None) -> None:
    """Run a workload without one call. What cannot go on is a report too."""
    watch.dropped, watch.reports, watch.met = site, [], set()
    try:
        workload(transport)
    except BackendError as error:
        watch.reports.append(str(error))
    watch.dropped = None
    finish()


@provokes_races
def test_every_removed_record_and_wait_over_staged_and_nccl() -> None:
    require_all_needed(("staged", "nccl"), unseen=("transports/host.py", *TUNING))


@provokes_races
def test_every_removed_record_and_wait_over_device_and_host() -> None:
    # Reductions whose results stay on the device are for NCCL, and for one rank.
    require_all_needed(
        ("device", "host"),
        unseen=("transports/nccl.py", "transports/staged.py", "resident.py", *TUNING),
    )


#: Waits that measure how long work takes: without them nothing is wrong but the time.
TUNING = ("tuning/",)


def require_all_needed(transports: Sequence[str], unseen: tuple[str, ...]) -> None:
    """Remove each call that is met over these transports, which is all but those of some files."""
    communicator = da.Grid((4,), ranks=(SIZE,), device="cpu").communicator
    met: set[Site] = set()
    missed: set[tuple[Site, str]] = set()
    with watched() as watch:
        for transport in transports:
            here: set[Site] = set()
            caught: set[Site] = set()
            for workload in WORKLOADS:
                run(watch, workload, transport, None)
                found = set(agreed(communicator, sorted(watch.met)))
                reports = agreed(communicator, watch.reports)
                assert not reports, (transport, workload.__name__, reports)
                for site in sorted(found - caught):
                    run(watch, workload, transport, site)
                    if agreed(communicator, watch.reports):
                        caught.add(site)
                here |= found
            missed |= {(site, transport) for site in here - caught}
            met |= here
    missing = {site for site in sites_in_text() - met if not site.file.startswith(unseen)}
    assert not missing, "\n".join(["no workload meets", *map(str, sorted(missing))])
    needless = Counter(
        {
            (entry.file, text, transport): times
            for entry in NEEDLESS
            for text in entry.texts
            for transport, times in entry.times.items()
            if transport in transports
        }
    )
    found_needless = Counter((site.file, site.text, transport) for site, transport in missed)
    assert found_needless == needless, (
        f"reported though thought needless: {needless - found_needless}; "
        f"not reported: {found_needless - needless}: {sorted(missed)}"
    )


def drop_reductions(transport: str) -> None:
    """All-reduces under way whose results nobody asks for, then arrays of their size."""
    grid, _, _ = made(transport)
    communicator, backend = grid.zeros().communicator, grid.backend
    for number in range(3):
        values = backend.asarray(np.full(40, float(number)))
        communicator.begin_allreduce(values, "sum")
        values += 1.0


@provokes_races
def test_memory_that_is_given_back_too_early_is_reported() -> None:
    communicator = da.Grid((4,), ranks=(SIZE,), device="cpu").communicator
    kept = nccl.NcclTransport.begin_allreduce

    def forgetful(self: Any, values: Any, op: str) -> Any:
        """Hold no reduction that is under way."""
        found = kept(self, values, op)
        self._under_way.clear()
        return found

    with watched() as watch:
        run(watch, drop_reductions, "nccl", None)
        reports = agreed(communicator, watch.reports)
        assert not reports, reports
        nccl.NcclTransport.begin_allreduce = forgetful  # type: ignore[method-assign]
        try:
            run(watch, drop_reductions, "nccl", None)
        finally:
            nccl.NcclTransport.begin_allreduce = kept  # type: ignore[method-assign]
        reports = agreed(communicator, watch.reports)
    assert any("reuse of freed memory" in report for report in reports), reports
