"""What generated text does at one point: all values are computed before the first is written.
Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from distarray.stencil import printing
from distarray.stencil.accumulators import Accumulator
from distarray.stencil.body import Body
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Program, Reduction, Store
from distarray.stencil.frame import Frame
from distarray.stencil.printing import Text
from distarray.stencil.writing import Lines


class Point(ABC):
    """The lines for one point; `flat` if no assignment is to stand outside the innermost loop, and
    `program` if values are others than those of the frame's program.
    """

    def __init__(
        self,
        frame: Frame,
        accumulators: Sequence[Accumulator],
        *,
        flat: bool = False,
        program: Program | None = None,
    ) -> None:
        self._frame = frame
        self._program = program or frame.program
        self._accumulators = accumulators
        self._flat = flat

    def whole(self) -> tuple[list[list[str]], list[str]]:
        """Assignments outside the innermost loop, by level, and the lines within it."""
        values = [store.value for store in self._program.stores]
        reduced = [reduction.value for reduction in self._program.reductions]
        body = Body(self._frame, [*values, *reduced], flat=self._flat)
        lines = list(body.lines[-1])
        for number in range(len(reduced)):
            lines += self._collected(body, number, masked=False)
        direct = len(self._program.stores) == 1 and as_dtype(values[0].dtype).kind != "c"
        writes = []
        for number in range(len(values)):
            for target, text, kind in self._outputs(body, number):
                if direct:
                    writes.append(f"{target} = {text};")
                else:
                    name = self._frame.names.take(f"new_{number}")
                    lines.append(f"const {kind} {name} = {text};")
                    writes.append(f"{target} = {name};")
        return body.lines[:-1], lines + writes

    def masked(self) -> list[str]:
        """Each output that a bit of `mask` activates, from its own reads."""
        text, late = Lines(), Lines()
        count = len(self._program.stores)
        names = [
            None if self._at_once(number) else self._declared(text, number)
            for number in range(count)
        ]
        results: list[Store | Reduction] = [*self._program.stores, *self._program.reductions]
        for group in self._together():
            body = Body(self._frame, [results[number].value for number in group], flat=True)
            text.open(f"if (mask & {sum(1 << number for number in group)})")
            text.add(*body.lines[-1])
            for number in group:
                if number < count:
                    text.add(*self._kept(body, number, names[number], late))
                    continue
                if len(group) > 1:
                    text.open(f"if (mask & {1 << number})")
                text.add(*self._collected(body, number - count, masked=True))
                if len(group) > 1:
                    text.close()
            text.close()
        return text.lines + late.lines

    def _together(self) -> list[list[int]]:
        """Outputs and reductions, numbered by their bits of the mask, in groups that are computed
        if one of them is.
        """
        count = len(self._program.stores) + len(self._program.reductions)
        return [[number] for number in range(count)]

    def _kept(self, body: Body, number: int, names: list[str] | None, late: Lines) -> list[str]:
        """Lines that keep the value of an output under its names, for a write that goes to `late`;
        or that write it, if it has none.
        """
        if names is None:
            return self._written(body, number)
        parts = zip(self._targets(number), names, strict=True)
        writes = " ".join(f"{target} = {name};" for target, name in parts)
        late.add(f"if (mask & {1 << number}) {{ {writes} }}")
        pairs = zip(names, self._outputs(body, number), strict=True)
        return [f"{name} = {value};" for name, (_, value, _) in pairs]

    def _written(self, body: Body, number: int) -> list[str]:
        """The write of an output; of a complex one after both parts are computed."""
        outputs = self._outputs(body, number)
        if len(outputs) == 1:
            return [f"{target} = {value};" for target, value, _ in outputs]
        names = [self._frame.names.take(f"new_{number}") for _ in outputs]
        pairs = list(zip(names, outputs, strict=True))
        return [
            *(f"const {kind} {name} = {value};" for name, (_, value, kind) in pairs),
            *(f"{target} = {name};" for name, (target, _, _) in pairs),
        ]

    def _at_once(self, number: int) -> bool:
        """Whether an output may be written before other values under a mask are computed."""
        return False

    def _declared(self, text: Lines, number: int) -> list[str]:
        """Variables for the parts of an output."""
        dtype = self._program.arrays[self._program.stores[number].parameter].dtype
        names = [self._frame.names.take(f"new_{number}") for _ in self._targets(number)]
        text.add(f"{printing.type_name(dtype)} {', '.join(f'{name} = 0' for name in names)};")
        return names

    def _outputs(self, body: Body, number: int) -> list[tuple[str, str, str]]:
        """Element, value and type of each part of an output."""
        store = self._program.stores[number]
        dtype = self._program.arrays[store.parameter].dtype
        value = body.value(store.value)
        value = printing.converted(value, as_dtype(store.value.dtype), dtype)
        kind = printing.type_name(dtype)
        pairs = zip(self._targets(number), value, strict=True)
        return [(target, text.code, kind) for target, text in pairs]

    def _targets(self, number: int) -> list[str]:
        store = self._program.stores[number]
        element = self._frame.target(store)
        if self._program.arrays[store.parameter].dtype.kind == "c":
            return [f"{element}.re", f"{element}.im"]
        return [element]

    def _collected(self, body: Body, number: int, *, masked: bool) -> list[str]:
        """What becomes of the value of a reduction."""
        node = self._program.reductions[number].value
        part = printing.part_type(as_dtype(node.dtype))
        own = [(n, a) for n, a in enumerate(self._accumulators) if a.reduction == number]
        lines: list[str] = []
        for (place, accumulator), text in zip(own, body.value(node), strict=True):
            (value,) = printing.converted((text,), part, accumulator.strip_dtype)
            lines += self.collect(place, value, masked=masked)
        return lines

    @abstractmethod
    def collect(self, number: int, value: Text, *, masked: bool) -> list[str]:
        """Let the value of a reduction enter an accumulator; the languages differ in this."""
