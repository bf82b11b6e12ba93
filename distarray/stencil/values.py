"""The state of one trace: values, functions and positions, and errors that name the line. Pure."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from operator import index as as_index
from typing import Any, NoReturn

import numpy as np

from distarray.errors import StencilError, shown
from distarray.layout import Component, Offsets
from distarray.stencil import calls, lowering
from distarray.stencil.expression import (
    Coordinate,
    Expression,
    Index,
    Reduction,
    Spacing,
    intern,
)
from distarray.stencil.symbols import SymbolicArray, Value

Target = tuple[int, Component]  # an array parameter's position and a component

_HERE = os.path.dirname(os.path.abspath(__file__))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))

_current: ContextVar[ValueTracer | None] = ContextVar("current_tracer", default=None)


def current() -> ValueTracer:
    """The tracer of the kernel that is being traced.

    Raises
    ------
    StencilError
        No kernel is being traced.
    """
    tracer = _current.get()
    if tracer is None:
        raise StencilError(
            "da.index, da.coordinate, da.spacing and da.reduce stand for values inside a kernel, "
            "and no kernel is being traced; call them in a function made a kernel by da.stencil."
        )
    return tracer


class ValueTracer:
    """One trace as far as values go: numbers, functions, positions, reductions and errors.

    What arrays do is left to `access.Tracer`, which fills `reads` and `writes`: for each component
    of an array the offsets read, and the expression written, with the lines of the source.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        ndim: int,
        *,
        colours: int = 1,
        axes: Sequence[str] = ("x", "y", "z"),
        in_place: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.ndim = ndim
        self.colours = colours
        self.axes = tuple(axes)
        self.in_place = in_place
        self.running = False
        self.reads: dict[Target, dict[Offsets, int]] = {}
        self.writes: dict[Target, tuple[Expression, int]] = {}
        self.made: list[Reduction] = []

    # ---- running

    def run(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Reduction, ...]:
        """Call the kernel's function; gives the reductions it returns."""
        token = _current.set(self)
        self.running = True
        try:
            returned = self.function(*arguments, **keywords)
        finally:
            self.running = False
            _current.reset(token)
        return self._reductions(returned)

    def _reductions(self, returned: Any) -> tuple[Reduction, ...]:
        values = (
            ()
            if returned is None
            else tuple(returned)
            if isinstance(returned, (tuple, list))
            else (returned,)
        )
        for value in values:
            if not isinstance(value, Reduction):
                self.fail(f"returns {value!r}; return nothing, or values made by da.reduce.")
        if any(all(value is not made for value in values) for made in self.made):
            self.fail(
                "makes a reduction that it does not return; return every value made by da.reduce."
            )
        if not self.writes and not values:
            self.fail(
                "writes no array and returns no reduction; write an output at offset zero, as in "
                "new[0, 0] = value."
            )
        return values

    # ---- errors

    def fail(self, text: str) -> NoReturn:
        """Raise a StencilError that names the kernel and the line that is being traced."""
        file, line = self._place()
        where = "" if file is None else f" ({os.path.basename(file)}, line {line})"
        raise StencilError(f"Kernel {self.name}{where} {text}") from None

    def line(self) -> int:
        """Line of the kernel's source that is being traced."""
        return self._place()[1]

    def _place(self) -> tuple[str | None, int]:
        frame = sys._getframe(1) if self.running else None
        while frame is not None and frame.f_code is not ValueTracer.run.__code__:
            file = frame.f_code.co_filename
            if not file.startswith((_HERE, _NUMPY)):
                return file, frame.f_lineno
            frame = frame.f_back
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return (None, 0) if code is None else (code.co_filename, code.co_firstlineno)

    # ---- values

    def node(self, operand: Any) -> Expression:
        """The expression of an operand; numbers become constants."""
        if isinstance(operand, SymbolicArray):
            return self.array_value(operand)
        if not isinstance(operand, Value):
            return self.outside_value(operand)
        if operand._tracer is not self:
            self.fail(
                "uses a value of another kernel or of an earlier trace; compute it inside this "
                "function."
            )
        return operand.node

    def outside_value(self, operand: Any) -> Expression:
        """The constant that a number from outside the kernel becomes; arrays are refused."""
        if isinstance(operand, (bool, int, float, complex, np.generic)):
            try:
                return calls.constant(operand)
            except StencilError as error:
                self.fail(str(error))
        what = f"the {type(operand).__name__} {short(operand)}"
        if isinstance(operand, np.ndarray):
            what = f"a NumPy array of shape {operand.shape}"
        return self.fail(
            f"uses {what} from outside; pass arrays as positional and numbers "
            "as keyword parameters."
        )

    def array_value(self, array: SymbolicArray) -> Expression:
        """The expression of an array used as a value, which the language does not have."""
        self.fail(
            f"uses the array {array.parameter.name} as a value; read it at an offset, as in "
            f"{self.example(array)}."
        )

    def example(self, array: SymbolicArray) -> str:
        """How the array is read at offset zero."""
        missing = len(array.parameter.components) - len(array.component)
        count = self.ndim if array.parameter.profile_axis is None else 1
        return array.parameter.name + "[component]" * missing + "[" + ", ".join(["0"] * count) + "]"

    def value(self, node: Expression) -> Value:
        return Value(self, node)

    def apply(self, function: str, *operands: Any) -> Value:
        """The value of a NumPy function, by name, of symbolic and plain operands."""
        nodes = [self.node(operand) for operand in operands]
        try:
            return Value(self, lowering.call(function, *nodes))
        except StencilError as error:
            self.fail(str(error))

    def astype(self, operand: Any, dtype: Any) -> Value:
        """The operand converted."""
        node = self.node(operand)
        try:
            return Value(self, calls.cast(node, np.dtype(dtype)))
        except StencilError as error:
            self.fail(str(error))
        except TypeError:
            self.fail(f"converts to {shown(dtype)}, which is no type; use float32 or float64.")

    def apply_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Any:
        if method != "__call__" or options:
            what = (
                f"np.{ufunc.__name__}.{method}"
                if method != "__call__"
                else f"np.{ufunc.__name__} with {', '.join(options)}="
            )
            self.fail(
                f"uses {what}, which the stencil language does not have; call np.{ufunc.__name__} "
                "on values alone."
            )
        if ufunc is np.divmod:
            return self.apply("floor_divide", *inputs), self.apply("remainder", *inputs)
        return self.apply(ufunc.__name__, *inputs)

    def apply_function(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        handler = _FUNCTIONS.get(function)
        if handler is None:
            self.fail(
                f"uses np.{function.__name__}, which the stencil language does not have; build it "
                "from its functions."
            )
        try:
            return handler(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, StencilError):
                raise
            self.fail(
                f"calls np.{function.__name__} with other arguments than the stencil language has "
                f"({error})."
            )

    def clip(
        self, a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
    ) -> Value:
        low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
        value = self.value(self.node(a))
        if low is not None:
            value = self.apply("maximum", value, low)
        return value if high is None else self.apply("minimum", value, high)

    def where(self, condition: Any, x: Any, y: Any) -> Value:
        return self.apply("where", condition, x, y)

    def real(self, val: Any) -> Value:
        return self.apply("real", val)

    def imag(self, val: Any) -> Value:
        return self.apply("imag", val)

    def round(self, a: Any, decimals: int = 0) -> Value:
        if decimals:
            self.fail(
                f"rounds to {decimals} decimals, which the stencil language does not have; round "
                "to whole numbers."
            )
        return self.apply("rint", a)

    # ---- positions

    def axis_number(self, axis: Any) -> int:
        """An axis given by number or by name."""
        if isinstance(axis, str) and axis in self.axes[: self.ndim]:
            return self.axes.index(axis)
        try:
            number = as_index(axis)
        except TypeError:
            self.fail(
                f"names the axis {axis!r}; use a number from 0 to {self.ndim - 1} or one of "
                f"{self.axes[: self.ndim]}."
            )
        if not 0 <= number < self.ndim:
            self.fail(
                f"names axis {number} of a grid with {self.ndim} axes; use a number from 0 to "
                f"{self.ndim - 1}."
            )
        return number

    def index(self, axis: Any) -> Value:
        return Value(self, intern(Index, np.dtype(np.int64), self.axis_number(axis)))

    def position(
        self, kind: type[Coordinate] | type[Spacing], axis: Any, location: str | None
    ) -> Value:
        number = self.axis_number(axis)
        known = "".join(self.axes[: self.ndim])
        letters = "" if location is None else location
        if not isinstance(letters, str) or any(letter not in known for letter in letters):
            self.fail(
                f"asks for the location {location!r}; use None or a string of distinct axes of "
                f"{known!r}."
            )
        return Value(self, intern(kind, np.dtype(np.float64), number, self.axes[number] in letters))

    # ---- reductions

    def reduction(self, kind: str, operand: Any, reproducible: bool) -> Reduction:
        node = self.node(operand)
        letter = calls.as_dtype(node.dtype).kind
        if kind != "sum" and letter in "cb":
            self.fail(
                f"takes da.reduce.{kind} of {calls.type_name(node.dtype)}, which has no order; "
                "reduce abs(value), .real or .astype(int)."
            )
        made = Reduction(kind, node, bool(reproducible))
        self.made.append(made)
        return made


def short(value: Any) -> str:
    """`repr` on one line, cut for a message."""
    text = repr(value).replace("\n", " ")
    return text if len(text) < 60 else text[:57] + "..."


_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    np.where: ValueTracer.where,
    np.clip: ValueTracer.clip,
    np.real: ValueTracer.real,
    np.imag: ValueTracer.imag,
    np.round: ValueTracer.round,
    np.around: ValueTracer.round,
}
