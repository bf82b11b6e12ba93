"""Options that commands about kernels have in common, and how they refuse wrong ones."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from distarray import arguments
from distarray.comm.base import Communicator
from distarray.errors import GridError
from distarray.tuning.kernels import NAMED


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a kernel and what it runs on. Local."""
    add = parser.add_argument
    names = ", ".join(NAMED)
    add(
        "--kernel", default="heat", metavar="NAME",
        help=f"{names}, or MODULE:KERNEL (default: heat)",
    )  # fmt: skip
    add(
        "--scalar", action="append", default=[], metavar="NAME=VALUE",
        help="value of a scalar of MODULE:KERNEL; may be repeated",
    )  # fmt: skip
    add(
        "--rotate", type=int, nargs="+", default=[], metavar="N",
        help="how the arrays of MODULE:KERNEL change places after a step, as `rotate` of iterate",
    )  # fmt: skip
    add("--dtype", default="float64", metavar="TYPE", help="element type (default: float64)")


def element_type(text: str) -> np.dtype[Any]:
    """The type that --dtype names. Local.

    Raises
    ------
    GridError
        It names none.
    """
    try:
        return np.dtype(text)
    except TypeError:
        raise GridError(f"--dtype {text} is no element type; use float64 or float32.") from None


def refuse(command: str, communicator: Communicator, text: str, code: int) -> int:
    """Print on rank 0, whose exit code is that of the job: others must not end it before. Gives
    the exit code of this rank. Local.
    """
    if communicator.rank:
        return 0
    print(f"python -m distarray {command}: {text}", file=sys.stderr)
    return code


def unwritable(communicator: Communicator, path: Path | None) -> str:
    """Why the file that --json names, if any, cannot be written, as rank 0 finds before anything is
    measured; else nothing. Collective.
    """
    if path is None:
        return ""
    reason: str = communicator.bcast("" if communicator.rank else arguments.unwritable(path))
    return reason and _unwritten(path, reason)


def _unwritten(path: Path, reason: str | None) -> str:
    return f"The file {path} cannot be written: {reason}; give --json another."


def write_json(command: str, communicator: Communicator, path: Path | None, content: Any) -> int:
    """Write what --json asks for, if anything; gives the exit code, 1 with a line where that is
    impossible. Local; by rank 0.
    """
    if path is None:
        return 0
    try:
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        return refuse(command, communicator, _unwritten(path, error.strerror), 1)
    return 0
