"""The loops of a C kernel in stages. Pure.

Threads share axis 0. Each goes over tiles of the other axes, and within a tile over planes along
axis 0: before the update of a plane every stage computes the plane that is as far ahead as its
span. Buffers hold the last planes of a tile, so that they stay in the cache. What lies at the edge
of two tiles is computed for both. A kernel of one axis has tiles of that axis and no planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distarray.stencil import printing
from distarray.stencil.accumulators import CHUNKS, Accumulator
from distarray.stencil.body import Body
from distarray.stencil.expression import Expression, Program, Shared
from distarray.stencil.frame import Frame, move
from distarray.stencil.loops import PARALLEL_POINTS, Loops, StripPoint
from distarray.stencil.printing import Text, Value
from distarray.stencil.stages import Buffer, Staged
from distarray.stencil.writing import words

#: Points of a vector at most.
_VECTOR = 16
#: Bytes that the buffers of a tile may take, and points of a tile: along the last axis, and along
#: the others.
_TILE_BYTES = 1 << 17
_LEAST_ROW, _MOST_ROW, _ROW_OF_PLANE = 64, 512, 128
_LEAST_ROWS, _MOST_ROWS = 8, 32


class StagedFrame(Frame):
    """A frame whose kernel keeps values in buffers."""

    def __init__(self, program: Program, staged: Staged, *, aliased: bool) -> None:
        super().__init__(program, aliased=aliased)
        self.buffers = staged.buffers
        self.plane = self.names.take("plane")
        first = min(1, self.ndim - 1)
        self.tiles = {axis: self.names.take(f"tile_{axis}") for axis in range(first, self.ndim)}
        self.ends = {axis: self.names.take(f"tile_{axis}_end") for axis in self.tiles}
        self.sizes = {axis: self.names.take(f"tile_{axis}_size") for axis in self.tiles}
        self.extents = _tile(staged.buffers, self.ndim)
        self._kept = [self.names.take(f"kept{n}") for n in range(len(staged.buffers))]
        self._kept_rows: dict[tuple[int, tuple[int, ...]], str] = {}

    def level(self, node: Expression, operands: Sequence[int]) -> int:
        return self.ndim if isinstance(node, Shared) else super().level(node, operands)

    def leaf(self, node: Expression) -> Value:
        if isinstance(node, Shared):
            return (Text(self.element(node.number, node.steps)),)
        return super().leaf(node)

    def element(self, number: int, steps: tuple[int, ...]) -> str:
        """What a buffer holds so many steps from the point."""
        key = number, steps[:-1]
        if key not in self._kept_rows:
            wish = "_".join([self._kept[number], *map(str, steps[:-1])])
            self._kept_rows[key] = self.names.take(wish) if self.ndim > 1 else self._kept[number]
        last = self.ndim - 1
        return f"{self._kept_rows[key]}[{self.loops[-1]} - {self.tiles[last]}{move(steps[-1])}]"

    def buffer_declarations(self) -> Iterator[str]:
        for buffer, name in zip(self.buffers, self._kept, strict=True):
            depth = [buffer.depth] if self.ndim > 1 else []
            extents = [n + buffer.span[axis] for axis, n in self.extents.items()]
            sizes = "".join(f"[{n}]" for n in [*depth, *extents])
            yield f"{printing.type_name(buffer.dtype)} {name}{sizes};"

    def row_declarations(self, used: frozenset[str]) -> Iterator[str]:
        yield from super().row_declarations(used)
        for (number, steps), name in self._kept_rows.items():
            if steps and name in used:
                kind = printing.type_name(self.buffers[number].dtype)
                place = "".join(f"[{index}]" for index in self._kept_row(number, steps))
                yield f"{kind} *restrict {name} = {self._kept[number]}{place};"

    def _kept_row(self, number: int, steps: tuple[int, ...]) -> Iterator[str]:
        """Where a row of a buffer is."""
        depth, loop = self.buffers[number].depth, self.loops[0]
        yield f"({loop} - chunk_begin{move(steps[0])}) % {depth}" if depth > 1 else "0"
        for axis in range(1, self.ndim - 1):
            yield f"{self.loops[axis]} - {self.tiles[axis]}{move(steps[axis])}"


def _tile(buffers: Sequence[Buffer], ndim: int) -> dict[int, int]:
    """Points of a tile along each axis but the first, or along the only one."""
    width = sum(buffer.depth * buffer.dtype.itemsize for buffer in buffers)
    points = _TILE_BYTES // width
    if ndim <= 2:
        return {ndim - 1: min(_MOST_ROW, max(_LEAST_ROW, points // _VECTOR * _VECTOR))}
    rows = min(_MOST_ROWS, max(_LEAST_ROWS, points // _ROW_OF_PLANE))
    return {1: rows, 2: _ROW_OF_PLANE}


class StagedLoops(Loops):
    """The loops of a kernel in stages; not for selected outputs."""

    _frame: StagedFrame

    def __init__(
        self, frame: StagedFrame, accumulators: Sequence[Accumulator], staged: Staged
    ) -> None:
        super().__init__(frame, accumulators, masked=False)
        self._staged = staged
        self._stages = [self._lines(loop.values) for loop in staged.loops]
        point = StripPoint(frame, accumulators, program=staged.update)
        self._update = point.whole()

    def write(self) -> list[str]:
        frame, first = self._frame, self._frame.loops[0]
        for before, _ in (*self._stages, self._update):
            self._text.add(*before[0])
        points = " * ".join(f"({loop}_end - {loop}_begin)" for loop in frame.loops)
        self._text.add(
            f"const int64_t extent = {first}_end - {first}_begin;",
            f"const int64_t most = {points} > {PARALLEL_POINTS} ? thread_count({CHUNKS}) : 1;",
            "const int64_t chunks = extent < most ? extent : most;",
        )
        self._over_chunks(self._tiles)
        return self._text.lines

    def _lines(self, values: Sequence[tuple[int, Expression]]) -> tuple[list[list[str]], list[str]]:
        """Assignments outside the innermost loop, by level, and the lines within it."""
        body = Body(self._frame, [value for _, value in values])
        here = (0,) * self._frame.ndim
        writes = [
            f"{self._frame.element(number, here)} = {body.value(value)[0].code};"
            for number, value in values
        ]
        return body.lines[:-1], body.lines[-1] + writes

    def _tiles(self, parts: list[str]) -> None:
        """All tiles of a chunk."""
        text, frame = self._text, self._frame
        for axis, tile in frame.tiles.items():
            begin, end = f"{frame.loops[axis]}_begin", f"{frame.loops[axis]}_end"
            if axis == 0:
                begin, end = "chunk_begin", "chunk_end"
            most, size = frame.extents[axis], frame.sizes[axis]
            vector = _VECTOR if axis == self._last and most % _VECTOR == 0 else 1
            text.add(f"const int64_t {size} = tile_size({end} - {begin}, {most}, {vector});")
            text.open(f"for (int64_t {tile} = {begin}; {tile} < {end}; {tile} += {size})")
            text.add(
                f"const int64_t {frame.ends[axis]} = {tile} + {size} < {end} ? {tile} + {size} : "
                f"{end};"
            )
        text.add(*frame.buffer_declarations())
        self._planes(parts)
        text.close(len(frame.tiles))

    def _planes(self, parts: list[str]) -> None:
        text, plane = self._text, self._frame.plane
        ahead = [loop.span[0] if self._last else 0 for loop in self._staged.loops]
        if self._last:
            begin = f"chunk_begin{move(-max(ahead))}"
            text.open(f"for (int64_t {plane} = {begin}; {plane} < chunk_end; {plane}++)")
        for loop, lines, planes in zip(self._staged.loops, self._stages, ahead, strict=True):
            self._open_plane(planes, always=planes == max(ahead))
            self._rows(loop.span, *lines)
        self._open_plane(0, always=not max(ahead))
        self._rows((0,) * self._frame.ndim, *self._update, parts=parts)
        text.close(bool(self._last))

    def _open_plane(self, ahead: int, *, always: bool) -> None:
        """Begin what is done for a plane so far ahead of the update."""
        text, plane = self._text, self._frame.plane
        text.open("" if always else f"if ({plane} >= chunk_begin{move(-ahead)})")
        if self._last:
            text.add(f"const int64_t {self._frame.loops[0]} = {plane}{move(ahead)};")

    def _rows(
        self,
        span: tuple[int, ...],
        before: list[list[str]],
        point: list[str],
        parts: list[str] | None = None,
    ) -> None:
        """The rows of one plane of a stage or, with the parts of reductions, of the update."""
        text, frame = self._text, self._frame
        rows = list(frame.row_declarations(words(point)))
        for axis in range(1, self._last):
            text.add(*before[axis])
            self._loop(axis, frame.tiles[axis], frame.ends[axis] + move(span[axis]))
        text.add(*rows, *(before[self._last] if self._last else []))
        begin, end = frame.tiles[self._last], frame.ends[self._last] + move(span[self._last])
        if parts:
            self._strips(begin, end, point, parts)
        else:
            self._line(begin, end, point, places=False)
        text.close(max(self._last, 1))
