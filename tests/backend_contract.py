"""What every backend must do. Inherited by the test of each device, which sets `backend` only.

Expected values come from NumPy on host arrays that never were on the device.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from distarray.backends import processor
from distarray.backends.base import Backend, BoxCopy
from distarray.errors import ArrayError, BackendError
from distarray.regions import Box
from tests.kernel_contract import KernelContract, address, numbers, traced

LINE = 64
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16")
INDICES = (
    (1,), (-1, 2), (slice(1, 3),), (Ellipsis, slice(None, None, 2)), (slice(None, None, -1), 1),
    (1, 2, 3), (None, Ellipsis, 0), (slice(2, 0, -1), slice(1, None, 3), None), (slice(3, 3),),
)  # fmt: skip


class BackendContract(KernelContract):
    """The tests; a fixture `backend` gives a `Backend`."""

    # ---- memory

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_allocated_memory_is_zero(self, backend: Backend, dtype: str) -> None:
        memory = backend.allocate((2,), (5, 7), (1, 2), np.dtype(dtype))
        assert (memory.shape, memory.dtype) == ((2, 5, 7), np.dtype(dtype))
        np.testing.assert_array_equal(backend.to_host(memory), np.zeros((2, 5, 7), dtype))

    @pytest.mark.parametrize("components", [(), (3,), (2, 2)])
    @pytest.mark.parametrize("shape", [(9,), (1, 1), (6, 130), (3, 4, 5), (2, 2, 2, 67)])
    def test_elements_of_allocated_memory_are_apart(
        self, backend: Backend, components: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        memory = backend.allocate(components, shape, (1,) * len(shape), np.dtype("f4"))
        places = np.zeros(memory.shape, np.int64)
        for axis, (extent, stride) in enumerate(zip(memory.shape, memory.strides, strict=True)):
            places += (np.arange(extent) * stride).reshape(
                [-1 if a == axis else 1 for a in range(memory.ndim)]
            )
        apart = np.diff(np.unique(places))
        assert len(apart) == memory.size - 1
        assert not apart.size or apart.min() >= 4
        assert memory.strides[-1] == 4

    @pytest.mark.parametrize(("halo", "dtype"), [(0, "f8"), (1, "f8"), (3, "f4"), (2, "c16")])
    def test_rows_start_lines(self, backend: Backend, halo: int, dtype: str) -> None:
        memory = backend.allocate((2,), (4, 21), (halo, halo), np.dtype(dtype))
        first = address(memory)
        assert 0 in (first % LINE, (first + halo * memory.itemsize) % LINE)
        if not backend.host or processor.fills_lines():
            assert all(stride % LINE == 0 for stride in memory.strides[:-1])

    @pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
    def test_memory_may_be_empty(self, backend: Backend, shape: tuple[int, ...]) -> None:
        for memory in (
            backend.allocate((), shape, (0,) * len(shape), np.dtype("f8")),
            backend.empty(shape, "f8"),
            backend.asarray(np.empty(shape)),
        ):
            assert memory.shape == shape
            assert backend.to_host(memory).shape == shape
            memory[...] = 1.0

    def test_buffers_are_bytes_in_a_row(self, backend: Backend) -> None:
        buffer = backend.buffer(40)
        assert (buffer.shape, buffer.dtype, buffer.strides) == ((40,), np.uint8, (1,))
        buffer[8:24].view(np.float64).reshape((1, 2))[...] = 2.5
        expected = np.zeros(40, np.uint8)
        expected[8:24].view(np.float64)[...] = 2.5
        np.testing.assert_array_equal(backend.to_host(buffer), expected)

    def test_pinned_memory_belongs_to_the_host(self, backend: Backend) -> None:
        pinned = backend.pinned(24)
        pinned[...] = 7
        assert isinstance(pinned, np.ndarray)
        assert (pinned.shape, pinned.dtype, pinned.sum()) == ((24,), np.uint8, 168)

    # ---- to the device and back

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values_come_back(self, backend: Backend, dtype: str) -> None:
        for values in (numbers((3, 4), dtype), numbers((6, 5), dtype)[::2, ::-1]):
            found = backend.to_host(backend.asarray(values))
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)

    def test_a_number_is_an_array_of_no_axes(self, backend: Backend) -> None:
        found = backend.to_host(backend.asarray(np.array(2.5)))
        assert (found.shape, found[()]) == ((), 2.5)

    @pytest.mark.parametrize("index", INDICES, ids=str)
    def test_views_select_as_numpy_does(self, backend: Backend, index: Any) -> None:
        values = numbers((4, 5, 6))
        memory = backend.allocate((), values.shape, (1, 1, 1), values.dtype)
        memory[...] = backend.asarray(values)
        np.testing.assert_array_equal(backend.to_host(memory[index]), values[index])

    @pytest.mark.parametrize("index", INDICES, ids=str)
    def test_assignment_writes_as_numpy_does(self, backend: Backend, index: Any) -> None:
        expected, memory = numbers((4, 5, 6)), backend.asarray(numbers((4, 5, 6)).copy())
        part = numbers(expected[index].shape, seed=2)
        expected[index], memory[index] = part, part
        np.testing.assert_array_equal(backend.to_host(memory), expected)
        expected[index], memory[index] = 3, 3
        np.testing.assert_array_equal(backend.to_host(memory), expected)

    @pytest.mark.parametrize(("source", "target"), [("f8", "f4"), ("f8", "i4"), ("i8", "c16")])
    def test_assignment_casts_and_broadcasts(
        self, backend: Backend, source: str, target: str
    ) -> None:
        row, expected = numbers((5,), source), numbers((3, 5), target)
        memory = backend.asarray(expected.copy())
        expected[...], memory[...] = row, backend.asarray(row)
        np.testing.assert_array_equal(backend.to_host(memory), expected)

    def test_assignment_within_one_array(self, backend: Backend) -> None:
        expected = numbers((6, 4))
        memory = backend.asarray(expected.copy())
        expected[1:], memory[1:] = expected[:-1].copy(), memory[:-1]
        np.testing.assert_array_equal(backend.to_host(memory), expected)
        expected[...], memory[...] = expected[::-1].copy(), memory[::-1]
        np.testing.assert_array_equal(backend.to_host(memory), expected)

    @pytest.mark.parametrize("named", ["compute", "communication"])
    def test_transfers_are_work_of_a_stream(self, backend: Backend, named: str) -> None:
        stream, given = getattr(backend, named), backend.event()
        values = numbers((32,), "u1")
        pinned, back = backend.pinned(32), backend.pinned(32)
        pinned[...] = values
        memory = backend.buffer(32)
        backend.compute.record(given)
        stream.wait(given)
        backend.begin_to_device(pinned, memory, stream)
        backend.begin_to_host(memory, back, stream)
        done = backend.event()
        stream.record(done)
        done.synchronize()
        backend.host_access(back, write=False, what="the test")
        assert done.done()
        np.testing.assert_array_equal(back, values)

    # ---- copies

    @pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_faces_are_packed_and_unpacked(self, backend: Backend, axis: int, dtype: str) -> None:
        values = numbers((2, 5, 6, 7), dtype)
        memory = backend.allocate((2,), values.shape[1:], (1, 1, 1), values.dtype)
        memory[...] = backend.asarray(values)
        low = (slice(None), *(slice(1, 2) if a == axis else slice(1, -1) for a in range(3)))
        high = (slice(None), *(slice(-1, None) if a == axis else slice(1, -1) for a in range(3)))
        buffer = backend.buffer(values[low].nbytes)
        packed = buffer.view(values.dtype).reshape(values[low].shape)
        backend.prepare_copies([BoxCopy(memory[low], packed)])()
        np.testing.assert_array_equal(backend.to_host(packed), values[low])
        backend.prepare_copies([BoxCopy(packed, memory[high])])()
        values[high] = values[low]
        np.testing.assert_array_equal(backend.to_host(memory), values)

    def test_many_copies_at_once_many_times(self, backend: Backend) -> None:
        shape = (7, 8, 9)
        fields = [numbers(shape, dtype, seed) for seed, dtype in enumerate(("f8", "f4", "u1"))]
        memories = [backend.allocate((), shape, (1, 1, 1), field.dtype) for field in fields]
        boxes = [
            tuple({-1: slice(0, 2), 0: slice(2, -2), 1: slice(-2, None)}[d] for d in direction)
            for direction in itertools.product((-1, 0, 1), repeat=3)
        ]
        parts = [
            (memory[box], backend.empty(field[box].shape, field.dtype))
            for memory, field in zip(memories, fields, strict=True)
            for box in boxes
        ]
        pack = backend.prepare_copies([BoxCopy(*pair) for pair in parts])
        for change in (0, 1):
            for memory, field in zip(memories, fields, strict=True):
                field[...] += change
                memory[...] = field
            pack()
            expected = [field[box] for field in fields for box in boxes]
            for (_, packed), values in zip(parts, expected, strict=True):
                np.testing.assert_array_equal(backend.to_host(packed), values)

    @pytest.mark.parametrize("seed", range(6))
    def test_boxes_of_any_steps_are_copied(self, backend: Backend, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shape, part = rng.integers(4, 9, 5), rng.integers(1, 4, 5)
        sides = []
        for number in (1, 2):
            values = numbers(tuple(shape), "f4", number)
            first, step = rng.integers(0, 2, 5), rng.choice([-1, 1], 5)
            index = tuple(
                slice(f, f + n) if s > 0 else slice(f + n - 1, f - 1 if f else None, -1)
                for f, n, s in zip(first, part, step, strict=True)
            )
            sides.append((values, index))
        (source, here), (target, there) = sides
        order = tuple(rng.permutation(5))
        given, taken = backend.asarray(source), backend.asarray(target.copy())
        there = tuple(slice(0, n) for n in part[list(order)])
        copy = BoxCopy(given[here].transpose(order), taken[there])
        backend.prepare_copies([copy])()
        target[there] = source[here].transpose(order)
        np.testing.assert_array_equal(backend.to_host(taken), target)

    def test_copies_are_made_as_if_in_order(self, backend: Backend) -> None:
        values = numbers((4, 6))
        memory = backend.asarray(values.copy())
        copies = [BoxCopy(memory[n], memory[n + 1]) for n in range(3)]
        backend.prepare_copies(copies)()
        np.testing.assert_array_equal(backend.to_host(memory), np.tile(values[0], (4, 1)))

    def test_nothing_to_copy(self, backend: Backend) -> None:
        backend.prepare_copies([])()
        empty = backend.empty((0, 3), "f8")
        backend.prepare_copies([BoxCopy(empty, backend.empty((0, 3), "f8"))])(backend.compute)

    def test_sides_of_a_copy_must_agree(self, backend: Backend) -> None:
        one = backend.empty((2, 3), "f8")
        for other in (backend.empty((3, 2), "f8"), backend.empty((2, 3), "f4")):
            with pytest.raises(BackendError, match="both sides must agree"):
                backend.prepare_copies([BoxCopy(one, other)])

    def test_copies_follow_the_events_of_other_streams(self, backend: Backend) -> None:
        compute, communication = backend.compute, backend.communication
        field, packed = backend.asarray(np.zeros((50, 60))), backend.empty((50,), "f8")
        copies = backend.prepare_copies([BoxCopy(field[:, 3], packed)])
        ready, done = backend.event(), backend.event()
        for value in (1.0, 2.0):
            field[...] = value
            compute.record(ready)
            communication.wait(ready)
            copies(communication)
            communication.record(done)
            compute.wait(done)
            np.testing.assert_array_equal(backend.to_host(packed), np.full(50, value))

    # ---- elementwise functions

    @pytest.mark.parametrize(
        "function",
        [np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum, np.less,
         np.equal, np.arctan2, np.copysign],
        ids=lambda f: f.__name__,
    )  # fmt: skip
    @pytest.mark.parametrize(("one", "other"), [("f8", "f8"), ("f4", "f8"), ("i4", "f4")])
    def test_functions_of_two_arrays(
        self, backend: Backend, function: np.ufunc, one: str, other: str
    ) -> None:
        x, y = numbers((4, 5), one), numbers((4, 5), other, 2)
        with np.errstate(all="ignore"):
            expected = function(x, y)
        target = backend.empty(expected.shape, expected.dtype)
        backend.prepare_map(function, [backend.asarray(x), backend.asarray(y)], target)()
        np.testing.assert_array_max_ulp(
            *(v.astype("f4" if expected.dtype == "f4" else "f8")
              for v in (backend.to_host(target), expected)),
            maxulp=2 if function is np.arctan2 else 0,
        )  # fmt: skip

    @pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4", "f8", "c8", "c16"])
    def test_numbers_have_the_types_that_numpy_gives_them(
        self, backend: Backend, dtype: str
    ) -> None:
        values = numbers((3, 7), dtype)
        for number in (2, 2.5, np.float32(0.1), np.int16(3)):
            expected = np.multiply(values, number)
            target = backend.empty(expected.shape, expected.dtype)
            backend.prepare_map(np.multiply, [number, backend.asarray(values)], target)()
            np.testing.assert_array_equal(backend.to_host(target), expected)

    def test_operands_broadcast_and_have_any_steps(self, backend: Backend) -> None:
        column, row, cube = numbers((5, 1)), numbers((6,), "f4"), numbers((4, 5, 6))
        expected = np.empty((4, 5, 6))
        target = backend.allocate((), (6, 7, 8), (1, 1, 1), np.dtype("f8"))[1:-1, 1:-1, 1:-1]
        add = backend.prepare_map(np.add, map(backend.asarray, (column, row)), target)
        add()
        np.testing.assert_array_equal(backend.to_host(target), np.add(column, row, expected))
        flipped = backend.asarray(cube)[::-1, :, ::-1]
        backend.prepare_map(np.subtract, [target, flipped], target)()
        expected -= cube[::-1, :, ::-1]
        np.testing.assert_array_equal(backend.to_host(target), expected)

    def test_a_prepared_function_sees_what_its_operands_hold_then(self, backend: Backend) -> None:
        x, total = backend.asarray(np.zeros(9)), backend.asarray(np.zeros(9))
        add = backend.prepare_map(np.add, [total, x], total)
        for value in range(1, 4):
            x[...] = value
            add()
        np.testing.assert_array_equal(backend.to_host(total), np.full(9, 6.0))

    def test_functions_without_a_kernel(self, backend: Backend) -> None:
        z, n = numbers((3, 4), "c16"), abs(numbers((3, 4), "i8"))
        root, power = backend.empty((3, 4), "c16"), backend.empty((3, 4), "i8")
        backend.prepare_map(np.sqrt, [backend.asarray(z)], root)()
        backend.prepare_map(np.power, [backend.asarray(n), backend.asarray(n)], power)()
        np.testing.assert_allclose(backend.to_host(root), np.sqrt(z), rtol=1e-14)
        np.testing.assert_array_equal(backend.to_host(power), n**n)

    @pytest.mark.parametrize("function", [np.add, np.copyto])
    def test_masks_leave_the_rest_alone(self, backend: Backend, function: Any) -> None:
        x, kept = numbers((6, 5)), numbers((6, 5), seed=3)
        mask = numbers((6, 5), seed=4) > 0
        expected, target = kept.copy(), backend.asarray(kept.copy())
        operands = [x, 2.0] if function is np.add else [x]
        given = [backend.asarray(o) if isinstance(o, np.ndarray) else o for o in operands]
        call = backend.prepare_map(function, given, target, where=backend.asarray(mask))
        call()
        expected[mask] = (x + 2.0 if function is np.add else x)[mask]
        np.testing.assert_array_equal(backend.to_host(target), expected)

    def test_conversions_follow_numpy(self, backend: Backend) -> None:
        reals = np.array([0.0, -0.0, 0.4, -1.6, 1e6, -7.5, np.nan, np.inf])
        for values, dtype in [
            (reals, "f4"), (reals, "c8"), (reals, "?"), (reals[:6], "i8"),
            (np.arange(-200, 200, 7), "i1"), (np.arange(-200, 200, 7), "u2"),
            (numbers((9,), "?"), "f8"),
        ]:  # fmt: skip
            target = backend.empty(values.shape, dtype)
            with np.errstate(all="ignore"):
                target[...] = backend.asarray(values)
                np.testing.assert_array_equal(backend.to_host(target), values.astype(dtype))

    def test_functions_of_single_elements_and_of_none(self, backend: Backend) -> None:
        x, none = backend.asarray(np.array(3.0)), backend.empty((0, 2), "f8")
        backend.prepare_map(np.negative, [x], x)()
        assert backend.to_host(x)[()] == -3.0
        backend.prepare_map(np.negative, [none], none)()

    # ---- streams and graphs

    def test_streams_have_names_and_can_be_waited_for(self, backend: Backend) -> None:
        memory, event = backend.asarray(np.zeros(5)), backend.event()
        for stream in (backend.compute, backend.communication):
            assert isinstance(stream.name, str)
            event.synchronize()  # nothing was recorded, or all of it is done
            memory += 1.0
            backend.compute.record(event)
            stream.wait(event)
            stream.synchronize()
            assert event.done()
        np.testing.assert_array_equal(backend.to_host(memory), np.full(5, 2.0))

    def test_captured_work_is_done_by_each_launch_of_its_graph(self, backend: Backend) -> None:
        def step(u, new, *, r):  # type: ignore[no-untyped-def]
            new[0] = u[0] * r

        program = traced(step, {"u": ("f8", ()), "new": ("f8", ())}, ndim=1, scalars={"r": float})
        launch, (u, new) = self._bound(backend, program, [np.ones(8), np.zeros(8)])
        back = backend.prepare_copies([BoxCopy(new, u)])
        add = backend.prepare_map(np.add, [u, 1.0], u)
        box = ((Box((0,), (8,)), -1),)
        launch.set_scalars([3.0])

        def work() -> None:
            launch.run_boxes(box)
            back()
            add()

        work()
        value = 1.0 * 3 + 1
        if not backend.begin_capture():
            with pytest.raises(BackendError):
                backend.end_capture()
            return
        work()
        graph = backend.end_capture()
        np.testing.assert_array_equal(backend.to_host(u), np.full(8, value))
        for r in (3.0, 5.0):
            launch.set_scalars([r])
            for _ in range(2):
                graph.launch(backend.compute)
                value = value * r + 1
            np.testing.assert_array_equal(backend.to_host(u), np.full(8, value))

    # ---- the host

    def test_functions_of_the_host(self, backend: Backend) -> None:
        function = backend.load("void twice(long *x) { *x *= 2; }\n", "twice")
        value = ctypes.c_long(21)
        if function is not None:
            function(ctypes.byref(value))
            assert value.value == 42

    def test_message_buffers_are_known_to_the_host(self, backend: Backend) -> None:
        buffer = backend.buffer(64)
        backend.compute.synchronize()
        backend.host_access(buffer, write=False, what="send")
        assert backend.message_memory(buffer) is not None

    def test_what_does_not_fit_is_refused(self, backend: Backend) -> None:
        target = backend.empty((2, 3), "f8")
        with pytest.raises((ArrayError, ValueError)):
            target[...] = np.zeros((4,))
        with pytest.raises(TypeError):
            backend.prepare_map(np.bitwise_and, [target, target], target)()
