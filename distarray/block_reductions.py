"""Reductions of whole blocks on their device: one pass over memory by a stencil program of one
line.

A program is traced once for a kind of reduction and of blocks; bound to memory it is kept with the
block. Components are joined within the expression, but for exact sums, whose components have a
reduction each. The result is this rank's part, as `BoundLaunch.partials` gives it; `contributions`
makes of it what the ranks have in common.
"""

from __future__ import annotations

import functools
import inspect
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from distarray import exact
from distarray.accumulation import accumulator_of
from distarray.arraylike import HostArray
from distarray.block import Block
from distarray.comm.base import Communicator
from distarray.layout import Component
from distarray.pending import Pending
from distarray.regions import Box
from distarray.resident import Finish, ResidentReductions, stays_on_device
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import ArrayParameter, Program, Reduction, kind_of
from distarray.stencil.language import index, reduce, where
from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry
from distarray.stencil.partials import Partial
from distarray.stencil.tracing import trace

#: A block with the first numbers of the components that are reduced.
Operand = tuple[Block, Component]

#: Components read by one pass; more are reduced in several.
MOST_COMPONENTS = 32


def _number(value: Any) -> Any:
    return value.astype(np.int64) if value.dtype.kind == "b" else value


def _wide(value: Any) -> Any:
    return value.astype(accumulator_of(value.dtype))


def _product(a: Any, b: Any) -> Any:
    dtype = accumulator_of(np.result_type(a.dtype, b.dtype))
    return np.conjugate(a).astype(dtype) * b.astype(dtype)


def _square(value: Any) -> Any:
    if value.dtype.kind == "c":
        real, imaginary = value.real.astype(np.float64), value.imag.astype(np.float64)
        return real * real + imaginary * imaginary
    value = value.astype(np.float64)
    return value * value


def _deviation(value: Any, mean: Any) -> Any:
    dtype = np.result_type(accumulator_of(value.dtype), np.float64)
    return _square(value.astype(dtype) - mean)


def _truth(value: Any) -> Any:
    return (value != 0).astype(np.int64)


#: The place of a value that is not looked for.
_NOWHERE = np.iinfo(np.int64).max


def _place_if(found: Any, component: int, points: Sequence[Any]) -> Any:
    """The flat index of a point in an array of that many points along each axis."""
    place: Any = component
    for axis, count in enumerate(points):
        place = place * count + index(axis)
    return where(found, place, _NOWHERE)


def _equal(component: int, value: Any, wanted: Any, *points: Any) -> Any:
    return _place_if(_number(value) == wanted, component, points)


def _missing(component: int, value: Any, *points: Any) -> Any:
    return _place_if(np.isnan(value), component, points)


#: For each kind: what a point contributes, how two contributions join, and the fused reduction.
_KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any], str]] = {
    "sum": (lambda value: value, lambda a, b: _wide(a) + _wide(b), "sum"),
    "min": (_number, np.minimum, "min"),
    "max": (_number, np.maximum, "max"),
    "any": (_truth, np.maximum, "max"),
    "all": (_truth, np.minimum, "min"),
    "dot": (_product, np.add, "sum"),
    "squares": (_square, np.add, "sum"),
    "deviations": (_deviation, np.add, "sum"),
    "equal": (_equal, np.minimum, "min"),
    "missing": (_missing, np.minimum, "min"),
}
#: Kinds in which the contribution of a point depends on its place, first on its component's number.
_SEARCHES = ("equal", "missing")


def partial_result(
    kind: str, *operands: Operand, mean: complex | None = None, reproducible: bool = False
) -> HostArray:
    """This rank's part of a reduction of owned values. Local; waits for the device.

    Parameters
    ----------
    kind : "sum", "min" or "max" of the values, "any" or "all" of them being true (1 or 0), "dot" of
        two blocks (conj(a) * b), "squares" (|a|^2) or "deviations" from a mean (|a - mean|^2)
    *operands : blocks of one placement on one device, with the components meant
    mean : number, for "deviations"
    reproducible : exact sums of rounded values

    Returns
    -------
    One value of a sum (float64, complex128 or int64), limbs of `exact`, or an extremum and whether
    there was a NaN (float64, int64 or uint64).
    """
    scalars = () if mean is None else (mean,)
    parts = [
        part
        for chosen in _split(operands)
        for part in _partials(kind, chosen, scalars, reproducible)
    ]
    return functools.reduce(_merger(kind), parts)


def searchable(block: Block, prefix: Component) -> bool:
    """Whether `first_place` takes these components. Local; the same on all ranks."""
    components, dtype = block.layout.components[len(prefix) :], block.layout.dtype
    return math.prod(components) <= MOST_COMPONENTS and dtype.kind != "c" and dtype != np.uint64


def first_place(operand: Operand, wanted: Any) -> int:
    """The smallest flat index, in the whole array, of an owned value that equals `wanted`, or of a
    NaN if that is one; the largest int64 where there is none. Local; waits for the device.

    Parameters
    ----------
    operand : a block and its components that are searched, see `searchable`
    wanted : NumPy scalar of the block's element type
    """
    points = operand[0].layout.points
    if np.isnan(wanted):
        (part,) = _partials("missing", [operand], points, False)
    else:
        value = wanted.item()
        scalars = (int(value) if isinstance(value, bool) else value, *points)
        (part,) = _partials("equal", [operand], scalars, False)
    return int(part[0])


def begin(
    kind: str,
    *operands: Operand,
    communicator: Communicator,
    name: str,
    finish: Finish,
    reproducible: bool = False,
) -> Pending | None:
    """Start a reduction whose result stays on the device; None where it has to go by the host, on
    all ranks alike. Collective.

    Parameters
    ----------
    kind, operands, reproducible : as for `partial_result`, without "deviations"
    name : what tells `finish` from those of other reductions of this kind
    finish : what makes the result of the part of all ranks, and its element type
    """
    if not stays_on_device(communicator) or len(_split(operands)) > 1:
        return None
    bound = _bound(kind, operands, (), reproducible)
    partials = bound.launch.device_partials()
    if len(bound.reductions) > 1 or not partials:
        return None
    block, (reduction,) = operands[0][0], bound.reductions
    resident = bound.resident.get(name)
    if resident is None:
        described = [(reduction, finish)]
        resident = ResidentReductions(described, partials, block.backend, communicator)
        bound.resident[name] = resident
    bound.run(block)
    (pending,) = resident.begin()
    if name == kind and as_dtype(reduction.value.dtype) == finish[1]:
        return pending
    return Pending(_ByHost(pending), 0, lambda value: value, finish[1])


class _ByHost:
    """A reduction whose result the host makes, as a mean of a sum: kernels take it from there."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def test(self) -> bool:
        return self._pending.test()

    def result(self) -> Any:
        return [self._pending.result()]


def _split(operands: Sequence[Operand]) -> list[Sequence[Operand]]:
    """The operands, or their components one by one where they are many."""
    block, prefix = operands[0]
    components = block.layout.components[len(prefix) :]
    if math.prod(components) <= MOST_COMPONENTS:
        return [operands]
    return [
        part
        for number in range(components[0])
        for part in _split([(block, (*prefix, number)) for block, prefix in operands])
    ]


def _partials(
    kind: str, operands: Sequence[Operand], scalars: Sequence[complex], reproducible: bool
) -> list[HostArray]:
    block = operands[0][0]
    if block.empty:
        program = _program_of(kind, operands, scalars, reproducible)
        return [Partial(reduction).result() for reduction in program.reductions]
    bound = _bound(kind, operands, scalars, reproducible)
    bound.launch.set_scalars(scalars)
    bound.run(block)
    return bound.launch.partials()


@dataclass(frozen=True)
class _Bound:
    """A program bound to blocks, and by name what begins reductions that stay on the device."""

    launch: BoundLaunch
    reductions: tuple[Reduction, ...]
    resident: dict[str, ResidentReductions] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        self.launch.reset_reductions()
        self.launch.run(Box.of_shape(block.owned.shape))


def _bound(
    kind: str, operands: Sequence[Operand], scalars: Sequence[complex], reproducible: bool
) -> _Bound:
    """The program bound to the blocks, kept until one of them goes."""
    block = operands[0][0]
    places = [(other.serial, prefix) for other, prefix in operands]
    key = (kind, reproducible, *map(kind_of, scalars), *places)
    bound: _Bound | None = block.kept.get(key)
    if bound is None:
        program = _program_of(kind, operands, scalars, reproducible)
        views = [
            ArrayView(b.memory[prefix], b.layout.halo, b.owned.start) for b, prefix in operands
        ]
        grid = block.layout.decomposition
        geometry = LaunchGeometry(block.owned.start, grid.shape, grid.periodic, None)
        launch = block.backend.bind(program, views, geometry)
        bound = block.kept[key] = _Bound(launch, program.reductions)
        for other, _ in operands[1:]:
            if other is not block:
                weakref.finalize(other, _drop, weakref.ref(block), key).atexit = False
    return bound


def _drop(block: weakref.ref[Block], key: Any) -> None:
    found = block()
    if found is not None:
        found.kept.pop(key, None)


def _program_of(
    kind: str, operands: Sequence[Operand], scalars: Sequence[complex], reproducible: bool
) -> Program:
    layouts = [
        replace(block.layout, components=block.layout.components[len(prefix) :])
        for block, prefix in operands
    ]
    parameters = tuple(
        ArrayParameter(name, layout.dtype, layout.components, layout.staggered)
        for name, layout in zip("uv", layouts, strict=False)
    )
    return _program(kind, parameters, tuple(map(kind_of, scalars)), reproducible)


@functools.lru_cache(maxsize=256)
def _program(
    kind: str, parameters: tuple[ArrayParameter, ...], scalars: tuple[Any, ...], reproducible: bool
) -> Program:
    value, join, reduction = _KINDS[kind]
    names = {f"scalar_{number}": kind_of_one for number, kind_of_one in enumerate(scalars)}

    def function(*arrays: Any, **given: Any) -> Any:
        points = []
        for number, component in enumerate(np.ndindex(*parameters[0].components)):
            place = [number] if kind in _SEARCHES else []
            values = [array.select(component)[...] for array in arrays]
            points.append(value(*place, *values, *given.values()))
        if reproducible:
            return [reduce.sum(point, reproducible=True) for point in points]
        return getattr(reduce, reduction)(functools.reduce(join, points))

    function.__name__ = kind
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_ONLY) for p in parameters),
            *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names),
        ]
    )
    return trace(function, parameters, names, {}, ndim=len(parameters[0].staggered or ()))


def _merger(kind: str) -> Callable[[HostArray, HostArray], HostArray]:
    """What joins the results of several passes, or of several components."""
    reduction = _KINDS[kind][2]
    if reduction == "sum":
        return exact.merged
    choose = np.minimum if reduction == "min" else np.maximum
    return lambda a, b: np.array([choose(a[0], b[0]), max(a[1], b[1])], a.dtype)
