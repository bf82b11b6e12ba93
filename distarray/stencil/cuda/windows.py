"""Columns of an array that a thread reads at several offsets of axis 0: as it goes along that axis,
it keeps their values in variables and loads one new value a step. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from distarray.stencil import printing
from distarray.stencil.analysis import read_nodes, roots
from distarray.stencil.expression import SAME, Program
from distarray.stencil.writing import Names

#: Axes from which on a thread goes along axis 0; with fewer its neighbours lie along it.
LEAST_AXES = 3
#: Bytes of variables for all columns together, so that registers remain for the arithmetic.
MOST_BYTES = 24 * 8

Key = tuple[int, tuple[int, ...], tuple[int, ...]]


class Window:
    """One column: the values of a component at offsets `low` ... `high` of axis 0.

    Attributes
    ----------
    key : parameter, component and the offsets along the other axes
    """

    def __init__(self, key: Key, offsets: set[int], itemsize: int) -> None:
        self.key = key
        self.parameter, self.component, self.others = key
        self.low, self.high = min(offsets), max(offsets)
        self.loads_saved = len(offsets) - 1
        self.nbytes = (self.high - self.low + 1) * itemsize
        #: Whether as many values are used as are kept, or not much fewer.
        self.dense = self.high - self.low < 2 * len(offsets)
        self._names: list[str] = []
        self._ends: tuple[str, ...] = ("",)

    def name_variables(self, names: Names, row: str) -> None:
        """Take a name for each value."""
        self._names = [
            names.take(f"{row}_{'m' if n < 0 else 'p' if n else ''}{abs(n)}")
            for n in range(self.low, self.high + 1)
        ]

    def variables(self, offset: int) -> list[str]:
        """Names of the parts of the value at an offset."""
        return [self._names[offset - self.low] + end for end in self._ends]

    def split(self) -> None:
        """Keep complex values as two parts."""
        self._ends = ("_re", "_im")


def of_program(program: Program) -> list[Window]:
    """The columns worth keeping, those first that save most loads."""
    if program.ndim < LEAST_AXES or program.colours > 1:
        return []
    offsets: dict[Key, set[int]] = {}
    for node in read_nodes(roots(program)):
        if node.axis is None and node.relation == SAME:
            key = node.parameter, node.component, node.offsets[1:]
            offsets.setdefault(key, set()).add(node.offsets[0])
    found = [
        Window(key, used, program.arrays[key[0]].dtype.itemsize)
        for key, used in offsets.items()
        if len(used) > 1
    ]
    return _fitting(sorted(found, key=lambda window: -window.loads_saved), program)


def _fitting(windows: Sequence[Window], program: Program) -> list[Window]:
    chosen: list[Window] = []
    left = MOST_BYTES
    for window in windows:
        if window.dense and window.nbytes <= left:
            left -= window.nbytes
            chosen.append(window)
            if program.arrays[window.parameter].dtype.kind == "c":
                window.split()
    return chosen


def part_name(program: Program, window: Window) -> str:
    """The C type of the variables."""
    return printing.type_name(program.arrays[window.parameter].dtype)
