"""Calls of NumPy functions: what kernels compute with, and result types asked of NumPy itself.

Pure. Messages of errors raised here lack their subject, the kernel; the tracer puts it in front.
"""

from __future__ import annotations

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


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPARISONS = _names("equal not_equal less less_equal greater greater_equal")
TRANSCENDENTAL = _names(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh "
    "arcsinh arccosh arctanh hypot cbrt power"
)
ARITHMETIC = _names(
    "add subtract multiply divide floor_divide remainder negative absolute sqrt sign fmod "
    "floor ceil trunc rint minimum maximum fmin fmax copysign"
)
LOGICAL = _names("logical_and logical_or logical_xor logical_not")
BITWISE = _names("bitwise_and bitwise_or bitwise_xor invert left_shift right_shift")
TESTS = _names("isnan isinf isfinite")
PARTS = _names("real imag conjugate")
#: Functions an executor meets in `Call.function`.
PRIMITIVES = (
    COMPARISONS | TRANSCENDENTAL | ARITHMETIC | LOGICAL | BITWISE | TESTS | PARTS | {"where"}
)
_COMPLEX = TESTS | PARTS | _names("add subtract multiply divide negative absolute equal not_equal")
# Folding these cannot change a bit: the C compiler and NumPy round them alike.
_EXACT = COMPARISONS | LOGICAL | _names("add subtract multiply divide negative absolute sqrt")


def as_dtype(kind: ExpressionType) -> np.dtype[Any]:
    """The dtype in which values of this type are computed and kept."""
    return WEAK_DTYPES[kind] if isinstance(kind, type) else kind


def supported(dtype: np.dtype[Any]) -> bool:
    """Whether kernels can hold this dtype: bool, integers, real or complex of 32 or 64 bits."""
    return dtype.char in _SUPPORTED and dtype.isnative


def same_type(one: ExpressionType, other: ExpressionType) -> bool:
    """Whether two types are equal; plain == would take the kind float for the dtype float64."""
    return isinstance(one, type) == isinstance(other, type) and one == other


def type_name(kind: ExpressionType) -> str:
    """The type as messages name it."""
    if not isinstance(kind, type):
        return str(kind)
    return f"{'an' if kind is int else 'a'} {kind.__name__} scalar"


def constant(value: Any) -> Expression:
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
            f"uses the integer {value}, outside the range of int64; use a float or a smaller "
            "number."
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
            f"converts {type_name(node.dtype)} to {type_name(dtype)}, which drops the imaginary "
            "part; take .real first."
        )
    converted: Expression = intern(Cast, dtype, node)
    return converted


def truth(node: Expression) -> Expression:
    """Whether the value is not zero."""
    return cast(node, bool if node.weak else np.dtype(np.bool_))


def primitive(function: str, *operands: Expression) -> Expression:
    """A `Call` of a function as it is, with its types."""
    if function not in PRIMITIVES:
        raise StencilError(
            f"uses np.{function}, which the stencil language does not have; build it from its "
            "functions."
        )
    operation, result = resolve(function, tuple(node.dtype for node in operands))
    require_constants_fit(operands, operation)
    if isinstance(operation, type):
        operands = tuple(cast(node, operation) for node in operands)
    return _fold(intern(Call, result, function, operands, operation))


def resolve(
    function: str, types: tuple[ExpressionType, ...]
) -> tuple[ExpressionType, ExpressionType]:
    """The type a function computes in and the type of its result, after NumPy's rules."""
    weak = all(isinstance(kind, type) for kind in types)
    # Python's True + True is 2: scalars of kind bool count as int, but in logical functions.
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
                f"applies {function} to {shown}, which NumPy computes in {dtype}; convert with "
                ".astype(np.float32) before."
            )
    if dtypes[0].kind == "c" and function not in _COMPLEX:
        raise StencilError(
            f"applies {function} to {shown}; for complex values use {', '.join(sorted(_COMPLEX))} "
            "or exp."
        )


def require_constants_fit(operands: tuple[Expression, ...], operation: ExpressionType) -> None:
    """Refuse integer constants that the operation's integer type cannot hold, as NumPy does."""
    if isinstance(operation, type) or operation.kind not in "iu":
        return
    limits = np.iinfo(operation)
    for node in operands:
        value = node.value if isinstance(node, Constant) else None
        if type(value) is int and not limits.min <= value <= limits.max:
            raise StencilError(
                f"combines the integer {value} with {operation}, which cannot hold it; "
                "convert with .astype."
            )


def _fold(node: Call) -> Expression:
    """The constant that a call of constants gives, where every executor would round alike."""
    constants = [operand.value for operand in node.operands if isinstance(operand, Constant)]
    known = len(constants) == len(node.operands) and node.weak
    if not known or node.function not in _EXACT or node.operation_dtype is complex:
        return node
    values = [as_dtype(node.operation_dtype).type(value) for value in constants]
    with np.errstate(all="ignore"):
        return constant(getattr(np, node.function)(*values)[()].item())
