"""Where a file is put: its name, the fresh file beside it, the disk. Local; no HDF5, no MPI.

What changes files and folders goes through the functions here, each of which does one thing to the
file system: make_folder, create, write_at, sync, rename, sync_folder, unlink. (HDF5 and MPI write
into the file that `create` made.) A file that must be whole or absent is written under another name
in the same folder, then: sync(partial), rename(partial, name), sync_folder(folder). A crash leaves
either the file from before or the new one; after the last call it leaves the new one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distarray.errors import FileError

#: Added to a name until the file is whole.
PARTIAL = ".partial"
#: SYNC_FILE_RANGE_WRITE of Linux: begin to write, without waiting.
_RANGE_WRITE = 2
#: Rows that one call takes: IOV_MAX of Linux.
_ROWS = 1024


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


def make_folder(path: str) -> None:
    """A folder and those above it, on the disk when this returns; nothing if it is there."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):  # else another process was faster
                raise
        sync_folder(os.path.dirname(folder.rstrip("/")))


def create(path: str) -> None:
    """An empty new file. A leftover file or link of this name is removed, never followed.

    Raises
    ------
    OSError
        The file cannot be created; a FileError where a folder or device has its name, or another
        job holds it (see `hold`).
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise FileError(
                f"The file '{path}' cannot be created: {_kind(path)} has this name; remove it."
            )
        if is_held(path):
            raise FileError(
                f"The file '{path}' cannot be created: another job is writing it; wait for that "
                "job, or give another name or folder."
            )
        os.unlink(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))


def identity(path: str) -> tuple[int, ...] | None:
    """What tells a file from one that takes its name, or from itself after a change; None if there
    is no file.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def hold(path: str) -> int | None:
    """Tell other jobs that a file made by `create` is being written, until the descriptor that is
    returned is closed. None where the file system has no locks.

    Raises
    ------
    FileError
        Another job was faster.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    locked = _lock(descriptor)
    if locked is None:
        os.close(descriptor)
        return None
    own = os.fstat(descriptor)
    if not locked or identity(path) is None or not os.path.samestat(own, os.stat(path)):
        os.close(descriptor)
        raise FileError(
            f"The file '{path}' cannot be created: another job began to write it at the same time; "
            "give another name or folder."
        )
    return descriptor


def is_held(path: str) -> bool:
    """Whether another job is writing a file; no where that cannot be told."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _lock(descriptor) is False
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether a lock was free and is taken; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def opened(path: str, *, write: bool = False) -> Iterator[int]:
    """The descriptor of an existing file, for `write_at`, `read_at` and `sync`; to write, never of
    what a symbolic link points to.
    """
    mode = os.O_RDWR | os.O_NOFOLLOW if write else os.O_RDONLY
    descriptor = os.open(path, mode | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_at(descriptor: int, offset: int, octets: Any) -> None:
    """Write all bytes of a buffer at a place in the file. May be called on any thread.

    Never through a memory map: a full disk would end the process (SIGBUS), not raise an error.
    """
    rest = _bytes_of(octets)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def write_rows(descriptor: int, offset: int, rows: Sequence[Any]) -> None:
    """Write arrays, whose bytes lie together each, one behind the other. May be called on any
    thread.
    """
    for first in range(0, len(rows), _ROWS):
        batch = rows[first : first + _ROWS]
        written = os.pwritev(descriptor, batch, offset)
        for row in batch:
            if written < row.nbytes:  # a disk that is nearly full takes a part
                write_at(descriptor, offset + written, _bytes_of(row)[written:])
            offset, written = offset + row.nbytes, max(0, written - row.nbytes)


def read_at(descriptor: int, offset: int, octets: Any) -> None:
    """Fill a buffer from a place in the file. May be called on any thread.

    Raises
    ------
    OSError
        Also where the file ends before the buffer is full.
    """
    rest = _bytes_of(octets)
    while rest:
        count = os.preadv(descriptor, [rest], offset)
        if count == 0:
            raise OSError(f"the file ends at byte {offset}, {len(rest)} bytes early")
        rest, offset = rest[count:], offset + count


def begin_sync(descriptor: int, offset: int, count: int) -> None:
    """Let the disk begin to take some bytes, where the system has a call for it; promises nothing:
    see `sync`. Local; on any thread.
    """
    call = _sync_file_range()
    if call is not None and count > 0:
        call(descriptor, offset, count, _RANGE_WRITE)  # an error is for `sync` to find


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    call.restype = ctypes.c_int
    return call


def will_read(descriptor: int, offset: int, count: int) -> None:
    """Let the disk begin to give some bytes that are read next. Local; on any thread."""
    if count > 0 and hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, offset, count, os.POSIX_FADV_WILLNEED)


def read_rows(descriptor: int, offset: int, rows: Sequence[Any]) -> None:
    """Fill arrays, whose bytes lie together each, one behind the other. May be called on any
    thread.

    Raises
    ------
    OSError
        As `read_at`.
    """
    for first in range(0, len(rows), _ROWS):
        batch = rows[first : first + _ROWS]
        count = os.preadv(descriptor, batch, offset)
        for row in batch:
            if count < row.nbytes:
                read_at(descriptor, offset + count, _bytes_of(row)[count:])
            offset, count = offset + row.nbytes, max(0, count - row.nbytes)


def write_text(path: str, text: str) -> None:
    """Replace a small file by one with this text, whole or not at all, also after a crash."""
    partial = path + PARTIAL
    create(partial)
    try:
        with opened(partial, write=True) as descriptor:
            write_at(descriptor, 0, text.encode())
            sync(descriptor)
        rename(partial, path)
    except BaseException:
        discard(partial)
        raise
    sync_folder(os.path.dirname(path))


def sync(file: int | str | os.PathLike[str]) -> None:
    """Wait until the bytes of a file, given by descriptor or path, are on the disk.

    An error must be final for the file: the kernel forgets what it could not write, and a second
    attempt would succeed.
    """
    if isinstance(file, int):
        os.fsync(file)
        return
    number = os.open(file, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk; "" is the current folder."""
    try:
        sync(path or ".")
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such call for folders
            raise


def rename(source: str, target: str) -> None:
    """Give a file another name in its folder; a file that had it is replaced at once."""
    os.replace(source, target)


def unlink(path: str) -> None:
    """Remove a file; nothing if it is not there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def discard(path: str) -> None:
    """Remove a file that was begun, if it is there and can be removed."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            unlink(path)


def _bytes_of(octets: Any) -> memoryview:
    view = memoryview(octets)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _kind(path: str) -> str:
    return "a directory" if os.path.isdir(path) else "a device, pipe or socket"
