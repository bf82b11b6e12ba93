"""The points that a thread of a CUDA kernel computes: from its numbers to indices. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distarray.stencil.accumulators import Accumulator
from distarray.stencil.analysis import read_nodes, roots
from distarray.stencil.cuda import states, windows
from distarray.stencil.cuda.frame import CudaFrame
from distarray.stencil.cuda.tiles import LOG_THREADS
from distarray.stencil.cuda.windows import Window
from distarray.stencil.point import Point
from distarray.stencil.printing import Text
from distarray.stencil.writing import Lines, words

#: Loads of a point up to which the compiler may work on several steps at once; more would take the
#: registers that other threads need.
_FEW_LOADS, _SOME_LOADS = 4, 16


class _StatePoint(Point):
    """A point whose values of reductions enter the thread's states."""

    def collect(self, number: int, value: Text, *, masked: bool) -> list[str]:
        return states.taken(number, self._accumulators[number], value)

    def _at_once(self, number: int) -> bool:
        """Whether no other value is computed from the output, so that no register need hold it."""
        if self._frame.aliased:
            return False
        own = self._program.stores[number]
        values = roots(self._program)
        return not any(
            (node.parameter, node.component) == (own.parameter, own.component)
            for node in read_nodes(values[:number] + values[number + 1 :])
        )


class Loops:
    """The body of one kernel; `masked` for the one that computes selected outputs."""

    def __init__(
        self, frame: CudaFrame, accumulators: Sequence[Accumulator], *, masked: bool
    ) -> None:
        self._frame = frame
        self._program = frame.program
        self._accumulators = accumulators
        self._masked = masked
        self._text = Lines(depth=1)
        self._ndim = frame.ndim
        self._colours = frame.program.colours > 1

    def write(self) -> list[str]:
        text = self._text
        found = [] if self._masked else windows.of_program(self._program)
        self._frame.watch(found)
        if self._accumulators:
            text.add(*states.declarations(self._accumulators))
            text.open("for (unsigned tile = blockIdx.x; tile < launch.tiles; tile += gridDim.x)")
        else:
            text.add("const unsigned tile = blockIdx.x;")
        self._box()
        guards = self._place()
        if guards:
            text.open(f"if ({' && '.join(guards)})")
        self._steps(found)
        text.close(bool(guards) + bool(self._accumulators))
        text.add(*states.written(self._accumulators))
        return text.lines

    # ---- where the thread's points lie

    def _box(self) -> None:
        """Find the tile's box."""
        self._text.add(
            "int box = 0;",
            "while (box + 1 < launch.count && tile >= launch.boxes[box + 1].first_tile) box++;",
            "unsigned here = tile - launch.boxes[box].first_tile;",
        )
        if self._ndim > 1:
            self._text.add("const int shift = launch.boxes[box].shift;")
        if self._masked:
            self._text.add("const int64_t mask = launch.boxes[box].mask;")
        for axis, loop in enumerate(self._frame.loops):
            self._text.add(
                f"const index_t {loop}_begin = launch.boxes[box].begin[{axis}], "
                f"{loop}_end = launch.boxes[box].end[{axis}];"
            )

    def _place(self) -> list[str]:
        """Declare the indices that stay the same, and the steps; gives what they must fulfil."""
        text, last = self._text, self._ndim - 1
        guards: list[str] = []
        if last == 0:
            origin = "0" if self._colours else f"{self._frame.loops[0]}_begin"
            self._range(origin, self._across_end(), f"{LOG_THREADS}", "threadIdx.x")
            return guards
        across = "across" if self._colours else self._frame.loops[last]
        lane, band = "threadIdx.x & ((1 << shift) - 1)", "threadIdx.x >> shift"
        first = "launch.boxes[box].first"
        self._tiled(across, first, self._across_end(), "shift", lane)
        if not self._colours:
            loop = self._frame.loops[last]
            guards += [f"{loop} >= {loop}_begin", f"{loop} < {loop}_end"]
        bands = f"({LOG_THREADS} - shift)"
        if last == 1:
            self._range(f"{self._frame.loops[0]}_begin", "", bands, band)
            return guards
        loop = self._frame.loops[last - 1]
        self._tiled(loop, f"{loop}_begin", f"{loop}_end", bands, band)
        guards.append(f"{loop} < {loop}_end")
        for loop in reversed(self._frame.loops[1 : last - 1]):
            text.add(
                f"const unsigned {loop}_tiles = (unsigned)({loop}_end - {loop}_begin);",
                f"const index_t {loop} = {loop}_begin + (index_t)(here % {loop}_tiles);",
                f"here /= {loop}_tiles;",
            )
        self._range(f"{self._frame.loops[0]}_begin")
        return guards

    def _across_end(self) -> str:
        """The end of the last axis' indices, or of their halves if there are two colours."""
        loop = self._frame.loops[-1]
        return f"({loop}_end - {loop}_begin + 1) / 2" if self._colours else f"{loop}_end"

    def _tiled(self, name: str, begin: str, end: str, shift: str, thread: str) -> None:
        """An index along an axis that tiles divide into pieces of 2**shift."""
        loop = self._frame.loops[-1] if name == "across" else name
        self._text.add(
            f"const unsigned {loop}_tiles = "
            f"(unsigned)(({end} - {begin} + ((index_t)1 << {shift}) - 1) >> {shift});",
            f"const index_t {name} = "
            f"{begin} + ((index_t)(here % {loop}_tiles) << {shift}) + (index_t)({thread});",
            f"here /= {loop}_tiles;",
        )

    def _range(self, begin: str, end: str = "", shift: str = "", thread: str = "") -> None:
        """First index, end and step along axis 0; each step is past the threads along it."""
        end = end or f"{self._frame.loops[0]}_end"
        extent = "launch.steps"
        if shift:
            self._text.add(f"const index_t step = (index_t)1 << {shift};")
            extent = "launch.steps * step"
        self._text.add(
            f"const index_t row = {begin} + (index_t)here * {extent};",
            f"const index_t stop = {end} - row < {extent} ? {end} : row + {extent};",
        )
        if thread:
            self._text.add(f"const index_t first = row + (index_t)({thread});")
        else:
            self._text.add("const index_t first = row;")

    # ---- steps

    def _steps(self, found: list[Window]) -> None:
        """The loop over the thread's steps along axis 0."""
        text, loop = self._text, self._frame.loops[0]
        point = _StatePoint(self._frame, self._accumulators, flat=True)
        lines = point.masked() if self._masked else point.whole()[1]
        if found:
            self._open_windows(found)
            lines = [*self._loads(found), *lines, *self._shifts(found)]
        text.add(f"#pragma unroll {self._unrolled(found)}")
        variable = "across" if self._ndim == 1 and self._colours else loop
        next_one = f"{variable}++" if self._ndim >= windows.LEAST_AXES else f"{variable} += step"
        text.open(f"for (index_t {variable} = first; {variable} < stop; {next_one})")
        if self._colours:
            self._open_colour()
        text.add(*self._frame.row_declarations(words(lines)))
        text.add(*lines)
        text.close(1 + self._colours)

    def _open_colour(self) -> None:
        """The index along the last axis of the colour's point, if the box has it."""
        loop = self._frame.loops[-1]
        others = " + ".join([*self._frame.loops[:-1], f"{loop}_begin"])
        self._text.add(
            f"const index_t {loop} = {loop}_begin + 2 * across + (({others} + launch.parity) & 1);"
        )
        self._text.open(f"if ({loop} < {loop}_end)")

    def _unrolled(self, found: list[Window]) -> int:
        """Steps that the compiler works on at once, so that enough loads are under way."""
        loads = len(read_nodes(roots(self._program)))
        if self._masked or self._colours or loads > _SOME_LOADS:
            return 1
        return 4 if loads <= _FEW_LOADS and not found else 2

    # ---- columns that are kept in variables

    def _open_windows(self, found: list[Window]) -> None:
        """The values of all columns before the first step, but for the last of each."""
        text, loop = self._text, self._frame.loops[0]
        loads: list[str] = []
        for window in found:
            names = [
                name
                for offset in range(window.low, window.high)
                for name in window.variables(offset)
            ]
            text.add(f"{windows.part_name(self._program, window)} {', '.join(names)};")
            for offset in range(window.low, window.high):
                loads += [f"{name} = {value};" for name, value in self._values(window, offset)]
        text.add("{")
        text.depth += 1
        text.add(f"const index_t {loop} = first;")
        text.add(*self._frame.row_declarations(words(loads)))
        text.add(*loads)
        text.close()

    def _values(self, window: Window, offset: int) -> list[tuple[str, str]]:
        """The variables of a value and the elements in memory that they stand for."""
        element = self._frame.element(window.parameter, window.component, (offset, *window.others))
        elements = [element + end for end in self._frame.ends(window.parameter)]
        return list(zip(window.variables(offset), elements, strict=True))

    def _loads(self, found: list[Window]) -> list[str]:
        """The one new value of each column."""
        return [
            f"const {windows.part_name(self._program, window)} {name} = {value};"
            for window in found
            for name, value in self._values(window, window.high)
        ]

    def _shifts(self, found: list[Window]) -> list[str]:
        """Each value is that of the next lower offset in the next step."""
        return [
            f"{target} = {source};"
            for window in found
            for offset in range(window.low, window.high)
            for target, source in zip(
                window.variables(offset), window.variables(offset + 1), strict=True
            )
        ]
