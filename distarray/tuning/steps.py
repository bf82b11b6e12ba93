"""What a loop of `iterate` is recognised by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distarray.backends import native
from distarray.stencil import codegen
from distarray.stencil.expression import Program
from distarray.tuning.store import TileChoice

if TYPE_CHECKING:
    from distarray.array import DistArray


def case_of(
    array: DistArray, programs: Sequence[Program], positions: Sequence[Sequence[int]], cycle: int
) -> TileChoice:
    """The case of a loop, with 1 for what is to be found. Local, and the same on all ranks.

    Parameters
    ----------
    array : DistArray
        The first of the loop.
    programs, positions : of each kernel of a step
    cycle : int
        Number of arrays that rotate.
    """
    decomposition = array.layout.decomposition
    texts = (text for program in programs for text in (codegen.source(program), program.name))
    return TileChoice(
        decomposition.shape,
        decomposition.periodic,
        decomposition.ranks,
        str(array.dtype),
        native.digest(*texts, str([tuple(p) for p in positions]), str(cycle)),
        1,
    )
