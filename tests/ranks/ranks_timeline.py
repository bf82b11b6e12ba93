"""Timelines and reports of several ranks."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

import distarray as da
from distarray.comm import default
from distarray.timeline import _end_of_program
from tests.timeline_tools import checked

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
    for rank in range(SIZE):
        mine = [event for event in events if event["pid"] == rank]
        cores = [event for event in mine if event["cat"] == "core"]
        under_way = [event for event in mine if event["cat"] == "exchange"]
        assert len(under_way) == (3 if SIZE > 1 else 0)
        for core, exchange in zip(cores, under_way, strict=SIZE > 1):
            assert exchange["ts"] <= core["ts"]
            assert core["ts"] + core["dur"] <= exchange["ts"] + exchange["dur"]
            assert exchange["args"] == {"bytes": 2 * 20 * 8, "messages": 1 if SIZE == 2 else 2}


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
    shown = COMM.allgather(str(after))
    assert len(set(shown)) == 1


def test_a_file_that_cannot_be_written_is_said_on_all_ranks(folder: Path) -> None:
    with pytest.raises(da.FileError, match="timeline"), da.timeline(folder / "none" / "t.json"):
        pass
    assert not np.any(COMM.allgather((folder / "none").exists()))
