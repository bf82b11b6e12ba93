"""Streams, events and copies of the simulated device: when work runs, and in which orders."""

from __future__ import annotations

import ctypes
import gc
import itertools
import subprocess
import sys
import weakref
from functools import partial

import numpy as np
import pytest

from distarray.backends import simulated
from distarray.backends.simulated import SimulatedDriver, memory, schedule
from distarray.errors import BackendError, RaceError
from tests import devices
from tests.harness import ROOT
from tests.simulated_tools import Block, nothing


@pytest.fixture
def driver():
    return SimulatedDriver(seed=1)


class Log:
    """Work that notes its name when it runs."""

    def __init__(self, driver):
        self.driver = driver
        self.ran = []

    def give(self, stream, name):
        self.driver.call(partial(self.ran.append, name), stream, [], name)


@pytest.fixture
def log(driver):
    return Log(driver)


def mark(driver, stream):
    event = driver.event()
    stream.record(event)
    return event


def test_memory_that_nobody_wrote_is_nan(driver):
    assert np.isnan(Block(driver, 7).values).all()
    assert np.isnan(Block(driver, 7, "f4").values).all()


@pytest.mark.parametrize("nbytes", [1, 100, 4096, 100_000])
def test_device_and_pinned_memory_is_aligned_and_of_the_size_asked_for(driver, nbytes):
    allocation, pinned = driver.allocate(nbytes), driver.pinned(nbytes)
    assert allocation.address % 512 == 0
    assert allocation.nbytes == nbytes
    assert pinned.ctypes.data % 512 == 0
    assert pinned.shape == (nbytes,)
    assert not pinned.any()


def test_work_waits_until_the_host_asks(driver, log):
    log.give(driver.compute, "a")
    log.give(driver.communication, "b")
    assert log.ran == []
    driver.compute.synchronize()
    assert log.ran == ["a"]
    driver.communication.synchronize()
    assert log.ran == ["a", "b"]


def test_an_event_runs_what_comes_before_it_and_nothing_else(driver, log):
    log.give(driver.compute, "before")
    event = mark(driver, driver.compute)
    log.give(driver.compute, "after")
    log.give(driver.communication, "beside")
    event.synchronize()
    assert log.ran == ["before"]


def test_an_event_runs_what_its_stream_waited_for(driver, log):
    log.give(driver.compute, "first")
    driver.communication.wait(mark(driver, driver.compute))
    log.give(driver.compute, "beside")
    log.give(driver.communication, "second")
    mark(driver, driver.communication).synchronize()
    assert log.ran == ["first", "second"]


def orders(give):
    """All orders in which work runs under many seeds."""
    found = set()
    for seed in range(300):
        driver = SimulatedDriver(seed)
        log = Log(driver)
        give(driver, log)
        driver.finish()
        found.add("".join(log.ran))
    return found


def test_streams_without_events_run_in_every_interleaving():
    def give(driver, log):
        for name in "abc":
            log.give(driver.compute, name)
        for name in "xy":
            log.give(driver.communication, name)

    expected = {
        "".join(order)
        for order in itertools.permutations("abcxy")
        if [n for n in order if n in "abc"] == ["a", "b", "c"]
        and order.index("x") < order.index("y")
    }
    assert orders(give) == expected


def test_what_a_stream_waits_for_comes_first_and_all_else_in_every_order():
    def give(driver, log):
        log.give(driver.compute, "a")
        event = mark(driver, driver.compute)
        log.give(driver.compute, "b")
        log.give(driver.communication, "x")
        driver.communication.wait(event)
        log.give(driver.communication, "y")

    expected = {
        "".join(order)
        for order in itertools.permutations("abxy")
        if order.index("a") < min(order.index("b"), order.index("y"))
        and order.index("x") < order.index("y")
    }
    assert orders(give) == expected


def test_one_seed_gives_one_order():
    def once():
        driver = SimulatedDriver(5)
        log = Log(driver)
        for i in range(40):
            log.give(driver.compute, f"a{i}")
            log.give(driver.communication, f"b{i}")
        driver.finish()
        return log.ran

    assert once() == once()


def test_an_event_never_recorded_holds_nobody_up(driver, log):
    event = driver.event()
    assert event.done()
    event.synchronize()
    driver.communication.wait(event)
    log.give(driver.compute, "a")
    log.give(driver.communication, "b")
    driver.communication.synchronize()
    assert log.ran == ["b"]


def test_recording_again_moves_the_mark_for_later_waits_only(driver, log):
    log.give(driver.compute, "a")
    event = mark(driver, driver.compute)
    driver.communication.wait(event)
    log.give(driver.communication, "x")
    log.give(driver.compute, "b")
    driver.compute.record(event)
    driver.communication.synchronize()
    assert log.ran == ["a", "x"]
    event.synchronize()
    assert log.ran == ["a", "x", "b"]


def test_asking_whether_an_event_is_done_moves_work_on_but_tells_late(driver, log):
    for name in "abc":
        log.give(driver.compute, name)
    event = mark(driver, driver.compute)
    log.give(driver.compute, "later")
    answers = [event.done() for _ in range(4)]
    assert answers == [False, False, False, True]
    assert log.ran == ["a", "b", "c"]


def test_a_copy_from_other_memory_takes_the_values_of_now(driver):
    source, block = np.arange(5.0), Block(driver, 5)
    driver.to_device(source, block.writes(), driver.compute, pinned=False)
    source[:] = -1
    assert np.isnan(block.values).all()
    driver.compute.synchronize()
    assert block.values.tolist() == [0, 1, 2, 3, 4]


def test_a_copy_to_other_memory_is_complete_at_once(driver):
    block, target = Block(driver, 5), np.zeros(5)
    driver.to_device(np.arange(5.0), block.writes(), driver.compute, pinned=False)
    driver.to_host(block.reads(1, 4), target[:3], driver.compute, pinned=False)
    assert target.tolist() == [1, 2, 3, 0, 0]


def test_copies_of_pinned_memory_happen_late(driver):
    block, other = Block(driver, 4), Block(driver, 4)
    source, target = (driver.pinned(32).view("f8") for _ in range(2))
    source[:] = 1
    driver.to_device(source, block.writes(), driver.compute, pinned=True)
    driver.to_host(block.reads(), target, driver.compute, pinned=True)
    source[:] = 2  # a fault, which host_access would report
    assert target.tolist() == [0, 0, 0, 0]
    driver.compute.synchronize()
    assert target.tolist() == [2, 2, 2, 2]
    assert np.isnan(other.values).all()


@pytest.mark.parametrize("direction", ["to the device", "to the host"])
def test_a_copy_that_holds_nobody_up_needs_pinned_memory(driver, direction):
    block = Block(driver, 4)
    if direction == "to the device":
        copy = partial(driver.to_device, np.zeros(4), block.writes())
    else:
        copy = partial(driver.to_host, block.reads(), np.zeros(4))
    with pytest.raises(BackendError, match=r"needs pinned memory, got .*; take it from pinned"):
        copy(driver.compute, pinned=True)


def test_fill_sets_all_bytes_of_a_range(driver):
    block = Block(driver, 6, "u1")
    driver.fill(block.writes(2, 5), 7, driver.compute)
    driver.compute.synchronize()
    assert block.values.tolist() == [255, 255, 7, 7, 7, 255]


def test_few_pieces_wait_at_once_however_many_are_given(driver):
    ran = {"compute": [], "communication": []}
    for i in range(5000):
        stream = driver.compute if i % 3 else driver.communication
        driver.call(partial(ran[stream.name].append, i), stream, [], "count")
    assert driver.statistics.waiting <= schedule.LIMIT + 1
    assert driver.statistics.run >= 5000 - schedule.LIMIT
    driver.finish()
    assert driver.statistics.run == driver.statistics.given == 5000
    assert ran["compute"] == [i for i in range(5000) if i % 3]
    assert ran["communication"] == [i for i in range(5000) if not i % 3]


def test_work_does_not_hold_much_memory_back(driver, log, monkeypatch):
    monkeypatch.setattr(schedule, "MOST_BYTES", 1000)
    log.give(driver.compute, "a")
    driver.allocate(900)
    assert log.ran == []
    driver.allocate(900)
    assert log.ran == ["a"]


def test_plain_memory_goes_with_its_last_reference_and_the_work_that_uses_it(driver):
    block = Block(driver, 10, pooled=False)
    gone, address = weakref.ref(block.allocation), block.address
    driver.call(nothing, driver.compute, [block.writes()], "write")
    del block
    gc.disable()  # it must not take the garbage collector
    try:
        assert gone() is not None
        driver.finish()
        assert gone() is None
    finally:
        gc.enable()
    assert driver.memory_at(address) is None


def test_pooled_memory_goes_to_the_next_owner_while_work_that_uses_it_waits(driver):
    block = Block(driver, 10)
    address = block.address
    driver.fill(block.writes(), 3, driver.compute)
    del block
    assert driver.memory_at(address) is None
    assert Block(driver, 9).address != address
    following = Block(driver, 10)
    assert following.address == address
    assert driver.memory_at(address) is following.allocation.memory
    driver.finish()
    assert np.isnan(following.values).all()


def test_memory_from_the_pool_holds_nan_after_what_compute_did_for_its_former_owner(driver, log):
    block = Block(driver, 4)
    driver.to_device(np.ones(4), block.writes(), driver.compute, pinned=False)
    kept = Block(driver, 4)
    driver.call(lambda: log.ran.append(kept.values[0]), driver.compute, [kept.reads()], "read")
    del block
    following = Block(driver, 4)
    driver.to_device(np.full(4, 2.0), following.writes(1), driver.compute, pinned=False)
    driver.finish()
    assert np.isnan(following.values[0])
    assert following.values[1:].tolist() == [2, 2, 2]


@pytest.mark.parametrize("waits", ["compute", "host", "nobody"])
def test_memory_that_other_work_may_use_is_not_to_be_given_back(driver, waits):
    """CuPy gives it to the next owner at once."""
    block = Block(driver, 4)
    driver.fill(block.writes(), 3, driver.communication)
    end = mark(driver, driver.communication)
    del block
    if waits == "nobody":
        with pytest.raises(RaceError) as error:
            Block(driver, 4)
        assert str(error.value) == (
            "'reuse of freed memory' on stream compute writes device memory while 'fill' on stream "
            "communication may still write it: compute must wait for an event recorded on "
            "communication after 'fill'."
        )
        simulated.finish()
        return
    if waits == "compute":
        driver.compute.wait(end)
    else:
        end.synchronize()
    assert np.isnan(Block(driver, 4).values).sum() in {0, 4}


def test_other_streams_wait_for_compute_before_they_use_memory_from_the_pool(driver):
    first = Block(driver, 4)
    del first
    block = Block(driver, 4)
    with pytest.raises(RaceError, match="communication must wait for an event recorded on compute"):
        driver.fill(block.writes(), 3, driver.communication)
    driver.communication.wait(mark(driver, driver.compute))
    driver.fill(block.writes(), 3, driver.communication)
    simulated.finish()


def test_a_graph_holds_the_memory_that_it_uses(driver):
    driver.begin_capture()
    block = Block(driver, 4)
    driver.fill(block.writes(), 3, driver.compute)
    address = block.address
    del block
    graph = driver.end_capture()
    assert Block(driver, 4).address != address
    del graph
    gc.collect()
    assert Block(driver, 4).address == address


def test_the_pool_keeps_some_memory_only(driver, monkeypatch):
    monkeypatch.setattr(memory, "_MOST_POOLED", 100)
    blocks = [Block(driver, 10) for _ in range(3)]
    gone = [weakref.ref(block.allocation.memory) for block in blocks]
    blocks.clear()
    assert sum(found() is not None for found in gone) == 1


def test_pinned_memory_is_known_while_a_view_of_it_lives(driver):
    pinned = driver.pinned(80)
    view, address = pinned.view("f8")[3:5], pinned.ctypes.data
    del pinned
    assert driver.memory_at(address).nbytes == 80
    assert driver.memory_at(address + 79) is driver.memory_at(address)
    assert driver.memory_at(address + 80) is not driver.memory_at(address)
    del view
    assert driver.memory_at(address) is None


def test_an_error_in_work_names_the_work_and_the_rest_still_runs(driver, log):
    def fail():
        raise ValueError("no such thing")

    driver.call(fail, driver.compute, [], "broken")
    log.give(driver.compute, "next")
    with pytest.raises(ValueError, match="no such thing") as caught:
        driver.compute.synchronize()
    assert caught.value.__notes__ == ["(while 'broken' ran on stream compute)"]
    driver.compute.synchronize()
    assert log.ran == ["next"]


def test_work_that_waits_for_work_is_refused(driver, log):
    log.give(driver.communication, "other")
    driver.call(driver.communication.synchronize, driver.compute, [], "impatient")
    with pytest.raises(BackendError, match="'impatient' is work of a stream and cannot wait"):
        driver.compute.synchronize()
    driver.finish()
    assert log.ran == ["other"]


def test_message_memory_is_the_memory_itself(driver):
    block = Block(driver, 4)
    memory = driver.message_memory(block.writes(1, 3))
    assert memory.shape == (16,)
    memory.view("f8")[:] = [5, 6]
    assert block.values[1:3].tolist() == [5, 6]


@pytest.mark.parametrize("kind", ["pinned", "access", "object", "memory"])
def test_what_is_received_into_holds_nan_before(driver, kind):
    block = Block(driver, 4)
    pinned = driver.pinned(32).view("f8")
    block.values[:] = pinned[:] = 3

    class Array:
        def access(self, write):
            return block.writes(1, 3) if write else block.reads(1, 3)

    values = {
        "pinned": pinned[1:3],
        "access": block.reads(1, 3),
        "object": Array(),
        "memory": driver.message_memory(block.writes(1, 3)),
    }[kind]
    driver.host_access(values, write=False, what="MPI send")
    driver.host_access(values, write=True, what="MPI send")
    found = pinned if kind == "pinned" else block.values
    assert found.tolist() == [3, 3, 3, 3]
    driver.host_access(values, write=True, what="MPI receive")
    np.testing.assert_array_equal(found, [3, np.nan, np.nan, 3])


def test_memory_of_others_is_not_watched_and_not_filled(driver):
    values = np.ones(3)
    driver.host_access(values, write=True, what="MPI receive")
    assert values.tolist() == [1, 1, 1]


@pytest.mark.parametrize("text", ["", "three", "1.5"])
def test_a_seed_that_is_no_number_is_an_error(monkeypatch, text):
    monkeypatch.setenv("DISTARRAY_SIMULATED_SEED", text)
    with pytest.raises(BackendError, match=f"DISTARRAY_SIMULATED_SEED={text} is no whole number"):
        SimulatedDriver()


def test_the_seed_comes_from_the_environment(monkeypatch):
    def order(seed):
        monkeypatch.setenv("DISTARRAY_SIMULATED_SEED", seed)
        driver = SimulatedDriver()
        log = Log(driver)
        for i in range(40):
            log.give(driver.compute, f"a{i}")
            log.give(driver.communication, f"b{i}")
        driver.finish()
        return tuple(log.ran)

    assert order("3") == order("3")
    assert len({order(str(seed)) for seed in range(4)}) == 4


def test_finish_runs_the_work_of_all_devices():
    logs = [Log(SimulatedDriver(seed)) for seed in range(2)]
    for log in logs:
        log.give(log.driver.communication, "a")
    simulated.finish()
    assert [log.ran for log in logs] == [["a"], ["a"]]


def test_what_still_waits_runs_before_the_process_ends():
    code = (
        "from distarray.backends.simulated import SimulatedDriver\n"
        "driver = SimulatedDriver()\n"
        "driver.call(lambda: print('ran'), driver.compute, [], 'print')\n"
        "print('end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["end", "ran"]
    assert done.stderr == ""


def test_statistics_count(driver, log):
    for name in "abc":
        log.give(driver.compute, name)
    mark(driver, driver.compute).synchronize()
    log.give(driver.compute, "d")
    found = driver.statistics
    assert (found.given, found.run, found.waiting, found.synchronizations) == (4, 3, 3, 1)


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("alive", [False, True])
@devices.provokes_races
def test_writes_around_memory_are_found(driver, place, alive):
    simulated.finish()
    block = Block(driver, 4)
    stray = block.address - 1 if place == "before" else block.address + 32
    driver.call(partial(ctypes.memset, stray, 1, 1), driver.compute, [block.writes()], "stray")
    driver.compute.synchronize()
    if not alive:
        del block
    (found,) = simulated.finish()
    assert found.startswith("Work wrote before or behind the 32 bytes of an allocation of device")
    if alive:
        ctypes.memset(stray, 255, 1)
    assert simulated.finish() == []
