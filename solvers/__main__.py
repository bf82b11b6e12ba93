"""`python -m solvers list` and `mpirun -n 8 python -m solvers CASE --cells 64 64 --output DIR`."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # A signal waits until there is a handler that has a checkpoint written; what is imported next
    # takes a while.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import distarray as da
from distarray import programs
from solvers.advection.cases import CASES as ADVECTION
from solvers.burgers.cases import CASES as BURGERS
from solvers.case import Case, Options
from solvers.diffusion.cases import CASES as DIFFUSION
from solvers.euler.cases import CASES as COMPRESSIBLE
from solvers.incompressible.cases import CASES as FLOWS
from solvers.lbm.cases import CASES as LATTICE
from solvers.poisson.cases import CASES as POISSON
from solvers.shallow_water.cases import CASES as SHALLOW_WATER
from solvers.wave.cases import CASES as WAVES

CASES: tuple[Case, ...] = (
    *FLOWS,
    *POISSON,
    *LATTICE,
    *DIFFUSION,
    *WAVES,
    *SHALLOW_WATER,
    *ADVECTION,
    *BURGERS,
    *COMPRESSIBLE,
)

#: Options of the command line that not all cases read, by their attributes of `case.Options`.
SOME: dict[str, dict[str, Any]] = {
    "until": {
        "type": float,
        "metavar": "T",
        "help": "time to reach (default: the time of the comparison, or until the flow is steady)",
    },
    "every": {
        "type": int,
        "default": 0,
        "metavar": "STEPS",
        "help": "steps between files (default: none)",
    },
    "tensorboard": {
        "action": "store_true",
        "help": "write the scalars of outputs as curves for TensorBoard too",
    },
    "advection": {
        "choices": ("central", "upwind", "weno"),
        "default": "central",
        "help": "how momentum is carried (default: %(default)s)",
    },
    "checkpoint": {
        "type": int,
        "default": 0,
        "metavar": "STEPS",
        "help": "steps between checkpoints, the last two of which are kept (default: none)",
    },
    "restart": {
        "type": Path,
        "nargs": "?",
        "const": True,
        "default": False,
        "metavar": "FILE",
        "help": "continue from a file, or from the newest checkpoint if there is one",
    },
}

#: What a user's options and files can cause, on all ranks alike.
REFUSALS = (
    da.SolverError,
    da.FileError,
    da.DecompositionError,
    da.GridError,
    da.BoundaryError,
    da.BackendError,
    da.UnsupportedError,
)


def main(arguments: Sequence[str] | None = None, *, last: bool = False) -> int:
    """Run the case named on the command line, or list all; the exit code. Collective.

    What is refused is said in one line on standard error, by rank 0, and the code is 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    last : bool
        Whether the process ends after this: signals that were held at its start are received here,
        and a late one does not change the exit code of a run that is to write checkpoints.

    Raises
    ------
    SystemExit
        With code 2 when the command line is wrong; with code 75 after SIGTERM or SIGUSR1 before the
        last steps, when checkpoints are written: one was, and the same command with --restart goes
        on from there. After a later signal, all is written and the code is 0.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] == "bench":
        from solvers import bench  # with all that it measures

        _receive_signals(last)
        return bench.main(given[1:])
    chosen = _parser().read(given)
    if chosen.case == "list":
        _list()
        return 0
    case = next(case for case in CASES if case.name == chosen.case)
    writes = bool(getattr(chosen, "checkpoint", 0))
    with programs.noting(last=last) if writes else contextlib.nullcontext():
        _receive_signals(last)
        try:
            case.run(_options(case, chosen))
        except REFUSALS as error:
            with contextlib.redirect_stdout(sys.stderr):
                da.log(f"python -m solvers {case.name}: {error}")
            return 2
    return 0


def _receive_signals(held: bool) -> None:
    """Also those that came since the process began. Local."""
    if held:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, programs.SIGNALS)


def _parser() -> programs.Parser:
    parser = programs.Parser(
        prog="python -m solvers",
        description="Run a flow or solve a problem, and compare it with what is known of it.",
        epilog="python -m solvers CASE --help names the options of a case.",
        where="python -m solvers list names all.",
    )
    commands = parser.add_subparsers(dest="case", required=True, metavar="CASE")
    listing = commands.add_parser("list", help="name all cases")
    listing.set_defaults(parser=listing)
    commands.add_parser("bench", help="measure solvers beside C written by hand")
    for case in CASES:
        _add_case(commands.add_parser(case.name, help=case.summary, description=case.summary), case)
    return parser


def _add_case(parser: argparse.ArgumentParser, case: Case) -> None:
    axes = "1 axis" if len(case.cells) == 1 else f"{len(case.cells)} axes"
    cells = " ".join(map(str, case.cells))
    parser.set_defaults(parser=parser)
    parser.add_argument(
        "--cells", type=int, nargs="+", default=case.cells, metavar="N",
        help=f"cells along each axis; one number is for {axes} (default: {cells})",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, default=Path(case.name), metavar="DIR",
        help="folder for files (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(number=case.number)
    if case.number_name:
        parser.add_argument(
            f"--{case.number_name}", type=float, default=case.number, metavar="N", dest="number",
            help=f"{case.number_help} (default: %(default)s)",
        )  # fmt: skip
    for choice in case.choices:
        parser.add_argument(
            f"--{choice.name}", choices=choice.names, default=choice.default,
            help=f"{choice.help} (default: %(default)s)",
        )  # fmt: skip
    for name in case.reads:
        parser.add_argument(f"--{name}", **SOME[name])
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda", "simulated"), default="auto",
        help="where fields live and kernels run (default: a GPU if there is one)",
    )  # fmt: skip


def _options(case: Case, chosen: argparse.Namespace) -> Options:
    cells = tuple(chosen.cells)
    if getattr(chosen, "tensorboard", False) and not chosen.every:
        raise da.SolverError(
            "--tensorboard writes the scalars of outputs, and there are none; give the steps "
            "between them by --every STEPS."
        )
    return Options(
        cells=cells * len(case.cells) if len(cells) == 1 else cells,
        output=chosen.output,
        number=chosen.number,
        device=chosen.device,
        chosen={choice.name: getattr(chosen, choice.name) for choice in case.choices},
        **{name: getattr(chosen, name) for name in case.reads},
    )


def _list() -> None:
    width = max(len(case.name) for case in CASES)
    for case in CASES:
        da.log(f"{case.name:<{width}}  {case.summary}")


if __name__ == "__main__":
    # Not by sys.exit, of which distarray takes a code other than 0 for the failure of one rank.
    raise SystemExit(main(last=True))
