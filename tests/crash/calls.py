"""Records what the processes of a job do to the files below a path: see `calls.c`."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.harness import ROOT


@dataclass(frozen=True, eq=False)
class Call:
    """One call that changed a file or a folder, or brought it to the disk.

    Attributes
    ----------
    kind : str
        create, write, truncate, allocate, sync, rename, unlink, mkdir or rmdir
    inode : int
        Number of the file or folder that was open; 0 where names alone are concerned.
    offset : int
        Where a write starts; the new size of a truncate or allocate.
    """

    kind: str
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


@functools.cache
def library() -> Path:
    """The recorder, compiled anew when its source changed."""
    source = Path(__file__).with_name("calls.c")
    folder = ROOT / ".pytest_cache"
    target = folder / f"calls-{os.getuid()}-{source.stat().st_mtime_ns}.so"
    if not target.exists():
        folder.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as file:
            compiler = os.environ.get("CC", "cc").split()
            flags = ["-O1", "-shared", "-fPIC", "-o", file.name, str(source), "-ldl", "-lpthread"]
            subprocess.run([*compiler, *flags], check=True)
            os.replace(file.name, target)
    return target


def environment(below: Path | str, log: Path, stop: int | None = None) -> dict[str, str]:
    """The variables by which a job is recorded, and stopped at one of its calls."""
    chosen = {"LD_PRELOAD": str(library()), "CALLS_BELOW": str(below), "CALLS_LOG": str(log)}
    return chosen if stop is None else chosen | {"CALLS_STOP": str(stop)}


def stopped(log: Path) -> int | None:
    """The process that stopped, once one has."""
    try:
        text = log.with_name(log.name + ".stopped").read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


def read(log: Path) -> list[Call]:
    """All calls in the order in which they were made."""
    octets, start, found = log.read_bytes(), 0, []
    while start < len(octets):
        end = octets.index(b"\n", start)
        _, kind, inode, offset, size, names = octets[start:end].decode().split(" ", 5)
        start = end + 1 + int(size)
        path, _, other = names.partition("\t")
        found.append(Call(kind, int(inode), int(offset), path, other, octets[end + 1 : start]))
    return found
