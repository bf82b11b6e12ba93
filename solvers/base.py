"""What every solver has in common: time, steps, the run loop and files.

A solver of one equation provides `fields`, `stable_dt`, `step` and what it has to remember besides
its fields; it calls `_measure` in a step that is due, with values that are still on their way. They
are read when the next measurement is due, so that no step waits for a reduction.
"""

from __future__ import annotations

import abc
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import distarray as da
from solvers.progress import Progress


def make_folder(path: str | os.PathLike[str], grid: da.Grid) -> None:
    """Make a folder unless it is there, and see that it takes files. Collective.

    Raises
    ------
    FileError
        On all ranks, if it cannot be made or takes no files.
    """
    error = None
    if grid.is_root:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as problem:
            error = da.FileError(
                f"The folder '{path}' has to take files, received: {problem.strerror}; "
                f"give another folder."
            )
    grid.communicator.agree(error)


class Solver(abc.ABC):
    """A state that advances in time.

    Attributes
    ----------
    grid : Grid
    fields : dict of str to DistArray
        The state, the same arrays for the life of the solver.
    time : float
    step_count : int
    residual : float
        Largest |du/dt| over all fields that carry one, of a recent step; infinite before the first
        measurement.
    """

    grid: da.Grid
    fields: dict[str, da.DistArray]

    def __init__(self, *, measure_every: int) -> None:
        self.time = 0.0
        self.step_count = 0
        self.residual = math.inf
        self._measure_every = measure_every
        self._time_step: float | None = None  # what `run` uses until the next measurement
        self._underway: tuple[float, list[Any], list[Any]] | None = None  # dt, changes, speeds

    @abc.abstractmethod
    def stable_dt(self) -> float:
        """The largest time step that is stable now, times the safety factor. Collective."""

    @abc.abstractmethod
    def step(self, dt: float) -> None:
        """Advance by one time step. Collective."""

    @abc.abstractmethod
    def _limit(self, speeds: Sequence[float]) -> float:
        """The time step for these largest speeds, one per axis."""

    def run(
        self,
        until: float | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        every: int = 0,
        steady: float | None = None,
        max_steps: int | None = None,
        progress: bool = False,
        callback: Callable[[], Any] | None = None,
    ) -> None:
        """Advance until a time is reached or the flow is steady. Collective.

        Parameters
        ----------
        until : float, optional
            Time to reach, to the bit.
        output : path, optional
            Folder for one file `step-NNNNNNN.h5` every `every` steps.
        every : int
            Steps between files and between calls of `callback`; 0 for none.
        steady : float, optional
            Stop once `residual` is below this.
        max_steps : int, optional
            Stop after this many steps.
        progress : bool
            Show step, time, dt, residual, cells/s and the remaining time on standard error.
        callback : function, optional
            Called every `every` steps, on all ranks.

        Raises
        ------
        SolverError
            Nothing says when to stop, or the state is no longer finite.
        FileError
            The folder cannot be made or takes no files.
        """
        if until is None and steady is None and max_steps is None:
            raise da.SolverError(
                "A run needs an end, received none; give until=, steady= or max_steps=."
            )
        if output is not None and every:
            make_folder(output, self.grid)
        last = None if max_steps is None else self.step_count + max_steps
        with Progress(
            self, until=until, steady=steady, enabled=progress and self.grid.is_root
        ) as line:
            while not self._done(until, steady, last):
                dt, time = self._next(until)
                self.step(dt)
                self.time = time
                line.show(dt)
                if every and self.step_count % every == 0:
                    self._emit(output, callback)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fields, and all else that a restart needs for the same bits, to one HDF5 file.
        Collective.
        """
        attrs: dict[str, Any] = {"residual": self.residual, "time_step": self._time_step or 0.0}
        if self._underway is not None:
            dt, changes, speeds = self._underway
            attrs["underway"] = [dt, *map(float, changes), *map(float, speeds)]
        da.save(path, self.fields, step=self.step_count, time=self.time, attrs=attrs)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a file that `save` wrote on any number of ranks. Collective."""
        snapshot = da.load(path, self.grid)
        for name, values in self.fields.items():
            values[...] = snapshot.arrays[name]
        self.step_count = int(snapshot.step or 0)
        self.time = float(snapshot.time or 0.0)
        self._restore_attributes(snapshot.attrs)

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        self.residual = float(attrs["residual"])
        self._time_step = float(attrs["time_step"]) or None
        self._underway = None
        if "underway" in attrs:
            dt, *values = (float(value) for value in attrs["underway"])
            half = len(values) // 2
            self._underway = dt, values[:half], values[half:]

    def _due(self) -> bool:
        """Whether the step that has begun is one to measure."""
        return (self.step_count + 1) % self._measure_every == 0

    def _measure(self, dt: float, changes: Sequence[Any], speeds: Sequence[Any]) -> None:
        """Take over the largest changes and speeds of this step, pending, and read those of the
        last measurement.
        """
        if self._underway is not None:
            before, old_changes, old_speeds = self._underway
            self._read(before, [float(c) for c in old_changes], [float(s) for s in old_speeds])
        self._underway = dt, list(changes), list(speeds)

    def _read(self, dt: float, changes: Sequence[float], speeds: Sequence[float]) -> None:
        if not all(map(math.isfinite, [*changes, *speeds])):
            raise da.SolverError(
                f"The state is no longer finite at step {self.step_count}, time {self.time:.6g}, "
                f"dt={dt:.3g}; use a smaller time step."
            )
        # Adaptive: `run` follows the speeds; a caller of `step` keeps its own time step.
        self.residual = max(changes) / dt
        self._time_step = self._limit(speeds)

    def _next(self, until: float | None) -> tuple[float, float]:
        """The next time step and the time after it; the last one lands on `until`."""
        if self._time_step is None:
            self._time_step = self.stable_dt()
        dt = self._time_step
        if until is not None and self.time + 1.000001 * dt >= until:
            return until - self.time, until
        return dt, self.time + dt

    def _done(self, until: float | None, steady: float | None, last: int | None) -> bool:
        return (
            (until is not None and self.time >= until)
            or (steady is not None and self.residual < steady)
            or (last is not None and self.step_count >= last)
        )

    def _emit(
        self, output: str | os.PathLike[str] | None, callback: Callable[[], Any] | None
    ) -> None:
        if output is not None:
            self.save(Path(output) / f"step-{self.step_count:07d}.h5")
        if callback is not None:
            callback()
