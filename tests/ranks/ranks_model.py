"""The performance model measures its inputs, and steps to compare, alike on all ranks."""

from __future__ import annotations

import numpy as np

from distarray.comm import default
from distarray.model import measure
from distarray.model.traffic import Loop
from distarray.tuning.kernels import NAMED

RANKS = (2, 3)


def test_inputs_and_comparisons_are_the_same_on_all_ranks():
    communicator, case = default(), NAMED["heat"]
    measure._COPIED, measure._SENT, measure._LARGE = (1 << 14, 1 << 18), (8, 1 << 14), 12
    measure._LEAST = 1e-3
    loop = Loop("heat", case.program(2, np.float32), np.dtype(np.float32), case.rotate)
    machine = measure.this_machine(case, loop, communicator)
    assert machine.ranks_per_node == communicator.size
    assert machine.intra.latency > 0
    assert machine.intra.bandwidth > 0
    rows = measure.compare(case, loop, machine, communicator, [(6 * communicator.size, 12)])
    grids = {(communicator.size, 1), (1, communicator.size)}
    assert {row.ranks for row in rows} == grids
    assert all(row.measured > 0 and row.predicted > 0 for row in rows)
    assert communicator.allgather((machine, rows)) == [(machine, rows)] * communicator.size
