"""The command on two ranks, which it starts itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from distarray.errors import CommunicationError
from distarray.launcher import child_environment, mpirun


def on_two_ranks(
    arguments: Sequence[str], *, stderr: int | None = None
) -> subprocess.CompletedProcess[str]:
    """What `python -m distarray bench` with these arguments prints and ends with on two ranks,
    started by the mpirun beside this Python or on the path. Local.

    Raises
    ------
    CommunicationError
        There is no such program, or it cannot be started.
    """
    launcher = mpirun()
    command = [launcher, "-n", "2", sys.executable, "-m", "distarray", "bench", *arguments]
    try:
        process = subprocess.Popen(
            command, env=child_environment(), stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    except OSError as error:
        raise CommunicationError(
            f"bench cannot start two ranks with {launcher} ({error}); "
            "install the extra mpi (in a clone: pip install '.[mpi]')."
        ) from None
    try:
        out, err = process.communicate()
    except BaseException:
        process.terminate()  # and mpirun ends its ranks
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
