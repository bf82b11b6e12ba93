"""The simulated device reports work that touches the same memory in no order, and no other."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from distarray.backends import simulated
from distarray.backends.driver import Access
from distarray.backends.simulated import SimulatedDriver, memory
from distarray.backends.simulated.overlap import overlap
from distarray.errors import BackendError, RaceError
from tests import devices
from tests.simulated_tools import Block, nothing


@pytest.fixture(autouse=True)
def _start_anew():
    simulated.finish()
    yield
    simulated.finish()


@pytest.fixture
def driver():
    return SimulatedDriver(seed=1)


def mark(driver, stream):
    event = driver.event()
    stream.record(event)
    return event


def both(block, write):
    return block.writes() if write else block.reads()


@pytest.mark.parametrize(("first", "second"), list(itertools.product([False, True], repeat=2)))
def test_two_accesses_race_if_one_writes_and_nothing_orders_them(driver, first, second):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [both(block, first)], "core")
    if not first and not second:
        driver.call(nothing, driver.communication, [both(block, second)], "pack")
        return
    with pytest.raises(RaceError):
        driver.call(nothing, driver.communication, [both(block, second)], "pack")


@devices.provokes_races
def test_a_race_names_both_operations_both_streams_and_the_missing_wait(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.communication, [block.reads()], "pack")
    with pytest.raises(BackendError) as caught:
        driver.call(nothing, driver.compute, [block.writes()], "core")
    message = (
        "'core' on stream compute writes device memory while 'pack' on stream communication may "
        "still read it: compute must wait for an event recorded on communication after 'pack'."
    )
    assert str(caught.value) == message
    assert simulated.races_seen() == [message]
    assert simulated.finish() == [message]
    assert simulated.races_seen() == []


@pytest.mark.parametrize(("record", "wait"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("early", [False, True])
def test_an_order_takes_a_record_after_the_first_and_a_wait_before_the_second(
    driver, record, wait, early
):
    block, event = Block(driver, 8), driver.event()
    if early:
        driver.compute.record(event)  # before the work: it says nothing about it
    driver.call(nothing, driver.compute, [block.writes()], "core")
    if record:
        driver.compute.record(event)
    if wait:
        driver.communication.wait(event)
    if record and wait:
        driver.call(nothing, driver.communication, [block.reads()], "pack")
    else:
        with pytest.raises(RaceError):
            driver.call(nothing, driver.communication, [block.reads()], "pack")


def test_a_wait_before_the_record_orders_nothing(driver):
    block, event = Block(driver, 8), driver.event()
    driver.call(nothing, driver.compute, [block.writes()], "core")
    driver.communication.wait(event)
    driver.compute.record(event)
    with pytest.raises(RaceError):
        driver.call(nothing, driver.communication, [block.reads()], "pack")


def test_what_the_host_waited_for_comes_before_all_it_gives_later(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [block.writes()], "core")
    mark(driver, driver.compute).synchronize()
    driver.call(nothing, driver.communication, [block.writes()], "pack")


def test_an_event_found_done_orders_too(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [block.writes()], "core")
    event = mark(driver, driver.compute)
    while not event.done():
        pass
    driver.call(nothing, driver.communication, [block.writes()], "pack")


def test_that_work_has_run_by_chance_orders_nothing(driver):
    block, other = Block(driver, 8), Block(driver, 8)
    driver.call(nothing, driver.compute, [block.writes()], "core")
    event = mark(driver, driver.compute)
    event.done()  # runs it, and says no
    assert driver.statistics.run == 1
    with pytest.raises(RaceError):
        driver.host_access(block.reads(), write=False, what="MPI send")
    driver.host_access(other.reads(), write=False, what="MPI send")


@pytest.mark.parametrize(
    ("pending", "host", "races"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, True)],
)
@devices.provokes_races
def test_the_host_must_wait_for_work_of_streams(driver, pending, host, races):
    block = Block(driver, 8)
    driver.call(nothing, driver.communication, [both(block, pending)], "pack")
    if races:
        verb, other = ("writes" if host else "reads"), ("write" if pending else "read")
        with pytest.raises(RaceError) as caught:
            driver.host_access(both(block, host), write=host, what="MPI send")
        assert str(caught.value) == (
            f"'MPI send' on the host {verb} device memory while 'pack' on stream communication may "
            f"still {other} it: the host must wait for an event recorded on communication after "
            "'pack'."
        )
    mark(driver, driver.communication).synchronize()
    driver.host_access(both(block, host), write=host, what="MPI send")


def test_the_host_learns_nothing_from_another_stream(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.communication, [block.writes()], "pack")
    driver.compute.synchronize()
    with pytest.raises(RaceError):
        driver.host_access(block.reads(), write=False, what="MPI send")
    driver.compute.wait(mark(driver, driver.communication))
    driver.compute.synchronize()
    driver.host_access(block.reads(), write=False, what="MPI send")


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("direction", ["to the device", "to the host"])
def test_pinned_memory_belongs_to_a_copy_until_it_is_done(driver, direction, write):
    block, pinned = Block(driver, 4), driver.pinned(64).view("f8")
    near, far = pinned[2:6], pinned[6:]
    if direction == "to the device":
        driver.to_device(near, block.writes(), driver.communication, pinned=True)
    else:
        driver.to_host(block.reads(), near, driver.communication, pinned=True)
    driver.host_access(far, write=True, what="file")
    if direction == "to the device" and not write:
        driver.host_access(near, write=False, what="file")
    else:
        with pytest.raises(RaceError, match="pinned memory while 'copy to the"):
            driver.host_access(pinned[5:], write=write, what="file")
    driver.communication.synchronize()
    driver.host_access(near, write=write, what="file")


def test_copies_race_like_other_work(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [block.writes(0, 4)], "core")
    with pytest.raises(RaceError, match="'copy to the device' on stream communication writes"):
        driver.to_device(np.zeros(4), block.writes(2, 6), driver.communication, pinned=False)
    with pytest.raises(RaceError, match="'copy to the host' on stream communication reads"):
        driver.to_host(block.reads(2, 6), np.zeros(4), driver.communication, pinned=False)
    with pytest.raises(RaceError, match="'fill' on stream communication writes"):
        driver.fill(block.writes(0, 1), 0, driver.communication)
    driver.to_device(np.zeros(4), block.writes(4, 8), driver.communication, pinned=False)


def test_ranges_apart_and_interleaved_ones_do_not_race(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [block.writes(0, 4), block.writes(4, 8, 2)], "even")
    driver.call(nothing, driver.communication, [block.writes(5, 8, 2)], "odd")
    with pytest.raises(RaceError):
        driver.call(nothing, driver.communication, [block.reads(6, 7)], "pack")


def test_one_operation_may_read_and_write_the_same(driver):
    block = Block(driver, 8)
    driver.call(nothing, driver.compute, [block.reads(), block.writes()], "in place")


def test_the_device_stays_of_use_after_a_race(driver):
    block, other, ran = Block(driver, 8), Block(driver, 8), []
    driver.call(lambda: ran.append("core"), driver.compute, [block.writes()], "core")
    with pytest.raises(RaceError):
        driver.call(lambda: ran.append("pack"), driver.communication, [block.reads()], "pack")
    driver.call(lambda: ran.append("other"), driver.communication, [other.writes()], "other")
    driver.communication.wait(mark(driver, driver.compute))
    driver.call(lambda: ran.append("again"), driver.communication, [block.reads()], "pack")
    driver.communication.synchronize()
    assert sorted(ran) == ["again", "core", "other"]  # what raced was never given


def test_an_access_is_remembered_however_many_follow(driver):
    block = Block(driver, 1000)
    driver.call(nothing, driver.compute, [block.writes(0, 1)], "early")
    for i in range(1, 1000):
        driver.call(nothing, driver.compute, [block.writes(i, i + 1)], f"part {i}")
    with pytest.raises(RaceError, match="while 'early' on stream compute"):
        driver.call(nothing, driver.communication, [block.reads(0, 1)], "pack")


def test_accesses_known_to_be_done_are_forgotten(driver):
    block = Block(driver, 5000)
    for i in range(5000):
        driver.call(nothing, driver.compute, [block.writes(i, i + 1)], "part")
        driver.compute.synchronize()
    assert sum(map(len, block.allocation.memory._records)) <= memory._MANY + 1


def test_the_same_range_again_takes_no_more_room(driver):
    block = Block(driver, 8)
    for _ in range(1000):
        driver.call(nothing, driver.compute, [block.reads(), block.writes()], "step")
    assert sum(map(len, block.allocation.memory._records)) == 2


class Model:
    """The order of work as a graph: for each piece, the set of all that comes before it."""

    def __init__(self):
        self.stream_end = {"compute": frozenset(), "communication": frozenset()}
        self.host = frozenset()
        self.events = {}
        self.accesses = {}

    def races(self, before, accesses):
        return any(
            write or other_write
            for piece, touched in self.accesses.items()
            if piece not in before
            for start, stop, write in accesses
            for other_start, other_stop, other_write in touched
            if start < other_stop and other_start < stop
        )

    def give(self, stream, accesses):
        """Whether the piece races; it is given only if not."""
        before = self.stream_end[stream] | self.host
        if self.races(before, accesses):
            return True
        piece = len(self.accesses)
        self.accesses[piece] = accesses
        self.stream_end[stream] = before | {piece}
        return False


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_race_exactly_where_no_path_of_events_orders_them(seed):
    """Each report is compared with reachability in the graph of all work."""
    rng = random.Random(seed)
    driver, model = SimulatedDriver(seed), Model()
    block = Block(driver, 12)
    streams = {"compute": driver.compute, "communication": driver.communication}
    events = [driver.event() for _ in range(3)]
    reported = 0

    def part():
        start = rng.randrange(12)
        return start, rng.randint(start + 1, 12), rng.random() < 0.4

    def access(start, stop, write):
        return block.writes(start, stop) if write else block.reads(start, stop)

    def race(call):
        try:
            call()
        except RaceError:
            return True
        return False

    for _ in range(400):
        action = rng.choice(["give", "give", "record", "wait", "wait", "host", "synchronize"])
        name, number = rng.choice(list(streams)), rng.randrange(3)
        stream, event = streams[name], events[number]
        if action == "give":
            parts = [part() for _ in range(rng.randint(1, 2))]
            expected = model.give(name, parts)
            accesses = [access(*one) for one in parts]
            found = race(lambda s=stream, a=accesses: driver.call(nothing, s, a, "piece"))
            assert found == expected
            reported += found
        elif action == "record":
            model.events[number] = model.stream_end[name]
            stream.record(event)
        elif action == "wait":
            model.stream_end[name] |= model.events.get(number, frozenset())
            stream.wait(event)
        elif action == "host":
            one = access(*part())
            start = (one.address - block.address) // 8
            expected = model.races(model.host, [(start, start + one.shape[0], one.write)])
            found = race(lambda a=one: driver.host_access(a, write=a.write, what="file"))
            assert found == expected
            reported += found
        elif rng.random() < 0.2:
            model.host |= model.events.get(number, frozenset())
            event.synchronize()
    assert 0 < reported < 400


def box_of(rng, shape, strides):
    """A random part of a pitched array, maybe with steps and backwards, and the bytes it has."""
    itemsize = strides[-1]
    axes = [
        range(shape[axis])[
            slice(*sorted(rng.sample(range(shape[axis] + 1), 2)), rng.choice([1, 1, 2, 3]))
        ]
        for axis in range(len(shape))
    ]
    axes = [axis[::-1] if rng.random() < 0.2 else axis for axis in axes]
    start = sum(axis[0] * stride for axis, stride in zip(axes, strides, strict=True))
    steps = tuple(axis.step * stride for axis, stride in zip(axes, strides, strict=True))
    firsts = {
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*axes)
    }
    octets = {first + byte for first in firsts for byte in range(itemsize)}
    return (4096 + start, tuple(map(len, axes)), steps, itemsize), octets


@pytest.mark.parametrize("strides", [(200, 40, 8), (256, 64, 8), (90, 30, 4)])
def test_boxes_of_a_pitched_array_overlap_exactly_where_they_share_bytes(strides):
    rng = random.Random(3)
    shape = (4, 3, 5)
    found = []
    for _ in range(1500):
        (one, first), (two, second) = (box_of(rng, shape, strides) for _ in range(2))
        found.append(overlap(one, two))
        assert found[-1] == bool(first & second)
    assert 0.1 < np.mean(found) < 0.9


def test_overlap_of_views_with_other_types_broadcast_and_empty_ones():
    row = (1024, (10,), (8,), 8)
    assert overlap(row, (1024 + 79, (1,), (1,), 1))
    assert not overlap(row, (1024 + 80, (1,), (1,), 1))
    assert not overlap((1024, (4,), (16,), 8), (1024 + 8, (4, 8), (16, 1), 1))
    assert overlap((1024, (5, 3), (0, 8), 8), (1024 + 16, (2,), (0,), 4))
    assert not overlap((1024, (0, 3), (8, 8), 8), row)
    assert not overlap(row, (1040, (3, 0), (8, 8), 8))
    assert overlap((1024, (), (), 8), (1031, (), (), 1))


def test_faces_of_a_block_and_its_core_are_told_apart(driver):
    """The parts of a 3-D block that an exchange and a kernel touch at one time."""
    shape, strides = (20, 18, 34), (18 * 384, 384, 8)
    allocation = driver.allocate(20 * 18 * 384)

    def part(write, *slices):
        ranges = [range(n)[s] for n, s in zip(shape, slices, strict=True)]
        start = sum(r[0] * s for r, s in zip(ranges, strides, strict=True))
        extents = tuple(map(len, ranges))
        return Access(allocation, allocation.address + start, extents, strides, 8, write)

    whole, inner = slice(None), slice(1, -1)
    for axis in range(3):
        for halo in (slice(0, 1), slice(-1, None)):
            slices = [inner] * 3
            slices[axis] = halo
            driver.call(nothing, driver.communication, [part(True, *slices)], "unpack")
    driver.call(nothing, driver.compute, [part(True, inner, inner, inner)], "core")
    for axis in range(3):
        slices = [inner] * 3
        slices[axis] = whole
        with pytest.raises(RaceError, match="while 'unpack' on stream communication"):
            driver.call(nothing, driver.compute, [part(False, *slices)], "remainder")
