"""What a kernel's function handles while it is traced: symbolic values and symbolic arrays. Pure.

Every operation goes to the tracer (`access.Tracer`), which builds the expression or names the
broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from distarray.stencil.expression import (
    COARSE,
    FINE,
    SAME,
    ArrayParameter,
    Expression,
    ExpressionType,
)

if TYPE_CHECKING:
    from distarray.stencil.access import Tracer
    from distarray.stencil.values import ValueTracer

Operator = Callable[[Any, Any], Any]


def _operator(function: str) -> tuple[Operator, Operator]:
    """A binary operator and its reflected form."""

    def forward(self: Symbolic, other: Any) -> Value:
        return self._tracer.apply(function, self, other)

    def reflected(self: Symbolic, other: Any) -> Value:
        return self._tracer.apply(function, other, self)

    return forward, reflected


def _unary(function: str) -> Callable[[Any], Any]:
    def apply(self: Symbolic) -> Value:
        return self._tracer.apply(function, self)

    return apply


class Symbolic:
    """Operators and NumPy functions of what is not known while tracing."""

    __slots__ = ("_tracer",)
    _tracer: ValueTracer

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide")
    __mod__, __rmod__ = _operator("remainder")
    __pow__, __rpow__ = _operator("power")
    __and__, __rand__ = _operator("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor")
    __lshift__, __rlshift__ = _operator("left_shift")
    __rshift__, __rrshift__ = _operator("right_shift")
    __lt__, __gt__ = _operator("less")[0], _operator("greater")[0]
    __le__, __ge__ = _operator("less_equal")[0], _operator("greater_equal")[0]
    __eq__, __ne__ = _operator("equal")[0], _operator("not_equal")[0]
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    __hash__ = None  # type: ignore[assignment]

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return other // self, other % self

    @property
    def real(self) -> Value:
        return self._tracer.apply("real", self)

    @property
    def imag(self) -> Value:
        return self._tracer.apply("imag", self)

    def conjugate(self) -> Value:
        return self._tracer.apply("conjugate", self)

    conj = conjugate

    def astype(self, dtype: Any) -> Value:
        return self._tracer.astype(self, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self._tracer.apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._tracer.apply_function(function, args, kwargs)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - there is nothing to return
        self._tracer.fail(
            "branches (if, while, and, or, not, min, max) on a value that is not known while "
            "tracing; use da.where(condition, a, b), "
            "&, |, ~, np.minimum or np.maximum, or name a scalar in @da.stencil(static=...)."
        )

    def _refuse_number(self, *_: Any) -> NoReturn:
        self._tracer.fail(
            "needs the number behind a value that is not known while tracing (float, int, math, "
            "range or an index); "
            "use NumPy functions and .astype, or name a scalar in @da.stencil(static=...)."
        )

    __float__ = __int__ = __complex__ = __index__ = __round__ = __array__ = _refuse_number


class Value(Symbolic):
    """One value at the point that is computed: an expression."""

    __slots__ = ("node",)

    def __init__(self, tracer: ValueTracer, node: Expression) -> None:
        self._tracer = tracer
        self.node = node

    @property
    def dtype(self) -> ExpressionType:
        return self.node.dtype

    def __getitem__(self, key: Any) -> NoReturn:
        self._tracer.fail(
            f"indexes a value with [{key!r}]; select a component first and then the offsets, as "
            "in u[component][1, 0]."
        )

    def __iter__(self) -> NoReturn:
        self._tracer.fail(
            "loops over the value of one point; loop over components or axes instead."
        )

    def __repr__(self) -> str:
        return f"<value of type {self.node.dtype} in kernel {self._tracer.name}>"


class SymbolicArray(Symbolic):
    """An array parameter, or a component of it: `u[1, 0]` reads, `u[0, 0] = value` writes.

    `u[...]` is offset zero in any number of dimensions.
    """

    __slots__ = ("component", "parameter", "position", "relation")
    _tracer: Tracer

    def __init__(
        self,
        tracer: Tracer,
        position: int,
        parameter: ArrayParameter,
        component: tuple[int, ...] = (),
        relation: str = SAME,
    ) -> None:
        self._tracer = tracer
        self.position = position
        self.parameter = parameter
        self.component = component
        self.relation = relation

    @property
    def ndim(self) -> int:
        return self._tracer.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.parameter.dtype

    @property
    def fine(self) -> SymbolicArray:
        """This array of the next finer grid, read at (2 i + di, 2 j + dj)."""
        return self._related(FINE)

    @property
    def coarse(self) -> SymbolicArray:
        """This array of the next coarser grid, read at (i // 2 + di, j // 2 + dj)."""
        return self._related(COARSE)

    def _related(self, relation: str) -> SymbolicArray:
        self._tracer.relate(self, relation)
        return SymbolicArray(self._tracer, self.position, self.parameter, self.component, relation)

    def select(self, component: tuple[int, ...]) -> SymbolicArray:
        """The array below these further component indices."""
        chosen = self.component + component
        return SymbolicArray(self._tracer, self.position, self.parameter, chosen, self.relation)

    def shift(self, axis: int, steps: int) -> Value:
        """The value `steps` cells further along `axis`."""
        return self._tracer.shift(self, axis, steps)

    def __getitem__(self, key: Any) -> Any:
        return self._tracer.subscript(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tracer.assign(self, key, value)

    def __len__(self) -> int:
        return self._tracer.component_count(self)

    def __iter__(self) -> Iterator[SymbolicArray]:
        return (self.select((number,)) for number in range(len(self)))

    def __repr__(self) -> str:
        return f"<array {self.parameter.name} in kernel {self._tracer.name}>"
