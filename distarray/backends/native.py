"""Compile C text once per node and load it: the compiler, its flags and the user's cache.

A cache entry is a shared library followed by its checksum. It appears under a temporary name first
and is renamed when whole; an entry that is damaged or cannot be loaded counts as absent. One
process per node compiles while the others wait for its lock. Flags never include -ffast-math or
-Ofast: results keep their bits, and no process has its floating-point mode changed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from distarray.backends import processor, threads
from distarray.errors import BackendError
from distarray.launcher import child_environment, launched

#: No contraction and no reassociation; integers wrap as in NumPy; errno and traps are not observed,
#: so loops vectorise.
FLAGS = [
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fopenmp-simd",
]
FAST_FLAGS = [
    "-ffp-contract=fast",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
]
#: Tried in turn with a small program; a compiler may refuse them. Threaded jumps, GCC's copies of
#: code for what a choice has shown, leave loops with several choices without SIMD code.
NATIVE_FLAGS = ("-march=native", "-mcpu=native")
SIMD_FLAGS = ("-fno-thread-jumps",)
OPENMP_FLAG = "-fopenmp"

_TRIAL = """\
#include <math.h>
#include <stdint.h>
void trial(double *x, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) x[i] = sqrt(x[i]);
}
"""
_TRAILER = b"\ndistarray-sha256:"
_LIBRARY_VERSION = "4"
#: Bytes that a disk with room for a library takes.
_ROOM = 1 << 20

#: Seconds that a compiler may take for a kernel, and for the small program that tries it out.
COMPILE_SECONDS = 300.0
TRIAL_SECONDS = 30.0
#: Seconds for which one that did not end in time is not tried again, by any process.
SILENCE_SECONDS = 600.0

T = TypeVar("T")


@dataclass(frozen=True)
class Language:
    """What is compiled.

    Attributes
    ----------
    name, suffix : str
        Of the language and of its files.
    variable : str
        The environment's variable that names a compiler.
    compilers : tuple of str
        Tried in turn after that; last of all the command `zig` of the ziglang wheel.
    flags : tuple of str
        For every text.
    trial : str
        A small program that a working compiler can make a library of.
    tuned : bool
        Whether flags for this machine and for OpenMP are looked for.
    """

    name: str
    suffix: str
    variable: str
    compilers: tuple[str, ...]
    zig: str
    flags: tuple[str, ...]
    trial: str
    tuned: bool


C = Language("C", ".c", "CC", ("cc", "gcc", "clang"), "cc", tuple(FLAGS), _TRIAL, True)


class _SilentError(BackendError):
    """A compiler did not end in time."""


@dataclass(frozen=True)
class Toolchain:
    """A working compiler, flags for this machine, and whether OpenMP programs compile and load."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    openmp: bool


def enabled() -> bool:
    """Whether compiled code may be used; `DISTARRAY_EXECUTOR=numpy` forbids it."""
    return os.environ.get("DISTARRAY_EXECUTOR", "").lower() != "numpy"


def load(source: str, symbol: str, *, fast: bool = False) -> Any:
    """The function `symbol` of compiled C text, or None without a compiler. Local.

    Raises
    ------
    BackendError
        The text does not compile, or the cache belongs to or is writable by somebody else.
    """
    if not enabled():
        return None
    number = threads.count()
    library = _library(source, fast, number > 1)
    if library is None:
        return None
    threads.set_count(library, number)
    function = getattr(library, symbol)
    function.restype = None
    return function


@functools.cache
def _library(source: str, fast: bool, parallel: bool) -> ctypes.CDLL | None:
    tools = toolchain()
    if tools is None:
        return None
    flags = [*FLAGS, *tools.flags, *(FAST_FLAGS if fast else ())]
    if parallel and tools.openmp:
        flags.append(OPENMP_FLAG)
        threads.bind(threads.count(), functools.partial(library, C, (*tools.command, *flags)))
    return library(C, (*tools.command, *flags), source)


def library(language: Language, command: tuple[str, ...], source: str) -> ctypes.CDLL:
    """The library that a compiler, with its flags, makes of a text; from the cache if it is there.
    Local.

    Raises
    ------
    BackendError
        As `load`.
    """
    key = digest(
        _LIBRARY_VERSION, language.name, source, *_identity(command), processor.description()
    )
    return _kept(lambda folder: _entry(language, command, source, folder / f"{key}.so"))


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """What an earlier process left in the cache under a name; else what `make` makes, left there
    for others. Local.

    One process per node makes it while others wait. A damaged entry counts as absent.
    """

    def entry(folder: Path) -> bytes:
        path = folder / name
        found = _sealed(path)
        if found is None:
            with _lock(path.with_suffix(".lock")):
                found = _sealed(path)
                if found is None:
                    found = make()
                    _write(path, found + _seal(found))
        return found

    return _kept(entry)


def _kept(make: Callable[[Path], T]) -> T:
    """What `make` makes in the cache or, where that is full or unusable, in a temporary folder."""
    try:
        return make(cache_folder())
    except OSError as error:
        problem = str(error)
    if not _temporary.cache_info().currsize and _first_rank():
        warnings.warn(
            f"distarray cannot use its cache of compiled kernels ({problem}); they are kept in a "
            "temporary folder. See that its disk has room, or set DISTARRAY_CACHE to another.",
            RuntimeWarning,
            stacklevel=2,
        )
    try:
        return make(_temporary())
    except OSError as error:
        raise BackendError(
            f"Compiled kernels can be kept neither in the cache ({problem}) nor in a temporary "
            f"folder ({error}); make room, or set DISTARRAY_EXECUTOR=numpy to do without."
        ) from error


@functools.cache
def _temporary() -> Path:
    """The folder of this process for what cannot be kept; it goes with the process."""
    folder, owner = tempfile.mkdtemp(prefix="distarray-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not where a fork of this process ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    _passing.add(Path(folder))
    return Path(folder)


#: Folders that go with this process.
_passing: set[Path] = set()


def outlives_process(folder: Path) -> bool:
    """Whether what is put into the cache is there for the next process. Local."""
    return folder not in _passing


def _entry(language: Language, command: tuple[str, ...], source: str, path: Path) -> ctypes.CDLL:
    return _open(path) or _compile_once(language, command, source, path)


def _compile_once(
    language: Language, command: tuple[str, ...], source: str, path: Path
) -> ctypes.CDLL:
    """Compile under the entry's lock, unless another process did so while this one waited."""
    with _lock(path.with_suffix(".lock")):
        library = _open(path)
        if library is None:
            _compile(language, command, source, path, COMPILE_SECONDS)
            library = _open(path)
    if library is None:
        raise BackendError(
            f"The compiled kernel {path} cannot be loaded; remove it and see that its disk has "
            "room."
        )
    return library


def _compile(
    language: Language, command: tuple[str, ...], source: str, path: Path, seconds: float
) -> None:
    """Write the library for `source` with its checksum to `path`, whole or not at all.

    Raises OSError where the folder of `path`, not the text, is the reason that there is none.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as folder:
        text, built = Path(folder) / f"kernel{language.suffix}", Path(folder) / "kernel.so"
        text.write_text(source, encoding="utf-8")
        failed, output = _call([*command, "-o", str(built), str(text), "-lm"], seconds)
        if failed or not built.exists():
            (Path(folder) / "room").write_bytes(bytes(_ROOM))
            raise BackendError(
                f"The compiler {shlex.join(command[:1])} rejected generated {language.name} text: "
                f"{_first_lines(output.replace(str(text), text.name))}; set {language.variable} to "
                "another compiler, or DISTARRAY_EXECUTOR=numpy to do without."
            )
        with built.open("ab") as file:
            content = built.read_bytes()
            file.write(_seal(content))
        os.replace(built, path)


def _open(path: Path) -> ctypes.CDLL | None:
    """The library of a cache entry; None if it is absent, damaged or cannot be loaded."""
    try:
        return None if _sealed(path) is None else ctypes.CDLL(str(path))
    except OSError:
        return None


def _seal(content: bytes) -> bytes:
    """What is written behind the content of an entry, to notice damage."""
    return _TRAILER + hashlib.sha256(content).hexdigest().encode()


def _sealed(path: Path) -> bytes | None:
    """The content of a cache entry; None if it is absent or damaged."""
    try:
        content, mark, seal = path.read_bytes().rpartition(_TRAILER)
    except OSError:
        return None
    return content if mark and _seal(content) == mark + seal else None


@functools.cache
def toolchain(language: Language = C) -> Toolchain | None:
    """The first that works of the compilers of a language; for C of $CC, cc, gcc, clang and the
    ziglang wheel. None, with a warning, if none does. Local.
    """
    for command in _candidates(language):
        found = _kept(functools.partial(_remembered, language, command))
        if found is not None:
            if language.tuned and threads.count() > 1 and not found.openmp:
                _note(
                    f"distarray: the compiler {found.command[0]} has no OpenMP; kernels use one "
                    "thread."
                )
            return found
    if _first_rank():
        names = ", ".join((language.variable, *language.compilers, "ziglang"))
        warnings.warn(
            f"distarray found no {language.name} compiler ({names}); kernels run as NumPy, "
            "many times slower. Install one, or the extra compiler (in a clone: pip install "
            "'.[compiler]').",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def _candidates(language: Language) -> Iterator[tuple[str, ...]]:
    for name in (_chosen(language), *([name] for name in language.compilers)):
        if name and (path := shutil.which(name[0])):
            yield (path, *name[1:])
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", language.zig, "-fno-sanitize=undefined")


def _chosen(language: Language) -> list[str]:
    """The words of $CC or its like."""
    text = os.environ.get(language.variable, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        _note(f"distarray: {language.variable}={text} is no command ({error}) and is passed over.")
        return []


def _remembered(language: Language, command: tuple[str, ...], folder: Path) -> Toolchain | None:
    """What was found out about a compiler, now or by an earlier process."""
    key = digest(_LIBRARY_VERSION, language.name, *_identity(command), processor.description())
    path = folder / f"compiler-{key}.json"
    known = _recalled(path, command)
    if known is not None:
        return known
    with _lock(path.with_suffix(".lock")):
        return _recalled(path, command) or _found_out(language, command, path)


def _recalled(path: Path, command: tuple[str, ...]) -> Toolchain | None:
    with (
        contextlib.suppress(OSError, ValueError, TypeError, KeyError),
        path.open(encoding="utf-8") as file,
    ):
        known = json.load(file)
        if tuple(known["command"]) == command:
            return Toolchain(command, tuple(known["flags"]), bool(known["openmp"]))
    return None


def _found_out(language: Language, command: tuple[str, ...], path: Path) -> Toolchain | None:
    """Examine a compiler and write to `path` what it can; a note of its own if it never ends."""
    silence = path.with_suffix(".silent")
    with contextlib.suppress(OSError):
        if abs(time.time() - silence.stat().st_mtime) < SILENCE_SECONDS:
            return None
    try:
        found = _examine(language, command, path.parent)
    except _SilentError:
        silence.touch()
        _note(f"distarray: the compiler {shlex.join(command)} does not end and is passed over.")
        return None
    if found is not None:
        _write(path, json.dumps(asdict(found)).encode())
    return found


def _examine(language: Language, command: tuple[str, ...], folder: Path) -> Toolchain | None:
    """Try a compiler and the flags it may lack."""

    def works(*flags: str) -> bool:
        return _works(language, (*command, *language.flags, *flags), folder)

    if not works():
        return None
    if not language.tuned:
        return Toolchain(command, (), False)
    native = [flag for flag in NATIVE_FLAGS if works(flag)][:1]
    flags = (*native, *(flag for flag in SIMD_FLAGS if works(*native, flag)))
    return Toolchain(command, flags, works(*flags, OPENMP_FLAG))


def _works(language: Language, command: tuple[str, ...], parent: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=parent, prefix=".trial-") as folder:
        path = Path(folder) / "trial.so"
        try:
            _compile(language, command, language.trial, path, TRIAL_SECONDS)
        except _SilentError:
            raise
        except BackendError:
            return False
        return _open(path) is not None


def _call(command: list[str], seconds: float) -> tuple[bool, str]:
    """Whether a compiler failed, and what it wrote. It is ended, with its children, if too slow."""
    try:
        process = subprocess.Popen(
            command,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return True, str(error)
    try:
        _, output = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise _SilentError(
            f"The compiler {shlex.join(command[:1])} did not end within {seconds:.0f} s; set CC to "
            "another compiler, or DISTARRAY_EXECUTOR=numpy to do without."
        ) from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode != 0, output


def cache_folder() -> Path:
    """The user's folder for compiled kernels, made when first needed. Local.

    `$DISTARRAY_CACHE`, else `distarray` in `$XDG_CACHE_HOME` or `~/.cache`; where that cannot be
    written, a temporary folder of this process.

    Raises
    ------
    BackendError
        Others own the folder or may write to it.
    """
    chosen = os.environ.get("DISTARRAY_CACHE")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        chosen = str(Path(base) / "distarray")
    return _checked(os.path.abspath(chosen))


@functools.cache
def _checked(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    if not usable:
        return _temporary()
    status = folder.stat()
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise BackendError(
            f"The kernel cache {folder} is owned or writable by others (owner {status.st_uid}, "
            f"mode {stat.S_IMODE(status.st_mode):04o}); make it yours alone with chmod 700, or set "
            "DISTARRAY_CACHE."
        )
    return folder


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a file lock; where locks do not exist, renaming alone keeps entries whole."""
    import fcntl  # absent on some systems

    with path.open("a", encoding="utf-8") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with open(handle, "wb") as file:
        file.write(content)
    os.replace(name, path)


def _identity(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command and, to notice an upgrade, its file's size and time; no process is started."""
    program = os.path.realpath(command[0])
    status = os.stat(program)
    version = ""
    if "ziglang" in command:
        from importlib.metadata import version as version_of

        version = version_of("ziglang")
    return (*command, program, str(status.st_size), str(status.st_mtime_ns), version)


def digest(*parts: str) -> str:
    """A name for a cache entry that depends on these. Local."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _first_lines(output: str, count: int = 5) -> str:
    return " | ".join(output.strip().splitlines()[:count]) or "no message"


def _first_rank() -> bool:
    """Whether this process is the one to speak, as far as the launcher's variables say."""
    found = launched()
    return found is None or found.rank == 0


def _note(text: str) -> None:
    if _first_rank():
        sys.stderr.write(text + "\n")
