"""A new division of an array among ranks, beside NumPy's packing and one `Alltoallv` of mpi4py; and
an assignment from one array to another beside a copy in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from distarray.arraylike import HostArray
from distarray.bench.heat import fields
from distarray.bench.loops import copies
from distarray.bench.table import Row
from distarray.bench.timing import Act, Sizes, in_turn
from distarray.comm import Communicator
from distarray.decomposition import Decomposition
from distarray.grid import Grid


def copy(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """One array into another: the bandwidth that everything else is held against. Collective."""
    n = sizes.cells
    u, v = fields((n, n, n), communicator)

    def assign() -> None:
        v[...] = u

    acts: dict[str, Act] = {"ours": assign, "beside": copies(u.block.owned.size)}
    found = in_turn(communicator, sizes.repeat, acts)
    what = f"v[...] = u, {n}^3, copy in C"
    yield Row("copy", what, communicator.size, found["ours"], found["beside"], nbytes=16 * n**3)


def redistribute(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """From slabs along the first axis to slabs along the second. Collective."""
    n, size = sizes.cells, communicator.size
    if size == 1:
        return
    before, after = (size, 1, 1), (1, size, 1)
    grid = Grid((n, n, n), ranks=before, comm=communicator, device="cpu")
    u = grid.ones()
    acts: dict[str, Act] = {
        "ours": lambda: u.redistribute(ranks=after),
        "beside": by_numpy(communicator, n, np.ascontiguousarray(u.local)),
    }
    found = in_turn(communicator, sizes.repeat, acts)
    what = f"redistribute {n}^3, {before} to {after}, Alltoallv"
    yield Row("redistribute", what, size, found["ours"], found["beside"], nbytes=16 * n**3)


def by_numpy(communicator: Communicator, n: int, mine: HostArray) -> Callable[[], HostArray]:
    """The same by hand: a slab along the first axis comes back as one along the second. Local; the
    result is called on all ranks together.
    """
    comm, rank = communicator.handle, communicator.rank
    axis = Decomposition((n,), (communicator.size,)).axes[0]
    cuts = [slice(axis.start(part), axis.stop(part)) for part in range(communicator.size)]
    sent, found = np.empty(mine.size), np.empty((n, cuts[rank].stop - cuts[rank].start, n))
    received = np.empty(found.size)
    outgoing, incoming = [mine[:, cut] for cut in cuts], [found[cut] for cut in cuts]
    counts = [[part.size for part in parts] for parts in (outgoing, incoming)]

    def act() -> HostArray:
        place = 0
        for part in outgoing:
            sent[place : place + part.size] = part.reshape(-1)
            place += part.size
        comm.Alltoallv([sent, counts[0]], [received, counts[1]])
        place = 0
        for part in incoming:
            part[...] = received[place : place + part.size].reshape(part.shape)
            place += part.size
        return found

    return act
