"""A whole array collected on the host of one rank or of all, and spread from one rank.

Values move in rounds of limited size, so that the collecting rank needs little more memory than the
array itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.block import Block
from distarray.comm.base import Communicator
from distarray.errors import ArrayError
from distarray.layout import Layout
from distarray.redistribute import ComponentIndex, selected_components
from distarray.regions import Box

#: Bytes that one round moves at least, if there are as many.
_ROUND = 1 << 26


def gather(
    block: Block,
    communicator: Communicator,
    root: int | None = None,
    *,
    component: ComponentIndex = (),
) -> HostArray | None:
    """The whole array on the host of one rank, or of all. Collective.

    Parameters
    ----------
    block : Block
    communicator : Communicator
    root : int or None
        The rank that receives the values; None for all ranks.
    component : tuple of int or slice
        Basic indices of the leading component axes. Default: all components.

    Returns
    -------
    ndarray or None
        A new array, shape components + points; None on the other ranks.
    """
    collector = 0 if root is None else root
    components = selected_components(block.layout, component)
    mine: HostArray = block.backend.to_host(block.owned_memory[component])
    result = None
    if root is None or communicator.rank == root:
        result = np.empty(components + block.layout.points, block.layout.dtype)
    if communicator.rank == collector and result is not None:
        _store(mine, result, block.owned)
        for group in _rounds(block.layout, components, collector):
            parts = [(rank, np.empty(components + box.shape, result.dtype)) for rank, box in group]
            communicator.exchange([], parts)
            for (_, box), (_, part) in zip(group, parts, strict=True):
                _store(part, result, box)
    elif communicator.rank != collector and not block.empty:
        communicator.exchange([(collector, np.ascontiguousarray(mine))], [])
    if root is None and result is not None:
        communicator.broadcast(result, collector)
    return result


def scatter(
    values: HostArray | None, block: Block, communicator: Communicator, root: int = 0
) -> None:
    """Fill the owned part of a block from a host array of the whole on one rank. Collective.

    The caller notes the write by `block.changed()`.

    Parameters
    ----------
    values : ndarray or None
        Shape of the whole array, components first; cast to the block's dtype. Ignored off root.

    Raises
    ------
    ArrayError
        The values do not have the array's shape, on all ranks alike.
    """
    layout = block.layout
    communicator.agree(_shape_error(values, layout) if communicator.rank == root else None)
    if communicator.rank == root and values is not None:
        block.owned_memory[...] = block.backend.asarray(_part(values, block.owned, layout))
        for group in _rounds(layout, layout.components, root):
            parts = [(rank, _part(values, box, layout)) for rank, box in group]
            communicator.exchange(parts, [])
    elif communicator.rank != root and not block.empty:
        mine = np.empty(layout.components + block.owned.shape, layout.dtype)
        communicator.exchange([], [(root, mine)])
        block.owned_memory[...] = block.backend.asarray(mine)


def _store(part: HostArray, whole: HostArray, box: Box) -> None:
    index: tuple[Any, ...] = (..., *box.slices())
    whole[index] = part


def _part(values: HostArray, box: Box, layout: Layout) -> HostArray:
    index: tuple[Any, ...] = (..., *box.slices())
    return np.ascontiguousarray(values[index], layout.dtype)


def _shape_error(values: HostArray | None, layout: Layout) -> ArrayError | None:
    if values is not None and values.shape == layout.shape:
        return None
    return ArrayError(
        f"Values of shape {None if values is None else values.shape} cannot fill an array of shape "
        f"{layout.shape}; pass an array of that shape on root."
    )


def _rounds(
    layout: Layout, components: tuple[int, ...], root: int
) -> Iterator[list[tuple[int, Box]]]:
    """The ranks other than root that own something, and what, in groups of limited size.

    Only root asks for them: the work grows with the number of ranks.
    """
    group: list[tuple[int, Box]] = []
    pending = 0
    for rank in range(layout.decomposition.size):
        box = layout.owned(rank)
        if rank == root or box.empty:
            continue
        group.append((rank, box))
        pending += box.size * math.prod(components) * layout.dtype.itemsize
        if pending >= _ROUND:
            yield group
            group, pending = [], 0
    if group:
        yield group
