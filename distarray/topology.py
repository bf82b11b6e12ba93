"""Which block of a decomposition this rank holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from distarray.comm.base import Communicator
from distarray.decomposition import Decomposition
from distarray.errors import CommunicationError


@dataclass(frozen=True)
class Topology:
    """A decomposition laid over the ranks of a communicator, rank r holding block r.

    Ranks beyond the decomposition's size hold nothing. `transport` is what was asked for when the
    array or its grid was made, for copies on other devices.

    Raises
    ------
    CommunicationError
        The decomposition has more blocks than the communicator has ranks.
    """

    decomposition: Decomposition
    communicator: Communicator
    transport: str = field(default="auto", compare=False)

    def __post_init__(self) -> None:
        if self.decomposition.size > self.communicator.size:
            raise CommunicationError(
                f"The process grid {self.decomposition.ranks} needs "
                f"{self.decomposition.size} ranks, the communicator has {self.communicator.size}; "
                "start more ranks or use a smaller process grid."
            )

    def divided(self, decomposition: Decomposition) -> Topology:
        """Another decomposition over the same ranks. Local."""
        return replace(self, decomposition=decomposition)

    @property
    def coords(self) -> tuple[int, ...] | None:
        """This rank's position in the process grid; None if it holds nothing."""
        return self.decomposition.coords(self.communicator.rank)
