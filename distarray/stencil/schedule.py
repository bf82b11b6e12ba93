"""The stages of a kernel that keeps values of given patterns. Pure.

What is kept is computed by *stages* before the update, which takes it from memory as stages do from
one another. The points of a stage are those of the update and some beyond, so far that all who read
from it find what they need. Values belong to one stage if they are kept over the same points, and
either do not depend on one another or do so at the same point only: then they compute together what
they have in common, as the fluxes of mass, momentum and energy do.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from distarray.stencil.patterns import Pattern, Placed, Position

Steps = tuple[int, ...]


@dataclass(eq=False)
class Stage:
    """Values that are computed together.

    Attributes
    ----------
    span : tuple of int
        Points beyond those of the update, along each axis; none for the update itself.
    roots : list of (pattern, position)
        What is computed at a point. A stage other than the update keeps all of it, and the lowest
        position at which the update uses it, itself or by way of other stages, is the one here.
    own : set of Pattern
        What it keeps.
    """

    span: Steps
    roots: list[Placed]
    own: set[Pattern]
    _seen: set[Placed] = field(default_factory=set)

    def met(self, roots: Iterable[Placed], kept: Container[Pattern]) -> Iterator[Placed]:
        """What computing some of its roots evaluates or reads that no earlier call has met."""
        stack = [one for one in roots if one not in self._seen]
        self._seen.update(stack)
        while stack:
            one = stack.pop()
            yield one
            if not self.reads(one[0], kept):
                new = [operand for operand in one[0].at(one[1]) if operand not in self._seen]
                self._seen.update(new)
                stack += dict.fromkeys(new)

    def reads(self, pattern: Pattern, kept: Container[Pattern]) -> bool:
        """Whether it takes the values of a pattern from another stage."""
        return pattern in kept and pattern not in self.own


@dataclass(eq=False)
class Kept:
    """A pattern whose values are kept.

    Attributes
    ----------
    low : position
        The lowest at which the update uses it, itself or by way of other stages.
    span : tuple of int
        How much further the highest is, along each axis.
    reads : list of (stage, position)
        By whom, and at which positions counted from that stage's points; once each.
    """

    low: Position
    span: Steps
    reads: list[tuple[Stage, Position]] = field(default_factory=list)

    def read(self, stage: Stage, position: Position) -> None:
        """Note who reads it."""
        self.reads.append((stage, position))
        lows, spans = [], []
        for axis, place in enumerate(position):
            low, new = self.low[axis] or 0, place or 0
            high = max(low + self.span[axis], new + stage.span[axis])
            lows.append(None if place is None else min(low, new))
            spans.append(high - min(low, new))
        self.low, self.span = tuple(lows), tuple(spans)


class Schedule:
    """The stages that keep `kept`, the values that the update is made of being `roots`.

    Attributes
    ----------
    stages : list of Stage
        Each runs after those behind it; the first is the update.
    found : dict of Pattern to Kept
    evaluated : dict of Pattern to int
        How often a pattern is computed at a point; not what stays the same along a row.
    """

    def __init__(
        self, patterns: Iterable[Pattern], roots: Iterable[Placed], kept: frozenset[Pattern]
    ) -> None:
        self.kept = kept
        self.found: dict[Pattern, Kept] = {}
        self.evaluated: dict[Pattern, int] = {}
        self.stages: list[Stage] = []
        ordered = list(patterns)
        update = list(roots)
        self._add(Stage((0,) * len(update[0][1]), update, set()))
        users = _users(ordered, kept)
        left = [pattern for pattern in ordered if pattern in kept]
        while ready := [p for p in left if p in self.found and users[p].isdisjoint(left)]:
            placed = [pattern for pattern in ready if self._joins(pattern)]
            if not placed:
                placed = ready
                self._add_all(ready)
            left = [pattern for pattern in left if pattern not in placed]

    def cost(self, own: Callable[[Pattern], float], *, keep: float, load: float) -> float:
        """What a point costs, if a pattern costs `own` without its operands."""
        loads = sum(len(one.reads) for one in self.found.values())
        computed = sum(times * own(pattern) for pattern, times in self.evaluated.items())
        return computed + keep * len(self.found) + load * loads

    def _add_all(self, patterns: Iterable[Pattern]) -> None:
        """Keep patterns that do not depend on one another, and of which all readers are known."""
        groups: dict[Steps, list[Pattern]] = {}
        for pattern in patterns:
            groups.setdefault(self.found[pattern].span, []).append(pattern)
        for span, group in groups.items():
            self._add(Stage(span, [(p, self.found[p].low) for p in group], set(group)))

    def _joins(self, pattern: Pattern) -> bool:
        """Let the first stage that reads a pattern keep it, if it needs it at its own points: as it
        does if it has as many points as are kept.
        """
        one = self.found[pattern]
        first = max((stage for stage, _ in one.reads), key=self.stages.index)
        if first.span != one.span or not first.own:
            return False
        one.reads = [read for read in one.reads if read[0] is not first]
        first.own.add(pattern)
        first.roots.append((pattern, one.low))
        self._note(first, pattern.at(one.low), [(pattern, one.low)])
        return True

    def _add(self, stage: Stage) -> None:
        self.stages.append(stage)
        self._note(stage, stage.roots)

    def _note(self, stage: Stage, roots: Iterable[Placed], computed: Iterable[Placed] = ()) -> None:
        """Note what a stage reads and computes."""
        for pattern, position in (*computed, *stage.met(roots, self.kept)):
            if stage.reads(pattern, self.kept):
                one = self.found.setdefault(pattern, Kept(position, stage.span))
                one.read(stage, position)
            elif position[-1] is not None:
                self.evaluated[pattern] = self.evaluated.get(pattern, 0) + 1


def _users(patterns: list[Pattern], kept: Container[Pattern]) -> dict[Pattern, set[Pattern]]:
    """What is kept and uses a pattern, directly or by way of what is not kept."""
    users: dict[Pattern, set[Pattern]] = {pattern: set() for pattern in patterns}
    for pattern in reversed(patterns):
        through = {pattern} if pattern in kept else users[pattern]
        for operand, _ in pattern.operands:
            users[operand] |= through
    return users
