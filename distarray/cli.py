"""The command line: `python -m distarray COMMAND`.

A command is a module with `configure(parser)` and `run(options) -> int`, imported when it is used;
its docstring is the help. Exit codes: 0 all is well, 1 something is wrong, 2 the command line is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from distarray.programs import Parser, is_first, no_such

#: Command, its module and what it does.
COMMANDS = {
    "doctor": (
        "distarray.doctor",
        "say what this machine offers and whether the package works on it",
    ),
    "bench": ("distarray.bench.command", "measure the package beside hand-written loops"),
    "tune": ("distarray.tuning.command", "time ways to run a loop and keep the fastest for auto"),
    "model": (
        "distarray.model.command",
        "predict steps on up to 10,000 GPUs, or compare predictions with this machine",
    ),
    "view": ("distarray.view", "say what is in a file, verify it, draw a part of it"),
}


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Collective under a launcher.

    Raises
    ------
    SystemExit
        With code 2 when the command line is wrong, with code 0 after `--help`.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return _without_command(arguments)
    name, *rest = arguments
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(prog=f"python -m distarray {name}", description=module.__doc__)
    module.configure(parser)
    return int(module.run(parser.read(rest)))


def _without_command(arguments: Sequence[str]) -> int:
    """Print the usage on rank 0, whose code alone says that the command line is wrong."""
    asked = bool(arguments) and arguments[0] in ("-h", "--help", "help")
    if is_first():
        if arguments and not asked:
            text = no_such(arguments[0], "command", COMMANDS, "Use one of those below.")
            print(f"python -m distarray: {text}", file=sys.stderr)
        print(_usage(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    # A launcher ends the job at the first code other than 0, maybe before rank 0 has printed; the
    # code of the job is that of rank 0.
    return 0


def _usage() -> str:
    lines = [f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: python -m distarray COMMAND [OPTIONS]", "", "commands:", *lines])
