"""The backend over the CUDA driver, with CuPy's calls replaced and kernels run on the host.

Arrays, launches, copies, transfers and captured work go the way that they go on a GPU, down to the
addresses and parameters that CuPy is handed.
"""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from distarray import arguments
from distarray.backends import cuda, nvidia, nvrtc
from distarray.backends.accelerator import AcceleratorBackend
from distarray.backends.driver import Parameters
from distarray.backends.simulated import host_cuda
from distarray.errors import ArrayError, BackendError
from tests import gpu_kernels
from tests.backend_contract import BackendContract
from tests.fake_cupy import FakeCupy, FakeLibrary, Values

pytestmark = pytest.mark.skipif(not host_cuda.available(), reason="no C++ compiler works")


class HostDriver(cuda.CudaDriver):
    """The driver, whose kernels are those of the host; launches take copies of their parameters."""

    def __init__(self, fake):
        self.fake, self.texts, self.values = fake, {}, ()
        super().__init__(0)

    def load(self, kernel):
        function = super().load(kernel)
        self.fake.functions[function] = self._run(host_cuda.load(kernel))
        return function

    def launch(self, function, grid, block, parameters, *others):
        self.values = [value.copy() for value in parameters.values]
        super().launch(function, grid, block, parameters, *others)

    def _run(self, kernel):
        def launched(grid, block, pointer):
            copied = Parameters(self.values)
            return lambda: kernel(grid, block, copied.pointer)

        return launched


@pytest.fixture
def fake(monkeypatch):
    made = FakeCupy()
    made.install(monkeypatch)
    monkeypatch.setattr(nvidia, "library", FakeLibrary)
    monkeypatch.setattr(nvrtc, "machine_code", lambda rtc, kernel, capability: b"code")
    return made


@pytest.fixture
def cuda_backend(fake):
    return AcceleratorBackend(HostDriver(fake))


@pytest.fixture
def _cuda_grids(cuda_backend, monkeypatch):
    """Grids on device="cuda" lie on it."""
    made = arguments._accelerator
    monkeypatch.setattr(
        arguments, "_accelerator", lambda name: cuda_backend if name == "cuda" else made(name)
    )


class TestCudaOnTheHost(BackendContract):
    @pytest.fixture
    def backend(self, cuda_backend):
        return cuda_backend


@pytest.mark.usefixtures("_cuda_grids")
def test_all_kernels_have_the_same_bits_as_on_the_cpu():
    found = gpu_kernels.results("cuda")
    assert gpu_kernels.differences(found, gpu_kernels.results("cpu")) == []


@pytest.mark.usefixtures("_cuda_grids")
@pytest.mark.parametrize("steps", [1, 7, 40])
def test_iterate_captures_work_and_has_the_bits_of_single_calls(fake, steps):
    grid = da.Grid((12, 10, 14), periodic=True, device="cuda")
    start = grid.from_function(lambda x, y, z: x * y - z)
    u, new = start.copy(), grid.zeros_like(start)
    fake.calls.clear()
    found = da.iterate(gpu_kernels.diffuse, u, new, steps=steps, r=0.1).gather()
    launched = len(fake.named("graphLaunch"))
    v, other = start.copy(), grid.zeros_like(start)
    for _ in range(steps):
        gpu_kernels.diffuse(v, other, r=0.1)
        v, other = other, v
    np.testing.assert_array_equal(found, v.gather())
    assert launched > 0 if steps == 40 else launched <= steps


@pytest.mark.usefixtures("_cuda_grids")
def test_a_step_makes_the_host_wait_for_nothing(fake):
    grid = da.Grid((12, 10, 14), periodic=True, device="cuda")
    u, new = grid.ones(), grid.zeros()
    gpu_kernels.diffuse(u, new, r=0.1)
    fake.calls.clear()
    for r in (0.1, 0.2, 0.3):
        gpu_kernels.diffuse(u, new, r=r)
        gpu_kernels.diffuse(new, u, r=r)
    assert fake.named("launchKernel")
    assert not fake.named("streamSynchronize", "deviceSynchronize", "malloc", "hostAlloc")


@pytest.mark.usefixtures("_cuda_grids")
def test_conditions_that_depend_on_the_time_make_the_host_wait_for_nothing(fake):
    """Their values fill more than what any upload takes without waiting."""
    grid = da.Grid((4, 8, 200), device="cuda")
    u, new = grid.ones(), grid.zeros()
    u.boundary["x"] = da.Dirichlet(lambda t, x, y, z: t + y * z)
    u.boundary["y"] = u.boundary["z"] = da.Dirichlet(0.0)
    gpu_kernels.diffuse(u, new, r=0.1, time=0.0)
    fake.calls.clear()
    for time in (1.0, 2.0, 3.0, 4.0):
        gpu_kernels.diffuse(u, new, r=0.1, time=time)
    sizes = [call[3] for call in fake.named("memcpyAsync")]
    assert max(sizes) > 4096
    assert not fake.named("streamSynchronize", "deviceSynchronize", "hostAlloc")
    found = new.gather()
    on_cpu = da.Grid((4, 8, 200), device="cpu")
    v, other = on_cpu.ones(), on_cpu.zeros()
    v.boundary["x"] = da.Dirichlet(lambda t, x, y, z: t + y * z)
    v.boundary["y"] = v.boundary["z"] = da.Dirichlet(0.0)
    gpu_kernels.diffuse(v, other, r=0.1, time=4.0)
    np.testing.assert_array_equal(found, other.gather())


@pytest.mark.usefixtures("_cuda_grids")
def test_local_blocks_say_where_they_are_and_in_which_stream(cuda_backend):
    u = da.Grid((6, 10), device="cuda").ones()
    described = u.local.__cuda_array_interface__
    assert described["data"][0] == u.local.address
    assert described["shape"] == (6, 10)
    assert described["stream"] == cuda_backend.compute.pointer
    assert described["strides"] == u.local.strides
    assert described["data"][1]  # to be read only


@pytest.mark.usefixtures("_cuda_grids")
def test_arrays_of_cupy_are_assigned_on_the_device(fake, cuda_backend):
    grid = da.Grid((6, 10), device="cuda")
    values = np.arange(60.0).reshape(6, 10)
    u, v = grid.zeros(), grid.zeros()
    given = Values(fake, values)
    fake.calls.clear()
    u[...] = given
    compute = cuda_backend.compute.pointer
    ordered = [call for call in fake.calls if call[0] in {"eventRecord", "streamWaitEvent"}]
    event = ordered[0][1]
    # The library's work, the copy, and what the library does next.
    assert ordered[:2] == [("eventRecord", event, 77), ("streamWaitEvent", compute, event)]
    assert ordered[-2:] == [("eventRecord", event, compute), ("streamWaitEvent", 77, event)]
    names = [call[0] for call in fake.calls]
    assert "launchKernel" in names[names.index("streamWaitEvent") : -2]
    assert not fake.named("streamSynchronize", "deviceSynchronize")
    with v.writing() as block:
        block[2:4] = Values(fake, values[2:4].astype(np.float32))
    u[0] = Values(fake, np.arange(10))
    expected = values.copy()
    expected[0] = np.arange(10)
    np.testing.assert_array_equal(u.gather(), expected)
    expected = np.zeros((6, 10))
    expected[2:4] = values[2:4]
    np.testing.assert_array_equal(v.gather(), expected)


@pytest.mark.usefixtures("_cuda_grids")
def test_arrays_of_cupy_that_do_not_fit_are_refused(fake):
    grid = da.Grid((6, 10), device="cuda")
    u, number = grid.zeros(), grid.zeros(np.int32)
    elsewhere = Values(fake, np.ones((6, 10)))
    fake.owners[elsewhere.__cuda_array_interface__["data"][0]] = 3
    with pytest.raises(BackendError, match="An array of GPU 3 was given to GPU 0; copy it there"):
        u[...] = elsewhere
    with pytest.raises(ArrayError, match="do not broadcast"):
        u[...] = Values(fake, np.ones(7))
    with pytest.raises(ArrayError, match="are complex128; convert them to float64 first"):
        u[...] = Values(fake, np.ones((6, 10), complex))
    with pytest.raises(ArrayError, match="are float64; convert them to int32 first"):
        number[...] = Values(fake, np.ones((6, 10)))
