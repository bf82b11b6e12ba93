"""Every command of README.md is run: here, or by `.ci/run` where it makes environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import OPEN_MPI, ROOT, clean_environment, mpirun, run_ranks, run_serial

TEXT = (ROOT / "README.md").read_text()
BLOCK = re.compile(
    r"(?:<!-- ci: (?P<ci>.+?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL
)
BLOCKS = [match.groupdict() for match in BLOCK.finditer(TEXT)]
PYTHON = (block["text"] for block in BLOCKS if block["language"] == "python")
NAMES = (
    "heat.py", "tracer.py", "channel.py", "run.py", "plate.py", "heating.py", "traced.py",
    "shot.py", "test_mine.py",
)  # fmt: skip
PROGRAMS = dict(zip(NAMES, PYTHON, strict=True))
SHELL = [block for block in BLOCKS if block["language"] == "bash"]
SCRIPTS = [block["text"] for block in SHELL if "#SBATCH" in block["text"]]
COMMANDS = [
    line
    for block in SHELL
    if block["ci"] is None and block["text"] not in SCRIPTS
    for line in block["text"].splitlines()
]

#: Programs and commands take seconds to minutes, or hours, at their own size.
SMALLER = {
    "heat.py": (("(256, 256, 256)", "(12, 16, 20)"), ("steps=1000, r", "steps=10, r")),
    "channel.py": (("(96, 32)", "(48, 16)"), ("until=1.0", "until=0.1"), ("every=50", "every=2")),
    "run.py": (("(128, 128)", "(12, 16)"),),
    "plate.py": (("(96, 64)", "(24, 16)"),),
    "heating.py": (("(64, 48)", "(16, 12)"),),
    "traced.py": (("(256, 256, 64)", "(16, 16, 8)"),),
}
CHEAP = {
    "mpirun -n 4 python -m solvers cavity --cells 32 32 --until 1 --output cavity-32": (
        "mpirun -n 2 python -m solvers cavity --cells 8 8 --until 1 --output cavity-32"
    ),
    "mpirun -n 2 python -m solvers cavity --cells 32 --until 1 --output run --every 10 "
    "--checkpoint 10 --restart": (
        "mpirun -n 2 python -m solvers cavity --cells 8 --until 1 --output run --every 2 "
        "--checkpoint 5 --restart && test -f run/steps.xdmf"
    ),
    "python -m pytest -s -m slow tests/test_validation_cavity.py tests/test_validation_flows.py": (
        "python -m pytest -s -m slow tests/test_validation_cavity.py "
        "tests/test_validation_flows.py --collect-only -q"
    ),
    "python -m pytest -m slow tests/test_validation_euler.py tests/test_validation_lbm.py": (
        "python -m pytest -m slow tests/test_validation_euler.py tests/test_validation_lbm.py "
        "--collect-only -q"
    ),
    "python -m pytest tests/test_ranks.py -k harness --ranks 5": (
        "python -m pytest tests/test_ranks.py -k harness --ranks 2"
    ),
    "mpirun -n 4 python -m tests.ranks_runner tests/ranks/ranks_testing.py": (
        "mpirun -n 2 python -m tests.ranks_runner tests/ranks/ranks_testing.py wiped"
    ),
    "DISTARRAY_DEVICE=simulated DISTARRAY_TRANSPORT=nccl mpirun -n 4 python heat.py": (
        "DISTARRAY_DEVICE=simulated DISTARRAY_TRANSPORT=nccl mpirun -n 2 python heat.py"
    ),
    "mpirun -n 4 python -m pytest test_mine.py": "mpirun -n 2 python -m pytest test_mine.py",
    "mpirun -n 2 python -m distarray tune --kernel heat --shape 256 256 256 --apply tile grid": (
        "mpirun -n 2 python -m distarray tune --kernel heat --shape 12 12 12 --steps 4 --repeat 1 "
        "--apply tile grid"
    ),
    "python -m distarray model": "python -m distarray model --ranks 1 8",
    "bash .ci/run": "bash -n .ci/run",
    # Gigabytes, and of use only beside a GPU.
    "pip install '.[mpi,cuda13]'": "grep -q '^cuda12 = ' pyproject.toml && "
    "grep -q '^cuda13 = ' pyproject.toml && grep -q '^mpi = ' pyproject.toml",
    "bash tests/gpu/one_gpu.sh": "bash -n tests/gpu/one_gpu.sh",
}
#: Commands that other tests run, and where.
ELSEWHERE = {
    "python heat.py": "test_programs_print_the_same_on_one_rank_and_on_several",
    "mpirun -n 8 python heat.py": "test_programs_print_the_same_on_one_rank_and_on_several",
    "mpirun -n 2 python shot.py": "test_programs_print_the_same_on_one_rank_and_on_several",
    "mpirun -n 2 python run.py": "test_the_run_goes_on_where_it_was_stopped",
    "python -m distarray bench": "tests/test_bench.py",
    "python -m solvers bench": "tests/test_solvers_bench.py",
    "mpirun -n 2 python -m distarray model --validate": "tests/ranks/ranks_model.py",
    "DISTARRAY_DEVICE=cuda python -m distarray doctor": "tests/test_cli.py",
}
#: Commands that do less than others of the same program.
SELDOM = {
    "mpirun -n 4 python -m solvers cavity --cells 32 32 --until 1 --output cavity-32",
    "DISTARRAY_TIMELINE=whole.json mpirun -n 2 python heat.py",
    "python -m pytest -m slow tests/test_validation_euler.py tests/test_validation_lbm.py",
    "python -m pytest -s -m slow tests/test_validation_cavity.py tests/test_validation_flows.py",
    "python -m pytest tests/test_ranks.py -k harness --ranks 5",
}


def smaller(name: str) -> str:
    program = PROGRAMS[name]
    for old, new in SMALLER.get(name, ()):
        assert old in program
        program = program.replace(old, new)
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the programs of README."""
    for name in NAMES:
        (tmp_path / name).write_text(smaller(name))
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """What a shell has after an environment was activated."""
    path = os.pathsep.join([str(folder), str(Path(mpirun()).parent), os.environ["PATH"]])
    return clean_environment() | OPEN_MPI | {"PATH": path, "PYTHONPATH": str(ROOT)}


def shell(command: str, folder: Path, cwd: Path) -> str:
    """What a command prints; it must end with code 0."""
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        env=environment(folder) | {"HOME": str(folder)},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def link_python(folder: Path) -> None:
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python").chmod(0o755)


def test_replaced_commands_are_in_the_text() -> None:
    assert {*CHEAP, *ELSEWHERE, *SELDOM} <= set(COMMANDS)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.slow] if command in SELDOM else [])
        for command in sorted({*COMMANDS} - {*ELSEWHERE})
    ],
)
def test_command_runs(command: str, folder: Path) -> None:
    link_python(folder)
    at_root = any(part in command for part in ("tests", ".ci", "-m slow", "pip install"))
    shell(CHEAP.get(command, command), folder, ROOT if at_root else folder)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("heat.py", r"peak 0\.\d+\n"),
        ("tracer.py", r"tracer in the box 0\.\d+\n"),
        ("channel.py", r"energy 0\.\d+\n"),
        ("plate.py", r"\d+ True The relative residual .*rtol=1e-10\.\nwarmest \d\d\.\d+\n"),
        ("shot.py", r"peaks after( \d+){3} steps\n"),
        ("heating.py", r"warmest( \d\d\.\d+){3}\nconverged True True True\n"),
    ],
)
def test_programs_print_the_same_on_one_rank_and_on_several(
    program: str, printed: str, folder: Path
) -> None:
    alone = run_serial(folder / program, cwd=folder, timeout=120).stdout
    assert re.fullmatch(printed, alone)
    assert run_ranks(folder / program, 2, cwd=folder, timeout=120).stdout == alone


def test_the_run_goes_on_where_it_was_stopped(folder: Path) -> None:
    def started(n: int) -> str:
        return run_ranks(folder / "run.py", n, cwd=folder, timeout=120).stdout

    whole = started(1)
    assert re.fullmatch(r"peak \d\.\d{9,}\n", whole)
    checkpoints = folder / "checkpoints"
    kept = ["checkpoint_0000000900.h5", "checkpoint_0000001000.h5"]
    assert sorted(path.name for path in checkpoints.glob("*.h5")) == kept
    (checkpoints / kept[1]).unlink()
    assert started(2) == whole


def test_the_program_is_as_short_as_it_says() -> None:
    assert len(PROGRAMS["heat.py"].splitlines()) <= 20


@pytest.mark.parametrize(
    "script", [SCRIPTS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SCRIPTS[1:])]
)
def test_slurm_scripts_start_their_ranks(script: str, folder: Path) -> None:
    link_python(folder)
    (folder / "distarray" / "bin").mkdir(parents=True)
    (folder / "distarray" / "bin" / "activate").write_text("")
    srun = folder / "srun"
    without_options = 'while [ "${1#--}" != "$1" ]; do shift; done'
    srun.write_text(f'#!/bin/sh\n{without_options}\nexec "{mpirun()}" -n 2 "$@"\n')
    srun.chmod(0o755)
    before = "module() { echo loading $2; }; export SLURM_CPUS_PER_TASK=1\n"
    script = script.replace("DISTARRAY_DEVICE=cuda", "DISTARRAY_DEVICE=simulated")
    output = shell(before + script, folder, folder)
    assert "loading openmpi" in output
    assert output.count("peak") == 1


def test_lines_for_ci_are_marked_and_there_is_one_of_each() -> None:
    marked = [block["ci"] for block in BLOCKS if block["ci"]]
    assert marked == ["main job", "tests", "simulated device", "developer install", "checks"]
    asked = re.findall(
        r'^ *run_readme_line "(.+)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE
    )
    assert sorted(asked) == sorted(marked)
    for block in BLOCKS:
        assert block["ci"] is None or len(block["text"].splitlines()) == 1


def test_the_lines_to_copy_are_those_promised() -> None:
    main_job, tests = (block["text"] for block in BLOCKS if block["ci"] in ("main job", "tests"))
    assert "pip install '.[mpi,plot]'" in main_job
    assert main_job.endswith("mpirun -n 8 python examples/cavity.py\n")
    assert "python -m pytest -n 2" in tests


def test_paths_named_exist() -> None:
    for path in re.findall(r"`((?:distarray|tests|solvers|examples)/[\w/.]+)`", TEXT):
        assert (ROOT / path).exists(), path
