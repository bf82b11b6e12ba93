"""The CUDA driver over a stand-in for CuPy: fixtures, found by the names that tests import."""

from __future__ import annotations

import ctypes

import pytest

from distarray.backends import cuda, native, nvidia
from distarray.backends.driver import Access, KernelText
from tests.fake_cupy import FakeCupy, FakeLibrary

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


def in_use(driver, kind):
    """Some memory, and its address."""
    if kind == "plain":
        held = driver.allocate(10, pooled=False)
        return held, held.address
    held = driver.pinned(10)
    return held[2:5], held.ctypes.data
