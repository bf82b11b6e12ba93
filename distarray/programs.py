"""What programs with a command line have in common: help and errors, printed once for all ranks,
and signals that are noted from start to end.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, NoReturn

from distarray import launcher
from distarray.io.preemption import SIGNALS, noting

__all__ = ["SIGNALS", "Parser", "is_first", "no_such", "noting"]


def is_first() -> bool:
    """Whether this is rank 0, or no launcher started it. Local; loads no MPI."""
    launch = launcher.launched(os.environ)
    return launch is None or launch.rank == 0


def no_such(name: str, kind: str, names: Iterable[str], where: str) -> str:
    """That there is none of this name, the nearest there is, and where all are named. Pure."""
    near = difflib.get_close_matches(name, list(names), 1)
    return f"{name!r} is no {kind}; " + (f"did you mean {near[0]!r}? " if near else "") + where


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors rank 0 prints. The code of the job is its code: a launcher
    ends the job at the first that is not 0, so that others leave with 0, lest it is not printed.

    Parameters
    ----------
    where : str
        Ends the error about a name of a subcommand that there is not: where all are named.
    """

    def __init__(self, *args: Any, where: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._where = where

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """What the arguments say. An error about unknown ones shows the usage of the subcommand,
        which is to be found in its defaults as `parser`, and the nearest option. Local.

        Raises
        ------
        SystemExit
            The arguments are wrong, or asked for help.
        """
        chosen, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: Parser = getattr(chosen, "parser", self)
            text = f"unrecognized arguments: {' '.join(unknown)}"
            name = next((each for each in unknown if each.startswith("--")), "").split("=")[0]
            options = [each[2:] for each in parser._option_string_actions if each.startswith("--")]
            near = difflib.get_close_matches(name[2:], options, 1)
            parser.error(f"{text}; did you mean --{near[0]}?" if near else text)
        return chosen

    def print_usage(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """By rank 0. Local."""
        if is_first():
            super().print_usage(file)

    def print_help(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """By rank 0. Local."""
        if is_first():
            super().print_help(file)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Not by sys.exit, of which the package takes a code other than 0 for a rank's failure."""
        if is_first() and message:
            sys.stderr.write(message)
        raise SystemExit(status if is_first() else 0)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Called by argparse for options with choices and for subcommands."""
        if action.choices is None or value in action.choices:
            return
        names = [str(name) for name in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self.error(no_such(str(value), str(action.metavar).lower(), names, self._where))
        where = f"use {', '.join(names)}"
        raise argparse.ArgumentError(action, no_such(str(value), "choice", names, where))
