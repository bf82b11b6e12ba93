"""What receivers recorded, in memory and in files."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import distarray as da

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Traces:
    """Pressures at the receivers, one row for each time. Local: all ranks hold the same."""

    def __init__(self, positions: Sequence[Sequence[float]]) -> None:
        self.positions = tuple(tuple(map(float, position)) for position in positions)
        self._times: list[float] = []
        self._rows: list[Floats] = []

    def add(self, time: float, row: Floats) -> None:
        """Append the values of a time."""
        self._times.append(time)
        self._rows.append(row)

    @property
    def times(self) -> Floats:
        """Shape (times,)."""
        return np.array(self._times)

    @property
    def values(self) -> Floats:
        """Shape (times, receivers)."""
        return np.array(self._rows).reshape(len(self._rows), len(self.positions))

    def packed(self) -> dict[str, str]:
        """All of it as text, without loss."""
        arrays = {"times": self.times, "values": self.values}
        return {
            name: base64.b64encode(values.astype("<f8").tobytes()).decode()
            for name, values in arrays.items()
        }

    def unpack(self, packed: Mapping[str, str]) -> None:
        """Take over what `packed` gave."""
        times, values = (
            np.frombuffer(base64.b64decode(packed[name]), "<f8") for name in ("times", "values")
        )
        self._times = list(map(float, times))
        self._rows = list(values.reshape(len(times), len(self.positions)).copy())

    def save(self, folder: str | os.PathLike[str], grid: da.Grid, comm: Any = None) -> None:
        """Write `traces.csv`, one column for each receiver, and `traces.h5`, the same as an array
        over times (axis t) and numbers of receivers (axis r), with the positions of the latter in
        its attributes; the second if there are as many times as ranks and they are evenly spaced,
        as those of one run without visits. Collective.

        Parameters
        ----------
        folder : path that is there
        grid : Grid
            That of the wave.
        comm : communicator, optional
            That the grid was made with.

        Raises
        ------
        FileError
            The folder cannot be written. The same on all ranks.
        """
        folder = Path(folder)
        error = None
        if grid.is_root:
            try:
                self._write(folder / "traces.csv")
            except OSError as problem:
                error = da.FileError(
                    f"The file '{folder / 'traces.csv'}' cannot be written: {problem.strerror}; "
                    "check the folder's rights and the free space."
                )
        grid.communicator.agree(error)
        if len(self._times) < max(grid.size, 2) or not _are_even(self.times):
            return
        record = da.Grid(
            self.values.shape,
            bounds=(_around(self._times), (-0.5, len(self.positions) - 0.5)),
            halo=0,
            axes=("t", "r"),
            ranks=(grid.size, 1),
            comm=comm,
            device="cpu",
        )
        array = record.empty(name="traces")
        array[...] = self.values
        da.save(folder / "traces.h5", {"traces": array}, attrs={"positions": self.positions})

    def _write(self, path: Path) -> None:
        names = [" ".join(f"{x:.9g}" for x in position) for position in self.positions]
        header = ",".join(["time", *(f"p at {name}" for name in names)])
        rows = np.column_stack([self.times, self.values])
        text = "\n".join(",".join(map(repr, map(float, row))) for row in rows)
        path.write_text(f"{header}\n{text}\n", "utf-8")


def _are_even(times: Floats) -> bool:
    gaps = np.diff(times)
    return bool(np.ptp(gaps) <= 1e-6 * gaps.mean())


def _around(times: Sequence[float]) -> tuple[float, float]:
    """The bounds of cells whose centres are these times, evenly spaced."""
    half = 0.5 * (times[-1] - times[0]) / (len(times) - 1)
    return times[0] - half, times[-1] + half
