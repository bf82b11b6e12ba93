"""Checks of timelines against the Trace Event Format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def checked(path: Path) -> list[dict[str, Any]]:
    """The complete events of a timeline, whose format is checked.

    The rules are those of the format for the two kinds of events that there are: metadata with a
    name and arguments, and complete events with microseconds that are numbers, in a process and a
    thread that metadata name.
    """
    found = json.loads(path.read_text("utf-8"))
    assert set(found) == {"displayTimeUnit", "traceEvents"}
    assert found["displayTimeUnit"] in ("ms", "ns")
    events = found["traceEvents"]
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    complete = [e for e in events if e["ph"] == "X"]
    for event in events:
        assert event["ph"] in ("M", "X")
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert isinstance(event["args"], dict)
    for event in complete:
        assert set(event) == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}
        assert (event["pid"], event["tid"]) in named
        assert event["pid"] in processes
        assert type(event["ts"]) in (int, float)
        assert event["ts"] >= 0.0
        assert event["dur"] >= 0.0
        assert isinstance(event["cat"], str)
    return complete
