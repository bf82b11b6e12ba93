"""Which values a kernel computes once for all points that use them. Pure.

A kernel is written for one cell, so it has each flux twice: at a cell's upper face, and at the
lower face of the next cell. Such values are *kept*: stages before the update compute them for all
points of a tile, into memory that stays in the cache (see `schedule`). Stages may keep values for
one another, as slopes and velocities of cells for fluxes.

What is kept is found by cost. Every pattern that is computed more than once at a point is a
candidate. Those are kept that something else than other candidates uses, then what their stages
still compute more than once, and so on; then each is given up again if the kernel is cheaper
without. The kernel stays as it is if that does not save a good part of its time, for which the
memory that it passes through counts too: `LEAST_SHARE`.

Bits are those of the kernel as it is written, since each value is computed by the same operations
of the same types. Left out are

* kernels of two colours, whose points are not neighbours;
* kernels of more than three axes, whose tiles would not fit into the cache;
* kernels that sum floating-point numbers as they come, since tiles would change the order;
* values that read what the kernel writes, which might be written by then;
* values that are not real floating-point numbers: cheap as a rule, and of other widths.
"""

from __future__ import annotations

from collections.abc import Sequence

from distarray.stencil import analysis
from distarray.stencil.calls import TRANSCENDENTAL, as_dtype
from distarray.stencil.expression import Call, Expression, Program, Read, Reduction
from distarray.stencil.patterns import Pattern, Patterns, Placed
from distarray.stencil.schedule import Schedule, Stage

#: The part of its time that a kernel must save for its values to be kept.
LEAST_SHARE = 0.15
#: Costs in additions: of functions that take longer, of keeping a value and of reading it, and of
#: a byte from memory.
_COSTS = {
    **dict.fromkeys(("divide", "sqrt"), 8),
    **dict.fromkeys(("minimum", "maximum", "fmin", "fmax"), 4),
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), 40),
    **dict.fromkeys(TRANSCENDENTAL, 60),
}
_KEEP, _LOAD, _BYTE = 2, 1, 2.5
_MOST_AXES = 3
#: Costs beyond which they are not told apart.
_MOST = 1 << 20


def of_program(program: Program) -> tuple[Patterns, Schedule] | None:
    """What a kernel keeps; None where nothing is kept."""
    if program.colours > 1 or program.ndim > _MOST_AXES or any(map(_in_order, program.reductions)):
        return None
    roots = analysis.roots(program)
    patterns = Patterns(program, roots)
    search = _Search(patterns, [patterns.placed(node) for node in roots])
    memory = _BYTE * analysis.bytes_per_cell(program)
    most = (1 - LEAST_SHARE) * search.cost(search.plain)
    if most < memory:
        return None
    best = search.best()
    return (patterns, best) if best.found and search.cost(best) <= most else None


def _in_order(reduction: Reduction) -> bool:
    floating = as_dtype(reduction.value.dtype).kind in "fc"
    return reduction.kind == "sum" and floating and not reduction.reproducible


class _Search:
    def __init__(self, patterns: Patterns, roots: Sequence[Placed]) -> None:
        self._all = patterns.all
        self._roots = tuple(dict.fromkeys(roots))
        self._own = {pattern: _cost(pattern.node) for pattern in self._all}
        #: Of a pattern with all it needs; what it needs twice counts twice.
        self._whole: dict[Pattern, int] = {}
        for pattern in self._all:
            under = sum(self._whole[operand] for operand, _ in pattern.operands)
            self._whole[pattern] = min(self._own[pattern] + under, _MOST)
        self.plain = self._schedule(frozenset())

    def cost(self, schedule: Schedule) -> float:
        return schedule.cost(self._own.__getitem__, keep=_KEEP, load=_LOAD)

    def best(self) -> Schedule:
        schedule = self.plain
        while found := self._outermost(schedule):
            schedule = self._schedule(schedule.kept | found)
        for pattern in [p for p in reversed(self._all) if p in schedule.kept]:
            without = self._schedule(schedule.kept - {pattern})
            if self.cost(without) <= self.cost(schedule):
                schedule = without
        return schedule

    def _schedule(self, kept: frozenset[Pattern]) -> Schedule:
        return Schedule(self._all, self._roots, kept)

    def _outermost(self, schedule: Schedule) -> frozenset[Pattern]:
        """The candidates that something else than other candidates uses."""
        candidates = {p for p, times in schedule.evaluated.items() if self._is_candidate(p, times)}
        leaves = schedule.kept | candidates
        found = set()
        for stage in schedule.stages:
            again = Stage(stage.span, stage.roots, stage.own)
            found |= {p for p, _ in again.met(stage.roots, leaves) if again.reads(p, candidates)}
        return frozenset(found)

    def _is_candidate(self, pattern: Pattern, times: int) -> bool:
        if times < 2 or pattern.fixed or not isinstance(pattern.node, Call):
            return False
        saved = (times - 1) * self._whole[pattern]
        return as_dtype(pattern.node.dtype).kind == "f" and saved > _KEEP + times * _LOAD


def _cost(node: Expression) -> int:
    """What evaluating a node costs, in additions."""
    if isinstance(node, Call):
        times = 4 if as_dtype(node.operation_dtype).kind == "c" else 1
        return times * _COSTS.get(node.function, 1)
    return _LOAD if isinstance(node, Read) else 1 if node.operands else 0
