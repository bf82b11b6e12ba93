"""Timelines and reports of one rank; `ranks/ranks_timeline.py` has those of several."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import distarray as da
from distarray import spans
from distarray.timeline import ROWS
from tests.harness import ROOT
from tests.timeline_tools import SCHEMA, checked, problems


@da.stencil
def spread(u, new):
    new[0, 0] = 0.25 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])


def test_a_timeline_holds_all_events_of_its_body(tmp_path: Path) -> None:
    u = da.Grid((12, 10), periodic=True).ones()
    new = u.copy()
    spread(u, new)
    with da.timeline(tmp_path / "trace.json"), spans.record() as recording:
        spread(u, new)
        spread(new, u)
    spread(u, new)
    events = checked(tmp_path / "trace.json")
    assert [e["cat"] for e in events] == [e.name for e in recording.events]
    blocks = [e for e in events if e["name"] == "block spread"]
    assert len(blocks) == 2
    assert blocks[0]["args"] == {"cells": 120, "bytes": 120 * 16}
    assert ROWS[blocks[0]["tid"]][0] == "compute"
    for event, seen in zip(events, recording.events, strict=True):
        assert event["dur"] == pytest.approx(1e6 * (seen.end - seen.start), abs=1e-3)


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"ts": -1.0}, "-1.0 is below 0"),
        ({"ts": "0"}, "'0' is no number"),
        ({"dur": None}, "None is no number"),
        ({"pid": 0.0}, "0.0 is no integer"),
        ({"pid": True}, "True is no integer"),
        ({"cat": ""}, "'' is too short"),
        ({"ph": "Y"}, "'Y' is not 'X'"),
        ({"id": 3}, "id is unknown"),
        ({"args": {"cells": "many"}}, "'many' is no integer"),
        ({"args": {"colour": 1}}, "colour is unknown"),
    ],
)
def test_the_schema_refuses(wrong, place) -> None:
    good = {"ph": "X", "name": "a", "cat": "b", "pid": 0, "tid": 0, "ts": 0, "dur": 0.5, "args": {}}
    assert problems({"displayTimeUnit": "ms", "traceEvents": [good]}, SCHEMA) == []
    assert problems({"displayTimeUnit": "ms", "traceEvents": [good, good | wrong]}, SCHEMA)
    kinds = SCHEMA["properties"]["traceEvents"]["items"]
    assert any(text.endswith(place) for text in problems(good | wrong, kinds))
    for name in good:
        less = {key: value for key, value in good.items() if key != name}
        assert problems({"displayTimeUnit": "ms", "traceEvents": [less]}, SCHEMA)


@pytest.mark.parametrize("background", [False, True])
def test_files_have_a_row(tmp_path: Path, background: bool) -> None:
    """What the thread of a checkpoint does is not in it: the run goes on meanwhile."""
    grid = da.Grid((12, 10))
    u = grid.ones()
    with da.timeline(tmp_path / "trace.json"):
        da.save(tmp_path / "u.h5", {"u": u})
        da.load(tmp_path / "u.h5", grid)
        with da.Checkpointer(tmp_path / "run", every=1, background=background) as checkpoints:
            checkpoints.save({"u": u}, step=1)
            checkpoints.latest(grid)
    events = checked(tmp_path / "trace.json")
    assert {ROWS[event["tid"]][0] for event in events} == {"files"}
    names = [event["name"] for event in events]
    held = 5 if background else 1  # to copy, and when the file is shared, combined, named and done
    assert names == ["write save", "read load", *["write save"] * held, "read load"]


def test_an_error_leaves_no_timeline_and_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="mine"), da.timeline(path):
        raise ValueError("mine")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["trace.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "trace.json"
    with (
        pytest.raises(da.FileError, match=r"timeline '.*/none/trace.json' cannot be written: No"),
        da.timeline(path),
    ):
        pass


@pytest.mark.parametrize("path", [5, "", "/", None])
def test_what_is_no_file_is_refused(path) -> None:
    with pytest.raises(da.FileError, match=r"timeline takes (a path, received|the path of)"):
        da.timeline(path)


@pytest.mark.parametrize(("code", "written"), [("", True), ("raise ValueError", False)])
def test_the_environment_asks_for_a_timeline_of_the_program(tmp_path: Path, code, written) -> None:
    program = "import distarray as da; u = da.ones((4, 4)); print(float(da.begin_sum(u)));" + code
    path = tmp_path / "whole.json"
    environment = {**os.environ, "DISTARRAY_TIMELINE": str(path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "16.0\n"
    assert path.exists() == written
    if written:
        assert [event["cat"] for event in checked(path)] == ["reduce"]


def test_a_report_counts_what_was_computed() -> None:
    @da.stencil
    def only_here(u, new):
        new[0, 0] = u[0, 0] + 1.0

    u = da.Grid((40, 30)).zeros()
    for _ in range(7):
        only_here(u, u.copy())
    found = da.report()
    (row,) = [kernel for kernel in found.kernels if kernel.name == "only_here"]
    assert (row.calls, row.steps, row.cells) == (7, 7, 7 * 1200)
    assert row.cells_per_second == pytest.approx(row.cells / row.seconds)
    assert row.bandwidth == pytest.approx(16 * row.cells_per_second)
    assert row.share == pytest.approx(row.bandwidth / found.copy_bandwidth)
    assert found.ranks == 1
    assert found.imbalance == 0.0
    assert found.memory > 1 << 20
    assert json.loads(json.dumps(found.as_dict()))["kernels"]
    assert "only_here" in str(found)


@pytest.mark.parametrize("given", [0.0, -1.0, "x", float("nan"), float("inf"), True, [1e9]])
def test_a_bandwidth_that_is_none_is_refused(given) -> None:
    text = f"copy_bandwidth of report must be a number above 0, got {given!r}; pass"
    with pytest.raises(da.ArrayError, match=re.escape(text)):
        da.report(copy_bandwidth=given)


def test_a_report_counts_one_and_several_in_words() -> None:
    found = replace(da.report(copy_bandwidth=1e9), messages=9, steps=0, hidden=0.5, waited=0.0)
    one = replace(found, exchanges=1, messages_per_exchange=1.0, bytes_per_exchange=80.0)
    more = replace(found, ranks=2, exchanges=6, messages_per_exchange=1.5, bytes_per_exchange=1.0)
    assert "of 1 rank\n" in str(one)
    assert "Communication: 1 exchange, each 1 message and 80 bytes a rank; 50% of" in str(one)
    assert "of 2 ranks\n" in str(more)
    assert "Communication: 6 exchanges, each 1.5 messages and 1 byte a rank; 50% of" in str(more)


def test_a_report_counts_the_steps_of_tiles_and_colours(monkeypatch) -> None:
    monkeypatch.setattr(spans, "_tallies", {})

    @da.stencil
    def tiled(u, new):
        new[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])

    @da.stencil(colours=2)
    def coloured(u):
        u[0, 0] = 0.5 * (u[1, 0] + u[-1, 0])

    u = da.Grid((40, 32), periodic=True).ones()
    da.iterate(tiled, u, u.copy(), steps=12, tile=4)
    for _ in range(5):
        coloured(u)
    found = da.report(copy_bandwidth=2e9)
    rows = {row.name: (row.calls, row.steps, row.cells) for row in found.kernels}
    assert rows == {"tiled": (3, 12, 12 * 1280), "coloured": (10, 5, 5 * 1280)}
    assert (found.steps, found.copy_bandwidth) == (12, 2e9)
    assert (found.messages_per_step, found.bytes_per_step) == (0.0, 0.0)
