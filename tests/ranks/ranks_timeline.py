"""Timelines and reports of several ranks."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import distarray as da
from distarray import spans
from distarray.comm import default
from distarray.timeline import _end_of_program
from distarray.tuning import store
from tests.fake_cupy import Nvtx
from tests.timeline_tools import checked, cores_under_way

COMM = default()
SIZE, RANK = COMM.size, COMM.rank


@da.stencil
def spread(u, new):
    new[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])


def advanced(steps: int, *, overlap: bool) -> None:
    u = da.Grid((16 * SIZE, 20), ranks=(SIZE, 1), periodic=True).ones()
    new = u.copy()
    for _ in range(steps):
        spread.apply(u, new, overlap=overlap)
        u, new = new, u


def test_the_core_is_computed_between_begin_and_finish(folder: Path) -> None:
    with da.timeline(folder / "trace.json"):
        advanced(3, overlap=True)
    events = checked(folder / "trace.json")
    assert {event["pid"] for event in events} == set(range(SIZE))
    under_way = [event for event in events if event["cat"] == "exchange"]
    assert len(under_way) == (3 * SIZE if SIZE > 1 else 0)
    for exchange in under_way:
        assert exchange["args"] == {"bytes": 2 * 20 * 8, "messages": 1 if SIZE == 2 else 2}
    for rank in range(SIZE if SIZE > 1 else 0):
        assert cores_under_way(events, rank, 3) == [True] * 3


def test_without_overlap_no_core_is_computed_while_messages_are_under_way(folder: Path) -> None:
    """The whole block is computed after them."""
    with da.timeline(folder / "trace.json"):
        advanced(3, overlap=False)
    events = checked(folder / "trace.json")
    for rank in range(SIZE if SIZE > 1 else 0):
        with pytest.raises(AssertionError, match=r"^\(0, 3\)"):
            cores_under_way(events, rank, 3)
        mine = [event for event in events if event["pid"] == rank]
        blocks = [event["ts"] for event in mine if event["cat"] == "block"]
        arrived = [event["ts"] + event["dur"] for event in mine if event["cat"] == "exchange"]
        assert all(there <= block for there, block in zip(arrived, blocks, strict=True))


def test_ranges_of_a_profiler_nest_and_the_exchange_overlaps_the_core() -> None:
    nvtx = Nvtx()
    spans.show_ranges(
        spans.Ranges(
            nvtx.RangePush, nvtx.RangePop, partial(nvtx.RangeStart, id_color=-1), nvtx.RangeEnd
        )
    )
    try:
        advanced(1, overlap=True)
    finally:
        spans.show_ranges(None)
    assert nvtx.noted == (
        [
            "push pack", "pop pack", "start exchange", "push send", "pop send",
            "push pack", "pop pack",
            "push core spread", "pop core spread", "push wait", "pop wait", "end exchange",
            "push unpack", "pop unpack", "push remainder spread", "pop remainder spread",
        ]
        if SIZE > 1
        else ["push pack", "pop pack", "push block spread", "pop block spread"]
    )  # fmt: skip


def test_a_timeline_of_the_program_that_cannot_be_written_is_told_once(folder: Path) -> None:
    whole, said = da.timeline(folder / "none" / "trace.json"), io.StringIO()
    whole.begin()
    with contextlib.redirect_stderr(said):
        _end_of_program(whole)
    assert said.getvalue().count("cannot be written: No such file") == (RANK == 0)


def test_the_clocks_of_all_ranks_agree(folder: Path) -> None:
    """All leave a barrier at once: what they do after it begins at about the same time. The limit
    is generous, since a timing should not decide a test; clocks that start when a rank does differ
    by more.
    """
    COMM.barrier()
    with da.timeline(folder / "trace.json"):
        pending = da.ones((8 * SIZE,))
        COMM.barrier()
        float(da.begin_sum(pending))
    ends = [e["ts"] + e["dur"] for e in checked(folder / "trace.json") if e["cat"] == "reduce"]
    assert len(ends) == SIZE


def test_a_report_adds_up_all_ranks() -> None:
    before = da.report()
    advanced(5, overlap=False)
    after = da.report()
    assert after.ranks == SIZE
    rows = [{row.name: row for row in report.kernels} for report in (before, after)]
    old = rows[0].get("spread")
    assert rows[1]["spread"].cells - (old.cells if old else 0) == 5 * 16 * SIZE * 20
    neighbours = 0 if SIZE == 1 else 1 if SIZE == 2 else 2
    assert after.messages - before.messages == 5 * SIZE * neighbours
    assert after.nbytes - before.nbytes == (5 * SIZE * 2 * 20 * 8 if SIZE > 1 else 0)
    assert (0.0 <= after.hidden <= 1.0) == (SIZE > 1)
    assert 0 <= after.slowest < SIZE
    store.note(f"tile {2 + COMM.rank} for spread, by a trial")  # of a group of ranks, each its own
    shown = COMM.allgather(str(da.report(copy_bandwidth=1.0)))
    assert len(set(shown)) == 1


def test_a_report_of_tiles_has_messages_and_bytes_for_each_step() -> None:
    """Four layers of 20 numbers to each side for four steps."""

    @da.stencil
    def tiled(u, new):
        new[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])

    u = da.Grid((16 * SIZE, 20), ranks=(SIZE, 1), periodic=True).ones()
    with mock.patch.object(spans, "_tallies", {}):
        da.iterate(tiled, u, u.copy(), steps=8, tile=4)
        found = da.report(copy_bandwidth=1e9)
    neighbours = 0 if SIZE == 1 else 1 if SIZE == 2 else 2
    assert [(row.name, row.calls, row.steps) for row in found.kernels] == [("tiled", 2, 8)]
    assert found.steps == 8
    assert found.exchanges == (2 if SIZE > 1 else 0)
    assert found.messages_per_step == 2 * neighbours / 8
    assert found.bytes_per_step == (2 * 2 * 4 * 20 * 8 / 8 if SIZE > 1 else 0)


def test_a_file_that_cannot_be_written_is_said_on_all_ranks(folder: Path) -> None:
    with pytest.raises(da.FileError, match="timeline"), da.timeline(folder / "none" / "t.json"):
        pass
    assert not np.any(COMM.allgather((folder / "none").exists()))
