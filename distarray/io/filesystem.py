"""Whether many processes may write into one file of a folder at once. Local."""

from __future__ import annotations

import os
import re

#: File systems on which bytes that several nodes or processes write side by side all arrive.
#: Network file systems whose clients write back whole pages (NFS, SMB, 9P, most of FUSE) lose some.
COHERENT = frozenset({
    "apfs", "bcachefs", "beegfs", "btrfs", "ceph", "daos", "ext2", "ext3", "ext4", "f2fs",
    "fuse.ceph", "gfs2", "gpfs", "hfs", "jfs", "lustre", "ocfs2", "orangefs", "overlay", "panfs",
    "pvfs2", "ramfs", "reiserfs", "tmpfs", "wekafs", "xfs", "zfs",
})  # fmt: skip
#: Those of them that belong to one machine, so that locks of files are between its processes alone.
LOCAL = frozenset({
    "apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "overlay", "ramfs",
    "reiserfs", "tmpfs", "xfs", "zfs",
})  # fmt: skip
_TABLE = "/proc/self/mountinfo"


def kind_of(path: str) -> str:
    """The type of the file system that a folder lies on, as Linux names it; "" if not known."""
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            lines = table.read().splitlines()
    except OSError:
        return ""
    return _kind_in(lines, os.path.realpath(path or "."))


def _kind_in(lines: list[str], path: str) -> str:
    """The type of the last mounted of the deepest mount points above a path."""
    found, depth = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point.rstrip("/")) >= depth:
            found, depth = after.split(" ")[0], len(point.rstrip("/"))
    return found


def takes_many_writers(path: str) -> bool:
    """Whether ranks may write into one file of this folder at once; no for what is not known."""
    return kind_of(path) in COHERENT


def is_local(path: str) -> bool:
    """Whether a folder lies on a file system of this machine alone; no for what is not known."""
    return kind_of(path) in LOCAL
