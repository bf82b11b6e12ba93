"""What runs the parts on one GPU, without a GPU: limits, outcomes, figures and gates."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.gpu import benchmark, run
from tests.gpu.run import Part
from tests.harness import ROOT, clean_environment

PYTHON = sys.executable


def says(text, code=0):
    return (PYTHON, "-c", f"import sys; print({text!r}); sys.exit({code})")


def test_parts_fit_their_commands():
    parts = run.parts("cuda", 512)
    assert len({part.name for part in parts}) == len(parts)
    assert [part.name for part in parts if part.optional] == [
        "race, nccl", "2 ranks, nccl", "4 ranks, nccl",
    ]  # fmt: skip
    for part in parts:
        nccl = part.environment.get("NCCL_MULTI_RANK_GPU_ENABLE")
        assert (nccl == "1") == part.optional
    files = {path.stem for path in (ROOT / "tests" / "ranks").glob("ranks_*.py")}
    assert set(run.RANK_FILES) <= files


@pytest.mark.parametrize(("name", "count"), [("2 ranks, staged", 6), ("4 ranks, nccl", 2)])
def test_rank_suites_select_their_files(name, count):
    part = next(part for part in run.parts("simulated", 8) if part.name == name)
    done = subprocess.run(
        [*part.command, "--collect-only"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    n = name[0]
    selected = {line.split("[")[1] for line in done.stdout.splitlines() if "test_ranks[" in line}
    assert selected == {f"{file}-{n}]" for file in run.RANK_FILES[:count]}


def test_only_the_last_parts_run_at_once():
    groups = run.grouped(run.parts("cuda", 512))
    assert [len(group) for group in groups[:-1]] == [1] * (len(groups) - 1)
    assert len(groups[-1]) == 4


def test_outcomes():
    fine = run.carried_out(Part("a", says("3 passed, 1 skipped in 2 s"), 20), 20)
    assert fine["outcome"] == "passed"
    assert fine["counts"] == {"passed": 3, "skipped": 1}
    assert run.carried_out(Part("a", says("x", 1), 20), 20)["outcome"] == "failed"
    refused = says("NCCL_ERROR_INVALID_USAGE", 1)
    assert run.carried_out(Part("a", refused, 20, optional=True), 20)["outcome"] == "refused"
    assert run.carried_out(Part("a", refused, 20), 20)["outcome"] == "failed"
    assert run.carried_out(Part("a", says("x", 1), 20, optional=True), 20)["outcome"] == "failed"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("7 skipped in 1 s", 0, "nothing ran"),
        ("9 deselected in 1 s", 5, "nothing ran"),
        ("1 passed, 7 skipped in 1 s", 0, "passed"),
        ("1 failed, 7 skipped in 1 s", 1, "failed"),
    ],
)
def test_tests_that_did_not_run_have_not_passed(text, code, expected):
    assert run.outcome(Part("a", run.pytest("tests"), 1), code, text) == expected


def without_a_gpu():
    """An environment in which the NVIDIA driver, if there is one, offers nothing."""
    return clean_environment() | {"CUDA_VISIBLE_DEVICES": ""}


def test_without_a_gpu_it_says_why_and_ends_at_once(tmp_path):
    done = subprocess.run(
        ["bash", "tests/gpu/one_gpu.sh", PYTHON, str(tmp_path / "out.json")],
        cwd=ROOT, env=without_a_gpu(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("device='cuda' needs a GPU, and ")
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


HANGS = """
import sys, threading
from tests.gpu import run
sleeps = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
hanging = run.Part("a", ("sh", "-c", '"$@" >' + sys.argv.pop() + "; true", "sh", *sleeps), 500)
run.parts = lambda device, cells: [hanging]
run.missing_gpu = lambda: ""
sys.exit(run.main())
"""


def test_ending_it_ends_its_parts(tmp_path):
    note = tmp_path / "pid"
    process = subprocess.Popen(
        [PYTHON, "-c", HANGS, str(tmp_path / "out.json"), str(note)], cwd=ROOT
    )
    try:
        deadline = time.monotonic() + 120
        while not (note.exists() and note.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(120) == 128 + signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            os.kill(int(note.read_text()), 0)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("optional", "outcome"), [(False, "out of time"), (True, "hung")])
def test_a_part_that_hangs_is_ended(optional, outcome):
    run.heed_interrupts()
    sleeps = ("sh", "-c", "echo begun; exec sleep 600")
    found = run.carried_out(Part("a", sleeps, 3, optional=optional), 20)
    assert found["outcome"] == outcome
    assert "begun" in found["output"]


def test_environment_reaches_the_part():
    code = "import os; print(os.environ['DISTARRAY_TRANSPORT'])"
    part = Part("a", (PYTHON, "-c", code), 20, {"DISTARRAY_TRANSPORT": "staged"})
    assert run.carried_out(part, 20)["output"] == "staged\n"


def test_figures_are_found_and_judged():
    figures = dict.fromkeys(benchmark.GATES, 0.7)
    missed = benchmark.missed(figures)
    assert missed == ["diffuse share of copy is 0.700, at least 0.85 was asked for"]
    text = json.dumps({"figures": figures, "missed": missed})
    found = run.carried_out(Part("figures", says(text), 20), 20)
    assert found["figures"] == figures
    assert found["missed"] == missed
    figures["small step beside its kernel, us"] = 11.0
    assert len(benchmark.missed(figures)) == 2


def test_nothing_is_begun_without_time():
    part = Part("a", says("x"), 20)
    assert run.tried(part, time.monotonic() + 1, False)["outcome"] == "not run: no time left"
    needs = Part("a", says("x"), 20, on_simulated=False)
    assert run.tried(needs, time.monotonic() + 99, True) == {"outcome": "needs a GPU"}


@pytest.mark.parametrize(
    ("outcome", "required", "optional"),
    [
        ("passed", False, False),
        ("needs a GPU", False, False),
        ("failed", True, True),
        ("out of time", True, False),
        ("not run: no time left", True, False),
        ("refused", True, False),
        ("hung", True, False),
        ("nothing ran", True, True),
    ],
)
def test_what_fails_the_whole(outcome, required, optional):
    assert run.failed(Part("a", ("b",), 1), outcome) == required
    assert run.failed(Part("a", ("b",), 1, optional=True), outcome) == optional


def test_the_script_is_a_script():
    subprocess.run(["bash", "-n", ROOT / "tests" / "gpu" / "one_gpu.sh"], check=True)
