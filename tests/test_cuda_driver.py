"""The calls that the CUDA driver makes of CuPy, in order and with their arguments."""

from __future__ import annotations

import ctypes
import gc
import stat
import sys
import threading
import weakref

import numpy as np
import pytest

from distarray.backends import cuda, native, nvidia, nvrtc
from distarray.backends.cuda_memory import SLOT_BYTES
from distarray.backends.driver import Access, KernelText, Parameters
from distarray.errors import BackendError, CommunicationError
from tests.fake_cupy import UUID, CUDARuntimeError, FakeCupy, FakeLibrary, OutOfMemoryError

SCALE = KernelText("extern void scale;", "scale", ("double *", "double"))


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISTARRAY_CACHE", str(tmp_path / "kernels"))
    native._checked.cache_clear()
    yield
    native._checked.cache_clear()


@pytest.fixture
def fake(monkeypatch):
    made = FakeCupy()
    made.install(monkeypatch)
    monkeypatch.setattr(nvidia, "library", lambda: FakeLibrary(devices=4))
    return made


@pytest.fixture
def driver(fake):
    made = cuda.CudaDriver(2)
    fake.calls.clear()
    return made


def whole(allocation, *, write=True):
    """All of an allocation."""
    return Access(allocation, allocation.address, (allocation.nbytes,), (1,), 1, write)


def at(address, count):
    """Bytes of host memory, which the fake takes for device memory."""
    return bytes((ctypes.c_ubyte * count).from_address(address))


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


def in_use(driver, kind):
    """Some memory, and its address."""
    if kind == "plain":
        held = driver.allocate(10, pooled=False)
        return held, held.address
    held = driver.pinned(10)
    return held[2:5], held.ctypes.data


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


# ---- kernels


def test_a_kernel_is_compiled_loaded_and_found_once(driver, fake):
    function = driver.load(SCALE)
    assert driver.load(SCALE) == function
    names = [call[0] for call in fake.calls if call[0] != "getVersion"]
    assert names == [
        "createProgram", "compileProgram", "destroyProgram", "moduleLoadData", "moduleGetFunction",
    ]  # fmt: skip
    assert fake.named("createProgram") == [("createProgram", "scale.cu", (), ())]
    options = fake.named("compileProgram")[0][1]
    assert options == (
        "--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--fmad=false",
        "--gpu-architecture=sm_90",
    )  # fmt: skip
    image = fake.named("moduleLoadData")[0][1]
    assert image.startswith(b"cubin")
    assert image.endswith(SCALE.text.encode())
    assert fake.named("moduleGetFunction")[0][2] == "scale"


def test_functions_of_one_text_share_its_module(driver, fake):
    second = KernelText(SCALE.text, "scale_combine", ())
    assert driver.load(SCALE) != driver.load(second)
    assert len(fake.named("moduleLoadData")) == 1
    assert {call[1] for call in fake.named("moduleGetFunction")} == {
        fake.named("moduleGetFunction")[0][1]
    }


def test_fast_kernels_are_contracted_and_kept_apart(driver, fake):
    driver.load(SCALE)
    driver.load(KernelText(SCALE.text, SCALE.symbol, SCALE.parameters, fast=True))
    plain, fast = (call[1] for call in fake.named("compileProgram"))
    assert "--fmad=false" in plain
    assert "--fmad=true" in fast
    assert {"--fmad=true", "--fmad=false"} - set(fast) == {"--fmad=false"}
    assert len(fake.named("moduleLoadData")) == 2


def test_other_processes_find_the_code_in_the_cache(driver, fake, tmp_path):
    driver.load(SCALE)
    image = fake.named("moduleLoadData")[0][1]
    entries = list((tmp_path / "kernels").glob("*.cubin"))
    assert len(entries) == 1
    assert stat.S_IMODE((tmp_path / "kernels").stat().st_mode) == 0o700
    fake.calls.clear()
    cuda.CudaDriver(0).load(SCALE)
    assert not fake.named("compileProgram")
    assert fake.named("moduleLoadData") == [("moduleLoadData", image)]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: b"x" + data, lambda data: b""]
)
def test_a_damaged_entry_counts_as_absent(driver, fake, tmp_path, damage):
    driver.load(SCALE)
    image = fake.named("moduleLoadData")[0][1]
    (entry,) = (tmp_path / "kernels").glob("*.cubin")
    entry.write_bytes(damage(entry.read_bytes()))
    cuda.CudaDriver(0).load(SCALE)
    assert len(fake.named("compileProgram")) == 2
    assert fake.named("moduleLoadData")[1] == ("moduleLoadData", image)
    assert entry.read_bytes().startswith(image)


@pytest.mark.parametrize("change", ["text", "version", "architecture"])
def test_what_the_code_depends_on_is_in_the_name_of_the_entry(fake, change):
    rtc = fake.cuda.nvrtc
    nvrtc.machine_code(rtc, SCALE, 90)
    if change == "version":
        rtc.version = (12, 8)
    kernel = KernelText("other", "scale", ()) if change == "text" else SCALE
    nvrtc.machine_code(rtc, kernel, 80 if change == "architecture" else 90)
    assert len(fake.named("compileProgram")) == 2


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        (90, "sm_90"),
        (86, "sm_86"),
        (89, "sm_86"),
        (103, "sm_100"),
        (120, "compute_100"),
        (52, "sm_50"),
    ],
)
def test_the_target_for_a_gpu(capability, target):
    assert nvrtc.target(capability, (50, 80, 86, 90, 100)) == target


def test_a_gpu_of_an_unknown_generation_gets_intermediate_code(fake):
    assert nvrtc.machine_code(fake.cuda.nvrtc, SCALE, 120).startswith(b"ptx")


def test_a_gpu_that_is_too_old_is_a_backend_error():
    with pytest.raises(BackendError) as error:
        nvrtc.target(70, (75, 80))
    assert str(error.value) == (
        "NVRTC makes no code for GPUs of compute capability 7.0 any more, only from 7.5 on; "
        "install the extra for an older CUDA."
    )


def test_a_text_that_does_not_compile_is_a_backend_error_with_the_reason(driver, fake, tmp_path):
    fake.refuse["compileProgram"] = [RuntimeError("NVRTC_ERROR_COMPILATION (6)")]
    fake.cuda.nvrtc.log = "scale.cu(1): error: expected a thing\n\n1 error detected.\n"
    with pytest.raises(BackendError) as error:
        driver.load(SCALE)
    assert str(error.value) == (
        "NVRTC rejected the generated CUDA text of scale (NVRTC_ERROR_COMPILATION (6)): "
        "scale.cu(1): error: expected a thing | 1 error detected; clear the cache if CUDA was "
        "updated, else report the text, kernel.source('cuda')."
    )
    assert fake.named("destroyProgram")
    assert not list((tmp_path / "kernels").glob("*.cubin"))


def test_a_module_that_is_refused_is_a_backend_error(driver, fake):
    fake.refuse["moduleLoadData"] = [CUDARuntimeError(200)]
    with pytest.raises(BackendError, match="GPU 2 failed at loading kernel scale, or in work"):
        driver.load(SCALE)


def test_a_launch_hands_over_addresses_of_the_present_values(driver, fake):
    function = driver.load(SCALE)
    pointer, factor = np.array([0x1000], np.uint64), np.array([2.5])
    parameters = Parameters([pointer, factor])
    fake.calls.clear()
    driver.launch(function, (7, 2, 1), (32, 4, 1), parameters, driver.communication, (), "scale")
    ((name, *arguments),) = fake.calls
    assert name == "launchKernel"
    stream = driver.communication.pointer
    assert arguments == [function, (7, 2, 1), (32, 4, 1), 0, stream, parameters.pointer, 0]
    table = (ctypes.c_void_p * 2).from_address(parameters.pointer)
    parameters.values[1][0] = 3.5
    assert ctypes.c_uint64.from_address(table[0]).value == 0x1000
    assert ctypes.c_double.from_address(table[1]).value == 3.5


def test_a_launch_that_is_refused_names_the_kernel(driver, fake):
    fake.refuse["launchKernel"] = [CUDARuntimeError(1)]
    with pytest.raises(BackendError) as error:
        driver.launch(1, (0, 1, 1), (32, 1, 1), Parameters([]), driver.compute, (), "diffuse")
    assert str(error.value) == (
        "GPU 2 failed at launching diffuse (grid (0, 1, 1), block (32, 1, 1)), or in work given "
        "before: cudaError1: made up; set CUDA_LAUNCH_BLOCKING=1 to find the call."
    )


def test_python_functions_are_refused(driver):
    with pytest.raises(BackendError, match="A GPU cannot run the Python function f; give it a ker"):
        driver.call(lambda: None, driver.compute, (), "f")


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


# ---- recorded texts


def test_compiled_texts_are_recorded_once(fake, tmp_path, monkeypatch):
    folder = tmp_path / "recorded"
    monkeypatch.setenv("DISTARRAY_RECORD_KERNELS", str(folder))
    fast = KernelText(SCALE.text, "scale", (), fast=True)
    for kernel in (SCALE, fast, SCALE):
        nvrtc.machine_code(fake.cuda.nvrtc, kernel, 90)
    texts = sorted(path.read_text() for path in folder.glob("*.cu"))
    assert texts == [f"// scale fast=0\n{SCALE.text}", f"// scale fast=1\n{SCALE.text}"]


def test_nothing_is_recorded_unless_asked_for(fake, tmp_path, monkeypatch):
    monkeypatch.delenv("DISTARRAY_RECORD_KERNELS", raising=False)
    nvrtc.machine_code(fake.cuda.nvrtc, SCALE, 90)
    assert not list(tmp_path.rglob("*.cu"))
