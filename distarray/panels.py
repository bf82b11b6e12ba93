"""What `view` draws of a file: the planes or the line that the options choose, and their texts.
Local.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distarray.arraylike import HostArray
from distarray.io import attributes
from distarray.io.record import ArrayRecord, FileRecord, GridRecord
from distarray.io.sample import edges_of, positions_of, read_sample

#: Most values along an axis of a picture; of more, every second, third, ... is drawn.
LARGEST = 640


class WrongArgument(Exception):  # noqa: N818 - it says what the user gave, not what went wrong here
    """An option that does not fit the file; the text is for the user."""


@dataclass(frozen=True)
class Choice:
    """What is to be drawn.

    Attributes
    ----------
    array : str or None
        The name; None for the first array of the file.
    component : tuple of int or None
        One index for each axis of components; None for the magnitude of all.
    slices : tuple of str
        Where to cut, as AXIS=POSITION.
    """

    array: str | None
    component: tuple[int, ...] | None
    slices: tuple[str, ...]


@dataclass(frozen=True)
class Panel:
    """A plane or a line.

    Attributes
    ----------
    values : real array with one axis per label
    edges : for a plane, the ends of its cells along each axis
    positions : for a line, where its values lie
    labels : names of the axes, with their units
    title : str
    """

    values: HostArray
    edges: tuple[HostArray, ...]
    positions: tuple[HostArray, ...]
    labels: tuple[str, ...]
    title: str

    @property
    def lengths(self) -> tuple[float, ...]:
        return tuple(float(edge[-1] - edge[0]) for edge in self.edges)


def _chosen(record: FileRecord, choice: Choice) -> ArrayRecord:
    """The array that is to be drawn."""
    names = [array.name for array in record.arrays]
    name = names[0] if choice.array is None and names else choice.array
    if name not in names:
        raise WrongArgument(
            f"The file has no array '{name}'; it holds {', '.join(map(repr, names)) or 'none'}."
        )
    array = record.arrays[names.index(name)]
    if not array.nbytes:
        raise WrongArgument(f"The array '{name}' has no elements that could be drawn.")
    return array


def _component(array: ArrayRecord, choice: Choice) -> tuple[range, ...]:
    """The indices of the components that are drawn, along each of their axes."""
    chosen, extents = choice.component, array.components
    if chosen is None:
        return tuple(map(range, extents))
    if not extents:
        raise WrongArgument(f"The array '{array.name}' has no components; leave --component out.")
    if len(chosen) != len(extents) or not all(
        0 <= i < n for i, n in zip(chosen, extents, strict=True)
    ):
        wanted = " and ".join(f"one index, of 0 to {n - 1}," for n in extents)
        raise WrongArgument(
            f"--component takes {wanted} for the array '{array.name}', received "
            f"{' '.join(map(str, chosen))}."
        )
    return tuple(range(i, i + 1) for i in chosen)


def _cuts(grid: GridRecord, array: ArrayRecord, slices: Sequence[str]) -> dict[int, int]:
    """The index of each axis across which the user cuts."""
    found: dict[int, int] = {}
    for text in slices:
        name, equals, number = text.partition("=")
        if name not in grid.axes or not equals:
            raise WrongArgument(
                f"--slice takes one of the axes {', '.join(grid.axes)} and a position, such as "
                f"{grid.axes[-1]}=0.5, received '{text}'."
            )
        axis = grid.axes.index(name)
        if axis in found:
            raise WrongArgument(f"--slice cuts the axis {name} once, received it again: '{text}'.")
        low, high = grid.bounds[axis]
        try:
            position = float(number)
        except ValueError:
            position = np.nan
        if not low <= position <= high:
            raise WrongArgument(
                f"--slice takes a position between {low:g} and {high:g} on the axis {name}, "
                f"received '{number}'."
            )
        found[axis] = _nearest(grid, array, axis, position)
    return found


def _nearest(grid: GridRecord, array: ArrayRecord, axis: int, position: float) -> int:
    """The index of the point nearest to a position; of two as near, but for rounding, the first."""
    away = np.abs(positions_of(grid, array, axis) - position)
    low, high = grid.bounds[axis]
    return int(np.argmax(away <= away.min() + 1e-9 * (high - low) / len(away)))


def panels_of(path: str, record: FileRecord, choice: Choice) -> list[Panel]:
    """What is drawn: one line or plane, or the three planes in the middle."""
    grid, array = record.grid, _chosen(record, choice)
    components, cuts = _component(array, choice), _cuts(grid, array, choice.slices)
    free = [axis for axis in range(len(grid.axes)) if axis not in cuts]
    if len(free) == 3:
        middles = {axis: _middle(grid, array, axis) for axis in free}
        planes = [cuts | {axis: middles[axis]} for axis in reversed(free)]
    elif len(free) in (1, 2):
        planes = [cuts]
    else:
        raise WrongArgument(
            f"A picture has one, two or three axes, and {len(free)} of {len(grid.axes)} are not "
            f"cut; give {'fewer' if not free else 'more'} --slice."
        )
    return [_panel(path, record, array, components, plane) for plane in planes]


def _middle(grid: GridRecord, array: ArrayRecord, axis: int) -> int:
    low, high = grid.bounds[axis]
    return _nearest(grid, array, axis, 0.5 * (low + high))


def _panel(
    path: str,
    record: FileRecord,
    array: ArrayRecord,
    components: tuple[range, ...],
    cuts: dict[int, int],
) -> Panel:
    grid = record.grid
    picks = tuple(
        range(cuts[axis], cuts[axis] + 1) if axis in cuts else range(0, n, -(-n // LARGEST))
        for axis, n in enumerate(array.points)
    )
    free = [axis for axis in range(len(picks)) if axis not in cuts]
    values = _magnitude(read_sample(path, array, components + picks), len(components))
    where = ", ".join(
        _quantity(grid.axes[axis], positions_of(grid, array, axis)[index], record)
        for axis, index in sorted(cuts.items())
    )
    return Panel(
        values=values.reshape([len(picks[axis]) for axis in free]),
        edges=tuple(edges_of(grid, array, axis, picks[axis]) for axis in free),
        positions=tuple(positions_of(grid, array, axis)[:: picks[axis].step] for axis in free),
        labels=tuple(_with_unit(grid.axes[axis], record) for axis in free),
        title=where,
    )


def _magnitude(values: HostArray, axes: int) -> HostArray:
    """Real numbers in float64; of several components and of complex numbers the magnitude."""
    components = values.reshape(-1, *values.shape[axes:])
    if len(components) == 1 and values.dtype.kind != "c":
        numbers: HostArray = components[0].astype(np.float64)
        return numbers
    squares = [np.abs(one).astype(np.float64) ** 2 for one in components]
    found: HostArray = np.sqrt(sum(squares))
    return found


def _units(record: FileRecord) -> dict[str, str]:
    """The attribute `units`: a dict of names of axes and arrays, and of texts."""
    attrs = attributes.loads(record.attrs)
    units = attrs.get("units") if isinstance(attrs, dict) else None
    pairs = units.items() if isinstance(units, dict) else ()
    return {name: unit for name, unit in pairs if isinstance(unit, str)}


def _with_unit(name: str, record: FileRecord, shown: str | None = None) -> str:
    unit = _units(record).get(name)
    return f"{shown or name} [{unit}]" if unit else shown or name


def _quantity(name: str, value: float, record: FileRecord) -> str:
    unit = _units(record).get(name)
    return f"{name} = {value:.4g}{f' {unit}' if unit else ''}"


def label_of(record: FileRecord, choice: Choice) -> str:
    """What the colours mean, with its unit."""
    array = _chosen(record, choice)
    count = 1 if choice.component else int(np.prod(array.components))
    name = array.name
    if choice.component:
        name += "".join(f"[{i}]" for i in choice.component)
    if count > 1 or np.dtype(array.dtype).kind == "c":
        name = f"|{name}|"
    return _with_unit(array.name, record, name)


def title_of(path: str, record: FileRecord, choice: Choice) -> str:
    """The text over all panels."""
    parts = [f"{label_of(record, choice)} in {os.path.basename(path)}"]
    if record.step is not None:
        parts.append(f"step {record.step}")
    if record.time is not None:
        parts.append(_quantity("time", record.time, record).replace(" =", ""))
    return ", ".join(parts)
