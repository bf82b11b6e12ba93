"""Which compiled functions have the bits of NumPy's. Local.

What IEEE 754 or integer arithmetic defines is the same everywhere. The rest (sines, powers, what a
minimum makes of -0 and 0, ...) is tried out, once in a process and for some thousands of values:
NumPy takes many of these functions from the C library, as compiled kernels do, and has its own for
others, which differ in the last bit of many values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import Backend
from distarray.fused.program import program_of
from distarray.fused.recipe import ARRAY, EXACT, Recipe, Ref, Step
from distarray.regions import Box
from distarray.stencil import codegen
from distarray.stencil.compile import NativeLaunch
from distarray.stencil.launch import ArrayView, LaunchGeometry


def same_bits(step: Step, types: Sequence[np.dtype[Any]], backend: Backend) -> bool:
    """Whether compiled kernels give the bits of NumPy for a function of operands of these types,
    numbers counting as values of their arrays' type. Local; compiles at the first question.
    """
    exact = step.function.__name__ in EXACT
    if any(dtype.kind == "c" for dtype in types):
        return exact and step.function is not np.absolute
    if exact:
        return True
    key = step.function, tuple(types), step.dtype
    if key not in _tried:
        found = _try(*key, backend)
        if found is None:
            return False
        _tried[key] = found
    return _tried[key]


#: What was found for a function of operands of some types with a result of a type.
_tried: dict[tuple[np.ufunc, tuple[np.dtype[Any], ...], np.dtype[Any]], bool] = {}


def _try(
    function: np.ufunc, types: tuple[np.dtype[Any], ...], dtype: np.dtype[Any], backend: Backend
) -> bool | None:
    """Whether all samples agree; None if nothing compiles."""
    operands = _samples(types)
    refs = tuple(Ref(ARRAY, number) for number in range(len(types)))
    recipe = Recipe(types, (), (Step(function, refs, dtype),), dtype)
    program = program_of(recipe, 1)
    if program is None:
        return False
    code = codegen.generate(program)
    loaded = backend.load(code.text, code.symbol)
    if loaded is None:
        return None
    given, expected = np.empty(operands[0].shape, dtype), np.empty(operands[0].shape, dtype)
    views = [ArrayView(array, (0,), (0,)) for array in (*operands, given)]
    geometry = LaunchGeometry((0,), given.shape, (False,), None)
    NativeLaunch(program, code, loaded, views, geometry).run(Box.of_shape(given.shape))
    with np.errstate(all="ignore"):
        function(*operands, out=expected)
    return _equal_bits(given, expected)


def _equal_bits(one: HostArray, other: HostArray) -> bool:
    """Whether all values agree to the bit, whatever NaN they are."""
    word = f"u{one.itemsize}"
    equal = one.view(word) == other.view(word)
    if one.dtype.kind == "f":
        equal |= np.isnan(one) & np.isnan(other)
    return bool(equal.all())


def _samples(types: tuple[np.dtype[Any], ...]) -> list[HostArray]:
    """Values of each type: every pair of special ones, then numbers of all sizes."""
    random = np.random.default_rng(0)
    columns = [_values(dtype, random) for dtype in types]
    if len(columns) == 1:
        return columns
    special = 12
    least = min(map(len, columns))
    one, other = columns[0][:least], columns[1][:least]
    pairs = np.repeat(one[:special], special), np.tile(other[:special], special)
    return [
        np.concatenate([pairs[0], one, one]),
        np.concatenate([pairs[1], random.permutation(other), other[::-1]]),
    ]


def _values(dtype: np.dtype[Any], random: np.random.Generator) -> HostArray:
    if dtype.kind == "b":
        return random.random(4096) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        least, most = int(limits.min), int(limits.max)
        whole = [0, 1, 2, 3, most, most - 1, least, least + 1, 5, 7, 31, 8]
        small = random.integers(max(-70, least), 70, 2000)
        wide = random.integers(least, most, 2000, dtype=dtype, endpoint=True)
        return np.concatenate([np.array(whole, dtype), small.astype(dtype), wide])
    limits_of = np.finfo(dtype)
    ends: list[float] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.0]
    ends += [float(limits_of.max), float(limits_of.tiny), float(limits_of.tiny) / 8]
    sizes = 10.0 ** random.uniform(limits_of.minexp * 0.3, limits_of.maxexp * 0.3, 2000)
    parts = [
        ends,
        random.uniform(-1, 1, 3000),
        random.uniform(-10, 10, 3000),
        random.uniform(-700, 700, 1000),
        sizes * random.choice([-1, 1], 2000),
        random.integers(-20, 20, 500),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate(parts).astype(dtype)
