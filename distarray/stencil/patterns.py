"""Which values of a kernel are those of a neighbouring point. Pure.

Expressions that are shifts of one another, as a flux through the face below a cell and that through
the face above it, share a *pattern* and differ in their *position*: along each axis the offset of
their lowest read, or None where the value is the same all along the axis. Coordinates and indices,
which are known of the point itself only, are always at position 0 along their axis, and so are
reads of a coarser grid, where the cell of the next point may be the same one: what contains one is
no shift of anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distarray.stencil.expression import (
    COARSE,
    FINE,
    Call,
    Cast,
    Coordinate,
    Expression,
    ExpressionType,
    Index,
    Program,
    Read,
    Spacing,
    intern,
    walk,
)

Position = tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Pattern:
    """What shifts of one another have in common.

    Attributes
    ----------
    node : Expression
        One of them.
    operands : tuple of (Pattern, position)
        Positions count from that of the pattern.
    fixed : bool
        Whether it reads what the kernel writes.
    """

    node: Expression
    operands: tuple[Placed, ...]
    fixed: bool
    _at: dict[Position, tuple[Placed, ...]] = field(default_factory=dict)

    def at(self, position: Position) -> tuple[Placed, ...]:
        """The operands of the shift at a position, with theirs."""
        found = self._at.get(position)
        if found is None:
            pairs = ((operand, added(position, moved)) for operand, moved in self.operands)
            found = self._at[position] = tuple(pairs)
        return found


def added(position: Position, moved: Position) -> Position:
    """A position, counted from another one, as such."""
    return tuple(None if m is None else (p or 0) + m for p, m in zip(position, moved, strict=True))


#: An expression: its pattern and its position.
Placed = tuple[Pattern, Position]


class Patterns:
    """The patterns of some expressions of a program and of all under them.

    Attributes
    ----------
    all : list of Pattern
        Operands before what uses them.
    """

    def __init__(self, program: Program, roots: Iterable[Expression]) -> None:
        self._program = program
        self._written = {(store.parameter, store.component) for store in program.stores}
        self._placed: dict[Expression, Placed] = {}
        self._known: dict[Any, Pattern] = {}
        self.all: list[Pattern] = []
        for node in walk(roots):
            self._placed[node] = self._place(node)

    def placed(self, node: Expression) -> Placed:
        """Pattern and position of one of the expressions."""
        return self._placed[node]

    def shifted(
        self, pattern: Pattern, position: Position, operands: Sequence[Expression]
    ) -> Expression:
        """The expression of a pattern at a position, its operands given."""
        node = pattern.node
        if isinstance(node, Read):
            steps = [_step(relation) for relation in self._relations(node)]
            offsets = tuple(
                step * (position[axis] or 0) + offset % step if step else offset
                for axis, step, offset in zip(self._axes(node), steps, node.offsets, strict=True)
            )
            moved: Expression = intern(
                Read, node.dtype, node.parameter, node.component, offsets, node.relation, node.axis
            )
            return moved
        if isinstance(node, Call):
            made: Expression = intern(
                Call, node.dtype, node.function, tuple(operands), node.operation_dtype
            )
            return made
        if isinstance(node, Cast):
            cast: Expression = intern(Cast, node.dtype, *operands)
            return cast
        return node

    # ---- places

    def _place(self, node: Expression) -> Placed:
        everywhere: Position = (None,) * self._program.ndim
        if isinstance(node, Read):
            return self._place_read(node)
        if isinstance(node, (Index, Coordinate, Spacing)):
            position = tuple(0 if axis == node.axis else None for axis in range(len(everywhere)))
            return self._pattern(node, node), position
        if not node.operands:
            return self._pattern(node, node), everywhere
        found = [self._placed[operand] for operand in node.operands]
        position = tuple(
            min((p for p in places if p is not None), default=None)
            for places in zip(*(place for _, place in found), strict=True)
        )
        back = tuple(None if p is None else -p for p in position)
        operands = tuple((pattern, added(back, place)) for pattern, place in found)
        kind = (node.function, _name(node.operation_dtype)) if isinstance(node, Call) else ()
        key = (type(node), _name(node.dtype), kind)
        return self._pattern(key, node, operands), position

    def _place_read(self, node: Read) -> Placed:
        position: list[int | None] = [None] * self._program.ndim
        rests = []
        for axis, relation, offset in zip(
            self._axes(node), self._relations(node), node.offsets, strict=True
        ):
            step = _step(relation)
            position[axis] = offset // step if step else 0
            rests.append(offset % step if step else offset)
        key = (Read, node.parameter, node.component, tuple(rests), node.relation)
        return self._pattern(key, node), tuple(position)

    def _pattern(
        self,
        key: Any,
        node: Expression,
        operands: tuple[Placed, ...] = (),
    ) -> Pattern:
        known = self._known.get((key, operands))
        if known is None:
            fixed = any(operand.fixed for operand, _ in operands) or self._is_written(node)
            known = self._known[key, operands] = Pattern(node, operands, fixed)
            self.all.append(known)
        return known

    # ---- reads

    def _axes(self, node: Read) -> Sequence[int]:
        return range(self._program.ndim) if node.axis is None else (node.axis,)

    def _relations(self, node: Read) -> list[str]:
        array = self._program.arrays[node.parameter]
        return [array.along(axis, node.relation) for axis in self._axes(node)]

    def _is_written(self, node: Expression) -> bool:
        return isinstance(node, Read) and (node.parameter, node.component) in self._written


def _name(kind: ExpressionType) -> str:
    """A type; plain == would take the kind float for the dtype float64."""
    return kind.__name__ if isinstance(kind, type) else kind.char


def _step(relation: str) -> int:
    """Cells of the read array from one point to the next; 0 where that depends on the point."""
    return {FINE: 2, COARSE: 0}.get(relation, 1)
