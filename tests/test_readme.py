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
PROGRAM, TRACER, RUN, PLATE, TEST_PROGRAM = PYTHON
SHELL = [block for block in BLOCKS if block["language"] == "bash"]
SCRIPTS = [block["text"] for block in SHELL if "#SBATCH" in block["text"]]
COMMANDS = [
    line
    for block in SHELL
    if block["ci"] is None and block["text"] not in SCRIPTS
    for line in block["text"].splitlines()
]

#: README's program takes minutes at its own size.
SMALLER = (("(256, 256, 256)", "(12, 16, 20)"), ("steps=1000, r", "steps=10, r"))
CHEAP = {
    # It ends with code 1 where a gate is missed, as small cubes do.
    "python -m distarray bench": "python -m distarray bench --cells 12 --repeat 1 || [ $? = 1 ]",
    "python -m pytest -m slow": "python -m pytest -m slow --collect-only -q",
    "bash .ci/run": "bash -n .ci/run",
    # Gigabytes, and of use only beside a GPU.
    "pip install '.[mpi,cuda13]'": "grep -q '^cuda12 = ' pyproject.toml && "
    "grep -q '^cuda13 = ' pyproject.toml && grep -q '^mpi = ' pyproject.toml",
    "DISTARRAY_DEVICE=cuda python -m distarray doctor": "python -m distarray doctor --no-launch",
    "bash tests/gpu/one_gpu.sh": "bash -n tests/gpu/one_gpu.sh",
}


def smaller(program: str) -> str:
    for old, new in SMALLER:
        assert old in program
        program = program.replace(old, new)
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the programs of README."""
    (tmp_path / "heat.py").write_text(smaller(PROGRAM))
    (tmp_path / "tracer.py").write_text(TRACER)
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "plate.py").write_text(PLATE)
    (tmp_path / "test_mine.py").write_text(TEST_PROGRAM)
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


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command: str, folder: Path) -> None:
    link_python(folder)
    at_root = any(part in command for part in ("tests", ".ci", "-m slow", "pip install"))
    shell(CHEAP.get(command, command), folder, ROOT if at_root else folder)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("heat.py", r"peak 0\.\d+\n"),
        ("tracer.py", r"tracer in the box 0\.\d+\n"),
        ("plate.py", r"\d+ True The relative residual .*rtol=1e-10\.\nwarmest \d\d\.\d+\n"),
    ],
)
def test_programs_print_the_same_on_one_rank_and_on_several(
    program: str, printed: str, folder: Path
) -> None:
    alone = run_serial(folder / program, cwd=folder, timeout=120).stdout
    assert re.fullmatch(printed, alone)
    assert run_ranks(folder / program, 3, cwd=folder, timeout=120).stdout == alone


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
    assert len(PROGRAM.splitlines()) <= 20


@pytest.mark.parametrize("script", SCRIPTS)
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
    assert tests.endswith("python -m pytest\n")


def test_paths_named_exist() -> None:
    for path in re.findall(r"`((?:distarray|tests|solvers|examples)/[\w/.]+)`", TEXT):
        assert (ROOT / path).exists(), path
