"""How the CUDA driver captures work into graphs, and binds NCCL: its calls of CuPy."""

# Fixtures are imported by name.
# ruff: noqa: F811

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from distarray.backends.driver import Access, Parameters
from distarray.errors import BackendError, CommunicationError
from tests.cuda_driver_tools import _empty_cache, at, driver, fake, in_use, whole  # noqa: F401
from tests.fake_cupy import CUDARuntimeError

# ---- captured work


def test_capture_is_of_the_compute_stream_and_gives_a_graph(driver, fake):
    assert driver.begin_capture()
    graph = driver.end_capture()
    graph.launch(driver.compute)
    stream = driver.compute.pointer
    assert fake.calls == [
        ("begin_capture", stream),
        ("end_capture", stream),
        ("graphLaunch", stream),
    ]


def test_a_graph_holds_the_memory_that_it_uses(driver, fake):
    used, other = driver.allocate(64), driver.allocate(64)
    gone = [weakref.ref(used), weakref.ref(other)]
    driver.begin_capture()
    whole = Access(used, used.address, (64,), (1,), 1, True)
    driver.launch(1, (1, 1, 1), (32, 1, 1), Parameters([]), driver.compute, (whole,), "scale")
    graph = driver.end_capture()
    del used, other, whole
    gc.collect()
    assert [found() is None for found in gone] == [False, True]
    del graph
    gc.collect()
    assert gone[0]() is None


def test_streams_join_a_capture_by_events_and_are_joined_by_them(driver, fake):
    """As CUDA has it: what the stand-in refuses here a GPU refuses too."""
    allocation = driver.allocate(16)
    driver.fill(whole(allocation), 0, driver.compute)
    start, end = driver.event(), driver.event()
    driver.begin_capture()
    driver.compute.record(start)
    driver.communication.wait(start)
    driver.fill(whole(allocation), 5, driver.communication)
    driver.communication.record(end)
    driver.compute.wait(end)
    graph = driver.end_capture()
    assert at(allocation.address, 16) == bytes(16)
    graph.launch(driver.compute)
    assert at(allocation.address, 16) == bytes([5] * 16)


@pytest.mark.parametrize(("fault", "status"), [("unjoined", 904), ("outside", 905), ("host", 907)])
def test_the_stand_in_refuses_what_cuda_refuses(driver, fake, fault, status):
    event, allocation = driver.event(), driver.allocate(16)
    driver.compute.record(event)
    driver.begin_capture()
    if fault == "outside":
        with pytest.raises(BackendError, match=f"cudaError{status}"):
            driver.compute.wait(event)
        return
    driver.compute.record(event)
    if fault == "host":
        with pytest.raises(BackendError, match=f"cudaError{status}"):
            event.synchronize()
        return
    driver.communication.wait(event)
    driver.fill(whole(allocation), 0, driver.communication)
    with pytest.raises(BackendError, match=f"cudaError{status}"):
        driver.end_capture()


def test_a_device_that_does_not_capture_says_so(driver, fake):
    fake.refuse["begin_capture"] = [RuntimeError("no")]
    assert not driver.begin_capture()
    assert driver.begin_capture()


def test_a_broken_capture_is_a_backend_error_and_over(driver, fake):
    driver.begin_capture()
    fake.refuse["end_capture"] = [CUDARuntimeError(901)]
    with pytest.raises(BackendError, match="GPU 2 failed at capturing work, or in work given bef"):
        driver.end_capture()
    assert driver.begin_capture()


def test_what_cannot_be_captured_is_refused_before_it_breaks_the_capture(driver, fake):
    allocation, values = driver.allocate(8), np.zeros(1)
    driver.begin_capture()
    fake.calls.clear()
    with pytest.raises(
        BackendError, match="Captured work cannot hold an upload of values that may"
    ):
        driver.to_device(values, whole(allocation), driver.compute, pinned=False)
    with pytest.raises(
        BackendError, match="Captured work cannot hold a download that the host wai"
    ):
        driver.to_host(whole(allocation), values, driver.compute, pinned=False)
    assert not fake.calls
    driver.end_capture()


def test_nothing_is_freed_during_a_capture(driver, fake):
    held = [in_use(driver, "plain")[0], in_use(driver, "pinned")[0]]
    driver.begin_capture()
    held.clear()
    gc.collect()
    kept = [driver.allocate(8, pooled=False), driver.pinned(8)]
    assert not fake.named("free", "freeHost", "deviceSynchronize")
    driver.end_capture()
    kept.append(driver.pinned(8))
    assert {call[0] for call in fake.named("free", "freeHost")} == {"free", "freeHost"}


def test_captures_do_not_nest_and_end_once(driver):
    driver.begin_capture()
    with pytest.raises(BackendError, match="Work is captured already; end that capture first"):
        driver.begin_capture()
    driver.end_capture()
    with pytest.raises(BackendError, match="No work is captured; begin a capture first"):
        driver.end_capture()


# ---- NCCL


def test_nccl_is_bound_by_address_count_type_and_stream(driver, fake):
    binding = driver.nccl_binding()
    assert binding.version() == 23004
    assert binding.device == driver.identity
    identity = binding.unique_id()
    group = binding.connect(3, identity, 1, None)
    group.group_start()
    group.send(10, 4, "uint8", 2, 7)
    group.recv(20, 5, "float64", 0, 7)
    group.group_end()
    group.all_reduce(1, 2, 3, "float32", "max", 7)
    group.reduce(1, 2, 3, "int64", "min", 2, 7)
    group.all_gather(1, 2, 3, "uint64", 7)
    group.reduce_scatter(1, 2, 3, "int32", "prod", 7)
    group.broadcast(1, 2, 3, "int8", 0, 7)
    group.check()
    group.destroy()
    assert fake.calls == [
        ("NcclCommunicator", 3, bytes(128), 1),
        ("groupStart",),
        ("send", 10, 4, 1, 2, 7),
        ("recv", 20, 5, 8, 0, 7),
        ("groupEnd",),
        ("allReduce", 1, 2, 3, 7, 2, 7),
        ("reduce", 1, 2, 3, 4, 3, 2, 7),
        ("allGather", 1, 2, 3, 5, 7),
        ("reduceScatter", 1, 2, 3, 2, 1, 7),
        ("broadcast", 1, 2, 3, 0, 0, 7),
        ("check_async_error",),
        ("destroy",),
    ]


@pytest.mark.parametrize(("status", "error"), [(7, None), (6, "NCCL reports the error 6")])
def test_statuses_that_cupy_has_no_name_for(driver, fake, status, error):
    """CuPy looks the name of a status up in a dict that ends at 5."""
    group = driver.nccl_binding().connect(1, bytes(128), 0, None)
    fake.refuse["check_async_error"] = [KeyError(status)]
    if error is None:
        group.check()
        return
    with pytest.raises(CommunicationError, match=error):
        group.check()
    group.abort()
    assert fake.calls[-1] == ("abort",)


def test_memory_that_nccl_needs_is_tried_before_ranks_wait_for_it(driver, fake, monkeypatch):
    binding = driver.nccl_binding()
    monkeypatch.setattr(fake.runtime, "memGetInfo", lambda: (64 << 20, 1 << 37))
    binding.require_ready()
    fake.refuse["malloc"] = [CUDARuntimeError(2)]
    with pytest.raises(BackendError, match=r"of its own on the GPU \(cudaError2"):
        binding.require_ready()
    monkeypatch.setattr(fake.runtime, "memGetInfo", lambda: (63 << 20, 1 << 37))
    with pytest.raises(BackendError, match=r"\(63 MiB are free\); leave it 64 MiB, or use"):
        binding.require_ready()


def test_a_missing_nccl_names_the_wheel(driver, fake, monkeypatch):
    monkeypatch.setattr(sys.modules["cupy.cuda"].nccl, "available", False)
    with pytest.raises(BackendError) as error:
        driver.nccl_binding()
    assert str(error.value) == (
        "NCCL cannot be loaded; pip install nvidia-nccl-cu12, or use another transport."
    )
