"""Threads within a rank: how many, where they run, and that results have the same bits for any
number of them.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distarray.backends import first_touch, native, threads
from distarray.backends.cpu import CpuBackend
from distarray.errors import BackendError
from tests.harness import run_ranks, run_serial
from tests.kernel_cases import Case, parameter
from tests.threads_run import PROBE


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that notes teams of GCC's OpenMP."""
    tools = native.toolchain()
    if tools is None or not tools.openmp:
        pytest.skip("no compiler with OpenMP")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text(PROBE, encoding="utf-8")
    library = folder / "probe.so"
    command = [*tools.command, "-shared", "-fPIC", "-fopenmp", "-o", str(library)]
    subprocess.run([*command, str(folder / "probe.c"), "-ldl"], check=True)
    return library


def found(probe: Path, ranks: int, number: int) -> list[dict[str, Any]]:
    """What each rank prints with so many threads."""
    env = {
        "DISTARRAY_THREADS": str(number),
        "LD_PRELOAD": str(probe),
        "THREADS_PROBE": str(probe),
        "OMP_WAIT_POLICY": "passive",  # there may be more threads than cores
    }
    if ranks == 1:
        result = run_serial("tests.threads_run", env=env, timeout=200)
    else:
        result = run_ranks("tests.threads_run", ranks, env=env, timeout=200)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return sorted(lines, key=lambda line: line["rank"])


def agree(probe: Path, ranks: int, numbers: tuple[int, ...]) -> None:
    alone = found(probe, ranks, 1)
    assert len(alone) == ranks
    for line in alone:
        assert (line["team"], line["shared"]) == (0, [])
    for number in numbers:
        several = found(probe, ranks, number)
        assert [line["digests"] for line in several] == [line["digests"] for line in alone]
        for line in several:
            assert line["team"] == number
            assert line["shared"] == list(line["digests"])


@pytest.mark.slow
def test_bits_do_not_depend_on_threads(probe: Path) -> None:
    agree(probe, 1, (3,))


def test_bits_do_not_depend_on_threads_of_ranks(probe: Path) -> None:
    agree(probe, 2, (2,))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bits_do_not_depend_on_any_number_of_threads(probe: Path, ranks: int) -> None:
    agree(probe, ranks, (2, 3, 4, 7))


# ---- how many, and where


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a test say what this process may run on, and which rank it is."""
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI", "MPI_LOCAL", "SLURM_")) or name in (
            "DISTARRAY_THREADS",
            "OMP_NUM_THREADS",
        ):
            monkeypatch.delenv(name)

    def arrange(processors: set[int], rank: int = 0, ranks: int = 1, of_node: bool = True) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors, raising=False)
        # Hardware threads 2 n and 2 n + 1 make up core n.
        monkeypatch.setattr(threads, "_siblings", lambda processor: str(processor // 2))
        monkeypatch.setattr(threads, "_quota", lambda: 1 << 20)
        if ranks > 1:
            monkeypatch.setenv("PMI_RANK", str(rank))
            monkeypatch.setenv("PMI_SIZE", str(ranks))
        if ranks > 1 and of_node:
            monkeypatch.setenv("MPI_LOCALRANKID", str(rank))
            monkeypatch.setenv("MPI_LOCALNRANKS", str(ranks))

    return arrange


@pytest.mark.parametrize(
    ("asked", "openmp", "number"),
    [
        (None, None, 1),
        (None, "4", 4),
        (None, "2,2", 2),
        (None, "x", 1),
        (None, "0", 1),
        ("3", "4", 3),
        ("auto", "4", 8),
        (" ", "4", 4),
    ],
)
def test_the_number_is_the_one_asked_for(
    asked: str | None, openmp: str | None, number: int, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(set(range(16)))
    for name, value in (("DISTARRAY_THREADS", asked), ("OMP_NUM_THREADS", openmp)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert threads.count() == number


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "1.5"])
def test_another_number_is_an_error(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_THREADS", wrong)
    with pytest.raises(BackendError, match=rf"must be a positive number or 'auto', not '{wrong}'"):
        threads.count()


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("of_node", [True, False])
def test_ranks_and_threads_are_never_more_than_cores(
    ranks: int, of_node: bool, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(set(range(16)), 0, ranks, of_node)
    monkeypatch.setenv("DISTARRAY_THREADS", "auto")
    assert threads.count() == max(1, 8 // ranks)


def test_a_limit_on_processor_time_counts(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    node(set(range(16)))
    monkeypatch.setenv("DISTARRAY_THREADS", "auto")
    monkeypatch.setattr(threads, "_quota", lambda: 3)
    assert threads.count() == threads.cores() == 3


def test_a_rank_of_an_unknown_node_has_one_thread(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(set(range(16)))
    monkeypatch.setenv("PMIX_RANK", "1")
    monkeypatch.setenv("DISTARRAY_THREADS", "auto")
    assert threads.count() == 1


def test_ranks_that_share_cores_take_them_one_after_the_other(node: Any) -> None:
    taken: list[int] = []
    for rank in range(4):
        node(set(range(16)), rank, 4)
        taken += threads.own_processors(2)
    assert taken == list(range(0, 16, 2))


def test_a_bound_rank_takes_its_cores(node: Any) -> None:
    node(set(range(8, 16)), 1, 2)
    assert list(threads.own_processors(4)) == [8, 10, 12, 14]


@pytest.mark.parametrize("number", [3, 9])
def test_threads_are_not_bound_where_cores_could_be_taken_twice(number: int, node: Any) -> None:
    node(set(range(16)), 1, 3)
    assert list(threads.own_processors(number)) == []


CHILD = """
import os
import numpy as np
import distarray as da

grid = da.Grid((64, 1024))
u = grid.from_function(lambda x, y: np.sin(x) * y)
new = grid.zeros_like(u)

@da.stencil
def double(u, new):
    new[0, 0] = 2.0 * u[0, 0]

double(u, new)
others = [t for t in os.listdir("/proc/self/task") if int(t) != os.getpid()]
print(len(others) > 0)
child = os.fork()
if child == 0:
    double(new, u)  # would wait for threads that are not there
    os._exit(int(not np.array_equal(u.local, 2.0 * new.local)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@functools.cache
def openmp() -> bool:
    tools = native.toolchain()
    return tools is not None and tools.openmp


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_goes_on_with_one_thread(tmp_path: Path) -> None:
    script = tmp_path / "fork.py"
    script.write_text(CHILD, encoding="utf-8")
    env = {"DISTARRAY_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    assert run_serial(script, env=env).stdout.split() == [str(openmp()), "0"]


def faults() -> dict[int, int]:
    """Pages that each thread of this process was the first to touch, so far."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found[int(task.name)] = int(fields[7])
    return found


def test_memory_is_touched_first_by_those_who_work_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if not openmp() or not Path("/proc/self/task").exists():
        pytest.skip("no threads, or nothing that tells what they do")
    monkeypatch.setenv("DISTARRAY_THREADS", "2")
    first_touch.touch(np.zeros((512, 512)), 0)  # starts the threads
    before = faults()
    # The C library maps so much anew; less may come from what was freed, touched long ago.
    memory = CpuBackend().allocate((2,), (2048, 2048), (0, 0), np.dtype(np.float64))
    new = {task: count - before.get(task, 0) for task, count in faults().items()}
    assert not memory.any()
    pages = memory.nbytes // 4096
    others = sum(count for task, count in new.items() if task != os.getpid())
    # Large pages are touched once for many.
    assert others > 0
    assert others <= 0.6 * pages


# ---- kernels within OpenMP

DRIVER = """
#include <omp.h>
#include <stdint.h>
typedef void kernel(void *const *, const int64_t *, const void *, const int64_t *, void *const *);
void drive(kernel *call, void *const *memory, const int64_t *layout, const void *scalars,
           const int64_t *boxes, int64_t length, int64_t *teams) {
#pragma omp parallel for num_threads(2)
  for (int64_t n = 0; n < 2; n++) {
    call(memory, layout, scalars, boxes + n * length, 0);
    teams[n] = omp_get_num_threads();
  }
}
"""


def diffused(u: Any, new: Any) -> None:
    """Plain loops."""
    new[0, 0] = u[0, 0] + 0.1 * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def kept(u: Any, new: Any) -> None:
    """Values that are kept, in a number of chunks that follows the threads."""

    def flux(axis: int, n: int) -> Any:
        a, b = u.shift(axis, n - 1), u.shift(axis, n)
        return np.sqrt(a * a + b * b + 1.0) / (2.0 + abs(a - b)) + a / (1.0 + b * b)

    new[0, 0] = sum(flux(axis, 1) - flux(axis, 0) for axis in range(2))


@pytest.mark.parametrize("function", [kept, diffused])
def test_kernels_that_threads_call_use_the_thread_that_calls(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not openmp():
        pytest.skip("no compiler with OpenMP")
    monkeypatch.setenv("DISTARRAY_THREADS", "2")
    case = Case(function, [parameter("u"), parameter("new")], (260, 300), special=False)
    (_, expected), _ = case.run("compiled", [(case.box,)])
    launch = case.bound("compiled", case.views)
    halves = [case.box.with_axis(0, 0, 130), case.box.with_axis(0, 130, 260)]
    bounds = [[b for pair in zip(box.start, box.stop, strict=True) for b in pair] for box in halves]
    boxes = np.array([[*bound, *launch.box_constants(-1)] for bound in bounds], np.int64)
    teams, scalars = np.zeros(2, np.int64), np.zeros(4)
    native.load(DRIVER, "drive")(
        *map(ctypes.c_void_p, (*launch.addresses, scalars.ctypes.data, boxes.ctypes.data)),
        ctypes.c_int64(boxes.shape[1]),
        ctypes.c_void_p(teams.ctypes.data),
    )
    assert list(teams) == [2, 2]
    np.testing.assert_array_equal(case.views[1].memory, expected)
