"""Where a file is put: its name, the fresh file beside it, the disk. Local; no HDF5, no MPI."""

from __future__ import annotations

import contextlib
import os
import stat

from distarray.errors import FileError


def resolve(path: str) -> str:
    """The path to be replaced: what a symbolic link points to, which may not exist yet.

    Raises
    ------
    FileError
        Something other than a regular file has this name.
    """
    target = os.path.realpath(path) if os.path.islink(path) else path
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise FileError(
                f"The file '{path}' cannot be replaced: it is {_kind(target)}, no regular file; "
                "give another path."
            )
    return target


def create(path: str) -> None:
    """An empty new file. A leftover file or link of this name is removed, never followed.

    Raises
    ------
    OSError
        The file cannot be created; a FileError where a folder or device has its name.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise FileError(
                f"The file '{path}' cannot be created: {_kind(path)} has this name; remove it."
            )
        os.unlink(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))


def discard(path: str) -> None:
    """Remove a file that was begun, if it is there."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file's bytes, or a folder's names, are on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _kind(path: str) -> str:
    return "a directory" if os.path.isdir(path) else "a device, pipe or socket"
