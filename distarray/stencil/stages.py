"""A kernel as stages that keep values for one another, in expressions. Pure.

The points of a stage are those of the update and `span` beyond along each axis; what it keeps at a
point is the value at the update's point of the same index, moved by the lowest position at which it
is used. So all steps from a point to a value that it reads are positive. See `sharing` for which
values are kept and why.

Along axis 0 stages run one plane after another, each as far ahead of the update as its span, and
keep the last planes only, `depth` of them. A kernel of one axis has no planes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from distarray.stencil import sharing
from distarray.stencil.calls import as_dtype
from distarray.stencil.expression import Expression, Program, Shared, intern
from distarray.stencil.patterns import Pattern, Patterns, Placed, Position
from distarray.stencil.schedule import Kept, Schedule, Stage


@dataclass(frozen=True)
class Buffer:
    """Memory for one kept value.

    Attributes
    ----------
    depth : int
        Planes along axis 0 that are kept.
    span : tuple of int
        Points beyond those of the update, along each axis.
    """

    dtype: np.dtype[Any]
    depth: int
    span: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """One stage: the value of each buffer that it fills."""

    span: tuple[int, ...]
    values: tuple[tuple[int, Expression], ...]


@dataclass(frozen=True)
class Staged:
    """A kernel in stages: the buffers, the loops that fill them, and the update."""

    buffers: tuple[Buffer, ...]
    loops: tuple[Loop, ...]
    update: Program


def of_program(program: Program) -> Staged | None:
    """The stages of a kernel; None where it keeps no values."""
    found = sharing.of_program(program)
    return None if found is None else _Builder(program, *found).staged()


class _Builder:
    def __init__(self, program: Program, patterns: Patterns, schedule: Schedule) -> None:
        self._program = program
        self._patterns = patterns
        self._schedule = schedule
        self._numbers = {pattern: number for number, pattern in enumerate(schedule.found)}
        self._order = {pattern: number for number, pattern in enumerate(patterns.all)}

    def staged(self) -> Staged:
        update, *others = self._schedule.stages
        buffers = (self._buffer(*one) for one in self._schedule.found.items())
        loops = map(self._loop, reversed(others))
        return Staged(tuple(buffers), tuple(loops), self._update(update))

    def _buffer(self, pattern: Pattern, one: Kept) -> Buffer:
        depth = 1
        if self._program.ndim > 1:
            # Where only its own stage uses a value, no plane is read later.
            ahead = [stage.span[0] + _steps(one, place)[0] for stage, place in one.reads]
            depth += one.span[0] - min(ahead, default=one.span[0])
        return Buffer(as_dtype(pattern.node.dtype), depth, one.span)

    def _loop(self, stage: Stage) -> Loop:
        made = self._expressions(stage)
        values = ((self._numbers[root[0]], made[root]) for root in stage.roots)
        return Loop(stage.span, tuple(values))

    def _update(self, stage: Stage) -> Program:
        """The program with its values in terms of what is kept."""
        made = self._expressions(stage)

        def value(node: Expression) -> Expression:
            return made[self._patterns.placed(node)]

        replace, program = dataclasses.replace, self._program
        stores = tuple(replace(s, value=value(s.value)) for s in program.stores)
        reductions = tuple(replace(r, value=value(r.value)) for r in program.reductions)
        return replace(program, stores=stores, reductions=reductions)

    def _expressions(self, stage: Stage) -> Mapping[Placed, Expression]:
        """The expressions of a stage, at one of its points."""
        kept, found = self._schedule.kept, self._schedule.found
        made: dict[Placed, Expression] = {}
        met = Stage(stage.span, stage.roots, stage.own).met(stage.roots, kept)
        for pattern, position in sorted(met, key=lambda one: self._order[one[0]]):
            if stage.reads(pattern, kept):
                steps, number = _steps(found[pattern], position), self._numbers[pattern]
                made[pattern, position] = intern(Shared, pattern.node.dtype, number, steps)
            else:
                operands = [made[operand] for operand in pattern.at(position)]
                made[pattern, position] = self._patterns.shifted(pattern, position, operands)
        return made


def _steps(one: Kept, position: Position) -> tuple[int, ...]:
    """From the point of a stage to where the buffer has the value at a position."""
    return tuple((p or 0) - (low or 0) for p, low in zip(position, one.low, strict=True))
