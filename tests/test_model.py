"""The performance model: work of a rank as the library plans it, times by hand, tables, inputs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.cli import main
from distarray.decomposition import Decomposition
from distarray.errors import FileError
from distarray.model import command, measure, scaling
from distarray.model.machine import NAMED, Link, Machine, machine_of
from distarray.model.step import reduction_time, slowest, step_time
from distarray.model.traffic import Loop, Traffic, sampled, traffic
from distarray.tuning import kernels
from tests.one_of_many import OneOfMany

FLOAT = np.dtype(float)
#: Nodes of four; a byte of memory takes a nanosecond, one of a message 2 in a node, 10 between.
MACHINE = Machine(
    "round numbers", ((0.0, 1e9),), 0.5, Link(1e-6, 5e8), Link(5e-6, 1e8), 4,
    overhead=1e-7, call=2e-6, line=64, overlap=1.0,
)  # fmt: skip


def loop(name: str = "heat", dtype: Any = FLOAT, ndim: int = 3, reductions: int = 0) -> Loop:
    case = kernels.NAMED[name]
    return Loop(name, case.program(ndim, dtype), np.dtype(dtype), case.rotate, reductions)


def cuts(shape: Any, ranks: Any, *, periodic: bool = True, halo: int = 1) -> Decomposition:
    return Decomposition(shape, ranks, periodic=periodic, halo=halo)


# ---- what a rank does


def test_a_cube_of_eight_ranks_sends_both_faces_of_an_axis_in_one_message() -> None:
    """Blocks of 8^3: faces of 64 cells, two for each neighbour around the periodic axes."""
    work = traffic(loop(), cuts((16,) * 3, (2, 2, 2)), 5)
    assert work.block == (8, 8, 8)
    assert work.memory == 2 * 8 * 8**3
    assert (work.core, work.remainder) == (6**3, 8**3 - 6**3)
    assert work.sends == work.receives == ((1, 1024), (4, 1024), (7, 1024))
    # Across x and y a face has rows of 8 cells, across z single cells.
    rows = sum(count for count, nbytes in work.strips if nbytes == 64)
    cells = sum(count for count, nbytes in work.strips if nbytes == 8)
    assert (rows, cells) == (4 * 8 + 4 * 8, 4 * 64)


def test_axes_that_are_whole_are_copied_and_need_no_remainder() -> None:
    work = traffic(loop(), cuts((16, 8, 8), (2, 1, 1)), 0)
    assert work.sends == ((1, 1024),)
    assert (work.core, work.remainder) == (6 * 64, 2 * 64)
    # Of the message 2 faces out, 2 in; 2 faces read and written across y (rows), across z (cells).
    assert sum(c * n for c, n in work.strips) == 8 * (4 * 64 + 4 * 64 + 4 * 64)


def test_cells_at_the_ends_of_the_domain_are_not_computed() -> None:
    work = traffic(loop(), cuts((16, 8, 8), (2, 1, 1), periodic=False), 0)
    assert work.sends == work.receives == ((1, 512),)
    assert (work.core, work.remainder) == (6 * 36, 36)
    assert sum(c * n for c, n in work.strips) == 2 * 512


def test_only_what_changes_and_is_read_at_a_distance_is_sent() -> None:
    """A wave reads its newest state alone at a distance: four layers of 4 bytes a cell."""
    wave = loop("wave", np.float32)
    work = traffic(wave, cuts((32, 16, 16), (2, 1, 1), halo=4), 1)
    assert work.sends == ((0, 2 * 4 * 16 * 16 * 4),)
    assert wave.bytes_per_cell == 3 * 4
    still = Loop("wave", wave.program, wave.dtype, rotate=(0, 2))
    assert traffic(still, cuts((32, 16, 16), (2, 1, 1), halo=4), 1).sends == ()


@pytest.mark.parametrize("name", kernels.NAMED)
@pytest.mark.parametrize("ranks", [(2, 2, 2), (3, 1, 2), (10, 10, 10)])
@pytest.mark.parametrize("periodic", [True, False])
def test_the_work_is_that_of_the_plans_that_run(
    name: str, ranks: tuple[int, ...], periodic: bool
) -> None:
    """Messages, core and remainder of the plan that a call of the kernel replays."""
    case, asked = kernels.NAMED[name], loop(name)
    shape = [9 * n + 1 for n in ranks]
    cut = cuts(shape, ranks, periodic=periodic, halo=asked.halo[0])
    for rank in {0, cut.size // 2, cut.size - 1}:
        work = traffic(asked, cut, rank)
        grid = da.Grid(
            shape, periodic=periodic, halo=asked.halo, ranks=ranks, device="cpu",
            comm=OneOfMany(rank, cut.size),
        )  # fmt: skip
        arrays = case.arrays(grid, float)
        case.kernel(*arrays, **case.scalars)
        plan = case.kernel.prepare(arrays, dict(case.scalars), 0.0)[0]
        assert sum(box.size for box, _ in plan.core) == work.core
        assert sum(box.size for box, _ in plan.core + plan.remainder) == work.core + work.remainder
        sent = [(m.rank, m.nbytes) for x in plan.exchanges for m in x.plan.sends]
        assert tuple(sent) == work.sends


# ---- the time of a step


def work(**changes: Any) -> Traffic:
    given = Traffic(
        rank=3, block=(10, 10), memory=1600, core=64, remainder=36,
        sends=((2, 800), (4, 100)), receives=((2, 800), (4, 160)), strips=((10, 80), (2, 8)),
    )  # fmt: skip
    return replace(given, **changes)


def test_a_step_takes_what_is_added_up_by_hand() -> None:
    """16 bytes a cell at half of 1e9 bytes/s: 32 ns a cell. Strips of 80 bytes take two lines of
    64, those of 8 one: 22 lines. Rank 2 is on the node of rank 3, rank 4 is not.
    """
    asked = loop(ndim=2)
    time = step_time(asked, work(), MACHINE, 8)
    assert time.call == 2e-6
    assert time.pack == pytest.approx((800 + 100 + 800 + 160 + 22 * 64) * 1e-9)
    assert time.core == pytest.approx(64 * 32e-9)
    assert time.remainder == pytest.approx(36 * 32e-9)
    within, between = 1e-6 + 1e-7 + 800 / 5e8, 5e-6 + 1e-7 + 160 / 1e8
    assert time.exchange == pytest.approx(max(within, between))
    assert time.hidden == pytest.approx(64 * 32e-9)
    assert time.seconds == pytest.approx(2e-6 + 3.268e-6 + (5.1e-6 + 1.6e-6) + 36 * 32e-9)
    nothing_hidden = step_time(asked, work(), replace(MACHINE, overlap=0.0), 8)
    assert nothing_hidden.seconds == pytest.approx(time.seconds + 64 * 32e-9)


def test_a_rank_without_messages_computes_only() -> None:
    alone = work(sends=(), receives=(), strips=(), core=100, remainder=0)
    time = step_time(loop(ndim=2), alone, MACHINE, 1)
    assert (time.exchange, time.hidden) == (0.0, 0.0)
    assert time.seconds == pytest.approx(2e-6 + 100 * 32e-9)


def test_reductions_climb_a_tree_in_nodes_and_then_over_them() -> None:
    """10,000 ranks in nodes of 8: 3 steps in a node, 1250 nodes in 11 steps."""
    machine = replace(MACHINE, ranks_per_node=8)
    assert reduction_time(machine, 10_000) == pytest.approx(3 * 1e-6 + 11 * 5e-6)
    assert reduction_time(machine, 4) == pytest.approx(2 * 1e-6)
    assert reduction_time(machine, 1) == 0.0
    twice = step_time(loop(ndim=2, reductions=2), work(), machine, 10_000)
    assert twice.reductions == pytest.approx(2 * (3e-6 + 55e-6))


def test_memory_is_interpolated_in_the_logarithm() -> None:
    machine = replace(MACHINE, memory=((1e3, 8e9), (1e5, 4e9), (1e6, 1e9)))
    speeds = [machine.speed(n) for n in (10, 1e3, 1e4, 1e5, 1e6, 1e9)]
    assert speeds == pytest.approx([8e9, 8e9, 6e9, 4e9, 1e9, 1e9])


# ---- many ranks


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("shape", [(101, 95, 83), (40, 40, 40)])
def test_a_sample_finds_the_slowest_of_a_thousand_ranks(name: str, shape: tuple[int, ...]) -> None:
    asked, cut = loop(), cuts(shape, (10, 10, 10))
    every = [step_time(asked, traffic(asked, cut, r), NAMED[name], 1000) for r in range(1000)]
    _, found = slowest(asked, cut, NAMED[name])
    assert found.seconds == pytest.approx(max(time.seconds for time in every), rel=0.02)


def test_a_sample_has_the_corners_and_no_rank_twice() -> None:
    found = list(sampled(10_000))
    assert found[0] == 0
    assert found[-1] == 9999
    assert found == sorted(set(found))
    assert len(found) > 90
    assert list(sampled(7)) == list(range(7))


def test_weak_scaling_keeps_blocks_and_strong_scaling_the_grid() -> None:
    asked = loop()
    machine = NAMED["h100-ndr"]
    weak = scaling.weak(asked, machine, (64, 64, 32), (True,) * 3, (1, 1000, 10_000))
    assert [row.work.block for row in weak] == [(64, 64, 32)] * 3
    assert [row.ranks for row in weak] == [(1, 1, 1), (10, 10, 10), (25, 20, 20)]
    assert weak[2].shape == (1600, 1280, 640)
    assert weak[0].efficiency == 1.0
    # The same work on every inner rank: what the third row takes, the second does.
    assert weak[2].time.seconds == pytest.approx(weak[1].time.seconds, rel=0.1)
    strong = scaling.strong(asked, machine, (64, 64, 64), (True,) * 3, (1, 8, 64**3, 128**3))
    assert [row.size for row in strong] == [1, 8, 64**3]
    assert math.prod(strong[-1].work.block) == 1
    rates = [row.cells_per_second / row.size for row in strong]
    assert [row.efficiency for row in strong] == pytest.approx([r / rates[0] for r in rates])


def test_bytes_to_other_nodes_are_counted() -> None:
    """On 10 x 10 x 10 ranks with 8 to a node a rank has its neighbours across x and y on others."""
    (row,) = scaling.weak(loop(), NAMED["h100-ndr"], (16, 16, 16), (True,) * 3, (1000,))
    assert row.between in (4 * 2048, 5 * 2048)


# ---- machines


def test_a_machine_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(MACHINE.as_dict()))
    assert machine_of(str(path)) == MACHINE
    path.write_text(json.dumps({"machine": MACHINE.as_dict(), "rows": []}))
    assert machine_of(str(path)) == MACHINE


@pytest.mark.parametrize(
    "change", [{"memory": []}, {"share": 0}, {"intra": 3}, {"memory": [[2, 1], [1, 1]]},
               {"overlap": 2}, {"line": 0}, {"call": -1}, {"overhead": "much"},
               {"name": 3}, {"memory": 3}, {"memory": [[1]]}, {"memory": [["1", 1]]},
               {"memory": [[0, 1], [1, 1]]}, {"share": "1"}, {"share": True}, {"line": 4.5},
               {"line": math.inf}, {"call": math.nan}, {"call": 10**400},
               {"intra": {"latency": 1}}, {"inter": {"latency": None, "bandwidth": 1}}],
)  # fmt: skip
def test_a_file_that_describes_no_machine_is_refused(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(MACHINE.as_dict() | change))
    with pytest.raises(FileError, match="describes no machine"):
        machine_of(str(path))
    with pytest.raises(FileError, match="is unknown and no file"):
        machine_of(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '"a"', '{"machine": 3}', '{"name": 3}', "[" * 100_000, "{"],
)  # fmt: skip
def test_a_file_of_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"describes no machine .*; write one with"):
        machine_of(str(path))


# ---- the command


def test_tables_that_cannot_be_written_are_refused_before_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "--validate", "--json", str(tmp_path)]) == 1
    said = f"The file {tmp_path} cannot be written: Is a directory; give --json another."
    assert capsys.readouterr() == ("", f"python -m distarray model: {said}\n")


def test_the_command_prints_tables_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tables.json"
    options = ["--block", "32", "32", "32", "--shape", "128", "128", "128", "--ranks", "1", "1000"]
    assert main(["model", *options, "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nothing here was run" in lines[0]
    assert sum("weak scaling" in line or "strong scaling" in line for line in lines) == 4
    tables = json.loads(path.read_text())["tables"]
    assert [t["machine"]["name"] for t in tables] == list(NAMED)
    assert [row["size"] for row in tables[0]["weak"]] == [1, 1000]
    assert tables[0]["weak"][1]["work"]["block"] == [32, 32, 32]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--ranks", "0"], "--ranks takes numbers from 1, not 0."),
        (["--block", "8", "8"], "--block has 2 axes and --shape 3"),
        (["--reductions", "-1"], "--reductions must not be negative"),
        (["--machine", "abacus"], "'abacus' is unknown"),
        (["--kernel", "cold"], "is unknown"),
        (["--dtype", "float47"], "is no element type"),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert main(["model", *options]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m distarray model: ")
    assert text in line


def test_this_machine_is_measured_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_COPIED", (1 << 12, 1 << 16))
    monkeypatch.setattr(measure, "_LEAST", 1e-4)
    monkeypatch.setattr(measure, "_LARGE", 12)
    monkeypatch.setattr(command, "_BLOCKS", (8, 12))
    path = tmp_path / "machine.json"
    assert main(["model", "--validate", "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["8x8x8", "12x12x12"]
    assert "off by a factor of" in lines[5]
    found = json.loads(path.read_text())
    assert all(row["measured"] > 0 and row["predicted"] > 0 for row in found["rows"])
    # What was measured is an input for other runs.
    assert machine_of(str(path)).memory[1][0] == 1 << 16


def test_ratios_are_of_predicted_to_measured() -> None:
    assert measure.Comparison((8,), (1,), 3.0, 2.0).ratio == 1.5
