"""Options that commands about kernels have in common, and how they refuse wrong ones."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from distarray.comm.base import Communicator
from distarray.errors import GridError
from distarray.tuning.kernels import NAMED


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a kernel and what it runs on. Local."""
    add = parser.add_argument
    names = ", ".join(NAMED)
    add("--kernel", default="heat", help=f"{names}, or MODULE:KERNEL (default: heat)")
    add("--scalar", action="append", default=[], metavar="NAME=VALUE", help="of the kernel")
    add("--rotate", type=int, nargs="+", default=[], metavar="N", help="as in iterate")
    add("--dtype", default="float64", help="element type (default: float64)")


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
