"""The calls that the CUDA driver makes of CuPy, in order and with their arguments."""

# Fixtures are imported by name.
# ruff: noqa: F811

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from distarray.backends import cuda
from distarray.backends.cuda_memory import SLOT_BYTES
from distarray.backends.driver import Access
from distarray.errors import BackendError
from tests.cuda_driver_tools import _empty_cache, at, driver, fake, in_use, whole  # noqa: F401
from tests.fake_cupy import UUID, CUDARuntimeError, OutOfMemoryError

# ---- start


def test_the_device_comes_first_and_the_streams_are_those_of_the_design(fake):
    driver = cuda.CudaDriver(2)
    assert fake.calls[:2] == [("setDevice", 2), ("memGetInfo",)]
    streams = [(call[1], call[2]) for call in fake.named("Stream")]
    assert streams == [
        (driver.compute.pointer, {}),
        (driver.communication.pointer, {"non_blocking": True, "priority": -1000}),
    ]
    assert (driver.compute.name, driver.communication.name) == ("compute", "communication")
    assert driver.identity == (UUID[:-1] + bytes([2])).hex()
    assert all(call[2] == {"disable_timing": True} for call in fake.named("Event"))


def test_a_device_that_does_not_start_is_a_backend_error(fake):
    fake.refuse["setDevice"] = [CUDARuntimeError(46)]
    with pytest.raises(
        BackendError, match=r"^GPU 0 failed at its start, .*: cudaError46: made up; set CUDA"
    ):
        cuda.CudaDriver(0)


def test_a_device_without_a_name_is_a_backend_error(fake):
    with pytest.raises(
        BackendError, match="The NVIDIA driver does not name GPU 9; see what nvidia"
    ):
        cuda.CudaDriver(9)


# ---- streams and events


def test_events_are_recorded_and_waited_for_by_handle(driver, fake):
    event = driver.event()
    driver.compute.record(event)
    driver.communication.wait(event)
    event.synchronize()
    driver.compute.synchronize()
    compute, communication = driver.compute.pointer, driver.communication.pointer
    assert fake.calls == [
        ("Event", event.pointer, {"disable_timing": True}),
        ("eventRecord", event.pointer, compute),
        ("streamWaitEvent", communication, event.pointer),
        ("eventSynchronize", event.pointer),
        ("streamSynchronize", compute),
    ]


def test_whether_an_event_is_done(driver, fake, monkeypatch):
    event = driver.event()
    assert event.done()
    fake.pending_events.add(event.pointer)
    assert not event.done()
    monkeypatch.setattr(fake.runtime, "eventQuery", lambda handle: 700)
    with pytest.raises(BackendError, match="cudaError700"):
        event.done()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("eventSynchronize", "waiting for its work"),
        ("streamSynchronize", "waiting for its work"),
        ("eventRecord", "recording an event"),
        ("streamWaitEvent", "letting a stream wait for an event"),
        ("memsetAsync", "filling 512 bytes"),
        ("memcpyAsync", "a transfer of 512 bytes"),
        ("hostAlloc", "allocating 512 bytes of pinned memory"),
        ("Event", "making an event"),
    ],
)
def test_a_failed_device_is_a_backend_error_wherever_it_shows(
    driver, fake, monkeypatch, call, what
):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "5")
    allocation, host, event = driver.allocate(512), driver.pinned(512), driver.event()
    fake.refuse[call] = [CUDARuntimeError(700)]

    def everything():
        driver.event()
        driver.fill(whole(allocation), 0, driver.compute)
        driver.to_device(host, whole(allocation), driver.compute, pinned=True)
        driver.compute.record(event)
        driver.communication.wait(event)
        event.synchronize()
        driver.compute.synchronize()
        driver.pinned(512)

    with pytest.raises(BackendError) as error:
        everything()
    assert str(error.value) == (
        f"GPU 2 of rank 5 failed at {what}, or in work given before: cudaError700: made up; set "
        "CUDA_LAUNCH_BLOCKING=1 to find the call."
    )


# ---- memory


def test_arrays_come_from_the_pool_of_the_compute_stream(driver, fake):
    allocation = driver.allocate(1000)
    assert allocation.nbytes == 1000
    assert fake.calls == [("alloc", 1000, driver.compute.pointer)]
    assert fake.current == ["null"]


@pytest.mark.parametrize(("kind", "free"), [("plain", "free"), ("pinned", "freeHost")])
@pytest.mark.parametrize("following", ["plain", "pinned"])
def test_memory_is_freed_when_more_is_asked_for_once_the_device_is_idle(
    driver, fake, kind, free, following
):
    """Work that uses it may have been given when the last reference goes."""
    held, address = in_use(driver, kind)
    fake.calls.clear()
    del held
    gc.collect()
    driver.event()
    assert not fake.named(free, "deviceSynchronize")
    kept, _ = in_use(driver, following)
    called = [call for call in fake.calls if call[0] != "Event"]
    assert called[:2] == [("deviceSynchronize", 2), (free, address)]
    in_use(driver, following)
    assert len(fake.named(free)) == 1
    del kept


def test_memory_that_goes_in_another_thread_is_freed_by_who_asks_for_more(driver, fake):
    held = [driver.allocate(10, pooled=False)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert not fake.named("free")
    driver.pinned(1)
    assert len(fake.named("free")) == 1


@pytest.mark.parametrize("pooled", [True, False])
def test_another_current_device_changes_nothing(driver, fake, pooled):
    held = driver.allocate(10, pooled=False)
    del held
    gc.collect()
    fake.device = 1
    kept = driver.allocate(10, pooled=pooled), driver.pinned(1)
    assert fake.device == 1
    assert fake.named("deviceSynchronize") == [("deviceSynchronize", 2)]
    del kept


def test_a_failed_device_frees_nothing_and_raises_nothing(driver, fake):
    allocation = driver.allocate(10, pooled=False)
    fake.refuse["deviceSynchronize"] = [CUDARuntimeError(700)]
    del allocation
    gc.collect()
    driver.allocate(10, pooled=False)
    assert fake.named("deviceSynchronize")
    assert not fake.named("free")


def test_a_full_pool_is_given_what_nobody_holds(driver, fake):
    held = driver.allocate(10, pooled=False)
    del held
    gc.collect()
    fake.refuse["alloc"] = [OutOfMemoryError("full")]
    assert driver.allocate(600).nbytes == 600
    assert [call[0] for call in fake.calls[1:]] == ["alloc", "deviceSynchronize", "free", "alloc"]


def test_a_full_device_gives_up_what_the_pool_does_not_use(driver, fake):
    fake.refuse["malloc"] = [CUDARuntimeError(2)]
    assert driver.allocate(600, pooled=False).nbytes == 600
    assert fake.calls[:3] == [("malloc", 600), ("free_all_blocks",), ("malloc", 600)]


@pytest.mark.parametrize("pooled", [True, False])
def test_no_room_is_a_backend_error(driver, fake, pooled):
    fake.refuse = {
        "alloc": [OutOfMemoryError("full"), OutOfMemoryError("full")],
        "malloc": [CUDARuntimeError(2), CUDARuntimeError(2)],
    }
    why = "full" if pooled else "cudaError2: made up"
    with pytest.raises(BackendError) as error:
        driver.allocate(4096, pooled=pooled)
    assert str(error.value) == (
        f"GPU 2 has no room for 4096 bytes (1000 of 2000 are free: {why}); use more GPUs or a "
        "smaller grid."
    )


def test_pinned_memory_is_zeroed_and_portable(driver, fake):
    memory = driver.pinned(100)
    assert memory.dtype == np.uint8
    assert memory.shape == (100,)
    assert not memory.any()
    assert memory.flags.writeable
    assert fake.calls == [("hostAlloc", 100, fake.runtime.hostAllocPortable)]
    assert driver.pinned(0).shape == (0,)


def test_message_memory_is_handed_over_by_address(driver):
    allocation = driver.allocate(64, pooled=False)
    part = Access(allocation, allocation.address + 16, (32,), (1,), 1, True)
    assert driver.message_memory(part).__cuda_array_interface__ == {
        "shape": (32,),
        "typestr": "|u1",
        "data": (allocation.address + 16, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }


# ---- transfers


def test_fill(driver, fake):
    allocation = driver.allocate(32)
    part = Access(allocation, allocation.address + 8, (2, 3), (12, 4), 4, True)
    driver.fill(part, 0xFF, driver.communication)
    expected = ("memsetAsync", allocation.address + 8, 0xFF, 24, driver.communication.pointer)
    assert fake.calls[1:] == [expected]
    driver.fill(Access(allocation, allocation.address, (0, 3), (12, 4), 4, True), 0, driver.compute)
    assert fake.calls[1:] == [expected]


def test_pinned_transfers_wait_for_nothing(driver, fake):
    allocation, host = driver.allocate(512), driver.pinned(512)
    host[:] = np.arange(512) % 251
    fake.calls.clear()
    driver.to_device(host, whole(allocation), driver.communication, pinned=True)
    back = driver.pinned(512)
    driver.to_host(whole(allocation, write=False), back, driver.communication, pinned=True)
    stream, address = driver.communication.pointer, allocation.address
    assert fake.named("memcpyAsync", "streamSynchronize", "eventSynchronize") == [
        ("memcpyAsync", address, host.ctypes.data, 512, 1, stream),
        ("memcpyAsync", back.ctypes.data, address, 512, 2, stream),
    ]
    np.testing.assert_array_equal(back, host)


def test_small_uploads_go_through_pinned_slots_without_waiting_for_a_stream(driver, fake):
    allocation = driver.allocate(512)
    values = np.arange(4.0)
    driver.to_device(values, whole(allocation), driver.compute, pinned=False)
    values[:] = 0  # may change at once
    assert at(allocation.address, 32) == np.arange(4.0).tobytes()
    copy = fake.named("memcpyAsync")[0]
    assert copy[2] != values.ctypes.data
    assert copy[3:] == (32, 1, driver.compute.pointer)
    assert not fake.named("streamSynchronize")
    # The slot's event: waited for before its memory is written, recorded after the copy.
    names = [call[0] for call in fake.calls]
    assert names[1:] == ["eventSynchronize", "memcpyAsync", "eventRecord"]
    assert fake.calls[1][1] == fake.calls[3][1]
    assert fake.calls[3][2] == driver.compute.pointer


def test_slots_are_used_in_turn_and_again_after_their_event(driver, fake):
    allocation, value = driver.allocate(512), np.zeros(3)
    for _ in range(130):
        driver.to_device(value, whole(allocation), driver.compute, pinned=False)
    sources = [call[2] for call in fake.named("memcpyAsync")]
    assert len(set(sources)) == 64
    assert sources[64:128] == sources[:64]
    assert min(np.diff(sorted(set(sources)))) == SLOT_BYTES
    waits = [call[1] for call in fake.named("eventSynchronize")]
    records = [call[1] for call in fake.named("eventRecord")]
    assert waits == records


def test_large_uploads_are_waited_for(driver, fake):
    values = np.arange(SLOT_BYTES + 1, dtype=np.uint8)
    allocation = driver.allocate(values.nbytes)
    driver.to_device(values, whole(allocation), driver.compute, pinned=False)
    stream = driver.compute.pointer
    assert fake.calls[1:] == [
        ("memcpyAsync", allocation.address, values.ctypes.data, values.nbytes, 1, stream),
        ("streamSynchronize", stream),
    ]


def test_downloads_are_complete_on_return(driver, fake):
    allocation, values = driver.allocate(64), np.empty(8)
    driver.fill(whole(allocation), 0, driver.compute)
    driver.to_host(whole(allocation, write=False), values, driver.compute, pinned=False)
    assert [call[0] for call in fake.calls[2:]] == ["memcpyAsync", "streamSynchronize"]
    assert not values.any()


def test_nothing_is_copied_for_no_bytes(driver, fake):
    allocation = driver.allocate(8)
    driver.to_device(np.empty(0), whole(allocation), driver.compute, pinned=False)
    driver.to_host(whole(allocation), np.empty(0), driver.compute, pinned=False)
    assert [call[0] for call in fake.calls] == ["alloc"]


def test_a_transfer_that_is_refused_is_a_backend_error(driver, fake):
    allocation = driver.allocate(8)
    fake.refuse["memcpyAsync"] = [CUDARuntimeError(1)]
    with pytest.raises(BackendError, match="GPU 2 failed at a transfer of 8 bytes, or in work"):
        driver.to_device(np.zeros(1), whole(allocation), driver.compute, pinned=False)
