"""The conditions of an array as users see them: a mapping from sides such as "x-" to conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from distarray.block import Block
from distarray.boundary.array_conditions import ArrayConditions, Entry, components_below
from distarray.boundary.conditions import Condition, Custom, Piecewise, require_condition
from distarray.boundary.face import HIGH, LOW, Face
from distarray.boundary.points import global_free_boxes
from distarray.boundary.requirements import RuleKey
from distarray.boundary.values import condition_part
from distarray.comm.base import Communicator
from distarray.errors import BoundaryError, shown
from distarray.geometry import AxisGeometry
from distarray.layout import Component, Layout
from distarray.regions import Box

_SIGNS = {"-": LOW, "+": HIGH}


class MissingConditionError(BoundaryError, KeyError):
    """A side has no condition; a KeyError, since conditions are asked for by key."""

    __str__ = Exception.__str__


class Boundary(MutableMapping[str, Any]):
    """The boundary conditions of one array. Collective to change.

    `boundary["x-"] = da.Neumann(0.0)` sets one side, `boundary["x"] = ...` both sides of an axis;
    `del` removes. Iteration gives the sides that have a condition, "x-" before "x+". An array with
    components may be given a sequence of conditions, one per component (None for none); a side
    whose components differ reads as such a tuple. The boundary of a component `u[0]` shows and
    changes the part of that component.

    Parameters
    ----------
    layout : Layout
        Of the array, all components.
    axes : tuple of AxisGeometry
    names : tuple of str
        Names of the axes.
    conditions : mapping, optional
        Conditions to start with.

    Raises
    ------
    BoundaryError
        A side that does not exist or is periodic, or values that do not fit the face.

    Attributes
    ----------
    conditions : ArrayConditions
        Of all components, as refreshes use them; shared by the views of components.
    """

    def __init__(
        self,
        layout: Layout,
        axes: tuple[AxisGeometry, ...],
        names: tuple[str, ...],
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        self._set(ArrayConditions(layout, tuple(axes), tuple(names)), ())
        if conditions is not None and not isinstance(conditions, Mapping):
            raise BoundaryError(
                "boundary= takes a mapping from sides to conditions, as in "
                f"{{'{names[0]}-': da.Dirichlet(0.0)}}, not {shown(conditions)}."
            )
        self.update(conditions or {})

    def _set(self, conditions: ArrayConditions, prefix: Component) -> None:
        self.conditions, self._prefix = conditions, prefix

    def view(self, component: Component) -> Boundary:
        """The boundary of a component, sharing its conditions with this one."""
        made = object.__new__(Boundary)
        made._set(self.conditions, self._prefix + tuple(component))
        return made

    def attach(self, block: Block, communicator: Communicator | None = None) -> None:
        """Name the array's block, and who holds its other blocks: assignments then make its layers
        stale and fix points at once. Collective.

        Raises
        ------
        Exception
            What a user's function raises on any rank; on all ranks.
        """
        self.conditions.attach(block, communicator)

    # ---- the mapping

    def _faces(self, key: object) -> list[Face]:
        """The one or two faces that a key such as "x-" or "x" names."""
        conditions = self.conditions
        names = conditions.names
        if isinstance(key, str):
            name, sides = (
                (key[:-1], (_SIGNS[key[-1]],)) if key[-1:] in _SIGNS else (key, (LOW, HIGH))
            )
            if name in names:
                axis = names.index(name)
                if conditions.layout.decomposition.periodic[axis]:
                    raise BoundaryError(
                        f"Axis {name!r} is periodic and takes no boundary condition (got one for "
                        f"{key!r}); "
                        "remove the condition or make the axis not periodic."
                    )
                return [
                    Face(conditions.layout, conditions.axes, names, axis, side) for side in sides
                ]
        example = names[0]
        raise BoundaryError(
            f"The array has no side {shown(key)}; name an axis of {', '.join(names)} for both of "
            f"its sides, or one side as in '{example}-' or '{example}+'."
        )

    def __setitem__(self, key: str, value: Any) -> None:
        entries: dict[RuleKey, Entry | None] = {}
        for face in self._faces(key):
            entries.update(self._entries(face, value, self._prefix))
        self.conditions.change(entries)

    def _entries(self, face: Face, value: Any, prefix: Component) -> Mapping[RuleKey, Entry | None]:
        """Entries for a condition, or for a sequence with one condition or None per component."""
        layout = self.conditions.layout
        rest = layout.components[len(prefix) :]
        if isinstance(value, list | tuple) and rest:
            if len(value) != rest[0]:
                raise BoundaryError(
                    f"Side {face.name} gets {len(value)} conditions for {rest[0]} components; "
                    "give one for all or one per component."
                )
            entries: dict[RuleKey, Entry | None] = {}
            for number, part in enumerate(value):
                entries.update(self._entries(face, part, (*prefix, number)))
            return entries
        if value is None and prefix != self._prefix:
            return {
                (face.axis, face.side, component): None
                for component in components_below(layout, prefix)
            }
        require_condition(value, f"Side {face.name}")
        return self.conditions.resolve(value, face, prefix)

    def __delitem__(self, key: str) -> None:
        places = [
            place for face in self._faces(key) for place in self._places(face.axis, face.side)
        ]
        if not any(place in self.conditions.entries for place in places):
            raise MissingConditionError(
                f"Side {shown(key)} of the array has no condition; assign one or ask with `in`."
            )
        self.conditions.change(dict.fromkeys(places))

    def _places(self, axis: int, side: int, component: Component = ()) -> list[RuleKey]:
        below = components_below(self.conditions.layout, self._prefix + tuple(component))
        return [(axis, side, full) for full in below]

    def __getitem__(self, key: str) -> Any:
        found = [self._read(face, self._prefix) for face in self._faces(key)]
        if all(condition is None for condition in found):
            raise MissingConditionError(
                f"Side {shown(key)} of the array has no condition; assign one or ask with `in`."
            )
        if any(condition is not found[0] for condition in found):
            raise BoundaryError(
                f"The sides of axis {key!r} have different conditions; read '{key}-' and '{key}+'."
            )
        return found[0]

    def _read(self, face: Face, prefix: Component) -> Any:
        """What a face has for the components below `prefix`: a condition, None, or a tuple where
        they differ.
        """
        layout, entries = self.conditions.layout, self.conditions.entries
        below = [
            entries.get((face.axis, face.side, component))
            for component in components_below(layout, prefix)
        ]
        first = below[0] if below else None
        if all(entry is None for entry in below):
            return None
        if first is not None and all(
            entry is not None and entry.assigned is first.assigned and entry.prefix == first.prefix
            for entry in below
        ):
            depth = len(first.prefix)
            if depth <= len(prefix):
                return condition_part(
                    first.assigned, face, layout.components[depth:], prefix[depth:]
                )
        return tuple(
            self._read(face, (*prefix, number)) for number in range(layout.components[len(prefix)])
        )

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        return any(
            place in self.conditions.entries
            for face in self._faces(key)
            for place in self._places(face.axis, face.side)
        )

    def __iter__(self) -> Iterator[str]:
        depth = len(self._prefix)
        sides = {key[:2] for key in self.conditions.entries if key[2][:depth] == self._prefix}
        for axis, side in sorted(sides):
            yield f"{self.conditions.names[axis]}{'-' if side == LOW else '+'}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self.conditions.entries) and any(True for _ in self)

    def __repr__(self) -> str:
        return f"Boundary({dict(self.items())!r})"

    def copy_to(self, layout: Layout) -> Boundary:
        """The same conditions, independent of this mapping, for an array with another layout on the
        same axes.

        Raises
        ------
        BoundaryError
            A Custom condition that was assigned to more components than this one, or values that do
            not fit.
        """
        old = self.conditions
        copied = Boundary(layout, old.axes, old.names)
        for side in self:
            (face,) = self._faces(side)
            self._require_whole_customs(face)
            copied[side] = self._read(face, self._prefix)
        copied.conditions.time = old.time
        return copied

    def _require_whole_customs(self, face: Face) -> None:
        for place in self._places(face.axis, face.side):
            entry = self.conditions.entries.get(place)
            if (
                entry is not None
                and len(entry.prefix) < len(self._prefix)
                and _has_custom(entry.assigned)
            ):
                raise BoundaryError(
                    f"The Custom condition on {face.name} was assigned to several components and "
                    "cannot be copied with "
                    f"component {self._prefix} alone; copy the whole array."
                )

    # ---- what arrays and kernels ask

    @property
    def version(self) -> int:
        """Changed by every assignment, to a number that no boundary had before: a key for plans."""
        return self.conditions.version

    def covers(self, axis: int, side: int, component: Component = ()) -> bool:
        """Whether the layers beyond a side (-1 or 1) are filled for all components below
        `component`.
        """
        return all(
            place in self.conditions.entries for place in self._places(axis, side, component)
        )

    def fixed(self, axis: int, side: int, component: Component = ()) -> bool:
        """Whether all points lying on a side are fixed, for all components below `component`."""
        self.conditions.require_points()
        rules = self.conditions.rules
        return all(
            place in rules and rules[place].fixes_all
            for place in self._places(axis, side, component)
        )

    def global_free_boxes(self, block: Block, component: Component = ()) -> tuple[Box, ...]:
        """The owned points of one component that kernels may write, as disjoint boxes of global
        indices. Local.

        One box and, where a Piecewise condition fixes some points of a face, those over the others.
        """
        self.conditions.require_points()
        return global_free_boxes(self.conditions, block, self._prefix + tuple(component))

    def fix_values(self, block: Block, time: float | None = None) -> None:
        """Set the points on faces that Dirichlet conditions fix, in halo copies too. Local, cheap
        if nothing changed.

        To be called after every collective write, and at a new time before halos are exchanged.
        """
        self.conditions.fix_values(block, time)


def _has_custom(condition: Condition) -> bool:
    if isinstance(condition, Piecewise):
        return _has_custom(condition.first) or _has_custom(condition.second)
    return isinstance(condition, Custom)
