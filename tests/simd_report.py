"""What GCC says of the loops in generated C text: which of them became SIMD code."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from distarray.backends import native

_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan atan2 asinh "
    "acosh atanh pow hypot cbrt fmod tanh_float64 cbrt_float64"
)
#: A call of a function that the C library has for one number only.
_LIBRARY = re.compile(rf"\b(?:{'|'.join(_FUNCTIONS.split())})\(")


class RowLoop(NamedTuple):
    """An innermost loop that is to be SIMD code."""

    lines: tuple[str, ...]
    simd: bool

    @property
    def calls_library(self) -> bool:
        """Whether it calls functions of the C library that take one number at a time."""
        return any(_LIBRARY.search(line) for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def row_loops(text: str, *, openmp: bool = False, fast: bool = False) -> list[RowLoop]:
    """All loops of a text that are to be SIMD code, as GCC has compiled them."""
    found = _reported(text, openmp, fast)
    lines = text.splitlines()
    return [
        # The report names the loop's line, or one within the loop.
        RowLoop(tuple(lines[first : last + 1]), not found.isdisjoint(range(first + 1, last + 2)))
        for first, last in _places(lines)
    ]


def _places(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Numbers of the first and last line of the loops."""
    for number, line in enumerate(lines):
        if re.match(r"#pragma omp (parallel for )?simd\b", line):
            first = number + 1
            yield first, lines.index(lines[first].partition("for")[0] + "}", first)


def _reported(text: str, openmp: bool, fast: bool) -> set[int]:
    """Lines of loops that became SIMD code, or a call of memcpy, which is such."""
    command = [*_compiler(), *(native.FAST_FLAGS if fast else ()), *(["-fopenmp"] * openmp)]
    report = subprocess.run(
        [*command, "-fopt-info-vec-all", "-x", "c", "-c", "-", "-o", os.devnull],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    vectors = r":(\d+):\d+: optimized: +loop vectorized"
    copies = r":(\d+):\d+: missed: +statement clobbers memory: __builtin_mem(?:cpy|move|set) "
    return {int(a or b) for a, b in re.findall(f"{vectors}|{copies}", report)}


@functools.cache
def _compiler() -> tuple[str, ...]:
    tools = native.toolchain()
    if tools is None:
        pytest.skip("no compiler")
    version = subprocess.run(
        [*tools.command, "--version"], capture_output=True, text=True, check=True
    )
    if "Free Software Foundation" not in version.stdout:
        pytest.skip("only GCC reports the lines of loops")
    return (*tools.command, *native.FLAGS, *tools.flags)
