"""Captured work of the simulated device, and CUDA's rules for capturing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from distarray.backends import simulated
from distarray.backends.simulated import SimulatedDriver
from distarray.errors import BackendError, RaceError
from tests import devices
from tests.simulated_tools import Block, nothing


@pytest.fixture
def driver():
    yield SimulatedDriver(seed=1)
    simulated.finish()


def mark(driver, stream):
    event = driver.event()
    stream.record(event)
    return event


def add(driver, block, number, stream=None, name="add"):
    def function():
        block.values += number

    driver.call(function, stream or driver.compute, [block.reads(), block.writes()], name)


@pytest.fixture
def block(driver):
    made = Block(driver, 4)
    driver.fill(made.writes(), 0, driver.compute)
    driver.compute.synchronize()
    return made


def test_captured_work_runs_with_each_launch_and_not_before(driver, block):
    assert driver.begin_capture()
    add(driver, block, 1)
    graph = driver.end_capture()
    driver.compute.synchronize()
    assert block.values[0] == 0
    for _ in range(3):
        graph.launch(driver.compute)
    assert block.values[0] == 0
    driver.compute.synchronize()
    assert block.values[0] == 3


def test_a_launch_comes_after_what_its_stream_was_given_and_before_what_it_is_given(driver, block):
    driver.begin_capture()

    def double():
        block.values *= 2

    driver.call(double, driver.compute, [block.reads(), block.writes()], "double")
    graph = driver.end_capture()
    add(driver, block, 1)
    graph.launch(driver.compute)
    add(driver, block, 1)
    graph.launch(driver.compute)
    driver.compute.synchronize()
    assert block.values[0] == 6


@pytest.mark.parametrize("seed", range(10))
def test_the_communication_stream_takes_part_once_it_waits_for_an_event_of_the_capture(seed):
    driver = SimulatedDriver(seed)
    block, copy = Block(driver, 4), Block(driver, 4)
    driver.fill(block.writes(), 0, driver.compute)
    driver.begin_capture()
    add(driver, block, 1)
    driver.communication.wait(mark(driver, driver.compute))

    def pack():
        copy.values[:] = block.values

    driver.call(pack, driver.communication, [block.reads(), copy.writes()], "pack")
    driver.compute.wait(mark(driver, driver.communication))
    add(driver, block, 10)
    graph = driver.end_capture()
    for _ in range(3):
        graph.launch(driver.compute)
    driver.compute.synchronize()
    assert block.values[0] == 33
    assert copy.values[0] == 23


def test_a_stream_that_takes_no_part_goes_on_as_always(driver, block):
    other = Block(driver, 4)
    driver.fill(other.writes(), 0, driver.communication)
    driver.begin_capture()
    add(driver, other, 1, driver.communication)
    driver.communication.synchronize()
    graph = driver.end_capture()
    assert other.values[0] == 1
    graph.launch(driver.compute)
    driver.finish()
    assert other.values[0] == 1


def test_work_of_the_communication_stream_has_to_come_before_the_end(driver, block):
    driver.begin_capture()
    driver.communication.wait(mark(driver, driver.compute))
    add(driver, block, 1, driver.communication)
    with pytest.raises(
        BackendError,
        match=r"ended while stream communication had work that stream compute does not wait for",
    ):
        driver.end_capture()
    add(driver, block, 1)  # the capture is over
    driver.compute.synchronize()
    assert block.values[0] == 1


def test_waiting_before_the_last_work_of_the_communication_stream_is_not_enough(driver, block):
    driver.begin_capture()
    driver.communication.wait(mark(driver, driver.compute))
    driver.compute.wait(mark(driver, driver.communication))
    add(driver, block, 1, driver.communication)
    with pytest.raises(BackendError, match="had work that stream compute does not wait for"):
        driver.end_capture()


def test_an_event_recorded_outside_cannot_be_waited_for_inside(driver, block):
    event = mark(driver, driver.compute)
    driver.begin_capture()
    with pytest.raises(BackendError, match="cannot wait, while its work is captured, for an event"):
        driver.compute.wait(event)
    driver.compute.wait(driver.event())  # never recorded: nothing to wait for


@pytest.mark.parametrize("kind", ["stream", "host", "poll"])
def test_an_event_recorded_inside_cannot_be_waited_for_outside(driver, block, kind):
    driver.begin_capture()
    add(driver, block, 1)
    event = mark(driver, driver.compute)
    driver.end_capture()
    wait = {
        "stream": partial(driver.communication.wait, event),
        "host": event.synchronize,
        "poll": event.done,
    }[kind]
    with pytest.raises(BackendError, match="recorded while work was captured; record it again"):
        wait()
    driver.compute.record(event)
    wait()


def refused_calls(driver, block):
    pinned = driver.pinned(32)
    return {
        "wait for the stream compute": driver.compute.synchronize,
        "use a buffer for 'MPI send'": partial(
            driver.host_access, pinned, write=False, what="MPI send"
        ),
        "copy memory that is not pinned to the device": partial(
            driver.to_device, np.zeros(4), block.writes(), driver.compute, pinned=False
        ),
        "copy to memory that is not pinned": partial(
            driver.to_host, block.reads(), np.zeros(4), driver.compute, pinned=False
        ),
    }


def test_what_needs_results_or_other_memory_is_refused_while_capturing(driver, block):
    calls = refused_calls(driver, block)
    driver.begin_capture()
    for what, call in calls.items():
        with pytest.raises(BackendError, match=f"The host cannot {what} while work is captured"):
            call()
    driver.end_capture()
    for call in calls.values():
        call()


def test_copies_of_pinned_memory_are_captured(driver, block):
    source, target = (driver.pinned(32).view("f8") for _ in range(2))
    driver.begin_capture()
    driver.to_device(source, block.writes(), driver.compute, pinned=True)
    add(driver, block, 1)
    driver.to_host(block.reads(), target, driver.compute, pinned=True)
    graph = driver.end_capture()
    for number in range(3):
        driver.host_access(source, write=True, what="new values")
        source[:] = number
        graph.launch(driver.compute)
        driver.compute.synchronize()
        driver.host_access(target, write=False, what="result")
        assert target.tolist() == [number + 1] * 4


def test_fill_is_captured(driver, block):
    driver.begin_capture()
    driver.fill(block.writes(), 0, driver.compute)
    graph = driver.end_capture()
    add(driver, block, 5)
    graph.launch(driver.compute)
    driver.compute.synchronize()
    assert block.values.tolist() == [0, 0, 0, 0]


@devices.provokes_races
def test_a_graph_races_with_work_outside(driver, block):
    driver.begin_capture()
    add(driver, block, 1, name="captured")
    graph = driver.end_capture()
    driver.call(nothing, driver.communication, [block.reads()], "pack")
    with pytest.raises(RaceError, match=r"'captured' on stream compute .* 'pack' on stream comm"):
        graph.launch(driver.compute)
    driver.compute.wait(mark(driver, driver.communication))
    graph.launch(driver.compute)
    with pytest.raises(RaceError, match=r"'pack' on stream communication .* 'captured' on stream"):
        driver.call(nothing, driver.communication, [block.reads()], "pack")


@devices.provokes_races
def test_work_within_a_graph_races_when_it_is_launched(driver, block):
    driver.begin_capture()
    driver.communication.wait(mark(driver, driver.compute))
    add(driver, block, 1, name="core")
    driver.call(nothing, driver.communication, [block.reads()], "pack")
    driver.compute.wait(mark(driver, driver.communication))
    graph = driver.end_capture()
    with pytest.raises(
        RaceError, match=r"'pack' on stream communication of a graph reads .* 'core'"
    ):
        graph.launch(driver.compute)


@devices.provokes_races
def test_the_communication_stream_itself_has_no_order_with_a_graph(driver, block):
    other = Block(driver, 4)
    driver.begin_capture()
    driver.communication.wait(mark(driver, driver.compute))
    driver.call(nothing, driver.communication, [other.writes()], "unpack")
    driver.compute.wait(mark(driver, driver.communication))
    graph = driver.end_capture()
    graph.launch(driver.compute)
    graph.launch(driver.compute)
    with pytest.raises(RaceError):
        driver.call(nothing, driver.communication, [other.reads()], "pack")
    driver.communication.wait(mark(driver, driver.compute))
    driver.call(nothing, driver.communication, [other.reads()], "pack")


def test_captures_do_not_nest_and_none_ends_twice(driver):
    driver.begin_capture()
    with pytest.raises(BackendError, match="captured already"):
        driver.begin_capture()
    driver.end_capture()
    with pytest.raises(BackendError, match="No work is captured"):
        driver.end_capture()


def test_finish_gives_up_a_capture(driver, block):
    driver.begin_capture()
    add(driver, block, 1)
    simulated.finish()
    add(driver, block, 2)
    driver.compute.synchronize()
    assert block.values[0] == 2
