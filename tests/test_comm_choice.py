"""Which communicator is taken without being told, from what the environment says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distarray import comm
from distarray.errors import CommunicationError
from distarray.launcher import Launched, child_environment, launched
from tests.harness import OPEN_MPI, ROOT, clean_environment, run_ranks

SHOW = """
import sys
from distarray import comm
from distarray.errors import CommunicationError
try:
    print(comm.default(), "mpi4py.MPI" in sys.modules)
except CommunicationError as error:
    print("CommunicationError:", error)
"""


def show(program: str = SHOW, **variables: str) -> str:
    """What one process prints that no launcher started."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment() | OPEN_MPI | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


ALONE = "SerialCommunicator(rank=0, size=1) False"


def test_a_plain_process_is_alone_and_loads_no_mpi():
    assert show() == ALONE


def test_a_slurm_batch_script_is_alone():
    assert show(SLURM_PROCID="0", SLURM_NTASKS="4") == ALONE


def test_the_world_can_be_asked_for():
    assert show(DISTARRAY_COMM="world") == "MpiCommunicator(rank=0, size=1) True"


def test_an_initialised_mpi_is_used():
    program = "from mpi4py import MPI\n" + SHOW
    assert show(program) == "MpiCommunicator(rank=0, size=1) True"
    assert show(program, DISTARRAY_COMM="serial").startswith("SerialCommunicator")


def test_a_loaded_mpi_that_is_not_initialised_is_not_used():
    program = "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\n" + SHOW
    assert show(program).startswith("SerialCommunicator")


def test_another_word_is_refused():
    assert show(DISTARRAY_COMM="none") == (
        "CommunicationError: The variable DISTARRAY_COMM must be 'serial', 'world' or unset, "
        "not 'none'; correct or unset it."
    )


def test_ranks_may_be_told_to_be_alone(tmp_path):
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    result = run_ranks(script, 2, env={"DISTARRAY_COMM": "serial"})
    assert result.stdout.splitlines() == [ALONE] * 2


def test_ranks_of_a_launcher_are_the_world(tmp_path):
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    result = run_ranks(script, 2)
    assert sorted(result.stdout.splitlines()) == [
        "MpiCommunicator(rank=0, size=2) True",
        "MpiCommunicator(rank=1, size=2) True",
    ]


def test_a_missing_mpi4py_is_an_error_with_the_cure():
    text = show("import sys\nsys.modules['mpi4py'] = None\n" + SHOW, DISTARRAY_COMM="world")
    assert text.startswith(
        "CommunicationError: MPI is needed to run on several ranks but mpi4py cannot be loaded ("
    )
    assert text.endswith("or set DISTARRAY_COMM=serial to run on one rank.")


def test_a_launcher_of_another_mpi_is_an_error_with_the_cure():
    library = show(
        "import mpi4py\nmpi4py.rc.initialize = False\n"
        "from mpi4py import MPI\nprint(MPI.Get_library_version())"
    )
    foreign = {"PMI_RANK": "0", "PMI_SIZE": "3"}
    if not library.startswith("Open MPI"):
        foreign = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}
    text = show(**foreign)
    size = next(f"{name}=3" for name in foreign if name.endswith("SIZE"))
    assert text.startswith(
        f"CommunicationError: The launcher started 3 ranks ({size}), but the MPI library that "
        "mpi4py loads, "
    )
    assert "two MPI installations are mixed; start the program with " in text
    assert show(DISTARRAY_COMM="serial", **foreign) == ALONE


def test_a_value_that_is_no_communicator_is_refused():
    with pytest.raises(
        CommunicationError,
        match=r"^comm must be an mpi4py intracommunicator or None, not 3; "
        r"pass mpi4py\.MPI\.COMM_WORLD, a part of it, or None\.$",
    ):
        comm.default(3)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Launched(1, 4, "PMI_SIZE=4")),
        ({"PMI_RANK": "1"}, Launched(1, 0, "PMI_RANK=1")),
        (
            {"PMIX_RANK": "2", "SLURM_STEP_NUM_TASKS": "8"},
            Launched(2, 8, "SLURM_STEP_NUM_TASKS=8"),
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0"},
            Launched(0, 2, "OMPI_COMM_WORLD_SIZE=2"),
        ),
        ({"PMI_RANK": "none"}, None),
    ],
)
def test_what_launchers_leave_in_the_environment(variables, expected):
    assert launched(variables) == expected


def test_children_do_not_take_themselves_for_ranks():
    kept = {"PATH": "/bin", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_MCA_btl": "self", "HOME": "/"}
    launcher = {
        "PMI_RANK": "0", "PMI_FD": "9", "PMIX_RANK": "0", "PMIX_SERVER_URI41": "x",
        "OMPI_COMM_WORLD_RANK": "0", "PRTE_LAUNCHED": "1", "HYDI_CONTROL_FD": "7",
        "MPI_LOCALRANKID": "0",
    }  # fmt: skip
    assert child_environment(kept | launcher) == kept
