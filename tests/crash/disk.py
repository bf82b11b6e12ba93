"""What a disk may hold after a crash: recorded calls replayed up to a cut, unsynced ones dropped.

The model is that of POSIX, weaker than any file system in use. What was written to a file is on the
disk once the file was synced after it; a name that was made, changed or removed is once its folder
was. Of all else any part may be on the disk: of the writes to a file any set, each whole or in its
first part alone, and of the changes of names any set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.calls import Call


@dataclass
class File:
    """A file by its content alone: what is safe, and what was done since."""

    safe: bytearray = field(default_factory=bytearray)
    waiting: list[Call] = field(default_factory=list)

    def sync(self) -> None:
        for call in self.waiting:
            apply(self.safe, call, len(call.data))
        self.waiting.clear()

    def content(self, pick: Pick) -> bytes:
        found = bytearray(self.safe)
        for call in self.waiting:
            kept = pick.part(call)
            if kept is not None:
                apply(found, call, kept)
        return bytes(found)


def apply(content: bytearray, call: Call, size: int) -> None:
    """Do to a content what a call did, with the first `size` bytes of a write."""
    if call.kind == "truncate":
        del content[call.offset :]
    end = call.offset + (size if call.kind == "write" else 0)
    content.extend(bytes(max(0, end - len(content))))
    if call.kind == "write":
        content[call.offset : end] = call.data[:size]


class Pick:
    """Which of the waiting writes and names have arrived: all, none, or by chance."""

    def __init__(self, data: float, names: float, random: Random) -> None:
        self._data, self._names, self._random = data, names, random

    def part(self, call: Call) -> int | None:
        """Bytes of a write that arrived; None if it did not happen at all."""
        if self._random.random() >= self._data:
            return None
        if self._data < 1 and self._random.random() < 0.2:
            return self._random.randrange(len(call.data) + 1)
        return len(call.data)

    def name(self) -> bool:
        return self._random.random() < self._names


@dataclass(frozen=True, eq=False)
class Change:
    """A change of names, and the file that it concerns (None: a folder)."""

    call: Call
    file: File | None

    def apply(self, names: dict[str, File | None]) -> None:
        if self.call.kind in ("create", "mkdir"):
            names[self.call.path] = self.file
            return
        names.pop(self.call.path, None)
        if self.call.kind == "rename":
            names[self.call.other] = self.file


class Disk:
    """The state after some calls; names are paths, of files and (None) of folders."""

    def __init__(self, top: str) -> None:
        self._files: dict[int, File] = {}  # by inode
        self._safe: dict[str, File | None] = {top: None}
        self._now: dict[str, File | None] = {top: None}
        self._waiting: list[Change] = []

    def do(self, call: Call) -> None:
        """One more call."""
        if call.kind in ("create", "mkdir", "rename", "unlink", "rmdir"):
            self._change(call)
        elif call.kind == "sync" and self._now.get(call.path, self) is None:
            self._sync_folder(call.path)
        elif call.kind == "sync":
            self._files[call.inode].sync()
        else:
            self._files[call.inode].waiting.append(call)

    def _change(self, call: Call) -> None:
        """A change of names; a renamed file has its new name though the old one never arrived."""
        file = None if call.kind == "mkdir" else self._now.get(call.path)
        if call.kind == "create":
            file = self._files[call.inode] = File()
        change = Change(call, file)
        change.apply(self._now)
        self._waiting.append(change)

    def _sync_folder(self, path: str) -> None:
        left = []
        for change in self._waiting:
            if os.path.dirname(change.call.path) == path:
                change.apply(self._safe)
            else:
                left.append(change)
        self._waiting = left

    def variants(self, random: Random, samples: int) -> Iterator[dict[str, bytes | None]]:
        """Contents by path, after a crash now: the four extremes, and some by chance."""
        extremes = [(0, 0), (1, 1), (0, 1), (1, 0)]
        for data, names in extremes + [(0.5, 0.5)] * samples:
            yield self._after(Pick(data, names, random))

    def _after(self, pick: Pick) -> dict[str, bytes | None]:
        names = dict(self._safe)
        for change in self._waiting:
            if pick.name():
                change.apply(names)
        contents: dict[int, bytes] = {}
        found: dict[str, bytes | None] = {}
        for path, file in names.items():
            if file is not None:
                contents.setdefault(id(file), file.content(pick))
            found[path] = None if file is None else contents[id(file)]
        return found


def build(state: dict[str, bytes | None], top: str, folder: Path) -> None:
    """The files of a state, in a folder in place of `top`."""
    for path in sorted(state):
        content, target = state[path], folder / os.path.relpath(path, top)
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
