"""A named flow of the command line, and what the command line says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import distarray as da
from solvers.box import require_cells

#: What cases read whose solvers have no schemes named "advection".
RUNS = ("until", "every", "tensorboard", "checkpoint", "restart")


@dataclass(frozen=True)
class Options:
    """What a case is run with; None leaves a choice to the case.

    `number` is the Reynolds number, or what else `Case.number_name` says. `checkpoint` is the
    number of steps between checkpoints in the folder `checkpoints` of the output, 0 for none.
    `restart` names a file to go on from; True stands for the newest checkpoint. `chosen` holds what
    was picked of each of `Case.choices`.
    """

    cells: tuple[int, ...]
    output: Path
    number: float = 100.0
    until: float | None = None
    every: int = 0
    tensorboard: bool = False
    advection: Literal["central", "upwind", "weno"] = "central"
    checkpoint: int = 0
    restart: Path | bool = False
    device: str = "auto"
    chosen: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_cells(self.cells)


@dataclass(frozen=True)
class Choice:
    """An option of one case that takes one of several names."""

    name: str
    names: tuple[str, ...]
    default: str
    help: str


@dataclass(frozen=True)
class Case:
    """A flow with a name: what it is, its default cells, what runs it, and the number that says
    what kind of flow it is: its default, its option on the command line, and what that means; no
    `number_name` where there is no such number. `choices` are options of this case alone.

    `reads` names the attributes of `Options` that it has a use for, besides `cells`, `output`,
    `number` and `device`, which all cases read: the command line offers no others.
    """

    name: str
    summary: str
    cells: tuple[int, ...]
    run: Callable[[Options], None]
    number: float = 100.0
    number_name: str = "reynolds"
    number_help: str = "Reynolds number"
    reads: tuple[str, ...] = ("until", "every", "tensorboard", "advection", "checkpoint", "restart")
    choices: tuple[Choice, ...] = ()

    def chosen(self, **names: str) -> dict[str, str]:
        """What `Options.chosen` holds if a user names these choices and leaves the others."""
        return {choice.name: choice.default for choice in self.choices} | names


def require_axes(options: Options, *allowed: int) -> None:
    """An error unless the cells are along as many axes as a case has. Local."""
    if len(options.cells) not in allowed:
        axes = "axis" if allowed == (1,) else "axes"
        raise da.SolverError(
            f"This case has {' or '.join(map(str, allowed))} {axes}, received --cells "
            f"{' '.join(map(str, options.cells))}; give a number for each."
        )
