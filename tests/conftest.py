"""Settings of the whole test session."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness import LAUNCHER_PREFIXES, ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line choose the numbers of ranks of `tests/test_ranks.py`."""
    parser.addoption("--ranks", metavar="N[,N...]", help="run rank tests on these numbers of ranks")


def pytest_configure() -> None:
    """Keep launchers out and compiled kernels beside the checkout, before anything is imported."""
    for name in [name for name in os.environ if name.startswith(LAUNCHER_PREFIXES)]:
        del os.environ[name]
    os.environ.setdefault("DISTARRAY_CACHE", str(_kernel_cache()))
    # Times on a busy machine say nothing about an example.
    settings.register_profile("distarray", deadline=None, print_blob=True)
    settings.load_profile("distarray")


def _kernel_cache() -> Path:
    """A folder for this user alone, kept between runs so that each kernel is compiled once."""
    folder = ROOT / ".pytest_cache" / f"kernels-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a checkout that this user may only read
        return Path(tempfile.mkdtemp(prefix="kernels-"))
    return folder
