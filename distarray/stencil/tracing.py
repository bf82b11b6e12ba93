"""Running a kernel's function once with symbolic arguments, which gives its `Program`. Pure."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from operator import index as as_index
from typing import Any, NoReturn

import numpy as np

from distarray.errors import StencilError
from distarray.stencil import calls
from distarray.stencil.expression import (
    COARSE,
    FINE,
    SAME,
    ArrayParameter,
    Coordinate,
    Expression,
    Index,
    Program,
    Read,
    Reduction,
    Scalar,
    Spacing,
    Store,
    WeakKind,
    intern,
)
from distarray.stencil.symbols import SymbolicArray, Value

Target = tuple[int, tuple[int, ...]]  # an array parameter's position and a component
Offsets = tuple[int, ...]

_HERE = os.path.dirname(os.path.abspath(__file__))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
_LEVELS = {FINE: 1, COARSE: -1}

_current: ContextVar[Tracer | None] = ContextVar("current_tracer", default=None)


@dataclass(frozen=True)
class KernelSignature:
    """A kernel function's parameters: positional ones are arrays, keyword-only ones are scalars."""

    name: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    defaults: Mapping[str, Any]


def signature(function: Callable[..., Any]) -> KernelSignature:
    """The parameters of a kernel's function. Local.

    Raises
    ------
    StencilError
        The function has no positional parameter, one with a default, or takes *args or **kwargs.
    """
    name = getattr(function, "__name__", type(function).__name__)
    arrays, scalars, defaults = [], [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            _refuse_signature(
                function, name, f"takes {parameter}; name every array and every scalar."
            )
        if parameter.kind is parameter.KEYWORD_ONLY:
            scalars.append(parameter.name)
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
        elif parameter.default is not parameter.empty:
            _refuse_signature(
                function,
                name,
                f"gives its array {parameter.name} the default {parameter.default!r}; put scalars behind a *, as in def {name}(u, *, r=0.1).",
            )
        else:
            arrays.append(parameter.name)
    if not arrays:
        _refuse_signature(function, name, "has no positional parameter; name at least one array.")
    return KernelSignature(name, tuple(arrays), tuple(scalars), defaults)


def _refuse_signature(function: Callable[..., Any], name: str, text: str) -> NoReturn:
    raise StencilError(f"Kernel {name} {_definition(function)} {text}")


def _definition(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (
        ""
        if code is None
        else f"({os.path.basename(code.co_filename)}, line {code.co_firstlineno})"
    )


def current() -> Tracer:
    """The tracer of the kernel that is being traced.

    Raises
    ------
    StencilError
        No kernel is being traced.
    """
    tracer = _current.get()
    if tracer is None:
        raise StencilError(
            "da.index, da.coordinate, da.spacing and da.reduce stand for values inside a kernel, and no kernel is being traced; "
            "call them in a function made a kernel by da.stencil."
        )
    return tracer


class Tracer:
    """The state of one trace: what has been read and written, and where in the source."""

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
        self.reads: dict[Target, dict[Offsets, int]] = {}
        self.writes: dict[Target, tuple[Expression, int]] = {}
        self.made: list[Reduction] = []

    # ---- running

    def run(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Reduction, ...]:
        """Call the kernel's function; gives the reductions it returns."""
        token = _current.set(self)
        try:
            returned = self.function(*arguments, **keywords)
        finally:
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
                "writes no array and returns no reduction; write an output at offset zero, as in new[0, 0] = value."
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
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not Tracer.run.__code__:
            file = frame.f_code.co_filename
            if not file.startswith((_HERE, _NUMPY)):
                return file, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return (None, 0) if code is None else (code.co_filename, code.co_firstlineno)

    # ---- values

    def node(self, operand: Any) -> Expression:
        """The expression of an operand; numbers become constants."""
        if isinstance(operand, Value):
            if operand._tracer is not self:
                self.fail(
                    "uses a value of another kernel or of an earlier trace; compute it inside this function."
                )
            return operand.node
        if isinstance(operand, SymbolicArray):
            return self.array_value(operand)
        if isinstance(operand, (bool, int, float, complex, np.generic)):
            try:
                return calls.constant(operand)  # type: ignore[arg-type]
            except StencilError as error:
                self.fail(str(error))
        kind = (
            "the NumPy array"
            if isinstance(operand, np.ndarray)
            else "the " + type(operand).__name__
        )
        self.fail(
            f"uses {kind} {_short(operand)} from outside; pass arrays as positional and numbers as keyword parameters."
        )

    def array_value(self, array: SymbolicArray) -> Expression:
        """The expression of an array used as a value, which the language does not have."""
        self.fail(
            f"uses the array {array.parameter.name} as a value; read it at an offset, as in {self.example(array)}."
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
            return Value(self, calls.call(function, *nodes))
        except StencilError as error:
            self.fail(str(error))

    def astype(self, operand: Any, dtype: Any) -> Value:
        node = self.node(operand)
        try:
            return Value(self, calls.cast(node, np.dtype(dtype)))
        except StencilError as error:
            self.fail(str(error))

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
                f"uses {what}, which the stencil language does not have; call np.{ufunc.__name__} on values alone."
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
                f"uses np.{function.__name__}, which the stencil language does not have; build it from its functions."
            )
        try:
            return handler(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, StencilError):
                raise
            self.fail(
                f"calls np.{function.__name__} with other arguments than the stencil language has ({error})."
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
                f"rounds to {decimals} decimals, which the stencil language does not have; round to whole numbers."
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
                f"names the axis {axis!r}; use a number from 0 to {self.ndim - 1} or one of {self.axes[: self.ndim]}."
            )
        if not 0 <= number < self.ndim:
            self.fail(
                f"names axis {number} of a grid with {self.ndim} axes; use a number from 0 to {self.ndim - 1}."
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
                f"asks for the location {location!r}; use None or a string of distinct axes of {known!r}."
            )
        return Value(self, intern(kind, np.dtype(np.float64), number, self.axes[number] in letters))

    # ---- reductions

    def reduction(self, kind: str, operand: Any, reproducible: bool) -> Reduction:
        node = self.node(operand)
        letter = calls.as_dtype(node.dtype).kind
        if kind != "sum" and letter in "cb":
            self.fail(
                f"takes da.reduce.{kind} of {calls.type_name(node.dtype)}, which has no order; reduce abs(value), .real or .astype(int)."
            )
        made = Reduction(kind, node, bool(reproducible))
        self.made.append(made)
        return made

    # ---- arrays

    def relate(self, array: SymbolicArray, relation: str) -> None:
        """Check that an array lies on the grid that `relation` names."""
        level = array.parameter.level
        if (
            _LEVELS.get(relation, 0) == level
            or (array.parameter.profile_axis is not None
            and relation == SAME)
        ):
            return
        name = array.parameter.name
        if relation != SAME:
            wanted = "finer" if relation == FINE else "coarser"
            self.fail(
                f"reads {name}.{relation}, but {name} does not lie on the next {wanted} grid; pass an array of that grid."
            )
        found, cure = ("finer", FINE) if level > 0 else ("coarser", COARSE)
        self.fail(
            f"uses {name}, which lies on a {found} grid, as if it lay on the kernel's own; read {name}.{cure}[...]."
        )

    def component_count(self, array: SymbolicArray) -> int:
        depth = len(array.component)
        if depth == len(array.parameter.components):
            self.fail(
                f"asks for the length of {array.parameter.name}, which has no further components; use .ndim for the axes."
            )
        return array.parameter.components[depth]

    def subscript(self, array: SymbolicArray, key: Any) -> SymbolicArray | Value:
        """`array[key]`: a component while components are left to choose, then the value at offsets."""
        left = array.parameter.components[len(array.component) :]
        if not left or key is Ellipsis:
            return self.read(array, self.offsets(array, key))
        chosen = key if isinstance(key, tuple) else (key,)
        shape = array.parameter.components
        if len(chosen) > len(left):
            self.fail(
                f"indexes {array.parameter.name} with {key!r} before choosing one of its components {shape}; write {self.example(array)}."
            )
        numbers = tuple(self.integer(array, number) for number in chosen)
        if not all(0 <= number < extent for number, extent in zip(numbers, left, strict=False)):
            self.fail(
                f"chooses component {key!r} of {array.parameter.name}, which has components {shape}; count from 0."
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
            f"indexes {array.parameter.name} with {key!r}, which needs one offset for each of {count} {what}; write {self.example(array)}."
        )

    def integer(self, array: SymbolicArray, number: Any) -> int:
        if not isinstance(number, (bool, Value, SymbolicArray)):
            try:
                return as_index(number)
            except TypeError:
                pass
        self.fail(
            f"indexes {array.parameter.name} with {_short(number)}; offsets and components are integers known while tracing."
        )

    def require_component(self, array: SymbolicArray) -> None:
        if len(array.component) < len(array.parameter.components):
            self.fail(
                f"uses {array.parameter.name} without choosing one of its components {array.parameter.components}; "
                f"write {self.example(array)}."
            )

    def shift(self, array: SymbolicArray, axis: Any, steps: Any) -> Value:
        number = self.axis_number(axis)
        profile = array.parameter.profile_axis
        if profile is not None and number != profile:
            self.fail(
                f"shifts the profile {array.parameter.name} along axis {number}; it runs along axis {profile}."
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
                f"reads {name}{shown} and writes {name}: neighbours may or may not have been written yet; "
                "write to another array, or use @da.stencil(colours=2)."
            )
        if sum(offsets) % 2 == 0:
            self.fail(
                f"reads {name}{shown}, a point of the colour that is being written; with colours=2 read written arrays "
                "at zero or at offsets of odd sum."
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
                f"writes {name}, which lies on another grid; write to arrays of the kernel's own grid only."
            )
        self.require_component(array)
        offsets = self.offsets(array, key)
        if any(offsets):
            self.fail(
                f"writes {name}[{', '.join(map(str, offsets))}]; write at offset zero only, as in {self.example(array)} = value."
            )
        node = self.astype(value, array.parameter.dtype).node
        target = array.position, array.component
        for seen in self.reads.get(target, {}):
            self.check_in_place(array, seen)
        self.writes[target] = node, self.line()


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) < 60 else text[:57] + "..."


_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    np.where: Tracer.where,
    np.clip: Tracer.clip,
    np.real: Tracer.real,
    np.imag: Tracer.imag,
    np.round: Tracer.round,
    np.around: Tracer.round,
}


def trace(
    function: Callable[..., Any],
    arrays: Sequence[ArrayParameter],
    scalars: Mapping[str, WeakKind],
    statics: Mapping[str, object],
    *,
    ndim: int,
    colours: int = 1,
    fast: bool = False,
    axes: Sequence[str] = ("x", "y", "z"),
    in_place: bool = False,
) -> Program:
    """Run a kernel's function with symbolic arrays. Local.

    Parameters
    ----------
    function : callable
        Positional parameters stand for `arrays`, keyword-only ones for scalars.
    arrays : sequence of ArrayParameter
        What is known of each array argument.
    scalars : mapping of str to bool, int, float or complex
        Kinds of the keyword-only parameters that are symbolic.
    statics : mapping of str to object
        Keyword-only parameters that keep their Python values. One that is in neither mapping takes its default.
    ndim : int
        Axes of the grid.
    colours : {1, 2}
        2 lets an array that is written be read at offsets of odd sum.
    axes : sequence of str
        Names of the axes, for `da.coordinate(axis, location)`.
    in_place : bool
        Permit reads at offsets of arrays that are written, for a caller that keeps the values before the pass.

    Raises
    ------
    StencilError
        The kernel breaks a rule of the language; the message names the kernel, the line and the cure.
    """
    found = signature(function)
    tracer = Tracer(function, found.name, ndim, colours=colours, axes=axes, in_place=in_place)
    if len(arrays) != len(found.arrays):
        tracer.fail(
            f"takes {len(found.arrays)} arrays ({', '.join(found.arrays)}), but got {len(arrays)}; pass one for each."
        )
    keywords = _keywords(tracer, found, scalars, statics)
    for parameter in arrays:
        if not calls.supported(parameter.dtype):
            tracer.fail(
                f"gets {parameter.name} of dtype {parameter.dtype}, which kernels cannot hold; use float32 or float64."
            )
    arguments = [
        SymbolicArray(tracer, position, parameter) for position, parameter in enumerate(arrays)
    ]
    reductions = tracer.run(arguments, keywords)
    ordered = tuple((name, scalars[name]) for name in found.scalars if name in scalars)
    return program(tracer, arrays, ordered, reductions, fast)


def program(
    tracer: Tracer,
    arrays: Sequence[ArrayParameter],
    scalars: tuple[tuple[str, WeakKind], ...],
    reductions: tuple[Reduction, ...],
    fast: bool,
) -> Program:
    """The program of a finished trace."""
    return Program(
        name=tracer.name,
        ndim=tracer.ndim,
        arrays=tuple(arrays),
        scalars=scalars,
        stores=tuple(
            Store(position, component, node)
            for (position, component), (node, _) in tracer.writes.items()
        ),
        reductions=reductions,
        colours=tracer.colours,
        fast=fast,
        lines=tuple(line for _, line in tracer.writes.values()),
    )


def _keywords(
    tracer: Tracer,
    found: KernelSignature,
    scalars: Mapping[str, WeakKind],
    statics: Mapping[str, object],
) -> dict[str, Any]:
    """What the kernel's keyword-only parameters are while tracing."""
    for name in (*scalars, *statics):
        if name not in found.scalars:
            known = ", ".join(found.scalars) or "none"
            tracer.fail(f"has no scalar named {name!r}; its scalars are: {known}.")
    keywords: dict[str, Any] = {
        name: Value(tracer, intern(Scalar, kind, name)) for name, kind in scalars.items()
    }
    keywords.update(statics)
    for name in found.scalars:
        if name not in keywords and name not in found.defaults:
            tracer.fail(
                f"needs the scalar {name!r}, which was not given; call it with {name}=value."
            )
    return keywords
