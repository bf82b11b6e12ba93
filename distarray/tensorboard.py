"""Curves of scalars for TensorBoard. tensorboardX is imported here and nowhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from distarray.arguments import path_of
from distarray.comm import default
from distarray.errors import ArrayError, DistArrayError, FileError, UnsupportedError, shown

_MISSING = (
    "Curves for TensorBoard need the package tensorboardX ({error}); install the extra tensorboard "
    "(in a clone: pip install '.[tensorboard]')."
)


class TensorBoard:
    """Writes scalars by step, which `tensorboard --logdir FOLDER` shows. Rank 0 writes; creation is
    Collective.

    Parameters
    ----------
    folder : path, made if it is not there
        Of one run; those of several in one folder are shown together.
    step : int
        After which step a run goes on: values that the folder has of later steps are dropped, so
        that curves of runs that were stopped and restarted have each step once.
    comm : mpi4py communicator or Communicator, optional
        By default the ranks of the world if there is one.

    Raises
    ------
    UnsupportedError
        The extra `tensorboard` is not installed where rank 0 runs. The same on all ranks.
    FileError
        The folder cannot be written. The same on all ranks.
    ArrayError
        A step that is no whole number from 0.

    Examples
    --------
    ::

        with da.TensorBoard("run") as board:
            da.iterate(..., every=100, callback=lambda step, time, arrays: board.add(
                step, {"peak": arrays[0].max()}))
    """

    def __init__(self, folder: str | os.PathLike[str], *, step: int = 0, comm: Any = None) -> None:
        communicator = default(comm)
        self._writer: Any = None
        error: DistArrayError | None = None
        path, step = Path(path_of(folder, "TensorBoard")), _checked_step(step)
        if communicator.rank == 0:
            try:
                self._writer = _writer(path, step)
            except ImportError as problem:
                error = UnsupportedError(_MISSING.format(error=problem))
            except OSError as problem:
                error = FileError(
                    f"The folder '{path}' cannot take curves: {problem.strerror or problem}; give "
                    "another one."
                )
        communicator.agree(error)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Append values of a step, kept as float32; they are in the file when this returns. Local;
        ranks other than 0 only look at what they are given.

        Raises
        ------
        ArrayError
            A step that is no whole number from 0; values that are no mapping from names to numbers.
        """
        step, numbers = _checked_step(step), _checked_values(values)
        if self._writer is None:
            return
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=v) for name, v in numbers.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=points))
        self._writer.write_event(event)
        self._writer.flush()

    def close(self) -> None:
        """End the file. Local."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _checked_step(step: Any) -> int:
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step < 2**63:
        raise ArrayError(
            f"The step of a TensorBoard must be a whole number from 0, got {shown(step)}; pass the "
            "number of the step."
        )
    return int(step)


def _checked_values(values: Any) -> dict[str, float]:
    if not isinstance(values, Mapping):
        raise ArrayError(
            f"TensorBoard.add takes a mapping from names to numbers, got {shown(values)}; write "
            "{'name': value}."
        )
    found = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise ArrayError(
                f"Names of curves must be texts, got {shown(name)}; name the curve by a text."
            )
        try:
            found[name] = float("no number" if isinstance(value, str | bytes) else value)
        except (TypeError, ValueError, OverflowError):
            raise ArrayError(
                f"The value of the curve {shown(name)} must be a real number, got {shown(value)}; "
                "convert it."
            ) from None
    return found


def _writer(folder: Path, step: int) -> Any:
    """What writes one file of events, which says at its start that what earlier files have of later
    steps is void. Files are read in the order of their names, which have seconds alone.
    """
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    folder.mkdir(parents=True, exist_ok=True)
    made = EventsWriter(str(folder / "events"), f".{time.time_ns()}")
    begin = SessionLog(status=SessionLog.START)
    made.write_event(Event(wall_time=time.time(), step=step + 1, session_log=begin))
    made.flush()
    return made
