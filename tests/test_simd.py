"""The innermost loops of the kernels of solvers are SIMD code: GCC says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import distarray as da
from distarray.stencil import codegen
from tests.cuda_texts import header
from tests.harness import ROOT, clean_environment
from tests.kernel_cases import parameter
from tests.simd_report import RowLoop, row_loops
from tests.stencil_tools import traced

#: Kernels some loops of which are not SIMD code, and why.
EXCEPTIONS = {
    "kernel_link": "finds the links to a body, in integers of two widths, once before all steps",
    "kernel_probe": "remainders of 64-bit integers by 11, for which processors have no vectors; "
    "once for each operator",
    "kernel_multigrid_prolong": "reads single precision from a coarser grid, for which GCC has no "
    "vectors without the processor's gather instructions",
}


def excepted(symbol: str, loop: RowLoop) -> bool:
    """Whether a loop need not be SIMD code.

    What calls powers, logarithms and their kind, as the exact Riemann solver does, cannot be: the C
    library has them for one number at a time, to the last bit.
    """
    return loop.calls_library or any(symbol.startswith(name) for name in EXCEPTIONS)


def recorded(folder: Path, *command: str, **changes: str) -> list[Path]:
    """The C texts that a program leaves."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**clean_environment(), "DISTARRAY_RECORD_KERNELS": str(folder), **changes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return sorted(folder.glob("*.c"))


def slow_loops(path: Path) -> Iterator[str]:
    """What should be SIMD code in a text and is none."""
    symbol, fast = header(path)
    for loop in row_loops(path.read_text(encoding="utf-8"), fast=fast):
        if not loop.simd and not excepted(symbol, loop):
            yield f"{path.name}, {symbol}:\n{loop}"


def judged(paths: list[Path]) -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return [
            line for lines in pool.map(lambda path: [*slow_loops(path)], paths) for line in lines
        ]


def of_solvers(tmp_path: Path, which: str) -> list[Path]:
    arguments = ("tests.simd_kernels", str(tmp_path / "out"), which)
    return recorded(tmp_path / "texts", *arguments, DISTARRAY_EXECUTOR="numpy")


def test_a_sample_of_the_kernels_of_solvers_is_simd_code(tmp_path: Path) -> None:
    paths = of_solvers(tmp_path, "sample")
    assert len(paths) > 10
    assert judged(paths) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kernels_of_all_schemes_are_simd_code(tmp_path: Path) -> None:
    paths = of_solvers(tmp_path, "others")
    assert len(paths) > 100
    assert judged(paths) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kernels_of_the_tests_of_solvers_are_simd_code(tmp_path: Path) -> None:
    """All that the quick tests compile, but for what some of them define themselves."""
    files = sorted(str(path) for path in (ROOT / "tests").glob("test_solvers_*.py"))
    paths = recorded(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", *files)
    own = ("kernel_hpcg", "kernel_relax", "kernel_stretch")
    chosen = [path for path in paths if header(path)[0] not in own]
    assert len(chosen) > 500
    assert judged(chosen) == []


def of_two_grids(coarse: Any, new: Any) -> None:
    """Odd cells take a value, even ones a mean."""
    read = coarse.coarse
    odd = da.index(1) % 2 == 1
    new[0, 0] = da.where(odd, read[0, 0], 0.5 * (read[0, 0] + read[0, 1]))


def of_a_choice_for_all(x: Any, p: Any, r: Any, new: Any, *, a: Any, b: Any) -> None:
    """Two scalars that may be zero."""
    for part in range(2):
        moved = da.where(abs(a) > 0.0, a * p[part][0, 0], 0.0)
        corrected = da.where(abs(b) > 0.0, b * r[part][0, 0], 0.0)
        new[part][0, 0] = x[part][0, 0] + (moved + corrected)


@pytest.mark.parametrize("function", [of_two_grids, of_a_choice_for_all])
def test_choices_are_simd_code(function: Any) -> None:
    pairs = {name: parameter(name, components=(2,)) for name in ("x", "p", "r", "new")}
    arrays = {"coarse": parameter("coarse", level=-1)} if function is of_two_grids else pairs
    scalars = {} if function is of_two_grids else {"a": float, "b": float}
    text = codegen.source(traced(function, arrays=arrays, scalars=scalars))
    loops = row_loops(text)
    assert loops
    assert [str(loop) for loop in loops if not loop.simd] == []


TEXT = """\
void f(double *restrict x, const double *restrict y, long n) {
#pragma omp simd
  for (long i = 0; i < n; i++) {
    x[i] = 2 * y[i];
  }
#pragma omp parallel for simd if (n > 9)
  for (long i = 0; i < n; i++) {
    x[i] = y[i];
  }
#pragma omp simd
  for (long i = 0; i < n; i++) {
    x[i] = pow(y[i], 0.3);
  }
#pragma omp simd
  for (long i = 0; i < n; i++) {
    x[(long)y[i] % 11] = 2 * x[(long)y[i] % 7];
  }
}
"""


@pytest.mark.parametrize("openmp", [False, True])
def test_the_report_is_understood(openmp: bool) -> None:
    loops = row_loops(f"#include <math.h>\n{TEXT}", openmp=openmp)
    assert [loop.simd for loop in loops] == [True, True, False, False]
    assert [loop.calls_library for loop in loops] == [False, False, True, False]
