"""The assignments that compute expressions in C, each at the loop level it needs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distarray.stencil import printing
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Call, Cast, Constant, Expression, Scalar, walk
from distarray.stencil.frame import Frame
from distarray.stencil.printing import Text, Value

#: Longer texts get a name of their own.
_LONGEST = 72


class Body:
    """Texts of some expressions, and the assignments that come before their use.

    A value gets a name if it is used more than once, if it stays the same along inner loops, or if
    its text is long. With `flat` all assignments are at the innermost level, within a condition.

    Attributes
    ----------
    lines : list of lists of str
        The assignments at each level: 0 outside all loops, a + 1 inside the loop of axis a.
    """

    def __init__(self, frame: Frame, values: Sequence[Expression], *, flat: bool = False) -> None:
        self._frame = frame
        self._flat = flat
        self.lines: list[list[str]] = [[] for _ in range(frame.ndim + 1)]
        self._texts: dict[Expression, Value] = {}
        self._levels: dict[Expression, int] = {}
        self._uses: dict[Expression, int] = {}
        self._innermost: dict[Expression, int] = {}
        self._repeated: set[Expression] = set()
        nodes = list(walk(values))
        for node in nodes:
            self._levels[node] = frame.level(node, [self._levels[o] for o in node.operands])
        for value in values:
            self._demand(value, frame.ndim)
        for node in nodes:
            self._demand_operands(node)
        for node in nodes:
            self._write(node)

    def value(self, node: Expression) -> Value:
        """The text of an expression, at the innermost level."""
        return self._texts[node]

    def _demand(self, node: Expression, level: int) -> None:
        self._uses[node] = self._uses.get(node, 0) + 1
        self._innermost[node] = max(self._innermost.get(node, 0), level)

    def _demand_operands(self, node: Expression) -> None:
        for operand in node.operands:
            self._demand(operand, self._levels[node])
            # Each part of a complex result repeats the operands' texts.
            if isinstance(node, Call) and as_dtype(node.operation_dtype).kind == "c":
                self._repeated.add(operand)

    def _write(self, node: Expression) -> None:
        value = self._text(node)
        self._texts[node] = self._named(node, value) if self._wants_name(node, value) else value

    def _text(self, node: Expression) -> Value:
        if isinstance(node, Call):
            return self._frame.call(node, tuple(map(self.value, node.arguments)))
        if isinstance(node, Cast):
            source = as_dtype(node.operand.dtype)
            return printing.converted(self.value(node.operand), source, as_dtype(node.dtype))
        return self._frame.leaf(node)

    def _wants_name(self, node: Expression, value: Value) -> bool:
        if isinstance(node, (Constant, Scalar)):
            return False
        if self._levels[node] < self._innermost[node] and not self._flat:
            return True
        shared = self._uses[node] > 1 or node in self._repeated
        if not isinstance(node, (Call, Cast)):
            return self._frame.names_read(node, shared=shared)
        return shared or max(len(text.code) for text in value) > _LONGEST

    def _named(self, node: Expression, value: Value) -> Value:
        """Assign the value to a variable; gives the variable's text."""
        level = self._frame.ndim if self._flat else self._levels[node]
        base = self._frame.temporary()
        names = [base] if len(value) == 1 else [f"{base}_re", f"{base}_im"]
        kind = printing.type_name(as_dtype(node.dtype))
        for text, name in zip(value, names, strict=True):
            self.lines[level].append(f"const {kind} {name} = {text.code};")
        return tuple(map(Text, names))
