"""NumPy functions written in terms of others, so that every executor computes the same bits. Pure.

Executors see few functions: squares, powers with a small constant exponent, logical functions of
numbers and the like are written here as products, comparisons and selections.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distarray.errors import StencilError
from distarray.stencil.calls import (
    as_dtype,
    cast,
    constant,
    primitive,
    require_constants_fit,
    resolve,
    supported,
    truth,
    type_name,
)
from distarray.stencil.expression import (
    Call,
    Constant,
    Expression,
    ExpressionType,
    WeakKind,
    intern,
)


def call(function: str, *operands: Expression) -> Expression:
    """The value of a NumPy function, in the form that executors know.

    Raises
    ------
    StencilError
        NumPy has no such operation for these types, or kernels have none. The message lacks its
        subject, the kernel.
    """
    lower = _LOWERED.get(function)
    node = None if lower is None else lower(*operands)
    return primitive(function, *operands) if node is None else node


# A lowering gives None where the function is taken as it is.


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
    """NumPy's sums, products and extrema of truth values are logical; scalars count as integers."""

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
    return node if not node.weak and as_dtype(node.dtype).kind in "ub" else None


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
    if isinstance(value, (int, float)) and abs(value) <= limit and value == int(value):
        if value >= 0:
            return _product_power(number, int(value), dtype)
        if kind in "fc":
            return call("divide", constant(1), _product_power(number, -int(value), dtype))
    if kind != "f":
        raise StencilError(
            f"raises {type_name(base.dtype)} to a power that is no small constant; use an "
            "exponent from 0 to 64 or .astype(float)."
        )
    return primitive("power", number, exponent)


def _resolve_power(base: Expression, exponent: Expression) -> tuple[ExpressionType, ExpressionType]:
    types = base.dtype, exponent.dtype
    if any(as_dtype(kind).kind == "c" for kind in types):
        return resolve("multiply", types)
    if all(kind is bool or kind is int for kind in types) and not isinstance(exponent, Constant):
        return float, float  # in Python the exponent's sign, not known yet, decides the kind
    value = exponent.value if isinstance(exponent, Constant) else None
    if type(value) is int and value < 0 and base.weak:
        return resolve("divide", types)
    return resolve("power", types)


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
            f"chooses between {type_name(yes.dtype)} and {type_name(no.dtype)}; convert one with "
            ".astype."
        )
    require_constants_fit((yes, no), kind)
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
