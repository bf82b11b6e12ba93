"""Which signals checkpointers take, and that all else stays as it was."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import distarray as da
from distarray.io import preemption


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[da.Checkpointer]:
    """One that has started to note signals."""
    gc.collect()
    with da.Checkpointer(tmp_path, every=100) as made:
        made.save({"u": da.Grid((4, 4)).zeros()}, step=1)
        yield made
        preemption.acted()
    for number in preemption.SIGNALS:  # ignored where the process was about to end
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def save(checkpoints: da.Checkpointer, step: int) -> bool:
    return checkpoints.save({"u": da.Grid((4, 4)).zeros()}, step=step)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("number", preemption.SIGNALS)
def test_a_signal_leads_to_a_checkpoint_in_the_second_call(
    checkpoints: da.Checkpointer, number: signal.Signals
) -> None:
    os.kill(os.getpid(), number)
    wait_for(preemption.noted)
    assert not save(checkpoints, 2)
    with pytest.raises(SystemExit) as caught:
        save(checkpoints, 3)
    assert caught.value.code == preemption.EXIT_CODE == 75
    assert (checkpoints.folder / "checkpoint_0000000003.h5").exists()
    # A second one, on its way to a slow rank, must not change the exit code.
    assert {signal.getsignal(each) for each in preemption.SIGNALS} == {signal.SIG_IGN}
    for each in preemption.SIGNALS:
        os.kill(os.getpid(), each)
    assert not preemption.noted()
    checkpoints.close()
    assert signal.getsignal(number) == signal.SIG_IGN


def test_handlers_of_the_program_stay(tmp_path: Path) -> None:
    seen: list[int] = []

    def mine(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGUSR1, mine), signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with da.Checkpointer(tmp_path, every=100) as checkpoints:
            save(checkpoints, 1)
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for(lambda: seen)
            assert not save(checkpoints, 2)
            assert not save(checkpoints, 3)
        assert seen == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGUSR1) is mine
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGTERM, before[1])


def test_all_is_given_back_with_the_last_checkpointer(
    checkpoints: da.Checkpointer, tmp_path: Path
) -> None:
    taken = signal.getsignal(signal.SIGTERM)
    assert taken != signal.SIG_DFL
    with da.Checkpointer(tmp_path / "other", every=1) as other:
        save(other, 1)
    assert signal.getsignal(signal.SIGTERM) == taken
    checkpoints.close()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_a_child_made_by_fork_is_no_rank(checkpoints: da.Checkpointer) -> None:
    """It ends as ever, and what it receives is not taken for its parent's."""
    with warnings.catch_warnings():  # of Python 3.12, that there is another thread
        warnings.simplefilter("ignore", DeprecationWarning)
        reading, writing = os.pipe()
        child = os.fork()
    if child == 0:
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(1)
    assert os.read(reading, 1) == b"x"  # so that it is a child with handlers of its own
    os.close(reading)
    os.close(writing)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert not save(checkpoints, 2)
    os.kill(os.getpid(), signal.SIGUSR1)
    wait_for(preemption.noted)
    assert preemption.noted() == signal.SIGUSR1  # not the one before, of the child
    preemption.acted()


def test_the_wakeup_descriptor_of_an_event_loop_stays(tmp_path: Path) -> None:
    gc.collect()
    mine, other = socket.socketpair()
    mine.setblocking(False)
    assert signal.set_wakeup_fd(mine.fileno()) == -1
    try:
        with da.Checkpointer(tmp_path, every=100) as checkpoints:
            save(checkpoints, 1)
            os.kill(os.getpid(), signal.SIGUSR1)
            wait_for(preemption.noted)
            assert other.recv(1) == bytes([signal.SIGUSR1])
            preemption.acted()
    finally:
        assert signal.set_wakeup_fd(-1) == mine.fileno()
        mine.close()
        other.close()
