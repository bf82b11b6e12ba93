"""What a run writes while it goes on: the table after crashes, the lists as VTK reads them, and the
command line with checkpoints and signals.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkIOHDF import vtkHDFReader
from vtkmodules.vtkIOXdmf2 import vtkXdmfReader

import distarray as da
from solvers.__main__ import main
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from solvers.series import Entry, Series, _List, kept_rows
from solvers.state import configuration, difference
from tests.harness import ROOT, environment, mpirun

HEADER = "step,time,energy"
ROWS = ["2,0.1,0.5", "4,0.2,0.25", "6,0.30000000000000004,0.125"]
CONFIG = IncompressibleConfig(
    cells=(12, 8), viscosity=0.02, walls={"y+": (1.0, 0.0)}, measure_every=3
)


def table(path: Path, *rows: str, end: str = "\n") -> Path:
    path.write_text("\n".join([HEADER, *rows]) + end)
    return path


def grid() -> da.Grid:
    return da.Grid((4, 4), device="cpu")


def series(folder: Path, step: int) -> Series:
    return Series(folder, grid(), {"p": grid().zeros()}, ["energy"], step)


def test_a_row_is_the_shortest_text_of_the_same_bits(tmp_path: Path) -> None:
    one = series(tmp_path, 0)
    for row in ROWS:
        step, at, energy = row.split(",")
        one.add(int(step), float(at), [float(energy)])
    assert one.table.read_text().splitlines() == [HEADER, *ROWS]


@pytest.mark.parametrize("begun", [2, 4])
def test_a_table_cut_at_any_byte_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, begun: int
) -> None:
    """The run goes on from step `begun`; at least the rows up to there had reached the disk."""
    whole = table(tmp_path / "scalars.csv", *ROWS).read_bytes()
    kept = begun // 2
    certain = len("\n".join([HEADER, *ROWS[:kept]])) + 1
    for size in range(certain, len(whole) + 1):
        (tmp_path / "scalars.csv").write_bytes(whole[:size])
        one = series(tmp_path, begun)
        for row in ROWS[kept:]:
            step, at, energy = row.split(",")
            one.add(int(step), float(at), [float(energy)])
        assert one.table.read_bytes() == whole, size


def test_a_table_cut_in_its_header_is_begun_again(tmp_path: Path) -> None:
    for size in range(len(HEADER) + 2):
        (tmp_path / "scalars.csv").write_text(f"{HEADER}\n"[:size])
        assert series(tmp_path, 0).table.read_text() == f"{HEADER}\n"


@pytest.mark.parametrize(("step", "count"), [(0, 0), (1, 0), (2, 1), (5, 2), (6, 3), (100, 3)])
def test_rows_of_later_steps_are_dropped(tmp_path: Path, step: int, count: int) -> None:
    path = table(tmp_path / "scalars.csv", *ROWS)
    size, entries = kept_rows(path, HEADER, step)
    assert path.read_bytes()[:size].decode().splitlines() == [HEADER, *ROWS[:count]]
    times = [0.1, 0.2, 0.30000000000000004]
    assert entries == [Entry(2 * k + 2, times[k]) for k in range(count)]


@pytest.mark.parametrize("last", ["\0\0\0\0", "6,0.", "6,0.3,1.0,2.0", "3,0.3,1.0", "6,x,1.0"])
def test_a_damaged_last_row_is_cut_off(tmp_path: Path, last: str) -> None:
    path = table(tmp_path / "scalars.csv", *ROWS[:2], last)
    size, entries = kept_rows(path, HEADER, 10)
    assert [entry.step for entry in entries] == [2, 4]
    assert path.read_bytes()[size:].decode() == f"{last}\n"


@pytest.mark.parametrize("bad", ["", "x", "1,0.1,0.5", "2,0.1"])
def test_a_damaged_row_before_others_is_an_error(tmp_path: Path, bad: str) -> None:
    path = table(tmp_path / "scalars.csv", ROWS[0], bad, ROWS[1])
    with pytest.raises(da.FileError) as caught:
        kept_rows(path, HEADER, 10)
    assert str(caught.value) == (
        f"The table '{path}' is damaged: line 3 is no row of a step above those before it; move it "
        "away or cut it off there."
    )


@pytest.mark.parametrize("text", ["step,time\n1,2\n", "step,time,mass\n", "\x89HDF\n\n", "ste\n"])
def test_a_table_with_other_columns_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scalars.csv"
    path.write_text(text)
    with pytest.raises(da.FileError, match=r"has the columns '.*', this run writes 'step,time,en"):
        series(tmp_path, 0)
    assert path.read_text() == text


def test_a_full_disk_is_one_error_and_leaves_whole_rows(tmp_path: Path) -> None:
    one = series(tmp_path, 0)
    one.add(2, 0.1, [0.5])
    before = one.table.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))
    try:
        with pytest.raises(
            da.FileError, match=r"cannot be written: (No space left|File too large)"
        ):
            one.add(4, 0.2, [0.25])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert one.table.read_bytes() == before


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(da.FileError, match=r"The folder '.*out' has to take files, received: "):
        series(tmp_path / "out", 0)


# The lists.


def run(folder: Path, config: IncompressibleConfig = CONFIG, steps: int = 6) -> None:
    flow = IncompressibleSolver(config, device="cpu")
    flow.run(max_steps=steps, output=folder, every=2)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "scalars.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_says_what_the_files_hold(tmp_path: Path) -> None:
    run(tmp_path)
    found = rows(tmp_path)
    assert [row["step"] for row in found] == ["2", "4", "6"]
    flow = IncompressibleSolver(CONFIG, device="cpu")
    for row in found:
        flow.restore(tmp_path / f"step-000000{row['step']}.h5")
        u, v = (flow.fields[name].gather() for name in "uv")
        assert float(row["time"]) == flow.time
        measured = math.isfinite(flow.residual)
        assert float(row["residual"]) == flow.residual if measured else row["residual"] == "nan"
        energy = 0.5 * ((u**2).sum() + (v**2).sum()) / (12 * 8)
        assert float(row["energy"]) == pytest.approx(energy, rel=1e-13)
        assert float(row["divergence"]) == flow.max_divergence() < 1e-13
        assert 0.0 < float(row["dt"]) < 1.0


def test_the_series_names_the_files_and_their_times(tmp_path: Path) -> None:
    run(tmp_path)
    found = json.loads((tmp_path / "steps.vtkhdf.series").read_text())
    assert found["file-series-version"] == "1.0"
    times = [float(row["time"]) for row in rows(tmp_path)]
    names = [f"step-000000{k}.h5" for k in (2, 4, 6)]
    assert found["files"] == [
        {"name": name, "time": at} for name, at in zip(names, times, strict=True)
    ]


def test_vtk_reads_every_file_of_the_series(tmp_path: Path) -> None:
    run(tmp_path)
    flow = IncompressibleSolver(CONFIG, device="cpu")
    for entry in json.loads((tmp_path / "steps.vtkhdf.series").read_text())["files"]:
        path = tmp_path / entry["name"]
        reader = vtkHDFReader()
        assert reader.CanReadFile(str(path))
        reader.SetFileName(str(path))
        reader.Update()
        flow.restore(path)
        values = vtk_to_numpy(reader.GetOutputDataObject(0).GetCellData().GetArray("p"))
        assert np.array_equal(values, flow.fields["p"].gather().reshape(-1))


def test_vtk_plays_the_staggered_fields(tmp_path: Path) -> None:
    """The times, and at each the values of u and v of that step, at their places."""
    run(tmp_path)
    reader = vtkXdmfReader()
    reader.SetFileName(str(tmp_path / "steps.xdmf"))
    reader.UpdateInformation()
    information = reader.GetOutputInformation(0)
    key = vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    times = [information.Get(key, k) for k in range(information.Length(key))]
    assert times == [float(row["time"]) for row in rows(tmp_path)]
    flow = IncompressibleSolver(CONFIG, device="cpu")
    for step, at in zip((2, 4, 6), times, strict=True):
        reader.UpdateTimeStep(at)
        reader.Update()
        flow.restore(tmp_path / f"step-000000{step}.h5")
        blocks = reader.GetOutputDataObject(0)
        assert blocks.GetNumberOfBlocks() == 2
        for k, (name, normal) in enumerate((("u", "x"), ("v", "y"))):
            block, field = blocks.GetBlock(k), flow.fields[name].gather()
            values = vtk_to_numpy(block.GetPointData().GetArray(name))
            assert np.array_equal(values, field.reshape(-1))
            found = vtk_to_numpy(block.GetPoints().GetData())
            assert found.shape == (field.size, 3)
            for axis, positions in enumerate(flow.grid.coordinates(normal)):
                expected = np.broadcast_to(positions, field.shape).reshape(-1)
                assert np.allclose(found[:, axis], expected, rtol=0, atol=1e-7)


def test_a_file_that_was_moved_away_is_not_listed(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "step-0000002.h5").unlink()
    flow = IncompressibleSolver(CONFIG, device="cpu")
    flow.restore(tmp_path / "step-0000004.h5")
    flow.run(max_steps=2, output=tmp_path, every=2)
    listed = json.loads((tmp_path / "steps.vtkhdf.series").read_text())["files"]
    assert [file["name"] for file in listed] == ["step-0000004.h5", "step-0000006.h5"]
    assert [row["step"] for row in rows(tmp_path)] == ["2", "4", "6"]


def test_a_run_from_the_start_replaces_the_lists(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, steps=2)
    assert [row["step"] for row in rows(tmp_path)] == ["2"]
    assert json.loads((tmp_path / "steps.vtkhdf.series").read_text()) == {
        "file-series-version": "1.0",
        "files": [{"name": "step-0000002.h5", "time": float(rows(tmp_path)[0]["time"])}],
    }
    IncompressibleSolver(CONFIG, device="cpu").run(max_steps=1, output=tmp_path, every=2)
    assert not (tmp_path / "steps.vtkhdf.series").exists()
    assert not (tmp_path / "steps.xdmf").exists()


def test_a_list_that_is_added_to_is_the_one_that_is_written_at_once(tmp_path: Path) -> None:
    grown, whole = _List(tmp_path / "a", "<", ">", ","), _List(tmp_path / "b", "<", ">", ",")
    whole.write(["one", "two", "three"])
    for entry in ("one", "two", "three"):
        grown.add(entry)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "<one,two,three>"


def test_a_list_is_as_it_was_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _List(tmp_path / "a", "<", ">", ",")
    found.add("one")
    real = os.pwrite

    def short(descriptor: int, octets: bytes, place: int) -> int:
        return real(descriptor, octets[:3], place)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError, match="No space left"):
        found.add("two")
    assert (tmp_path / "a").read_text() == "<one>"
    monkeypatch.undo()
    found.add("two")
    assert (tmp_path / "a").read_text() == "<one,two>"


# Configurations.


def inflow(t: float, x: float, y: float) -> float:
    return t * y


def outflow(t: float, x: float, y: float) -> float:
    return t


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"viscosity": 0.03}, "it has viscosity=0.02, this run has viscosity=0.03"),
        ({"safety": 0.5}, "it has safety=0.9, this run has safety=0.5"),
        (
            {"walls": {"y+": (2.0, 0.0)}},
            "it has walls={y+: (1.0, 0.0)}, this run has walls={y+: (2.0, 0.0)}",
        ),
        (
            {"walls": {"y+": (inflow, 0.0)}},
            "it has walls={y+: (1.0, 0.0)}, this run has walls={y+: (the function inflow, 0.0)}",
        ),
        ({"initial": (0.0, 1.0)}, "it has initial=None, this run has initial=(0.0, 1.0)"),
        ({"ranks": (1, 1)}, None),
        ({}, None),
    ],
)
def test_what_differs_is_named(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    flow = IncompressibleSolver(CONFIG, device="cpu")
    flow.run(max_steps=1)
    flow.save(tmp_path / "a.h5")
    other = IncompressibleSolver(replace(CONFIG, **changes), device="cpu")  # type: ignore[arg-type]
    if text is None:
        other.restore(tmp_path / "a.h5")
        assert other.time == flow.time
        return
    with pytest.raises(da.FileError) as caught:
        other.restore(tmp_path / "a.h5")
    assert str(caught.value) == (
        f"The file '{tmp_path}/a.h5' is of another configuration: {text}; give the same, or take "
        "the arrays by load to start another run from them."
    )
    assert (other.time, other.step_count) == (0.0, 0)


def test_functions_are_told_apart_by_their_names() -> None:
    first = configuration(replace(CONFIG, walls={"y+": (inflow, 0.0)}))
    second = configuration(replace(CONFIG, walls={"y+": (outflow, 0.0)}))
    assert difference(first, first) is None
    assert "the function inflow" in str(difference(first, second))
    nan = {"a": float("nan")}
    assert difference(nan, dict(nan)) is None
    assert difference({"seed": 3}, {}) == "it has seed=3, which this solver does not know"
    assert difference({}, {"seed": 3}) is None


def test_arrays_of_many_values_are_told_apart_by_a_digest() -> None:
    @dataclass(frozen=True)
    class Given:
        values: np.ndarray

    for shape in ((1001,), (11, 91)):
        values = np.zeros(shape)
        found = configuration(Given(values))
        assert len(str(found)) < 200
        assert difference(found, configuration(Given(values.copy()))) is None
        values[-1] = 1.0
        assert str(difference(found, configuration(Given(values)))).startswith("it has values=")
    assert configuration(Given(np.arange(1000.0))) == {"values": list(range(1000))}


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    flow = IncompressibleSolver(CONFIG, device="cpu")
    da.save(tmp_path / "a.h5", flow.fields, step=1, time=0.0)
    with pytest.raises(da.FileError, match="was not written by a solver's save, and lacks what a"):
        flow.restore(tmp_path / "a.h5")
    attrs = {"residual": 1.0, "time_step": 1.0, "solver": "EulerSolver"}
    da.save(tmp_path / "a.h5", flow.fields, step=1, time=0.0, attrs=attrs)
    with pytest.raises(da.FileError, match="is of the solver EulerSolver, this is Incompressible"):
        flow.restore(tmp_path / "a.h5")


# The command line.

ARGUMENTS = ("taylor_green_2d", "--cells", "16", "--every", "4", "--checkpoint", "5", "--until=8")

#: A run that waits for a signal before it saves its 14th step, of some 20.
WAITING = """
import sys, time
import distarray as da
from distarray.io import preemption
from solvers.__main__ import main

real = da.Checkpointer.save

def save(self, arrays, *, step, **options):
    while step >= 14 and not preemption.noted():
        time.sleep(0.01)
    return real(self, arrays, step=step, **options)

da.Checkpointer.save = save
sys.exit(main())
"""


def start(
    n: int, folder: Path, *more: str, program: Sequence[str] = ("-m", "solvers")
) -> subprocess.Popen[str]:
    """`python -m solvers` on n ranks, 0 for one without a launcher."""
    launcher = [mpirun(), "-n", str(n)] if n else []
    command = [*launcher, sys.executable, *program, *ARGUMENTS, *more]
    return subprocess.Popen(
        [*command, "--output", str(folder)],
        env=environment({"DISTARRAY_DEVICE": "cpu"}),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_ranks(n: int, folder: Path, *more: str) -> str:
    """What a run on n ranks that succeeds prints."""
    process = start(n, folder, *more)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out


def here(folder: Path, *more: str) -> int:
    """The exit code of a run in this process."""
    return main([*ARGUMENTS, *more, "--output", str(folder), "--device", "cpu"])


def outputs(folder: Path) -> dict[str, bytes]:
    names = itertools.chain(folder.glob("*.h5"), folder.glob("s*"))
    return {path.name: path.read_bytes() for path in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert here(folder) == 0
    assert (folder / "step-0000004.h5").exists()
    return folder


def stop(process: subprocess.Popen[str], folder: Path, number: signal.Signals) -> tuple[str, str]:
    """Send a signal once a few rows are there; what the run printed."""
    limit = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < limit:
        path = folder / "scalars.csv"
        if path.exists() and path.read_bytes().count(b"\n") > 3:
            os.kill(process.pid, number)
            break
        time.sleep(0.002)
    return process.communicate(timeout=60)


@pytest.mark.slow
def test_a_signal_leaves_a_checkpoint_from_which_the_run_goes_on(
    tmp_path: Path, whole: Path
) -> None:
    process = start(0, tmp_path, program=("-c", WAITING))
    out, err = stop(process, tmp_path, signal.SIGTERM)
    assert process.returncode == 75, out + err
    assert "SIGTERM received; wrote a checkpoint of step" in err
    assert not (tmp_path / "taylor_green_2d.h5").exists()
    assert "Restart from step" in on_ranks(2, tmp_path, "--restart")
    assert outputs(tmp_path) == outputs(whole)


#: Signals to rank 1, or to one without a launcher: as the program begins to import the package, as
#: the solver is made, before the final file and when all is done.
SIGNALLED = """
import os, runpy, signal, sys

place = sys.argv.pop(1)

def receive(where):
    if where == place and os.environ.get("OMPI_COMM_WORLD_RANK", "1") == "1":
        os.kill(os.getpid(), signal.SIGUSR1)

class Importing:
    def find_spec(self, name, *_):
        if name == "distarray":
            receive("import")
            sys.meta_path.remove(self)
            import solvers.running as running
            for function in ("begin", "finish"):
                setattr(running, function, after(function, getattr(running, function)))

def after(name, function):
    def called(*args, **options):
        receive(name)
        return function(*args, **options)
    return called

sys.meta_path.insert(0, Importing())
try:
    runpy.run_module("solvers", run_name="__main__", alter_sys=True)
finally:
    receive("end")
"""


@pytest.mark.parametrize(
    ("n", "place", "code"),
    [(0, "import", 75), (0, "begin", 75), (2, "begin", 75), (0, "finish", 0), (2, "finish", 0),
     (0, "end", 0)],
)  # fmt: skip
def test_signals_before_the_first_step_and_after_the_last(
    tmp_path: Path, whole: Path, n: int, place: str, code: int
) -> None:
    never = ("--checkpoint", "1000000")
    process = start(n, tmp_path, *never, program=("-c", SIGNALLED, place))
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, out + err
    if code:
        assert "SIGUSR1 received; wrote a checkpoint of step" in err
        assert "Restart from step 2," in on_ranks(0, tmp_path, "--restart")
    assert outputs(tmp_path) == outputs(whole)


def test_a_signal_ends_a_run_without_checkpoints(tmp_path: Path) -> None:
    process = start(0, tmp_path, "--checkpoint", "0", program=("-c", SIGNALLED, "import"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGUSR1, out + err
    assert not (tmp_path / "taylor_green_2d.h5").exists()


@pytest.mark.slow
def test_kill_leaves_checkpoints_from_which_other_ranks_go_on(tmp_path: Path, whole: Path) -> None:
    process = start(0, tmp_path, program=("-c", WAITING))
    stop(process, tmp_path, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert "Restart from step" in on_ranks(3, tmp_path, "--restart")
    assert outputs(tmp_path) == outputs(whole)


def test_a_restart_without_a_checkpoint_is_a_start(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(tmp_path, "--restart") == 0
    assert f"No checkpoint in '{tmp_path}/checkpoints'; start from" in capsys.readouterr().out
    assert outputs(tmp_path) == outputs(whole)


def test_a_restart_from_a_file(tmp_path: Path, whole: Path) -> None:
    assert here(tmp_path, "--restart", str(whole / "step-0000004.h5")) == 0
    final = "taylor_green_2d.h5"
    assert (tmp_path / final).read_bytes() == (whole / final).read_bytes()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--checkpoint", "-1"), "Checkpointer needs every to be an integer of at least 1"),
        (("--restart", "no.h5"), "The file 'no.h5' does not exist"),
        (
            ("--restart", "WHOLE/step-0000004.h5", "--reynolds", "50"),
            "is of another configuration: it has viscosity=0.01, this run has viscosity=0.02;",
        ),
        (
            ("--restart", "WHOLE/step-0000008.h5", "--until", "0.5"),
            "A run ends no earlier than it begins, received the end 0.5 for one that begins at",
        ),
        (("--until", "nan"), "The end of a run is a finite time, received until=nan"),
        (("--every", "-1"), "Steps between outputs are counted from 0, received every=-1"),
    ],
)
def test_wrong_options_are_one_line_and_code_2(
    tmp_path: Path,
    whole: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    text: str,
) -> None:
    assert here(tmp_path, *(part.replace("WHOLE", str(whole)) for part in more)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert text in error
