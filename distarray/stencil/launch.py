"""What executors share: how a kernel meets the memory of one rank. The NumPy, the C and the device
executors are interchangeable.

Kernels run over boxes of *local indices*, global index minus the first owned cell. Arrays of every
location on one grid share local indices; arrays of the next finer or coarser grid have their own,
with their own start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from distarray.arraylike import HostArray
from distarray.geometry import AxisGeometry
from distarray.regions import Box


@dataclass(frozen=True, eq=False)
class ArrayView:
    """One array argument on this rank.

    Attributes
    ----------
    memory : array of the backend, shape components + padded shape (one axis for a profile)
    origin : memory index of local index 0 along each grid axis, which is the halo width
    start : global index of local index 0 along each grid axis
    """

    memory: Any
    origin: tuple[int, ...]
    start: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LaunchGeometry:
    """The iteration grid on this rank.

    Attributes
    ----------
    start : global index of local index 0 along each axis
    cells : global number of cells along each axis
    periodic : whether indices wrap, for each axis
    axes : positions and widths, or None for arrays that lie on no grid
    """

    start: tuple[int, ...]
    cells: tuple[int, ...]
    periodic: tuple[bool, ...]
    axes: tuple[AxisGeometry, ...] | None


class BoundLaunch(Protocol):
    """A program bound to memory, to be run many times."""

    def set_scalars(self, values: Sequence[Any]) -> None:
        """Set the scalars of the next runs, in the order of `program.scalars`. Local.

        A value is a number, or a `Pending` of a float or complex number. On a device, one whose
        `device_value` is an array (16 bytes in the form of `union scalar`) is copied from there as
        work of the compute stream; the host does not wait.
        """
        ...

    def run(self, box: Box, mask: int = -1, colour: int = 0) -> None:
        """Compute a box of local indices. Local.

        Bit k of `mask` activates store k, and the bits above those of all stores activate the
        reductions; -1 activates all. A two-colour program computes the points whose global indices
        have an even (colour 0) or odd (1) sum.
        """
        ...

    def run_boxes(self, boxes: Sequence[tuple[Box, int]], colour: int = 0) -> None:
        """Compute disjoint boxes, each with its mask: on a device all of them at once. Local."""
        ...

    def reset_reductions(self) -> None:
        """Set all partial results to the identity. Local."""
        ...

    def partials(self) -> list[HostArray]:
        """The reductions over this rank's runs since the reset, one array each. Local.

        sum: one value (float64, complex128 or int64). min, max: value and NaN flag (float64, or
        int64 and uint64 for integers). Reproducible sum: int64 limbs of `exact`, two rows for a
        complex value; int64 for integers. The host waits for a device's runs.
        """
        ...

    def device_partials(self) -> list[Any]:
        """The memory in which a device collects the reductions, valid until the next reset: one
        contiguous 1-D array for each accumulator, in the order of `accumulators.of_reduction` of
        all reductions. Empty on the host. Local.
        """
        ...
