"""The case `poisson`: published errors, hard problems, files and a restart."""

import re

import numpy as np
import pytest

import distarray as da
from solvers.__main__ import CASES, SOME, main
from solvers.fft_poisson import bench as fft_bench
from solvers.multigrid import Multigrid
from solvers.multigrid import bench as multigrid_bench
from solvers.poisson import cases
from solvers.poisson.problems import HARD, Briggs, published


def test_errors_are_the_published_ones():
    rows = {row.cells: row for row in published()}
    assert sorted(rows) == [16, 32, 64, 128, 256]
    for n in (16, 32):
        problem = Briggs((n, n))
        found = Multigrid(problem.operator).solve(problem.f, rtol=1e-11)
        assert problem.errors(found.x) == pytest.approx((rows[n].l2, rows[n].linf), rel=1e-6)


def test_the_source_in_three_axes_is_minus_the_laplacian():
    problem = Briggs((24, 24, 24))
    found = Multigrid(problem.operator).solve(problem.f)
    assert problem.errors(found.x)[1] < 5e-4


@pytest.mark.parametrize("problem", HARD[:3], ids=lambda problem: problem.name)
def test_hard_problems_converge(problem):
    found = problem.solve()
    assert found.converged
    assert found.iterations <= 14


def test_files_and_a_restart(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(cases, "published", lambda: published()[:1])
    monkeypatch.setattr(cases, "HARD", HARD[:1])
    command = ["poisson", "--cells", "16", "--output", str(tmp_path)]
    assert main([*command, "--restart"]) == 0
    printed = capfd.readouterr().out
    assert f"No solution in '{tmp_path / 'poisson.h5'}'; start from zero" in printed
    assert "4.0695510e-04  4.0695510e-04" in printed
    assert "one axis, prime" in printed
    rows = (tmp_path / "residuals.csv").read_text().splitlines()
    assert rows[0] == "cycle,residual"
    saved = da.load(tmp_path / "poisson.h5", da.Grid((16, 16))).arrays["u"].gather()
    assert np.abs(saved).max() > 0.05
    assert main([*command, "--restart"]) == 0
    assert "cycle  1" not in capfd.readouterr().out
    other = tmp_path / "other.h5"
    da.save(other, {"f": da.Grid((16, 16)).zeros()})
    assert main([*command, "--restart", str(other)]) == 2
    assert f"The file '{other}' has no solution 'u', but only f;" in capfd.readouterr().err


@pytest.mark.parametrize("option", ["--until", "--every", "--advection", "--checkpoint"])
def test_options_that_the_case_does_not_read_are_refused(option, tmp_path, capsys):
    value = "upwind" if option == "--advection" else "1"
    with pytest.raises(SystemExit) as ended:
        main(["poisson", "--cells", "16", "--output", str(tmp_path), option, value])
    assert ended.value.code == 2
    assert f"unrecognized arguments: {option} {value}" in capsys.readouterr().err


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line_offers_what_a_case_reads(case, capsys):
    with pytest.raises(SystemExit):
        main([case.name, "--help"])
    shown = capsys.readouterr().out
    assert set(case.reads) <= set(SOME)
    for name in SOME:
        assert (f"--{name}" in shown) == (name in case.reads)


def test_benches_print_a_row_for_each_cube_and_way(capsys):
    assert multigrid_bench.main(["--cells", "8", "12"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    row = r"%d\^3 +\d+ cycles  setup +\d\.\d{3} s  solve +\d\.\d{3} s  together +\d\.\d{3} s"
    assert re.fullmatch(row % 8, first.strip())
    assert re.fullmatch(row % 12, second.strip())
    assert fft_bench.main(["--cells", "8", "--repeat", "2", "--multigrid"]) == 0
    found = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert found == [["direct", "8^3", "on"], ["multigrid", "8^3", "on"]]
    for bench in (multigrid_bench, fft_bench):
        with pytest.raises(SystemExit):
            bench.main(["--cells", "0"])
