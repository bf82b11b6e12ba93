"""Runs that are killed and started again: nothing is lost, and the end has the same bits.

All 50 moments: `python -m pytest -m slow tests/crash`
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import pytest

from tests.crash import calls, jobs
from tests.crash.program import STEPS

#: Of the 50 moments, those tried each time: one inside a write and one at any time.
FEW = (0,)
MOMENTS = 50
VICTIMS = ("one rank", "all ranks", "the launcher")


@dataclass(frozen=True)
class Moment:
    """When a run is killed, by a seed; every other moment lies inside a write."""

    seed: int

    @cached_property
    def random(self) -> Random:
        return Random(self.seed)

    @property
    def inside(self) -> bool:
        return self.seed % 2 == 0

    @property
    def ranks(self) -> int:
        return 2 + self.seed // 2 % 2

    @property
    def victim(self) -> str:
        return VICTIMS[self.seed // 2 % len(VICTIMS)]

    @property
    def background(self) -> bool:
        return self.seed // 4 % 2 == 1

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.victim} of {self.ranks} killed "
            f"{'inside' if self.inside else 'at any time of'} a run "
            f"{'with background' if self.background else 'with'} checkpoints"
        )


class Uninterrupted:
    """The results of runs that nobody kills, and how many calls they make; each run once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: dict[tuple[int, bool], int] = {}

    @property
    def result(self) -> Path:
        return self._folder / "1-False" / "result.npz"

    def calls(self, ranks: int, background: bool) -> int:
        if (ranks, background) not in self._calls:
            top = self._folder / f"{ranks}-{background}"
            top.mkdir()
            log = self._folder / f"{ranks}-{background}.log"
            jobs.finish(ranks, *arguments(top, background), env=calls.environment(top / "run", log))
            self._calls[ranks, background] = len(calls.read(log))
            if self.result.exists():
                assert jobs.same_bits(top / "result.npz", self.result)
        return self._calls[ranks, background]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Uninterrupted:
    runs = Uninterrupted(tmp_path_factory.mktemp("uninterrupted"))
    runs.calls(1, False)
    return runs


def arguments(top: Path, background: bool, pause: float = 0.0) -> list[str | Path]:
    """What `program.py` is given."""
    chosen = "yes" if background else "no"
    return [top / "run", top / "result.npz", f"background={chosen}", f"pause={pause}"]


def kill(moment: Moment, top: Path, uninterrupted: Uninterrupted) -> None:
    """Start a run and kill it at its moment."""
    log, random = top / "log", moment.random
    env: dict[str, str] = {}
    if moment.inside:
        stop = random.randrange(uninterrupted.calls(moment.ranks, moment.background) * 9 // 10)
        env = calls.environment(top / "run", log, stop)
    step = random.randrange(1, STEPS)
    pause = 0.0 if moment.inside else 0.01
    with jobs.started(moment.ranks, *arguments(top, moment.background, pause), env=env) as job:
        if moment.inside:
            job.wait_until(lambda: calls.stopped(log))
        else:
            job.wait_until(lambda: len(jobs.noted(jobs.notes(top / "result.npz"), "step")) >= step)
            time.sleep(random.random() * 0.02)
        assert job.process.poll() is None, f"{moment}: was not killed\n{job.output()}"
        processes = job.ranks()
        assert len(processes) == moment.ranks
        if moment.victim == "one rank":
            job.kill([random.choice(sorted(processes.values()))])
        elif moment.victim == "all ranks":
            job.kill(list(processes.values()))
        else:
            job.kill([job.process.pid])
        if (stopped := calls.stopped(log)) in job.alive():
            os.kill(stopped, signal.SIGCONT)
        assert job.wait() != 0
        assert not job.alive()


def restart(moment: Moment, top: Path, uninterrupted: Uninterrupted) -> int:
    """Start the run again, to its end; the step from which it went on."""
    before = jobs.notes(top / "result.npz")
    (top / "result.npz").unlink(missing_ok=True)  # ranks may outlive their launcher
    printed = jobs.finish(moment.ranks, *arguments(top, moment.background))
    after = jobs.notes(top / "result.npz")[len(before) :]
    assert "Skipped" not in printed, f"{moment}: a checkpoint had its name and was not whole"
    assert after[0] == "none" or after[0].startswith("found ")
    found = 0 if after[0] == "none" else int(after[0].split()[1])
    saved = jobs.noted(before, "saved")
    if moment.background:
        saved = saved[:-1]  # the last had been begun
    assert found >= max(saved, default=0), f"{moment}: step {saved[-1]} was lost"
    assert jobs.same_bits(top / "result.npz", uninterrupted.result), f"{moment}: other bits"
    return found


def try_moment(seed: int, folder: Path, uninterrupted: Uninterrupted) -> Moment:
    moment, top = Moment(seed), folder / str(seed)
    top.mkdir()
    kill(moment, top, uninterrupted)
    restart(moment, top, uninterrupted)
    return moment


@pytest.mark.parametrize("seed", FEW)
def test_nothing_is_lost(seed: int, tmp_path: Path, uninterrupted: Uninterrupted) -> None:
    try_moment(seed, tmp_path, uninterrupted)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_at_many_moments(
    tmp_path: Path, uninterrupted: Uninterrupted, capsys: pytest.CaptureFixture[str]
) -> None:
    counted: Counter[str] = Counter()
    losses = []
    for seed in range(MOMENTS):
        try:
            moment = try_moment(seed, tmp_path, uninterrupted)
            counted[f"{moment.victim}, {'inside a write' if moment.inside else 'any time'}"] += 1
        except AssertionError as error:
            losses.append(str(error))
    with capsys.disabled():
        print(f"\n{sum(counted.values())} runs killed and started again, {len(losses)} losses")
        for what, count in sorted(counted.items()):
            print(f"  {count:3d} {what}")
    assert not losses, "\n".join(losses)
