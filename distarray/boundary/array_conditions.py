"""All conditions of one array, resolved into rules, and what follows from them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.block import Block
from distarray.boundary import requirements
from distarray.boundary.conditions import Condition, Custom, Piecewise
from distarray.boundary.custom import CustomProgram, CustomRule, trace_custom
from distarray.boundary.face import Face, Region
from distarray.boundary.points import holds_points_at, prepare_fixes
from distarray.boundary.rules import PiecewiseRule, Rule, Steps, UnsetRule, simple_rule
from distarray.boundary.values import condition_part, require_signature
from distarray.comm.base import Communicator
from distarray.deferred import settle_readers
from distarray.errors import BoundaryError
from distarray.geometry import AxisGeometry
from distarray.layout import Component, HaloReads, Layout

if TYPE_CHECKING:
    from distarray.array import DistArray

_version = itertools.count()


@dataclass(frozen=True)
class Entry:
    """What was assigned for one component at one face: the condition, for all components below
    `prefix`.
    """

    assigned: Condition
    prefix: Component
    rule: Rule


class ArrayConditions:
    """The conditions of all components of an array on all sides. Views of components share it.

    Attributes
    ----------
    rules : dict from (axis, side, full component) to Rule
    version : int
        Changed by every assignment, to a number that no other version of any array ever has.
    time : float
        The time of the functions that was used last.
    """

    def __init__(
        self, layout: Layout, axes: tuple[AxisGeometry, ...], names: tuple[str, ...]
    ) -> None:
        self.layout, self.axes, self.names = layout, axes, names
        self.entries: dict[requirements.RuleKey, Entry] = {}
        self.rules: dict[requirements.RuleKey, Rule] = {}
        self.time = 0.0
        self._block: weakref.ref[Block] | None = None
        self._communicator: Communicator | None = None
        self._note_change()

    @property
    def block(self) -> Block | None:
        return None if self._block is None else self._block()

    def attach(self, block: Block, communicator: Communicator | None) -> None:
        """Name the array's block: changes then make its layers stale and fix points at once, and
        users' functions are tried. Collective.
        """
        self._require_device(self.rules.values(), block)
        self._block, self._communicator = weakref.ref(block), communicator
        self._try_functions(self.rules.values())
        self.fix_values(block)

    def change(self, changes: Mapping[requirements.RuleKey, Entry | None]) -> None:
        """Replace entries, or remove those that become None. Collective."""
        rules = [entry.rule for entry in changes.values() if entry is not None]
        self._require_device(rules, self.block)
        self._try_functions(rules)
        for key, entry in changes.items():
            if entry is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = entry
        self._note_change()

    def _require_device(self, rules: Iterable[Rule], block: Block | None) -> None:
        """Refuse conditions that read arrays of another device than the block's."""
        device = None if block is None else block.backend.name
        for array in itertools.chain.from_iterable(map(_arrays_of, rules)):
            if device not in (None, array.device):
                raise BoundaryError(
                    f"A Custom condition of an array on device {device!r} reads {array!r}; give it "
                    f"arrays of its own device, as by .to({device!r})."
                )

    def _try_functions(self, rules: Iterable[Rule]) -> None:
        """Call users' functions where this rank will call them, so that all ranks learn of one that
        fails on some. Without communication where none has functions.
        """
        rules = [rule for rule in rules if rule.calls_functions]
        block = self.block
        if block is None or not rules:
            return
        error: Exception | None = None
        try:
            with np.errstate(all="ignore"):
                for rule in rules:
                    if holds_points_at(rule.face, block):
                        region = Region(rule.face, block.owned, 0, block.padded.start)
                        rule.try_functions(region, self.time)
        except Exception as caught:
            error = caught
        if self._communicator is not None:
            self._communicator.agree(error)
        elif error is not None:
            raise error

    def _note_change(self) -> None:
        self.version = next(_version)
        self.rules = {key: entry.rule for key, entry in self.entries.items()}
        self.time_dependent = any(rule.time_dependent for rule in self.rules.values())
        self.fixing = any(True for rule in self.rules.values() for _ in rule.fixes())
        self.arrays = tuple(
            {
                id(array): array for rule in self.rules.values() for array in _arrays_of(rule)
            }.values()
        )
        self._fixes: tuple[int, int, Steps] | None = None
        block = self.block
        if block is not None:
            settle_readers(block)
            block.changed()
            self.fix_values(block)

    def rules_at(self, axis: int, side: int) -> list[tuple[requirements.RuleKey, Rule]]:
        """The rules of one face, in the order of the components."""
        return sorted(
            (item for item in self.rules.items() if item[0][:2] == (axis, side)),
            key=lambda item: item[0],
        )

    def resolve(
        self, condition: Condition, face: Face, prefix: Component
    ) -> dict[requirements.RuleKey, Entry]:
        """Entries of a condition for all components below `prefix`."""
        traced: dict[int, CustomProgram] = {}
        return {
            (face.axis, face.side, component): Entry(
                condition, prefix, self._rule(condition, face, prefix, component, traced)
            )
            for component in components_below(self.layout, prefix)
        }

    def _rule(
        self,
        condition: Condition,
        face: Face,
        prefix: Component,
        component: Component,
        traced: dict[int, CustomProgram],
    ) -> Rule:
        if isinstance(condition, Custom):
            if id(condition) not in traced:
                traced[id(condition)] = trace_custom(condition, face, prefix)
            return CustomRule(traced[id(condition)], component)
        if isinstance(condition, Piecewise):
            require_signature(condition.mask, face, "The mask of Piecewise", timed=False)
            first = self._rule(condition.first, face, prefix, component, traced)
            return PiecewiseRule(
                condition.mask, first, self._rule(condition.second, face, prefix, component, traced)
            )
        depth = len(prefix)
        part = condition_part(condition, face, self.layout.components[depth:], component[depth:])
        return simple_rule(part, face, component)

    def state(
        self, time: float | None, within: tuple[ArrayConditions, ...] = ()
    ) -> tuple[Any, ...]:
        """What the layers depend on besides the block itself; the same on all ranks.

        Layers and fixed points of other arrays may depend on further arrays and on the time, so
        their states belong to this one; `within` are those being described, where the arrays of
        conditions lead back to one of them.
        """
        now = (self.time if time is None else time) if self.time_dependent else None
        if not self.arrays or any(self is outer for outer in within):
            return self.version, now
        within = (*within, self)
        others = (
            (
                array.block.serial,
                array.block.version,
                None if array.boundary is None else array.boundary.conditions.state(time, within),
            )
            for array in self.arrays
        )
        return (self.version, now, *others)

    def fix_values(self, block: Block, time: float | None = None) -> None:
        """Set the points on faces that are fixed, where that has not been done at this time."""
        if time is not None:
            self.time = time
        if not self.fixing:
            return
        state = self.version, self.time if self.time_dependent else None
        if block.filled.points == state:
            return
        if self._fixes is None or self._fixes[:2] != (block.serial, self.version):
            self._fixes = block.serial, self.version, prepare_fixes(self, block)
        settle_readers(block)
        self._fixes[2].run(self.time)
        block.filled.points = state

    def require_points(self) -> None:
        """Refuse to tell which points are fixed where a condition is unknown. On all ranks."""
        for rule in self.rules.values():
            if isinstance(rule, UnsetRule) and rule.unknown_points:
                raise BoundaryError(rule.message)

    def closed(self, reads: HaloReads) -> HaloReads:
        """Halo regions that are read, and all that fills read to serve them. The same on all
        ranks.
        """
        if not self.rules:
            return dict(reads)
        return requirements.closed(self.rules, reads, self.layout.ndim)

    def closure(self, reads: HaloReads) -> HaloReads:
        """Of the closed regions those that are wider than in `reads`, or more. The same on all
        ranks.
        """
        return {k: widths for k, widths in self.closed(reads).items() if reads.get(k) != widths}

    def other_reads(self, reads: HaloReads) -> list[tuple[DistArray, HaloReads]]:
        """Other arrays of Custom conditions with the halo regions that the fills for `reads` need
        of them.

        They must be fresh, boundary layers included, and have their points on faces fixed at the
        time of the fill before it is run. No regions where owned points suffice. The same on all
        ranks.
        """
        if not self.arrays:
            return []
        return requirements.others(self.rules, self.closed(reads), self.layout.ndim)


def _arrays_of(rule: Rule) -> tuple[DistArray, ...]:
    if isinstance(rule, PiecewiseRule):
        return _arrays_of(rule.first) + _arrays_of(rule.second)
    return rule.arrays if isinstance(rule, CustomRule) else ()


def components_below(layout: Layout, prefix: Component) -> list[Component]:
    """Full component indices that start with `prefix`."""
    rest = layout.components[len(prefix) :]
    return [prefix + tail for tail in itertools.product(*map(range, rest))]
