"""Where fused reductions collect: numbers in memory, and the C that adds to them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.accumulation import identity
from distarray.arraylike import HostArray
from distarray.exact import LENGTH, carried
from distarray.stencil import printing
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Program, Reduction
from distarray.stencil.partials import accumulator

#: Values that a fused reduction adds at a time, and parts into which it is divided for threads.
STRIP, CHUNKS = 1024, 64


@dataclass(frozen=True)
class Accumulator:
    """One number, an extremum with its NaN flag, or the limbs of an exact sum.

    `reduction` is the position of the reduction in its program and `name` that of the strip of
    values it takes; a complex sum has two accumulators.
    """

    reduction: int
    kind: str
    name: str
    dtype: np.dtype[Any]
    length: int
    start: float

    @property
    def strip_dtype(self) -> np.dtype[Any]:
        """The dtype of the values it takes."""
        return np.dtype(np.float64) if self.exact else self.dtype

    @property
    def exact(self) -> bool:
        return self.length == LENGTH

    def cleared(self) -> HostArray:
        """Memory for it, set to its start."""
        memory = np.zeros(self.length, self.dtype)
        memory[0] = self.start
        return memory

    # ---- C text; `part` and `total` name arrays of `length` numbers

    @property
    def c_type(self) -> str:
        return printing.type_name(self.dtype)

    def clear(self, part: str) -> str:
        if self.kind == "sum":
            return f"memset({part}, 0, sizeof {part});"
        (start,) = printing.literal(self.start, self.dtype)
        return f"{part}[0] = {start.code}, {part}[1] = 0;"

    def add(self, part: str, count: str) -> str:
        """Take in the first `count` values of the strip."""
        if self.exact:
            return f"exact_add({part}, {self.name}, {count});"
        return f"add_{self.kind}_{self.dtype.name}({part}, {self.name}, {count});"

    def merge(self, total: str, part: str) -> list[str]:
        if self.exact:
            loop = "for (int64_t l = 0; l < EXACT_LENGTH; l++)"
            return [f"{loop} {total}[l] += {part}[l];", f"exact_carry({total});"]
        if self.kind == "sum":
            return [f"{total}[0] += {part}[0];"]
        sign = "<" if self.kind == "min" else ">"
        return [
            f"{total}[0] = {part}[0] {sign} {total}[0] ? {part}[0] : {total}[0];",
            f"{total}[1] = {part}[1] != 0 ? 1 : {total}[1];",
        ]


def of_reduction(position: int, reduction: Reduction) -> tuple[Accumulator, ...]:
    """The accumulators of a reduction: two for a complex sum, else one."""
    dtype = as_dtype(reduction.value.dtype)
    number = accumulator(dtype, reduction.kind)
    if dtype.kind == "c":
        number = np.dtype(np.float64)
    start = 0 if reduction.kind == "sum" else identity(reduction.kind, number)
    length = 1 if reduction.kind == "sum" else 2
    if reduction.reproducible and number.kind == "f":
        length, number = LENGTH, np.dtype(np.int64)
    ends = ("_re", "_im") if dtype.kind == "c" else ("",)
    return tuple(
        Accumulator(position, reduction.kind, f"strip{position}{end}", number, length, start)
        for end in ends
    )


def of_program(program: Program) -> tuple[Accumulator, ...]:
    """The accumulators of all reductions of a program."""
    return tuple(
        accumulator
        for position, reduction in enumerate(program.reductions)
        for accumulator in of_reduction(position, reduction)
    )


def joined(accumulators: Sequence[Accumulator], results: Sequence[HostArray]) -> list[HostArray]:
    """The partial result of each reduction, from what its accumulators hold on the host."""
    groups: dict[int, list[HostArray]] = {}
    for result, one in zip(results, accumulators, strict=True):
        groups.setdefault(one.reduction, []).append(result)
    return [_joined(groups[number]) for number in sorted(groups)]


def _joined(parts: list[HostArray]) -> HostArray:
    """The partial result of one reduction; of a complex sum from its two parts."""
    if parts[0].size == LENGTH:
        limbs = carried(np.stack(parts))
        return limbs if len(parts) == 2 else limbs[0]
    if len(parts) == 1:
        return parts[0].copy()
    total = np.empty(parts[0].shape, np.complex128)  # 1j times an infinity has a NaN in it
    total.real, total.imag = parts
    return total
