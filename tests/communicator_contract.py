"""What every communicator must do. A test class inherits this and makes its communicator.

Expected values are formulas of rank and size, so that the same tests hold on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from distarray.comm.base import BlockPiece, Communicator
from distarray.errors import FileError
from distarray.regions import Box


def error_of(call: Callable[[], Any]) -> Exception:
    """What a call raises; `pytest.raises` is no help here, since all ranks must go on together."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


class CommunicatorContract:
    """Tests without arguments, or with an empty `folder` that all ranks share."""

    def communicator(self) -> Communicator:
        raise NotImplementedError

    def test_rank_and_size(self) -> None:
        comm = self.communicator()
        assert 0 <= comm.rank < comm.size
        assert comm.allgather(comm.rank) == list(range(comm.size))

    def test_barrier_returns(self) -> None:
        self.communicator().barrier()

    def test_bcast_from_each_rank(self) -> None:
        comm = self.communicator()
        for root in range(comm.size):
            value = {"root": root, "text": "x" * 5000} if comm.rank == root else None
            assert comm.bcast(value, root) == {"root": root, "text": "x" * 5000}

    def test_broadcast_fills_in_place(self) -> None:
        comm = self.communicator()
        for root in range(comm.size):
            values = np.arange(3000).reshape(3, 1000) * (1 if comm.rank == root else 0)
            comm.broadcast(values, root)
            assert np.array_equal(values, np.arange(3000).reshape(3, 1000))

    def test_allreduce(self) -> None:
        comm = self.communicator()
        n = comm.size
        ones = np.ones((3, 700))
        for dtype in (np.int32, np.int64, np.float32, np.float64, np.complex64, np.complex128):
            values = ((comm.rank + 1) * ones).astype(dtype)
            total = comm.allreduce(values, "sum")
            assert total.dtype == dtype
            assert np.array_equal(total, n * (n + 1) / 2 * ones)
        ranks = comm.rank * np.ones((3, 700))
        assert np.array_equal(comm.allreduce(ranks, "max"), (n - 1) * ones)
        assert np.array_equal(comm.allreduce(ranks + 2, "min"), 2 * ones)
        assert np.array_equal(comm.allreduce(2 * ones, "prod"), 2.0**n * ones)
        assert np.array_equal(ranks, comm.rank * ones)

    def test_allreduce_of_truth_values(self) -> None:
        comm = self.communicator()
        mine = np.array([comm.rank == 0, True, False])
        assert comm.allreduce(mine, "max").tolist() == [True, True, False]
        assert comm.allreduce(mine, "min").tolist() == [comm.size == 1, True, False]

    def test_allreduce_by_xor(self) -> None:
        comm = self.communicator()
        every = 0
        for rank in range(comm.size):
            every ^= 0x9E3779B1 * (rank + 1) & 0xFFFFFFFF
        mine = np.full((3, 700), 0x9E3779B1 * (comm.rank + 1) & 0xFFFFFFFF, np.uint32)
        total = comm.allreduce(mine, "xor")
        assert total.dtype == np.uint32
        assert (total == every).all()
        assert comm.begin_allreduce(mine, "xor").result().tolist() == total.tolist()
        flags = comm.allreduce(np.array([True, comm.rank == 0]), "xor")
        assert flags.tolist() == [comm.size % 2 == 1, True]

    def test_allreduce_of_views_and_of_nothing(self) -> None:
        comm = self.communicator()
        view = np.arange(12.0).reshape(3, 4)[:, ::2]
        assert np.array_equal(comm.allreduce(view, "sum"), comm.size * view)
        assert comm.allreduce(np.empty((0, 3)), "sum").shape == (0, 3)
        assert comm.allreduce(np.array(2.5), "max").shape == ()

    def test_begin_allreduce_copies_its_operand(self) -> None:
        comm = self.communicator()
        values = np.full(5, 2.0)
        first, second = comm.begin_allreduce(values, "sum"), comm.begin_allreduce(values, "max")
        values[:] = -100
        assert second.result().tolist() == [2.0] * 5
        assert first.result().tolist() == [2.0 * comm.size] * 5
        assert first.test()
        assert first.result().tolist() == [2.0 * comm.size] * 5

    def neighbours(self, comm: Communicator) -> tuple[int, int]:
        return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    def test_exchange_around_the_ring(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        sent, received = np.arange(1500.0) + comm.rank, np.zeros((3, 500))
        comm.exchange([(after, sent)], [(before, received)])
        assert np.array_equal(received.reshape(-1), np.arange(1500.0) + before)

    def test_messages_between_two_ranks_pair_by_order(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        first, second = np.zeros(300), np.zeros(2, np.int8)
        comm.exchange(
            [(after, np.full(300, 7.0)), (after, np.array([8, 9], np.int8))],
            [(before, first), (before, second)],
        )
        assert np.array_equal(first, np.full(300, 7.0))
        assert second.tolist() == [8, 9]

    def test_empty_messages_are_skipped(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        got = np.zeros(1)
        comm.exchange(
            [(after, np.empty(0)), (after, np.ones(1))], [(before, np.empty(0)), (before, got)]
        )
        assert got.tolist() == [1.0]

    def test_a_prepared_exchange_is_replayed(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        sent, received = np.zeros(1000), np.zeros(1000)
        exchange = comm.prepare_exchange([(after, sent)], [(before, received)])
        for turn in range(4):
            sent[:] = 10 * turn + comm.rank
            request = exchange.start()
            if turn % 2:
                while not request.test():
                    pass
            request.wait()
            assert np.array_equal(received, np.full(1000, 10.0 * turn + before))

    def test_two_exchanges_under_way_do_not_mix(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        ones, twos = np.zeros(400), np.zeros(400)
        first = comm.prepare_exchange([(after, np.full(400, 1.0))], [(before, ones)])
        second = comm.prepare_exchange([(after, np.full(400, 2.0))], [(before, twos)])
        requests = first.start(), second.start()
        requests[1].wait()
        requests[0].wait()
        assert (ones == 1.0).all()
        assert (twos == 2.0).all()

    def test_dropped_exchanges_are_freed(self) -> None:
        comm = self.communicator()
        after, before = self.neighbours(comm)
        for turn in range(50):
            got = np.zeros(10)
            exchange = comm.prepare_exchange([(after, np.full(10, turn))], [(before, got)])
            exchange.start().wait()
            del exchange

    def test_agree_without_errors(self) -> None:
        self.communicator().agree(None)

    def test_agree_raises_the_lowest_ranks_error_everywhere(self) -> None:
        comm = self.communicator()
        first = comm.size // 2
        mine = FileError(f"rank {comm.rank} is full") if comm.rank >= first else None
        error = error_of(lambda: comm.agree(mine))
        assert isinstance(error, FileError)
        assert str(error) == f"rank {first} is full"

    def test_agree_on_an_error_that_cannot_be_sent(self) -> None:
        class Unsendable(Exception):
            pass

        comm = self.communicator()
        mine = Unsendable("words") if comm.rank == comm.size - 1 else None
        assert "words" in str(error_of(lambda: comm.agree(mine)))

    def rows(
        self, comm: Communicator, shape: tuple[int, ...], offset: int, dtype: Any
    ) -> BlockPiece:
        """This rank's rows of an array in a file, zeros as values."""
        start, stop = (rank * shape[0] // comm.size for rank in (comm.rank, comm.rank + 1))
        box = Box((start, *[0] * (len(shape) - 1)), (stop, *shape[1:]))
        return BlockPiece(offset, shape, box, np.zeros(box.shape, dtype))

    def test_blocks_are_written_and_read(self, folder: Path) -> None:
        comm = self.communicator()
        path = str(folder / "blocks")
        shapes: list[tuple[tuple[int, ...], int, Any]] = [
            ((13, 7, 5), 64, np.float64), ((2, 3), 5000, np.complex64), ((600,), 6001, np.bool_),
        ]  # fmt: skip
        whole = [
            (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)
            for shape, _, dtype in shapes
        ]
        if comm.rank == 0:
            Path(path).write_bytes(b"\xff" * 7000)
        comm.barrier()
        pieces = [self.rows(comm, *one) for one in shapes]
        for piece, values in zip(pieces, whole, strict=True):
            piece.values[...] = values[piece.box.slices()]
        comm.write_blocks(path, pieces)
        octets = Path(path).read_bytes()
        assert len(octets) == 7000
        assert octets[:64] == b"\xff" * 64
        for (shape, offset, dtype), values in zip(shapes, whole, strict=True):
            written = np.frombuffer(octets, dtype, values.size, offset).reshape(shape)
            assert np.array_equal(written, values)
        again = [self.rows(comm, *one) for one in shapes]
        comm.read_blocks(path, again)
        for piece, values in zip(again, whole, strict=True):
            assert np.array_equal(piece.values, values[piece.box.slices()])

    def test_ranks_write_and_read_different_numbers_of_pieces(self, folder: Path) -> None:
        """Rank r has r pieces, each made when it is asked for and done with when the next is."""
        comm = self.communicator()
        path = str(folder / "blocks")
        count = comm.size * (comm.size - 1) // 2
        if comm.rank == 0:
            Path(path).write_bytes(bytes(8 * count))
        comm.barrier()
        mine = range(comm.rank * (comm.rank - 1) // 2, comm.rank * (comm.rank + 1) // 2)
        found: list[int] = []

        def pieces(write: bool) -> Iterator[BlockPiece]:
            buffer = np.zeros(1, np.int64)
            for k in mine:
                buffer[0] = k + 1 if write else -1
                yield BlockPiece(0, (count,), Box((k,), (k + 1,)), buffer)
                found.append(int(buffer[0]))

        comm.write_blocks(path, pieces(True))
        comm.barrier()
        assert Path(path).read_bytes() == np.arange(1, count + 1).tobytes()
        comm.read_blocks(path, pieces(False))
        assert found == 2 * [k + 1 for k in mine]

    def test_an_error_while_a_piece_is_made_is_raised_on_all_ranks(self, folder: Path) -> None:
        comm = self.communicator()
        path = str(folder / "blocks")
        if comm.rank == 0:
            Path(path).write_bytes(bytes(800))
        comm.barrier()

        def pieces() -> Iterator[BlockPiece]:
            yield self.rows(comm, (80,), 0, np.float64)
            if comm.rank == comm.size - 1:
                raise FileError("the device is gone")
            yield self.rows(comm, (80,), 0, np.float64)

        for transfer in (comm.write_blocks, comm.read_blocks):
            error = error_of(lambda: transfer(path, pieces()))  # noqa: B023  (called at once)
            assert isinstance(error, FileError)
            assert str(error) == "the device is gone"

    def test_a_missing_file_is_an_error_on_all_ranks(self, folder: Path) -> None:
        comm = self.communicator()
        path = str(folder / "none")
        for transfer, word in ((comm.write_blocks, "written"), (comm.read_blocks, "read")):
            pieces = [self.rows(comm, (8,), 0, np.float64)]
            error = error_of(lambda: transfer(path, pieces))  # noqa: B023  (called at once)
            assert isinstance(error, FileError)
            assert str(error).startswith(f"The file '{path}' cannot be {word}: ")

    def test_a_file_that_is_cut_short_is_an_error_on_all_ranks(self, folder: Path) -> None:
        comm = self.communicator()
        path = folder / "short"
        if comm.rank == 0:
            path.write_bytes(b"1" * 100)
        comm.barrier()
        pieces = [self.rows(comm, (80,), 0, np.float64)]
        error = error_of(lambda: comm.read_blocks(str(path), pieces))
        assert isinstance(error, FileError)
        assert str(error).startswith(f"The file '{path}' cannot be read: ")
