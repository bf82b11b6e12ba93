"""A recipe on arrays of one backend, in the way that pays. Local.

On the host NumPy computes a form in pieces until that has been done to enough cells for compiling
it to be worth the time, then it is one compiled kernel; forms with functions of which compiled code
gives other bits stay with NumPy. On a device it is one kernel, or one for each step where the
stencil language lacks a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray import spans
from distarray.arraylike import HostArray
from distarray.backends.base import Backend
from distarray.errors import BackendError
from distarray.fused import blocks, probe
from distarray.fused.program import program_of
from distarray.fused.recipe import ARRAY, NUMBER, STEP, Kind, Recipe, Ref, Step
from distarray.regions import Box
from distarray.stencil import codegen
from distarray.stencil.compile import NativeLaunch
from distarray.stencil.launch import ArrayView, LaunchGeometry

#: Cells that are computed by NumPy before a form is compiled, as long as compiling takes.
CELLS_BEFORE_COMPILING = 1 << 21

_MOST_FORMS = 1024
#: Evaluations and cells of each form so far.
_seen: dict[Recipe, tuple[int, int]] = {}
#: Whether all functions of a form have NumPy's bits when they are compiled.
_compilable: dict[Recipe, bool] = {}


def run(
    backend: Backend, recipe: Recipe, arrays: Sequence[Any], numbers: Sequence[Any], target: Any
) -> str:
    """Compute a recipe on arrays that broadcast to the target, which may be one of them; says how.
    Local.
    """
    moved = target.nbytes + sum(array.nbytes for array in arrays)
    tally = spans.tally("expression", "expressions", cells=target.size, nbytes=moved)
    start = spans.enter(tally)
    how = "nothing"
    if target.size:
        views = [a if a.shape == target.shape else np.broadcast_to(a, target.shape) for a in arrays]
        on = _on_host if backend.host else _on_device
        how = on(backend, recipe, views, numbers, target)
    spans.leave(tally, start)
    return how


def run_single(function: np.ufunc, operands: Sequence[Any], target: HostArray) -> None:
    """Compute a single function on the host, which is NumPy's. Local."""
    moved = target.nbytes * (1 + sum(isinstance(value, np.ndarray) for value in operands))
    tally = spans.tally("expression", "expressions", cells=target.size, nbytes=moved)
    start = spans.enter(tally)
    with np.errstate(all="ignore"):
        blocks.compute(function, operands, target)
    spans.leave(tally, start)


def _on_host(
    backend: Backend,
    recipe: Recipe,
    arrays: Sequence[HostArray],
    numbers: Sequence[Any],
    target: HostArray,
) -> str:
    if worth_compiling(recipe, target.size):
        launch = _compiled(backend, recipe, arrays, target)
        if launch is not None:
            launch.set_scalars(list(map(_plain, numbers)))
            launch.run(Box.of_shape(target.shape))
            return "compiled"
    blocks.run(recipe, arrays, numbers, target)
    return "in pieces"


def worth_compiling(recipe: Recipe, cells: int) -> bool:
    """Whether a form has been seen often enough for the number of cells; notes that it was seen."""
    if len(_seen) >= _MOST_FORMS:
        _seen.clear()
    times, before = _seen.get(recipe, (0, 0))
    _seen[recipe] = times + 1, before + cells
    return times > 0 and before >= CELLS_BEFORE_COMPILING


def _compiled(
    backend: Backend, recipe: Recipe, arrays: Sequence[HostArray], target: HostArray
) -> NativeLaunch | None:
    """The launch of a form's compiled kernel; None where it has none of the same bits."""
    program = program_of(recipe, target.ndim)
    everything = (*arrays, target)
    if program is None or not all(map(_has_rows, everything)):
        return None
    aliased = any(np.may_share_memory(array, target) for array in arrays)
    code = codegen.generate(program, aliased=aliased)
    try:
        function = backend.load(code.text, code.symbol) if _same_bits(recipe, backend) else None
    except BackendError:  # a kernel would say so; an operator does without
        _compilable[recipe] = False
        return None
    if function is None:
        return None
    return NativeLaunch(program, code, function, *_placed(everything))


def _placed(arrays: Sequence[Any]) -> tuple[list[ArrayView], LaunchGeometry]:
    """Arrays of one shape whose axes are all taken for those of a grid."""
    shape = arrays[-1].shape
    zeros = (0,) * len(shape)
    geometry = LaunchGeometry(zeros, shape, (False,) * len(shape), None)
    return [ArrayView(array, zeros, zeros) for array in arrays], geometry


def _has_rows(array: HostArray) -> bool:
    return array.shape[-1] == 1 or array.strides[-1] == array.itemsize


def _same_bits(recipe: Recipe, backend: Backend) -> bool:
    """Whether all functions of a form have NumPy's bits when they are compiled."""
    found = _compilable.get(recipe)
    if found is None:
        if len(_compilable) >= _MOST_FORMS:
            _compilable.clear()
        found = _compilable[recipe] = all(
            probe.same_bits(step, _types(recipe, step), backend) for step in recipe.steps
        )
    return found


def _types(recipe: Recipe, step: Step) -> list[np.dtype[Any]]:
    """The types of a step's operands, of a number the one it gets where it meets the others."""

    def type_of(ref: Ref) -> np.dtype[Any]:
        return recipe.arrays[ref.at] if ref.what == ARRAY else recipe.steps[ref.at].dtype

    others = [type_of(ref) for ref in step.operands if ref.what != NUMBER]
    return [
        _number_type(recipe.numbers[ref.at], others) if ref.what == NUMBER else type_of(ref)
        for ref in step.operands
    ]


def _number_type(kind: Kind, others: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    if kind.dtype:
        return np.dtype(kind.dtype)
    return np.result_type(*others, {"bool": True, "int": 0, "float": 0.0, "complex": 0j}[kind.kind])


def _on_device(
    backend: Backend, recipe: Recipe, arrays: Sequence[Any], numbers: Sequence[Any], target: Any
) -> str:
    program = program_of(recipe, target.ndim) if len(recipe.steps) > 1 else None
    if program is None:
        _one_by_one(recipe, arrays, numbers, target)
        return "one by one"
    launch = backend.bind(program, *_placed((*arrays, target)))
    launch.set_scalars(list(map(_plain, numbers)))
    launch.run_boxes([(Box.of_shape(target.shape), -1)])
    return "compiled"


def _one_by_one(recipe: Recipe, arrays: Sequence[Any], numbers: Sequence[Any], target: Any) -> None:
    """The steps as kernels of their own."""
    values: dict[str, Sequence[Any]] = {ARRAY: arrays, NUMBER: numbers}
    made: list[Any] = []
    values[STEP] = made
    for step in recipe.steps:
        result = step.function(*(values[ref.what][ref.at] for ref in step.operands))
        made.append(result)
    target[...] = made[-1]


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number
