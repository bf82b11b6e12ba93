"""The bench: its hand-written loops do what they are said to do, and its table is whole."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray import cli
from distarray.bench import command, expressions, files, heat, loops, wave
from distarray.bench.files import FileRow
from distarray.bench.table import Row
from distarray.comm import SerialCommunicator
from tests.harness import environment, run_serial


def modes(cells, width, turns):
    """A product of waves on cells and layers, and the angles from cell to cell."""
    angles = [2 * np.pi * turn / n for turn, n in zip(turns, cells, strict=True)]
    waves = [
        np.cos(angle * (np.arange(n + 2 * width) - width))
        for angle, n in zip(angles, cells, strict=True)
    ]
    return waves[0][:, None, None] * waves[1][:, None] * waves[2], angles


def wiped(values, width):
    """The same with layers that hold nonsense."""
    found = np.full_like(values, 99.0)
    inside = (slice(width, -width),) * 3
    found[inside] = values[inside]
    return found


def test_the_heat_loop_multiplies_a_mode_by_its_discrete_factor() -> None:
    cells, r = (12, 10, 16), 0.1
    mode, angles = modes(cells, 1, (1, 2, 3))
    u, v = wiped(mode, 1), np.zeros_like(mode)
    loops.loop("heat_step", fast=True)(u.ctypes.data, v.ctypes.data, *u.shape, r)
    factor = 1 - 2 * r * sum(1 - np.cos(angle) for angle in angles)
    inside = (slice(1, -1),) * 3
    assert np.allclose(v[inside], factor * mode[inside], rtol=0, atol=1e-14)


def test_the_wave_loop_multiplies_a_mode_by_its_discrete_factor() -> None:
    cells = (8, 10, 12)
    mode, angles = modes(cells, wave.WIDTH, (1, 2, 1))
    beside = wave.Loop(cells)
    beside.state = [wiped(mode, wave.WIDTH).astype(np.float32), (0.5 * mode).astype(np.float32)]
    beside.speed[...] = 0.1
    beside.steps(1)
    second = sum(
        -205 / 72 + 2 * (8 / 5 * np.cos(a) - np.cos(2 * a) / 5)
        + 2 * (8 / 315 * np.cos(3 * a) - np.cos(4 * a) / 560)
        for a in angles
    )  # fmt: skip
    inside = (slice(wave.WIDTH, -wave.WIDTH),) * 3
    expected = (2 - 0.5 + 0.1 * second) * mode[inside]
    assert np.allclose(beside.state[0][inside], expected, rtol=0, atol=2e-6)


def test_the_wave_kernel_and_its_loop_give_the_same_bits() -> None:
    cells = (12, 9, 20)
    arrays, beside = wave.fields(cells, SerialCommunicator()), wave.Loop(cells)
    wave.stepped(arrays, 3, 1)()
    beside.steps(3)
    inside = (slice(wave.WIDTH, -wave.WIDTH),) * 3
    # After an odd number of steps the target is the newest.
    for array, expected in zip((arrays[1], arrays[0]), beside.state, strict=True):
        assert np.array_equal(array.gather(), expected[inside])


def test_expressions_and_their_kernels_give_the_same_bits() -> None:
    grid = da.Grid((5, 6, 7))
    arrays = [grid.from_function(lambda x, y, z, k=k: x + k * y * z) for k in range(1, 5)]
    new = grid.zeros()
    for expression, kernel, _ in expressions._CASES.values():
        kernel(*arrays, new, factor=2.0)
        assert np.array_equal(new.gather(), expression(*arrays).gather())


def test_other_loops_do_what_numpy_does() -> None:
    a, b = np.random.default_rng(1).random((2, 1001))
    addresses = a.ctypes.data, b.ctypes.data
    assert np.isclose(
        loops.loop("sum_values", fast=True)(addresses[0], a.size), a.sum(), rtol=1e-13
    )
    assert np.isclose(loops.loop("sum_products", fast=True)(*addresses, a.size), a @ b, rtol=1e-13)
    assert loops.loop("largest", fast=True)(addresses[0], a.size) == a.max()
    loops.loop("copy_values")(*addresses, a.size)
    assert np.array_equal(a, b)


def test_the_table_has_all_parts_on_one_rank_and_on_two(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    result = run_serial("distarray", args=["bench", "--quick", "--json", str(path)], check=False)
    assert result.returncode == 0, result.stderr
    known = json.loads(path.read_text())
    rows = [Row(**row) for row in known["rows"]]
    everywhere = {"copy", "heat", "wave", "expressions", "sums", "overhead", "timeline"}
    assert {row.part for row in rows if row.ranks == 1} == everywhere
    assert {row.part for row in rows if row.ranks == 2} == set(command.PARTS)
    assert all(row.seconds > 0 for row in rows if "import" not in row.name)
    for row in rows:
        assert str(row) in result.stdout
    for remark in known["remarks"]:
        assert remark in result.stdout
    ratios = [row.seconds / row.reference for row in rows if row.reference]
    assert sorted(known["ratios"].values()) == sorted(ratios)
    assert sum("as many messages" in row.name for row in rows) == 1


def test_a_gate_is_for_the_ratio_or_the_time() -> None:
    assert not Row("heat", "beside", 1, 2.0, 4.0, 0.5).missed
    assert Row("heat", "beside", 1, 2.1, 4.0, 0.5).missed
    assert Row("overhead", "alone", 1, 2.0, gate=1.9).missed
    assert not Row("overhead", "alone", 1, 2.0).missed
    line = str(Row("heat", "what", 2, 2e-3, 4e-3, 0.4, 8_000_000))
    assert " ".join(line.split()) == "what 2 2 ms 4.00 4 ms 2.00 0.500 0.4 MISSED"


def remarks(start: float | None, end: float | None, **given: int) -> list[str]:
    options = argparse.Namespace(quick=False, **(command.USUAL | given))
    return list(command.remarks_on(options, start, end))


def test_remarks_tell_of_a_busy_machine_and_of_other_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command.os, "cpu_count", lambda: 4)
    quiet = "load average 0.50 at the start, 1.25 at the end, 4 cores"
    assert remarks(0.5, 1.25) == [quiet]
    assert remarks(None, None) == ["load average unknown"]
    _, busy, size = remarks(0.5, 4.5, cells=64)
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


def _file_row(known: dict[str, Any]) -> FileRow:
    return FileRow(**{name: value for name, value in known.items() if name != "ranks"})


def test_quick_files_have_no_gates_and_their_rows_are_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    options = ["bench", "--files", str(tmp_path), "--quick", "--json", str(path)]
    result = run_serial("distarray", args=options, check=False)
    assert result.returncode == 0, result.stderr
    _, _, *rows, load = result.stdout.splitlines()
    known = json.loads(path.read_text())
    assert known["remarks"] == [load]
    assert [str(_file_row(row)) for row in known["rows"]] == rows
    assert not any("ok" in row or "MISSED" in row for row in rows)
    ratios = [row["seconds"] / row["beside"] for row in known["rows"]]
    assert list(known["ratios"].values()) == ratios
    assert known["ratios"].keys() == {f"{row['name']}, 2" for row in known["rows"]}


def test_files_go_where_a_folder_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--files", str(tmp_path / "on")]) == 1
    said = f"The folder {tmp_path / 'on'} takes no files: No such file or directory; give --files"
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_files_that_a_signal_stops_are_removed(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "distarray", "bench", "--files", str(tmp_path)]
    options = ["--mebibytes", "16", "--repeat", "1000000"]
    with subprocess.Popen([*command, *options], env=environment({})) as process:
        end = time.monotonic() + 60.0
        while not list(tmp_path.glob("*/*")) and time.monotonic() < end:
            time.sleep(0.05)
        assert list(tmp_path.glob("*/*"))
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not list(tmp_path.iterdir())


def test_the_gates_of_files() -> None:
    row = FileRow("write, all, beside tofile", 1.3, 1.0, 10**9, 1.4, files.GATE_MEMORY)
    assert str(row).split()[-7:] == ["1.40", "ok", "64", "MiB", "64", "MiB", "MISSED"]
    assert str(replace(row, seconds=1.5, memory=0)).count("MISSED") == 1
    assert str(replace(row, gate=None)).split()[-3:] == ["1.30", "64", "MiB"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["heat"], "got the part heat; leave out one of both."),
        (["--steps", "4"], "got --steps; leave it out, or set their size with --mebibytes."),
    ],
)
def test_what_files_have_no_use_for_is_refused(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "--files", str(tmp_path), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"bench: --files measures checkpoints alone, {said}")


@pytest.mark.parametrize("option", ["--json", "--files"])
def test_what_cannot_be_written_is_refused_before_all(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file" / "on"
    path.parent.touch()
    assert cli.main(["bench", option, str(path)]) == 1
    said = {
        "--json": f"The file {path} cannot be written: Not a directory; give --json another.",
        "--files": f"The folder {path} takes no files: Not a directory; give --files another.",
    }
    assert capsys.readouterr() == ("", f"python -m distarray bench: {said[option]}\n")


@pytest.mark.parametrize("option", ["--cells", "--repeat"])
def test_a_count_below_one_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", option, "0"]) == 2
    assert f"{option} must be at least 1, not 0." in capsys.readouterr().err


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "heat", "steam"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "python -m distarray bench: steam is no part of the bench; use copy, heat, wave, "
    )


def test_a_compiler_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_EXECUTOR", "numpy")
    with pytest.raises(loops.BackendError, match="bench needs a C compiler"):
        heat.looped((4, 4, 4), 1)
