"""A recipe as a program of the stencil compiler. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from distarray.errors import StencilError
from distarray.fused.recipe import ARRAY, NUMBER, Kind, Recipe
from distarray.stencil import calls, lowering
from distarray.stencil.expression import (
    ArrayParameter,
    Expression,
    Program,
    Read,
    Scalar,
    Store,
    WeakKind,
    intern,
)

_KINDS: dict[str, WeakKind] = {"bool": bool, "int": int, "float": float, "complex": complex}


@lru_cache(maxsize=1024)
def program_of(recipe: Recipe, ndim: int) -> Program | None:
    """The program that computes a recipe on arrays of so many axes, the last of which is written;
    None if the stencil language lacks a function or a type.

    Components count as axes. The parameters are the arrays of the recipe and its target.
    """
    dtypes = (*recipe.arrays, recipe.target)
    if not all(map(calls.supported, dtypes)) or not all(kind.fits for kind in recipe.numbers):
        return None
    try:
        value = _value(recipe, ndim)
    except StencilError:
        return None
    if value is None:
        return None
    return Program(
        name="expression",
        ndim=ndim,
        arrays=tuple(
            ArrayParameter(f"x{number}" if number < len(recipe.arrays) else "result", dtype, (),
                           (False,) * ndim)
            for number, dtype in enumerate(dtypes)
        ),
        scalars=tuple(
            (f"s{number}", _KINDS[kind.kind]) for number, kind in enumerate(recipe.numbers)
        ),
        stores=(Store(len(recipe.arrays), (), value),),
        lines=(0,),
    )  # fmt: skip


def _value(recipe: Recipe, ndim: int) -> Expression | None:
    """The value at a point; None if a step has another type than NumPy's."""
    here = (0,) * ndim
    found: dict[str, list[Expression]] = {
        ARRAY: [intern(Read, dtype, n, (), here) for n, dtype in enumerate(recipe.arrays)],
        NUMBER: [_number(n, kind) for n, kind in enumerate(recipe.numbers)],
    }
    steps: list[Expression] = []
    for step in recipe.steps:
        if getattr(np, step.function.__name__, None) is not step.function:
            return None
        operands = [(found.get(ref.what) or steps)[ref.at] for ref in step.operands]
        node = lowering.call(step.function.__name__, *operands)
        if calls.as_dtype(node.dtype) != step.dtype:
            return None
        steps.append(node)
    return calls.cast(steps[-1], recipe.target)


def _number(number: int, kind: Kind) -> Expression:
    scalar: Any = intern(Scalar, _KINDS[kind.kind], f"s{number}")
    return calls.cast(scalar, np.dtype(kind.dtype)) if kind.dtype else scalar
