"""What stands in for NCCL: several ranks in one process, each with a device of its own."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque

import numpy as np
import pytest

from distarray.backends import simulated
from distarray.backends.simulated import SimulatedDriver, nccl
from distarray.errors import BackendError, CommunicationError, RaceError
from tests import devices
from tests.simulated_tools import Block, nothing


class Post:
    """A post office for all ranks of this process. Messages between two ranks pair by order."""

    def __init__(self, size):
        self.size = size
        self.letters = defaultdict(deque)


class Office:
    """One rank's communicator. A wait for a message that nobody sent is an error, not a hang."""

    def __init__(self, post, rank, known):
        self.post, self.rank, self.known = post, rank, known

    def allgather(self, value):
        size, identity, _, device = value
        return [(size, identity, r, f"{device} {r}") for r in range(self.post.size)]

    def prepare_exchange(self, sends, receives):
        return Prepared(self, sends, receives)


class Prepared:
    def __init__(self, office, sends, receives):
        self.office, self.sends, self.receives = office, sends, receives
        self.expected = None

    def start(self):
        assert self.expected is None, "started while under way"
        post, rank = self.office.post, self.office.rank
        for peer, buffer in self.sends:
            post.letters[rank, peer].append([buffer.copy(), False])
        self.expected = []
        for peer, buffer in self.receives:
            self.expected.append((peer, buffer))
        return self

    def wait(self):
        for peer, buffer in self.expected:
            letters = self.office.post.letters[peer, self.office.rank]
            assert letters, f"rank {self.office.rank} would wait for ever for rank {peer}"
            values, _ = letters.popleft()
            assert values.nbytes <= buffer.nbytes
            buffer[: values.nbytes] = values
        self.expected = None


class Rank:
    def __init__(self, post, rank, seed=0):
        self.driver = SimulatedDriver(seed * 10 + rank)
        self.rank = rank
        self.binding = self.driver.nccl_binding()
        self.office = Office(post, rank, None)

    def connect(self, identity):
        self.ranks = self.binding.connect(self.office.post.size, identity, self.rank, self.office)
        return self

    @property
    def stream(self):
        return self.driver.communication.pointer


def connected(size, seed=0):
    post = Post(size)
    ranks = [Rank(post, rank, seed) for rank in range(size)]
    identity = ranks[0].binding.unique_id()
    return [rank.connect(identity) for rank in ranks]


@pytest.fixture(autouse=True)
def _start_anew():
    yield
    simulated.finish()


def upload(rank, block, values):
    rank.driver.to_device(
        np.asarray(values, block.dtype), block.writes(), rank.driver.communication, pinned=False
    )


def download(rank, block):
    found = np.empty(block.count, block.dtype)
    rank.driver.to_host(block.reads(), found, rank.driver.communication, pinned=False)
    return found.tolist()


def exchange(rank, sends, receives):
    rank.ranks.group_start()
    for block, peer in receives:
        rank.ranks.recv(block.address, block.count, block.dtype.name, peer, rank.stream)
    for block, peer in sends:
        rank.ranks.send(block.address, block.count, block.dtype.name, peer, rank.stream)
    rank.ranks.group_end()


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_a_ring_arrive_many_times(seed):
    ranks = connected(3, seed)
    sent = [Block(rank.driver, 5) for rank in ranks]
    received = [Block(rank.driver, 5) for rank in ranks]
    for step in range(4):
        for r, rank in enumerate(ranks):
            upload(rank, sent[r], np.arange(5) + 100 * r + 1000 * step)
            exchange(rank, [(sent[r], (r + 1) % 3)], [(received[r], (r - 1) % 3)])
        if step % 2:
            for r, rank in enumerate(ranks):
                expected = np.arange(5) + 100 * ((r - 1) % 3) + 1000 * step
                assert download(rank, received[r]) == expected.tolist()


def test_messages_to_one_rank_pair_by_order_alone():
    """Two messages each way, as for two ranks on a periodic axis, and calls in any order."""
    ranks = connected(2)
    blocks = [[Block(rank.driver, 2) for _ in range(4)] for rank in ranks]
    for r, rank in enumerate(ranks):
        low, high, from_high, from_low = blocks[r]
        upload(rank, low, [r, 1])
        upload(rank, high, [r, 2])
        exchange(rank, [(low, 1 - r), (high, 1 - r)], [(from_high, 1 - r), (from_low, 1 - r)])
    for r, rank in enumerate(ranks):
        assert download(rank, blocks[r][2]) == [1 - r, 1]
        assert download(rank, blocks[r][3]) == [1 - r, 2]


def test_messages_of_a_rank_to_itself_pair_within_a_group():
    (rank,) = connected(1)
    one, two, first, second = (Block(rank.driver, 2) for _ in range(4))
    upload(rank, one, [1, 1])
    upload(rank, two, [2, 2])
    exchange(rank, [(one, 0), (two, 0)], [(first, 0), (second, 0)])
    assert download(rank, first) == [1, 1]
    assert download(rank, second) == [2, 2]


def test_what_is_sent_is_what_work_before_it_wrote():
    ranks = connected(2)
    blocks = [Block(rank.driver, 3) for rank in ranks]
    driver = ranks[0].driver
    source = Block(driver, 3)
    driver.to_device(np.array([1.0, 2, 3]), source.writes(), driver.compute, pinned=False)
    event = driver.event()
    driver.compute.record(event)
    driver.communication.wait(event)

    def pack():
        blocks[0].values[:] = 2 * source.values

    driver.call(pack, driver.communication, [source.reads(), blocks[0].writes()], "pack")
    exchange(ranks[0], [(blocks[0], 1)], [])
    exchange(ranks[1], [], [(blocks[1], 0)])
    assert download(ranks[1], blocks[1]) == [2, 4, 6]


def test_the_host_is_not_held_up_and_memory_is_written_late():
    ranks = connected(2)
    blocks = [[Block(rank.driver, 3) for _ in range(2)] for rank in ranks]
    exchange(ranks[0], [(blocks[0][0], 1)], [(blocks[0][1], 1)])  # rank 1 has done nothing yet
    assert ranks[0].driver.statistics.run == 0
    upload(ranks[1], blocks[1][0], [7, 8, 9])
    exchange(ranks[1], [(blocks[1][0], 0)], [(blocks[1][1], 0)])
    assert np.isnan(blocks[0][1].values).all()
    assert download(ranks[0], blocks[0][1]) == [7, 8, 9]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("write what is sent", "'NCCL send and receive' on stream communication may still read"),
        ("read what is received", "'NCCL send and receive' on stream communication may still wr"),
        ("write what is received", "'NCCL send and receive' on stream communication may still wr"),
    ],
)
@devices.provokes_races
def test_buffers_belong_to_the_group_until_its_stream_was_waited_for(use, message):
    (rank,) = connected(1)
    sent, received = (Block(rank.driver, 2) for _ in range(2))
    exchange(rank, [(sent, 0)], [(received, 0)])
    block = sent if "sent" in use else received
    access = block.writes() if "write" in use else block.reads()
    with pytest.raises(RaceError, match=message):
        rank.driver.call(nothing, rank.driver.compute, [access], "core")
    with pytest.raises(RaceError, match=message):
        rank.driver.host_access(access, write=access.write, what="file")
    rank.driver.call(nothing, rank.driver.compute, [sent.reads()], "both read")


@devices.provokes_races
def test_a_group_must_come_after_the_pack():
    (rank,) = connected(1)
    sent, received = (Block(rank.driver, 2) for _ in range(2))
    rank.driver.call(nothing, rank.driver.compute, [sent.writes()], "pack")
    with pytest.raises(RaceError, match="'NCCL send and receive' on stream communication reads"):
        exchange(rank, [(sent, 0)], [(received, 0)])
    event = rank.driver.event()
    rank.driver.compute.record(event)
    rank.driver.communication.wait(event)
    exchange(rank, [(sent, 0)], [(received, 0)])


def captured_exchange(rank, sent, received):
    """A graph of an exchange with the other of two ranks."""
    driver = rank.driver
    driver.begin_capture()
    event = driver.event()
    driver.compute.record(event)
    driver.communication.wait(event)
    exchange(rank, [(sent, 1 - rank.rank)], [(received, 1 - rank.rank)])
    driver.communication.record(event)
    driver.compute.wait(event)
    return driver.end_capture()


def test_a_captured_group_sends_anew_with_each_launch():
    ranks = connected(2)
    graphs, sent, received = [], [], []
    for rank in ranks:
        sent.append(Block(rank.driver, 2))
        received.append(Block(rank.driver, 2))
        graphs.append(captured_exchange(rank, sent[-1], received[-1]))
    for step in range(3):
        for r, rank in enumerate(ranks):
            values = np.array([r, step], float)
            rank.driver.to_device(values, sent[r].writes(), rank.driver.compute, pinned=False)
            graphs[r].launch(rank.driver.compute)
    for r, rank in enumerate(ranks):
        rank.driver.compute.synchronize()
        assert received[r].values.tolist() == [1 - r, 2]


def test_messages_of_graphs_pair_with_those_of_graphs_only():
    ranks = connected(2)
    sent, received = zip(*[(Block(r.driver, 2), Block(r.driver, 2)) for r in ranks], strict=True)
    for block in sent:
        block.values[:] = 1.0
    captured_exchange(ranks[0], sent[0], received[0]).launch(ranks[0].driver.compute)
    exchange(ranks[1], [(sent[1], 0)], [(received[1], 0)])
    words = "by a {} and received by a {}; capture the same work on all ranks"
    for rank, pair in zip(ranks, (("call", "graph"), ("graph", "call")), strict=True):
        with pytest.raises(CommunicationError, match=words.format(*pair)):
            rank.driver.finish()


OPERANDS = {
    "float64": [[1.5, -2, np.nan], [4, 0.25, 1], [-3, 8, 2]],
    "int32": [[1, -2, 2**31 - 1], [4, 5, 1], [-3, 8, 0]],
    "uint8": [[1, 2, 250], [4, 5, 10], [3, 8, 1]],
}
#: NaN loses in min and max, integers wrap.
REDUCED = {
    ("float64", "sum"): [2.5, 6.25, np.nan],
    ("float64", "prod"): [-18, -4, np.nan],
    ("float64", "min"): [-3, -2, 1],
    ("float64", "max"): [4, 8, 2],
    ("int32", "sum"): [2, 11, -(2**31)],
    ("int32", "prod"): [-12, -80, 0],
    ("int32", "min"): [-3, -2, 0],
    ("int32", "max"): [4, 8, 2**31 - 1],
    ("uint8", "sum"): [8, 15, 5],
    ("uint8", "prod"): [12, 80, 2500 % 256],
    ("uint8", "min"): [1, 2, 1],
    ("uint8", "max"): [4, 8, 250],
}


@pytest.mark.parametrize(("dtype", "op"), REDUCED)
@pytest.mark.parametrize("in_place", [False, True])
def test_all_reduce(dtype, op, in_place):
    ranks = connected(3)
    blocks = [[Block(rank.driver, 3, dtype) for _ in range(2)] for rank in ranks]
    for rank, (send, receive), values in zip(ranks, blocks, OPERANDS[dtype], strict=True):
        upload(rank, send, values)
        target = send if in_place else receive
        rank.ranks.all_reduce(send.address, target.address, 3, dtype, op, rank.stream)
    for rank, pair in zip(ranks, blocks, strict=True):
        np.testing.assert_array_equal(download(rank, pair[not in_place]), REDUCED[dtype, op])


@pytest.mark.parametrize("root", [0, 2])
def test_reduce_writes_on_root_only(root):
    ranks = connected(3)
    blocks = [[Block(rank.driver, 3, "int32") for _ in range(2)] for rank in ranks]
    for rank, (send, receive), values in zip(ranks, blocks, OPERANDS["int32"], strict=True):
        upload(rank, send, values)
        rank.ranks.reduce(send.address, receive.address, 3, "int32", "sum", root, rank.stream)
    for rank, (_, receive) in zip(ranks, blocks, strict=True):
        expected = REDUCED["int32", "sum"] if rank.rank == root else [-1, -1, -1]  # unset bytes
        assert download(rank, receive) == expected


def test_all_gather_and_reduce_scatter_go_by_rank():
    ranks = connected(3)
    blocks = [[Block(rank.driver, n) for n in (2, 6, 2)] for rank in ranks]
    for r, (rank, (send, gathered, _)) in enumerate(zip(ranks, blocks, strict=True)):
        upload(rank, send, [r, 10 + r])
        rank.ranks.all_gather(send.address, gathered.address, 2, "float64", rank.stream)
    for rank, (_, gathered, part) in zip(ranks, blocks, strict=True):
        rank.ranks.reduce_scatter(gathered.address, part.address, 2, "float64", "sum", rank.stream)
    for r, (rank, (_, gathered, part)) in enumerate(zip(ranks, blocks, strict=True)):
        assert download(rank, gathered) == [0, 10, 1, 11, 2, 12]
        assert download(rank, part) == [3 * r, 3 * (10 + r)]


@pytest.mark.parametrize("root", [0, 1])
def test_broadcast_in_place(root):
    ranks = connected(2)
    blocks = [Block(rank.driver, 3, "u1") for rank in ranks]
    for rank, block in zip(ranks, blocks, strict=True):
        if rank.rank == root:
            upload(rank, block, [3, 2, 1])
        rank.ranks.broadcast(block.address, block.address, 3, "uint8", root, rank.stream)
    assert [download(*pair) for pair in zip(ranks, blocks, strict=True)] == [[3, 2, 1]] * 2


def test_collectives_and_messages_of_one_group_begin_together():
    ranks = connected(2)
    blocks = [[Block(rank.driver, 2, "u1") for _ in range(4)] for rank in ranks]
    for rank, (a, b, c, d) in zip(ranks, blocks, strict=True):
        upload(rank, a, [rank.rank] * 2)
        upload(rank, c, [rank.rank + 5] * 2)
        rank.ranks.group_start()
        for root, target in ((0, b), (1, d)):
            source = a if root == 0 else c
            rank.ranks.broadcast(source.address, target.address, 2, "uint8", root, rank.stream)
        assert rank.driver.statistics.given == 2
        rank.ranks.group_end()
        assert rank.driver.statistics.given == 3
    for rank, (_, b, _, d) in zip(ranks, blocks, strict=True):
        assert download(rank, b) == [0, 0]
        assert download(rank, d) == [6, 6]


def test_groups_nest():
    (rank,) = connected(1)
    sent, received = (Block(rank.driver, 2) for _ in range(2))
    rank.ranks.group_start()
    exchange(rank, [(sent, 0)], [(received, 0)])
    assert rank.driver.statistics.given == 0
    rank.ranks.group_end()
    assert rank.driver.statistics.given == 1
    rank.ranks.group_start()
    rank.ranks.group_end()  # nothing to do
    assert rank.driver.statistics.given == 1


def wrong_calls(rank):
    """Each call that the library refuses, or hangs or crashes on, with the words that say so."""
    block, pinned = Block(rank.driver, 4), rank.driver.pinned(32)
    ranks, stream, address = rank.ranks, rank.stream, block.address
    rank.kept = block, pinned
    return {
        "moves 1 element or more, not 0": lambda: ranks.send(address, 0, "float64", 1, stream),
        "moves 1 element or more, not -1": lambda: ranks.recv(address, -1, "float64", 1, stream),
        "has no elements of complex128": lambda: ranks.send(address, 2, "complex128", 1, stream),
        "has no elements of bool": lambda: ranks.all_reduce(
            address, address, 2, "bool", "sum", stream
        ),
        "has no elements of int16": lambda: ranks.all_gather(address, address, 1, "int16", stream),
        "has ranks 0 to 1, not 2": lambda: ranks.send(address, 1, "float64", 2, stream),
        "has ranks 0 to 1, not -1": lambda: ranks.recv(address, 1, "float64", -1, stream),
        "has ranks 0 to 1, not 7": lambda: ranks.broadcast(address, address, 1, "uint8", 7, stream),
        "has ranks 0 to 1, not 3": lambda: ranks.reduce(
            address, address, 1, "uint8", "sum", 3, stream
        ),
        "reduces by sum, prod, min, max, not by 'mean'": lambda: ranks.all_reduce(
            address, address, 2, "float64", "mean", stream
        ),
        "moves device memory, not 5 elements of float64": lambda: ranks.send(
            address, 5, "float64", 1, stream
        ),
        "moves device memory, not 4 elements of float64": lambda: ranks.send(
            pinned.ctypes.data, 4, "float64", 1, stream
        ),
        "moves device memory, not 1 elements of float64 at 0x0": lambda: ranks.recv(
            0, 1, "float64", 1, stream
        ),
        # The received parts of both ranks do not fit.
        "moves device memory, not 3 elements of float64": lambda: ranks.all_gather(
            address, address, 3, "float64", stream
        ),
    }


WORDS = list(wrong_calls(connected(2)[0]))


@pytest.mark.parametrize("words", WORDS)
def test_wrong_calls_are_refused_and_nothing_of_their_group_begins(words):
    rank = connected(2)[0]
    call = wrong_calls(rank)[words]
    block = Block(rank.driver, 4)
    rank.ranks.group_start()
    rank.ranks.send(block.address, 1, "float64", 1, rank.stream)
    with pytest.raises(CommunicationError) as caught:
        call()
    assert f"NCCL {words}" in str(caught.value)
    with pytest.raises(CommunicationError, match="begins no group of which a call failed"):
        rank.ranks.group_end()
    assert rank.driver.statistics.given == 0
    exchange(rank, [(block, 1)], [])  # the next group is a new one


@pytest.mark.parametrize("name", ["send", "recv"])
def test_messages_outside_of_a_group_are_refused(name):
    rank = connected(2)[0]
    block = Block(rank.driver, 4)
    with pytest.raises(CommunicationError, match=rf"for ever in a {name} outside of a group"):
        getattr(rank.ranks, name)(block.address, 1, "float64", 1, rank.stream)


def test_an_unknown_stream_is_refused():
    rank = connected(2)[0]
    block = Block(rank.driver, 4)
    with pytest.raises(BackendError, match="no stream with the handle 77"):
        rank.ranks.all_reduce(block.address, block.address, 1, "float64", "sum", 77)


@pytest.mark.parametrize(("sends", "receives"), [(1, 0), (0, 1), (2, 1)])
def test_messages_of_a_rank_to_itself_must_pair(sends, receives):
    (rank,) = connected(1)
    blocks = [Block(rank.driver, 2) for _ in range(3)]
    with pytest.raises(CommunicationError, match="pairs the messages of a rank to itself within"):
        exchange(rank, [(b, 0) for b in blocks[:sends]], [(b, 0) for b in blocks[2:][:receives]])
    assert rank.driver.statistics.given == 0


@pytest.mark.parametrize(
    ("sent", "received"), [("all", "part"), ("part", "all"), ("all", "all twice")]
)
def test_messages_received_over_others_of_the_group_are_refused(sent, received):
    rank = connected(2)[0]
    block, other = Block(rank.driver, 4), Block(rank.driver, 4)
    if received == "all twice":
        call = lambda: exchange(rank, [], [(block, 1), (block, 1)])  # noqa: E731
    else:
        part = Block.__new__(Block)
        part.address, part.count, part.dtype = block.address + 8, 2, block.dtype
        blocks = {"all": block, "part": part}
        call = lambda: exchange(rank, [(blocks[sent], 1)], [(blocks[received], 1)])  # noqa: E731
    with pytest.raises(CommunicationError, match="none may be received over another"):
        call()
    exchange(rank, [(block, 1), (block, 1)], [(other, 1)])  # sent twice is well


@pytest.mark.parametrize(
    ("sent", "received"), [((3, "f8"), (4, "f8")), ((2, "f8"), (4, "f4")), ((4, "i4"), (4, "f4"))]
)
def test_messages_that_differ_on_the_two_sides_are_an_error(sent, received):
    ranks = connected(2)
    send, receive = Block(ranks[0].driver, *sent), Block(ranks[1].driver, *received)
    exchange(ranks[0], [(send, 1)], [])
    exchange(ranks[1], [], [(receive, 0)])
    with pytest.raises(CommunicationError, match="pairs messages by order alone, but message 1"):
        ranks[1].driver.finish()


def test_a_group_uses_one_stream():
    (rank,) = connected(1)
    a, b, c, d = (Block(rank.driver, 2) for _ in range(4))
    rank.ranks.group_start()
    for send, receive, stream in ((a, b, rank.driver.compute), (c, d, rank.driver.communication)):
        rank.ranks.send(send.address, 2, "float64", 0, stream.pointer)
        rank.ranks.recv(receive.address, 2, "float64", 0, stream.pointer)
    with pytest.raises(CommunicationError, match="one stream in a group, not 2"):
        rank.ranks.group_end()


def test_group_end_needs_group_start():
    with pytest.raises(CommunicationError, match="takes no group_end without group_start"):
        connected(1)[0].ranks.group_end()


def test_after_the_end_no_call_is_taken_and_the_end_waits_for_the_work():
    (rank,) = connected(1)
    sent, received = (Block(rank.driver, 2) for _ in range(2))
    exchange(rank, [(sent, 0)], [(received, 0)])
    with pytest.raises(CommunicationError, match="cannot be left while work is under way"):
        rank.ranks.destroy()
    rank.driver.communication.synchronize()
    rank.ranks.check()
    rank.ranks.destroy()
    calls = (rank.ranks.check, rank.ranks.destroy, rank.ranks.group_start, rank.ranks.group_end)
    for call in calls:
        with pytest.raises(CommunicationError, match="takes no call after destroy"):
            call()
    with pytest.raises(CommunicationError, match="takes no call after destroy"):
        rank.ranks.all_reduce(sent.address, sent.address, 1, "float64", "sum", rank.stream)


class Told:
    """A communicator that gathers what the test says."""

    def __init__(self, *known):
        self.known = known

    def allgather(self, value):
        return [value, *self.known]


def test_ranks_that_do_not_fit_together_are_not_connected():
    binding = SimulatedDriver(0).nccl_binding()
    identity, other = binding.unique_id(), binding.unique_id()
    assert len(identity) == 128
    assert identity != other
    match = "connects ranks 0 to size - 1 that pass the same size and the same name of 128 bytes"
    for size, name, communicator in (
        (2, identity, Told((2, other, 1, "elsewhere"))),
        (2, identity, Told((2, identity, 0, "elsewhere"))),
        (2, identity, Told((3, identity, 1, "elsewhere"))),
        (3, identity, Told((3, identity, 1, "elsewhere"))),
        (1, b"", Told()),
    ):
        with pytest.raises(CommunicationError, match=match):
            binding.connect(size, name, 0, communicator)
    assert binding.connect(2, identity, 0, Told((2, identity, 1, "elsewhere"))) is not None


def test_two_ranks_on_one_device_need_a_setting(monkeypatch):
    binding = SimulatedDriver(0).nccl_binding()
    identity = binding.unique_id()
    told = Told((2, identity, 1, binding.device))
    monkeypatch.delenv("NCCL_MULTI_RANK_GPU_ENABLE", raising=False)
    with pytest.raises(CommunicationError, match="connects no two ranks of one device"):
        binding.connect(2, identity, 0, told)
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    assert binding.connect(2, identity, 0, told) is not None


def test_the_version_is_one_that_connects_ranks_of_one_device():
    assert SimulatedDriver(0).nccl_binding().version() >= 23000


def test_element_types_are_those_of_the_protocol():
    from distarray.comm import nccl as protocol

    assert nccl.DTYPES == protocol.DTYPES
    assert tuple(nccl.OPERATIONS) == protocol.OPERATIONS
    for name, op in itertools.product(nccl.DTYPES, nccl.OPERATIONS):
        assert nccl.OPERATIONS[op](np.ones(1, name), np.ones(1, name)).dtype == name
