"""What does not shrink with the number of cells: the call of a kernel, and the import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from distarray.bench.heat import diffuse, fields
from distarray.bench.table import Row
from distarray.bench.timing import Sizes, in_turn
from distarray.comm import Communicator
from distarray.launcher import child_environment

_CELLS = 16


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """A small kernel; on one rank the import too. Collective."""
    size, (u, new) = communicator.size, fields((_CELLS,) * 3, communicator)

    def pair() -> None:
        diffuse(u, new, r=0.1)
        diffuse(new, u, r=0.1)

    calls = 5 * sizes.steps
    call = in_turn(communicator, sizes.repeat, {"call": pair}, calls=calls)["call"] / 2
    gate = 40e-6 if size == 1 else 100e-6
    yield Row("overhead", f"kernel(u, new, r=0.1) at {_CELLS}^3, periodic", size, call, gate=gate)
    if size == 1:
        acts = {"plain": lambda: _python("pass"), "ours": lambda: _python("import distarray")}
        found = in_turn(communicator, sizes.repeat, acts)
        seconds = max(0.0, found["ours"] - found["plain"])
        yield Row("overhead", "import distarray, over plain Python", 1, seconds, gate=0.35)


def _python(text: str) -> None:
    subprocess.run([sys.executable, "-c", text], check=True, env=child_environment())
