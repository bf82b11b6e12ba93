"""What every solver has in common: time, steps, the run loop and files.

A solver of one equation provides `fields`, `stable_dt`, `step` and what it has to remember besides
its fields; it calls `_measure` in a step that is due, with values that are still on their way. They
are read when the next measurement is due, so that no step waits for a reduction.

A solver that gains by making several steps at once says how many it may make, `_at_once`, and makes
them, `_make`. A run then looks up only where it has something to do: at its end, at visits and
outputs, where a checkpoint is due, and every few seconds: after each time the ranks agree, from how
long it took the slowest, on how many steps may come next.
"""

from __future__ import annotations

import abc
import contextlib
import math
import os
import sys
import time as clock
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import distarray as da
from solvers.box import is_number, is_whole, require_call, shown
from solvers.progress import Progress
from solvers.series import Series
from solvers.state import configuration, difference

#: A step is the last of a run if less than a millionth of one would be left after it.
_ROUNDING = 1.000001
#: Seconds for which a run may make steps without a look at progress and signals.
_LONGEST = 10.0


class Solver(abc.ABC):
    """A state that advances in time.

    Attributes
    ----------
    config : frozen dataclass
        What was solved: all that files are compared with when they are restored, but for `ranks`.
    grid : Grid
    fields : dict of str to DistArray
        The arrays that hold the state now; a step may exchange them for others.
    time : float
    step_count : int
    residual : float
        Largest |du/dt| over all fields that carry one, of a recent step; infinite before the first
        measurement.
    """

    config: Any
    grid: da.Grid
    fields: dict[str, da.DistArray]

    def __init__(self, *, measure_every: int) -> None:
        self.time = 0.0
        self.step_count = 0
        self.residual = math.inf
        self._measure_every = measure_every
        self._time_step: float | None = None  # what `run` uses until the next measurement
        self._underway: tuple[float, list[Any], list[Any]] | None = None  # dt, changes, speeds
        self._is_agreed = False  # by all ranks on the configuration

    @abc.abstractmethod
    def stable_dt(self) -> float:
        """The largest time step that is stable now, times the safety factor. Collective."""

    @abc.abstractmethod
    def step(self, dt: float) -> None:
        """Advance by one time step. Collective."""

    @abc.abstractmethod
    def _limit(self, speeds: Sequence[float]) -> float:
        """The time step for these largest values of what limits it."""

    def scalars(self) -> dict[str, float]:
        """What a row of scalars.csv says besides step, time, dt and residual. Collective; the same
        bits on any ranks.
        """
        return {}

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
        visits: Sequence[tuple[float, Callable[[], Any]]] = (),
        checkpoints: da.Checkpointer | None = None,
        tensorboard: bool = False,
    ) -> None:
        """Advance until a time is reached or the flow is steady. Collective.

        Parameters
        ----------
        until : float, optional
            Time to reach, to the bit.
        output : path, optional
            Folder for one file `step-NNNNNNN.h5` every `every` steps, lists of them that ParaView
            plays (`steps.vtkhdf.series`, `steps.xdmf`), and a table `scalars.csv`, in which the
            residual is nan before the first measurement. Files, lists and table of a run that was
            restored and goes on are those of one that was never stopped.
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
        visits : sequence of (time, function), optional
            Times up to the end, in order, that steps reach to the bit, and what is called there on
            all ranks. Those that have passed are left out.
        checkpoints : Checkpointer, optional
            Takes the state after every step, or after as many as a solver makes at once, about 10
            seconds of them at most, to write it when that is due or, the second time after it, a
            signal was received; see `resume`. It stays open.
        tensorboard : bool
            Show the scalars of outputs as curves of TensorBoard too, in files of the folder, with
            cells/s and the share of messages that was hidden. Needs the extra `tensorboard`.

        Raises
        ------
        SolverError
            Nothing says when to stop, an end or a number of steps that is none, visits out of order
            or beyond the end, curves without output, ranks that say different things, or the state
            is no longer finite.
        UnsupportedError
            The extra `tensorboard` is needed and not installed. The same on all ranks.
        FileError
            The folder cannot be made or takes no files, or its table is of another run; or a
            checkpoint cannot be written.
        SystemExit
            With code 75, after a signal for which `checkpoints` wrote one.
        """
        _require_end(until, steady, max_steps, every, callback)
        left = _require_visits(visits, until)
        self._require_alike(
            {
                "until": until, "steady": steady, "max_steps": max_steps, "every": every,
                "the times of visits": [float(time) for time, _ in left],
                "whether there is an output": output is not None,
                "the steps between checkpoints": checkpoints and checkpoints.every,
                "tensorboard": bool(tensorboard),
            }
        )  # fmt: skip
        left = [visit for visit in left if visit[0] > self.time]
        series = None
        if output is not None and every:
            series = self._series(output, tensorboard=tensorboard)
        elif tensorboard:
            raise da.SolverError(
                f"Curves for TensorBoard are of outputs, received every={shown(every)} and "
                f"output={shown(output)}; give steps between outputs and a folder."
            )
        last = None if max_steps is None else self.step_count + max_steps
        pace = _Pace(self, every, 0 if checkpoints is None else checkpoints.every, last)
        shows = progress and self.grid.is_root
        with (
            contextlib.nullcontext() if series is None else contextlib.closing(series),
            Progress(self, until=until, steady=steady, enabled=shows) as line,
        ):
            while not self._done(until, steady, last):
                dt = pace.advance(left[0][0] if left else until)
                line.show(dt)
                while left and self.time >= left[0][0]:
                    left.pop(0)[1]()
                if every and self.step_count % every == 0:
                    self._emit(series, dt, callback)
                if checkpoints is not None:
                    self._offer(checkpoints)
        self._complete()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fields, the configuration and all else that a restart needs for the same bits,
        to one HDF5 file. Collective.

        Random numbers are functions of a seed, which is part of the configuration, and of the step.
        """
        attrs = self._attributes()
        da.save(path, self.fields, step=self.step_count, time=self.time, attrs=attrs)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a file that `save` wrote on any number of ranks. Collective.

        Raises
        ------
        FileError
            The file cannot be read, does not fit the grid, or is of another configuration. The same
            on all ranks; the state is as it was.
        """
        self._continue(da.load(path, self.grid), f"The file '{os.fspath(path)}'")

    def resume(self, checkpoints: da.Checkpointer) -> bool:
        """Continue from the newest checkpoint, and say whether there is one. Collective.

        Raises
        ------
        FileError
            As `restore`; or there are checkpoints and none can be read.
        """
        snapshot = checkpoints.latest(self.grid)
        if snapshot is not None:
            folder = checkpoints.folder
            self._continue(snapshot, f"The checkpoint of step {snapshot.step} in '{folder}'")
        return snapshot is not None

    def _attributes(self) -> dict[str, Any]:
        """What a file says besides the fields, step and time. Waits for pending values."""
        attrs: dict[str, Any] = {
            "solver": type(self).__name__,
            "config": configuration(self.config),
            "residual": self.residual,
            "time_step": self._time_step or 0.0,
        }
        if self._underway is not None:
            dt, changes, speeds = self._underway
            attrs["underway"] = [dt, *map(float, changes), *map(float, speeds)]
            attrs["changes"] = len(changes)
        return attrs

    def _continue(self, snapshot: da.Snapshot, source: str) -> None:
        attrs = snapshot.attrs
        if not {"residual", "time_step"} <= attrs.keys() or snapshot.time is None:
            raise da.FileError(
                f"{source} was not written by a solver's save, and lacks what a restart needs; "
                "take its arrays by load to start from them."
            )
        solver = type(self).__name__
        if attrs.get("solver", solver) != solver:
            raise da.FileError(
                f"{source} is of the solver {attrs['solver']}, this is {solver}; restore it there."
            )
        if problem := difference(attrs.get("config", {}), configuration(self.config)):
            raise da.FileError(
                f"{source} is of another configuration: {problem}; give the same, or take the "
                "arrays by load to start another run from them."
            )
        if lacking := [name for name in self.fields if name not in snapshot.arrays]:
            raise da.FileError(
                f"{source} has no field '{lacking[0]}', which this run needs, but only "
                f"{', '.join(snapshot.arrays) or 'none'}; give the run the parts it had then."
            )
        for name, values in self.fields.items():
            values[...] = snapshot.arrays[name]
        self.step_count = int(snapshot.step or 0)
        self.time = float(snapshot.time)
        self._restore_attributes(attrs)

    def _restore_attributes(self, attrs: Mapping[str, Any]) -> None:
        self.residual = float(attrs["residual"])
        self._time_step = float(attrs["time_step"]) or None
        self._underway = None
        if "underway" in attrs:
            dt, *values = (float(value) for value in attrs["underway"])
            count = int(attrs.get("changes", len(values) // 2))
            self._underway = dt, values[:count], values[count:]

    def _due(self) -> bool:
        """Whether the step that has begun is one to measure."""
        return (self.step_count + 1) % self._measure_every == 0

    def _measure(self, dt: float, changes: Sequence[Any], speeds: Sequence[Any]) -> None:
        """Take over the largest changes of this step and the values that limit the next one,
        pending, and read those of the last measurement.
        """
        if self._underway is not None:
            before, old_changes, old_speeds = self._underway
            self._read(before, [float(c) for c in old_changes], [float(s) for s in old_speeds])
        self._underway = dt, list(changes), list(speeds)

    def _read(self, dt: float, changes: Sequence[float], speeds: Sequence[float]) -> None:
        # Minus infinity is the largest of no points, as where all lie on walls.
        changes, speeds = (
            [0.0 if v == -math.inf else v for v in values] for values in (changes, speeds)
        )
        self._require_finite([*changes, *speeds], dt)
        # Adaptive: `run` follows the speeds; a caller of `step` keeps its own time step.
        self.residual = max(changes) / dt
        self._time_step = self._limit(speeds)

    def _require_alike(self, given: Mapping[str, Any]) -> None:
        """Refuse what differs between ranks: they would take other steps, and wait for each other
        for ever. Collective; one small message, and once the configuration too.
        """
        if not self._is_agreed:
            given = {"the configuration": configuration(self.config)} | dict(given)
        self._is_agreed = True
        texts = [f"{name}={value}" for name, value in given.items()]
        found = np.array([zlib.crc32(text.encode()) for text in texts], np.int64)
        communicator = self.grid.communicator
        both = communicator.allreduce(np.concatenate((found, -found)), "max")
        differs = np.flatnonzero(both[: len(found)] != -both[len(found) :])
        if differs.size:
            name, all_of = [*given][differs[0]], communicator.allgather(texts[differs[0]])
            other = next(rank for rank, text in enumerate(all_of) if text != all_of[0])
            raise da.SolverError(
                f"A run is the same on all ranks, but {name} is not: rank 0 has "
                f"{all_of[0]:.80} and rank {other} has {all_of[other]:.80}; pass the same."
            )

    def _require_finite(self, measured: Sequence[float], dt: float) -> None:
        """An error unless all that was measured of the state is finite. Local."""
        if not all(map(math.isfinite, measured)):
            raise da.SolverError(
                f"The state is no longer finite at step {self.step_count}, time {self.time:.6g}, "
                f"dt={dt:.3g}; use a smaller time step."
            )

    def _advance(self, until: float | None) -> float:
        """One step of a run; its length."""
        dt, time = self._next(until)
        self.step(dt)
        self.time = time
        return dt

    def _at_once(self) -> int:
        """How many of the next steps `_make` may make in a run; 1 where that is no gain. Local, the
        same on all ranks.

        They end with the next measurement at the latest, and `stable_dt` does not change meanwhile.
        """
        return 1

    def _make(self, steps: int, dt: float) -> None:
        """Steps of one length, to the bit those of as many calls of `step`. Collective."""
        for _ in range(steps):
            self.step(dt)

    def _alike(self, until: float | None, most: int) -> tuple[int, float]:
        """How many of the next steps, 1 to `most`, have the length of the first; and that length.
        A step that lands on `until` has its own: it is the first, and the only one.
        """
        dt, time = self._next(until)
        steps = 1
        while steps < most and not _lands(time, dt, until):
            time += dt
            steps += 1
        return steps, dt

    def _complete(self) -> None:
        """What a run does after its last step: it looks at what was measured last, which is read
        when the next measurement is due.
        """
        if self._underway is not None:
            dt, changes, speeds = self._underway
            measured = [float(value) for value in (*changes, *speeds)]
            self._require_finite([v for v in measured if v != -math.inf], dt)

    def _next(self, until: float | None) -> tuple[float, float]:
        """The next time step and the time after it; the last one lands on `until`."""
        if self._time_step is None:
            self._time_step = self.stable_dt()
        dt = self._time_step
        if until is not None and _lands(self.time, dt, until):
            return until - self.time, until
        if until is not None and until + dt == until:
            raise da.SolverError(
                f"A run ends in fewer than 10^15 steps, received dt={dt:.6g} and until={until:.6g};"
                " the numbers of its configuration are too far apart."
            )
        return dt, self.time + dt

    def _done(self, until: float | None, steady: float | None, last: int | None) -> bool:
        return (
            (until is not None and self.time >= until)
            or (steady is not None and self.residual < steady)
            or (last is not None and self.step_count >= last)
        )

    def _series(self, output: str | os.PathLike[str], *, tensorboard: bool) -> Series:
        columns = ["dt", "residual", *self.scalars()]
        return Series(
            output, self.grid, self.fields, columns, self.step_count, tensorboard=tensorboard
        )

    def _emit(self, series: Series | None, dt: float, callback: Callable[[], Any] | None) -> None:
        if series is not None:
            self.save(series.path(self.step_count))
            residual = self.residual if math.isfinite(self.residual) else math.nan
            values = [dt, residual, *self.scalars().values()]
            series.add(self.step_count, self.time, values)
        if callback is not None:
            callback()

    def _offer(self, checkpoints: da.Checkpointer) -> None:
        """Have a checkpoint written if it is due."""
        attrs = _Late(self._attributes)
        checkpoints.save(self.fields, step=self.step_count, time=self.time, attrs=attrs)


class _Pace:
    """Lets a run make several steps at once where its solver does, and nothing is to be done after
    those before the last.

    Parameters
    ----------
    solver : Solver
    every, checkpoint : int
        Steps between outputs, and between checkpoints; 0 for none.
    last : int, optional
        The number of the last step.
    """

    def __init__(self, solver: Solver, every: int, checkpoint: int, last: int | None) -> None:
        self._solver, self._last = solver, last
        self._gaps = [gap for gap in (every, checkpoint) if gap]
        # The first step is made alone: it compiles kernels, and signals are heeded after it.
        self._room = 1

    def advance(self, until: float | None) -> float:
        """Advance by one step or more, and give their length. Collective."""
        solver = self._solver
        count = solver._at_once()
        if count == 1:
            return solver._advance(until)
        steps, dt = solver._alike(until, min(count, self._room, *self._to_go()))
        begin = clock.perf_counter()
        if steps == 1:
            solver._advance(until)
        else:
            solver._make(steps, dt)
        self._look(clock.perf_counter() - begin, steps)
        return dt

    def _to_go(self) -> list[int]:
        """Steps to what the run does after some of them."""
        step = self._solver.step_count
        ends = [] if self._last is None else [self._last - step]
        return [*ends, *(gap - step % gap for gap in self._gaps)]

    def _look(self, seconds: float, steps: int) -> None:
        """Take from what steps have lasted on the slowest rank how many may be made next."""
        found = np.array([seconds / steps])
        (slowest,) = self._solver.grid.communicator.allreduce(found, "max")
        self._room = max(int(_LONGEST / max(slowest, 1e-9)), 1)


class _Late(Mapping[str, Any]):
    """A dict that is made when somebody looks into it: most steps need none, and what is in it may
    have to be waited for.
    """

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._made: dict[str, Any] | None = None

    def _dict(self) -> dict[str, Any]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: str) -> Any:
        return self._dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def __len__(self) -> int:
        return len(self._dict())


def _lands(time: float, dt: float, until: float | None) -> bool:
    """Whether a step from this time reaches the end."""
    return until is not None and time + _ROUNDING * dt >= until


def require_time_step(dt: Any) -> None:
    """An error unless a time step is a finite number above 0. Local."""
    if not (is_number(dt) and dt > 0.0):
        raise da.SolverError(
            f"A time step is finite and above 0, received dt={shown(dt)}; give another one."
        )


def _require_end(until: Any, steady: Any, max_steps: Any, every: Any, callback: Any) -> None:
    """An error unless a run has an end, counts its outputs, and can call what it shall. Local."""
    if until is None and steady is None and max_steps is None:
        raise da.SolverError(
            "A run needs an end, received none; give until=, steady= or max_steps=."
        )
    if until is not None and not (is_number(until) and until >= 0.0):
        raise da.SolverError(
            f"The end of a run is a finite time, received until={shown(until)}; give a number that "
            f"is at least 0."
        )
    if until is not None and 0.0 < until < sys.float_info.min:
        raise da.SolverError(
            f"The time of a run is divided by, received until={shown(until)}; give 0, or one of at "
            f"least {sys.float_info.min:.3g}."
        )
    if steady is not None and not (is_number(steady) and steady > 0.0):
        raise da.SolverError(
            f"A steady state has a residual below a number above 0, received "
            f"steady={shown(steady)}; give one."
        )
    if max_steps is not None and not _counts(max_steps):
        raise da.SolverError(
            f"Steps are counted from 0, received max_steps={shown(max_steps)}; give a whole number."
        )
    if not _counts(every):
        raise da.SolverError(
            f"Steps between outputs are counted from 0, received every={shown(every)}; use 0 for "
            f"none."
        )
    if callback is not None:
        require_call("'callback'", callback)


def _require_visits(visits: Any, until: float | None) -> list[Any]:
    """The visits as a list; an error unless they are times and functions, in order and not beyond
    the end. Local.
    """
    if not isinstance(visits, Iterable):
        raise da.SolverError(
            f"'visits' is a list of (time, function), received {shown(visits)}; put them into one."
        )
    found, before = list(visits), -math.inf
    for number, visit in enumerate(found):
        pair = tuple(visit) if isinstance(visit, (tuple, list)) else ()
        if len(pair) != 2 or not is_number(pair[0]) or not callable(pair[1]):
            raise da.SolverError(
                f"A visit is a finite time and a function, received {shown(visit)} as number "
                f"{number}; give (time, function)."
            )
        if pair[0] < before:
            raise da.SolverError(
                f"Visits come in order of time, received {shown(pair[0])} after {shown(before)}; "
                "sort them."
            )
        if until is not None and pair[0] > until:
            raise da.SolverError(
                f"Visits come no later than the end of a run, received one at {shown(pair[0])} for "
                f"until={shown(until)}; leave it out, or give a later end."
            )
        require_call(f"The function of visit {number}", pair[1])
        before = pair[0]
    return found


def _counts(value: Any) -> bool:
    """Whether a value is a whole number of at least 0."""
    return is_whole(value) or (is_number(value) and value == 0)
