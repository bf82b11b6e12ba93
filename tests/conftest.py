"""Settings of the whole test session."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import devices
from tests.harness import LAUNCHER_PREFIXES, ROOT

_NOT_RUN = pytest.StashKey[Counter[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line choose the numbers of ranks of `tests/test_ranks.py`, and the device."""
    parser.addoption("--ranks", metavar="N[,N...]", help="run rank tests on these numbers of ranks")
    parser.addoption(
        "--device",
        choices=devices.DEVICES,
        default=devices.current(),
        help=f"what device='auto' means ({devices.VARIABLE}; cpu)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep launchers out and compiled kernels beside the checkout, before anything is imported."""
    for name in [name for name in os.environ if name.startswith(LAUNCHER_PREFIXES)]:
        del os.environ[name]
    # Also for the CPU: a GPU at hand must not change what is tested.
    os.environ[devices.VARIABLE] = config.getoption("device")
    os.environ.setdefault("DISTARRAY_CACHE", str(_kernel_cache()))
    # Nor must what was tuned on this machine.
    os.environ["DISTARRAY_TUNING"] = "0"
    # Times on a busy machine say nothing about an example.
    settings.register_profile("distarray", deadline=None, print_blob=True)
    settings.load_profile("distarray")


def pytest_report_header() -> str:
    """Say which device is tested."""
    return f"device: {devices.current()}"


@pytest.hookimpl(tryfirst=True)  # before items are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what makes no sense on the device; the summary says what and why."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    counted = config.stash.setdefault(_NOT_RUN, Counter())
    for item in items:
        why = _reason(item)
        (left if why else kept).append(item)
        file = _rank_file(item)
        if devices.seldom(file or item.path.name):
            item.add_marker("seldom")
        if why:
            counted[file or item.path.name, why] += 1
        elif file:
            counted.update(devices.functions_left_out(file))
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _reason(item: pytest.Item) -> str | None:
    file = _rank_file(item)
    if file is not None:
        return devices.reason(file, "")
    return devices.reason(item.path, getattr(item, "originalname", item.name))


def _rank_file(item: pytest.Item) -> str | None:
    """The file of `tests/ranks` that an item of `test_ranks.py` runs."""
    call = getattr(item, "callspec", None)
    path = call.params.get("path") if call and item.path.name == "test_ranks.py" else None
    return path.name if path else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List what was left out on this device."""
    counted = config.stash.get(_NOT_RUN, Counter())
    if counted:
        terminalreporter.section(f"not run on device {devices.current()}")
        for (file, why), count in sorted(counted.items()):
            terminalreporter.line(f"{file}: {count} left out: {why}")


@pytest.fixture(autouse=True)
def _finished_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test ends with nothing put off and no race reported."""
    yield
    devices.finish(getattr(request, "function", None))


def _kernel_cache() -> Path:
    """A folder for this user alone, kept between runs so that each kernel is compiled once."""
    folder = ROOT / ".pytest_cache" / f"kernels-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a checkout that this user may only read
        return Path(tempfile.mkdtemp(prefix="kernels-"))
    return folder
