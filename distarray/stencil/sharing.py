"""Which values a kernel computes once for all points that use them. Pure.

A kernel is written for one cell, so it has each flux twice: at a cell's upper face, and at the
lower face of the next cell. Such values are *kept*: *stages* before the update compute them for all
points of a tile, into memory that stays in the cache. Stages may keep values for one another, as
slopes and velocities of cells for fluxes. Values that are kept over the same points and do not
depend on one another belong to one stage, and compute together what they have in common.

What is kept is found by cost. Every pattern with more than one evaluation at a point is a
candidate. From the update down those that no other candidate uses are kept, then what their stages
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

import functools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from distarray.stencil import analysis
from distarray.stencil.calls import TRANSCENDENTAL, as_dtype
from distarray.stencil.expression import Call, Expression, Program, Read, Reduction
from distarray.stencil.patterns import Pattern, Patterns, Position

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

Steps = tuple[int, ...]


@dataclass(eq=False)
class Kept:
    """A pattern whose values are kept.

    Attributes
    ----------
    low : position
        The lowest at which the update uses it, itself or by way of other stages.
    span : tuple of int
        Points beyond those of the update over which it is computed, along each axis.
    reads : list of (stage, position)
        By whom, and at which positions counted from that stage's points; once each.
    """

    pattern: Pattern
    low: Position
    span: Steps
    reads: list[tuple[Stage, Position]] = field(default_factory=list)

    def read(self, stage: Stage, position: Position) -> None:
        """Note who reads it."""
        pairs = [
            (min(own or 0, new or 0), max((own or 0) + far, (new or 0) + further))
            for own, far, new, further in zip(
                self.low, self.span, position, stage.span, strict=True
            )
        ]
        self.low = tuple(
            None if p is None else low for p, (low, _) in zip(position, pairs, strict=True)
        )
        self.span = tuple(high - low for low, high in pairs)
        self.reads.append((stage, position))


@dataclass(eq=False)
class Stage:
    """Values that are computed together, or the update, which keeps none.

    At a point of the stage the value of `kept[n]` at position `kept[n].low` is computed, over the
    points of the update and `span` beyond; or the `roots` of the update.
    """

    span: Steps
    kept: tuple[Kept, ...]
    roots: tuple[tuple[Pattern, Position], ...]

    @functools.cached_property
    def own(self) -> frozenset[Pattern]:
        """The patterns that it keeps."""
        return frozenset(one.pattern for one in self.kept)


@dataclass(frozen=True)
class Sharing:
    """The stages in the order in which they run; the last is the update."""

    stages: tuple[Stage, ...]
    cost: float
    #: How often a pattern that is not kept is evaluated at a point.
    evaluations: dict[Pattern, int]


def of_program(program: Program) -> tuple[Patterns, tuple[Stage, ...]] | None:
    """The stages of a kernel in the order in which they run, the update last; None where nothing is
    kept.
    """
    if program.colours > 1 or program.ndim > _MOST_AXES or any(map(_in_order, program.reductions)):
        return None
    roots = analysis.roots(program)
    patterns = Patterns(program, roots)
    search = _Search(patterns, [patterns.placed(node) for node in roots], program.ndim)
    plain, memory = search.sharing(frozenset()), _BYTE * analysis.bytes_per_cell(program)
    most = (1 - LEAST_SHARE) * plain.cost
    if most < memory:
        return None
    best = search.best(plain)
    return (patterns, best.stages) if len(best.stages) > 1 and best.cost <= most else None


def _in_order(reduction: Reduction) -> bool:
    floating = as_dtype(reduction.value.dtype).kind in "fc"
    return reduction.kind == "sum" and floating and not reduction.reproducible


class _Search:
    def __init__(
        self, patterns: Patterns, roots: Sequence[tuple[Pattern, Position]], ndim: int
    ) -> None:
        self._all = patterns.all
        self._roots = tuple(dict.fromkeys(roots))
        self._ndim = ndim
        self._own = {pattern: _cost(pattern.node) for pattern in self._all}
        #: Of a pattern with all it needs; what it needs twice counts twice.
        self._whole: dict[Pattern, int] = {}
        for pattern in self._all:
            under = sum(self._whole[operand] for operand, _ in pattern.operands)
            self._whole[pattern] = min(self._own[pattern] + under, _MOST)

    def best(self, sharing: Sharing) -> Sharing:
        kept: frozenset[Pattern] = frozenset()
        while found := self._outermost(sharing):
            kept |= found
            sharing = self.sharing(kept)
        for pattern in [p for p in reversed(self._all) if p in kept]:
            without = self.sharing(kept - {pattern})
            if without.cost <= sharing.cost:
                kept, sharing = kept - {pattern}, without
        return sharing

    def _outermost(self, sharing: Sharing) -> frozenset[Pattern]:
        """The candidates that no other one uses."""
        found, hidden = set[Pattern](), set[Pattern]()
        for pattern in reversed(self._all):
            if pattern in hidden:
                hidden.update(operand for operand, _ in pattern.operands)
            elif self._is_candidate(pattern, sharing.evaluations.get(pattern, 0)):
                found.add(pattern)
                hidden.update(operand for operand, _ in pattern.operands)
        return frozenset(found)

    def _is_candidate(self, pattern: Pattern, evaluations: int) -> bool:
        if evaluations < 2 or pattern.fixed or not isinstance(pattern.node, Call):
            return False
        saved = (evaluations - 1) * self._whole[pattern]
        return as_dtype(pattern.node.dtype).kind == "f" and saved > _KEEP + evaluations * _LOAD

    def sharing(self, kept: frozenset[Pattern]) -> Sharing:
        """The stages that keep these patterns."""
        update = Stage((0,) * self._ndim, (), self._roots)
        stages, evaluations, cost = [update], dict[Pattern, int](), 0.0
        found: dict[Pattern, Kept] = {}
        cost += self._visit(update, kept, found, evaluations)
        depths = self._depths(kept)
        for depth in sorted(set(depths.values())):
            groups: dict[Steps, list[Kept]] = {}
            for pattern, own in depths.items():
                if own == depth and pattern in found:
                    groups.setdefault(found[pattern].span, []).append(found[pattern])
            for span, group in groups.items():
                roots = tuple((one.pattern, one.low) for one in group)
                stage = Stage(span, tuple(group), roots)
                stages.append(stage)
                cost += _KEEP * len(group) + self._visit(stage, kept, found, evaluations)
        return Sharing(tuple(reversed(stages)), cost, evaluations)

    def _depths(self, kept: frozenset[Pattern]) -> dict[Pattern, int]:
        """How many stages must come after that of each pattern that is kept."""
        depths = dict.fromkeys(self._all, 0)
        for pattern in reversed(self._all):
            depth = depths[pattern] + (pattern in kept)
            for operand, _ in pattern.operands:
                depths[operand] = max(depths[operand], depth)
        return {pattern: depths[pattern] for pattern in self._all if pattern in kept}

    def _visit(
        self,
        stage: Stage,
        kept: frozenset[Pattern],
        found: dict[Pattern, Kept],
        evaluations: dict[Pattern, int],
    ) -> float:
        """Note what a stage reads and evaluates; gives its cost at a point."""
        cost = 0.0
        for pattern, position in visited(stage, kept):
            if is_read(stage, pattern, kept):
                cost += _LOAD
                one = found.setdefault(pattern, Kept(pattern, position, stage.span))
                one.read(stage, position)
            elif position[-1] is not None:  # else it stays the same along a row
                cost += self._own[pattern]
                evaluations[pattern] = evaluations.get(pattern, 0) + 1
        return cost


def is_read(stage: Stage, pattern: Pattern, kept: Container[Pattern]) -> bool:
    """Whether a stage takes the values of a pattern from another one."""
    return pattern in kept and pattern not in stage.own


def visited(stage: Stage, kept: Container[Pattern]) -> Iterator[tuple[Pattern, Position]]:
    """What a stage evaluates or reads, once each."""
    seen = set(stage.roots)
    stack = list(seen)
    while stack:
        pattern, position = stack.pop()
        yield pattern, position
        if not is_read(stage, pattern, kept):
            for operand in pattern.at(position):
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)


def _cost(node: Expression) -> int:
    """What evaluating a node costs, in additions."""
    if isinstance(node, Call):
        times = 4 if as_dtype(node.operation_dtype).kind == "c" else 1
        return times * _COSTS.get(node.function, 1)
    return _LOAD if isinstance(node, Read) else 1 if node.operands else 0
