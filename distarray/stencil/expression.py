"""Expressions of a stencil kernel: immutable nodes, equal ones shared. Pure.

An expression says how one value at one point is computed from array reads, scalars and positions.
Nodes are interned, so that a common subexpression is one object and `is` compares. Types
follow NumPy 2: `dtype` is a NumPy dtype, or for values built from scalars alone a weak kind, one of
the Python types bool, int, float, complex.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WeakKind = type[bool] | type[int] | type[float] | type[complex]
ExpressionType = np.dtype[Any] | WeakKind
_WEAK_KINDS: tuple[WeakKind, ...] = (bool, int, float, complex)

#: Which cell of the read array a read refers to, for a kernel that runs over cells i.
SAME, FINE, COARSE = "same", "fine", "coarse"  # a[i + d], fine[2 i + d], coarse[i // 2 + d]
#: The level of the read array's grid, relative to the kernel's.
LEVELS = {SAME: 0, FINE: 1, COARSE: -1}


def kind_of(value: Any) -> WeakKind | None:
    """The kind of a number, None for anything else."""
    return next((kind for kind in _WEAK_KINDS if isinstance(value, kind)), None)


@dataclass(frozen=True, eq=False)
class Expression:
    """Base of all nodes. Compare with `is`; make nodes with `intern`."""

    dtype: ExpressionType

    @property
    def operands(self) -> tuple[Expression, ...]:
        return ()

    @property
    def weak(self) -> bool:
        """Whether only scalars enter, so that an array's dtype wins over this one's."""
        return isinstance(self.dtype, type)


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A Python number written in the kernel (weak), or a NumPy scalar closed over (of its dtype's
    weak kind).
    """

    value: bool | int | float | complex


@dataclass(frozen=True, eq=False)
class Scalar(Expression):
    """A keyword-only parameter; weak, of the kind of the value it was first called with."""

    name: str


@dataclass(frozen=True, eq=False)
class Read(Expression):
    """The value of array `parameter` (its position among the arrays) at an offset from this point.

    `component` is the full component index, () for arrays without components. `relation` is SAME,
    FINE or COARSE. A read of a profile (a 1-D array along `axis` of the grid) has one offset and
    `axis` set.
    """

    parameter: int
    component: tuple[int, ...]
    offsets: tuple[int, ...]
    relation: str = SAME
    axis: int | None = None


@dataclass(frozen=True, eq=False)
class Shared(Expression):
    """A value that a stage of the kernel has kept (see `stages`), `steps` points beyond this one.

    No traced program holds any.
    """

    number: int
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Index(Expression):
    """Global index of this point along an axis (int64), wrapped on a periodic axis."""

    axis: int


@dataclass(frozen=True, eq=False)
class Coordinate(Expression):
    """Position of this point along an axis (float64): of the cell centre, or of its low side if
    `staggered`.
    """

    axis: int
    staggered: bool


@dataclass(frozen=True, eq=False)
class Spacing(Expression):
    """Width of this cell along an axis (float64), or distance between the centres around its low
    side if `staggered`.
    """

    axis: int
    staggered: bool


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """A NumPy function of one, two or three operands, by its NumPy name ("add", "sqrt", "where",
    "less", "logical_and", ...).

    Operands are first cast to `operation_dtype`, the dtype NumPy computes in (for "where" this
    holds for the last two operands); `dtype` is the result's.
    """

    function: str
    arguments: tuple[Expression, ...]
    operation_dtype: ExpressionType

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True, eq=False)
class Cast(Expression):
    """A conversion of dtype as NumPy's `astype` does it; a write casts to its output's dtype."""

    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Expression] = weakref.WeakValueDictionary()


def intern(kind: type[Expression], dtype: ExpressionType, *fields: Any) -> Any:
    """The one node with these fields: `intern(Read, np.dtype("f8"), 0, (), (1, 0))`."""
    # repr tells 0.0 from -0.0, True from 1 and one NaN from none; operands are nodes and compare by
    # identity.
    key = (kind, dtype, *(repr(f) if kind is Constant else f for f in fields))
    node = _interned.get(key)
    if node is None:
        node = kind(dtype, *fields)
        _interned[key] = node
    return node


def walk(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Every node under `roots` once, operands before the nodes that use them."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(tuple(roots))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(node.operands))


@dataclass(frozen=True)
class ArrayParameter:
    """What a kernel knows of an array when it is traced.

    `staggered` is None for a profile, whose one axis is `profile_axis`. `level` is the array's grid
    relative to the kernel's iteration grid: 0, +1 for the next finer, -1 for the next coarser;
    along the axes `kept` both grids have the same cells all the same.
    """

    name: str
    dtype: np.dtype[Any]
    components: tuple[int, ...]
    staggered: tuple[bool, ...] | None
    profile_axis: int | None = None
    level: int = 0
    kept: tuple[int, ...] = ()

    def along(self, axis: int, relation: str) -> str:
        """How the cells of the grid's axis relate to the kernel's in a read of this relation."""
        return SAME if axis in self.kept else relation


@dataclass(frozen=True)
class Store:
    """One output: `value` (already cast to the array's dtype) goes to component `component` at
    offset zero.

    Values never refer to other stores: a read after a write was replaced by the written (cast)
    expression, so all values depend on array contents before the pass.
    """

    parameter: int
    component: tuple[int, ...]
    value: Expression


@dataclass(frozen=True)
class Reduction:
    """A fused reduction over the points computed: `kind` is "sum", "min" or "max"; `reproducible`
    for exact sums.
    """

    kind: str
    value: Expression
    reproducible: bool = False


@dataclass(frozen=True)
class Program:
    """A traced kernel for one signature: everything that executors and analyses need.

    `stores` are in the order of their first write, the last write to an output winning. `colours`
    is 1, or 2 for a two-colour kernel, which is run twice: points whose global indices have an even
    sum first. `fast` permits contraction and reassociation.
    """

    name: str
    ndim: int
    arrays: tuple[ArrayParameter, ...]
    scalars: tuple[tuple[str, WeakKind], ...]
    stores: tuple[Store, ...]
    reductions: tuple[Reduction, ...] = ()
    colours: int = 1
    fast: bool = False
    #: Line of the kernel's source where each store was last written, for messages.
    lines: tuple[int, ...] = ()
    #: Array, component and offsets of each read, and the line of the first such read.
    read_lines: tuple[tuple[int, tuple[int, ...], tuple[int, ...], int], ...] = field(
        default=(), compare=False
    )
