"""Choices that `python -m distarray tune` keeps for a machine, in the user's cache.

A file belongs to a host, its processor, an MPI library and a number of ranks, as its name and its
content say. It is data, read as JSON and checked entry by entry, in the folder of the compiled
kernels, which is the user's alone. One that is damaged or says something else is ignored with one
line. Rank 0 reads it, once for each communicator, and tells the others: no rank decides for itself.
DISTARRAY_TUNING=0 has none used.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from distarray.backends import native, processor
from distarray.comm import loaded_mpi
from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.errors import BackendError, DecompositionError
from distarray.progress import tell_once

#: Of the format; others are not read.
VERSION = 1
_VARIABLE = "DISTARRAY_TUNING"
_TRANSPORTS = ("nccl", "device", "staged", "host")

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class TileChoice:
    """How many steps are made at a time in loops like this one.

    Attributes
    ----------
    shape, periodic, ranks : one entry per axis
        Of the grid, and its process grid.
    dtype : str
        Of the rotating arrays.
    step : str
        Digest of the kernels of a step; see `tuning.steps.case_of`.
    tile : int
    """

    shape: Numbers
    periodic: tuple[bool, ...]
    ranks: Numbers
    dtype: str
    step: str
    tile: int


@dataclass(frozen=True)
class GridChoice:
    """The process grid of grids of this shape."""

    device: str
    shape: Numbers
    periodic: tuple[bool, ...]
    ranks: Numbers


@dataclass(frozen=True)
class TransportChoice:
    """How messages between these devices travel."""

    device: str
    transport: str


@dataclass(frozen=True)
class Choices:
    """All that is kept for one machine and number of ranks."""

    tiles: tuple[TileChoice, ...] = ()
    grids: tuple[GridChoice, ...] = ()
    transports: tuple[TransportChoice, ...] = ()

    def __len__(self) -> int:
        return len(self.tiles) + len(self.grids) + len(self.transports)

    def merged(self, other: Choices) -> Choices:
        """These, with those of `other` in place of the ones for the same case."""
        return Choices(
            _merged(self.tiles, other.tiles, "tile"),
            _merged(self.grids, other.grids, "ranks"),
            _merged(self.transports, other.transports, "transport"),
        )


def _merged(old: Sequence[Any], new: Sequence[Any], answer: str) -> tuple[Any, ...]:
    kept = {_case(choice, answer): choice for choice in (*old, *new)}
    return tuple(kept.values())


def _case(choice: Any, answer: str) -> Any:
    """All of a choice but what it says."""
    return tuple(item for item in asdict(choice).items() if item[0] != answer)


# ---- the machine and its file


@dataclass(frozen=True)
class Machine:
    """What choices are kept for. `threads` is what OMP_NUM_THREADS says."""

    host: str
    processor: str
    mpi: str
    ranks: int
    threads: str

    @property
    def file(self) -> str:
        """Name of the file in the cache."""
        parts = (str(VERSION), *map(str, asdict(self).values()))
        return f"tuning-{native.digest(*parts)}.json"


def this_machine(ranks: int) -> Machine:
    """The machine of this process, with so many ranks. Local."""
    mpi = loaded_mpi() if ranks > 1 else None
    library = "none" if mpi is None else mpi.library_name()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return Machine(platform.node(), processor.model(), library, ranks, threads)


def read(machine: Machine) -> Choices:
    """The choices kept for a machine; none, and a line that says why, where the file is damaged or
    of another machine. Local.
    """
    try:
        path = native.cache_folder() / machine.file
        content = path.read_bytes()
    except (BackendError, OSError):
        return Choices()
    try:
        return _parsed(content, machine)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        tell_once(f"{path} is not used: {why}; `python -m distarray tune` writes it anew.")
        return Choices()


def write(machine: Machine, choices: Choices) -> str:
    """Add choices to those kept for a machine; gives the file. Local; by one rank.

    Raises
    ------
    BackendError
        The cache cannot be written, or belongs to or is writable by somebody else.
    """
    kept = asdict(read(machine).merged(choices))
    content = {"version": VERSION, "machine": asdict(machine), "digest": _digest(kept), **kept}
    folder = native.cache_folder()
    path = folder / machine.file
    if not native.outlives_process(folder):
        raise BackendError(
            "The choice cannot be kept: the user's cache cannot be written; set DISTARRAY_CACHE to "
            "a folder that can."
        )
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=folder)
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise BackendError(
            f"The file {path} cannot be written: {error.strerror}; make room, or set "
            "DISTARRAY_CACHE to another folder."
        ) from error
    return str(path)


def _digest(kept: dict[str, Any]) -> str:
    """By which damage is noticed."""
    return native.digest(json.dumps(kept, sort_keys=True))


def _parsed(content: bytes, machine: Machine) -> Choices:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is damaged") from None
    if not isinstance(found, dict):
        raise ValueError("it is damaged")
    if found["version"] != VERSION:
        raise ValueError(f"it has format {found['version']!r}, not {VERSION}")
    if found["machine"] != asdict(machine):
        raise ValueError("it is of another machine")
    if found["digest"] != _digest({name: found[name] for name in ("tiles", "grids", "transports")}):
        raise ValueError("it is damaged")
    return Choices(
        tuple(map(_tile, found["tiles"])),
        tuple(map(_grid, found["grids"])),
        tuple(map(_transport, found["transports"])),
    )


def _tile(entry: dict[str, Any]) -> TileChoice:
    texts = (_text(entry["dtype"]), _text(entry["step"]))
    return TileChoice(*_placed(entry), *texts, *_positive([entry["tile"]]))


def _grid(entry: dict[str, Any]) -> GridChoice:
    return GridChoice(_text(entry["device"]), *_placed(entry))


def _transport(entry: dict[str, Any]) -> TransportChoice:
    if entry["transport"] not in _TRANSPORTS:
        raise ValueError(f"it names a transport {entry['transport']!r}")
    return TransportChoice(_text(entry["device"]), _text(entry["transport"]))


def _placed(entry: dict[str, Any]) -> tuple[Numbers, tuple[bool, ...], Numbers]:
    """Shape, periodic and process grid, of one number per axis."""
    shape, ranks = _positive(entry["shape"]), _positive(entry["ranks"])
    periodic = entry["periodic"]
    if not all(isinstance(wraps, bool) for wraps in periodic):
        raise ValueError(f"it holds {periodic!r} where True and False were expected")
    if not len(shape) == len(ranks) == len(periodic):
        raise ValueError("an entry of it has other numbers of axes here than there")
    return shape, tuple(periodic), ranks


def _positive(values: Sequence[Any]) -> Numbers:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"it holds {value!r} where a number from 1 was expected")
    return tuple(values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it holds {value!r} where a text was expected")
    return value


# ---- what is used, agreed over all ranks

#: The choices of each communicator, the same on all of its ranks.
_known: weakref.WeakKeyDictionary[Communicator, Choices] = weakref.WeakKeyDictionary()
#: What was chosen by measuring in this process, in the words of `used`.
_used: dict[str, None] = {}


def enabled() -> bool:
    """Whether this process may use what is kept. Local; rank 0 decides for all."""
    return os.environ.get(_VARIABLE, "1") not in ("0", "off", "no")


def choices(communicator: Communicator) -> Choices:
    """The choices for these ranks. Collective, the first time; Local from then on."""
    found = _known.get(communicator)
    if found is None:
        mine = Choices()
        if communicator.rank == 0 and enabled():
            mine = read(this_machine(communicator.size))
        found = _known[communicator] = communicator.bcast(mine)
    return found


def forget() -> None:
    """Read files again when next asked. Local, on all ranks together."""
    _known.clear()
    _used.clear()


def used() -> tuple[str, ...]:
    """What this process does as measurements chose, stored ones or its own trials, such as "tile 8
    for heat" and "tile 4 for wave, by a trial". Local.
    """
    return tuple(_used)


def process_grid(
    communicator: Communicator,
    device: str,
    shape: Numbers,
    periodic: tuple[bool, ...],
    halo: Numbers,
) -> Numbers | None:
    """The process grid kept for a shape; None for none whose blocks are wide enough. As `choices`.

    All ranks of the communicator ask, also those that are given a process grid.
    """
    if communicator.size == 1:
        return None
    for choice in choices(communicator).grids:
        if (choice.device, choice.shape, choice.periodic) == (device, shape, periodic):
            return choice.ranks if _fits(choice, communicator.size, halo) else None
    return None


def _fits(choice: GridChoice, size: int, halo: Numbers) -> bool:
    try:
        decomposition = Decomposition(
            choice.shape, choice.ranks, periodic=choice.periodic, halo=halo
        )
    except DecompositionError:
        return False
    return decomposition.size == size


def transport(communicator: Communicator, device: str) -> str | None:
    """The transport kept for a device. As `choices`."""
    for choice in choices(communicator).transports:
        if choice.device == device:
            return choice.transport
    return None


def tile(communicator: Communicator, case: TileChoice) -> int | None:
    """The number of steps kept for a loop, whose `tile` does not matter. Collective if `choices`
    has any for loops.
    """
    kept = choices(communicator).tiles
    if not kept:
        return None
    found = [choice.tile for choice in kept if replace(choice, tile=case.tile) == case]
    # Kernels should be the same on all ranks; if they are not, this still is.
    agreed: int | None = communicator.bcast(found[0] if found else None)
    return agreed


def note(text: str) -> None:
    """Remember, for reports, what is done as a measurement chose. Local."""
    _used[text] = None
