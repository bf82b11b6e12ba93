"""The examples, run as users run them, and the accuracy of the cavity."""

import re

import numpy as np
import pytest

from tests.harness import ROOT, run_ranks


def deviations(text):
    found = re.search(r"Largest deviation of u ([\d.]+), of v ([\d.]+)", text)
    assert found, text
    return float(found[1]), float(found[2])


def largest_divergence(text):
    return float(re.search(r"Largest divergence ([\d.e+-]+)", text)[1])


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 8])
def test_cavity_is_within_the_tolerance(tmp_path, n):
    """The main job: 64^2, Re = 100, on any number of ranks, against Marchi et al."""
    pytest.importorskip("matplotlib")
    done = run_ranks("examples/cavity.py", n, args=["--output", str(tmp_path / "out")], timeout=240)
    assert max(deviations(done.stdout)) <= 0.006
    assert largest_divergence(done.stdout) < 1e-12
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(r"step +\d+ +time .* dt .* residual .* cells/s +ETA 0 s", last), done.stderr
    assert float(re.search(r"residual ([\d.e+-]+)", last)[1]) < 1e-5
    assert (tmp_path / "out" / "cavity.h5").read_bytes().startswith(b"\x89HDF")
    assert (tmp_path / "out" / "cavity.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("reynolds", "tolerance"), [(100, 0.0015), (1000, 0.03)])
def test_finer_cavity_is_within_the_tolerance(tmp_path, reynolds, tolerance):
    args = ["--cells", "128", "128", "--reynolds", str(reynolds), "--output", str(tmp_path)]
    done = run_ranks("examples/cavity.py", 2, args=args, timeout=540)
    assert max(deviations(done.stdout)) <= tolerance
    assert largest_divergence(done.stdout) < 1e-12


@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_heat_decays_as_the_discrete_operator_says(tmp_path, n):
    done = run_ranks(ROOT / "examples" / "heat.py", n, cwd=tmp_path)
    peak = float(re.search(r"peak ([\d.e+-]+)", done.stdout)[1])
    # Each of the two waves loses the share 4 r sin^2(pi / n) of itself in a step.
    factor = (1.0 - 2 * 0.1 * 4.0 * np.sin(np.pi / 64) ** 2) ** 1000
    x = (np.arange(64) + 0.5) / 64
    start = np.max(np.sin(2 * np.pi * x)) * np.max(np.cos(2 * np.pi * x))
    assert peak == pytest.approx(start * factor, rel=1e-10)
    assert (tmp_path / "heat.h5").read_bytes().startswith(b"\x89HDF")
