"""What transports do without ranks: calls of NCCL, and whether MPI takes device memory."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from distarray.backends.cpu import CpuBackend
from distarray.comm import nccl
from distarray.comm.base import PackedTransfers
from distarray.errors import CommunicationError
from distarray.halo.buffers import ALIGNMENT, packed_transfers
from distarray.transports import detection
from distarray.transports.detection import MpiSupport, probed, said_of_device_memory
from tests.harness import ROOT, clean_environment, run_serial

# ---- NCCL


class Recorded:
    """Ranks of NCCL that note calls instead of making them."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_an_exchange_is_one_group_without_empty_messages():
    ranks = Recorded()
    nccl.exchange(ranks, [(1, 4096, 64), (2, 8192, 0)], [(2, 100, 8), (1, 200, 0)], 1 << 30, 77)
    assert ranks.calls == [
        ("group_start",),
        ("recv", 100, 8, "uint8", 2, 77),
        ("send", 4096, 64, "uint8", 1, 77),
        ("group_end",),
    ]


def test_messages_are_split_at_the_limit_alike_on_both_sides():
    ranks = Recorded()
    nccl.exchange(ranks, [(1, 5000, 2500)], [(0, 9000, 2500)], 1024, 7)
    parts = [(0, 1024), (1024, 1024), (2048, 452)]
    assert ranks.calls[1:-1] == [
        *[("recv", 9000 + start, count, "uint8", 0, 7) for start, count in parts],
        *[("send", 5000 + start, count, "uint8", 1, 7) for start, count in parts],
    ]


class Failing(Recorded):
    """Every call but `send`, `broadcast` and `reduce` works."""

    def send(self, *_):
        raise RuntimeError("remote error")

    broadcast = reduce = send

    def group_end(self):
        self.calls.append(("group_end",))
        raise RuntimeError("the error again")


GROUPS = {
    "exchange": lambda ranks: nccl.exchange(ranks, [(1, 4096, 64)], [], 1 << 30, 7),
    "all_gather": lambda ranks: nccl.Collectives(ranks, 2, 64).all_gather(0, 4096, 100, 7),
    "reduce_scatter": lambda ranks: nccl.Collectives(ranks, 2, 64).reduce_scatter(
        0, 4096, 100, np.dtype("f8"), "sum", 7
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_in_which_a_call_fails_ends_and_is_the_last(name):
    ranks = Failing()
    with pytest.raises(RuntimeError, match="remote error"):
        GROUPS[name](ranks)
    assert ranks.calls == [("group_start",), ("group_end",), ("abort",)]


@pytest.mark.parametrize(
    ("dtype", "op", "expected"),
    [
        ("f8", "sum", ("float64", 1, "sum")),
        ("c8", "sum", ("float32", 2, "sum")),
        ("c16", "sum", ("float64", 2, "sum")),
        ("?", "sum", ("uint8", 1, "max")),
        ("?", "prod", ("uint8", 1, "min")),
        ("?", "min", ("uint8", 1, "min")),
        ("u8", "max", ("uint64", 1, "max")),
        ("c16", "prod", None),
        ("c16", "max", None),
        ("i2", "sum", None),
        ("u2", "min", None),
    ],
)
def test_types_are_reduced_as_what_the_library_knows(dtype, op, expected):
    found = nccl.reduced_as(np.dtype(dtype), op)
    assert (found and (found[0].name, *found[1:])) == expected


def test_what_the_library_cannot_reduce_is_refused():
    collectives = nccl.Collectives(Recorded(), 2, 1024)
    with pytest.raises(CommunicationError, match="NCCL cannot reduce complex128 by 'prod'"):
        collectives.all_reduce(0, 0, 1, np.dtype("c16"), "prod", 7)


def test_a_split_all_reduce_keeps_elements_whole():
    ranks = Recorded()
    nccl.Collectives(ranks, 2, 100).all_reduce(1000, 5000, 15, np.dtype("c16"), "sum", 7)
    assert ranks.calls == [
        ("all_reduce", 1000, 5000, 12, "float64", "sum", 7),
        ("all_reduce", 1096, 5096, 12, "float64", "sum", 7),
        ("all_reduce", 1192, 5192, 6, "float64", "sum", 7),
    ]


def test_collectives_within_the_limit_are_one_call():
    ranks = Recorded()
    collectives = nccl.Collectives(ranks, 3, 1024)
    collectives.all_gather(1000, 5000, 64, 7)
    collectives.reduce_scatter(1000, 5000, 8, np.dtype("f8"), "max", 7)
    collectives.broadcast(1000, 64, 2, 7)
    assert ranks.calls == [
        ("all_gather", 1000, 5000, 64, "uint8", 7),
        ("reduce_scatter", 1000, 5000, 8, "float64", "max", 7),
        ("broadcast", 1000, 1000, 64, "uint8", 2, 7),
    ]


def test_an_all_gather_beyond_the_limit_puts_each_rank_in_its_place():
    ranks = Recorded()
    nccl.Collectives(ranks, 2, 1024).all_gather(1000, 5000, 1500, 7)
    assert ranks.calls == [
        ("group_start",),
        ("broadcast", 1000, 5000, 1024, "uint8", 0, 7),
        ("broadcast", 2024, 6024, 476, "uint8", 0, 7),
        ("broadcast", 1000, 6500, 1024, "uint8", 1, 7),
        ("broadcast", 2024, 7524, 476, "uint8", 1, 7),
        ("group_end",),
    ]


def test_a_reduce_scatter_beyond_the_limit_reduces_each_part_on_its_rank():
    ranks = Recorded()
    dtype = np.dtype("f8")
    nccl.Collectives(ranks, 2, 64).reduce_scatter(1000, 5000, 10, dtype, "sum", 7)
    assert ranks.calls == [
        ("group_start",),
        ("reduce", 1000, 5000, 8, "float64", "sum", 0, 7),
        ("reduce", 1064, 5064, 2, "float64", "sum", 0, 7),
        ("reduce", 1080, 5000, 8, "float64", "sum", 1, 7),
        ("reduce", 1144, 5064, 2, "float64", "sum", 1, 7),
        ("group_end",),
    ]


def test_collectives_of_nothing_are_no_calls():
    ranks = Recorded()
    collectives = nccl.Collectives(ranks, 2, 64)
    collectives.all_reduce(0, 0, 0, np.dtype("f8"), "sum", 7)
    collectives.broadcast(0, 0, 0, 7)
    assert ranks.calls == []


# ---- buffers


def test_all_messages_lie_in_one_buffer():
    transfers = packed_transfers([(3, 100), (5, 0), (1, 2000)], CpuBackend())
    assert isinstance(transfers, PackedTransfers)
    assert [(rank, buffer.nbytes) for rank, buffer in transfers] == [(3, 100), (5, 0), (1, 2000)]
    start = transfers.whole.ctypes.data
    places = [buffer.ctypes.data - start for _, buffer in transfers if buffer.nbytes]
    assert places == [0, ALIGNMENT]
    assert transfers.whole.nbytes == ALIGNMENT + 4 * ALIGNMENT
    assert packed_transfers([], CpuBackend()).whole.nbytes == 0


# ---- whether MPI takes device memory


class Library:
    """An MPI library that says what it is told to."""

    def __init__(self, kinds=None, support=None):
        self.kinds, self.support = kinds, support

    def memory_kinds(self):
        return self.kinds

    def cuda_support(self):
        return self.support


QUERY = "MPIX_Query_cuda_support"


@pytest.mark.parametrize(
    ("library", "environment", "expected"),
    [
        (None, {}, MpiSupport(False, "the ranks do not talk by MPI")),
        (Library(), {}, None),
        (Library("system,mpi"), {}, None),
        (
            Library("system,mpi,cuda:device", (False, QUERY)),
            {},
            MpiSupport(True, "MPI says mpi_memory_alloc_kinds=system,mpi,cuda:device"),
        ),
        (
            Library("mpi,system", (True, QUERY)),
            {},
            MpiSupport(True, f"MPI says that it takes device memory ({QUERY})"),
        ),
        (
            Library(None, (False, QUERY)),
            {"MV2_USE_CUDA": "1"},
            MpiSupport(False, f"MPI does not say that it takes device memory ({QUERY})"),
        ),
        (
            Library(),
            {"MPICH_GPU_SUPPORT_ENABLED": "1"},
            MpiSupport(True, "MPICH_GPU_SUPPORT_ENABLED=1 lets MPI take device memory"),
        ),
        (
            Library("cuda", (True, QUERY)),
            {"OMPI_MCA_opal_cuda_support": "false"},
            MpiSupport(False, "OMPI_MCA_opal_cuda_support=false keeps MPI from device memory"),
        ),
        (Library(), {"MV2_USE_CUDA": ""}, None),
    ],
)
def test_the_first_that_says_anything_counts(library, environment, expected):
    assert said_of_device_memory(library, environment) == expected


def test_queries_are_looked_up_in_the_library():
    mpi = pytest.importorskip("distarray.comm.mpi")

    def gpu_query(kind, found):
        assert kind.value == 0  # CUDA in MPICH's enumeration
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int))[0] = 1
        return 0

    class Mpich:
        MPIX_GPU_query_support = staticmethod(gpu_query)

    class OpenMpi:
        MPIX_Query_cuda_support = staticmethod(lambda: 1)

    class Failing:
        MPIX_GPU_query_support = staticmethod(lambda kind, found: 1)

    assert mpi._queried(Mpich()) == (True, "MPIX_GPU_query_support")
    assert mpi._queried(OpenMpi()) == (True, QUERY)
    assert mpi._queried(Failing()) == (False, "MPIX_GPU_query_support")
    assert mpi._queried(object()) is None


def test_the_library_of_a_wheel_says_that_it_takes_no_device_memory():
    """Pip's MPI wheels are built without CUDA, and say so."""
    code = (
        "from distarray.comm import mpi; mpi.initialise(); "
        "print(mpi.cuda_support(), mpi.memory_kinds())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("(False, 'MPIX_"), done.stdout
    assert "cuda:" not in done.stdout


def test_a_probe_sends_device_memory_in_a_child():
    assert probed("simulated") == MpiSupport(True, "a message of device memory arrived in a probe")


def test_a_probe_that_crashes_is_a_no(monkeypatch):
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    code = _run_instead(monkeypatch, crash)
    assert probed("cuda") == MpiSupport(
        False, f"a message of device memory did not arrive in a probe (code {code})"
    )


def test_a_probe_that_cannot_be_made_says_nothing(monkeypatch):
    silent = MpiSupport(False, "MPI does not say that it takes device memory, and no probe ran")
    _run_instead(monkeypatch, f"raise SystemExit({detection.NOT_TRIED})")
    assert probed("cuda") == silent
    monkeypatch.setattr(detection, "PROBE_SECONDS", 0.1)
    _run_instead(monkeypatch, "import time; time.sleep(60)")
    assert probed("cuda") == silent


def _run_instead(monkeypatch, code):
    """Let the probe's child run other code; its exit code if it is killed by SIGSEGV."""
    run = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: run([command[0], "-c", code], **options)
    )
    return -11


def test_no_device_is_no_probe():
    result = run_serial("distarray.transports.probe", args=["cuda"], check=False)
    assert result.returncode == detection.NOT_TRIED, result.report()
