"""Every error a user can meet, under one base.

A message is one sentence: the subject, the rule, the value received and the cure. It is the same on
all ranks.
"""

from __future__ import annotations

import errno
import os
from typing import Any

_LONGEST = 60
_CURE = "check the path, its folder and the free space."
_ROOM = "free some space there, or choose another folder."
_CURES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "choose a folder that takes larger files, or raise the limit (ulimit -f).",
}


def shown(value: Any) -> str:
    """What a message says of a value that a user gave: the same on all ranks. Local.

    Numbers, texts and small sequences of them as they are written; of anything else its type, since
    how it is written may name an address.
    """
    if _is_plain(value):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    name = type(value).__name__
    if name == "ndarray":
        return f"an array of {value.dtype}"
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | complex | str | bytes | None)


def system_text(error: OSError) -> str:
    """What an error of the operating system says, without the numbers and addresses that HDF5 adds,
    and what can be done.
    """
    if not error.errno:
        return f"{error.strerror or clause(error)}."
    return f"{os.strerror(error.errno)}; {_CURES.get(error.errno, _CURE)}"


def clause(error: Exception) -> str:
    """What an error says, on one line and without its full stop, to be part of a sentence."""
    try:
        return " ".join(str(error).split()).rstrip(".")
    except Exception:  # an error of a user's class that cannot be written must not stop a rank
        return "without a text"


class DistArrayError(Exception):
    """Base of all errors raised by the package."""


class DecompositionError(DistArrayError, ValueError):
    """A shape cannot be divided over the requested ranks."""


class GridError(DistArrayError, ValueError):
    """A grid or an array on it was described wrongly: bounds, location, components, positions."""


class ArrayError(DistArrayError, ValueError):
    """Values or shapes do not fit an array, or arrays do not fit each other."""


class IndexingError(DistArrayError, IndexError):
    """An index is outside the array or of a kind that is not supported."""


class UnsupportedError(DistArrayError, TypeError):
    """A NumPy function, index or type has no distributed form here."""


class StencilError(DistArrayError, TypeError):
    """A stencil kernel breaks a rule of the language; the message names the kernel, the line and
    the cure.
    """


class BoundaryError(DistArrayError, ValueError):
    """A boundary condition is misplaced or its values do not fit the face."""


class CommunicationError(DistArrayError, RuntimeError):
    """The launcher, the MPI library or another rank prevents communication."""


class BackendError(DistArrayError, RuntimeError):
    """A device or its compiler cannot be used."""


class RaceError(BackendError):
    """Two pieces of work touch the same memory, one of them writes, and nothing orders them."""


class FileError(DistArrayError, OSError):
    """A file is missing, damaged, or does not fit the grid."""


class SolverError(DistArrayError, RuntimeError):
    """A solver was configured wrongly or its state is no longer finite."""
