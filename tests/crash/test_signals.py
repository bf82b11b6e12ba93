"""Signals of batch systems: a checkpoint is written and the job leaves, to be started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.crash import jobs

LONG = ["steps=100000", "every=100000", "pause=0.01"]


def steps(result: Path) -> list[int]:
    return jobs.noted(jobs.notes(result), "step")


@pytest.mark.parametrize(
    ("ranks", "receiver", "number", "background"),
    [
        (3, 1, signal.SIGTERM, "no"),
        pytest.param(3, 0, signal.SIGUSR1, "yes", marks=pytest.mark.slow),
        pytest.param(1, 0, signal.SIGTERM, "no", marks=pytest.mark.slow),
        pytest.param(2, None, signal.SIGUSR1, "no", marks=pytest.mark.slow),
    ],
)
def test_a_signal_on_one_rank_or_on_the_launcher(
    tmp_path: Path, ranks: int, receiver: int | None, number: signal.Signals, background: str
) -> None:
    result, folder = tmp_path / "result.npz", tmp_path / "run"
    with jobs.started(ranks, folder, result, *LONG, f"background={background}") as job:
        job.wait_until(lambda: len(steps(result)) >= 3)
        # Launchers pass SIGUSR1 on.
        os.kill(job.process.pid if receiver is None else job.ranks()[receiver], number)
        code = job.wait()
        printed = job.output()
    assert code == 75, printed
    # No checkpoint was due: this one was written for the signal, in the step after the last noted.
    last = steps(result)[-1] + 1
    assert [path.name for path in sorted(folder.iterdir())] == [
        f"checkpoint_{last:010d}.h5",
        "latest",
    ]
    text = (
        f"distarray: {number.name} received; wrote a checkpoint of step {last} in '{folder}' and "
        "leave with exit code 75."
    )
    assert printed.count(text) == 1, printed
    assert "Traceback" not in printed
    assert "all ranks are ended" not in printed
    jobs.finish(2, folder, result, f"steps={last + 7}")
    assert jobs.notes(result).count(f"found {last}") == 1
    jobs.finish(1, tmp_path / "other", tmp_path / "other.npz", f"steps={last + 7}")
    assert jobs.same_bits(result, tmp_path / "other.npz")


@pytest.mark.parametrize("receiver", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_second_signal_ends_the_job_at_once(tmp_path: Path, receiver: int) -> None:
    """Also on a rank that is inside a call of MPI: rank 0 sleeps, the other waits for it there."""
    result = tmp_path / "result.npz"
    options = ["steps=9", "every=100000", "pause=0", "stuck=3"]
    with jobs.started(2, tmp_path / "run", result, *options) as job:
        job.wait_until(lambda: len(steps(result)) >= 3)
        os.kill(job.ranks()[receiver], signal.SIGTERM)
        time.sleep(1.0)
        assert job.process.poll() is None  # the first was noted
        deadline = time.monotonic() + jobs.LONGEST
        while job.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(job.ranks()[receiver], signal.SIGUSR1)
            time.sleep(0.5)  # signals that come together count as one
        code = job.wait()
        assert code not in (0, 75)
        assert "left at a second signal, SIGUSR1, without a checkpoint." in job.output()
    assert list((tmp_path / "run").glob("checkpoint*")) == []


def test_signals_do_again_what_they_did_once_a_checkpointer_is_closed(tmp_path: Path) -> None:
    result = tmp_path / "result.npz"
    with jobs.started(1, tmp_path / "run", result, "steps=2", "after=60") as job:
        job.wait_until(lambda: "closed" in jobs.notes(result))
        os.kill(job.ranks()[0], signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM


def test_a_signal_that_comes_too_late_for_a_checkpoint(tmp_path: Path) -> None:
    """It is not forgotten: closing the checkpointer lets it end the process."""
    result = tmp_path / "result.npz"
    with jobs.started(1, tmp_path / "run", result, "steps=3", "every=100", "late=yes") as job:
        job.wait_until(lambda: len(steps(result)) >= 3)
        os.kill(job.ranks()[0], signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM
    assert not result.exists()
