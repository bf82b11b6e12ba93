"""C text of a kernel, meant to be read: loops over a box with the last axis innermost. Pure.

The text has one function, and for kernels of several outputs a second, *masked* one. There bit k of
a mask says whether output k is computed, from its own reads only: for the thin boxes at which the
reads of another output are not available. Fused reductions are outputs here, after the stores.

At a point all values are computed before the first is written. What is used more than once is
computed once, and as far out as its operands allow: once per launch, plane, row or point.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from distarray.stencil import accumulators, preamble, stages
from distarray.stencil.accumulators import Accumulator
from distarray.stencil.analysis import roots
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Program, walk
from distarray.stencil.frame import Frame, Table
from distarray.stencil.loops import Loops
from distarray.stencil.staged import StagedFrame, StagedLoops
from distarray.stencil.stages import Staged
from distarray.stencil.writing import Lines, identifier, words

_PARAMETERS = (
    "void *const *memory, const int64_t *layout, const union scalar *scalars,\n"
    "    const int64_t *box, void *const *results"
)


@dataclass(frozen=True)
class Code:
    """A kernel's text, and what its function is handed besides the arrays; see `frame`."""

    text: str
    symbol: str
    tables: tuple[Table, ...]
    accumulators: tuple[Accumulator, ...]


def source(program: Program) -> str:
    """The C text of a kernel."""
    return generate(program).text


@functools.lru_cache(maxsize=1024)
def generate(program: Program, *, aliased: bool = False, staged: bool = True) -> Code:
    """The C text of a kernel; `aliased` if two of its parameters may be one array, and `staged` if
    it may keep values (see `sharing`).

    Equal programs give the same object.
    """
    return _Writer(program, aliased, stages.of_program(program) if staged else None).code()


class _Writer:
    def __init__(self, program: Program, aliased: bool, staged: Staged | None) -> None:
        self._program = program
        self._frame = Frame(program, aliased=aliased)
        self._symbol = identifier(f"kernel_{program.name}")
        self._accumulators = accumulators.of_program(program)
        self._outputs = len(program.stores) + len(program.reductions)
        self._whole: Loops | None = None
        if staged is not None:
            self._frame = frame = StagedFrame(program, staged, aliased=aliased)
            self._whole = StagedLoops(frame, self._accumulators, staged)

    def code(self) -> Code:
        lines = self._function(masked=False)
        if self._outputs > 1:
            lines = [*self._function(masked=True), "", *lines]
        body = "\n".join(lines) + "\n"
        head = preamble.text(words(lines), exact_products=self._complex and not self._program.fast)
        text = f"/* {self._title()} */\n{head}\n\n{body}"
        return Code(text, self._symbol, tuple(self._frame.tables), self._accumulators)

    def _title(self) -> str:
        arrays = ", ".join(
            f"{array.dtype} {array.name}{list(array.components) or ''}"
            for array in self._program.arrays
        )
        return f"{self._program.name} on {self._program.ndim} axes: {arrays}"

    @property
    def _complex(self) -> bool:
        """Whether complex numbers occur."""
        nodes = walk(roots(self._program))
        return any(as_dtype(node.dtype).kind == "c" for node in nodes)

    def _function(self, *, masked: bool) -> list[str]:
        loops = None if masked else self._whole
        inner = (loops or Loops(self._frame, self._accumulators, masked=masked)).write()
        text = Lines()
        if masked:
            text.add("__attribute__((cold))")
            text.open(f"static void {self._symbol}_masked({_PARAMETERS})")
        else:
            text.open(f"void {self._symbol}({_PARAMETERS})")
            self._select(text)
        text.add(*self._frame.declarations(words(inner)))
        if masked:
            text.add(f"const int64_t mask = box[{2 * self._program.ndim}];")
        text.lines += inner
        text.close()
        return text.lines

    def _select(self, text: Lines) -> None:
        """What a mask does that does not activate all outputs."""
        mask, every = f"box[{2 * self._program.ndim}]", (1 << self._outputs) - 1
        if self._outputs == 1:
            text.add(f"if (!({mask} & 1)) return;")
        else:
            text.open(f"if (({mask} & {every}) != {every})")
            text.add(f"{self._symbol}_masked(memory, layout, scalars, box, results);", "return;")
            text.close()
