"""Events are kept while somebody records, and cost next to nothing otherwise."""

from __future__ import annotations

import time

import pytest

from distarray import spans
from tests.lines_run import lines_run


def leave(name: str, start: float) -> None:
    spans.leave(spans.tally(name), start)


def test_nothing_is_kept_when_nobody_records() -> None:
    leave("before", spans.enter(spans.tally("before")))
    with spans.record() as recording:
        pass
    assert recording.events == []


def test_events_have_names_and_times() -> None:
    before = time.perf_counter()
    with spans.record() as recording, spans.span("outer"):
        leave("inner", spans.enter(spans.tally("inner")))
    after = time.perf_counter()
    inner, outer = recording.events
    assert [event.name for event in recording.events] == ["inner", "outer"]
    assert before <= outer.start <= inner.start <= inner.end <= outer.end <= after
    assert recording.named("inner") == [inner]
    assert recording.seconds("outer") == outer.end - outer.start


def test_an_event_that_began_before_the_recording_is_left_out() -> None:
    start = spans.enter(spans.tally("late"))
    with spans.record() as recording:
        leave("late", start)
    assert recording.events == []


def test_recordings_nest() -> None:
    with spans.record() as outer:
        with spans.record() as inner, spans.span("both"):
            pass
        with spans.span("outer only"):
            pass
    assert [event.name for event in inner.events] == ["both"]
    assert [event.name for event in outer.events] == ["both", "outer only"]


def test_an_error_ends_the_event_and_the_recording() -> None:
    with (
        pytest.raises(ValueError, match="inside"),
        spans.record() as recording,
        spans.span("failed"),
    ):
        raise ValueError("inside")
    with spans.span("after"):
        pass
    assert [event.name for event in recording.events] == ["failed"]


def test_a_pair_of_calls_costs_eight_lines_of_python_when_off() -> None:
    work = spans.tally("x")
    nothing = lines_run(lambda: None)
    assert lines_run(lambda: spans.leave(work, spans.enter(work))) - nothing == 8


def test_work_is_counted_when_nobody_records() -> None:
    work = spans.tally("counted", "kernel", cells=8, nbytes=128)
    assert work is spans.tally("counted", "kernel", cells=8, nbytes=128)
    assert work is not spans.tally("counted", "kernel", cells=9, nbytes=128)
    before = time.perf_counter()
    for _ in range(3):
        start = spans.enter(work)
        time.sleep(0.01)
        spans.leave(work, start)
    assert work in spans.tallies()
    assert work.calls == 3
    assert 0.03 <= work.seconds <= time.perf_counter() - before
