"""Building calls of NumPy functions: result types asked of NumPy itself, and forms that executors need not know. Pure.

Executors see few functions: `square`, `power` with a small constant exponent, `conjugate`, logical functions of
numbers and the like are written here in terms of others, so that every executor computes the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.errors import StencilError
from distarray.stencil.expression import (
    Call,
    Cast,
    Constant,
    Expression,
    ExpressionType,
    WeakKind,
    intern,
)

#: NumPy dtypes in which values that come from scalars alone are computed.
WEAK_DTYPES: dict[WeakKind, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
_KIND_OF_LETTER: dict[str, WeakKind] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_SUPPORTED = frozenset("?bhilqBHILQfdFD")

COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
TRANSCENDENTAL = frozenset(
    ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "hypot", "cbrt", "power"]
)
#: Functions an executor meets in `Call.function`.
PRIMITIVES = (
    COMPARISONS
    | TRANSCENDENTAL
    | frozenset(
        ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "absolute", "sqrt", "sign", "floor", "ceil", "trunc", "rint", "fmod", "minimum", "maximum", "fmin", "fmax", "copysign", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "isnan", "isinf", "isfinite", "real", "imag", "conjugate", "where"]
    )
)
_COMPLEX = frozenset(
    ["add", "subtract", "multiply", "divide", "negative", "absolute", "equal", "not_equal", "isnan", "isinf", "isfinite", "real", "imag", "conjugate", "where"]
)
# Folding these cannot change a bit: the C compiler and NumPy round them alike.
_EXACT = COMPARISONS | frozenset(
    ["add", "subtract", "multiply", "divide", "negative", "absolute", "sqrt", "logical_and", "logical_or", "logical_xor", "logical_not"]
)


def as_dtype(kind: ExpressionType) -> np.dtype[Any]:
    """The dtype in which values of this type are computed and kept."""
    return WEAK_DTYPES[kind] if isinstance(kind, type) else kind


def supported(dtype: np.dtype[Any]) -> bool:
    """Whether kernels can hold values of this dtype: bool, integers, and real or complex numbers of 32 and 64 bits."""
    return dtype.char in _SUPPORTED and dtype.isnative


def same_type(one: ExpressionType, other: ExpressionType) -> bool:
    """Whether two types are equal; plain == would take the weak kind float for the dtype float64."""
    return isinstance(one, type) == isinstance(other, type) and one == other


def type_name(kind: ExpressionType) -> str:
    return f"a {kind.__name__} scalar" if isinstance(kind, type) else str(kind)


def constant(value: bool | int | float | complex) -> Expression:
    """A number written in the kernel; a NumPy scalar counts as the Python number of its kind."""
    if isinstance(value, np.generic):
        kind = _KIND_OF_LETTER.get(value.dtype.kind)
        if kind is None:
            raise StencilError(
                f"uses {value!r}, which is no number; use bool, int, float or complex."
            )
        value = kind(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise StencilError(
            f"uses the integer {value}, outside the range of int64; use a float or a smaller number."
        )
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            node: Expression = intern(Constant, kind, kind(value))  # type: ignore[arg-type]
            return node
    raise StencilError(f"uses {value!r}, which is no number; use bool, int, float or complex.")


def cast(node: Expression, dtype: ExpressionType) -> Expression:
    """`node` converted as NumPy's `astype` does it; the node itself if it has the type already."""
    if same_type(node.dtype, dtype):
        return node
    if isinstance(dtype, type) and isinstance(node, Constant) and dtype is not int:
        return constant(dtype(node.value))  # type: ignore[arg-type]
    if not isinstance(dtype, type) and not supported(dtype):
        raise StencilError(
            f"converts to {dtype}, which kernels cannot hold; use float32 or float64."
        )
    if as_dtype(node.dtype).kind == "c" and as_dtype(dtype).kind not in "cb":
        raise StencilError(
            f"converts {type_name(node.dtype)} to {type_name(dtype)}, which drops the imaginary part; take .real first."
        )
    converted: Expression = intern(Cast, dtype, node)
    return converted


def truth(node: Expression) -> Expression:
    """Whether the value is not zero."""
    return cast(node, bool if node.weak else np.dtype(np.bool_))


def call(function: str, *operands: Expression) -> Expression:
    """The value of a NumPy function, in the form that executors know.

    Raises
    ------
    StencilError
        NumPy has no such operation for these types, or kernels have none. The message lacks its subject, the kernel.
    """
    lower = _LOWERED.get(function)
    node = None if lower is None else lower(*operands)
    return primitive(function, *operands) if node is None else node


def primitive(function: str, *operands: Expression) -> Expression:
    """A `Call` of a function as it is, with its types."""
    if function not in PRIMITIVES:
        raise StencilError(
            f"uses np.{function}, which the stencil language does not have; build it from its functions."
        )
    operation, result = _resolve(function, tuple(node.dtype for node in operands))
    _require_constants_fit(operands, operation)
    if isinstance(operation, type):
        operands = tuple(cast(node, operation) for node in operands)
    return _fold(intern(Call, result, function, operands, operation))


def _resolve(
    function: str, types: tuple[ExpressionType, ...]
) -> tuple[ExpressionType, ExpressionType]:
    """The type a function computes in and the type of its result, after NumPy's rules."""
    weak = all(isinstance(kind, type) for kind in types)
    # Python's True + True is 2: scalars of kind bool count as int where NumPy would take a logical sum.
    logical = function.startswith(("logical_", "bitwise_", "invert"))
    if weak:
        asked = [as_dtype(int if kind is bool and not logical else kind) for kind in types]
    else:
        asked = [as_dtype(kind) if kind is bool else kind for kind in types]  # type: ignore[misc]
    try:
        dtypes = getattr(np, function).resolve_dtypes((*asked, None))
    except TypeError:
        shown = " and ".join(map(type_name, types))
        raise StencilError(
            f"applies {function} to {shown}, which NumPy does not define; convert with .astype."
        ) from None
    _require_supported(function, types, dtypes)
    if weak:
        return _KIND_OF_LETTER[dtypes[0].kind], _KIND_OF_LETTER[dtypes[-1].kind]
    return dtypes[0], dtypes[-1]


def _require_supported(
    function: str, types: tuple[ExpressionType, ...], dtypes: tuple[np.dtype[Any], ...]
) -> None:
    shown = " and ".join(map(type_name, types))
    if len(set(dtypes[:-1])) > 1:
        raise StencilError(
            f"applies {function} to {shown}, which have no common type; convert one with .astype."
        )
    for dtype in dtypes:
        if not supported(dtype):
            raise StencilError(
                f"applies {function} to {shown}, which NumPy computes in {dtype}; convert with .astype(np.float32) before."
            )
    if dtypes[0].kind == "c" and function not in _COMPLEX:
        raise StencilError(
            f"applies {function} to {shown}; for complex values use {', '.join(sorted(_COMPLEX))} or exp."
        )


def _require_constants_fit(operands: tuple[Expression, ...], operation: ExpressionType) -> None:
    """Refuse integer constants that the operation's integer type cannot hold, as NumPy does."""
    if isinstance(operation, type) or operation.kind not in "iu":
        return
    limits = np.iinfo(operation)
    for node in operands:
        if (
            isinstance(node, Constant)
            and node.dtype is int
            and not limits.min <= node.value <= limits.max
        ):  # type: ignore[operator]
            raise StencilError(
                f"combines the integer {node.value} with {operation}, which cannot hold it; convert with .astype."
            )


def _fold(node: Call) -> Expression:
    """The constant that a call of constants gives, where every executor would round alike."""
    if node.function not in _EXACT or not all(
        isinstance(operand, Constant) for operand in node.operands
    ):
        return node
    if node.operation_dtype is complex:
        return node
    values = [as_dtype(node.operation_dtype).type(operand.value) for operand in node.operands]  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        return constant(getattr(np, node.function)(*values)[()].item())


# ---- functions written in terms of others; None means the function is taken as it is


def _same(node: Expression) -> Expression:
    if as_dtype(node.dtype).kind == "b":
        raise StencilError(
            "applies + to a truth value, which NumPy does not define; convert with .astype."
        )
    return node


def _square(node: Expression) -> Expression:
    return call("multiply", node, node)


def _reciprocal(node: Expression) -> Expression:
    if as_dtype(node.dtype).kind in "biu":
        raise StencilError(
            f"applies reciprocal to {type_name(node.dtype)}, an integer; write 1 / value."
        )
    return call("divide", constant(1), node)


def _logical(function: str) -> Callable[..., Expression]:
    def lower(*operands: Expression) -> Expression:
        return primitive(function, *map(truth, operands))

    return lower


def _bitwise(logical: str) -> Callable[..., Expression | None]:
    """Bit operations on truth values are logical operations."""

    def lower(*operands: Expression) -> Expression | None:
        truths = all(as_dtype(node.dtype).kind == "b" for node in operands)
        return primitive(logical, *operands) if truths else None

    return lower


def _of_truths(logical: str) -> Callable[..., Expression | None]:
    """NumPy's sums, products and extrema of truth values are logical operations; Python scalars count as integers."""

    def lower(*operands: Expression) -> Expression | None:
        truths = all(as_dtype(node.dtype).kind == "b" for node in operands)
        return (
            primitive(logical, *operands)
            if truths and not all(node.weak for node in operands)
            else None
        )

    return lower


def _real(node: Expression) -> Expression:
    if as_dtype(node.dtype).kind != "c":
        return node
    return _part("real", node)


def _imag(node: Expression) -> Expression:
    if as_dtype(node.dtype).kind != "c":
        return cast(constant(0), node.dtype)
    return _part("imag", node)


def _part(function: str, node: Expression) -> Expression:
    if isinstance(node.dtype, type):
        part: Expression = intern(Call, float, function, (node,), complex)
    else:
        part = intern(Call, np.empty(0, node.dtype).real.dtype, function, (node,), node.dtype)
    return part


def _conjugate(node: Expression) -> Expression:
    if as_dtype(node.dtype).kind != "c":
        return node
    return primitive("conjugate", node)


def _exp(node: Expression) -> Expression | None:
    if as_dtype(node.dtype).kind != "c":
        return None
    size, angle = primitive("exp", _real(node)), _imag(node)
    imaginary = call("multiply", constant(1j), call("multiply", size, primitive("sin", angle)))
    return call("add", call("multiply", size, primitive("cos", angle)), imaginary)


def _absolute(node: Expression) -> Expression | None:
    return node if not node.weak and as_dtype(node.dtype).kind in "bu" else None


def _fabs(node: Expression) -> Expression:
    floating = call("divide", node, constant(1)) if as_dtype(node.dtype).kind in "biu" else node
    return call("absolute", floating)


def _whole(node: Expression) -> Expression | None:
    """floor, ceil and trunc leave integers alone."""
    return node if as_dtype(node.dtype).kind in "biu" else None


def _number_test(answer: bool) -> Callable[[Expression], Expression | None]:
    """isnan, isinf and isfinite of integers do not depend on the value."""

    def lower(node: Expression) -> Expression | None:
        if as_dtype(node.dtype).kind not in "biu":
            return None
        return cast(constant(answer), bool if node.weak else np.dtype(np.bool_))

    return lower


def _power(base: Expression, exponent: Expression) -> Expression:
    """Small constant exponents become products, as exact as the power and many times faster."""
    dtype, _ = _resolve_power(base, exponent)
    value = exponent.value if isinstance(exponent, Constant) else None
    kind = as_dtype(dtype).kind
    number = cast(base, dtype)
    if kind == "f" and value == 0.5:
        return primitive("sqrt", number)
    limit = 4 if kind == "f" else 64
    if isinstance(value, (int, float)) and value == int(value) and abs(value) <= limit:
        if value >= 0:
            return _product_power(number, int(value), dtype)
        if kind in "fc":
            return call("divide", constant(1), _product_power(number, -int(value), dtype))
    if kind != "f":
        raise StencilError(
            f"raises {type_name(base.dtype)} to a power that is no small constant; use an exponent from 0 to 64 or .astype(float)."
        )
    return primitive("power", number, exponent)


def _resolve_power(base: Expression, exponent: Expression) -> tuple[ExpressionType, ExpressionType]:
    types = base.dtype, exponent.dtype
    if any(as_dtype(kind).kind == "c" for kind in types):
        return _resolve("multiply", types)
    if all(kind is bool or kind is int for kind in types) and not isinstance(exponent, Constant):
        return (
            float,
            float,
        )  # the sign of the exponent, which decides the kind in Python, is not known yet
    if (
        isinstance(exponent, Constant)
        and exponent.dtype is int
        and exponent.value < 0
        and base.weak
    ):  # type: ignore[operator]
        return _resolve("divide", types)
    return _resolve("power", types)


def _product_power(base: Expression, exponent: int, dtype: ExpressionType) -> Expression:
    """Base ** exponent by squaring, the powers of two from below: x^3 = (x x) x."""
    if exponent == 0:
        return cast(constant(1), dtype)
    result: Expression | None = None
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else call("multiply", square, result)
        exponent >>= 1
        if exponent:
            square = call("multiply", square, square)
    return base if result is None else result


def where(condition: Expression, yes: Expression, no: Expression) -> Expression:
    """`yes` where the condition holds, else `no`; typed as np.where does it."""
    condition = truth(condition)
    if condition.weak and yes.weak and no.weak:
        order: list[WeakKind] = [bool, int, float, complex]
        kind: ExpressionType = order[max(order.index(yes.dtype), order.index(no.dtype))]  # type: ignore[arg-type]
    else:
        # np.where of two Python numbers has the dtype that an array of them has.
        kind = np.result_type(
            *(n.dtype(0) if isinstance(n.dtype, type) else n.dtype for n in (yes, no))
        )
    if not isinstance(kind, type) and not supported(kind):
        raise StencilError(
            f"chooses between {type_name(yes.dtype)} and {type_name(no.dtype)}; convert one with .astype."
        )
    _require_constants_fit((yes, no), kind)
    if isinstance(condition, Constant):
        return cast(yes if condition.value else no, kind)
    choice: Expression = intern(
        Call, kind, "where", (condition, cast(yes, kind), cast(no, kind)), kind
    )
    return choice


_LOWERED: dict[str, Callable[..., Expression | None]] = {
    "positive": _same,
    "square": _square,
    "reciprocal": _reciprocal,
    "logical_and": _logical("logical_and"),
    "logical_or": _logical("logical_or"),
    "logical_xor": _logical("logical_xor"),
    "logical_not": _logical("logical_not"),
    "bitwise_and": _bitwise("logical_and"),
    "bitwise_or": _bitwise("logical_or"),
    "bitwise_xor": _bitwise("logical_xor"),
    "invert": _bitwise("logical_not"),
    "add": _of_truths("logical_or"),
    "multiply": _of_truths("logical_and"),
    "maximum": _of_truths("logical_or"),
    "minimum": _of_truths("logical_and"),
    "fmax": _of_truths("logical_or"),
    "fmin": _of_truths("logical_and"),
    "conjugate": _conjugate,
    "real": _real,
    "imag": _imag,
    "exp": _exp,
    "absolute": _absolute,
    "fabs": _fabs,
    "floor": _whole,
    "ceil": _whole,
    "trunc": _whole,
    "isnan": _number_test(False),
    "isinf": _number_test(False),
    "isfinite": _number_test(True),
    "power": _power,
    "where": where,
}
