"""A GPU has the same bits as the CPU, and work given to it is ordered."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from tests import gpu_kernels
from tests.gpu.delay import delay


def test_all_kernels_have_the_same_bits_as_on_the_cpu():
    found = gpu_kernels.results("cuda")
    assert gpu_kernels.differences(found, gpu_kernels.results("cpu")) == []


def test_streams_are_as_designed():
    backend = da.Grid((4,), device="cuda").backend
    compute, communication = backend.compute.cupy, backend.communication.cupy
    assert not compute.is_non_blocking
    assert communication.is_non_blocking
    assert communication.priority < compute.priority


def test_cupy_sees_arrays_without_a_copy_and_in_order():
    import cupy

    u = da.Grid((1000,), device="cuda").zeros()
    delay(u.grid.backend, milliseconds=50.0)
    u += 3.0
    seen = cupy.asarray(u.local)
    assert seen.data.ptr == u.local.address
    assert float(seen.sum()) == 3000.0


def test_the_host_does_not_wait_for_small_uploads():
    grid = da.Grid((1000,), device="cuda")
    u, new = grid.ones(), grid.zeros()
    gpu_scale(u, new, a=1.0)
    grid.backend.compute.synchronize()
    event = grid.backend.event()
    delay(grid.backend, milliseconds=200.0)
    for a in (2.0, 3.0):
        gpu_scale(u, new, a=a)
    grid.backend.compute.record(event)
    assert not event.done()
    assert float(new.sum()) == 3000.0


@da.stencil
def gpu_scale(u, new, *, a):
    """A scalar that changes from call to call."""
    new[0] = a * u[0]


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_iterate_under_graphs_has_the_bits_of_single_calls(steps):
    grid = da.Grid((24, 20, 28), periodic=True, device="cuda")
    start = grid.from_function(lambda x, y, z: x * y - z)
    u, new = start.copy(), grid.zeros_like(start)
    result = da.iterate(gpu_kernels.diffuse, u, new, steps=steps, r=0.1)
    v, other = start.copy(), grid.zeros_like(start)
    for _ in range(steps):
        gpu_kernels.diffuse(v, other, r=0.1)
        v, other = other, v
    np.testing.assert_array_equal(result.gather(), v.gather())


def test_memory_that_is_freed_is_used_again_in_order():
    """What `compute` still does with an array is not seen by the next that gets its memory."""
    grid = da.Grid((100_000,), device="cuda")
    for turn in range(20):
        u = grid.full(1.0)
        delay(grid.backend, milliseconds=5.0)
        u += float(turn)
        del u
        v = grid.full(2.0)
        assert float(v.sum()) == 200_000.0
