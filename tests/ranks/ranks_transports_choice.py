"""Device and transport are chosen alike on all ranks, or refused alike, and the choice is told."""

from __future__ import annotations

import contextlib
import gc
import io
import os

import numpy as np
from mpi4py import MPI

import distarray as da
from distarray import comm, progress
from distarray.arguments import backend_for
from distarray.backends import cuda, nvidia
from distarray.backends.cpu import CpuBackend
from distarray.errors import BackendError, CommunicationError
from distarray.transports import choice, connection
from distarray.transports.choice import on_device, place
from distarray.transports.connection import connect_nccl
from distarray.transports.detection import MpiSupport
from tests.ranks.common import refused

RANKS = (1, 3)

DEVICE = backend_for("simulated")
RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def new_ranks():
    """Ranks on which nothing has been chosen yet."""
    return comm.default(MPI.COMM_WORLD.Dup())


class Like:
    """Another object but for some attributes."""

    def __init__(self, original, **changes):
        self._original = original
        vars(self).update(changes)

    def __getattr__(self, name):
        return getattr(self._original, name)


def raising(error):
    def call(*_):
        raise error

    return call


@contextlib.contextmanager
def changed(holder, **changes):
    before = {name: getattr(holder, name) for name in changes}
    for name, value in changes.items():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(holder, name, value)


@contextlib.contextmanager
def variables(**changes):
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def said(call):
    """What a call returns, and what all ranks write to stderr, each line once for each rank."""
    progress._told.clear()
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        result = call()
    return result, "".join(MPI.COMM_WORLD.allgather(text.getvalue())).splitlines()


def test_the_transport_asked_for_is_taken_and_told_once():
    for transport in ("host", "staged", "device", "nccl"):
        ranks = new_ranks()

        def make(ranks=ranks, transport=transport):
            grid = da.Grid((8, 8), device="simulated", transport=transport, comm=ranks)
            again = da.zeros((8, 8), device="simulated", transport=transport, comm=ranks)
            return grid, again

        (grid, again), lines = said(make)
        assert grid.communicator.transport.name == transport
        assert again.communicator is grid.communicator
        expected = [f"distarray: transport {transport}: asked for"]
        assert lines == (expected if SIZE > 1 else [])


def test_the_variable_asks_where_the_argument_does_not():
    with variables(DISTARRAY_TRANSPORT="host"):
        grid = da.Grid((8, 8), device="simulated", comm=new_ranks())
        assert grid.communicator.transport.name == "host"
        grid = da.Grid((8, 8), device="simulated", transport="nccl", comm=new_ranks())
        assert grid.communicator.transport.name == "nccl"


def test_the_simulated_device_stages_and_the_cpu_says_nothing():
    grid, lines = said(lambda: da.Grid((8, 8), device="simulated", comm=new_ranks()))
    assert grid.communicator.transport.name == "staged"
    told = "distarray: transport staged: taken on this device unless another is asked for"
    assert lines == ([told] if SIZE > 1 else [])
    ranks = new_ranks()
    grid, lines = said(lambda: da.Grid((8, 8), device="cpu", transport="nccl", comm=ranks))
    assert grid.communicator is ranks
    assert lines == []


def test_a_transport_that_is_not_used_since_the_device_is_the_cpu_is_told():
    told = "distarray: transport nccl: not used, since the device is cpu"
    with variables(DISTARRAY_DEVICE="cpu"):
        _, lines = said(lambda: da.Grid((8, 8), transport="nccl", comm=new_ranks()))
        assert lines == ([told] if SIZE > 1 else [])
        with variables(DISTARRAY_TRANSPORT="nccl"):
            _, lines = said(lambda: da.Grid((8, 8), comm=new_ranks()))
        assert lines == ([told] if SIZE > 1 else [])
        with variables(DISTARRAY_TRANSPORT=""):
            _, lines = said(lambda: da.Grid((8, 8), comm=new_ranks()))
        assert lines == []


def test_a_gpu_that_cannot_be_used_is_told_with_the_reason():
    problem = "device='cuda' needs CuPy, which is not installed; install it."
    with (
        changed(nvidia, look=lambda: nvidia.DriverReport(1, (13, 0))),
        changed(cuda, available=lambda: (False, problem)),
    ):
        with variables(DISTARRAY_DEVICE=""):
            grid, lines = said(lambda: da.Grid((8, 8), comm=new_ranks()))
        assert grid.device == "cpu"
        assert lines == [f"distarray: device cpu: {problem}"]
        with variables(DISTARRAY_DEVICE="cpu"):
            assert not said(lambda: da.Grid((8, 8), comm=new_ranks()))[1]
        assert not said(lambda: da.Grid((8, 8), device="cpu", comm=new_ranks()))[1]


def test_unknown_transports_are_refused():
    refused(
        CommunicationError,
        "transport='pigeon' is unknown; use 'auto', 'nccl', 'device', 'staged' or 'host'.",
        lambda: da.Grid((8, 8), device="cpu", transport="pigeon"),
    )
    with variables(DISTARRAY_TRANSPORT="smoke"):
        refused(
            CommunicationError,
            "DISTARRAY_TRANSPORT=smoke is unknown",
            lambda: da.zeros((8, 8), device="cpu"),
        )


def test_ranks_that_ask_for_different_things_are_refused():
    if SIZE == 1:
        return
    device = "simulated" if RANK == 0 else "cpu"
    refused(
        CommunicationError,
        "The device differs between ranks, rank 0 has 'simulated' and rank 1 has 'cpu'; pass the "
        "same on all ranks.",
        lambda: da.Grid((8, 8), device=device),
    )
    transport = "host" if RANK == 0 else "staged"
    refused(
        CommunicationError,
        "The transport differs between ranks, rank 0 has 'host' and rank 1 has 'staged'",
        lambda: da.Grid((8, 8), device="simulated", transport=transport),
    )


def test_a_device_that_fails_on_one_rank_is_an_error_on_all():
    broken = raising(BackendError("This rank has no device; use 'cpu'."))
    with changed(choice, backend_for=broken if RANK == SIZE - 1 else backend_for):
        refused(
            BackendError, "This rank has no device", lambda: da.Grid((8, 8), device="simulated")
        )


def test_auto_takes_the_cpu_on_all_ranks_if_some_have_no_device():
    if SIZE == 1:
        return

    def found(device):
        return DEVICE if device == "auto" and RANK != 1 else CpuBackend()

    with changed(choice, backend_for=found):
        (backend, ranks), lines = said(lambda: place("auto", "auto", MPI.COMM_WORLD))
        problem = "device='cuda' needs CuPy; install it." if RANK == 1 else ""
        with changed(choice, unused_gpu=lambda _: problem):
            _, reasons = said(lambda: place("auto", "auto", MPI.COMM_WORLD))
    assert reasons == [f"{lines[0]}: device='cuda' needs CuPy; install it."]
    assert backend.name == "cpu"
    assert ranks is comm.default(MPI.COMM_WORLD)
    assert lines == [f"distarray: device cpu: no other works on 1 of {SIZE} ranks (ranks 1)"]


# ---- NCCL


def with_binding(change):
    """The simulated device with a stand-in of NCCL that is changed."""
    return Like(DEVICE, name="cuda", nccl_binding=lambda: change(DEVICE.nccl_binding()))


def test_nccl_needs_to_be_there_on_all_ranks():
    missing = Like(DEVICE, nccl_binding=raising(BackendError("NCCL cannot be loaded; install it.")))
    refused(
        CommunicationError,
        f"NCCL cannot be used on rank {SIZE - 1}: NCCL cannot be loaded; install it.",
        lambda: connect_nccl(new_ranks(), missing if RANK == SIZE - 1 else DEVICE),
    )
    refused(
        CommunicationError,
        "NCCL cannot be used on rank 0",
        lambda: on_device(new_ranks(), missing, "nccl"),
    )


def test_nccl_needs_one_version():
    if SIZE == 1:
        return
    backend = with_binding(lambda binding: Like(binding, version=lambda: 22900 + 107 * (RANK == 1)))
    refused(
        CommunicationError,
        "NCCL needs one version on all ranks, got 2.29.0 and 2.30.7; install the same everywhere.",
        lambda: connect_nccl(new_ranks(), backend),
    )


def test_ranks_share_a_gpu_with_nccl_only_if_both_allow_it():
    def sharing(version):
        return with_binding(lambda b: Like(b, device="GPU 7", version=lambda: version))

    if SIZE > 1:
        refused(
            CommunicationError,
            f"NCCL 2.30.4 gives each rank a GPU of its own, {SIZE} ranks share GPU 7; start fewer "
            "ranks, or set NCCL_MULTI_RANK_GPU_ENABLE=1 with NCCL 2.30 or later.",
            lambda: connect_nccl(new_ranks(), sharing(23004)),
        )
    with variables(NCCL_MULTI_RANK_GPU_ENABLE="1"):
        assert connect_nccl(new_ranks(), sharing(23004)).name == "nccl"
        if SIZE > 1:
            refused(
                CommunicationError,
                "NCCL 2.29.7 gives each rank a GPU of its own",
                lambda: connect_nccl(new_ranks(), sharing(22907)),
            )


def test_nccl_that_fails_to_connect_or_to_deliver_is_refused():
    failure = raising(RuntimeError("unhandled system error"))
    backend = with_binding(lambda binding: Like(binding, connect=failure))
    refused(
        CommunicationError,
        "NCCL cannot connect the ranks (RuntimeError: unhandled system error)",
        lambda: connect_nccl(new_ranks(), backend),
    )
    zeros = DEVICE.buffer(64)

    def confused(binding):
        def connect(*arguments):
            ranks = binding.connect(*arguments)
            send = ranks.send
            return Like(ranks, send=lambda _, *rest: send(zeros.address, *rest))

        return Like(binding, connect=connect)

    if SIZE > 1:
        refused(
            CommunicationError,
            "NCCL delivered other values than were sent; use transport='staged'.",
            lambda: connect_nccl(new_ranks(), with_binding(confused)),
        )
    aborted = []

    def refusing(binding):
        def connect(*arguments):
            ranks = binding.connect(*arguments)
            error = RuntimeError("remote error")
            return Like(ranks, group_start=raising(error), abort=lambda: aborted.append(1))

        return Like(binding, connect=connect)

    refused(
        CommunicationError,
        "NCCL cannot send messages (RuntimeError: remote error)",
        lambda: connect_nccl(new_ranks(), with_binding(refusing)),
    )
    assert aborted == [1]


def chosen(backend, answer):
    """The transport that is chosen on a GPU, and what is said of it; `answer` is what MPI says."""
    with changed(choice, said_of_device_memory=lambda *_: answer):
        found, lines = said(lambda: on_device(new_ranks(), backend))
    return found.transport.name, lines


def test_a_gpu_takes_the_first_transport_that_works():
    if SIZE == 1:
        return
    working = with_binding(lambda binding: binding)
    yes, no = MpiSupport(True, "MPI says yes"), MpiSupport(False, "MPI says no")
    assert chosen(working, no) == ("nccl", ["distarray: transport nccl: NCCL connects all ranks"])
    broken = Like(working, nccl_binding=raising(BackendError("no library")))
    without = "NCCL cannot be used on rank 0: no library"
    told = f"distarray: transport device: MPI says yes; {without}"
    assert chosen(broken, yes) == ("device", [told])
    told = f"distarray: transport staged: MPI says no; {without}"
    assert chosen(broken, yes if RANK == 0 else no) == ("staged", [told])
    with changed(choice, probed=lambda _: MpiSupport(True, "a probe" if RANK == 0 else "another")):
        told = f"distarray: transport device: a probe (by rank 0 on its own node); {without}"
        assert chosen(broken, None if RANK == 1 else yes) == ("device", [told])


def test_one_rank_needs_no_transport():
    if SIZE > 1:
        return
    found, lines = said(lambda: on_device(new_ranks(), with_binding(lambda binding: binding)))
    assert found.transport.name == "staged"
    assert lines == []
    values = DEVICE.asarray(np.arange(3.0))
    assert DEVICE.to_host(found.allreduce(values, "sum")).tolist() == [0.0, 1.0, 2.0]


def test_nccl_that_was_chosen_and_nccl_that_is_asked_for_are_one():
    if SIZE == 1:
        return
    ranks, connections = new_ranks(), []

    def counting(binding):
        connect = binding.connect
        return Like(binding, connect=lambda *given: connections.append(1) or connect(*given))

    backend = with_binding(counting)
    found = on_device(ranks, backend)
    assert found.transport.name == "nccl"
    assert on_device(ranks, backend, "nccl") is found
    assert connections == [1]


def test_nccl_is_asked_for_memory_before_any_rank_connects():
    connections = []

    def full(binding):
        error = BackendError("NCCL needs memory of its own on the GPU; leave it some.")
        ready = raising(error) if RANK == SIZE - 1 else binding.require_ready
        return Like(binding, require_ready=ready, connect=lambda *_: connections.append(1))

    refused(
        CommunicationError,
        f"NCCL cannot be used on rank {SIZE - 1}: NCCL needs memory of its own on the GPU",
        lambda: connect_nccl(new_ranks(), with_binding(full)),
    )
    assert connections == []


def test_groups_are_left_together_once_all_ranks_have_let_go():
    left = []

    def noting(binding):
        def connect(*arguments):
            ranks = binding.connect(*arguments)
            return Like(ranks, destroy=lambda: left.append(ranks.destroy()))

        return Like(binding, connect=connect)

    backend = with_binding(noting)
    kept = [connect_nccl(new_ranks(), backend) for _ in range(2)]
    if RANK == 0:
        kept.pop()
    gc.collect()
    connection.leave_abandoned(new_ranks())
    assert len(left) == (SIZE == 1)  # the other ranks still have it
    del kept[:]
    gc.collect()
    connection.leave_abandoned(new_ranks())
    assert len(left) == 2


def test_to_keeps_the_transport_and_chooses_none_where_nothing_moves():
    for transport in ("host", "nccl"):
        grid = da.Grid((8, 8), device="cpu", transport=transport, comm=new_ranks())
        plain = da.zeros((8, 8), device="cpu", transport=transport, comm=new_ranks())
        there = grid.to("simulated")
        views = (grid.zeros()[2:6], plain[1:], plain + 1.0)
        for one in (there, grid.zeros().to("simulated"), *(a.to("simulated") for a in views)):
            assert one.communicator.transport.name == transport
        assert grid.zeros().to("simulated").grid is there
        back = there.to("cpu")
        assert back is grid
        assert there.zeros().to("cpu").communicator is grid.communicator
    ranks = new_ranks()
    grid = da.Grid((8, 8), device="simulated", transport="device", comm=ranks)
    u = grid.zeros()
    plain = da.zeros((8, 8), device="simulated", transport="device", comm=ranks)
    with changed(choice, _choose=raising(AssertionError("a transport was chosen"))):
        assert grid.to("simulated") is grid
        assert u.to("simulated") is u
        assert plain.to("simulated") is plain
    assert set(ranks.on_devices) == {("simulated", "device")}
