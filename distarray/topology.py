"""Which block of a decomposition this rank holds, and which ranks hold its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.errors import CommunicationError


@dataclass(frozen=True)
class Topology:
    """A decomposition laid over the ranks of a communicator, rank r holding block r.

    Ranks beyond the decomposition's size hold nothing.

    Raises
    ------
    CommunicationError
        The decomposition has more blocks than the communicator has ranks.
    """

    decomposition: Decomposition
    communicator: Communicator

    def __post_init__(self) -> None:
        if self.decomposition.size > self.communicator.size:
            raise CommunicationError(
                f"The process grid {self.decomposition.ranks} needs "
                f"{self.decomposition.size} ranks, the communicator has {self.communicator.size}; "
                "start more ranks or use a smaller process grid."
            )

    @property
    def rank(self) -> int:
        return self.communicator.rank

    @property
    def size(self) -> int:
        """Ranks of the communicator, those that hold nothing included."""
        return self.communicator.size

    @property
    def is_root(self) -> bool:
        return self.communicator.rank == 0

    @property
    def coords(self) -> tuple[int, ...] | None:
        """This rank's position in the process grid; None if it holds nothing."""
        return self.decomposition.coords(self.communicator.rank)

    def neighbour(self, direction: Sequence[int]) -> int | None:
        """The rank of the block `direction` away; None outside the domain or for no block."""
        coords = self.coords
        found = None if coords is None else self.decomposition.neighbour(coords, direction)
        return None if found is None else self.decomposition.rank_at(found)
