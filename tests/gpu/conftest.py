"""Everything in this folder has the marker `gpu` and is skipped where no GPU works."""

from __future__ import annotations

from pathlib import Path

import pytest

from distarray.backends import cuda

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and say why they are skipped."""
    ours = [item for item in items if HERE in item.path.parents]
    works, why = cuda.available() if ours else (True, "")
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if not works:
            item.add_marker(pytest.mark.skip(reason=why))
