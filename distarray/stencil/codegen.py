"""C text of a kernel, meant to be read: loops over a box with the last axis innermost, and fused reductions. Pure.

The text has one function, and a second one for kernels of several outputs:

* the whole kernel, all outputs at each point, vectorised along the last axis;
* the *masked* kernel, where bit k of a mask says whether output k is computed, with its own reads only: for the thin
  boxes where the reads of another output are not available.

At a point all values are computed before the first is written. A value is computed as far out as its operands
allow: once per launch, per plane, per row or per point. What is used more than once is computed once. Fused reductions
collect a strip of values in the innermost loop and then add the strip, so that the loop stays vectorised. Loops over
the first axis are shared among threads; a reduction is always divided into the same chunks, so its bits do not depend
on the number of threads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distarray.exact import LENGTH
from distarray.stencil import preamble, printing
from distarray.stencil.expression import (
    COARSE,
    FINE,
    Call,
    Cast,
    Constant,
    Coordinate,
    Expression,
    Index,
    Program,
    Read,
    Reduction,
    Scalar,
    Spacing,
    walk,
)
from distarray.stencil.printing import ATOM, Text, Value, concrete

#: Values of a strip that a fused reduction adds at a time, and parts a reduction is divided into.
STRIP, CHUNKS = 1024, 64
#: Points below which threads cost more than they save.
_PARALLEL_POINTS = 32768
_LONGEST = 88

#: (kind of table, axis, staggered): a 1-D array over the local indices of an axis.
Table = tuple[str, int, bool]
_TABLE_NAMES = {
    ("index", False): "index",
    ("coordinate", False): "centre",
    ("coordinate", True): "point",
    ("spacing", False): "width",
    ("spacing", True): "distance",
}


@dataclass(frozen=True)
class Accumulator:
    """Where one reduction collects: `length` numbers of `dtype`, first set to `identity`."""

    dtype: np.dtype[Any]
    length: int
    identity: float


@dataclass(frozen=True)
class Code:
    """A kernel's text and what its function must be handed: arrays, then tables; scalars; accumulators."""

    text: str
    symbol: str
    tables: tuple[Table, ...]
    accumulators: tuple[tuple[Accumulator, ...], ...]


def source(program: Program) -> str:
    """The C text of a kernel."""
    return generate(program).text


@functools.lru_cache(maxsize=1024)
def generate(program: Program, *, aliased: bool = False) -> Code:
    """The C text of a kernel; `aliased` if two of its parameters may be one array.

    Raises
    ------
    StencilError
        The kernel uses what has no C form.
    """
    return _Kernel(program, aliased).code()


def accumulators(reduction: Reduction) -> tuple[Accumulator, ...]:
    """The accumulators of a reduction: two for a complex sum, else one."""
    dtype = concrete(reduction.value.dtype)
    parts = 2 if dtype.kind == "c" else 1
    if dtype.kind in "fc":
        number = np.dtype(np.float64)
    else:
        wide = dtype.kind == "u" and dtype.itemsize == 8 and reduction.kind != "sum"
        number = np.dtype(np.uint64 if wide else np.int64)
    if reduction.kind == "sum":
        if reduction.reproducible and number.kind == "f":
            return (Accumulator(np.dtype(np.int64), LENGTH, 0),) * parts
        return (Accumulator(number, 1, 0),) * parts
    low, high = (
        (-np.inf, np.inf) if number.kind == "f" else (np.iinfo(number).min, np.iinfo(number).max)
    )
    return (Accumulator(number, 2, high if reduction.kind == "min" else low),)


# ---- names


class _Names:
    """Distinct C identifiers close to the words of the kernel."""

    def __init__(self) -> None:
        self._taken = set(printing.RESERVED)

    def take(self, wish: str) -> str:
        base = re.sub(r"[^0-9A-Za-z_]", "_", wish)
        base = f"a{base}" if not base[:1].isalpha() else base
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}" if base not in printing.RESERVED or number > 2 else f"{base}_"
        self._taken.add(name)
        return name


@dataclass
class _Lines:
    """Lines of C with their indentation."""

    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        self.lines += [
            "  " * self.depth + line if line and not line.startswith("#") else line
            for line in lines
        ]

    def open(self, line: str) -> None:
        self.add(line + " {")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")


# ---- values at a point


class _Body:
    """The assignments that compute some expressions, each at the loop level its operands need.

    Level 0 is outside all loops, level a + 1 inside the loop of axis a. With `flat` everything is at the innermost
    level, within the condition that guards it.
    """

    def __init__(self, kernel: _Kernel, roots: Sequence[Expression], *, flat: bool = False) -> None:
        self._kernel = kernel
        self._flat = flat
        self.lines: list[list[str]] = [[] for _ in range(kernel.ndim + 1)]
        self._texts: dict[int, Value] = {}
        self._levels: dict[int, int] = {}
        nodes = list(walk(roots))
        self._uses, self._needed, self._repeated = self._demands(nodes, roots)
        for node in nodes:
            self._write(node)

    def value(self, node: Expression) -> Value:
        return self._texts[id(node)]

    def _demands(
        self, nodes: Sequence[Expression], roots: Sequence[Expression]
    ) -> tuple[dict[int, int], dict[int, int], set[int]]:
        """How often each node is used, the innermost level that uses it, and whether its text would be repeated."""
        innermost = self._kernel.ndim
        uses, needed, repeated = (
            {id(root): 1 for root in roots},
            {id(root): innermost for root in roots},
            set(),
        )
        for root in roots:
            uses[id(root)] = sum(other is root for other in roots)
        for node in nodes:
            operands = node.operands
            self._levels[id(node)] = self._kernel.level(
                node, [self._levels[id(o)] for o in operands]
            )
        for node in reversed(nodes):
            for operand in node.operands:
                uses[id(operand)] = uses.get(id(operand), 0) + 1
                needed[id(operand)] = max(needed.get(id(operand), 0), self._levels[id(node)])
                if isinstance(node, Call) and concrete(node.operation_dtype).kind == "c":
                    repeated.add(id(operand))
        return uses, needed, repeated

    def _write(self, node: Expression) -> None:
        value = self._text(node)
        if self._named(node, value):
            value = self._name(node, value)
        self._texts[id(node)] = value

    def _text(self, node: Expression) -> Value:
        if isinstance(node, Call):
            return printing.call(node, tuple(map(self.value, node.arguments)))
        if isinstance(node, Cast):
            source = concrete(node.operand.dtype)
            return printing.converted(self.value(node.operand), source, concrete(node.dtype))
        return self._kernel.leaf(node)

    def _named(self, node: Expression, value: Value) -> bool:
        if isinstance(node, Constant | Scalar):
            return False
        level = self._levels[id(node)]
        hoisted = level < self._needed.get(id(node), 0) and not self._flat
        if isinstance(node, Call | Cast):
            shared = self._uses[id(node)] > 1 or id(node) in self._repeated
            return hoisted or shared or max(len(text.code) for text in value) > _LONGEST
        # An array is read where it is used, but a value that stays the same along a row once per row.
        return hoisted

    def _name(self, node: Expression, value: Value) -> Value:
        dtype = concrete(node.dtype)
        level = self._kernel.ndim if self._flat else self._levels[id(node)]
        base = self._kernel.temporary()
        ends = ("",) if len(value) == 1 else ("_re", "_im")
        for text, end in zip(value, ends, strict=True):
            self.lines[level].append(
                f"const {printing.type_name(dtype)} {base}{end} = {text.code};"
            )
        return tuple(Text(base + end, ATOM) for end in ends)


# ---- the kernel


class _Kernel:
    def __init__(self, program: Program, aliased: bool) -> None:
        self.program = program
        self.ndim = program.ndim
        self._qualifier = "" if aliased else "restrict "
        self._names = _Names()
        self._loops = [
            self._names.take(name)
            for name in (("i", "j", "k") if self.ndim <= 3 else "") or self._many()
        ]
        self._loops = self._loops[: self.ndim]
        self._scalars = {name: self._names.take(name) for name, _ in program.scalars}
        self._arrays = [self._names.take(array.name) for array in program.arrays]
        self._origins = [self._names.take(f"{name}_origin") for name in self._arrays]
        self._strides = [
            [self._names.take(f"{name}_s{axis}") for axis in range(self._stride_count(number))]
            for number, name in enumerate(self._arrays)
        ]
        self._rows: dict[tuple[int, tuple[int, ...], str], str] = {}
        self._tables: dict[Table, str] = {}
        self._starts: set[int] = set()
        self._count = 0
        self.reductions = [accumulators(reduction) for reduction in program.reductions]

    def _many(self) -> list[str]:
        return [f"i{axis}" for axis in range(self.ndim)]

    def _stride_count(self, parameter: int) -> int:
        """Strides handed to the kernel: all but the last, which is one element."""
        array = self.program.arrays[parameter]
        axes = 1 if array.staggered is None else self.ndim
        return len(array.components) + axes - 1

    # -- leaves of expressions

    def temporary(self) -> str:
        self._count += 1
        return self._names.take(f"t{self._count}")

    def level(self, node: Expression, operands: Sequence[int]) -> int:
        """The loop level at which a node can be computed."""
        if isinstance(node, Read):
            return self.ndim if node.axis is None else node.axis + 1
        if isinstance(node, Index | Coordinate | Spacing):
            return node.axis + 1
        return max(operands, default=0)

    def leaf(self, node: Expression) -> Value:
        if isinstance(node, Constant):
            return printing.literal(node.value, concrete(node.dtype))
        if isinstance(node, Scalar):
            name = self._scalars[node.name]
            return (
                (Text(f"{name}_re"), Text(f"{name}_im")) if node.dtype is complex else (Text(name),)
            )
        if isinstance(node, Read):
            return self._read(node)
        if isinstance(node, Index):
            return self._entry(("index", node.axis, False))
        if isinstance(node, Coordinate):
            return self._entry(("coordinate", node.axis, node.staggered))
        if isinstance(node, Spacing):
            return self._entry(("spacing", node.axis, node.staggered))
        raise TypeError(node)

    def _entry(self, table: Table) -> Value:
        kind, axis, staggered = table
        if table not in self._tables:
            self._tables[table] = self._names.take(f"{_TABLE_NAMES[kind, staggered]}_{axis}")
        return (Text(f"{self._tables[table]}[{self._loops[axis]}]"),)

    def _read(self, node: Read) -> Value:
        strides = self._strides[node.parameter]
        if node.axis is not None:
            name = self._origins[node.parameter]
            place = self._place(node.axis, node.relation, node.offsets[0])
        else:
            name = self._row(node.parameter, node.component, node.relation)
            place = self._place(self.ndim - 1, node.relation, node.offsets[-1])
            grid = strides[len(node.component) :]
            place += "".join(
                _signed(offset, stride)
                for offset, stride in zip(node.offsets, grid, strict=False)
                if offset
            )
        element = f"{name}[{place}]"
        dtype = self.program.arrays[node.parameter].dtype
        if dtype.kind == "c":
            return (Text(f"{element}.re"), Text(f"{element}.im"))
        return (Text(element),)

    def _place(self, axis: int, relation: str, offset: int) -> str:
        """The index along one axis that a point reads, in the array's own numbering."""
        end = "" if offset == 0 else f" + {offset}" if offset > 0 else f" - {-offset}"
        return self._related(axis, relation) + end

    def _related(self, axis: int, relation: str) -> str:
        loop = self._loops[axis]
        if relation == FINE:
            return f"2 * {loop}"
        if relation == COARSE:
            self._starts.add(axis)
            return f"(({loop} + start_{axis}) >> 1)"
        return loop

    def _row(self, parameter: int, component: tuple[int, ...], relation: str) -> str:
        key = (parameter, component, relation)
        if key not in self._rows:
            name = self._arrays[parameter]
            if component:
                name = self._names.take(name + "_".join(map(str, component)))
            self._rows[key] = name
        return self._rows[key]

    # -- the text

    def code(self) -> Code:
        several = len(self.program.stores) > 1
        symbol = "kernel_" + re.sub(r"[^0-9A-Za-z_]", "_", self.program.name)
        functions = [self._function(symbol, masked=False, several=several)]
        if several:
            functions.insert(0, self._function(f"{symbol}_masked", masked=True, several=True))
        text = "\n".join(functions)
        head = f"/* {self.program.name}: {self._describe()} */\n"
        return Code(
            head + preamble.text(text) + "\n" + text,
            symbol,
            tuple(self._tables),
            tuple(self.reductions),
        )

    def _describe(self) -> str:
        arrays = ", ".join(
            f"{array.name} {array.dtype}{list(array.components) if array.components else ''}"
            for array in self.program.arrays
        )
        return f"{self.ndim} axes; {arrays}"

    def _function(self, symbol: str, *, masked: bool, several: bool) -> str:
        inner = _Loops(self, masked=masked).write()
        text = _Lines()
        if masked:
            text.add("__attribute__((cold))")
        text.open(
            f"{'static ' if masked else ''}void {symbol}(void *const *memory, const int64_t *layout, "
            "const union scalar *scalars,\n    const int64_t *box, void *const *results)"
        )
        if several and not masked:
            every = (1 << len(self.program.stores)) - 1
            text.open(f"if ((box[{2 * self.ndim}] & {every}) != {every})")
            text.add(f"{symbol}_masked(memory, layout, scalars, box, results);", "return;")
            text.close()
        elif self.program.stores and not masked:
            text.add(f"if (!(box[{2 * self.ndim}] & 1)) return;")
        self._prologue(text, inner, masked)
        text.lines += inner
        text.close()
        return "\n".join(text.lines) + "\n"

    def _prologue(self, text: _Lines, inner: Sequence[str], masked: bool) -> None:
        """Declarations of what the loops use; addresses are those of local index 0."""
        words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(inner)))
        position = 0
        for number, array in enumerate(self.program.arrays):
            self._declare_array(text, number, words)
            for stride in self._strides[number]:
                if stride in words:
                    text.add(f"const int64_t {stride} = layout[{position}];")
                position += 1
        for number, (table, name) in enumerate(self._tables.items()):
            if name in words:
                kind = "int64_t" if table[0] == "index" else "double"
                text.add(
                    f"const {kind} *restrict {name} = memory[{len(self.program.arrays) + number}];"
                )
        for axis in sorted(self._starts):
            if f"start_{axis}" in words:
                text.add(f"const int64_t start_{axis} = box[{2 * self.ndim + 2 + axis}];")
        self._declare_scalars(text, words)
        for axis, loop in enumerate(self._loops):
            text.add(
                f"const int64_t {loop}_begin = box[{2 * axis}], {loop}_end = box[{2 * axis + 1}];"
            )
        if masked:
            text.add(f"const int64_t mask = box[{2 * self.ndim}];")

    def _declare_array(self, text: _Lines, number: int, words: set[str]) -> None:
        origin, array = self._origins[number], self.program.arrays[number]
        if origin not in words:
            return
        written = any(store.parameter == number for store in self.program.stores)
        kind = ("" if written else "const ") + printing.element_name(array.dtype)
        text.add(
            f"{kind} *{'restrict ' if array.staggered is None else ''}{origin} = memory[{number}];"
        )

    def _declare_scalars(self, text: _Lines, words: set[str]) -> None:
        for number, (name, kind) in enumerate(self.program.scalars):
            c_name = self._scalars[name]
            if kind is complex and {f"{c_name}_re", f"{c_name}_im"} & words:
                parts = f"{c_name}_re = scalars[{number}].real[0], {c_name}_im = scalars[{number}].real[1]"
                text.add(f"const double {parts};")
            elif c_name in words:
                member = "real[0]" if kind is float else "integer"
                c_type = printing.type_name(concrete(kind))
                text.add(f"const {c_type} {c_name} = scalars[{number}].{member};")

    def row_pointers(self, words: set[str]) -> Iterator[str]:
        """Pointers to the rows that a line of points reads and writes."""
        for (parameter, component, relation), name in self._rows.items():
            if name not in words:
                continue
            array, strides = self.program.arrays[parameter], self._strides[parameter]
            written = any(
                s.parameter == parameter and s.component == component for s in self.program.stores
            )
            terms = [
                f"{index} * {stride}" if index > 1 else stride
                for index, stride in zip(component, strides)
                if index
            ]
            for axis, stride in enumerate(strides[len(component) :]):
                terms.append(f"{self._related(axis, relation)} * {stride}")
            place = " + ".join([self._origins[parameter], *terms])
            kind = ("" if written else "const ") + printing.element_name(array.dtype)
            yield f"{kind} *{self._qualifier}{name} = {place};"

    def target(self, number: int) -> str:
        """The element that store `number` writes."""
        store = self.program.stores[number]
        return f"{self._row(store.parameter, store.component, 'same')}[{self._loops[-1]}]"

    def take(self, wish: str) -> str:
        return self._names.take(wish)

    @property
    def loops(self) -> list[str]:
        return self._loops

    def mark_start(self, axis: int) -> None:
        self._starts.add(axis)


class _Loops:
    """The loops of one function: over chunks, axes, strips and points."""

    def __init__(self, kernel: _Kernel, *, masked: bool) -> None:
        self.kernel = kernel
        self.program = kernel.program
        self.masked = masked
        self.text = _Lines(depth=1)
        self.strips = [
            (number, part, f"{name}")
            for number, group in enumerate(kernel.reductions)
            for part, name in enumerate(self._strip_names(number, len(group)))
        ]

    def _strip_names(self, number: int, parts: int) -> list[str]:
        return [
            f"strip{number}" if parts == 1 else f"strip{number}_{end}"
            for end in ("re", "im")[:parts]
        ]

    def write(self) -> list[str]:
        if self.masked:
            outer, point = [[] for _ in range(self.kernel.ndim + 1)], self._masked_point()
        else:
            outer, point = self._whole_point()
        words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(point)))
        pointers = list(self.kernel.row_pointers(words))
        outer[self.kernel.ndim - 1] = pointers + outer[self.kernel.ndim - 1]
        if self.strips:
            self._chunks(outer, point)
        else:
            self._nest(outer, point)
        return self.text.lines

    # -- what happens at a point

    def _whole_point(self) -> tuple[list[list[str]], list[str]]:
        roots = [store.value for store in self.program.stores]
        body = _Body(self.kernel, [*roots, *(r.value for r in self.program.reductions)])
        lines = list(body.lines[-1])
        lines += self._collect(body, "")
        lines += self._stores(body)
        return body.lines[:-1], lines

    def _stores(self, body: _Body) -> list[str]:
        """Writes of all outputs; several values are computed before the first is written."""
        before: list[str] = []
        after: list[str] = []
        for number, store in enumerate(self.program.stores):
            dtype = self.program.arrays[store.parameter].dtype
            value = printing.converted(body.value(store.value), concrete(store.value.dtype), dtype)
            targets = self._targets(number, dtype)
            for text, target in zip(value, targets, strict=True):
                if len(self.program.stores) > 1 or len(targets) > 1:
                    name = self.kernel.take(f"new_{number}")
                    before.append(f"const {printing.type_name(dtype)} {name} = {text.code};")
                    after.append(f"{target} = {name};")
                else:
                    after.append(f"{target} = {text.code};")
        return before + after

    def _targets(self, number: int, dtype: np.dtype[Any]) -> list[str]:
        element = self.kernel.target(number)
        return [f"{element}.re", f"{element}.im"] if dtype.kind == "c" else [element]

    def _collect(self, body: _Body, place: str) -> list[str]:
        """Values of the reductions, into their strips."""
        lines = []
        for number, part, strip in self.strips:
            reduction = self.program.reductions[number]
            accumulator = self.kernel.reductions[number][part]
            dtype = concrete(reduction.value.dtype)
            text = body.value(reduction.value)[part]
            kind = _strip_type(accumulator)
            (cast,) = printing.converted((text,), printing.part_type(dtype), kind)
            lines.append(f"{strip}[{place or 'place'}] = {cast.code};")
        return lines

    def _masked_point(self) -> list[str]:
        text = _Lines()
        names: list[list[tuple[str, str]]] = []
        for number, store in enumerate(self.program.stores):
            dtype = self.program.arrays[store.parameter].dtype
            targets = self._targets(number, dtype)
            names.append([(self.kernel.take(f"new_{number}"), target) for target in targets])
            text.add(*(f"{printing.type_name(dtype)} {name} = 0;" for name, _ in names[-1]))
        for number, store in enumerate(self.program.stores):
            reduced = [r.value for r in self.program.reductions] if number == 0 else []
            body = _Body(self.kernel, [store.value, *reduced], flat=True)
            text.open(f"if (mask & {1 << number})")
            text.add(*body.lines[-1])
            dtype = self.program.arrays[store.parameter].dtype
            value = printing.converted(body.value(store.value), concrete(store.value.dtype), dtype)
            text.add(
                *(
                    f"{name} = {part.code};"
                    for (name, _), part in zip(names[number], value, strict=True)
                )
            )
            if number == 0 and self.strips:
                text.add(*self._collect(body, "count"), "count++;")
            text.close()
        for number, pairs in enumerate(names):
            writes = " ".join(f"{target} = {name};" for name, target in pairs)
            text.add(
                f"if (mask & {1 << number}) {{ {writes} }}"
                if len(pairs) > 1
                else f"if (mask & {1 << number}) {writes}"
            )
        return text.lines

    # -- loops

    def _nest(self, outer: list[list[str]], point: list[str]) -> None:
        """Plain loops over all axes, the first shared among threads."""
        text, last = self.text, self.kernel.ndim - 1
        text.add(*outer[0])
        for axis in range(last):
            if axis == 0 and not self.masked:
                text.add(
                    f"#pragma omp parallel for schedule(static) if ({self._points()} > {_PARALLEL_POINTS})"
                )
            self._loop(axis)
            text.add(*outer[axis + 1])
        loop = self.kernel.loops[last]
        self._line(f"{loop}_begin", f"{loop}_end", point, alone=last == 0)
        for _ in range(last):
            text.close()

    def _points(self) -> str:
        return " * ".join(f"({loop}_end - {loop}_begin)" for loop in self.kernel.loops)

    def _loop(self, axis: int, begin: str = "", end: str = "") -> None:
        loop = self.kernel.loops[axis]
        first, stop = begin or f"{loop}_begin", end or f"{loop}_end"
        self.text.open(f"for (int64_t {loop} = {first}; {loop} < {stop}; {loop}++)")

    def _line(self, begin: str, end: str, point: Iterable[str], *, alone: bool = False) -> None:
        """The innermost loop over points from begin to end, or every other one of them."""
        text, loop = self.text, self.kernel.loops[-1]
        if not self.masked:
            threads = (
                f"parallel for simd if ({end} - {begin} > {_PARALLEL_POINTS})" if alone else "simd"
            )
            pragma = f"#pragma omp {threads}"
        else:
            pragma = ""
        if self.program.colours == 1:
            lines = [f"for (int64_t {loop} = {begin}; {loop} < {end}; {loop}++)"]
            setting = (
                [f"const int64_t place = {loop} - {begin};"]
                if self.strips and not self.masked
                else []
            )
        else:
            others = " + ".join([*(f"{name}" for name in self.kernel.loops[:-1]), begin])
            colour = f"box[{2 * self.kernel.ndim + 1}]"
            text.add(f"const int64_t {loop}_first = {begin} + (({others} + {colour}) & 1);")
            lines = [f"for (int64_t place = 0; place < ({end} - {loop}_first + 1) / 2; place++)"]
            setting = [f"const int64_t {loop} = {loop}_first + 2 * place;"]
        if pragma:
            text.add(pragma)
        text.open(lines[0])
        text.add(*setting, *point)
        text.close()

    def _chunks(self, outer: list[list[str]], point: list[str]) -> None:
        """Loops of a kernel with reductions: fixed chunks of the first axis, each with its own accumulators."""
        text, first = self.text, self.kernel.loops[0]
        text.add(*outer[0])
        text.add(f"const int64_t extent = {first}_end - {first}_begin;")
        text.add(f"const int64_t chunks = extent < {CHUNKS} ? extent : {CHUNKS};")
        for number, part, _ in self.strips:
            accumulator = self.kernel.reductions[number][part]
            text.add(f"{_c_type(accumulator)} part{number}_{part}[{CHUNKS}][{accumulator.length}];")
        text.add(
            f"#pragma omp parallel for schedule(static) if ({self._points()} > {_PARALLEL_POINTS})"
        )
        text.open("for (int64_t chunk = 0; chunk < chunks; chunk++)")
        for number, part, _ in self.strips:
            text.add(*_cleared(self.program.reductions[number], f"part{number}_{part}[chunk]"))
        self._chunk(outer, point)
        text.close()
        text.open("for (int64_t chunk = 0; chunk < chunks; chunk++)")
        for number, part, _ in self.strips:
            group = sum(len(g) for g in self.kernel.reductions[:number]) + part
            accumulator = self.kernel.reductions[number][part]
            total = f"(({_c_type(accumulator)} *)results[{group}])"
            text.add(
                *_merged(
                    self.program.reductions[number],
                    accumulator,
                    total,
                    f"part{number}_{part}[chunk]",
                )
            )
        text.close()

    def _chunk(self, outer: list[list[str]], point: list[str]) -> None:
        text, last = self.text, self.kernel.ndim - 1
        first, inner = self.kernel.loops[0], self.kernel.loops[-1]
        begin = f"{first}_begin + extent * chunk / chunks"
        end = f"{first}_begin + extent * (chunk + 1) / chunks"
        low, high = f"{inner}_begin", f"{inner}_end"
        if last == 0:
            low, high = "chunk_begin", "chunk_end"
            text.add(f"const int64_t chunk_begin = {begin}, chunk_end = {end};")
        for axis in range(last):
            self._loop(axis, *((begin, end) if axis == 0 else ()))
            text.add(*outer[axis + 1])
        text.open(f"for (int64_t strip = {low}; strip < {high}; strip += {STRIP})")
        text.add(f"const int64_t strip_end = strip + {STRIP} < {high} ? strip + {STRIP} : {high};")
        for number, part, name in self.strips:
            kind = printing.type_name(_strip_type(self.kernel.reductions[number][part]))
            text.add(f"{kind} {name}[{STRIP}];")
        if self.masked:
            text.add("int64_t count = 0;")
        self._line("strip", "strip_end", point)
        if not self.masked:
            text.add(self._counted())
        for number, part, name in self.strips:
            text.add(self._added(number, part, name))
        text.close()
        for _ in range(last):
            text.close()

    def _counted(self) -> str:
        if self.program.colours == 1:
            return "const int64_t count = strip_end - strip;"
        loop = self.kernel.loops[-1]
        return f"const int64_t count = (strip_end - {loop}_first + 1) / 2;"

    def _added(self, number: int, part: int, name: str) -> str:
        reduction, accumulator = (
            self.program.reductions[number],
            self.kernel.reductions[number][part],
        )
        total = f"part{number}_{part}[chunk]"
        if accumulator.length == LENGTH:
            return f"exact_add({total}, {name}, count);"
        return f"add_{reduction.kind}_{accumulator.dtype.name}({total}, {name}, count);"


def _strip_type(accumulator: Accumulator) -> np.dtype[Any]:
    return np.dtype(np.float64) if accumulator.length == LENGTH else accumulator.dtype


def _c_type(accumulator: Accumulator) -> str:
    return printing.type_name(accumulator.dtype)


def _cleared(reduction: Reduction, name: str) -> list[str]:
    accumulator = accumulators(reduction)[0]
    if accumulator.length != 2:
        return [f"memset({name}, 0, sizeof {name});"]
    (identity,) = printing.literal(accumulator.identity, accumulator.dtype)
    return [f"{name}[0] = {identity.code}, {name}[1] = 0;"]


def _merged(reduction: Reduction, accumulator: Accumulator, total: str, part: str) -> list[str]:
    if accumulator.length == LENGTH:
        return [
            f"for (int64_t l = 0; l < EXACT_LENGTH; l++) {total}[l] += {part}[l];",
            f"exact_carry({total});",
        ]
    if accumulator.length == 1:
        return [f"{total}[0] += {part}[0];"]
    sign = "<" if reduction.kind == "min" else ">"
    return [
        f"{total}[0] = {part}[0] {sign} {total}[0] ? {part}[0] : {total}[0];",
        f"{total}[1] = {part}[1] != 0 ? 1 : {total}[1];",
    ]


def _signed(offset: int, stride: str) -> str:
    """A multiple of a stride, to be appended to an index."""
    return f" {'-' if offset < 0 else '+'} {stride if abs(offset) == 1 else f'{abs(offset)} * {stride}'}"
