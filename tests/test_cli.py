"""The command line: what it prints and its exit codes, alone and on several ranks."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

from distarray import cli, doctor
from distarray.backends import nvidia
from distarray.programs import Parser
from tests.harness import RanksResult, run_ranks, run_serial


def alone(*args: str, code: int = 0, **env: str) -> RanksResult:
    result = run_serial("distarray", args=args, env=env, timeout=120, check=False)
    assert result.returncode == code, result.report()
    return result


def test_doctor_reports_a_healthy_machine() -> None:
    result = alone("doctor")
    subjects = re.findall(r"^ok   (\w[\w -]{0,9}\S)  ", result.stdout, re.MULTILINE)
    for subject in ("python", "numpy", "mpi4py", "h5py", "MPI", "cache", "mpirun", "self-test"):
        assert subject in [name.strip() for name in subjects], result.stdout
    assert "FAIL" not in result.stdout
    assert "kernels, halos and sums are right on 1 rank\n" in result.stdout


def test_doctor_tests_the_ranks_of_its_job_and_prints_once() -> None:
    result = run_ranks("distarray", 3, args=["doctor"], timeout=120)
    assert result.stdout.count("self-test") == 1
    assert "kernels, halos and sums are right on 3 ranks\n" in result.stdout
    assert "mpirun" not in re.findall(r"^\w+ +(\S+)", result.stdout, re.MULTILINE)


def test_doctor_can_leave_mpirun_alone() -> None:
    assert "mpirun" not in alone("doctor", "--no-launch").stdout


def test_doctor_fails_on_a_cache_that_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    result = alone("doctor", "--no-launch", code=1, DISTARRAY_CACHE=str(tmp_path))
    assert re.search(r"^FAIL +cache +.*writable by others", result.stdout, re.MULTILINE)


def test_doctor_notes_that_kernels_run_as_numpy() -> None:
    result = alone("doctor", "--no-launch", DISTARRAY_EXECUTOR="numpy")
    assert "note compiler" in result.stdout
    assert "self-test  kernels, halos and sums are right" in result.stdout


def test_doctor_fails_without_a_working_mpirun(tmp_path: Path, monkeypatch: object) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(
        "#!/bin/sh\necho 'mpirun has detected an attempt to run as root.'\nexit 1\n"
    )
    launcher.chmod(0o755)
    assert isinstance(monkeypatch, pytest.MonkeyPatch)
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    fail, cure = list(doctor.launcher())
    assert (fail.state, fail.subject) == ("FAIL", "mpirun")
    assert "run as root" in fail.text
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in cure.text


def test_a_missing_package_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == "h5py" else "1")
    found = {finding.subject: finding for finding in doctor.packages()}
    assert str(found["h5py"]) == "FAIL h5py       is not installed; pip install h5py."
    assert found["numpy"].state == "ok"


def test_two_mpi_wheels_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", lambda name: "5.0")
    first = next(doctor.mpi())
    assert first.state == "FAIL"
    assert "pip uninstall all but one" in first.text


def test_a_library_that_cannot_be_loaded_is_told_by_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MPI4PY_LIBMPI", "/nowhere/libmpi.so")
    *_, last = doctor.mpi()
    assert last.state == "FAIL"
    assert "raise " not in last.text
    assert last.text.startswith("cannot be loaded: ")
    assert last.text.endswith("; install the extra mpi (in a clone: pip install '.[mpi]').")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "no output"),
        ("first\nSomeError: second\nthird", "SomeError: second"),
        ("--- mpirun as root ---\nSomeError", "mpirun as root"),
        (
            "noise\nTraceback (most recent call last):\n"
            '  File "/root/a.py", line 1, in f\n    raise RuntimeError(text)\n'
            "RuntimeError: no library\nlibmpi.so: is missing\n------\nprterun: root\n",
            "libmpi.so: is missing",
        ),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1\nSomeError: second\n'
            "Abort(1) on node 0: application called MPI_Abort(MPI_COMM_WORLD, 1)\n",
            "SomeError: second",
        ),
    ],
)
def test_the_telling_line_of_a_failure(output: str, line: str) -> None:
    assert doctor.telling_line(output) == line


def test_more_ranks_than_cores_is_a_note() -> None:
    cores = doctor.available_cores()
    assert cores <= (os.cpu_count() or 1)
    assert next(doctor.processor(cores + 1)).state == "note"


def found(*machine: object, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the doctor says of GPUs where the driver reports this."""
    monkeypatch.setattr(nvidia, "look", lambda: nvidia.DriverReport(*machine))  # type: ignore[arg-type]
    return [str(finding) for finding in doctor.gpus()]


def test_a_machine_without_gpus_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = "device='cuda' needs a GPU, and there is no driver (x, y); install it or use 'cpu'."
    lines = found(0, (0, 0), problem, monkeypatch=monkeypatch)
    assert lines == ["ok   GPUs       none: there is no driver (x, y)"]


def test_gpus_without_cupy_are_a_note_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.cuda, "available", lambda: (False, "install 'distarray[cuda13]'."))
    gpus, cupy, mpi = found(4, (13, 1), monkeypatch=monkeypatch)
    assert gpus == "ok   GPUs       4 for this process, driver for CUDA 13.1"
    assert cupy == "note CuPy       install 'distarray[cuda13]'."
    assert re.match("ok   GPU to MPI .*(?:device memory|says)", mpi)


def test_gpus_with_cupy_show_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.cuda, "available", lambda: (True, ""))
    versions = {"cupy-cuda12x": "14.2.0"}
    monkeypatch.setattr(doctor, "installed_version", versions.get)
    assert found(1, (12, 8), monkeypatch=monkeypatch)[1] == "ok   CuPy       cupy-cuda12x 14.2.0"


def test_the_device_and_the_transport_are_named() -> None:
    result = run_ranks(
        "distarray", 2, args=["doctor"], env={"DISTARRAY_DEVICE": "simulated"}, timeout=120
    )
    assert "ok   device     simulated\nok   transport  staged\n" in result.stdout
    assert "kernels, halos and sums are right on 2 ranks\n" in result.stdout
    result = run_serial(
        "distarray", args=["doctor", "--no-launch"], env={"DISTARRAY_DEVICE": "cpu"}
    )
    assert "ok   device     cpu\nok   self-test" in result.stdout


def test_a_device_that_does_not_work_fails() -> None:
    result = alone("doctor", "--no-launch", code=1, DISTARRAY_DEVICE="gpu")
    assert "FAIL device     DISTARRAY_DEVICE=gpu is unknown; use" in result.stdout
    assert "FAIL self-test" in result.stdout


def test_mpirun_is_not_blamed_for_a_device() -> None:
    result = alone("doctor", code=1, DISTARRAY_DEVICE="gpu")
    assert re.search(r"^ok   mpirun .*: the ranks see one another$", result.stdout, re.MULTILINE)
    assert re.search(
        r"^FAIL self-test .*DISTARRAY_DEVICE=gpu is unknown; .* \(2 ranks\)$",
        result.stdout,
        re.MULTILINE,
    )


@pytest.mark.parametrize("n", [0, 3])
def test_unknown_command_is_an_error_printed_once(n: int) -> None:
    if n:
        result = run_ranks("distarray", n, args=["docter"], check=False)
    else:
        result = alone("docter", code=2)
    assert result.returncode == 2
    told = "'docter' is no command; did you mean 'doctor'? Use one of those below."
    assert result.stderr.count(told) == 1
    assert result.stdout == ""


def test_no_command_prints_the_usage() -> None:
    assert "usage: python -m distarray COMMAND" in alone(code=2).stderr
    assert "usage: python -m distarray COMMAND" in alone("--help").stdout


def test_unknown_option_is_an_error() -> None:
    assert "unrecognized arguments: --fast" in alone("doctor", "--fast", code=2).stderr


@pytest.mark.parametrize(
    ("module", "arguments", "told"),
    [
        ("solvers", "cavty", "'cavty' is no case; did you mean 'cavity'? python -m solvers list"),
        ("solvers", "nosuch", "'nosuch' is no case; python -m solvers list names all."),
        ("solvers", "cavity --celsl 3", "unrecognized arguments: --celsl 3; did you mean --cells?"),
        (
            "solvers",
            "cavity --advection upwnd",
            "'upwnd' is no choice; did you mean 'upwind'? ",
        ),
        ("solvers", "cavity --every 0 --until abc", "argument --until: invalid float value: 'abc'"),
        ("solvers", "poisson --until 3", "unrecognized arguments: --until 3\n"),
        ("distarray", "model --rotates x", "unrecognized arguments: --rotates x; did you mean --r"),
        ("distarray", "tune --apply tiles", "'tiles' is no choice; did you mean 'tile'?"),
    ],
)
def test_a_wrong_command_line_is_told_once(module: str, arguments: str, told: str) -> None:
    result = run_ranks(module, 2, args=arguments.split(), check=False)
    assert result.returncode == 2, result.report()
    assert result.stderr.count(told) == result.stderr.count("usage: ") == 1, result.report()
    assert "Traceback" not in result.stderr
    assert "all ranks are ended" not in result.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_help_of_a_command_is_for_users(name: str) -> None:
    module = importlib.import_module(cli.COMMANDS[name][0])
    parser = Parser(prog=name, description=module.__doc__)
    module.configure(parser)
    assert [action.dest for action in parser._actions if not action.help] == []
    assert len(parser.description or "") < 800
    assert "    " not in (parser.description or "")  # a table would be filled as a paragraph


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("distarray", ["model", "--validate", "--help"]), ("solvers", ["cavity", "--help"])],
)
def test_help_is_printed_once(module: str, arguments: list[str]) -> None:
    assert run_ranks(module, 2, args=arguments).stdout.count("usage: ") == 1


def test_a_simulated_device_without_a_compiler_is_a_note() -> None:
    lines = alone("doctor", "--no-launch", DISTARRAY_DEVICE="simulated").stdout.splitlines()
    assert "ok   device     simulated" in lines
    settings = {"DISTARRAY_DEVICE": "simulated", "DISTARRAY_EXECUTOR": "numpy"}
    lines = alone("doctor", "--no-launch", **settings).stdout.splitlines()
    text = "simulated; no C++ compiler is used: NumPy runs in place of CUDA text"
    assert f"note device     {text}" in lines
