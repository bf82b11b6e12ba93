"""Fields of random values, and what tests of expressions ask of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import distarray as da
from distarray import elementwise, spans
from distarray.fused import executor

SHAPE = (9, 11)


@pytest.fixture(params=["in pieces", "compiled"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small arrays are put off like large ones, and computed by NumPy or by compiled code."""
    monkeypatch.setattr(elementwise, "LEAST_SIZE", 1)
    monkeypatch.setattr(elementwise, "LEAST_ROW", 1)
    enough = -1 if request.param == "compiled" else 1 << 62
    monkeypatch.setattr(executor, "CELLS_BEFORE_COMPILING", enough)
    monkeypatch.setattr(executor, "_seen", _Seen() if request.param == "compiled" else {})
    return str(request.param)


class _Seen(dict[Any, tuple[int, int]]):
    """Every form was seen before."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key, (1, 0))


@pytest.fixture
def grid() -> da.Grid:
    return da.Grid(SHAPE, periodic=True)


def field(grid: da.Grid, dtype: str = "float64", seed: int = 0, components: Any = ()) -> Any:
    """An array of random values, and the values."""
    random = np.random.default_rng(seed)
    values = random.integers(-3, 4, (*components, *grid.shape)) * (0.5 if dtype[0] == "f" else 1)
    u = grid.zeros(dtype, components=components)
    u[...] = values.astype(dtype)
    return u, values.astype(dtype)


def passes(run: Callable[[], Any]) -> list[int]:
    """Over how many cells each pass was that a call made."""
    with spans.record() as recording:
        run()
    return [event.tally.cells for event in recording.named("expression")]


def waits(u: da.DistArray) -> bool:
    return u.block.deferred is not None


def same(found: da.DistArray, expected: Any) -> None:
    assert found.dtype == expected.dtype
    values = found.gather()
    assert_array_equal(values, expected)
    if expected.dtype.kind == "f":
        signs = ~np.isnan(expected)
        assert_array_equal(np.signbit(values)[signs], np.signbit(expected)[signs])
