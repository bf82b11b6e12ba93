"""Measures the package beside loops written by hand, in one run: `python -m distarray bench`.

    command       the options; one rank, then two that mpirun starts; the table and its JSON
    table         a row: what is timed, its median, what stands beside it, the ratio and its gate
    timing        actions timed in turn, on pinned ranks, medians
    two_ranks     the command started on two ranks
    loops         the C loops (`loops.c`), compiled as kernels are
    heat, wave, expressions, exchange, sums, movement, files, overhead, timeline
                  the parts: what is timed, and beside what

The two sides of a ratio are timed in turn, so that other programs on the machine slow both. Started
alone, the command measures one rank, then starts two with mpirun; started by mpirun, it measures
the ranks of that job. A name of a part, such as `bench heat exchange`, leaves out the others.
"""

from distarray.bench.command import configure, run

__all__ = ["configure", "run"]
