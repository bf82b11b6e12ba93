"""Checkpoints of a run: numbered files in a folder, the newest few kept, the newest found again.

Beside the files the folder holds a text file `latest` with their names, the one written last first.
The order of writing counts, not the step: a run that went back to an older step continues from
there. A file that is not listed counts as newer if its step is above that of the first listed one
(the job ended before listing it), else as older.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from distarray.array import DistArray
from distarray.comm.base import Communicator
from distarray.errors import FileError, shown
from distarray.grid import Grid
from distarray.io.describe import number_text, path_of
from distarray.io.place import create, flush
from distarray.io.snapshot import Snapshot, agreed, load, save

_LIST = "latest"
_NAME = re.compile(r"checkpoint_(\d{10,})\.h5")


class Checkpointer:
    """Writes a checkpoint every so many steps and keeps the last few.

    Parameters
    ----------
    folder : path of a folder, made at the first save
    every : int
        Steps between checkpoints: one is due when a multiple of `every` was reached since the call
        before.
    keep : int
        Number of checkpoints that are kept.
    background : bool
        Must be False in this version.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((8, 8))
    >>> checkpoints = da.Checkpointer("run", every=100)
    >>> checkpoints.save({"u": grid.zeros()}, step=100, time=0.5)
    True
    >>> checkpoints.latest(grid).step
    100
    """

    def __init__(
        self, folder: str | os.PathLike[str], every: int, keep: int = 2, *, background: bool = False
    ) -> None:
        if background:
            raise FileError(
                "Checkpointer(background=True) is not available in this version; "
                "use background=False."
            )
        for name, value in (("every", every), ("keep", keep)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise FileError(
                    f"Checkpointer needs {name} to be an integer of at least 1, received {value!r}."
                )
        self.folder = Path(path_of(folder, "Checkpointer"))
        self.every = every
        self.keep = keep
        self._interval: int | None = None  # the multiple of `every` reached by the call before
        self._closed = False

    def save(
        self,
        arrays: Mapping[str, DistArray],
        *,
        step: int,
        time: float | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> bool:
        """Write a checkpoint if one is due; whether it was written. Collective.

        Raises
        ------
        FileError
            As `save`; or the step is negative, or the checkpointer is closed.
        """
        if self._closed:
            raise FileError(
                f"The checkpointer of '{self.folder}' is closed; make a new one to go on saving."
            )
        if not self._due(step):
            return False
        target = self.folder / f"checkpoint_{step:010d}.h5"
        communicator = _communicator(arrays)
        with agreed(communicator, f"The folder '{self.folder}' cannot be made"):
            if communicator.rank == 0:
                self.folder.mkdir(parents=True, exist_ok=True)
        save(target, arrays, step=step, time=time, attrs=attrs)
        with agreed(communicator, f"The folder '{self.folder}' cannot be written"):
            if communicator.rank == 0:
                self._tidy(target.name)
        return True

    def latest(self, grid: Grid) -> Snapshot | None:
        """The checkpoint written last that can be read; None when there is none. Collective.

        Root says on stderr which files were skipped and why.

        Raises
        ------
        FileError
            There are checkpoints, but none can be read onto this grid.
        """
        if not isinstance(grid, Grid):
            raise FileError(f"latest takes a Grid, received {shown(grid)}; pass one.")
        names: list[str] = []
        communicator = grid.communicator
        with agreed(communicator, f"The folder '{self.folder}' cannot be read"):
            if communicator.rank == 0:
                names = self._names()
        names = communicator.bcast(names)
        reasons: list[str] = []
        for name in names:
            try:
                snapshot = load(self.folder / name, grid)
            except FileError as error:
                reasons.append(str(error))
                continue
            if reasons and communicator.rank == 0:
                sys.stderr.write("".join(f"Skipped a checkpoint: {reason}\n" for reason in reasons))
            return snapshot
        if reasons:
            raise FileError(
                f"No checkpoint in '{self.folder}' can be read. The newest: {reasons[0]}"
            )
        return None

    def close(self) -> None:
        """Finish; saving is an error from now on. Collective."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _due(self, step: int) -> bool:
        """Whether a multiple of `every` was reached since the call before."""
        if isinstance(step, bool) or not hasattr(step, "__index__") or step < 0:
            raise FileError(
                f"A checkpoint needs a step that is an integer of at least 0, "
                f"received {number_text(step)}."
            )
        if step >= 2**63:
            raise FileError(f"step must fit into 64 bits, received {number_text(step)}.")
        interval, before = int(step) // self.every, self._interval
        self._interval = interval
        return int(step) % self.every == 0 or (before is not None and interval > before)

    def _names(self) -> list[str]:
        """Names of the checkpoints in the folder, the one written last first. Root only."""
        if not self.folder.is_dir():
            return []
        present = {name for name in os.listdir(self.folder) if _NAME.fullmatch(name)}
        listed: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            listed = (self.folder / _LIST).read_text(encoding="utf-8", errors="replace").split()
        listed = [name for name in dict.fromkeys(listed) if name in present]
        unlisted = sorted(present.difference(listed), key=_step_of, reverse=True)
        # A job that ended before it listed a checkpoint left one of a higher step than the listed.
        newer = [name for name in unlisted if listed and _step_of(name) > _step_of(listed[0])]
        return newer + listed + [name for name in unlisted if name not in newer]

    def _tidy(self, newest: str) -> None:
        """List a new checkpoint first; remove unfinished files and those not kept. Root only."""
        names = [newest, *(name for name in self._names() if name != newest)]
        partial = self.folder / f"{_LIST}.partial"
        create(str(partial))
        partial.write_text("\n".join(names[: self.keep]) + "\n", encoding="utf-8")
        flush(partial)
        partial.replace(self.folder / _LIST)
        flush(self.folder)
        for name in names[self.keep :]:
            (self.folder / name).unlink(missing_ok=True)
        for path in self.folder.glob("checkpoint_*.h5.partial"):
            path.unlink(missing_ok=True)


def _step_of(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found.group(1)) if found else -1


def _communicator(arrays: Mapping[str, DistArray]) -> Communicator:
    for array in arrays.values() if isinstance(arrays, Mapping) else ():
        if isinstance(array, DistArray):
            return array.communicator
    raise FileError("A checkpoint needs a dict of names and arrays with at least one array.")
