"""Gathering and scattering cost a rank that is not the root its own block, however many ranks there
are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from distarray.backends.cpu import CpuBackend
from distarray.block import Block
from distarray.collect import gather, scatter
from distarray.decomposition import Decomposition
from distarray.layout import Layout

LAYOUT = Layout(Decomposition((100, 100), (100, 100)), (False, False), (0, 0), (), np.dtype(float))


@dataclass
class OneOfMany:
    """A rank among many that notes what it is asked to send and receive."""

    rank: int
    size: int = 10_000
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def exchange(self, sends: Any, receives: Any) -> None:
        self.sent += [rank for rank, _ in sends]
        self.received += [rank for rank, _ in receives]

    def agree(self, error: Exception | None) -> None:
        assert error is None


@pytest.fixture
def boxes_found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ranks whose boxes were computed."""
    found: list[int] = []
    owned = Layout.owned

    def counted(self: Layout, rank: int) -> Any:
        found.append(rank)
        return owned(self, rank)

    monkeypatch.setattr(Layout, "owned", counted)
    return found


def test_a_sender_computes_no_box_of_other_ranks(boxes_found: list[int]) -> None:
    one = OneOfMany(5000)
    block = Block(LAYOUT, one.rank, CpuBackend())
    assert gather(block, one, root=0) is None
    assert (one.sent, one.received) == ([0], [])
    scatter(None, block, one, root=0)
    assert (one.sent, one.received) == ([0], [0])
    assert set(boxes_found) == {one.rank}


def test_the_root_hears_of_every_other_rank_once() -> None:
    root = OneOfMany(7)
    gather(Block(LAYOUT, root.rank, CpuBackend()), root, root=7)
    assert root.received == [rank for rank in range(10_000) if rank != 7]
