"""Which tests run when `--device` names another device than the CPU, what is checked after each.

With `--device simulated`, `device="auto"` means the simulated device, in this process and in the
jobs that tests start. After each test all work that its streams still hold is done, and a test
during which a race was reported fails, even if something caught the error. Nothing here imports the
code under test.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

DEVICES = ("cpu", "simulated", "cuda")
VARIABLE = "DISTARRAY_DEVICE"

MOST_RANKS = 4  # of the tests in `tests/ranks` on a device, unless asked for more

_PURE = "plans and pure functions: no device takes part"
_HOST = "blocks of host memory that the test makes itself: no device takes part"
_COMPILER = "the C generator and the host's compiler, which serve the CPU only"
_PROCESSES = "launching, failing and ending of processes: no device takes part"
_OWN_DEVICE = "names or makes its device itself; runs without --device"
_BENCH = "compares CPU kernels with a C loop on the CPU"
_POLLS = "the CPU's tiles of a core and the polls between them; on a device streams do this"

#: Files, or `file::function`, that make no sense on a device, with the reason.
NOT_ON_A_DEVICE = {
    "ranks_bits_overlap.py": _POLLS,
    "ranks_comm.py": _HOST,
    "test_backend_cpu.py": _OWN_DEVICE,
    "test_backend_simulated.py": _OWN_DEVICE,
    "test_bench.py": _BENCH,
    "test_boundary_custom.py": _HOST,
    "test_boundary_fill.py": _HOST,
    "test_boundary_mapping.py": _PURE,
    "test_boundary_points.py": _HOST,
    "test_codegen.py": _COMPILER,
    "test_collect.py": _HOST,
    "test_comm_choice.py": _PROCESSES,
    "test_comm_serial.py": _HOST,
    "test_complexmath.py": _PURE,
    "test_cuda_driver.py": _OWN_DEVICE,
    "test_cuda_missing.py": _OWN_DEVICE,
    "test_decomposition.py": _PURE,
    "test_exact.py": _PURE,
    "test_failure.py": _PROCESSES,
    "test_geometry.py": _PURE,
    "test_halo_plan.py": _PURE,
    "test_harness.py": _PROCESSES,
    "test_io_layout.py": _HOST,
    "test_layers.py": _PURE,
    "test_native.py": _COMPILER,
    "test_process_grids.py": _PURE,
    "test_redistribute_plan.py": _PURE,
    "test_reductions_plan.py": _PURE,
    "test_regions.py": _PURE,
    "test_solvers_transforms.py": _PURE,
    "test_spans.py": _PURE,
    "test_stencil_analysis.py": _PURE,
    "test_stencil_errors.py": _PURE,
    "test_stencil_evaluate.py": _PURE,
    "test_stencil_types.py": _PURE,
}

_Function = TypeVar("_Function", bound=Callable[..., object])


def current() -> str:
    """The device that "auto" means in this test run."""
    return os.environ.get(VARIABLE, "cpu")


def reason(file: str | Path, function: str) -> str | None:
    """Why a test function is not run on the current device, or None where it is."""
    if current() == "cpu":
        return None
    name = Path(file).name
    return NOT_ON_A_DEVICE.get(name) or NOT_ON_A_DEVICE.get(f"{name}::{function}")


def functions_left_out(file: str) -> list[tuple[str, str]]:
    """The functions of a file that are left out on the current device, with the reasons."""
    if current() == "cpu":
        return []
    return [(name, why) for name, why in NOT_ON_A_DEVICE.items() if name.startswith(f"{file}::")]


def host(values: Any) -> np.ndarray[Any, Any]:
    """The values of an array of any device, such as `u.local`, as a NumPy array."""
    return np.asarray(values)


def share_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of one device have memory in common."""
    if isinstance(one, np.ndarray):
        return np.shares_memory(one, other)
    return one.access(False).allocation is other.access(False).allocation


def provokes_races(function: _Function) -> _Function:
    """Mark a test function that makes faults on purpose, so that races reported do not fail it."""
    function.provokes_races = True  # type: ignore[attr-defined]
    return function


def finish(function: object = None) -> None:
    """Do what the simulated device has put off; fail if it has reported a race since the last call.

    Raises
    ------
    AssertionError
        With every race that was reported, unless `function` provokes them.
    """
    driver = sys.modules.get("distarray.backends.simulated.driver")
    if driver is None or current() != "simulated":
        return
    races = driver.finish()
    if races and not getattr(function, "provokes_races", False):
        raise AssertionError("\n".join(["The simulated device reported races:", *races]))
