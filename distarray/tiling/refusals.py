"""What is not tiled, and why: sentences for users. The same on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distarray.boundary.array_conditions import ArrayConditions
from distarray.boundary.custom import CustomRule
from distarray.boundary.rules import PiecewiseRule, Rule, UnsetRule
from distarray.point_stages import PointStage
from distarray.profile import Profile
from distarray.stencil.analysis import offsets
from distarray.stencil.expression import SAME, Program, Read, walk

if TYPE_CHECKING:
    from distarray.array import DistArray

_MOST_AXES = 3


def refused_arrays(fields: Sequence[DistArray]) -> str | None:
    """Why loops on some arrays are not tiled, or None."""
    first = fields[0]
    if not first.block.backend.host:
        return "tiles are for the CPU"
    ndim = len(first.layout.decomposition.shape)
    if ndim < 2:
        return "rows are not cut, and there are no other axes"
    if ndim > _MOST_AXES:
        return f"tiles have two or three axes, not {ndim}"
    for array in fields:
        if array.grid is None or array.component_prefix:
            return "an array lies on no grid or is a component of another"
        if array.grid is not first.grid:
            return "an array lies on another grid"
        if array.boundary:
            why = _refused_conditions(array.boundary.conditions)
            if why is not None:
                return why
    return None


def _refused_conditions(conditions: ArrayConditions) -> str | None:
    for rule in conditions.rules.values():
        if _has(rule, CustomRule):
            return "a Custom condition runs a kernel for each layer"
        if _has(rule, UnsetRule):
            return "a condition is not set"
        if not rule.fixes_all and any(True for _ in rule.fixes()):
            return "a Piecewise condition fixes some points of a face and leaves others free"
    return None


def _has(rule: Rule, kind: type) -> bool:
    if isinstance(rule, PiecewiseRule):
        return _has(rule.first, kind) or _has(rule.second, kind)
    return isinstance(rule, kind)


def refused_program(program: Program, arguments: Sequence[DistArray | Profile]) -> str | None:
    """Why loops with a kernel are not tiled, or None."""
    if program.colours > 1:
        return f"kernel {program.name} has two colours"
    if not program.stores:
        return f"kernel {program.name} writes nothing"
    for node in walk([store.value for store in program.stores]):
        if isinstance(node, Read) and node.relation != SAME:
            return f"kernel {program.name} reads another grid"
    for profile, reads in zip(arguments, offsets(program), strict=True):
        if isinstance(profile, Profile):
            reached = {abs(offset) for found in reads.values() for (offset,) in found}
            if max(reached, default=0) > profile.halo:
                return f"kernel {program.name} reads a profile beyond its halo"
    return None


def refused_points(stage: PointStage, array: DistArray) -> str | None:
    """Why loops with points in their steps are not tiled, or None."""
    if stage.writes and array.dtype.kind not in "fc":
        return f"points add to values of dtype {array.dtype}"
    rules = array.boundary.conditions.rules.values() if array.boundary else ()
    if any(True for rule in rules for _ in rule.fixes()):
        return "a step has points, and a condition fixes points of their array"
    return None
