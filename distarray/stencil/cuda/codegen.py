"""CUDA C text of a kernel, for NVRTC and, unchanged, for a host compiler under a header that
supplies the numbers of blocks and threads. Pure.

The text uses no memory that threads share and lets none wait for another, so that running them one
after another is the same. Like C text it has a masked form for kernels of several outputs, as a
kernel of its own, which is compiled only if it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distarray.errors import StencilError
from distarray.stencil import accumulators, printing
from distarray.stencil.accumulators import Accumulator
from distarray.stencil.cuda import preamble, states
from distarray.stencil.cuda.frame import CudaFrame
from distarray.stencil.cuda.loops import Loops
from distarray.stencil.cuda.tiles import launch_dtype, structures
from distarray.stencil.expression import Program
from distarray.stencil.frame import Table
from distarray.stencil.writing import Lines, identifier, words

#: What a launch may be handed before CUDA 12.1, and on GPUs older than those of capability 7.0.
MOST_PARAMETER_BYTES = 4096
_POINTER = 8


@dataclass(frozen=True)
class CudaKernel:
    """One `extern "C" __global__` function.

    Attributes
    ----------
    text, symbol : str
    parameters : tuple of str
        C types of its parameters; pointers without restrict.
    fast : bool
        Whether products and sums may be contracted.
    """

    text: str
    symbol: str
    parameters: tuple[str, ...]
    fast: bool


@dataclass(frozen=True)
class CudaCode:
    """The kernels of a program, and what they are handed besides the arrays; see `frame`.

    Attributes
    ----------
    kernel : CudaKernel
        Computes all outputs.
    masked : CudaKernel or None
        Computes selected ones; None for a program with one output, of which there is nothing to
        select.
    combine : CudaKernel or None
        Merges what threads gathered for reductions.
    tables, accumulators
        As of C text.
    outputs : int
        Stores and reductions.
    scratch : int
        Words of 8 bytes that reductions take for each thread.
    """

    kernel: CudaKernel
    masked: CudaKernel | None
    combine: CudaKernel | None
    tables: tuple[Table, ...]
    accumulators: tuple[Accumulator, ...]
    ndim: int
    outputs: int
    colours: int
    wide: bool
    strided: bool
    scratch: int


@functools.lru_cache(maxsize=1024)
def generate(
    program: Program, *, aliased: bool = False, wide: bool = False, strided: bool = False
) -> CudaCode:
    """The CUDA text of a program.

    Parameters
    ----------
    aliased : bool
        Whether two of its parameters may be one array.
    wide : bool
        Whether positions in an array may need more than 32 bits.
    strided : bool
        Whether the last axis may have another stride than 1; any stride may then be negative or 0.

    Equal arguments give the same object.
    """
    return _Writer(program, aliased=aliased, wide=wide, strided=strided).code()


def source(program: Program) -> str:
    """The CUDA text of the kernel that computes all outputs of a program."""
    return generate(program).kernel.text


class _Writer:
    def __init__(self, program: Program, *, aliased: bool, wide: bool, strided: bool) -> None:
        self._program = program
        self._options = {"aliased": aliased, "wide": wide, "strided": strided}
        self._accumulators = accumulators.of_program(program)
        self._outputs = len(program.stores) + len(program.reductions)
        self._tables: dict[Table, str] = {}

    def code(self) -> CudaCode:
        kernel = self._kernel(masked=False)
        masked = self._kernel(masked=True) if self._outputs > 1 else None
        return CudaCode(
            kernel,
            masked,
            combining(self._accumulators) if self._accumulators else None,
            tuple(self._tables),
            self._accumulators,
            self._program.ndim,
            self._outputs,
            self._program.colours,
            self._options["wide"],
            self._options["strided"],
            states.words(self._accumulators),
        )

    def _kernel(self, *, masked: bool) -> CudaKernel:
        frame = CudaFrame(self._program, **self._options)
        frame.tables.update(self._tables)
        inner = Loops(frame, self._accumulators, masked=masked).write()
        self._tables = frame.tables
        parameters = [*frame.parameters(), *self._by_value()]
        self._require_room(frame, len(parameters))
        symbol = identifier(f"kernel_{self._program.name}") + ("_masked" if masked else "")
        text = Lines()
        text.lines += _head(symbol, parameters)
        text.depth = 1
        text.add(*frame.declarations(words(inner)))
        text.lines += _plain(inner)
        text.close()
        types = structures(frame.ndim, frame.layout())
        head = [f"typedef {frame.index_type} index_t;", types]
        return _made(symbol, head, text.lines, parameters, fast=self._program.fast)

    def _require_room(self, frame: CudaFrame, count: int) -> None:
        """Refuse what no launch can hand over; `count` parameters, all but two of them pointers."""
        launch = launch_dtype(frame.ndim, self._options["wide"]).itemsize
        taken = _POINTER * (count - 2) + _POINTER * max(1, len(frame.layout())) + launch
        if taken > MOST_PARAMETER_BYTES:
            program = self._program
            raise StencilError(
                f"Kernel {program.name} with {len(program.arrays)} arrays takes {taken} bytes of "
                f"parameters on a GPU, which takes {MOST_PARAMETER_BYTES}; use fewer arrays, as by "
                "components of one, or several kernels."
            )

    def _by_value(self) -> list[tuple[str, str]]:
        """Types and names of what follows the pointers to arrays and tables."""
        found = [
            ("const union scalar *__restrict__ ", "scalars"),
            ("const struct layout ", "layout"),
            ("const struct launch ", "launch"),
        ]
        return found + ([("union number *__restrict__ ", "scratch")] if self._accumulators else [])


@functools.lru_cache(maxsize=256)
def combining(parts: tuple[Accumulator, ...]) -> CudaKernel:
    """The kernel that merges the states of some accumulators."""
    return _made(
        states.combine_symbol(parts),
        [states.COMBINE_STRUCTURE],
        states.combine(parts),
        states.COMBINE_PARAMETERS,
        fast=False,
    )


def _head(symbol: str, parameters: Sequence[tuple[str, str]]) -> list[str]:
    lines = [f'extern "C" __global__ void {symbol}(']
    lines += [f"    {kind}{name}," for kind, name in parameters]
    lines[-1] = lines[-1][:-1] + ") {"
    return lines


def _plain(lines: Iterable[str]) -> list[str]:
    """Lines without the zero that conversions of C text are handed; those of CUDA need none."""
    return [line.replace(f", {printing.HIDDEN})", ")") for line in lines]


def _made(
    symbol: str,
    types: Sequence[str],
    lines: Sequence[str],
    parameters: Sequence[tuple[str, str]],
    *,
    fast: bool,
) -> CudaKernel:
    used = words([*types, *lines, *(kind for kind, _ in parameters)])
    text = "\n".join([preamble.text(used), *types, "", *lines, ""])
    kinds = tuple(
        kind.replace("__restrict__", "").strip().removeprefix("const ")
        if "*" not in kind
        else kind.replace("__restrict__", "").strip()
        for kind, _ in parameters
    )
    return CudaKernel(text, symbol, kinds, fast)
