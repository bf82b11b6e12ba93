"""What measurements beside C written by hand share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import distarray as da


def compiled(text: str, name: str, *arguments: Any, result: Any = None) -> Any:
    """A function of a C text, compiled as the library compiles kernels; `arguments` and `result`
    are types of ctypes. For programs of one rank.

    Raises
    ------
    BackendError
        No C compiler.
    """
    function = da.Grid((1,), device="cpu").backend.load(text, name)
    if function is None:
        raise da.BackendError("The bench needs a C compiler; install gcc or clang.")
    function.argtypes, function.restype = arguments, result
    return function


def unwritable(path: Path) -> str:
    """Why a file cannot be written, as the system says, or nothing; it is left as it is. Local."""
    known = path.exists()
    try:
        with path.open("a"):
            pass
        if not known:
            path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def load_line() -> str:
    """How busy the machine is. Local."""
    return f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores"
