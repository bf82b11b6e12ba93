"""The bench of the solvers: what stands beside them computes the same, and the table is whole."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from solvers import __main__ as command
from solvers import bench, by_hand


@pytest.mark.parametrize("part", ["diffusion", "wave", "poisson"])
def test_both_sides_compute_the_same(part):
    (row,) = bench.PARTS[part](bench.QUICK)
    assert row.part == part
    assert not math.isnan(row.difference)
    assert not bench.wrong(row)
    assert row.seconds > 0
    assert row.reference > 0


def test_the_command_prints_and_writes_rows(tmp_path, capsys):
    path = tmp_path / "rows.json"
    options = ["bench", "diffusion", "wave", "--quick", "--json", str(path)]
    assert command.main(options) == 0
    head, *lines, load = capsys.readouterr().out.splitlines()
    assert head.split() == ["what", "median", "beside", "ratio", "gate"]
    assert load.startswith("load average")
    known = json.loads(path.read_text())
    assert [row["part"] for row in known["rows"]] == ["diffusion", "wave"]
    for row, line in zip(known["rows"], lines, strict=True):
        assert row["ratio"] == row["seconds"] / row["reference"]
        assert line.startswith(row["name"])


def test_rows_that_cannot_be_written_are_refused_before_all(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["bench", "--json", str(tmp_path / "none" / "rows.json")])
    assert caught.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.endswith(
        "rows.json cannot be written: No such file or directory; give --json another\n"
    )


def test_a_file_of_rows_stays_until_there_are_others(tmp_path):
    path = tmp_path / "rows.json"
    assert by_hand.unwritable(path) == ""
    assert not path.exists()
    path.write_text("before")
    assert by_hand.unwritable(path) == ""
    assert path.read_text() == "before"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_rows_that_are_not_written_in_the_end_are_one_line(capsys):
    assert command.main(["bench", "poisson", "--quick", "--json", "/dev/full"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m solvers bench: the file /dev/full was not written: No space")


def test_a_missed_gate_and_other_numbers_are_said():
    row = bench.Row("euler", "name", 2e-3, 1e-3, 1.15, 0.0)
    assert row.missed
    assert str(row).split() == ["name", "2.000", "ms", "1.000", "ms", "2.000", "1.15", "MISSED"]
    assert bench.wrong(bench.Row("euler", "name", 1.0, 1.0, None, 1e-9))
    assert bench.wrong(bench.Row("euler", "name", 1.0, 1.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["steam"], "steam is no part; use diffusion, wave, euler, lbm, poisson"),
        (["--repeat", "0"], "--repeat must be at least 1, not 0"),
    ],
)
def test_wrong_options_are_refused(options, said, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["bench", *options])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
