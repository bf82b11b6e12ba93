"""The bench: its hand-written loop does what it is said to do, and its table is whole."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

import distarray as da
from distarray import bench
from tests.harness import run_serial


def test_the_loop_is_the_heat_equation() -> None:
    """A Fourier mode is multiplied by its discrete amplification factor."""
    n, r = 12, 0.1
    function = da.Grid((1,)).backend.load(bench.LOOP, "heat_step", fast=True)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double]
    phase = 2 * np.pi * (np.arange(n + 2) - 1) / n
    mode = np.sin(phase)[:, None, None] * np.cos(2 * phase)[None, :, None] * np.cos(phase)
    u, v = mode.copy(), np.zeros_like(mode)
    function(u.ctypes.data, v.ctypes.data, n + 2, r)
    angles = 2 * np.pi * np.array([1, 2, 1]) / n
    factor = 1 - 2 * r * np.sum(1 - np.cos(angles))
    inner = (slice(1, -1),) * 3
    assert np.allclose(v[inner], factor * mode[inner], rtol=0, atol=1e-14)


def test_the_table_has_a_row_for_each_gate(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    options = ["bench", "--cells", "12", "--repeat", "1", "--json", str(path)]
    result = run_serial("distarray", args=options, check=False)
    rows = [bench.Row(**row) for row in json.loads(path.read_text())]
    assert [row.ranks for row in rows] == [1, 1, 1, 2, 2]
    assert all(row.seconds > 0 for row in rows if "import" not in row.name)
    for row in rows:
        assert str(row) in result.stdout
    assert "The gates are meant for --cells 256, not 12." in result.stdout


def test_remarks_tell_of_a_busy_machine_and_of_other_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench.os, "cpu_count", lambda: 4)
    quiet = "load average 0.50 at the start, 1.25 at the end, 4 cores"
    assert bench.remarks(256, 0.5, 1.25) == [quiet]
    assert bench.remarks(256, None, None) == []
    _, busy, size = bench.remarks(64, 0.5, 4.5)
    assert "repeat on an idle machine" in busy
    assert size == "The gates are meant for --cells 256, not 64."


def test_files_are_measured_beside_plain_ones(tmp_path: Path) -> None:
    options = ["bench", "--files", str(tmp_path), "--mebibytes", "1", "--repeat", "1"]
    result = run_serial("distarray", args=options, check=False)
    assert result.returncode in (0, 1), result.stderr
    first, head, *rows, load = result.stdout.splitlines()
    assert first == f"0.00 GiB from 2 ranks in {tmp_path}"
    assert head.split()[0] == "what"
    assert [row.partition(", beside")[0] for row in rows] == [
        "write, values", "write, all", "read, values", "read, all",
    ]  # fmt: skip
    assert result.returncode == int("MISSED" in result.stdout)
    assert load.startswith("load average")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--cells", "--repeat"])
def test_a_count_below_one_is_refused(option: str) -> None:
    result = run_serial("distarray", args=["bench", option, "0"], check=False)
    assert result.returncode == 2
    assert f"{option} must be at least 1, not 0." in result.stderr
