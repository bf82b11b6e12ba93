"""Which tests run when `--device` names another device than the CPU, what is checked after each.

With `--device simulated`, `device="auto"` means the simulated device, in this process and in the
jobs that tests start. After each test all work that its streams still hold is done, and a test
during which a race was reported fails, even if something caught the error. Nothing here imports the
code under test.
"""

from __future__ import annotations

import fnmatch
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
_FILES = "what a crash leaves of files: no device takes part"
_OWN_DEVICE = "names or makes its device itself; runs without --device"
_BENCH = "compares CPU kernels with a C loop on the CPU"
_POLLS = "the CPU's tiles of a core and the polls between them; on a device streams do this"
_TILES = "the CPU's tiles of several steps; a device is given graphs of steps instead"

#: Files (patterns), or `file::function`, that make no sense on a device, with the reason.
NOT_ON_A_DEVICE = {
    "ranks_bench.py": _BENCH,
    "ranks_bits_overlap.py": _POLLS,
    "ranks_comm.py": _HOST,
    "ranks_device_*.py": _OWN_DEVICE,
    "ranks_io_tiles.py::test_files_take_little_memory": "it counts the memory of the host, which "
    "on the simulated device holds that of the device too",
    "ranks_points_in_tiles.py": _TILES,
    "ranks_shared.py": _HOST,
    "ranks_simulated_*.py": _OWN_DEVICE,
    "ranks_tiling*.py": _TILES,
    "ranks_timeline.py::test_a_report_of_tiles_has_messages_and_bytes_for_each_step": _TILES,
    "ranks_timeline.py::test_ranges_of_a_profiler_nest_and_the_exchange_overlaps_the_core": (
        "writes down the order of the CPU's work"
    ),
    "ranks_transports*.py": _OWN_DEVICE,
    "test_backend_*.py": _OWN_DEVICE,
    "test_bench.py": _BENCH,
    "test_boundary_mapping.py": _PURE,
    "test_c_text.py": _COMPILER,
    "test_codegen*.py": _COMPILER,
    "test_collect.py": _HOST,
    "test_comm_choice.py": _PROCESSES,
    "test_comm_serial.py": _HOST,
    "test_complexmath.py": _PURE,
    "test_cuda_*.py": _OWN_DEVICE,
    "test_decomposition.py": _PURE,
    "test_device_*.py": _OWN_DEVICE,
    "test_exact.py": _PURE,
    "test_failure.py": _PROCESSES,
    "test_fft.py::test_transforms_run_again_without_new_memory": "it counts the memory of the host",
    "test_geometry.py": _PURE,
    "test_gpu_run.py": _OWN_DEVICE,
    "test_halo_plan.py": _PURE,
    "test_harness.py": _PROCESSES,
    "test_io_layout.py": _HOST,
    "test_io_tiles.py": _PURE,
    "test_kills.py": _PROCESSES,
    "test_layers.py": _PURE,
    "test_native.py": _COMPILER,
    "test_preemption.py": _PROCESSES,
    "test_process_grids.py": _PURE,
    "test_readme.py::test_command_runs": "commands that name their device, or test it",
    "test_redistribute_plan.py": _PURE,
    "test_reductions_plan.py": _PURE,
    "test_regions.py": _PURE,
    "test_replay.py": _FILES,
    "test_signals.py": _PROCESSES,
    "test_simd.py": _COMPILER,
    "test_simulated*.py": _OWN_DEVICE,
    "test_spans.py": _PURE,
    "test_threads.py": "threads of the CPU",
    "test_tiling.py": _TILES,
    "test_timeline.py::test_a_report_counts_the_steps_of_tiles_and_colours": _TILES,
    "test_tune.py": _OWN_DEVICE,
    "test_stencil_analysis.py": _PURE,
    "test_stencil_errors*.py": _PURE,
    "test_stencil_evaluate.py": _PURE,
    "test_stencil_types.py": _PURE,
    "test_transports*.py": _OWN_DEVICE,
}

#: The same, for GPUs alone.
NOT_ON_CUDA = {
    "test_failure_programs.py::test_a_compiler_that_fails_on_one_rank": "a compiler of the host",
}

#: And for the simulated device alone.
NOT_SIMULATED = {
    "test_examples.py": "the examples at their own size take minutes there",
    "test_solvers_incompressible.py::test_a_first_order_scheme_fails_the_order_test": (
        "shows that a test is sharp, whatever the device, and takes a minute there"
    ),
}

#: Files whose tests run on the simulated device with `-m "not slow"` alone: flows and their parts
#: call kernels, sums and exchanges as the other files do, and what they compute is tested on the
#: CPU, whose bits those of `ranks_*.py` compare with the simulated device's in every run.
SELDOM_SIMULATED = (
    "ranks_errors_*.py",
    "ranks_io_*.py",
    "ranks_series.py",
    *(
        f"ranks_{name}.py"
        for name in (
            "advection", "burgers", "diffusion", "euler", "hyperbolic", "lbm", "shallow_water",
            "solvers_fft_poisson", "solvers_multigrid", "solvers_options", "solvers_parts", "wave",
        )
    ),
    "test_cli.py",
    "test_io_damage.py",
    "test_readme.py",
    *(
        f"test_solvers_{name}.py"
        for name in (
            "*_costs", "*_errors", "*_failures", "*_kept", "*_singular", "burgers", "diffusion",
            "euler", "flows", "hyperbolic", "immersed", "incompressible", "lbm*", "reference",
            "shallow_water*", "sides", "wave*",
        )
    ),
    "test_validation_*.py",
    "test_view.py",
)  # fmt: skip

#: Files that make faults on purpose, with devices of their own.
PROVOKING_RACES = "test_simulated*.py"

_Function = TypeVar("_Function", bound=Callable[..., object])


def current() -> str:
    """The device that "auto" means in this test run."""
    return os.environ.get(VARIABLE, "cpu")


def reason(file: str | Path, function: str) -> str | None:
    """Why a test function is not run on the current device, or None where it is."""
    name = Path(file).name
    for pattern, why in _left_out().items():
        if fnmatch.fnmatch(name, pattern) or pattern == f"{name}::{function}":
            return why
    return None


def seldom(file: str) -> bool:
    """Whether a file's tests add little on the current device to those of other files."""
    return current() == "simulated" and any(
        fnmatch.fnmatch(file, pattern) for pattern in SELDOM_SIMULATED
    )


def functions_left_out(file: str) -> list[tuple[str, str]]:
    """The functions of a file that are left out on the current device, with the reasons."""
    return [(name, why) for name, why in _left_out().items() if name.startswith(f"{file}::")]


def _left_out() -> dict[str, str]:
    return {
        "cpu": {},
        "cuda": NOT_ON_A_DEVICE | NOT_ON_CUDA,
        "simulated": NOT_ON_A_DEVICE | NOT_SIMULATED,
    }[current()]


def host(values: Any) -> np.ndarray[Any, Any]:
    """The values of an array of any device, such as `u.local`, as a NumPy array."""
    return np.asarray(values)


def share_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of one device have memory in common."""
    if isinstance(one, np.ndarray):
        return np.shares_memory(one, other)
    return owner(one) is owner(other)


def owner(array: Any) -> Any:
    """What holds the bytes of an array."""
    if not isinstance(array, np.ndarray):
        return array.allocation
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def provokes_races(function: _Function) -> _Function:
    """Mark a test function that makes faults on purpose, so that races reported do not fail it."""
    function.provokes_races = True  # type: ignore[attr-defined]
    return function


def finish(function: Callable[..., object] | None = None) -> None:
    """Do what simulated devices have put off; fail if they have reported a race since the last
    call.

    Raises
    ------
    AssertionError
        With every race that was reported, unless `function` provokes them.
    """
    driver = sys.modules.get("distarray.backends.simulated.driver")
    races = driver.finish() if driver is not None else []
    if races and not _provokes(function):
        raise AssertionError("\n".join(["The simulated device reported races:", *races]))


def _provokes(function: Callable[..., object] | None) -> bool:
    code = getattr(function, "__code__", None)
    name = Path(code.co_filename).name if code else ""
    return hasattr(function, "provokes_races") or fnmatch.fnmatch(name, PROVOKING_RACES)
