"""Device messages by every transport: the halos of the CPU to the bit, and NumPy's collectives."""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import numpy as np
from mpi4py import MPI

from distarray import comm
from distarray.arguments import backend_for
from distarray.backends.cpu import CpuBackend
from distarray.block import Block, reads_of_offsets
from distarray.decomposition import Decomposition, factorisations
from distarray.errors import DecompositionError
from distarray.halo.exchange import HaloExchange
from distarray.halo.plan import HaloPlan
from distarray.layout import Layout
from distarray.redistribute import Redistribution
from distarray.testing import WatchedCommunicator
from distarray.transfer import Selection, Stride
from distarray.transports.choice import on_device
from distarray.transports.communicator import DeviceCommunicator
from distarray.transports.device import DeviceTransport
from tests.communicator_contract import CommunicatorContract

RANKS = (1, 2, 4)
SELDOM = (2,)
TIMEOUT = 240
TRANSPORTS = ("host", "staged", "device", "nccl")
WIPED = -1

DEVICE = backend_for("simulated")
WORLD = comm.default(MPI.COMM_WORLD)
RANK, SIZE = WORLD.rank, WORLD.size


@cache
def split_world():
    """The same ranks, with messages of at most 1 KiB."""
    os.environ["DISTARRAY_MAX_MESSAGE"] = "1024"
    made = comm.default(MPI.COMM_WORLD.Dup())
    for transport in TRANSPORTS:
        on_device(made, DEVICE, transport)
    del os.environ["DISTARRAY_MAX_MESSAGE"]
    return made


def communicators(transports=TRANSPORTS, *, split=True):
    """One for every transport, with whole and also, if wanted, with split messages."""
    for base, transport in product((WORLD, split_world()) if split else (WORLD,), transports):
        yield on_device(base, DEVICE, transport)


def reducing():
    """Those with collectives of their own: all transports by MPI share them."""
    return communicators(("staged", "nccl"))


def from_host(values):
    return DEVICE.asarray(np.asarray(values))


def host(values):
    return DEVICE.to_host(values)


class HostDataAsBefore(CommunicatorContract):
    """What is not on the device passes through."""

    def communicator(self):
        return on_device(WORLD, DEVICE, "nccl")


# ---- halos


def box(ndim, reach):
    return {offset for offset in product(range(-reach, reach + 1), repeat=ndim) if any(offset)}


def owned_values(block, turn):
    """Values that differ from point to point, from field to field and from turn to turn."""
    shape = block.layout.shape
    whole = (np.arange(np.prod(shape)).reshape(shape) * 7 + turn).astype(block.layout.dtype)
    return whole[(..., *block.owned.slices())]


def field(grid, backend, *, components=(), dtype=np.float64, halo=1, staggered=None):
    flags = staggered or (False,) * grid.ndim
    layout = Layout(grid, flags, (halo,) * grid.ndim, components, np.dtype(dtype))
    return Block(layout, RANK, backend)


def several(grid, backend):
    """Fields of different types, components and halos, and what is read of them."""
    blocks = [
        field(grid, backend, components=(3,), dtype=np.complex128),
        field(grid, backend, dtype=np.float32, halo=2),
        field(grid, backend, dtype=np.int8, staggered=(True, False)),
    ]
    reads = [{(0,): box(2, 1), (2,): {(1, 0)}}, {(): box(2, 2)}, {(): {(0, -1), (1, 1)}}]
    return blocks, reads


def exchange(blocks, reads, communicator):
    grid = blocks[0].layout.decomposition
    fields = [
        (block.layout, reads_of_offsets(read)) for block, read in zip(blocks, reads, strict=True)
    ]
    plan = HaloPlan.build(grid, grid.coords(RANK), fields)
    return HaloExchange(plan, blocks, communicator)


def halos(make, grid, backend, communicator):
    """The padded memory of all fields after each of three exchanges."""
    blocks, reads = make(grid, backend)
    halo_exchange = exchange(blocks, reads, communicator)
    found = []
    for turn in range(3):
        for block in blocks:
            block.memory[...] = WIPED
            block.owned_memory[...] = owned_values(block, turn)
        pending = halo_exchange.begin(protect=turn != 1)
        if turn == 2:
            while not pending.poll():
                pass
        if turn == 0:  # what is packed may be written at once
            for block in blocks:
                block.owned_memory[...] = 5
        pending.finish()
        found += [backend.to_host(block.memory).tobytes() for block in blocks]
    return found


def require_the_bits_of_the_cpu(make, grid, *, split=True):
    expected = halos(make, grid, CpuBackend(), WORLD)
    for communicator in communicators(split=split):
        found = halos(make, grid, DEVICE, communicator)
        assert found == expected, f"{communicator!r}, {grid!r}"


def decompositions(shape, halo):
    for ranks in factorisations(SIZE, len(shape)):
        for periodic in ((True, True), (False, True)):
            try:
                yield Decomposition(shape, ranks, periodic=periodic, halo=halo)
            except DecompositionError:
                continue


def test_several_fields_on_every_process_grid_with_uneven_blocks():
    for grid in decompositions((19, 17), 2):
        require_the_bits_of_the_cpu(several, grid, split=all(grid.periodic))


def test_periodic_axes_held_by_one_and_by_two_ranks():
    def make(grid, backend):
        return [field(grid, backend, halo=2)], [{(): box(2, 2)}]

    for ranks in ((1, 1), (1, min(2, SIZE)), (min(2, SIZE), 1)):
        for shape in ((4, 5), (5, 4)):
            require_the_bits_of_the_cpu(make, Decomposition(shape, ranks, periodic=True, halo=2))


def test_messages_longer_than_the_limit():
    def make(grid, backend):
        return [field(grid, backend, components=(2,))], [{(c,): box(2, 1) for c in range(2)}]

    grid = Decomposition((2 * SIZE + 1, 301), (SIZE, 1), periodic=(True, False), halo=1)
    require_the_bits_of_the_cpu(make, grid)


class Foreign:
    """Memory as a CUDA device offers it to MPI: by its address only."""

    def __init__(self, buffer):
        self.kept = buffer
        self.nbytes = buffer.nbytes
        self.__cuda_array_interface__ = {
            "shape": (buffer.nbytes,),
            "typestr": "|u1",
            "data": (buffer.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


def test_mpi_takes_memory_by_its_address_in_parts_too():
    class Offering:
        message_memory = staticmethod(Foreign)

        def __getattr__(self, name):
            return getattr(DEVICE, name)

    def make(grid, backend):
        return [field(grid, backend)], [{(): box(2, 1)}]

    grid = Decomposition((2 * SIZE + 1, 301), (SIZE, 1), periodic=(True, False), halo=1)
    expected = halos(make, grid, CpuBackend(), WORLD)
    for base in (WORLD, split_world()):
        offering = Offering()
        communicator = DeviceCommunicator(base, offering, DeviceTransport(base, offering))
        assert halos(make, grid, DEVICE, communicator) == expected


def test_exchanges_under_way_pair_in_the_order_of_their_beginning():
    grid = Decomposition((3 * SIZE + 1, 8), (SIZE, 1), periodic=True, halo=1)
    reads = {(): box(2, 1)}
    for communicator in communicators():
        blocks = [field(grid, DEVICE), field(grid, DEVICE)]
        twins = [field(grid, CpuBackend()), field(grid, CpuBackend())]
        for group, ranks in ((blocks, communicator), (twins, WORLD)):
            exchanges = [exchange([block], [reads], ranks) for block in group]
            for turn, block in enumerate(group):
                block.memory[...] = WIPED
                block.owned_memory[...] = owned_values(block, 100 * turn)
            pending = [one.begin() for one in exchanges]
            for _ in range(100 if RANK % 2 else 0):  # what only some ranks see changes nothing
                pending[0].poll()
            pending[1].finish()
            pending[0].finish()
        for block, twin in zip(blocks, twins, strict=True):
            assert np.array_equal(host(block.memory), twin.memory), f"{communicator!r}"


def test_no_message_is_empty_and_none_goes_where_nothing_is_read():
    grid = Decomposition((2 * SIZE, 4), (SIZE, 1), halo=1)
    for transport in ("host", "staged", "device"):
        watched = WatchedCommunicator(MPI.COMM_WORLD)
        communicator = on_device(watched, DEVICE, transport)
        exchange([field(grid, DEVICE)], [{(): {(-1, 0)}}], communicator).begin().finish()
        after = [RANK + 1] if RANK + 1 < SIZE else []
        expected = [[(rank, 4 * 8) for rank in after]] if SIZE > 1 else []
        assert watched.sent == expected, transport
        watched.clear()
        none, some = DEVICE.buffer(0), DEVICE.buffer(8)
        last = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        if SIZE > 1:
            communicator.exchange([(0, none), (last[0], some)], [(0, none), (last[1], some)])
            assert watched.sent == [[(last[0], 8)]], transport


def test_the_host_waits_once_for_a_message_and_never_with_nccl():
    if SIZE == 1:
        return
    grid = Decomposition((4 * SIZE, 8), (SIZE, 1), periodic=True, halo=1)
    waits = {}
    for transport in TRANSPORTS:
        communicator = on_device(WORLD, DEVICE, transport)
        block = field(grid, DEVICE)
        halo_exchange = exchange([block], [{(): box(2, 1)}], communicator)
        halo_exchange.begin().finish()
        DEVICE.compute.synchronize()
        before = DEVICE.driver.statistics.synchronizations
        for _ in range(3):
            halo_exchange.begin().finish()
        waits[transport] = DEVICE.driver.statistics.synchronizations - before
        DEVICE.compute.synchronize()
    assert waits["nccl"] == 0, waits
    assert waits["staged"] == waits["device"] == 3, waits


# ---- collectives


def operands(dtype):
    """What all ranks contribute, shape (SIZE, 3, 40); sums and products are exact."""
    shape = (SIZE, 3, 40)
    values = np.arange(np.prod(shape)).reshape(shape)
    if np.dtype(dtype) == bool:
        return values % 3 == 0
    small = values % 3 + 1
    return (
        (small + 1j * (values % 2)).astype(dtype)
        if np.dtype(dtype).kind == "c"
        else (small.astype(dtype))
    )


REDUCE = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16")


def reductions():
    """Element type, operation, operands of all ranks and NumPy's result over the ranks."""
    for dtype, op in product(DTYPES, REDUCE):
        values = operands(dtype)
        if dtype == "?":
            function = np.any if op in ("sum", "max") else np.all
        elif dtype[0] == "c" and op in ("min", "max"):
            continue  # complex numbers have no order
        else:
            function = REDUCE[op]
        yield op, values, function(values, axis=0).astype(values.dtype)


def test_allreduce_of_all_types():
    for communicator in reducing():
        for op, values, expected in reductions():
            mine = from_host(values[RANK])
            found = communicator.allreduce(mine, op)
            pending = communicator.begin_allreduce(mine, op)
            mine.fill(0)  # it may be written at once
            for result in (host(found), pending.result(), host(pending.values)):
                assert result.dtype == values.dtype
                assert np.array_equal(result, expected), (communicator, values.dtype, op)
            assert pending.test() in (True, False)


def test_many_reductions_under_way():
    for communicator in reducing():
        pending = [
            communicator.begin_allreduce(from_host([float(RANK + turn)]), "sum")
            for turn in range(80)
        ]
        for turn in range(79, -1, -7):
            assert pending[turn].result() == SIZE * (SIZE - 1) / 2 + SIZE * turn


def test_reductions_of_views_and_of_nothing():
    for communicator in reducing():
        whole = from_host(np.arange(24.0).reshape(4, 6))
        expected = SIZE * np.arange(24.0).reshape(4, 6)[1:3, ::2]
        assert np.array_equal(host(communicator.allreduce(whole[1:3, ::2], "sum")), expected)
        assert host(communicator.allreduce(from_host(np.empty((0, 3))), "max")).shape == (0, 3)


def test_broadcast_from_each_rank():
    for communicator in reducing():
        for root, dtype in product(range(SIZE), ("?", "i2", "f8", "c16")):
            expected = (np.arange(700) % 120).astype(dtype).reshape(7, 100)
            values = from_host(expected if root == RANK else np.zeros_like(expected))
            communicator.broadcast(values, root)
            assert np.array_equal(host(values), expected)
            around = from_host(np.zeros((7, 202), dtype))
            around[:, 1:-1:2] = values if root == RANK else 0
            communicator.broadcast(around[:, 1:-1:2], root)
            assert np.array_equal(host(around)[:, 1:-1:2], expected)
            assert not host(around)[:, ::2].any()
        communicator.broadcast(from_host(np.empty(0)), 0)


def test_all_gather():
    for communicator in reducing():
        for dtype in DTYPES:
            values = operands(dtype)
            found = communicator.all_gather(from_host(values[RANK]))
            assert host(found).dtype == values.dtype
            assert np.array_equal(host(found), values)
            found = communicator.all_gather(from_host(values[RANK])[:, ::3])
            assert np.array_equal(host(found), values[:, :, ::3])
        assert host(communicator.all_gather(from_host(np.empty((0, 2))))).shape == (SIZE, 0, 2)


def test_reduce_scatter():
    for communicator in reducing():
        for op, values, expected in reductions():
            mine = np.stack([np.roll(values[RANK], part, axis=1) for part in range(SIZE)])
            found = communicator.reduce_scatter(from_host(mine), op)
            assert np.array_equal(host(found), np.roll(expected, RANK, axis=1))
        nothing = communicator.reduce_scatter(from_host(np.empty((SIZE, 0))), "sum")
        assert host(nothing).shape == (0,)


# ---- redistribution


def moved(source_grid, target_grid, selection, dtypes, communicator):
    """The target's owned part after a redistribution, and where it lies."""
    layouts = [
        Layout(grid, (False, False), (1, 1), (2,), np.dtype(dtype))
        for grid, dtype in zip((source_grid, target_grid), dtypes, strict=True)
    ]
    source, target = (Block(layout, RANK, DEVICE) for layout in layouts)
    redistribution = Redistribution(*layouts, RANK, selection=selection)
    for turn in range(2):
        whole = np.arange(2 * 13 * 9).reshape(2, 13, 9) + turn
        source.owned_memory[...] = whole[(..., *source.owned.slices())].astype(dtypes[0])
        target.owned_memory[...] = 0
        redistribution.run(source, target, communicator)
        source.owned_memory[...] = 0  # it has been read
    return host(target.owned_memory), (..., *target.owned.slices())


def test_redistribution_between_process_grids():
    whole = np.arange(2 * 13 * 9).reshape(2, 13, 9) + 1
    grids = [Decomposition((13, 9), ranks) for ranks in factorisations(SIZE, 2)]
    few = Decomposition((13, 9), (1, 1))
    pairs = [*zip(grids, reversed(grids), strict=True), (grids[0], few), (few, grids[-1])]
    for communicator, (before, after) in product(communicators(), pairs):
        for dtypes in (("f8", "f8"), ("i4", "f8")):
            found, part = moved(before, after, None, dtypes, communicator)
            assert np.array_equal(found, whole[part].astype(dtypes[1])), communicator


def test_redistribution_of_a_selection_into_itself():
    """u[1:, :] = u[:-1, :] reads everything before it writes."""
    grid = Decomposition((2 * SIZE + 3, 4), (SIZE, 1))
    n = grid.shape[0]
    selection = Selection(
        (Stride(0, 1, n - 1), Stride(0, 1, 4)), (Stride(1, 1, n - 1), Stride(0, 1, 4))
    )
    whole = np.arange(4.0 * n).reshape(n, 4)
    expected = np.concatenate([whole[:1], whole[:-1]])
    for communicator in communicators():
        block = Block(Layout(grid, (False, False), (1, 1), (), np.dtype(float)), RANK, DEVICE)
        block.owned_memory[...] = whole[block.owned.slices()]
        Redistribution(block.layout, block.layout, RANK, selection=selection).run(
            block, block, communicator
        )
        assert np.array_equal(host(block.owned_memory), expected[block.owned.slices()])


def test_redistribution_of_a_repeated_row():
    """v[...] = u[5:6, :] on all rows of v."""
    before, after = Decomposition((13, 9), (SIZE, 1)), Decomposition((13, 9), (1, SIZE))
    selection = Selection((Stride(5, 0, 13), Stride(0, 1, 9)), (Stride(0, 1, 13), Stride(0, 1, 9)))
    whole = np.arange(2 * 13 * 9).reshape(2, 13, 9) + 1.0
    expected = np.broadcast_to(whole[:, 5:6], whole.shape)
    for communicator in communicators():
        found, part = moved(before, after, selection, ("f8", "f8"), communicator)
        assert np.array_equal(found, expected[part]), communicator


# ---- the communicator


def test_the_same_communicator_for_the_same_arguments():
    for transport in TRANSPORTS:
        found = on_device(WORLD, DEVICE, transport)
        assert isinstance(found, DeviceCommunicator)
        assert found.transport.name == transport
        assert found is on_device(WORLD, DEVICE, transport)
    assert on_device(WORLD, DEVICE, "host") != on_device(WORLD, DEVICE, "staged")
    assert on_device(WORLD, DEVICE) is on_device(WORLD, DEVICE, "staged")
    assert on_device(WORLD, CpuBackend(), "nccl") is WORLD
