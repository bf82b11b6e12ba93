"""What kernels must do on every backend; part of `backend_contract`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distarray import exact
from distarray.backends.base import Backend
from distarray.geometry import AxisGeometry
from distarray.regions import Box
from distarray.stencil import language, tracing
from distarray.stencil.expression import ArrayParameter
from distarray.stencil.launch import ArrayView, LaunchGeometry


def numbers(shape: tuple[int, ...], dtype: Any = "f8", seed: int = 1) -> np.ndarray[Any, Any]:
    """Small numbers of both signs where the type has them, no two arrays of other seeds alike."""
    dtype = np.dtype(dtype)
    found = np.random.default_rng(seed).integers(0 if dtype.kind in ("b", "u") else -9, 10, shape)
    values = found.astype(dtype)
    return values + (1j * found[::-1]).astype(dtype) if dtype.kind == "c" and found.ndim else values


def address(array: Any) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.address


def traced(function: Any, arrays: dict[str, tuple[str, tuple[int, ...]]], **options: Any) -> Any:
    """A program of arrays, each given by its dtype and its components."""
    ndim = options.pop("ndim")
    parameters = [
        ArrayParameter(name, np.dtype(dtype), components, (False,) * ndim)
        for name, (dtype, components) in arrays.items()
    ]
    return tracing.trace(function, parameters, options.pop("scalars", {}), {}, ndim=ndim, **options)


class KernelContract:
    """The tests of kernels; a fixture `backend` gives a `Backend`."""

    def test_a_kernel_computes_boxes(self, backend: Backend) -> None:
        def spread(u, new, *, r):  # type: ignore[no-untyped-def]
            new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])

        program = traced(spread, {"u": ("f8", ()), "new": ("f8", ())}, ndim=2, scalars={"r": float})
        u, expected = numbers((9, 12)), np.zeros((9, 12))
        launch, (_, new) = self._bound(backend, program, [u, expected], halo=1)
        boxes = [Box((0, 0), (2, 10)), Box((2, 0), (7, 3)), Box((5, 3), (5, 9))]
        for r in (0.5, 0.25):
            launch.set_scalars([r])
            for box in boxes:
                launch.run(box)
                i, j = (slice(a + 1, b + 1) for a, b in zip(box.start, box.stop, strict=True))
                inner = u[1:-1, 1:-1]
                change = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner
                expected[i, j] = np.pad(inner + r * change, 1)[i, j]
            np.testing.assert_array_equal(backend.to_host(new), expected)

    def test_all_boxes_of_a_run_and_their_masks(self, backend: Backend) -> None:
        def two(u, first, second):  # type: ignore[no-untyped-def]
            first[0, 0] = u[0, 1] * 2
            second[1][0, 0] = u[0, -1] + 1
            second[0][0, 0] = u[0, 0]

        arrays = {"u": ("f4", ()), "first": ("f8", ()), "second": ("f4", (2,))}
        program = traced(two, arrays, ndim=2)
        u = numbers((6, 8), "f4")
        first, second = np.zeros((6, 8)), np.zeros((2, 6, 8), "f4")
        launch, (_, found, other) = self._bound(backend, program, [u, first, second], halo=1)
        launch.run_boxes(((Box((0, 0), (4, 2)), -1), (Box((0, 2), (2, 6)), 0b101)), 0)
        left, right = (slice(1, 5), slice(1, 3)), (slice(1, 3), slice(3, 7))
        for part in (left, right):
            first[part] = np.roll(u, -1, 1)[part] * 2
            second[0][part] = u[part]
        second[1][left] = np.roll(u, 1, 1)[left] + 1
        np.testing.assert_array_equal(backend.to_host(found), first)
        np.testing.assert_array_equal(backend.to_host(other), second)

    def test_colours_and_global_indices(self, backend: Backend) -> None:
        def mark(u):  # type: ignore[no-untyped-def]
            u[0, 0] = u[0, 0] + 100 * language.index(0) + language.index(1)

        program = traced(mark, {"u": ("f8", ())}, ndim=2, colours=2)
        values = np.zeros((5, 6))
        launch, (memory,) = self._bound(backend, program, [values], start=(3, 8))
        i, j = np.meshgrid(np.arange(5) + 3, np.arange(6) + 8, indexing="ij")
        for colour in (0, 1):
            launch.run(Box((0, 0), (5, 6)), -1, colour)
            values += np.where((i + j) % 2 == colour, 100 * i + j, 0)
            np.testing.assert_array_equal(backend.to_host(memory), values)

    def test_positions(self, backend: Backend) -> None:
        def place(u):  # type: ignore[no-untyped-def]
            u[0, 0] = language.coordinate("x") + 10 * language.coordinate("y", "y")

        program = traced(place, {"u": ("f8", ())}, ndim=2)
        axes = (AxisGeometry(8, 0.0, 1.0, False), AxisGeometry(16, -1.0, 1.0, False))
        launch, (memory,) = self._bound(
            backend, program, [np.zeros((4, 6))], start=(4, 2), axes=axes
        )
        launch.run(Box((0, 0), (4, 6)))
        x, y = (np.arange(4, 8) + 0.5) / 8, -1 + np.arange(2, 8) / 8
        np.testing.assert_allclose(
            backend.to_host(memory), x[:, None] + 10 * y, rtol=1e-15, atol=1e-15
        )

    def test_arrays_may_be_one(self, backend: Backend) -> None:
        def double(u, new):  # type: ignore[no-untyped-def]
            new[0] = u[0] * 2 + 1

        program = traced(double, {"u": ("f8", ()), "new": ("f8", ())}, ndim=1)
        values = numbers((300,))
        memory = backend.asarray(values.copy())
        views = [ArrayView(memory, (0,), (0,))] * 2
        launch = backend.bind(program, views, LaunchGeometry((0,), (300,), (False,), None))
        for _ in range(2):
            launch.run_boxes(((Box((0,), (300,)), -1),))
            values = values * 2 + 1
        np.testing.assert_array_equal(backend.to_host(memory), values)

    def test_arrays_may_have_steps(self, backend: Backend) -> None:
        def spread(u, new):  # type: ignore[no-untyped-def]
            new[0, 0] = u[0, 1] + 10 * u[1, 0]

        program = traced(spread, {"u": ("f8", ()), "new": ("f8", ())}, ndim=2)
        u, new = numbers((6, 14)), np.zeros((5, 8))
        given, taken = backend.asarray(u), backend.asarray(new.copy())
        views = [
            ArrayView(given[:, ::2], (0, 0), (0, 0)),
            ArrayView(taken[:, ::-1], (0, 0), (0, 0)),
        ]
        launch = backend.bind(program, views, LaunchGeometry((0, 0), (5, 6), (False,) * 2, None))
        launch.run(Box((0, 0), (5, 6)))
        seen = u[:, ::2]
        new[:, ::-1][:, :6] = seen[:5, 1:] + 10 * seen[1:, :6]
        np.testing.assert_array_equal(backend.to_host(taken), new)

    @pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
    def test_reductions(self, backend: Backend, dtype: str) -> None:
        def ends(u):  # type: ignore[no-untyped-def]
            return (
                language.reduce.sum(u[0, 0]),
                language.reduce.min(u[0, 0]),
                language.reduce.max(u[0, 0]),
            )

        program = traced(ends, {"u": (dtype, ())}, ndim=2)
        u = numbers((40, 70), dtype)
        launch, (memory,) = self._bound(backend, program, [u])
        boxes = ((Box((0, 0), (11, 70)), -1), (Box((11, 0), (40, 33)), -1))
        for shift in (0, 1):
            memory[...] = u + np.asarray(shift, dtype)
            launch.reset_reductions()
            launch.run_boxes(boxes)
            launch.run(Box((11, 33), (40, 70)))
            total, low, high = launch.partials()
            taken = u.astype("f8") + shift
            assert total.tolist() == [taken.sum()]
            assert low.tolist() == [taken.min(), 0]
            assert high.tolist() == [taken.max(), 0]

    def test_extrema_of_nan(self, backend: Backend) -> None:
        def low(u):  # type: ignore[no-untyped-def]
            return language.reduce.min(u[0])

        u = np.array([3.0, np.nan, -2.0, np.inf, 5.0])
        launch, _ = self._bound(backend, traced(low, {"u": ("f8", ())}, ndim=1), [u])
        launch.reset_reductions()
        launch.run(Box((2,), (5,)))
        assert launch.partials()[0].tolist() == [-2.0, 0.0]
        launch.run(Box((0,), (2,)))
        assert launch.partials()[0].tolist() == [-2.0, 1.0]

    def test_sums_of_complex_numbers(self, backend: Backend) -> None:
        def total(u):  # type: ignore[no-untyped-def]
            return language.reduce.sum(u[0])

        u = numbers((500,), "c16")
        launch, _ = self._bound(backend, traced(total, {"u": ("c16", ())}, ndim=1), [u])
        launch.reset_reductions()
        launch.run_boxes(((Box((0,), (500,)), -1),))
        assert launch.partials()[0].tolist() == [u.sum()]

    @pytest.mark.parametrize("dtype", ["f8", "c16"])
    def test_exact_sums(self, backend: Backend, dtype: str) -> None:
        def total(u):  # type: ignore[no-untyped-def]
            return language.reduce.sum(u[0], reproducible=True)

        rng = np.random.default_rng(2)
        u = (rng.standard_normal(700) * 2.0 ** rng.integers(-40, 40, 700)).astype(dtype)
        u = u * (1 + 2j) if dtype == "c16" else u
        launch, _ = self._bound(backend, traced(total, {"u": (dtype, ())}, ndim=1), [u])
        results = []
        for boxes in ([(0, 700)], [(0, 1), (1, 350), (350, 700)]):
            launch.reset_reductions()
            launch.run_boxes(tuple((Box((a,), (b,)), -1) for a, b in boxes))
            results.append(exact.total(launch.partials()[0]))
        parts = [u.real, u.imag] if dtype == "c16" else [u]
        expected = [float(sum(map(_fraction, part.tolist()))) for part in parts]
        assert [complex(r) for r in results] == [complex(*expected)] * 2

    def _bound(
        self,
        backend: Backend,
        program: Any,
        arrays: list[Any],
        *,
        halo: int = 0,
        start: tuple[int, ...] | None = None,
        axes: Any = None,
    ) -> Any:
        """A launch on blocks that hold these values, and their memory."""
        ndim = program.ndim
        start = start or (0,) * ndim
        memories = []
        for values in arrays:
            shape = values.shape[values.ndim - ndim :]
            components = values.shape[: values.ndim - ndim]
            memory = backend.allocate(components, shape, (halo,) * ndim, values.dtype)
            memory[...] = values
            memories.append(memory)
        views = [ArrayView(memory, (halo,) * ndim, start) for memory in memories]
        cells = tuple(n + s for n, s in zip(memories[0].shape[-ndim:], start, strict=True))
        geometry = LaunchGeometry(
            start, tuple(a.cells for a in axes) if axes else cells, (False,) * ndim, axes
        )
        return backend.bind(program, views, geometry), memories


def _fraction(value: float) -> Any:
    from fractions import Fraction

    return Fraction(value)
