"""The loops of a C kernel around the assignments at a point. Pure.

Without reductions: plain loops, the first shared among threads, the last vectorised. With them the
first axis is divided into a fixed number of chunks with accumulators of their own, so that bits do
not depend on the number of threads; the last axis is divided into strips, whose values are
collected by the vectorised loop and then added.

Stores are ordinary ones. Those that pass by the caches gain if they are the loop's own: 7 points on
256^3 float64 took 0.89 of the time, on rows that start cache lines (23 ms beside 26). But GCC makes
none of a loop, and by way of a row that stays in the cache they gained nothing (26 ms).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distarray.stencil import printing
from distarray.stencil.accumulators import CHUNKS, STRIP, Accumulator
from distarray.stencil.analysis import read_nodes, roots
from distarray.stencil.expression import Expression, Program, Read, Reduction, Store, walk
from distarray.stencil.frame import Frame
from distarray.stencil.point import Point
from distarray.stencil.printing import Text
from distarray.stencil.writing import Lines, words

#: The variable that holds how many threads a text uses, and points below which they cost more than
#: they save.
THREADS = "distarray_threads"
PARALLEL_POINTS = 32768
#: Bytes of all planes of a block of rows, and its least rows.
_BLOCK_BYTES, _LEAST_ROWS = 1 << 19, 8
_PLANES_AXES = 3
_BLOCK = ("block", "block_end")
_CHUNK = ("chunk_begin", "chunk_end")


class StripPoint(Point):
    """A point whose values of reductions are put into strips."""

    def collect(self, number: int, value: Text, *, masked: bool) -> list[str]:
        accumulator = self._accumulators[number]
        place = f"count{accumulator.reduction}" if masked else "place"
        lines = [f"{accumulator.name}[{place}] = {value.code};"]
        following = [a.reduction for a in self._accumulators[number + 1 : number + 2]]
        if masked and accumulator.reduction not in following:
            lines.append(f"{place}++;")
        return lines

    def _together(self) -> list[list[int]]:
        # Those that reach equally far along each axis: where one is computed the others find
        # memory, which is a box. Each alone would make a text many times as long and slow to
        # compile.
        if any(any(array.staggered or ()) for array in self._program.arrays):
            return super()._together()
        groups: dict[object, list[int]] = {}
        results: list[Store | Reduction] = [*self._program.stores, *self._program.reductions]
        for number, result in enumerate(results):
            groups.setdefault(self._reached(result.value), []).append(number)
        return list(groups.values())

    def _reached(self, value: Expression) -> frozenset[tuple[object, ...]]:
        """How far a value reads each array around the cell of this point, in both directions along
        each axis; and each place that it reads in profiles and on other grids.
        """
        found: set[tuple[object, ...]] = set()
        ways: dict[tuple[object, ...], set[int]] = {}
        for read in read_nodes([value]):
            if read.axis is not None or self._program.arrays[read.parameter].level:
                found.add((read.parameter, read.offsets, read.relation, read.axis))
                continue
            for axis, offset in enumerate(read.offsets):
                ways.setdefault((read.parameter, read.relation, axis), {0}).add(offset)
        ends = {(*key, min(offsets), max(offsets)) for key, offsets in ways.items()}
        return frozenset(found | {end for end in ends if end[-2:] != (0, 0)})


class Loops:
    """The loops of one function; `masked` for the one that computes selected outputs."""

    def __init__(self, frame: Frame, accumulators: Sequence[Accumulator], *, masked: bool) -> None:
        self._frame = frame
        self._program = frame.program
        self._accumulators = accumulators
        self._masked = masked
        self._text = Lines(depth=1)
        self._last = frame.ndim - 1

    def write(self) -> list[str]:
        """The lines of the loops."""
        writer = StripPoint(self._frame, self._accumulators)
        before, point = ([], writer.masked()) if self._masked else writer.whole()
        before = before or [[] for _ in range(self._frame.ndim)]
        rows = list(self._frame.row_declarations(words(point)))
        before[self._last] = rows + before[self._last]
        self._text.add(*before[0])
        if self._accumulators:
            self._chunks(before, point)
        else:
            self._nest(before, point)
        return self._text.lines

    # ---- loops

    def _nest(self, before: list[list[str]], point: list[str]) -> None:
        blocked = self._open_blocks()
        for axis in range(self._last):
            if axis == 0:
                self._share("parallel for schedule(static)")
            self._loop(axis, *(_BLOCK if blocked and axis == 1 else ()))
            self._text.add(*before[axis + 1])
        loop = self._frame.loops[-1]
        self._line(f"{loop}_begin", f"{loop}_end", point, shared=self._last == 0)
        self._text.close(self._last + blocked)

    def _open_blocks(self) -> bool:
        """Begin the loop over blocks of rows where planes are read more than once."""
        column = 0 if self._masked else _column_bytes(self._program)
        if not column:
            return False
        _, middle, inner = self._frame.loops
        most = f"{_BLOCK_BYTES} / ({column} * ({inner}_end - {inner}_begin))"
        self._text.add(
            "/* As many rows at a time as let all planes that a point reads stay in the cache. */",
            f"const int64_t fitting = {most};",
            f"const int64_t rows = fitting > {_LEAST_ROWS} ? fitting : {_LEAST_ROWS};",
        )
        self._text.open(
            f"for (int64_t block = {middle}_begin; block < {middle}_end; block += rows)"
        )
        end = f"block + rows < {middle}_end ? block + rows : {middle}_end"
        self._text.add(f"const int64_t block_end = {end};")
        return True

    def _share(self, directive: str) -> None:
        """Divide the next loop among threads if it is worth it."""
        points = " * ".join(f"({loop}_end - {loop}_begin)" for loop in self._frame.loops)
        self._text.add(
            f"#pragma omp {directive} num_threads({THREADS}) if ({points} > {PARALLEL_POINTS})"
        )

    def _loop(self, axis: int, begin: str = "", end: str = "") -> None:
        loop = self._frame.loops[axis]
        begin, end = begin or f"{loop}_begin", end or f"{loop}_end"
        self._text.open(f"for (int64_t {loop} = {begin}; {loop} < {end}; {loop}++)")

    def _line(
        self,
        begin: str,
        end: str,
        point: list[str],
        *,
        shared: bool = False,
        places: bool = True,
    ) -> None:
        """The innermost loop, over all points or over those of one colour; `places` if values are
        collected.
        """
        text, loop = self._text, self._frame.loops[-1]
        if self._program.colours > 1:
            sum_of_others = " + ".join([*self._frame.loops[:-1], begin])
            colour = f"box[{2 * self._frame.ndim + 1}]"
            text.add(f"const int64_t first = {begin} + (({sum_of_others} + {colour}) & 1);")
        if not self._masked and shared:
            self._share("parallel for simd")
        elif not self._masked:
            text.add("#pragma omp simd")
        if self._program.colours > 1:
            text.open(f"for (int64_t place = 0; place < ({end} - first + 1) / 2; place++)")
            text.add(f"const int64_t {loop} = first + 2 * place;")
        else:
            text.open(f"for (int64_t {loop} = {begin}; {loop} < {end}; {loop}++)")
            if self._accumulators and places and not self._masked:
                text.add(f"const int64_t place = {loop} - {begin};")
        text.add(*point)
        text.close()

    # ---- reductions

    def _chunks(self, before: list[list[str]], point: list[str]) -> None:
        loop = self._frame.loops[0]
        self._text.add(f"const int64_t extent = {loop}_end - {loop}_begin;")
        self._text.add(f"const int64_t chunks = extent < {CHUNKS} ? extent : {CHUNKS};")
        self._over_chunks(lambda parts: self._chunk(before, point, parts))

    def _over_chunks(self, write: Callable[[list[str]], None]) -> None:
        """What `write` adds, for each of `chunks` parts of the first axis, whose accumulators it is
        handed.
        """
        text, loop = self._text, self._frame.loops[0]
        parts = [f"part{number}" for number in range(len(self._accumulators))]
        for part, a in zip(parts, self._accumulators, strict=True):
            text.add(f"{a.c_type} {part}[{CHUNKS}][{a.length}];")
        self._share("parallel for schedule(static)")
        text.open("for (int64_t chunk = 0; chunk < chunks; chunk++)")
        for part, a in zip(parts, self._accumulators, strict=True):
            text.add(a.clear(f"{part}[chunk]"))
        begin = f"{loop}_begin + extent * chunk / chunks"
        end = f"{loop}_begin + extent * (chunk + 1) / chunks"
        text.add(f"const int64_t chunk_begin = {begin};", f"const int64_t chunk_end = {end};")
        write(parts)
        text.close()
        if not parts:
            return
        text.open("for (int64_t chunk = 0; chunk < chunks; chunk++)")
        for number, (part, a) in enumerate(zip(parts, self._accumulators, strict=True)):
            text.add(*a.merge(f"(({a.c_type} *)results[{number}])", f"{part}[chunk]"))
        text.close()

    def _chunk(self, before: list[list[str]], point: list[str], parts: list[str]) -> None:
        """Loops over the points of one chunk of the first axis."""
        inner = self._frame.loops[-1]
        if self._last == 0:
            self._strips(*_CHUNK, point, parts)
            return
        blocked = self._open_blocks()
        for axis in range(self._last):
            bounds = _BLOCK if blocked and axis == 1 else ()
            self._loop(axis, *(_CHUNK if axis == 0 else bounds))
            self._text.add(*before[axis + 1])
        self._strips(f"{inner}_begin", f"{inner}_end", point, parts)
        self._text.close(self._last + blocked)

    def _strips(self, begin: str, end: str, point: list[str], parts: list[str]) -> None:
        """The innermost loop in pieces, the values of each piece added at its end."""
        text = self._text
        text.open(f"for (int64_t strip = {begin}; strip < {end}; strip += {STRIP})")
        text.add(f"const int64_t strip_end = strip + {STRIP} < {end} ? strip + {STRIP} : {end};")
        for accumulator in self._accumulators:
            text.add(f"{printing.type_name(accumulator.strip_dtype)} {accumulator.name}[{STRIP}];")
        if self._masked:
            for number in range(len(self._program.reductions)):
                text.add(f"int64_t count{number} = 0;")
        self._line("strip", "strip_end", point)
        if not self._masked:
            every = self._program.colours == 1
            points = "strip_end - strip" if every else "(strip_end - first + 1) / 2"
            text.add(f"const int64_t count = {points};")
        for part, accumulator in zip(parts, self._accumulators, strict=True):
            count = f"count{accumulator.reduction}" if self._masked else "count"
            text.add(accumulator.add(f"{part}[chunk]", count))
        text.close()


def _column_bytes(program: Program) -> int:
    """Bytes of one column in all planes that a point reads or writes; 0 if none is met twice."""
    if program.ndim != _PLANES_AXES:
        return 0
    planes: dict[tuple[int, tuple[int, ...]], set[int]] = {}
    for store in program.stores:
        planes.setdefault((store.parameter, store.component), set()).add(0)
    for node in walk(roots(program)):
        if isinstance(node, Read) and node.axis is None:
            planes.setdefault((node.parameter, node.component), set()).add(node.offsets[0])
    spans = {key: max(offsets) - min(offsets) + 1 for key, offsets in planes.items()}
    if max(spans.values(), default=1) == 1:
        return 0
    return sum(span * program.arrays[key[0]].dtype.itemsize for key, span in spans.items())
