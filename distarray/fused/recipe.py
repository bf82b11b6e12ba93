"""What an expression computes, whatever the arrays and the numbers. Pure.

A `Recipe` is the structure of an expression: the element types of its arrays, the kinds of its
numbers and the functions that are applied, one after the other. Equal recipes share their compiled
code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from distarray.stencil.expression import kind_of

ARRAY, NUMBER, STEP = "array", "number", "step"


class Ref(NamedTuple):
    """An operand: the array, number or earlier step of this position."""

    what: str
    at: int


class Step(NamedTuple):
    """A function applied to operands, and the element type of what it gives."""

    function: np.ufunc
    operands: tuple[Ref, ...]
    dtype: np.dtype[Any]


class Kind(NamedTuple):
    """The kind of a number: Python's, and NumPy's type if it is one of NumPy's numbers. `fits` is
    False for integers that kernels cannot be handed.
    """

    kind: str
    dtype: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Recipe:
    """The structure of an expression; the last step gives its values, cast to `target`."""

    arrays: tuple[np.dtype[Any], ...]
    numbers: tuple[Kind, ...]
    steps: tuple[Step, ...]
    target: np.dtype[Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What IEEE 754 or integer arithmetic defines.
EXACT = _names(
    "add subtract multiply divide negative positive absolute fabs sqrt square reciprocal conjugate "
    "floor ceil trunc rint copysign equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert "
    "isnan isinf isfinite"
)
#: Cheap enough to be computed twice.
_CHEAP = EXACT | _names("minimum maximum fmin fmax sign left_shift right_shift")


def costly(function: np.ufunc) -> bool:
    """Whether it takes longer to compute a function than to read its values. Local."""
    return function.__name__ not in _CHEAP


def kind_of_number(number: Any, others: Sequence[np.dtype[Any]]) -> Kind:
    """The kind of a number that meets values of these types in one function."""
    value = number.item() if isinstance(number, np.generic) else number
    kind = kind_of(value)
    if kind is None:
        return Kind(type(number).__name__, fits=False)
    if isinstance(number, np.generic):
        fits = kind is not int or -(2**63) <= value < 2**63
        return Kind(kind.__name__, number.dtype.name, fits)
    return Kind(kind.__name__, "", kind is not int or _fits(value, others))


def _fits(value: int, others: Sequence[np.dtype[Any]]) -> bool:
    """Whether a Python integer can be held by the integers that it meets, and by int64."""
    meeting = np.result_type(*others)
    limits = np.iinfo(meeting if meeting.kind in "iu" else np.int64)
    return max(limits.min, -(2**63)) <= value <= min(limits.max, 2**63 - 1)
