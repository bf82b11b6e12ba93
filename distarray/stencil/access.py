"""The rules of array access in a kernel: components, offsets, related grids, writes. Pure."""

from __future__ import annotations

from operator import index as as_index
from typing import Any, NoReturn

from distarray.layout import Offsets
from distarray.stencil.expression import COARSE, FINE, LEVELS, SAME, Read, intern
from distarray.stencil.symbols import Symbolic, SymbolicArray, Value
from distarray.stencil.values import ValueTracer, short


class Tracer(ValueTracer):
    """A `ValueTracer` that also knows arrays: how they may be indexed, read and written."""

    def relate(self, array: SymbolicArray, relation: str) -> None:
        """Check that an array lies on the grid that `relation` names."""
        level = array.parameter.level
        if LEVELS[relation] == level or (
            array.parameter.profile_axis is not None and relation == SAME
        ):
            return
        name = array.parameter.name
        if relation != SAME:
            wanted = "finer" if relation == FINE else "coarser"
            self.fail(
                f"reads {name}.{relation}, but {name} does not lie on the next {wanted} grid; "
                "pass an array of that grid."
            )
        found, cure = ("finer", FINE) if level > 0 else ("coarser", COARSE)
        self.fail(
            f"uses {name}, which lies on a {found} grid, as if it lay on the kernel's own; read "
            f"{name}.{cure}[...]."
        )

    def component_count(self, array: SymbolicArray) -> int:
        depth = len(array.component)
        if depth == len(array.parameter.components):
            self.fail(
                f"asks for the length of {array.parameter.name}, which has no further components; "
                "use .ndim for the axes."
            )
        return array.parameter.components[depth]

    def subscript(self, array: SymbolicArray, key: Any) -> SymbolicArray | Value:
        """`array[key]`: a component while some are left to choose, then the value at offsets."""
        left = array.parameter.components[len(array.component) :]
        if not left or key is Ellipsis:
            return self.read(array, self.offsets(array, key))
        chosen = key if isinstance(key, tuple) else (key,)
        shape = array.parameter.components
        if len(chosen) > len(left):
            self.fail(
                f"indexes {array.parameter.name} with {key!r} before choosing one of its "
                f"components {shape}; write {self.example(array)}."
            )
        numbers = tuple(self.integer(array, number) for number in chosen)
        if not all(0 <= number < extent for number, extent in zip(numbers, left, strict=False)):
            self.fail(
                f"chooses component {key!r} of {array.parameter.name}, which has components "
                f"{shape}; count from 0."
            )
        return array.select(numbers)

    def offsets(self, array: SymbolicArray, key: Any) -> Offsets:
        """The offsets a subscript names, one per axis."""
        count = self.ndim if array.parameter.profile_axis is None else 1
        if key is Ellipsis:
            return (0,) * count
        found = key if isinstance(key, tuple) else (key,)
        if len(found) != count:
            self.wrong_count(array, key, count)
        return tuple(self.integer(array, offset) for offset in found)

    def wrong_count(self, array: SymbolicArray, key: Any, count: int) -> NoReturn:
        what = "axis" if count == 1 else "axes"
        self.fail(
            f"indexes {array.parameter.name} with {key!r}, which needs one offset for each of "
            f"{count} {what}; write {self.example(array)}."
        )

    def integer(self, array: SymbolicArray, number: Any) -> int:
        """An offset or a component index."""
        if hasattr(number, "__index__") and not isinstance(number, (bool, Symbolic)):
            return as_index(number)
        return self.fail(
            f"indexes {array.parameter.name} with {short(number)}; offsets and components are "
            "integers known while tracing."
        )

    def require_component(self, array: SymbolicArray) -> None:
        if len(array.component) < len(array.parameter.components):
            self.fail(
                f"uses {array.parameter.name} without choosing one of its components "
                f"{array.parameter.components}; write {self.example(array)}."
            )

    def shift(self, array: SymbolicArray, axis: Any, steps: Any) -> Value:
        number = self.axis_number(axis)
        profile = array.parameter.profile_axis
        if profile is not None and number != profile:
            self.fail(
                f"shifts the profile {array.parameter.name} along axis {number}; it runs along "
                f"axis {profile}."
            )
        axes = range(self.ndim) if profile is None else (profile,)
        steps = self.integer(array, steps)
        return self.read(array, tuple(steps if a == number else 0 for a in axes))

    def read(self, array: SymbolicArray, offsets: Offsets) -> Value:
        """The value of the array at offsets; the written one where this kernel has written it."""
        self.require_component(array)
        self.relate(array, array.relation)
        target = array.position, array.component
        parameter = array.parameter
        if target in self.writes:
            self.check_in_place(array, offsets)
            if not any(offsets):
                return Value(self, self.writes[target][0])
        self.reads.setdefault(target, {}).setdefault(offsets, self.line())
        node = intern(
            Read,
            parameter.dtype,
            array.position,
            array.component,
            offsets,
            array.relation,
            parameter.profile_axis,
        )
        return Value(self, node)

    def check_in_place(self, array: SymbolicArray, offsets: Offsets) -> None:
        """Refuse a read at an offset of an array that the kernel writes."""
        if not any(offsets) or self.in_place:
            return
        name = array.parameter.name + "".join(f"[{number}]" for number in array.component)
        shown = "[" + ", ".join(map(str, offsets)) + "]"
        if self.colours == 1:
            self.fail(
                f"reads {name}{shown} and writes {name}: neighbours may or may not have been "
                "written yet; write to another array, or use @da.stencil(colours=2)."
            )
        if sum(offsets) % 2 == 0:
            self.fail(
                f"reads {name}{shown}, a point of the colour that is being written; with colours=2 "
                "read written arrays at zero or at offsets of odd sum."
            )

    def assign(self, array: SymbolicArray, key: Any, value: Any) -> None:
        """`array[key] = value`: note a store, the last one winning."""
        name = array.parameter.name
        if array.parameter.profile_axis is not None:
            self.fail(
                f"writes the profile {name}; profiles are read only, write to an array of the grid."
            )
        if array.parameter.level or array.relation != SAME:
            self.fail(
                f"writes {name}, which lies on another grid; write to arrays of the kernel's own "
                "grid only."
            )
        self.require_component(array)
        offsets = self.offsets(array, key)
        if any(offsets):
            self.fail(
                f"writes {name}[{', '.join(map(str, offsets))}]; write at offset zero only, as in "
                f"{self.example(array)} = value."
            )
        node = self.astype(value, array.parameter.dtype).node
        target = array.position, array.component
        for seen in self.reads.get(target, {}):
            self.check_in_place(array, seen)
        self.writes[target] = node, self.line()
