"""Process grids of arrays that are smaller than the number of ranks, found in few steps."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distarray.arguments import fewer_ranks
from distarray.decomposition import _divisors, factorisations
from distarray.placement import pencil_ranks
from tests.lines_run import lines_run

RANKS = 10_000
STEPS = 20_000  # one line of Python each; to try every number of ranks takes millions


@pytest.mark.parametrize(
    ("shape", "most"),
    [((8, 8, 8), 512), ((3,), 3), ((0, 4), 4), ((97, 103), 9991), ((10_007,), RANKS), ((1,), 1)],
)
def test_small_arrays_on_many_ranks(shape: tuple[int, ...], most: int) -> None:
    _divisors.cache_clear()
    assert lines_run(lambda: fewer_ranks(shape, RANKS)) < STEPS
    assert math.prod(fewer_ranks(shape, RANKS)) == most


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(8, 8, 8), (4, 2, 3), (100, 100, 100), (97, 103, 5), (9, 1, 1)])
def test_pencils_of_small_arrays_on_many_ranks(shape: tuple[int, ...], axis: int) -> None:
    _divisors.cache_clear()
    assert lines_run(lambda: pencil_ranks(shape, (1, 1, 1), RANKS, (axis,))) < STEPS
    found = pencil_ranks(shape, (1, 1, 1), RANKS, (axis,))
    others = math.prod(shape) // shape[axis]
    assert found[axis] == 1
    assert math.prod(found) == others if others <= RANKS else math.prod(found) <= RANKS


@given(st.integers(1, 60), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_factorisations_are_those_of_all_tuples(number: int, most: list[int]) -> None:
    every = [
        factors
        for factors in product(*(range(1, n + 1) for n in most))
        if math.prod(factors) == number
    ]
    assert list(factorisations(number, len(most), most)) == every


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 40))
def test_as_many_ranks_as_fit(shape: list[int], size: int) -> None:
    chosen = fewer_ranks(tuple(shape), size)
    fitting = [math.prod(g) for g in product(*(range(1, n + 1) for n in shape))]
    assert math.prod(chosen) == max(n for n in fitting if n <= size)
