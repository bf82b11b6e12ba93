"""Importing the package loads what it needs and no more, and starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.harness import ROOT, clean_environment

#: Slow to load, optional, or with effects on the whole process.
NOT_LOADED = ("mpi4py", "h5py", "cupy", "matplotlib", "scipy", "ctypes.util", "importlib.metadata")

REPORT = """
import json, sys, threading, warnings
before = set(sys.modules)
import distarray
print(json.dumps({
    "new": sorted(set(sys.modules) - before),
    "threads": threading.active_count(),
    "filters": [str(entry) for entry in warnings.filters],
    "hook": sys.excepthook is sys.__excepthook__,
}))
"""


def python(text: str, **changes: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", text],
        env=clean_environment() | changes,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    return dict(json.loads(python(REPORT)))


@pytest.mark.parametrize("name", NOT_LOADED)
def test_import_does_not_load(name: str, report: dict[str, list[str]]) -> None:
    loaded = [module for module in report["new"] if module == name or module.startswith(f"{name}.")]
    assert loaded == []


def test_import_loads_few_modules_beyond_numpy(report: dict[str, list[str]]) -> None:
    numpy = set(json.loads(python("import json, sys, numpy; print(json.dumps(list(sys.modules)))")))
    own = [name for name in report["new"] if name.split(".")[0] == "distarray"]
    others = [name for name in report["new"] if name not in numpy and name not in own]
    assert len(own) < 110
    assert len(others) < 60, others


def test_import_starts_nothing(report: dict[str, object]) -> None:
    plain = json.loads(python(REPORT.replace("import distarray", "import numpy")))
    assert report["threads"] == plain["threads"]
    assert report["filters"] == plain["filters"]
    assert report["hook"] is True


def test_import_needs_no_mpi_library() -> None:
    hide = "import sys; sys.modules['mpi4py'] = None; sys.modules['h5py'] = None; import distarray"
    assert python(hide) == ""


def test_import_writes_nothing(tmp_path: object) -> None:
    python("import distarray", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


def test_help_and_dir_list_what_is_loaded_at_first_use() -> None:
    text = python("import pydoc, distarray; print(pydoc.plaintext.document(distarray))")
    for line in ("class Checkpointer(", "class Snapshot(", "    load(", "    save("):
        assert line in text
    names = json.loads(python("import json, distarray; print(json.dumps(dir(distarray)))"))
    assert {"Checkpointer", "Snapshot", "load", "save", "Grid", "__version__"} <= set(names)
    assert not {"Any", "TYPE_CHECKING"} & set(names)
