"""What `python -m distarray tune` measures, chooses, prints and keeps."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray import doctor, spans
from distarray.cli import main
from distarray.comm import SerialCommunicator
from distarray.errors import BackendError, StencilError
from distarray.stencil import analysis
from distarray.tiling import loop
from distarray.tuning import command, measure, store
from distarray.tuning.kernels import NAMED, case_of_name, reach_of
from distarray.tuning.measure import Candidate, Problem, best, depths, process_grids
from tests.harness import run_serial

MACHINE = store.Machine("host", "a processor", "an MPI 5.0", 4, "")
TILE = store.TileChoice((64, 32), (True, False), (2, 2), "float64", "abc", 8)
GRID = store.GridChoice("cpu", (64, 32), (True, False), (4, 1))
TRANSPORT = store.TransportChoice("cuda", "nccl")
ALL = store.Choices((TILE,), (GRID,), (TRANSPORT,))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DISTARRAY_CACHE", str(folder))
    monkeypatch.delenv("DISTARRAY_TUNING")
    store.forget()
    return folder


# ---- the file


def test_what_is_kept_is_read_again_by_the_user_alone(cache: Path) -> None:
    assert store.read(MACHINE) == store.Choices()
    path = Path(store.write(MACHINE, ALL))
    assert store.read(MACHINE) == ALL
    assert path.parent == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in cache.iterdir()] == [path.name]


def test_a_new_choice_takes_the_place_of_the_one_for_the_same_case(cache: Path) -> None:
    store.write(MACHINE, ALL)
    other = replace(TILE, dtype="float32")
    store.write(MACHINE, store.Choices((replace(TILE, tile=4), other)))
    assert store.read(MACHINE) == store.Choices(
        (replace(TILE, tile=4), other), (GRID,), (TRANSPORT,)
    )


@pytest.mark.parametrize("change", ["host", "processor", "mpi", "ranks", "threads"])
def test_another_machine_has_a_file_of_its_own(cache: Path, change: str) -> None:
    store.write(MACHINE, ALL)
    other = replace(MACHINE, **{change: 5 if change == "ranks" else "other"})
    assert store.read(other) == store.Choices()
    # Neither does it take a file that was copied.
    (cache / MACHINE.file).rename(cache / other.file)
    assert store.read(other) == store.Choices()


def damaged(path: Path, change: Any) -> None:
    """Change what a file says, with a digest that fits it, as nobody but this program writes."""
    found = json.loads(path.read_text())
    change(found)
    kept = {name: found[name] for name in ("tiles", "grids", "transports") if name in found}
    found["digest"] = store._digest(kept)
    path.write_text(json.dumps(found))


WRONG = {
    "a number in place of a list": (lambda f: f.update(tiles=3), "iterable"),
    "no shape": (lambda f: f["tiles"][0].pop("shape"), "it lacks 'shape'"),
    "a tile of none": (lambda f: f["tiles"][0].update(tile=0), "holds 0 where a number from 1"),
    "a tile of text": (lambda f: f["tiles"][0].update(tile="8"), "holds '8' where a number"),
    "truth for a number": (lambda f: f["tiles"][0].update(ranks=[True, 2]), "holds True where"),
    "axes too few": (lambda f: f["grids"][0].update(ranks=[4]), "other numbers of axes"),
    "a transport": (lambda f: f["transports"][0].update(transport="sh -c"), "transport 'sh -c'"),
    "no tiles": (lambda f: f.pop("tiles"), "it lacks 'tiles'"),
    "a later format": (lambda f: f.update(version=2), "has format 2, not 1"),
    "a machine": (lambda f: f["machine"].update(host="x"), "of another machine"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_entry_is_told_in_one_line_and_nothing_used(
    cache: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change, text = WRONG[name]
    damaged(Path(store.write(MACHINE, ALL)), change)
    assert store.read(MACHINE) == store.Choices()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"distarray: {cache}")
    assert text in line
    store.write(MACHINE, ALL)  # takes its place
    assert store.read(MACHINE) == ALL


NO_CHOICES = [b"", b"{", b"[]", b"[" * 100_000, b"null", b"3", b"\xff\x00", b'{"version": 1}']


@pytest.mark.parametrize("content", NO_CHOICES, ids=lambda content: repr(content[:16]))
def test_bytes_that_are_no_choices_are_not_used(
    cache: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    Path(store.write(MACHINE, ALL)).write_bytes(content)
    assert store.read(MACHINE) == store.Choices()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_writers_at_once_never_leave_a_part_of_a_file(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.write(MACHINE, ALL)

    def write(dtype: str) -> None:
        for tile in range(1, 30):
            store.write(MACHINE, store.Choices((replace(TILE, dtype=dtype, tile=tile),)))

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(write, dtype) for dtype in ("float32", "complex64")]
        while not all(job.done() for job in jobs):
            assert store.read(MACHINE).grids == (GRID,)
        for job in jobs:
            job.result()
    # The last of two that write at once may miss what the other kept: it is measured again.
    assert set(ALL.tiles) < set(store.read(MACHINE).tiles)
    assert capsys.readouterr().err == ""
    assert [path.name for path in cache.iterdir()] == [MACHINE.file]


def test_what_cannot_be_kept_leaves_nothing_behind(cache: Path) -> None:
    (cache / MACHINE.file).mkdir(parents=True)
    cache.chmod(0o700)
    with pytest.raises(BackendError, match=r"json cannot be written: [A-Z][a-z ]+; make room, or"):
        store.write(MACHINE, ALL)
    assert [path.name for path in cache.iterdir()] == [MACHINE.file]


def test_a_folder_that_goes_with_the_process_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISTARRAY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BackendError, match="set DISTARRAY_CACHE to a folder that can"):
        store.write(MACHINE, ALL)


def test_a_changed_number_is_noticed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(store.write(MACHINE, ALL))
    path.write_text(path.read_text().replace('"tile": 8', '"tile": 9'))
    assert store.read(MACHINE) == store.Choices()
    assert "it is damaged" in capsys.readouterr().err


def test_a_cache_that_others_may_write_is_not_read(cache: Path) -> None:
    store.write(MACHINE, ALL)
    cache.chmod(0o777)
    from distarray.backends import native

    native._checked.cache_clear()
    assert store.read(MACHINE) == store.Choices()
    with pytest.raises(da.BackendError, match="owned or writable by others"):
        store.write(MACHINE, ALL)
    native._checked.cache_clear()


@pytest.mark.parametrize("value", ["0", "off", "no"])
def test_a_variable_switches_choices_off(
    cache: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    store.write(store.this_machine(1), ALL)
    alone = SerialCommunicator()
    assert store.choices(alone) == ALL
    monkeypatch.setenv("DISTARRAY_TUNING", value)
    store.forget()
    assert store.choices(alone) == store.Choices()


# ---- candidates and the choice


def problem(shape: tuple[int, ...], **changes: Any) -> Problem:
    periodic = (True,) * len(shape)
    given = Problem(NAMED["heat"], 1, shape, periodic, "float64", "cpu", 12, 3, 1.5)
    return replace(given, **changes)


def test_process_grids_come_by_their_halo_the_default_first() -> None:
    """Blocks of 8 x 4 cells on 4 ranks: 2 x 2 blocks of 4 x 2 have 2 + 4 cells beside them in each
    direction; 4 x 1 of 2 x 4 have 4; 1 x 4 of 8 x 1 have 8.
    """
    assert process_grids(problem((8, 4)), 4, 0) == [(4, 1), (2, 2), (1, 4)]
    assert process_grids(problem((8, 4)), 4, 2) == [(4, 1), (2, 2)]
    # Blocks of one cell are narrower than a reach of two.
    assert process_grids(problem((8, 4), reach=2), 4, 0) == [(4, 1), (2, 2)]


def test_numbers_of_steps_are_whole_rotations() -> None:
    heat, wave = problem((8, 4)), problem((8, 4), case=NAMED["wave"])
    assert depths(heat, None) == [1, 2, 4, 8, 16]
    assert depths(wave, None) == [1, 3, 6, 12, 24]
    assert depths(wave, [1, 2, 3, 4, 6]) == [1, 3, 6]
    assert depths(replace(heat, device="simulated"), [2, 4]) == [1]


def test_the_first_of_those_that_are_as_fast_is_chosen() -> None:
    def candidate(tile: int, *seconds: float, behind: bool = False) -> Candidate:
        return Candidate("auto", (1,), tile, list(seconds), behind)

    one, two = candidate(1, 3.0, 1.015, 1.0), candidate(2, 1.0, 1.0, 0.1)
    assert best([one, two]) is one  # medians of 1.015 and 1.0 are alike
    assert best([candidate(1, 1.03), two]) is two
    assert best([candidate(1, 0.5, behind=True), two]) is two
    assert two.spread == pytest.approx(0.9)


def test_candidates_are_timed_in_turn_and_those_far_behind_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {1: 2.0, 2: 1.0, 4: 1.6, 8: 1.4}
    order = []

    def group(problem: Any, communicator: Any, key: Any, group: Any, cases: Any) -> None:
        for one in group:
            order.append(one.tile)
            one.seconds.append(seconds[one.tile])

    monkeypatch.setattr(measure, "_measure_group", group)
    candidates = [Candidate("auto", (1,), tile) for tile in seconds]
    measure.measure(problem((8, 4)), SerialCommunicator(), candidates)
    assert order == [1, 2, 4, 8, 1, 2, 4, 8, 2, 8]
    assert [one.behind for one in candidates] == [True, False, True, False]
    lines = command.table(problem((8, 4)), candidates, candidates[1])
    assert [line[0] for line in lines[2:6]] == [" ", "*", " ", " "]
    assert "left out of later rounds" in lines[-1]


def test_one_lucky_measurement_leaves_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {1: iter([0.1, 1.0, 1.0]), 2: iter([0.9, 0.9, 0.9])}

    def group(problem: Any, communicator: Any, key: Any, group: Any, cases: Any) -> None:
        for one in group:
            one.seconds.append(next(seconds[one.tile]))

    monkeypatch.setattr(measure, "_measure_group", group)
    candidates = [Candidate("auto", (1,), tile) for tile in seconds]
    measure.measure(problem((8, 4), skip=1.65), SerialCommunicator(), candidates)
    assert best(candidates).tile == 2


def test_steps_are_kept_for_each_process_grid_and_the_best_of_these() -> None:
    def candidate(ranks: tuple[int, int], tile: int, seconds: float) -> Candidate:
        return Candidate("auto", ranks, tile, [seconds])

    candidates = [
        candidate((2, 1), 1, 3.0), candidate((2, 1), 2, 2.0),
        candidate((1, 2), 1, 1.5), candidate((1, 2), 2, 1.8),
    ]  # fmt: skip
    cases = {("auto", ranks): replace(TILE, ranks=ranks) for ranks in ((2, 1), (1, 2))}
    kept = command.found(candidates, cases, candidates[2], problem((8, 4)))
    assert {one.ranks: one.tile for one in kept.tiles} == {(2, 1): 2, (1, 2): 1}
    assert [one.ranks for one in kept.grids] == [(1, 2)]
    assert kept.transports == ()


# ---- kernels


@pytest.mark.parametrize(("name", "points"), [("heat", {1: 3, 2: 5, 3: 7}), ("wave", {3: 25})])
def test_named_kernels_read_as_many_points_as_they_say(name: str, points: dict[int, int]) -> None:
    for ndim, count in points.items():
        program = NAMED[name].program(ndim, np.float64)
        reads = set().union(*analysis.reads(program).values())
        assert len(reads) == count
    assert reach_of(program) == {"heat": 1, "wave": 4}[name]


def test_named_kernels_have_the_factors_of_their_modes() -> None:
    """A sine along x is multiplied by 1 - 2 r (1 - cos k) in a step of heat; the second derivative
    of 8th order is exact for x^2.
    """
    n, r = 24, 0.1
    grid = da.Grid((n, 4), periodic=True)
    u = grid.from_function(lambda x, y: np.sin(2 * np.pi * x) + 0 * y)
    new = grid.empty_like(u)
    NAMED["heat"].kernel(u, new, r=r)
    factor = 1 - 2 * r * (1 - np.cos(2 * np.pi / n))
    assert np.allclose(new.gather(), factor * u.gather(), rtol=0, atol=1e-14)
    line = da.Grid((n,), bounds=[(0.0, float(n))], halo=4)
    now = line.from_function(lambda x: x**2)
    old, new = line.zeros(), line.zeros()
    NAMED["wave"].kernel(old, now, new, r=0.5)
    inner = slice(4, -4)
    assert np.allclose(new.gather()[inner], (2 * now.gather() + 0.5 * 2.0)[inner], rtol=1e-13)


MODULE = """
import distarray as da

@da.stencil
def mean(u, new, *, w):
    new[0, 0] = w * (u[2, 0] + u[-1, 0])

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_kernels"


def test_a_kernel_of_the_user_is_taken(module: str) -> None:
    case = case_of_name(f"{module}:mean", ["w=0.5"])
    assert (case.count, case.rotate, case.scalars) == (2, (0, 1), {"w": 0.5})
    assert reach_of(case.program(2, np.float32)) == 2


@pytest.mark.parametrize(
    ("name", "scalars", "text"),
    [
        ("cold", [], "'cold' is unknown; give heat, wave or MODULE:KERNEL"),
        ("nowhere_to_be_found:mean", [], "cannot be imported (ModuleNotFoundError"),
        ("own_kernels:median", [], "cannot be imported (AttributeError"),
        ("own_kernels:number", [], "is no kernel but 3"),
        ("own_kernels:mean", [], "needs a value for w"),
        ("own_kernels:mean", ["w=1", "v=2"], "has no scalar v"),
        ("own_kernels:mean", ["w"], "is no NAME=VALUE"),
    ],
)
def test_a_kernel_that_is_none_is_refused(
    module: str, name: str, scalars: list[str], text: str
) -> None:
    with pytest.raises(StencilError) as error:
        case_of_name(name, scalars)
    assert text in str(error.value).replace("heat, wave, or", "heat, wave or")


# ---- the command


def test_the_command_measures_prints_and_keeps(cache: Path, module: str) -> None:
    path = cache.parent / "table.json"
    options = ["tune", "--shape", "12", "10", "--steps", "4", "--repeat", "2", "--tiles", "2", "4"]
    options += ["--skip", "1000", "--kernel", f"{module}:mean", "--scalar", "w=0.5"]
    result = run_serial("distarray", args=[*options, "--json", str(path)], cwd=cache.parent)
    rows = json.loads(path.read_text())
    assert [(row["ranks"], row["tile"]) for row in rows] == [([1, 1], n) for n in (1, 2, 4)]
    assert all(len(row["seconds"]) == 2 and row["median"] > 0 for row in rows)
    (chosen,) = [row["tile"] for row in rows if row["chosen"]]
    assert "load average" in result.stdout
    assert f"tile {chosen} on 1 x 1 ranks" in result.stdout
    assert "auto makes single steps on arrays as small as these" in result.stdout
    (file,) = cache.glob("tuning-*.json")
    kept = store.read(store.Machine(**json.loads(file.read_text())["machine"]))
    assert [(one.shape, one.dtype, one.tile) for one in kept.tiles] == [
        ((12, 10), "float64", chosen)
    ]


def test_what_the_command_keeps_is_used_by_loops_and_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "WORTH_TILING", 0)
    monkeypatch.setattr(loop, "LEAST_STEPS", 0)
    options = ["--shape", "16", "12", "--steps", "4", "--repeat", "1", "--tiles", "4"]
    assert main(["tune", *options, "--skip", "1000", "--apply"]) == 0
    assert "nothing is kept" in capsys.readouterr().out
    assert not list(cache.glob("tuning-*.json"))
    # Measured for 4 steps at a time alone: that is what is kept.
    monkeypatch.setattr(command, "depths", lambda problem, tiles: [4, 4])
    assert main(["tune", *options, "--apply", "tile"]) == 0
    store.forget()
    heat = NAMED["heat"].kernel
    heat.depths.clear()
    u = da.Grid((16, 12), periodic=True).ones()
    with spans.record() as recording:
        da.iterate(heat, u, u.copy(), steps=24, r=0.1)
    assert len(recording.named("tile")) == 24 // 4
    assert da.report().tuned == ("tile 4 for heat",)
    assert str(next(iter(doctor.tuning(1)))).endswith("1 tile kept for this machine on 1 rank")
    heat.depths.clear()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--repeat", "0"], "--repeat must be at least 1, not 0."),
        (["--shape", "8", "0"], "--shape takes numbers from 1, not 0."),
        (["--shape", "8", "--periodic", "y"], "--periodic names the axis y"),
        (["--shape", "8", "8", "8", "8"], "--shape takes at most 3 numbers, not 4."),
        (["--tiles", "2", "65"], "--tiles takes numbers up to 64, not 65."),
        (["--skip", "nan"], "--skip must be at least 1, not nan."),
        (["--rotate", "0", "0"], "has 2 arrays, of which (0, 0) cannot rotate"),
        (["--rotate", "0", "2"], "different numbers from 0 to 1"),
        (["--rotate", "-1", "0"], "different numbers from 0 to 1"),
        (["--dtype", "float47"], "--dtype float47 is no element type"),
        (["--kernel", "cold"], "is unknown"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert main(["tune", *options]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m distarray tune: ")
    assert text in line


def test_a_table_that_cannot_be_written_is_refused_before_all(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cache.parent / "missing" / "table.json"
    assert main(["tune", "--json", str(path)]) == 1
    said = f"The file {path} cannot be written: No such file or directory; give --json another."
    assert capsys.readouterr() == ("", f"python -m distarray tune: {said}\n")
    assert not list(cache.glob("tuning-*.json"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_table_that_is_not_written_in_the_end_leaves_the_choice(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/dev/full"
    options = ["--shape", "8", "8", "--steps", "2", "--repeat", "1", "--tiles", "2"]
    assert main(["tune", *options, "--json", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"The file {path} cannot be written" in line
    assert list(cache.glob("tuning-*.json"))
