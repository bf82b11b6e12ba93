"""Checkpoints of a run: numbered files in a folder, the newest few kept, the newest found again.

Beside the files the folder holds a text file `latest` with their names, the one written last first.
The order of writing counts, not the step: a run that went back to an older step continues from
there. A file that is not listed counts as newer if its step is above that of the first listed one
(the job ended before listing it), else as older.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from distarray import spans
from distarray.arguments import path_of
from distarray.array import DistArray
from distarray.comm.base import Communicator
from distarray.errors import CommunicationError, FileError, shown
from distarray.grid import Grid
from distarray.io import place, preemption
from distarray.io.agreement import agreed
from distarray.io.background import BackgroundWrite, Copies
from distarray.io.describe import number_text
from distarray.io.snapshot import Snapshot, load
from distarray.io.write import WritePlan, begin_save

_LIST = "latest"
#: Of integers of 64 bits.
_LARGEST = 2**63 - 1
_NAME = re.compile(r"checkpoint_(\d{10,})\.h5")


class Checkpointer:
    """Writes a checkpoint every so many steps and keeps the last few.

    A checkpoint is whole or absent: it gets its name once it was read back and is on the disk, and
    an older one is removed after that.

    Call `save` after every step, also when no checkpoint is due. While the checkpointer is in use,
    SIGTERM and SIGUSR1 (sent by batch systems before they take a machine back) do not end the
    program: the ranks tell one another, and in its second call of `save` after the signal each
    writes a checkpoint, whether or not one is due, and leaves by SystemExit with exit code 75, "try
    again later". It is enough that one rank receives the signal. A second signal ends the program
    at once. Signals for which the program has handlers of its own stay with these. `srun
    --signal=USR1@60` sends one to all ranks a minute before the time is over. `mpirun` passes
    SIGUSR1 on; Open MPI's, when it receives SIGTERM, kills its ranks at once.

    A run that goes on has the bits of one that was never stopped if its steps depend on nothing but
    what was saved. Where they depend on the time, keep the step and take the time from it, as
    `start + step * dt`; with `da.iterate`, pass the `time` of the beginning of the run and
    `first=saved.step`. On a cluster, `#SBATCH --signal=USR1@120` and a job script that starts the
    program again after code 75 are all that a run longer than its time limit needs.

    Parameters
    ----------
    folder : path of a folder, made at the first save
    every : int
        Steps between checkpoints: one is due when a multiple of `every` was reached since the call
        before.
    keep : int
        Number of checkpoints that are kept.
    background : bool
        Whether the run goes on while a checkpoint is written. It is held for a copy of the state,
        which stays in the host's memory until the checkpointer goes. The file gets its name in a
        later call of `save`, `latest` or `close`, which also raises, on every rank, what went wrong
        meanwhile. One is under way at most: the next waits for it. Where ranks cannot write side by
        side (see `save`), the run is held until the file is written.
    allow_nan : bool
        Whether a state that holds NaN is stored. By default it is an error, since such checkpoints
        would take the place of those from which the run can go on.
    method : str, optional
        How values come into the file, as for `save`.

    Examples
    --------
    >>> import distarray as da
    >>> grid = da.Grid((8, 8))
    >>> checkpoints = da.Checkpointer("run", every=100)
    >>> checkpoints.save({"u": grid.zeros()}, step=100, time=0.5)
    True
    >>> checkpoints.latest(grid).step
    100
    >>> checkpoints.close()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every: int,
        keep: int = 2,
        *,
        background: bool = False,
        allow_nan: bool = False,
        method: str | None = None,
    ) -> None:
        for name, value in (("every", every), ("keep", keep)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise FileError(
                    f"Checkpointer needs {name} to be an integer of at least 1, received "
                    f"{shown(value)}; give a number of {'steps' if name == 'every' else 'files'}."
                )
        self.folder = Path(path_of(folder, "Checkpointer", folder=True))
        self.every = every
        self.keep = keep
        self._background = background
        self._allow_nan = allow_nan
        self._method = method
        self._interval: int | None = None  # the multiple of `every` reached by the call before
        self._made = False  # whether the folder was there at an earlier save
        self._closed = False
        self._settings = {
            "every": every, "keep": keep, "background": background, "allow_nan": allow_nan
        }  # fmt: skip
        self._agreement = preemption.Agreement()
        self._heard = 0, True  # what `_read` gives where nothing was told since
        self._underway: BackgroundWrite | None = None
        self._copies = Copies()

    def save(
        self,
        arrays: Mapping[str, DistArray],
        *,
        step: int,
        time: float | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> bool:
        """Write a checkpoint if one is due; whether it was written, or begun. Collective.

        Raises
        ------
        FileError
            As `save`; or the step is negative, the state holds NaN, the folder was removed or the
            checkpointer is closed; or the checkpoint before could not be written in the background.
            The same on all ranks; checkpoints from before are as they were.
        CommunicationError
            Ranks give different steps, or made the checkpointer with different settings: on each
            rank in this call if a checkpoint is due there, else in its next. Nothing is written.
        SystemExit
            After a signal, with code 75; the checkpoint is written.
        """
        if self._closed:
            raise FileError(
                f"The checkpointer of '{self.folder}' is closed; make a new one to go on saving."
            )
        due = self._due(step)
        communicator = _communicator(arrays)
        preemption.watch(self)
        received = self._hear()
        self._tell(communicator, step)
        if due or received:
            self._heard = self._read()[0], True
            self._complete()
            with spans.span("write", "save"):
                self._write(communicator, arrays, step, time, attrs, wait=bool(received))
        if received:
            self._leave(communicator, received, step)
        return due

    def _hear(self) -> int:
        """The signal that a rank had noted at the call before, or 0. Collective.

        If all threads were ready then, what is under way goes on.
        """
        received, busy = self._read()
        self._heard = 0, True
        if self._underway is not None and not busy:
            self._advance(self._underway)
        return received

    def _tell(self, communicator: Communicator, step: int) -> None:
        """Begin to tell other ranks what they `_read` in this call, if a checkpoint is due, or in
        the next. Collective.
        """
        busy = self._underway is not None and self._underway.busy()
        same = [min(int(value), _LARGEST) for value in (step, *self._settings.values())]
        self._agreement.begin(
            communicator, [preemption.noted(), busy, *same, *(-value for value in same)]
        )

    def _read(self) -> tuple[int, bool]:
        """The signal that a rank had noted when ranks told one another, and whether the thread of
        one was at work. Local, once all have told.

        Raises
        ------
        CommunicationError
            Ranks gave different steps or settings. The same on all that read.
        """
        found = self._agreement.read()
        if found is None:
            return self._heard
        received, busy, *limits = found
        names = ["step", *self._settings]
        for k, name in enumerate(names):
            low, high = -limits[len(names) + k], limits[k]
            if low != high:
                raise CommunicationError(
                    f"{name} of a Checkpointer differs between ranks, from {low} to {high}; pass "
                    "the same on all ranks."
                )
        return received, bool(busy)

    def _write(
        self,
        communicator: Communicator,
        arrays: Mapping[str, DistArray],
        step: int,
        time: float | None,
        attrs: Mapping[str, Any] | None,
        *,
        wait: bool,
    ) -> None:
        """Write a checkpoint, or begin to, in the background. Collective."""
        self._require_folder(communicator)
        target = self.folder / f"checkpoint_{step:010d}.h5"
        tidy = functools.partial(_tidy, self.folder, target.name, self.keep)
        plan = begin_save(
            target,
            arrays,
            step=step,
            time=time,
            attrs=attrs,
            method=self._method,
            refuse_nan=not self._allow_nan,
        )
        if self._background and plan.side_by_side and not wait:
            with agreed(communicator, f"The file '{target}' cannot be written"):
                copies = self._copies.take(arrays.values())
            self._underway = BackgroundWrite(plan, copies, tidy)
            return
        plan.lay_out()
        with _abandoned_on_error(plan):
            plan.write(arrays.values())
            plan.finish()
        with agreed(communicator, f"The folder '{self.folder}' cannot be written"):
            if communicator.rank == 0:
                tidy()

    def _require_folder(self, communicator: Communicator) -> None:
        """Make the folder at the first save. Collective."""
        with agreed(communicator, f"The folder '{self.folder}' cannot be made"):
            if communicator.rank == 0 and not self._made:
                place.make_folder(str(self.folder))
            if communicator.rank == 0 and not self.folder.is_dir():
                raise FileError(
                    f"The folder '{self.folder}' of the checkpoints was removed while the run was "
                    "going on, and the checkpoints with it; make it again to go on saving."
                )
            if communicator.rank == 0 and (self.folder / _LIST).is_dir():
                raise FileError(
                    f"The folder '{self.folder / _LIST}' has the name of the list of checkpoints; "
                    "rename it."
                )
        self._made = True

    def _advance(self, underway: BackgroundWrite) -> None:
        """The next stage of what is under way. Collective."""
        self._underway = None
        with spans.span("write", "save"):
            done = underway.advance()
        if not done:
            self._underway = underway

    def _complete(self) -> None:
        """Wait for what is under way. Collective."""
        while self._underway is not None:
            self._advance(self._underway)

    def _leave(self, communicator: Communicator, received: int, step: int) -> NoReturn:
        preemption.leave()
        self.close()
        if communicator.rank == 0:
            sys.stderr.write(
                f"distarray: {signal.Signals(received).name} received; wrote a checkpoint of step "
                f"{step} in '{self.folder}' and leave with exit code {preemption.EXIT_CODE}.\n"
            )
            sys.stderr.flush()
        raise SystemExit(preemption.EXIT_CODE)

    def latest(self, grid: Grid, *, dtype: Any = None) -> Snapshot | None:
        """The checkpoint written last that is whole; None when there is none. Collective.

        All that is read is compared with its checksums. Root says on stderr which files were
        skipped and why.

        Parameters
        ----------
        grid : Grid
            Of the saved shape, bounds, axes and periodicity, on any number of ranks.
        dtype : dtype or dict of str to dtype, optional
            Other element types, as for `load`.

        Raises
        ------
        FileError
            There are checkpoints, but none can be read onto this grid.
        """
        if not isinstance(grid, Grid):
            raise FileError(f"latest takes a Grid, received {shown(grid)}; pass one.")
        self._complete()
        names: list[str] = []
        communicator = grid.communicator
        with agreed(communicator, f"The folder '{self.folder}' cannot be read"):
            if communicator.rank == 0:
                names = _names(self.folder)
        names = communicator.bcast(names)
        reasons: list[str] = []
        for name in names:
            try:
                snapshot = load(self.folder / name, grid, dtype=dtype)
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
        """Finish what is under way; saving is an error from now on. Collective.

        Signals do again what they did before; one that came too late for a checkpoint does it now.

        Raises
        ------
        FileError
            The last checkpoint could not be written in the background. The same on all ranks.
        """
        self._closed = True
        try:
            self._complete()
        finally:
            preemption.unwatch(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:  # perhaps on this rank alone: nobody can be waited for
            self._closed = True
            if self._underway is not None:
                self._underway.let_go()
            preemption.unwatch(self)

    def _due(self, step: int) -> bool:
        """Whether a multiple of `every` was reached since the call before."""
        if isinstance(step, bool) or not hasattr(step, "__index__") or step < 0:
            raise FileError(
                f"A checkpoint needs a step that is an integer of at least 0, "
                f"received {number_text(step)}."
            )
        if step > _LARGEST:
            raise FileError(f"step must fit into 64 bits, received {number_text(step)}.")
        interval, before = int(step) // self.every, self._interval
        self._interval = interval
        return int(step) % self.every == 0 or (before is not None and interval > before)


def _names(folder: Path) -> list[str]:
    """Names of the checkpoints in a folder, the one written last first. Root only."""
    if not folder.is_dir():
        return []
    present = {
        name for name in os.listdir(folder) if _NAME.fullmatch(name) and (folder / name).is_file()
    }
    listed: list[str] = []
    with contextlib.suppress(OSError):  # missing, a folder, or not to be read
        listed = (folder / _LIST).read_text(encoding="utf-8", errors="replace").split()
    listed = [name for name in dict.fromkeys(listed) if name in present]
    unlisted = sorted(present.difference(listed), key=_step_of, reverse=True)
    # A job that ended before it listed a checkpoint left one of a higher step than the listed.
    newer = [name for name in unlisted if listed and _step_of(name) > _step_of(listed[0])]
    return newer + listed + [name for name in unlisted if name not in newer]


def _tidy(folder: Path, newest: str, keep: int) -> None:
    """List a new checkpoint first; remove unfinished files and those not kept. Root only."""
    names = [newest, *(name for name in _names(folder) if name != newest)]
    # With those that are removed next: one that stays after a crash is then known to be old.
    place.write_text(str(folder / _LIST), "\n".join(names) + "\n")
    for name in names[keep:]:
        place.unlink(str(folder / name))
    for path in map(str, folder.glob("checkpoint_*.h5.partial")):
        if not place.is_held(path):  # by another job
            place.discard(path)


@contextlib.contextmanager
def _abandoned_on_error(plan: WritePlan) -> Iterator[None]:
    try:
        yield
    except BaseException:
        plan.abandon()
        raise


def _step_of(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found.group(1)) if found else -1


def _communicator(arrays: Mapping[str, DistArray]) -> Communicator:
    for array in arrays.values() if isinstance(arrays, Mapping) else ():
        if isinstance(array, DistArray):
            return array.communicator
    raise FileError("A checkpoint needs a dict of names and arrays with at least one array.")
