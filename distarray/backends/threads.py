"""Threads of this process: how many kernels use, and on which cores they run.

One, unless more are asked for: a rank for each core needs none, and on cores that others use too,
threads that wait for one another are slower than one. DISTARRAY_THREADS, else OMP_NUM_THREADS, is
their number; DISTARRAY_THREADS=auto gives a rank its share of the cores that it may run on, those
divided by the ranks of its node, so that ranks and threads are never more than cores (one where
nobody says how many ranks the node has). A core with several hardware threads counts once, and a
limit on processor time (Linux control groups) counts.

What is computed does not depend on the number: loops are divided among threads by points, and
reductions into parts that are the same for any number. Where OpenMP is at work already, as in a
loop over tiles that threads share, a kernel uses the thread that calls it.

The threads that OpenMP starts besides the calling one are bound to a core each, if it is known
which belong to this rank; OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY leave that to OpenMP. The
calling thread stays as the launcher bound it, since what it starts would inherit more.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from distarray.errors import BackendError
from distarray.launcher import launched, on_node

#: The variable of a compiled text that holds how many threads it uses.
VARIABLE = "distarray_threads"

_CORES = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_QUOTA = "/sys/fs/cgroup/cpu.max"
_CHOSEN_BY_USER = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")

#: Binds threads but the calling one.
_BIND = """\
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdint.h>

void distarray_bind(const int64_t *processors, int64_t count) {
#pragma omp parallel num_threads((int)count)
  {
    const int number = omp_get_thread_num();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processors[number], &one);
    if (number > 0) sched_setaffinity(0, sizeof one, &one);
  }
}
"""

#: Loaded texts that use several threads, and whether this process was forked from one that has
#: some: there are none of them here, and OpenMP would wait for them.
_several: set[ctypes.CDLL] = set()
_forked = False


def count() -> int:
    """Threads that kernels may use. Local.

    Raises
    ------
    BackendError
        DISTARRAY_THREADS is neither a positive number nor "auto".
    """
    if _forked:
        return 1
    asked = os.environ.get("DISTARRAY_THREADS", "").strip()
    if asked == "auto":
        return max(1, cores() // _ranks_here()) if _ranks_here() else 1
    if not asked:
        first = os.environ.get("OMP_NUM_THREADS", "1").split(",")[0].strip()
        return max(1, int(first)) if first.isdigit() else 1
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    raise BackendError(
        f"The variable DISTARRAY_THREADS must be a positive number or 'auto', not {asked!r}; "
        "correct or unset it."
    )


def cores() -> int:
    """Cores that this process may keep busy. Local."""
    return max(1, min(len(_processors()), _quota()))


def _ranks_here() -> int:
    """Ranks of this node, as far as the launcher's variables say; 0 if they do not."""
    job, here = launched(), on_node()
    if job is None:
        return 1
    return here.size if here is not None and here.size else job.size


@functools.cache
def _siblings(processor: int) -> str:
    with contextlib.suppress(OSError):
        return Path(_CORES.format(processor)).read_text(encoding="utf-8").strip()
    return str(processor)


def _processors() -> list[int]:
    """The first hardware thread of each core that this process may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    first: dict[str, int] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        first.setdefault(_siblings(processor), processor)
    return list(first.values())


@functools.cache
def _quota() -> int:
    """Processors whose time this process and its kind may use up."""
    with contextlib.suppress(OSError, ValueError):
        limit, period = Path(_QUOTA).read_text(encoding="utf-8").split()
        return max(1, int(limit) // int(period))
    return 1 << 20


# ---- compiled texts


def set_count(library: ctypes.CDLL, number: int) -> None:
    """Let a compiled text use so many threads; one that shares no work is left as it is. Local."""
    with contextlib.suppress(ValueError):
        ctypes.c_int.in_dll(library, VARIABLE).value = number
    if number > 1:
        _several.add(library)
        _watch_forks()


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    global _forked  # noqa: PLW0603 - of the process
    _forked = True
    for library in _several:
        set_count(library, 1)


@functools.cache
def bind(number: int, compiled: Callable[[str], ctypes.CDLL]) -> None:
    """Start so many threads and bind them to cores of their own, where those are known; by a text
    that `compiled` makes a library of. Local.
    """
    processors = own_processors(number)
    if not processors or any(os.environ.get(name) for name in _CHOSEN_BY_USER):
        return
    table = np.array(processors, np.int64)
    compiled(_BIND).distarray_bind(ctypes.c_void_p(table.ctypes.data), ctypes.c_int64(number))


def own_processors(number: int) -> Sequence[int]:
    """Where so many threads of this process run, one each; empty if that is not known. Local.

    Ranks that are not bound see all cores of the node and take those one after the other; a rank
    that is bound to as many cores as it has threads takes them all.
    """
    available = _processors()
    if not hasattr(os, "sched_setaffinity") or len(available) < number:
        return ()
    ranks, here = _ranks_here(), on_node()
    if len(available) == number or ranks == 1:
        return available[:number]
    if here is None or not ranks or len(available) < ranks * number:
        return ()
    return available[here.rank * number : (here.rank + 1) * number]
