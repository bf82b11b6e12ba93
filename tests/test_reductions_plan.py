"""Reductions over axes on very many ranks: what one rank sends and receives, without MPI."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from distarray.array import DistArray
from distarray.backends.cpu import CpuBackend
from distarray.block import Block
from distarray.decomposition import Decomposition
from distarray.layout import Layout
from distarray.topology import Topology

RANKS = 10_000


@dataclass(eq=False)
class OneOfMany:
    """A rank among many that notes whom it sends to and receives from, and receives zeros."""

    rank: int
    size: int = RANKS
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def exchange(self, sends: Any, receives: Any) -> None:
        self.sent += [rank for rank, _ in sends]
        self.received += [rank for rank, _ in receives]
        for _, buffer in receives:
            buffer[...] = 0


def array_on(one: OneOfMany, ranks: tuple[int, int]) -> DistArray:
    decomposition = Decomposition((RANKS, RANKS), ranks)
    layout = Layout(decomposition, (False, False), (0, 0), (3,), np.dtype(float))
    return DistArray(Block(layout, one.rank, CpuBackend()), Topology(decomposition, one))


@pytest.mark.parametrize("ranks", [(RANKS, 1), (1, RANKS), (100, 100)])
@pytest.mark.parametrize("rank", [0, 1, 2, 4096, 9999])
@pytest.mark.parametrize("axes", [(1, 2), (1,), (2,)])
def test_messages_grow_with_the_logarithm_of_the_ranks(
    ranks: tuple[int, int], rank: int, axes: tuple[int, ...]
) -> None:
    one = OneOfMany(rank)
    array_on(one, ranks).sum(axis=axes)
    assert len(one.received) <= 15  # log2(10,000), and one to bring the result to its owner
    assert len(one.sent) <= 2
    assert rank not in one.sent + one.received


def test_sums_over_all_grid_axes_end_on_rank_0() -> None:
    one = OneOfMany(0)
    array_on(one, (RANKS, 1)).max(axis=(1, 2))
    assert one.received == [2**n for n in range(14)]
