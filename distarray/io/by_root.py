"""Values that ranks send to root, which writes them: where several writers would lose bytes.

A rank visits the parts of the file that it has a share in and sends them in the order of the file;
root receives these from all, also after an error, which is told at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from distarray.io import place
from distarray.io.agreement import Noted
from distarray.io.boxes import largest_piece, write_box
from distarray.io.checksums import Buffer
from distarray.io.outgoing import Outgoing
from distarray.io.teams import owned_by
from distarray.io.tiles import chunks
from distarray.layout import Layout
from distarray.regions import Box

Values = np.ndarray[Any, Any]


def write_by_root(job: Outgoing) -> None:
    """Bring one part of the file after the other to root, which writes it. Collective."""
    problem = Noted(job.subject)
    if job.communicator.rank:
        _send_to_root(job, problem)
    else:
        _write_as_root(job, problem)
    problem.tell(job.communicator)


def _whole_parts(job: Outgoing, k: int, over: Box | None = None) -> Iterator[Box]:
    array = job.record.arrays[k]
    limit = largest_piece(np.dtype(array.dtype))
    return chunks(Box.of_shape(array.shape), array.tile, limit, over=over)


def _send_to_root(job: Outgoing, problem: Noted) -> None:
    buffer = Buffer()
    for k, own in enumerate(job.boxes):
        for chunk in _whole_parts(job, k, own):
            values = _own_part(job, k, chunk.intersection(own), buffer, problem)
            job.communicator.exchange([(0, values)], [])


def _own_part(job: Outgoing, k: int, box: Box, buffer: Buffer, problem: Noted) -> Values:
    values = buffer.array(box.shape, np.dtype(job.record.arrays[k].dtype))
    with problem.noted():
        job.fetch(k, box, values)
        job.enter(k, box, values)
    return values


def _write_as_root(job: Outgoing, problem: Noted) -> None:
    own, received, joined = Buffer(), Buffer(), Buffer()
    with ExitStack() as stack:
        descriptor = -1
        with problem.noted():
            descriptor = stack.enter_context(place.opened(job.path, write=True))
        for k, array in enumerate(job.record.arrays):
            dtype = np.dtype(array.dtype)
            for chunk in _whole_parts(job, k):
                parts: list[tuple[Box, Values]] = []
                mine = chunk.intersection(job.boxes[k])
                if not mine.empty:
                    parts.append((mine, _own_part(job, k, mine, own, problem)))
                others = list(_others(job.layouts[k], chunk))
                flat = received.array((sum(box.size for _, box in others),), dtype)
                transfers, first = [], 0
                for rank, box in others:
                    values = flat[first : first + box.size].reshape(box.shape)
                    first += box.size
                    transfers.append((rank, values))
                    parts.append((box, values))
                job.communicator.exchange([], transfers)
                with problem.noted():
                    if problem.first is None:
                        write_box(descriptor, array, chunk, _joined(chunk, parts, joined))


def _others(layout: Layout, chunk: Box) -> Iterator[tuple[int, Box]]:
    """The ranks other than root that own a part of a box, with these parts. Local."""
    cuts, axes = layout.decomposition, len(layout.components)
    spans = zip(cuts.axes, chunk.start[axes:], chunk.stop[axes:], strict=True)
    ranges = (range(axis.part_of(a), axis.part_of(b - 1) + 1) for axis, a, b in spans)
    for coords in itertools.product(*ranges):
        rank = cuts.rank_at(coords)
        box = chunk.intersection(owned_by(layout, rank))
        if rank and not box.empty:
            yield rank, box


def _joined(chunk: Box, parts: Sequence[tuple[Box, Values]], buffer: Buffer) -> Values:
    """A part of the file as one contiguous array, made of what ranks own of it."""
    if len(parts) == 1:
        return parts[0][1]
    whole = buffer.array(chunk.shape, parts[0][1].dtype)
    for box, values in parts:
        whole[box.slices(chunk.start)] = values
    return whole
