"""Transforms in chunks of any size and messages in parts: the same bits."""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
import scipy.fft
from mpi4py import MPI

import distarray as da
from distarray import comm, pencils
from distarray.transports.communicator import DeviceCommunicator
from tests.ranks.common import SIZE, process_grids

RANKS = (1, 2, 3, 4)
SELDOM = (1, 3, 4)

#: Whole blocks, single layers, and between them chunks of which the last is a smaller one.
WHOLE, LAYERS, SOME = 1 << 40, 1, 20_000
#: Cut unevenly by 2, 3 and 4 ranks.
SHAPE = (22, 35, 19)
HOST = np.random.default_rng(11).standard_normal(SHAPE)


def forget_plans(communicators):
    for communicator in communicators:
        communicator.kept.clear()
        for each in communicator.on_devices.values():
            if isinstance(each, DeviceCommunicator):  # beside them are channels in shared memory
                each.kept.clear()


@contextmanager
def chunks_of(nbytes, others=None):
    """Cut chunks of this size in plans made anew; gives a list of the boxes that are worked on."""
    planners = [comm.default(ranks) for ranks in (None, others)]
    usual, carry, done = pencils.CHUNK_BYTES, pencils._Chunk.carry, []

    def noted(chunk, *others):
        done.append(chunk.box)
        carry(chunk, *others)

    pencils.CHUNK_BYTES, pencils._Chunk.carry = nbytes, noted
    forget_plans(planners)
    try:
        yield done
    finally:
        pencils.CHUNK_BYTES, pencils._Chunk.carry = usual, carry
        forget_plans(planners)


def there_and_back(u):
    """Bytes of spectra and of the values that come back, the second time in memory used before."""
    found = []
    for name, options in (("rfftn", {}), ("dctn", {"type": 2})):
        spectrum = getattr(da.fft, name)(u, **options)
        getattr(da.fft, name)(u, **options, out=spectrum)
        length = {"length": SHAPE[-1]} if name == "rfftn" else options
        back = getattr(da.fft, f"i{name}")(spectrum, **length)
        found += [spectrum.gather().tobytes(), back.gather().tobytes()]
        np.testing.assert_allclose(back.gather(), HOST, rtol=0, atol=1e-13)
    return found


def test_chunks_of_any_size_give_the_same_bits():
    for ranks in process_grids(3, SHAPE):
        u = da.asarray(HOST, ranks=ranks)
        with chunks_of(WHOLE):
            expected = there_and_back(u)
        for nbytes in (LAYERS, SOME):
            with chunks_of(nbytes):
                assert there_and_back(u) == expected, (ranks, nbytes)


def test_blocks_are_cut_into_so_many_chunks():
    u = da.asarray(HOST, ranks=(SIZE, 1, 1))
    counts = []
    for nbytes in (WHOLE, SOME, LAYERS):
        with chunks_of(nbytes) as done:
            spectrum = da.fft.rfftn(u)
        counts.append(len(done))
    # Planes normal to x as long as that is cut, then planes normal to y.
    assert counts[0] == 2
    assert counts[2] == u.local_shape[0] + spectrum.local_shape[1]
    assert 2 < counts[1] < counts[2]


def test_messages_in_parts_give_the_same_bits():
    os.environ["DISTARRAY_MAX_MESSAGE"] = "1024"
    try:
        split = da.Grid(SHAPE, ranks=(SIZE, 1, 1), comm=MPI.COMM_WORLD.Dup())
    finally:
        del os.environ["DISTARRAY_MAX_MESSAGE"]
    usual = da.asarray(HOST, ranks=(SIZE, 1, 1))
    expected = scipy.fft.rfftn(HOST)
    u = split.zeros()
    u[...] = HOST
    np.testing.assert_allclose(da.fft.rfftn(u).gather(), expected, rtol=0, atol=1e-11)
    for nbytes in (WHOLE, LAYERS):
        with chunks_of(nbytes, split.communicator):
            assert there_and_back(u) == there_and_back(usual)
