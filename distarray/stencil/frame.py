"""What the text of a C kernel refers to: arrays, strides, tables, scalars and loop variables. Pure.

The kernel's function is handed

* `memory`: the address of local index 0, component 0 of each array, then of local index 0 of each
  table (positions, widths and global indices along an axis);
* `layout`: the strides of each array in elements, all but the last, which is 1;
* `scalars`: a number each;
* `box`: first and last index along each axis, the mask of active outputs, the colour, and the
  global index of local index 0 along each axis;
* `results`: an array for each accumulator.

A row of an array is addressed by a pointer of its own, so that reads look as in the kernel:
`u[k + u_s0]` is `u[1, 0, 0]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distarray.stencil import printing
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import (
    COARSE,
    FINE,
    SAME,
    Call,
    Constant,
    Coordinate,
    Expression,
    Index,
    Program,
    Read,
    Scalar,
    Spacing,
    Store,
)
from distarray.stencil.printing import Text, Value
from distarray.stencil.writing import Names

#: (kind, axis, staggered): a 1-D array over the local indices of an axis.
Table = tuple[str, int, bool]
_TABLE_NAMES = {
    ("index", False): "index",
    ("coordinate", False): "centre",
    ("coordinate", True): "point",
    ("spacing", False): "width",
    ("spacing", True): "distance",
}
_LOOPS = ("i", "j", "k")

#: One component of an array parameter, read with a relation to the kernel's cells.
Row = tuple[int, tuple[int, ...], str]


class Frame:
    """Names and declarations of one kernel's text.

    Rows and tables are declared once the lines that use them are written. `aliased` says that two
    parameters may be one array, so that no pointer may be called restrict. No variable takes a word
    that is `reserved`.
    """

    def __init__(
        self, program: Program, *, aliased: bool, reserved: frozenset[str] = frozenset()
    ) -> None:
        self.program = program
        self.ndim = program.ndim
        self.names = Names(reserved)
        wishes = _LOOPS if self.ndim <= len(_LOOPS) else [f"i{axis}" for axis in range(self.ndim)]
        self.loops = [self.names.take(wish) for wish in wishes][: self.ndim]
        self.tables: dict[Table, str] = {}
        self.aliased = aliased
        self._restrict = "" if aliased else "restrict "
        self._reserve()
        self._scalars = [self._scalar_names(name, kind) for name, kind in program.scalars]
        self._scalar_positions = {name: n for n, (name, _) in enumerate(program.scalars)}
        self._arrays = [self.names.take(array.name) for array in program.arrays]
        self._origins = [self.names.take(f"{name}_origin") for name in self._arrays]
        self._strides = [self._stride_names(number) for number in range(len(program.arrays))]
        self._rows: dict[Row, str] = {}
        self._temporaries = 0

    def _reserve(self) -> None:
        """Keep the words that the text itself uses from the kernel's parameters."""
        for axis, loop in enumerate(self.loops):
            for word in (f"{loop}_begin", f"{loop}_end", f"start_{axis}"):
                self.names.take(word)
        for number in range(2 * len(self.program.reductions)):
            for word in (
                f"part{number}",
                f"count{number}",
                f"strip{number}",
                f"strip{number}_re",
                f"strip{number}_im",
            ):
                self.names.take(word)

    def _scalar_names(self, name: str, kind: type) -> list[str]:
        """A variable for each part of a scalar."""
        ends = ("_re", "_im") if kind is complex else ("",)
        return [self.names.take(name + end) for end in ends]

    def _stride_names(self, parameter: int) -> list[str]:
        """Names for all strides but the last: those of the components, then of the axes."""
        array, name = self.program.arrays[parameter], self._arrays[parameter]
        axes = 1 if array.staggered is None else self.ndim
        wishes = [f"{name}_c{place}" for place in range(len(array.components))]
        wishes += [f"{name}_s{axis}" for axis in range(axes - 1)]
        return [self.names.take(wish) for wish in wishes]

    # ---- values

    def temporary(self) -> str:
        self._temporaries += 1
        return self.names.take(f"t{self._temporaries}")

    def level(self, node: Expression, operands: Sequence[int]) -> int:
        """The loops around a node: none at level 0, down to that of axis a at a + 1."""
        if isinstance(node, Read):
            return self.ndim if node.axis is None else node.axis + 1
        if isinstance(node, (Index, Coordinate, Spacing)):
            return node.axis + 1
        return max(operands, default=0)

    def leaf(self, node: Expression) -> Value:
        """The text of a node without operands."""
        match node:
            case Constant():
                return printing.literal(node.value, as_dtype(node.dtype))
            case Scalar():
                return tuple(map(Text, self._scalars[self._scalar_positions[node.name]]))
            case Index():
                return self._entry(("index", node.axis, False))
            case Coordinate():
                return self._entry(("coordinate", node.axis, node.staggered))
            case Spacing():
                return self._entry(("spacing", node.axis, node.staggered))
            case Read():
                return self._read(node)
        raise TypeError(f"A {type(node).__name__} has operands.")

    def _entry(self, table: Table) -> Value:
        kind, axis, staggered = table
        if table not in self.tables:
            self.tables[table] = self.names.take(f"{_TABLE_NAMES[kind, staggered]}_{axis}")
        return (Text(f"{self.tables[table]}[{self.loops[axis]}]"),)

    def _read(self, node: Read) -> Value:
        if node.axis is not None:
            name, axis = self._origins[node.parameter], node.axis
            moves = ""
        else:
            name, axis = self.row(node.parameter, node.component, node.relation), self.ndim - 1
            strides = self._strides[node.parameter][len(node.component) :]
            pairs = zip(node.offsets[:-1], strides, strict=True)
            moves = "".join(move(offset, stride) for offset, stride in pairs)
        place = self._place(node.parameter, axis, node.relation) + moves + move(node.offsets[-1])
        element = f"{name}[{place}]"
        ends = (".re", ".im") if self.program.arrays[node.parameter].dtype.kind == "c" else ("",)
        return tuple(Text(element + end) for end in ends)

    def _place(self, parameter: int, axis: int, relation: str) -> str:
        """The index along one axis of the cell that a point refers to."""
        loop = self.loops[axis]
        relation = self.program.arrays[parameter].along(axis, relation)
        if relation == FINE:
            return f"2 * {loop}"
        return f"(({loop} + start_{axis}) >> 1)" if relation == COARSE else loop

    def row(self, parameter: int, component: tuple[int, ...], relation: str = SAME) -> str:
        """The pointer to the row of a component that the innermost loop runs along."""
        key = (parameter, component, relation)
        if key not in self._rows:
            name = self._arrays[parameter]
            wish = name + "_".join(map(str, component))
            self._rows[key] = self.names.take(wish) if component else name
        return self._rows[key]

    def target(self, store: Store) -> str:
        """The element that a store writes."""
        return f"{self.row(store.parameter, store.component)}[{self.loops[-1]}]"

    def call(self, node: Call, operands: tuple[Value, ...]) -> Value:
        """The text of a function of some texts."""
        return printing.call(node, operands)

    def names_read(self, node: Expression, *, shared: bool) -> bool:
        """Whether a read gets a name; `shared` if it is used more than once.

        Neighbouring points read a coarser grid at places that do not follow from one another, for
        which GCC has vectors only where all points read, whatever a condition chooses then.
        """
        if not isinstance(node, Read) or node.axis is not None:
            return False
        array = self.program.arrays[node.parameter]
        return array.along(self.ndim - 1, node.relation) == COARSE

    # ---- declarations of what some lines use

    def row_declarations(self, used: frozenset[str]) -> Iterator[str]:
        for (parameter, component, relation), name in self._rows.items():
            if name in used:
                terms = [self._origins[parameter], *self._row_terms(parameter, component, relation)]
                kind = self._element(parameter, component)
                yield f"{kind} *{self._restrict}{name} = {' + '.join(terms)};"

    def _row_terms(
        self, parameter: int, component: tuple[int, ...], relation: str
    ) -> Iterator[str]:
        strides = self._strides[parameter]
        for index, stride in zip(component, strides, strict=False):
            if index:
                yield stride if index == 1 else f"{index} * {stride}"
        for axis, stride in enumerate(strides[len(component) :]):
            yield f"{self._place(parameter, axis, relation)} * {stride}"

    def _element(self, parameter: int, component: tuple[int, ...] | None = None) -> str:
        """The type of an array's elements, const unless this component (or any) is written."""
        written = any(
            store.parameter == parameter and component in (None, store.component)
            for store in self.program.stores
        )
        name = printing.element_name(self.program.arrays[parameter].dtype)
        return name if written else f"const {name}"

    def declarations(self, used: frozenset[str]) -> Iterator[str]:
        """What stands at the head of the function."""
        if printing.HIDDEN in used:
            yield f"const int64_t {printing.HIDDEN} = hidden_zero;"
        yield from self._array_declarations(used)
        first = len(self.program.arrays)
        for number, (table, name) in enumerate(self.tables.items()):
            if name in used:
                kind = "int64_t" if table[0] == "index" else "double"
                yield f"const {kind} *restrict {name} = memory[{first + number}];"
        for axis in range(self.ndim):
            if f"start_{axis}" in used:
                yield f"const int64_t start_{axis} = box[{2 * self.ndim + 2 + axis}];"
        yield from self._scalar_declarations(used)
        for axis, loop in enumerate(self.loops):
            bounds = f"{loop}_begin = box[{2 * axis}], {loop}_end = box[{2 * axis + 1}]"
            yield f"const int64_t {bounds};"

    def _array_declarations(self, used: frozenset[str]) -> Iterator[str]:
        position = 0
        for number, array in enumerate(self.program.arrays):
            origin, strides = self._origins[number], self._strides[number]
            if origin in used:
                restrict = "restrict " if array.staggered is None else ""
                yield f"{self._element(number)} *{restrict}{origin} = memory[{number}];"
            places = [
                f"{stride} = layout[{position + place}]"
                for place, stride in enumerate(strides)
                if stride in used
            ]
            if places:
                yield f"const int64_t {', '.join(places)};"
            position += len(strides)

    def _scalar_declarations(self, used: frozenset[str]) -> Iterator[str]:
        for number, (_, kind) in enumerate(self.program.scalars):
            names, place = self._scalars[number], f"scalars[{number}]"
            for part, name in enumerate(names):
                if name in used:
                    member = f"real[{part}]" if kind in (float, complex) else "integer"
                    c_type = printing.type_name(as_dtype(kind))
                    yield f"const {c_type} {name} = {place}.{member};"


def move(offset: int, stride: str = "") -> str:
    """An offset in elements or in multiples of a stride, to be appended to an index."""
    if not offset:
        return ""
    size = abs(offset)
    steps = stride if stride and size == 1 else f"{size} * {stride}" if stride else str(size)
    return f" {'-' if offset < 0 else '+'} {steps}"
