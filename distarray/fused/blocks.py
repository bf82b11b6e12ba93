"""A recipe by NumPy, in pieces that stay in the cache: one pass over memory, and little memory of
its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.complexmath import product, quotient
from distarray.fused.recipe import ARRAY, NUMBER, STEP, Recipe

#: Elements of a piece: operands, target and a few intermediate results fit into the cache.
PIECE = 8192

Index = tuple[slice | int, ...]


def run(
    recipe: Recipe, arrays: Sequence[HostArray], numbers: Sequence[Any], target: HostArray
) -> None:
    """Compute a recipe on arrays of the shape of the target, which may be one of them. Local."""
    slots = _slots(recipe)
    whole: HostArray = np.empty(0)
    scratch: dict[tuple[int, ...], list[HostArray]] = {}
    with np.errstate(all="ignore"):
        for index in pieces(target.shape):
            part = target[index]
            if part.shape not in scratch:
                scratch[part.shape] = [np.empty(part.shape, dtype) for dtype in slots.dtypes]
            values = {ARRAY: [array[index] for array in arrays], NUMBER: list(numbers), STEP: []}
            for step, slot in zip(recipe.steps, slots.of_step, strict=True):
                operands = [values[ref.what][ref.at] for ref in step.operands]
                whole = part if slot < 0 else scratch[part.shape][slot]
                compute(step.function, operands, whole)
                values[STEP].append(whole)
            if whole is not part:
                np.copyto(part, whole, casting="unsafe")


def compute(function: np.ufunc, operands: Sequence[Any], target: HostArray) -> None:
    """A function into an array of its result's type, complex products and quotients by their real
    expansion. Local.
    """
    expanded = _EXPANDED.get(function) if target.dtype.kind == "c" else None
    if expanded is not None:
        target[...] = expanded(*(np.asarray(value, target.dtype) for value in operands))
    elif target.shape[-1] > 1:
        function(*operands, out=target)
    else:  # whose stride is that of a row; for some NumPy 2.4 has a wrong negative
        target[...] = function(*operands)


_EXPANDED: dict[np.ufunc, Callable[..., HostArray]] = {
    np.multiply: product,
    np.true_divide: quotient,
    np.square: lambda x: product(x, x),
    np.reciprocal: lambda x: quotient(np.ones_like(x), x),
}


def pieces(shape: tuple[int, ...]) -> Iterator[Index]:
    """Indices that divide an array into pieces of whole rows, or of parts of one, in order."""
    axis, size = len(shape), 1
    while axis and size * shape[axis - 1] <= PIECE:
        axis -= 1
        size *= shape[axis]
    if not axis:
        if size:
            yield ()
        return
    length = max(1, PIECE // size) if size else 0
    if not length:
        return
    for outer in itertools.product(*map(range, shape[: axis - 1])):
        for start in range(0, shape[axis - 1], length):
            yield (*outer, slice(start, start + length))


class _Slots:
    """Where each step puts its result: a place of its type, used again when nobody reads it any
    more; -1 for the target.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.dtypes: list[np.dtype[Any]] = []
        self.of_step: list[int] = []
        last = len(recipe.steps) - 1
        final = {
            ref.at: number
            for number, step in enumerate(recipe.steps)
            for ref in step.operands
            if ref.what == STEP
        }
        free: list[int] = []
        for number, step in enumerate(recipe.steps):
            # A place that this step reads is not the one it writes: real expansions read again.
            slot = next((s for s in free if self.dtypes[s] == step.dtype), None)
            if number == last and _direct(recipe):
                slot = -1
            elif slot is None:
                slot = len(self.dtypes)
                self.dtypes.append(step.dtype)
            else:
                free.remove(slot)
            self.of_step.append(slot)
            read = {ref.at for ref in step.operands if ref.what == STEP}
            free += [self.of_step[at] for at in sorted(read) if final[at] == number]


def _direct(recipe: Recipe) -> bool:
    """Whether the last step writes the target."""
    return recipe.steps[-1].dtype == recipe.target


@lru_cache(maxsize=1024)
def _slots(recipe: Recipe) -> _Slots:
    return _Slots(recipe)
