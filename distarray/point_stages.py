"""Points as stages of a step of `iterate`: values added at them, values recorded there.

A step is a list of (stage, positions); `(points.adding(values), (0,))` and
`(points.recording(), (0,))` stand in it beside kernels. Between single steps they do what
`Points.add` and `Points.sample` do; inside a tile their cells are done in C (see `tiling.points`),
with the same bits. A recording keeps on each rank what this rank owns, and adds over ranks when it
is read, once for many steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arguments import host_values
from distarray.arraylike import HostArray
from distarray.errors import ArrayError
from distarray.signatures import require_call

if TYPE_CHECKING:
    from distarray.array import DistArray
    from distarray.points import Points

#: A function of the step number, or rows of which step m = 0, 1, ... takes row m.
Values = Callable[[int], Any] | HostArray


class PointStage(ABC):
    """What is done at points in each step to one array."""

    #: Whether it changes its array.
    writes: bool
    name: str

    def __init__(self, points: Points, order: int) -> None:
        points.require_order(order)
        self.points, self.order = points, order

    @property
    def described(self) -> str:
        """What ranks must agree on, besides the points."""
        return f"{self.name}(order={int(self.order)})"

    @abstractmethod
    def run(self, array: DistArray, number: int) -> None:
        """Do it in the step of this number. Collective."""


class Adding(PointStage):
    """Values spread onto an array in each step, made by `points.adding`."""

    writes, name = True, "adding"

    def __init__(self, points: Points, values: Any, order: int) -> None:
        super().__init__(points, order)
        self._values: Values = (
            values if callable(values) else host_values(values, "Values of points.adding")
        )
        if callable(self._values):
            require_call(self._values, "The function of points.adding", ("step",))
        elif not self._values.ndim:
            raise ArrayError(
                "Values of points.adding must be a function of the step number or have one row for "
                f"each step, got the number {values!r}; pass a function that returns it."
            )

    @property
    def described(self) -> str:
        if callable(self._values):
            return super().described
        values = self._values
        return f"{self.name}({values.dtype} of shape {values.shape}, order={int(self.order)})"

    def values(self, number: int) -> Any:
        """The values of a step."""
        if callable(self._values):
            return self._values(number)
        if number >= len(self._values):
            raise ArrayError(
                f"Values of points.adding have {len(self._values)} rows, and step {number} was "
                "reached; pass one row for each step, or fewer steps."
            )
        return self._values[number]

    def run(self, array: DistArray, number: int) -> None:
        self.points.add(array, self.values(number), order=self.order)


@dataclass(frozen=True)
class _Kind:
    """What arrays that one recording reads have in common."""

    dtype: np.dtype[Any]
    components: tuple[int, ...]
    staggered: tuple[bool, ...]


class Recording(PointStage):
    """Values at points after each step, made by `points.recording`."""

    writes, name = False, "recording"

    def __init__(self, points: Points, order: int) -> None:
        super().__init__(points, order)
        self._kind: _Kind | None = None
        self._array: DistArray | None = None
        self._rows: list[HostArray] = []

    def __len__(self) -> int:
        """The number of steps since it was read."""
        return len(self._rows)

    def run(self, array: DistArray, number: int) -> None:
        self.keep(array, self.points.owned_values(array, self.points.cells(array, self.order)))

    def keep(self, array: DistArray, row: HostArray) -> None:
        """Take over what a rank knows after one step, shape components + (cells,). Local."""
        kind = _Kind(array.dtype, array.components, array.layout.staggered)
        if self._rows and kind != self._kind:
            raise ArrayError(
                f"A recording got {array!r} after an array of another dtype, location or number of "
                "components; read it before, or make one recording for each."
            )
        self._kind, self._array = kind, array
        self._rows.append(row)

    def read(self) -> HostArray:
        """The values after each step since the last reading, which are then forgotten. Collective:
        one sum over ranks for as many steps as take 32 MiB.

        Returns
        -------
        ndarray, shape (steps,) + components + (points,), the dtype that `sample` gives

        Raises
        ------
        ArrayError
            Nothing was recorded.
        """
        if self._array is None or not self._rows:
            raise ArrayError("A recording was read that holds no steps; run iterate with it first.")
        (rows, array), self._rows, self._array = (self._rows, self._array), [], None
        cells = self.points.cells(array, self.order)
        return self.points.joined(array, np.stack(rows), self.order, cells)


def checked(stage: PointStage, positions: Sequence[int], arrays: Sequence[Any]) -> None:
    """Refuse positions of points that are not one, and arrays of another grid."""
    if len(positions) != 1:
        raise ArrayError(
            f"Points of iterate take one array, got the positions {tuple(positions)}; write "
            f"(points.{stage.name}(...), (0,))."
        )
    stage.points.require(arrays[positions[0]])
