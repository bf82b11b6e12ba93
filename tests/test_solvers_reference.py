"""Published tables, interpolation, pictures and the command line of the solvers."""

import re
import subprocess
import sys

import numpy as np
import pytest

import distarray as da
from solvers.__main__ import main
from solvers.comparison import Comparison, Row, relative
from solvers.euler.exact import shock_tubes
from solvers.incompressible import IncompressibleConfig, IncompressibleSolver
from solvers.incompressible.cases import (
    cylinder,
    natural_convection,
    taylor_green_2d,
    taylor_green_3d,
)
from solvers.incompressible.plot import streamlines
from solvers.incompressible.reference import (
    centre_line,
    compare_centre_lines,
    compare_extrema,
    interpolate,
    peak,
    published_table,
    read_table,
)
from solvers.incompressible.reference_flows import (
    compare_shedding_cylinder,
    compare_steady_cylinder,
    compare_taylor_green_3d,
)
from tests.harness import run_ranks


def test_tables_hold_the_published_values():
    marchi, botella = published_table(100), published_table(1000)
    assert len(marchi.rows) == 30
    assert len(botella.rows) == 34
    assert (0, 0.5, -0.2091491418) in marchi.rows
    assert (1, 0.8125, -0.253768577) in marchi.rows
    assert (0, 0.1719, -0.3885691) in botella.rows
    assert (1, 0.9063, -0.5264392) in botella.rows
    assert published_table(500) is None


@pytest.mark.parametrize(("reynolds", "misprints"), [(400, 1), (3200, 1), (5000, 0), (10000, 1)])
def test_tables_of_ghia_are_without_misprints(reynolds, misprints):
    rows = published_table(reynolds).rows
    assert len(rows) == 34 - misprints
    # A misprint would stand out of the line through its neighbours.
    for component in (0, 1):
        line = sorted((at, value) for c, at, value in rows if c == component)
        assert (line[0][1], line[-1][1]) == (0.0, (1.0, 0.0)[component])
        assert abs(np.diff([value for _, value in line])).max() < 0.6


def test_interpolation_is_exact_for_cubics():
    positions = np.array([0.0, 0.05, 0.15, 0.3, 0.6, 0.95, 1.0])
    cubic = np.polynomial.Polynomial([0.3, -1.0, 2.0, 4.0])
    for at in (0.0, 0.02, 0.2, 0.5, 0.97, 1.0):
        assert interpolate(positions, cubic(positions), at) == pytest.approx(cubic(at), abs=1e-13)


@pytest.mark.parametrize("cells", [(16, 16), (15, 13)])
def test_centre_lines_of_a_known_flow(cells):
    """A velocity that is cubic across the line, on grids with and without a face on it."""
    flow = IncompressibleSolver(
        IncompressibleConfig(cells=cells, viscosity=0.01, walls={"y+": (1.0, 0.0)})
    )

    def u(x, y):
        return (x * (1 - x)) * (1 + x) * (y**3 - 2 * y)

    flow.fields["u"][...] = flow.grid.from_function(u, location="x")
    flow.fields["v"][...] = flow.grid.from_function(lambda x, y: u(y, x), location="y")
    for component in (0, 1):
        positions, values = centre_line(flow, component)
        assert (positions[0], positions[-1]) == (0.0, 1.0)
        assert (values[0], values[-1]) == (0.0, (1.0, 0.0)[component])
        inside = positions[1:-1]
        np.testing.assert_allclose(values[1:-1], u(0.5, inside), rtol=0, atol=1e-14)


def test_comparison_tells_the_largest_deviations():
    comparison = Comparison(
        "a source",
        (
            Row("u at 0.5", 1.25, 1.0, 0.3),
            Row("u at 0.75", 0.5, 1.0),
            relative("v", 0.125, 0.1, 0.2),
        ),
    )
    assert (comparison.largest("u"), comparison.largest()) == (0.5, 0.5)
    assert comparison.largest("v") == pytest.approx(0.025)
    assert [row.accepted for row in comparison.rows] == [True, True, False]
    assert not comparison.accepted
    lines = comparison.text().splitlines()
    assert lines[0] == "Against a source"
    assert lines[1].split() == ["station", "computed", "reference", "deviation", "gate"]
    assert lines[2].split() == ["u", "at", "0.5", "1.25", "1", "2.500e-01", "0.3"]
    assert lines[3].split()[-1] == "-"
    assert lines[4].split()[-2:] == ["0.02", "missed"]


def test_values_that_are_not_finite_are_not_accepted():
    assert not Row("u", float("nan"), 1.0, 1e9).accepted


def test_a_peak_is_that_of_the_parabola():
    x = np.array([0.0, 0.3, 0.5, 0.6, 1.0])
    where, most = peak(x, 2.0 - (x - 0.47) ** 2)
    assert (where, most) == (pytest.approx(0.47), pytest.approx(2.0))


def test_extrema_of_a_flow_of_known_lines():
    """Lines that are parabolas have their extrema where those are."""
    flow = IncompressibleSolver(
        IncompressibleConfig(cells=(16, 16), viscosity=1e-3, walls={"y+": (1.0, 0.0)})
    )
    flow.fields["u"][...] = flow.grid.from_function(
        lambda x, y: (y - 0.2) ** 2 - 0.25 + 0 * x, location="x"
    )
    flow.fields["v"][...] = flow.grid.from_function(
        lambda x, y: 0.3 - (x - 0.4) ** 2 + 0 * y, location="y"
    )
    rows = {row.station: row for row in compare_extrema(flow).rows}
    assert rows["u_min"].computed == pytest.approx(-0.25)
    assert rows["u_min"].reference == -0.3885698
    assert rows["v_max"].computed == pytest.approx(0.3)


def test_shedding_is_measured_over_whole_periods():
    """Harmonic coefficients of the published period and amplitudes are accepted."""
    time = np.linspace(0.0, 6.0, 4001)
    angle = 2 * np.pi * time * 3.0184
    drag = 0.5 * (3.22739 + 3.16426) + 0.5 * (3.22739 - 3.16426) * np.sin(2 * angle)
    lift = 0.5 * (0.98657 - 1.02129) + 0.5 * (0.98657 + 1.02129) * np.sin(angle)
    comparison = compare_shedding_cylinder(np.stack([time, drag, lift, drag], axis=1), 20)
    rows = {row.station: row for row in comparison.rows}
    assert comparison.accepted
    assert rows["Strouhal number"].computed == pytest.approx(0.30184, rel=1e-4)
    assert rows["largest lift"].computed == pytest.approx(0.98657, rel=1e-4)
    assert rows["smallest drag"].computed == pytest.approx(3.16426, rel=1e-4)
    assert compare_shedding_cylinder(np.stack([time, drag, lift, drag], axis=1)[:100], 20) is None


def test_a_steady_cylinder_beside_the_benchmark():
    exact = compare_steady_cylinder(5.57953523384, 0.010618948146, 0.11752016697, 20)
    assert exact.accepted
    assert exact.largest() < 1e-9
    assert not compare_steady_cylinder(5.57953, -0.0106, 0.1175, 20).accepted
    assert compare_steady_cylinder(9.0, 9.0, 9.0, 10).accepted  # nothing is claimed there


def published_vortices(begin, end):
    return [
        (float(r["t"]), float(r["spec_ke"]), float(r["spec_enstrophy"]))
        for r in read_table("tgv1600.csv")
        if begin <= float(r["t"]) <= end
    ]


def test_a_published_vortex_history_is_accepted():
    history = published_vortices(0.0, 12.0)
    comparison = compare_taylor_green_3d(history, 256, 1.0 / 1600.0)
    assert comparison.accepted
    rows = {row.station: row for row in comparison.rows}
    assert rows["largest -dE/dt"].computed == pytest.approx(0.0128575, rel=3e-3)
    assert rows["its time"].computed == pytest.approx(8.97, abs=0.05)
    assert rows["2 nu enstrophy, t = 8"].computed == pytest.approx(0.010373, rel=2e-3)
    assert compare_taylor_green_3d(history, 64, 1e-3) is None
    assert "begin" not in comparison.source
    assert comparison.rows[0].station == "energy, t = 1"


@pytest.mark.parametrize(
    ("begin", "first", "peaks"), [(2.5, 3, True), (3.0, 3, True), (9.5, 10, False)]
)
def test_a_vortex_history_of_a_restart_is_compared_where_there_are_records(begin, first, peaks):
    comparison = compare_taylor_green_3d(published_vortices(begin, 12.0), 256, 1.0 / 1600.0)
    assert comparison.source.endswith(f"; records begin at time {begin:g}")
    assert comparison.accepted
    stations = [row.station for row in comparison.rows]
    assert stations[:2] == [f"energy, t = {first}", f"2 nu enstrophy, t = {first}"]
    assert (f"-dE/dt, t = {first}" in stations) == (first > begin)
    assert ("largest -dE/dt" in stations) == peaks


def test_a_vortex_history_without_a_whole_time_is_not_compared():
    assert compare_taylor_green_3d(published_vortices(2.2, 2.8), 256, 1.0 / 1600.0) is None


@pytest.mark.parametrize(
    "options",
    [
        {"viscosity": 0.02, "walls": {"y+": (1.0, 0.0)}},
        {"viscosity": 0.01, "walls": {"y-": (1.0, 0.0)}},
        {"viscosity": 0.01},
        {"viscosity": 0.0, "walls": {"y+": (1.0, 0.0)}},
        {"viscosity": 0.01, "walls": {"y+": (1.0, 0.0)}, "bounds": ((0.0, 2.0), (0.0, 1.0))},
    ],
)
def test_other_flows_have_no_table(options):
    flow = IncompressibleSolver(IncompressibleConfig(cells=(8, 8), **options))
    assert compare_centre_lines(flow) is None


@pytest.mark.parametrize("cells", [(12, 10), (8, 6, 4)])
def test_streamlines_are_drawn(tmp_path, cells):
    pytest.importorskip("matplotlib")
    lid = (1.0,) + (0.0,) * (len(cells) - 1)
    flow = IncompressibleSolver(IncompressibleConfig(cells=cells, viscosity=0.1, walls={"y+": lid}))
    flow.run(max_steps=5)
    assert streamlines(flow, tmp_path / "flow.png")
    assert (tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stretched", ["", "x", "y", "xy"])
def test_pictures_of_stretched_grids_are_true_to_scale(tmp_path, monkeypatch, stretched):
    """The cells that are drawn lie where those of the grid lie, and streamlines are drawn through
    the velocity of their places: u = x + 2 y, v = 0.5 - y.
    """
    drawing = pytest.importorskip("matplotlib.figure")
    axes = pytest.importorskip("matplotlib.axes").Axes
    figures, lines = [], []

    def kept(*args, **options):
        figures.append(drawing_figure(*args, **options))
        return figures[-1]

    drawing_figure, plain = drawing.Figure, axes.streamplot
    monkeypatch.setattr(drawing, "Figure", kept)
    monkeypatch.setattr(
        axes, "streamplot", lambda *args, **given: lines.append(args[1:]) or plain(*args, **given)
    )
    ends = {"x": 2.0 * np.linspace(0.0, 1.0, 13) ** 1.5, "y": np.linspace(0.0, 1.0, 10) ** 2}
    flow = IncompressibleSolver(
        IncompressibleConfig(
            cells=(12, 9),
            viscosity=0.1,
            bounds=((0.0, 2.0), (0.0, 1.0)),
            coordinates={name: ends[name] for name in stretched} or None,
        )
    )
    for name, function in (("u", lambda x, y: x + 2.0 * y), ("v", lambda x, y: 0.5 - y + 0.0 * x)):
        field = flow.fields[name]
        field[...] = flow.grid.from_function(function, location="xy"["uv".index(name)])
    assert streamlines(flow, tmp_path / "flow.png")
    drawn = figures[0].axes[0]
    if not stretched:
        assert drawn.images[0].get_extent() == [0.0, 2.0, 0.0, 1.0]
    else:
        mesh = drawn.collections[0].get_coordinates()
        for axis, name in enumerate("xy"):
            even = np.linspace(0.0, (2.0, 1.0)[axis], (13, 10)[axis])
            expected = ends[name] if name in stretched else even
            line = mesh[0, :, 0] if axis == 0 else mesh[:, 0, 1]
            np.testing.assert_array_equal(line, expected)
    x, y, u, v = lines[0]
    # The outermost cells have walls, and stretched axes end half a cell from them.
    inner = slice(3, -3), slice(3, -3)
    np.testing.assert_allclose(u.T[inner], (x[:, None] + 2.0 * y)[inner], rtol=0, atol=1e-12)
    np.testing.assert_allclose(v.T[inner], (0.5 - y + 0.0 * x[:, None])[inner], rtol=0, atol=1e-12)


def test_without_matplotlib_nothing_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    flow = IncompressibleSolver(IncompressibleConfig(cells=(8, 8), viscosity=0.1))
    assert not streamlines(flow, tmp_path / "flow.png")
    assert not (tmp_path / "flow.png").exists()


def test_list_names_the_flows_first(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines][:7] == [
        "cavity",
        "taylor_green_2d",
        "taylor_green_3d",
        "channel",
        "cylinder",
        "natural_convection",
        "poisson",
    ]


def test_cavity_case_writes_its_files(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["cavity", "--cells", "16", "--output", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert "Against Marchi" in out
    assert "residual" in err
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["cavity.h5", "cavity.png", "cavity.xdmf"]


def test_a_case_continues_from_its_file(tmp_path, capsys):
    whole, part = tmp_path / "whole", tmp_path / "part"
    arguments = ["cavity", "--cells", "12", "10", "--reynolds", "50"]
    main([*arguments, "--until", "0.5", "--every", "2", "--output", str(whole)])
    restart = str(whole / "step-0000002.h5")
    main([*arguments, "--until", "0.5", "--restart", restart, "--output", str(part)])
    assert (whole / "cavity.h5").read_bytes() == (part / "cavity.h5").read_bytes()


def test_taylor_green_case_prints_the_exact_energy(tmp_path, capsys):
    main(["taylor_green_2d", "--cells", "32", "--until", "0.5", "--output", str(tmp_path)])
    out = capsys.readouterr().out
    computed = float(out.split(" at time 0.5")[0].split()[-1])
    exact = float(out.split("Exact at the end ")[1].split()[0])
    assert computed == pytest.approx(exact, rel=5e-4)
    assert "missed" not in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["taylor_green_2d", "--cells", "16", "--until", "0.2"], "exact decay"),
        (["taylor_green_3d", "--cells", "12", "--until", "4"], "energy, t = 4"),
        (["channel", "--cells", "2", "8", "--reynolds", "10"], "exact discrete flow of Poiseuille"),
        (["cylinder", "--cells", "25", "10", "--until", "0.2"], "2D-1 of Schafer and Turek"),
        (["natural_convection", "--cells", "8", "--rayleigh", "1000"], "de Vahl Davis (1983)"),
    ],
)
def test_cases_print_their_comparison(tmp_path, capsys, arguments, text):
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert text in out
    assert "missed" not in out
    assert (tmp_path / f"{arguments[0]}.h5").exists()


def test_vortices_are_saved_where_there_are_no_transforms(tmp_path, capsys, monkeypatch):
    def missing(velocity):
        raise da.UnsupportedError("Transforms need scipy; install the extra fft.")

    monkeypatch.setattr(taylor_green_3d, "spectrum", missing)
    arguments = ["taylor_green_3d", "--cells", "8", "--until", "0.2", "--output", str(tmp_path)]
    assert main(arguments) == 0
    assert "No spectrum: Transforms need scipy" in capsys.readouterr().out
    assert (tmp_path / "taylor_green_3d.h5").exists()


@pytest.mark.parametrize(
    ("module", "comparison", "arguments"),
    [
        (taylor_green_2d, "compare_taylor_green_2d", ["--cells", "8", "--until", "0.1"]),
        (taylor_green_3d, "compare_taylor_green_3d", ["--cells", "8", "--until", "0.1"]),
        (cylinder, "compared", ["--cells", "25", "10", "--until", "0.02"]),
        (natural_convection, "compared", ["--cells", "4", "--until", "1e-4"]),
    ],
)
def test_a_run_is_saved_before_it_is_compared(
    tmp_path, capsys, monkeypatch, module, comparison, arguments
):
    def fails(*args):
        raise da.UnsupportedError("There is no comparison; go without.")

    monkeypatch.setattr(module, comparison, fails)
    name = module.CASE.name
    assert main([name, *arguments, "--output", str(tmp_path)]) == 2
    assert f"python -m solvers {name}: There is no comparison" in capsys.readouterr().err
    assert (tmp_path / f"{name}.h5").exists()


def test_a_cylinder_says_why_it_is_not_compared(tmp_path, capsys):
    arguments = ["cylinder", "--cells", "25", "10", "--output", str(tmp_path)]

    def said(*options):
        assert main([*arguments, *options]) == 0
        return re.search("No comparison: .*", capsys.readouterr().out)[0]

    assert said("--reynolds", "50", "--until", "0.02").endswith("20 and 100, not of 50.")
    shedding = ("--reynolds", "100", "--until")
    first = said(*shedding, "0.04", "--every", "1")
    restart = ("--restart", str(max(tmp_path.glob("step-*.h5"))))
    again = said(*shedding, "0.2", *restart)
    begins = [
        float(re.search("since the step to time ([0-9.]+),", text)[1]) for text in (first, again)
    ]
    assert begins[0] < 0.04 < begins[1] < 0.2
    assert "no step was made" in said(*shedding, "0.04", *restart)


def test_a_channel_that_is_not_steady_is_not_judged(tmp_path, capsys):
    arguments = ["channel", "--cells", "2", "8", "--until", "0.1", "--output", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Not steady at time 0.1" in out
    assert "missed" not in out


def test_taylor_green_2d_has_two_axes(tmp_path, capsys):
    assert main(["taylor_green_2d", "--cells", "8", "8", "8", "--output", str(tmp_path)]) == 2
    assert "taylor_green_2d has two axes" in capsys.readouterr().err


def test_a_turbulent_channel_prints_its_balance(tmp_path, capsys):
    arguments = ["channel", "--cells", "8", "8", "6", "--reynolds", "500", "--until", "0.5"]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    assert "total stress at y = -0.9" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["1", "--until", "0.3"], ["1"], ["2"]])
def test_a_cavity_too_coarse_for_centre_lines_is_run_and_written(tmp_path, capsys, more):
    """One cell has no velocity that could change: it is steady at once."""
    assert main(["cavity", "--output", str(tmp_path), "--cells", *more]) == 0
    assert "needs at least 3 cells per axis" in capsys.readouterr().out
    assert (tmp_path / "cavity.h5").exists()


def test_three_cells_are_compared(tmp_path, capsys):
    assert main(["cavity", "--cells", "3", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Against Marchi" in out
    assert "Not steady" not in out


@pytest.mark.parametrize(
    ("until", "residual"), [("1", "not yet measured"), ("5", r"\d\.\de-0[1-4]")]
)
def test_a_comparison_before_the_flow_is_steady_says_so(tmp_path, capsys, until, residual):
    assert main(["cavity", "--cells", "16", "--until", until, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Against Marchi" in out
    assert re.search(
        rf"Not steady at time {until} \(residual {residual}, steady below 1e-05\)", out
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--cells", "8", "--reynolds", "500"], "7500, 10000, not for 500."),
        (["--cells", "4", "4", "4"], "of the square, not of the cube"),
    ],
)
def test_without_a_table_the_reason_is_told(tmp_path, capsys, options, reason):
    assert main(["cavity", *options, "--until", "0.01", "--output", str(tmp_path)]) == 0
    assert reason in capsys.readouterr().out


def test_a_restart_later_than_the_end_is_refused(tmp_path, capsys):
    arguments = ["cavity", "--cells", "8", "--output", str(tmp_path)]
    restart = tmp_path / "cavity.h5"
    assert main([*arguments, "--until", "0.5"]) == 0
    before = restart.read_bytes()
    assert main([*arguments, "--until", "0.25", "--restart", str(restart)]) == 2
    assert "received the end 0.25 for one that begins at time 0.5" in capsys.readouterr().err
    assert restart.read_bytes() == before


REFUSED = [
    (["--reynolds", "0"], "A Reynolds number is above 0, received 0.0"),
    (["--reynolds", "-3"], "A Reynolds number is above 0, received -3.0"),
    (["--restart", "nope.h5"], "The file 'nope.h5' does not exist"),
    (["--tensorboard"], "--tensorboard writes the scalars of outputs, and there are none; give"),
    (["--output", "/proc/nope"], "The folder '/proc/nope' has to take files, received: "),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_refused_is_said_in_one_line(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["cavity", "--cells", "8", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"python -m solvers cavity: {message}")
    assert err.count("\n") == 1


def test_turbulent_vortices_need_three_axes(tmp_path, capsys):
    assert main(["taylor_green_3d", "--cells", "8", "8", "--output", str(tmp_path)]) == 2
    assert "three axes, received cells=(8, 8)" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "message"), REFUSED[1:2])
def test_several_ranks_refuse_together_and_print_once(options, message):
    result = run_ranks("solvers", 3, args=["cavity", "--cells", "8", *options], check=False)
    assert result.returncode == 2, result.report()
    assert result.stderr.count(message) == 1, result.report()
    assert "Traceback" not in result.stderr
    assert "all ranks are ended" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shu_osher", "--cells", "40", "--until", "0.1"], "No comparison: the reference is of"),
        pytest.param(
            ["sedov", "--cells", "24", "--until", "0.2"],
            "similarity solution",
            marks=pytest.mark.slow,
        ),
        (["thacker", "--cells", "24", "--until", "1"], "Thacker"),
        (["dry_dam_break", "--cells", "50"], "Ritter"),
        (["lbm_cavity", "--cells", "8", "--until", "0.2"], "Not steady at time 0.2"),
    ],
)
def test_little_is_claimed_of_few_cells_and_other_times(tmp_path, capsys, arguments, text):
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert text in out
    assert "missed" not in out


@pytest.mark.parametrize("number", range(1, 6))
def test_tubes_of_toro_have_numbers(tmp_path, number):
    arguments = ["toro", "--cells", "8", "--until", "1e-3", "--test", str(number)]
    name = next(name for name in shock_tubes() if name.startswith(f"toro{number}"))
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    assert (tmp_path / f"{name}.h5").exists()


def test_an_unknown_case_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "solvers", "eddy"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "'eddy' is no case; python -m solvers list names all." in done.stderr
