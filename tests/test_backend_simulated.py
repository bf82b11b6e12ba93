"""The simulated device does what every backend must do, with compiled kernels and with NumPy."""

from __future__ import annotations

import pytest

from distarray.backends.accelerator import AcceleratorBackend
from distarray.backends.simulated.driver import SimulatedDriver
from tests.backend_contract import BackendContract


class TestSimulated(BackendContract):
    @pytest.fixture
    def backend(self) -> AcceleratorBackend:
        return AcceleratorBackend(SimulatedDriver())


class TestSimulatedWithoutCompiler(BackendContract):
    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> AcceleratorBackend:
        monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
        return AcceleratorBackend(SimulatedDriver())
