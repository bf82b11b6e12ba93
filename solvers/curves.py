"""The scalars of outputs as curves for TensorBoard, with how fast the run is."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

import distarray as da


class Curves:
    """Curves of one run, in a file of its folder; those of earlier runs end at `step`. Collective.

    Parameters
    ----------
    folder : path
    grid : Grid
    columns : sequence of str
        Names of the scalars.
    step : int
        Where the run begins or goes on.

    Raises
    ------
    UnsupportedError
        The extra `tensorboard` is not installed.
    FileError
        The folder takes no files.
    """

    def __init__(
        self, folder: str | os.PathLike[str], grid: da.Grid, columns: Sequence[str], step: int
    ) -> None:
        self._grid, self._columns = grid, tuple(columns)
        self._board = da.TensorBoard(folder, step=step, comm=grid.communicator)
        self._copying = da.report(grid.communicator).copy_bandwidth
        self._last = step, time.perf_counter()

    def speed(self, step: int) -> dict[str, float]:
        """Cells that were computed in a second since the last call, and, where there are messages,
        which share of their time so far was hidden. Collective.
        """
        found = da.report(self._grid.communicator, copy_bandwidth=self._copying)
        (before, began), now = self._last, time.perf_counter()
        self._last = step, now
        cells = (step - before) * math.prod(self._grid.shape)
        values = {"cells_per_second": cells / (now - began)}
        return values | ({"hidden_share": found.hidden} if found.messages else {})

    def add(self, step: int, values: Sequence[float], speed: dict[str, float]) -> None:
        """Append the scalars of a step. Local; rank 0 writes."""
        self._board.add(step, dict(zip(self._columns, values, strict=True)) | speed)

    def close(self) -> None:
        """End the file. Local."""
        self._board.close()
