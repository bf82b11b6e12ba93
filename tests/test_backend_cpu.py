"""The CPU does what every backend must do."""

from __future__ import annotations

import pytest

from distarray.backends.cpu import CpuBackend
from tests.backend_contract import BackendContract


class TestCpu(BackendContract):
    @pytest.fixture
    def backend(self) -> CpuBackend:
        return CpuBackend()
