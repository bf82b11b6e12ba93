"""One node of an expression as C text: types, literals, conversions and NumPy functions. Pure.

A value is one piece of text, or two for a complex number, which exists as its real and imaginary
part only. Text knows how tightly it binds, so that parentheses appear where the order of evaluation
needs them and nowhere else: `a + b + c` is (a + b) + c in C as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from distarray.errors import StencilError
from distarray.stencil.calls import as_dtype
from distarray.stencil.evaluate import INTEGER_BY
from distarray.stencil.expression import Call

DType = np.dtype[Any]

CONDITIONAL, OR, XOR, AND, EQUALITY, RELATION, SHIFT, SUM, PRODUCT, PREFIX, ATOM = range(11)


class Text(NamedTuple):
    """C text of a real number and the strength of its outermost operator."""

    code: str
    strength: int = ATOM

    def within(self, strength: int) -> str:
        """The text as an operand of an operator that needs this strength."""
        return self.code if self.strength >= strength else f"({self.code})"


Value = tuple[Text, ...]

_BOOL = np.dtype(np.bool_)

#: A zero that compilers cannot know; see `preamble`.
HIDDEN = "hidden"


def part_type(dtype: DType) -> DType:
    """The dtype of the parts of a complex number; other dtypes are their own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def suffix(dtype: DType) -> str:
    """The dtype as part of a helper's name: float64, int32."""
    return part_type(dtype).name


def type_name(dtype: DType) -> str:
    """The C type of a variable; of one part for a complex number."""
    part = part_type(dtype)
    if part.kind == "f":
        return {4: "float", 8: "double"}[part.itemsize]
    return "bool" if part.kind == "b" else f"{part.name}_t"


def element_name(dtype: DType) -> str:
    """The C type of an array's element."""
    if dtype.kind == "c":
        return dtype.name
    return "uint8_t" if dtype.kind == "b" else type_name(dtype)


def literal(value: complex, dtype: DType) -> Value:
    """A number written in the kernel."""
    if dtype.kind == "c":
        number = complex(value)
        return (
            _real_literal(number.real, part_type(dtype)),
            _real_literal(number.imag, part_type(dtype)),
        )
    return (_real_literal(value, dtype),)


def _real_literal(value: Any, dtype: DType) -> Text:
    if dtype.kind == "b":
        return Text("true" if value else "false")
    if dtype.kind == "f":
        return _float_literal(float(value), dtype)
    number = int(dtype.type(value))
    if number == np.iinfo(np.int64).min:
        return Text("INT64_MIN")
    text = f"{'UINT' if dtype.kind == 'u' else 'INT'}{8 * dtype.itemsize}_C({abs(number)})"
    return Text(f"-{text}", PREFIX) if number < 0 else Text(text)


def _float_literal(value: float, dtype: DType) -> Text:
    with np.errstate(over="ignore"):
        number = dtype.type(value)
    if math.isnan(number):
        return Text("NAN")
    text = (
        "INFINITY"
        if math.isinf(number)
        else str(abs(number)) + ("f" if dtype.itemsize == 4 else "")
    )
    return Text(f"-{text}", PREFIX) if math.copysign(1.0, float(number)) < 0 else Text(text)


def converted(value: Value, source: DType, target: DType) -> Value:
    """The value as NumPy's `astype` converts it."""
    if source == target:
        return value
    if target.kind == "b":
        tests = [_binary("!=", EQUALITY, part, Text("0")) for part in value]
        return (tests[0] if len(tests) == 1 else _binary("|", OR, *tests),)
    part = part_type(target)
    changed = tuple(_cast(text, part_type(source), part) for text in value)
    if target.kind == "c":
        return changed if len(changed) == 2 else (changed[0], _float_literal(0.0, part))
    return changed[:1]


def _cast(text: Text, source: DType, target: DType) -> Text:
    if source == target:
        return text
    if source.kind == "f" and target.kind in "iu":
        middle = np.dtype(INTEGER_BY[target.name])
        text = _invocation(f"{middle.name}_from_{suffix(source)}", text, Text(HIDDEN))
        return _cast(text, middle, target)
    return Text(f"({type_name(target)}){text.within(PREFIX)}", PREFIX)


def call(node: Call, operands: tuple[Value, ...], *, wrapped: bool = False) -> Value:
    """A call of a NumPy function; operands have their own types still.

    `wrapped` lets helpers add and multiply signed integers, for compilers that may assume that they
    do not overflow.

    Raises
    ------
    StencilError
        C text has no such function for this type.
    """
    function, operation = node.function, as_dtype(node.operation_dtype)
    types = [as_dtype(argument.dtype) for argument in node.arguments]
    if function == "where":
        condition = converted(operands[0], types[0], _BOOL)[0]
        pair = [converted(v, t, operation) for v, t in zip(operands[1:], types[1:], strict=True)]
        return tuple(_choice(condition, *parts) for parts in zip(*pair, strict=True))
    values = [converted(v, t, operation) for v, t in zip(operands, types, strict=True)]
    table = _COMPLEX if operation.kind == "c" else _REAL
    writer = table.get(function)
    if wrapped and operation.kind == "i" and operation.itemsize >= _INT and function in _OVERFLOW:
        writer = _helper(f"wrapped_{function}")
    if writer is None:
        raise StencilError(
            f"The function {function} of {operation} has no C form; set DISTARRAY_EXECUTOR=numpy."
        )
    result = writer(operation, *values)
    produced = _BOOL if function in _TRUTHS else _result_type(function, operation)
    return converted(result, produced, as_dtype(node.dtype))


def _result_type(function: str, operation: DType) -> DType:
    return part_type(operation) if function in ("real", "imag", "absolute") else operation


def _choice(condition: Text, yes: Text, no: Text) -> Text:
    above = CONDITIONAL + 1
    code = f"{condition.within(above)} ? {yes.within(above)} : {no.within(CONDITIONAL)}"
    return Text(code, CONDITIONAL)


def _binary(sign: str, strength: int, left: Text, right: Text) -> Text:
    if strength >= SUM:
        return Text(f"{left.within(strength)} {sign} {right.within(strength + 1)}", strength)
    # Comparisons and bit operations within one another are bracketed, for the reader too.
    return Text(f"{left.within(SUM)} {sign} {right.within(SUM)}", strength)


def _narrowed(text: Text, dtype: DType) -> Text:
    """C computes in int at least; NumPy wraps at the width of the operands."""
    if dtype.kind in "iu" and dtype.itemsize < 4:
        return Text(f"({type_name(dtype)}){text.within(PREFIX)}", PREFIX)
    return text


Writer = Callable[..., Value]


def _operator(sign: str, strength: int) -> Writer:
    def write(dtype: DType, left: Value, right: Value) -> Value:
        text = _binary(sign, strength, left[0], right[0])
        return (_narrowed(text, dtype) if strength >= SUM else text,)

    return write


def _prefix(sign: str) -> Writer:
    def write(dtype: DType, operand: Value) -> Value:
        # A second prefix operator would merge with the first: - -x.
        return (_narrowed(Text(f"{sign}{operand[0].within(ATOM)}", PREFIX), dtype),)

    return write


def _library(name: str) -> Writer:
    """A function of the C library, with f for float."""

    def write(dtype: DType, *operands: Value) -> Value:
        return (
            _invocation(name + ("f" if dtype.itemsize == 4 else ""), *(v[0] for v in operands)),
        )

    return write


def _transcendental(name: str) -> Writer:
    """A function of the C library in double, rounded for float, where it errs by several ulp."""

    def write(dtype: DType, *operands: Value) -> Value:
        double = np.dtype(np.float64)
        inner = (_cast(v[0], dtype, double) for v in operands)
        return (_cast(_invocation(_CLOSE.get(name, name), *inner), double, dtype),)

    return write


def _helper(name: str) -> Writer:
    """A function of the text's preamble, made for each type."""

    def write(dtype: DType, *operands: Value) -> Value:
        return (_invocation(f"{name}_{suffix(dtype)}", *(v[0] for v in operands)),)

    return write


def _invocation(name: str, *operands: Text) -> Text:
    return Text(f"{name}({', '.join(operand.code for operand in operands)})")


def _absolute(dtype: DType, operand: Value) -> Value:
    return (
        _library("fabs")(dtype, operand)
        if dtype.kind == "f"
        else _helper("absolute")(dtype, operand)
    )


def _c_remainder(dtype: DType, left: Value, right: Value) -> Value:
    return (_library if dtype.kind == "f" else _helper)("fmod")(dtype, left, right)


# ---- complex numbers, by their real expansion


def _add(left: Text, right: Text) -> Text:
    return _binary("+", SUM, left, right)


def _subtract(left: Text, right: Text) -> Text:
    return _binary("-", SUM, left, right)


def _multiply(left: Text, right: Text) -> Text:
    return _binary("*", PRODUCT, left, right)


def _divide(left: Text, right: Text) -> Text:
    return _binary("/", PRODUCT, left, right)


def _negated(operand: Text) -> Text:
    return Text(f"-{operand.within(ATOM)}", PREFIX)


def _complex_product(_: DType, left: Value, right: Value) -> Value:
    (a, b), (c, d) = left, right
    return (
        _subtract(_multiply(a, c), _multiply(b, d)),
        _add(_multiply(a, d), _multiply(b, c)),
    )


def _complex_quotient(_: DType, left: Value, right: Value) -> Value:
    (a, b), (c, d) = left, right
    size = _add(_multiply(c, c), _multiply(d, d))
    return (
        _divide(_add(_multiply(a, c), _multiply(b, d)), size),
        _divide(_subtract(_multiply(b, c), _multiply(a, d)), size),
    )


def _by_parts(function: Callable[[Text, Text], Text]) -> Writer:
    def write(_: DType, left: Value, right: Value) -> Value:
        return tuple(map(function, left, right))

    return write


def _tests(name: str, sign: str, strength: int) -> Writer:
    """A test of both parts, joined."""

    def write(dtype: DType, *operands: Value) -> Value:
        parts = zip(*operands, strict=True)
        tests = [_REAL[name](part_type(dtype), *((text,) for text in texts))[0] for texts in parts]
        return (_binary(sign, strength, *tests),)

    return write


def _complex_size(dtype: DType, operand: Value) -> Value:
    return (_transcendental("hypot")(part_type(dtype), *((part,) for part in operand))[0],)


#: Helpers in place of library functions that err by more than an ulp or two.
_CLOSE = {"tanh": "tanh_float64", "cbrt": "cbrt_float64"}
_TRANSCENDENTAL = {
    **{
        name: name
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "hypot",
            "cbrt",
        ]
    },
    **{f"arc{name}": f"a{name}" for name in ["sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh"]},
    "power": "pow",
}
#: Functions whose result may leave the range of a signed integer, and the bytes of C's int: in it C
#: computes with all integers that are smaller.
_OVERFLOW, _INT = ("add", "subtract", "multiply", "negative"), 4
_EXACT = ("sqrt", "floor", "ceil", "trunc", "rint", "copysign")
_HELPERS = [
    "floor_divide",
    "remainder",
    "sign",
    "minimum",
    "maximum",
    "fmin",
    "fmax",
    "left_shift",
    "right_shift",
    "isnan",
    "isinf",
    "isfinite",
]
_REAL: dict[str, Writer] = {
    "add": _operator("+", SUM),
    "subtract": _operator("-", SUM),
    "multiply": _operator("*", PRODUCT),
    "divide": _operator("/", PRODUCT),
    "negative": _prefix("-"),
    "invert": _prefix("~"),
    "logical_not": _prefix("!"),
    "less": _operator("<", RELATION),
    "less_equal": _operator("<=", RELATION),
    "greater": _operator(">", RELATION),
    "greater_equal": _operator(">=", RELATION),
    "equal": _operator("==", EQUALITY),
    "not_equal": _operator("!=", EQUALITY),
    # Operands have no side effects: bit operations on 0 and 1 spare the branches of && and ||.
    "logical_and": _operator("&", AND),
    "logical_or": _operator("|", OR),
    "logical_xor": _operator("^", XOR),
    "bitwise_and": _operator("&", AND),
    "bitwise_or": _operator("|", OR),
    "bitwise_xor": _operator("^", XOR),
    "absolute": _absolute,
    "fmod": _c_remainder,
    **{name: _helper(name) for name in _HELPERS},
    **{name: _library(name) for name in _EXACT},
    **{name: _transcendental(c_name) for name, c_name in _TRANSCENDENTAL.items()},
}
_COMPLEX: dict[str, Writer] = {
    "add": _by_parts(_add),
    "subtract": _by_parts(_subtract),
    "multiply": _complex_product,
    "divide": _complex_quotient,
    "negative": lambda _, operand: tuple(map(_negated, operand)),
    "absolute": _complex_size,
    "conjugate": lambda _, operand: (operand[0], _negated(operand[1])),
    "real": lambda _, operand: operand[:1],
    "imag": lambda _, operand: operand[1:],
    "equal": _tests("equal", "&", AND),
    "not_equal": _tests("not_equal", "|", OR),
    "isnan": _tests("isnan", "|", OR),
    "isinf": _tests("isinf", "|", OR),
    "isfinite": _tests("isfinite", "&", AND),
}
_TRUTHS = frozenset(
    [
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "isnan",
        "isinf",
        "isfinite",
    ]
)

_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while bool true false asm typeof main linux unix

    isnan isinf isfinite fabs fmod memset memcpy

    memory layout scalars box results mask extent chunk chunks chunk_begin chunk_end strip strip_end
    count place first l complex64 complex128 block block_end rows fitting
    hidden hidden_zero distarray_threads
"""

#: Words that variables of the text must not take: C's, its library's, and those of the text itself.
RESERVED = frozenset(_WORDS.split()) | frozenset(
    name + end for name in (*_TRANSCENDENTAL.values(), *_EXACT) for end in ("", "f")
)
