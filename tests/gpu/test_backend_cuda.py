"""A GPU does what every backend must do."""

from __future__ import annotations

import pytest

from distarray.arguments import backend_for
from distarray.backends.base import Backend
from tests.backend_contract import BackendContract


class TestCuda(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return backend_for("cuda")
