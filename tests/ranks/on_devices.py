"""What tests of the simulated device share: cases that are run on it and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distarray as da
from tests.ranks.bits import Array, same
from tests.ranks.common import SIZE

#: Over which cases are run: all that there are on two ranks; on more, where process grids are the
#: news, one on whose events the host waits and one that is work of streams alone.
TRANSPORTS = {1: ("auto",), 2: ("staged", "device", "host", "nccl")}.get(SIZE, ("staged", "nccl"))

#: Makes a grid on one device.
MakeGrid = Callable[..., da.Grid]
Results = dict[str, Any]


def simulated(transport: str) -> MakeGrid:
    return lambda *args, **options: da.Grid(
        *args, device="simulated", transport=transport, **options
    )


def on_all_devices(case: Callable[[MakeGrid], Results]) -> None:
    """What a case gives on the CPU, it gives on the device."""
    expected = case(lambda *args, **options: da.Grid(*args, device="cpu", **options))
    for transport in TRANSPORTS:
        found = case(simulated(transport))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            try:
                same(found[name], value)
            except AssertionError as error:
                raise AssertionError(f"{name} over {transport}: {error}") from error


def put(grid: da.Grid, values: Array, **options: Any) -> da.DistArray:
    array = grid.empty(values.dtype, **options)
    array[...] = values
    return array
