"""What the text of a CUDA kernel refers to. Pure.

A kernel's parameters are, in order,

* a pointer for each array: local index 0 of component 0, and for each table: local index 0;
* `scalars`, in device memory;
* `layout`, by value: the strides of each array in elements, all but the last, which is 1 unless the
  kernel is `strided`;
* `launch`, by value: what is computed; see `tiles`;
* `scratch`, in device memory, if there are reductions.

A thread addresses the element of its point by a pointer of its own, so that reads show the
direction: `u[u_s0]` is `u[1, 0, 0]` and `u[-1]` is `u[0, 0, -1]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from distarray.stencil import printing
from distarray.stencil.cuda.preamble import RESERVED
from distarray.stencil.cuda.windows import Window
from distarray.stencil.expression import SAME, Call, Expression, Program, Read, Store
from distarray.stencil.frame import Frame, move
from distarray.stencil.printing import Text, Value


class CudaFrame(Frame):
    """Names and declarations of one kernel's text.

    `index_type` is the C type that holds positions within the memory of an array.
    """

    def __init__(self, program: Program, *, aliased: bool, wide: bool, strided: bool) -> None:
        self.index_type = "int64_t" if wide else "int"
        self._strided = strided
        super().__init__(program, aliased=aliased, reserved=RESERVED)
        self._pointer = "*" if aliased else "*__restrict__ "
        self._windows: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Window] = {}

    def _reserve(self) -> None:
        for loop in self.loops:
            for word in (f"{loop}_begin", f"{loop}_end", f"{loop}_tiles"):
                self.names.take(word)
        for axis in range(self.ndim):
            self.names.take(f"start_{axis}")
        for number in range(2 * len(self.program.reductions)):
            for word in (f"part{number}", f"value{number}"):
                self.names.take(word)

    def _stride_names(self, parameter: int) -> list[str]:
        names = super()._stride_names(parameter)
        if self._strided:
            array, name = self.program.arrays[parameter], self._arrays[parameter]
            last = 0 if array.staggered is None else self.ndim - 1
            names.append(self.names.take(f"{name}_s{last}"))
        return names

    # ---- values

    def watch(self, windows: list[Window]) -> None:
        """Take the values of these columns from their variables from now on."""
        for window in windows:
            name = self.row(window.parameter, window.component)
            window.name_variables(self.names, name)
            self._windows[window.key] = window

    def call(self, node: Call, operands: tuple[Value, ...]) -> Value:
        return printing.call(node, operands, wrapped=True)

    def names_read(self, node: Expression, *, shared: bool) -> bool:
        return shared and isinstance(node, Read) and self._window(node) is None

    def target(self, store: Store) -> str:
        return f"{self.row(store.parameter, store.component)}[0]"

    def _window(self, node: Read) -> Window | None:
        if node.axis is not None or node.relation != SAME:
            return None
        return self._windows.get((node.parameter, node.component, node.offsets[1:]))

    def _read(self, node: Read) -> Value:
        window = self._window(node)
        if window is not None:
            return tuple(map(Text, window.variables(node.offsets[0])))
        if node.axis is not None:
            element = f"{self._origins[node.parameter]}[{self._profile_place(node, node.axis)}]"
        else:
            element = self.element(node.parameter, node.component, node.offsets, node.relation)
        return tuple(Text(element + end) for end in self.ends(node.parameter))

    def ends(self, parameter: int) -> tuple[str, ...]:
        """What follows an element's text for each of its parts."""
        return (".re", ".im") if self.program.arrays[parameter].dtype.kind == "c" else ("",)

    def element(
        self,
        parameter: int,
        component: tuple[int, ...],
        offsets: tuple[int, ...],
        relation: str = SAME,
    ) -> str:
        """The element at an offset from the thread's point."""
        name = self.row(parameter, component, relation)
        pairs = zip(offsets, self._axis_strides(parameter), strict=True)
        moves = "".join(move(offset, stride) for offset, stride in pairs)
        return f"{name}[{_leading(moves)}]"

    def _profile_place(self, node: Read, axis: int) -> str:
        place = self._place(node.parameter, axis, node.relation) + move(node.offsets[0])
        stride = self._axis_strides(node.parameter)[0]
        return f"({place}) * {stride}" if stride else place

    def _axis_strides(self, parameter: int) -> list[str]:
        """The stride along each axis, empty for 1."""
        array, names = self.program.arrays[parameter], self._strides[parameter]
        return [*names[len(array.components) :], *([] if self._strided else [""])]

    # ---- declarations of what some lines use

    def row_declarations(self, used: frozenset[str]) -> Iterator[str]:
        for (parameter, component, relation), name in self._rows.items():
            if name in used:
                kind = self._element(parameter, component)
                yield f"{kind} *{name} = {self._address(parameter, component, relation)};"

    def _address(self, parameter: int, component: tuple[int, ...], relation: str) -> str:
        origin, names = self._origins[parameter], self._strides[parameter]
        terms = [origin]
        for index, stride in zip(component, names, strict=False):
            if index:
                terms.append(stride if index == 1 else f"{index} * {stride}")
        places = [
            self._place(parameter, axis, relation) + (f" * {stride}" if stride else "")
            for axis, stride in enumerate(self._axis_strides(parameter))
        ]
        return " + ".join([*terms, f"({' + '.join(places)})"])

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Types and names of the pointers that the kernel is handed."""
        for number, origin in enumerate(self._origins):
            yield f"{self._element(number)} {self._pointer}", origin
        for table, name in self.tables.items():
            kind = "int64_t" if table[0] == "index" else "double"
            yield f"const {kind} *__restrict__ ", name

    def layout(self) -> list[str]:
        """Names of all strides."""
        return [name for names in self._strides for name in names]

    def declarations(self, used: frozenset[str]) -> Iterator[str]:
        for number, array in enumerate(self.program.arrays):
            for place, stride in enumerate(self._strides[number]):
                if stride in used:
                    kind = "int64_t" if place < len(array.components) else "index_t"
                    yield f"const {kind} {stride} = layout.{stride};"
        for axis in range(self.ndim):
            if f"start_{axis}" in used:
                yield f"const int64_t start_{axis} = launch.start[{axis}];"
        yield from self._scalar_declarations(used)


def _leading(moves: str) -> str:
    """Steps as they stand at the beginning of an index: `u_s0 - 1` for ` + u_s0 - 1`."""
    if not moves:
        return "0"
    return moves[3:] if moves.startswith(" + ") else "-" + moves[3:]
