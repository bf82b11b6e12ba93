"""What a crash of the machine may leave: the calls of a run, cut anywhere, unsynced ones dropped.

`kill -9` keeps what the kernel has not written yet; a power failure does not. So the recorded calls
of a run are replayed up to each cut onto a model of a disk, see `disk`, and the newest checkpoint
is looked for in what is then there. All cuts: `python -m pytest -m slow tests/crash`
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import distarray as da
from tests.crash import calls, disk, jobs, program
from tests.crash.calls import Call

KINDS = ((2, "posix", "no"), (2, "posix", "yes"))
MORE = ((1, "posix", "no"), (2, "mpiio", "no"), (2, "root", "no"))
STEPS = 16
EVERY = 4


def name_of(kind: tuple[int, str, str]) -> str:
    return "-".join(map(str, kind))


@pytest.fixture(
    scope="module",
    params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MORE)],
    ids=name_of,
)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Call], Path, bool]:
    """The calls of a run, the path below which it made them, and whether it wrote behind itself."""
    ranks, method, background = request.param
    top = tmp_path_factory.mktemp("recorded")
    log = top.with_suffix(".log")
    options = [f"steps={STEPS}", f"every={EVERY}", f"method={method}", f"background={background}"]
    # In a folder of files of one kernel page: calls are many, not large.
    jobs.finish(
        ranks, top / "run", top / "result.npz", *options, "cells=6,5",
        env=calls.environment(top, log),
    )  # fmt: skip
    return calls.read(log), top, background == "yes"


class Crashes:
    """Looks for the newest checkpoint after one crash and another."""

    def __init__(self, top: Path, folder: Path, states: dict[int, bytes]) -> None:
        self._top, self._folder, self._states = top, folder, states
        self._grid = da.Grid((6, 5), periodic=(True, False))
        self._seen: set[bytes] = set()
        self.counted: Counter[str] = Counter()

    def look(self, state: dict[str, bytes | None], last: int, safe: int) -> None:
        """`last`: the step of which `save` has returned; `safe`: the oldest that may be found."""
        key = hashlib.sha256(repr((sorted(state.items()), safe)).encode()).digest()
        if key in self._seen:
            return
        self._seen.add(key)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        disk.build(state, str(self._top), self._folder)
        found = da.Checkpointer(self._folder / "run", every=EVERY).latest(self._grid)
        step = 0 if found is None else int(found.step or 0)
        assert safe <= step <= last + EVERY, f"found step {step} after that of {last} was saved"
        if found is not None:
            u, v = found.arrays["u"].gather(), found.arrays["v"].gather()
            assert u.tobytes() + v.tobytes() == self._states[step], f"other bits at step {step}"
        self.counted["in the end" if step > last else "the last" if step == last else "before"] += 1


def replay(
    recorded: tuple[list[Call], Path, bool], folder: Path, *, stride: int, samples: int
) -> Counter[str]:
    """Crash after every so many calls; how often which checkpoint was found."""
    found, top, background = recorded
    run, notes = str(top / "run"), str(top / "result.npz.log")
    crashes = Crashes(top, folder / "crashed", states_of_all_steps())
    random, past, done = Random(stride), disk.Disk(str(top)), [0, 0]
    for number, call in enumerate(found):
        if call.path == notes and call.data.startswith(b"saved "):
            done.append(int(call.data.split()[1]))
        if call.path != str(top) and not call.path.startswith(run):
            continue
        past.do(call)
        if number % stride:
            continue
        # In the background the last was only begun, and the one before is safe.
        safe = done[-2] if background else done[-1]
        for state in past.variants(random, samples):
            crashes.look(state, done[-1], safe)
    assert done[2:] == list(range(EVERY, STEPS + 1, EVERY))
    return crashes.counted


def test_a_crash_at_some_calls(recorded: tuple[list[Call], Path, bool], tmp_path: Path) -> None:
    counted = replay(recorded, tmp_path, stride=11, samples=2)
    assert counted.total() > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_crash_at_every_call(
    recorded: tuple[list[Call], Path, bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = replay(recorded, tmp_path, stride=1, samples=8)
    with capsys.disabled():
        print(f"\n{counted.total()} crashes of {len(recorded[0])} calls, 0 losses: {dict(counted)}")


# The model itself.


def model(*steps: tuple[str, str, str | bytes]) -> disk.Disk:
    """A disk after calls on files of the folder `/d`, each with an inode of its own."""
    past = disk.Disk("/d")
    for kind, name, more in steps:
        inode = ord(name[0]) if name else 1
        data = more if isinstance(more, bytes) else b""
        other = f"/d/{more}" if isinstance(more, str) and more else ""
        past.do(Call(kind, inode, 0, f"/d/{name}" if name else "/d", other, data))
    return past


def contents(past: disk.Disk) -> list[dict[str, bytes | None]]:
    """What is left at the extremes: nothing unsynced, all, names alone, data alone."""
    return [
        {path[3:]: content for path, content in state.items() if path != "/d"}
        for state in past.variants(Random(0), 0)
    ]


def test_what_is_not_synced_may_be_absent() -> None:
    past = model(("create", "a", ""), ("write", "a", b"xyz"))
    assert contents(past) == [{}, {"a": b"xyz"}, {"a": b""}, {}]


def test_data_are_safe_after_a_sync_and_names_after_one_of_the_folder() -> None:
    past = model(("create", "a", ""), ("write", "a", b"xyz"), ("sync", "a", ""))
    assert contents(past) == [{}, {"a": b"xyz"}, {"a": b"xyz"}, {}]
    past = model(("create", "a", ""), ("sync", "", ""), ("write", "a", b"xyz"))
    assert contents(past) == [{"a": b""}, {"a": b"xyz"}, {"a": b""}, {"a": b"xyz"}]


def test_a_rename_replaces_a_file_once_it_arrives() -> None:
    past = model(
        ("create", "b", ""), ("write", "b", b"old"), ("sync", "b", ""), ("sync", "", ""),
        ("create", "a", ""), ("write", "a", b"new"), ("sync", "a", ""), ("rename", "a", "b"),
    )  # fmt: skip
    assert contents(past) == [{"b": b"old"}, {"b": b"new"}, {"b": b"new"}, {"b": b"old"}]


@pytest.mark.parametrize("left_out", ["sync of the file", "sync of the folder"])
def test_a_sequence_without_a_sync_is_seen_to_lose(left_out: str) -> None:
    """The check would notice a missing call: the same sequence, less one, has a bad outcome."""
    steps = [
        ("create", "b", ""), ("write", "b", b"old"), ("sync", "b", ""), ("sync", "", ""),
        ("create", "a", ""), ("write", "a", b"new"), ("sync", "a", ""), ("rename", "a", "b"),
        ("sync", "", ""),
    ]  # fmt: skip
    assert {state["b"] for state in contents(model(*steps))} == {b"new"}
    del steps[6 if left_out == "sync of the file" else 8]
    outcomes = {state["b"] for state in contents(model(*steps))}
    assert outcomes == ({b"", b"new"} if left_out == "sync of the file" else {b"old", b"new"})


@functools.cache
def states_of_all_steps() -> dict[int, bytes]:
    """The bytes of the state after each step, of a run without checkpoints."""
    grid = da.Grid((6, 5), periodic=(True, False))
    state = program.start(grid)
    u, v = state["u"], state["v"]
    new_u, new_v = u.copy(), v.copy()
    found = {}
    for step in range(1, STEPS + 1):
        program.advance(u, v, new_u, new_v, dt=0.1)
        u, v, new_u, new_v = new_u, new_v, u, v
        found[step] = u.gather().tobytes() + v.gather().tobytes()
    return found
