"""The core is computed while messages are under way: a step takes the longer of both, not the sum.

Time is counted, not measured. A delivery needs a number of polls. Computing one tile of the core
takes one unit, since the library polls once after each; a poll that waiting has to make takes one
unit too.
"""

from __future__ import annotations

from typing import Any

import distarray as da
from distarray import spans
from distarray.kernels.plan import ApplyPlan
from distarray.testing import WatchedCommunicator
from tests.ranks.bits import advanced, put, random_values, same

RANKS = (2,)

#: Large enough for several tiles on each rank.
SHAPE = (64, 8192)


@da.stencil
def diffuse(u: Any, new: Any, *, r: float) -> None:
    new[0, 0] = u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4.0 * u[0, 0])


def logged(plan: ApplyPlan, log: list[str]) -> None:
    """Note every launch: "tile" in the core, "edge" elsewhere, "block" for all at once."""
    launch = plan._launch.run
    parts = {"tile": plan.core, "edge": plan.remainder, "block": plan.whole}
    names = {box: name for name, boxes in parts.items() for box, _ in boxes}

    def run(box: Any, mask: int = -1, colour: int = 0) -> None:
        log.append(names[box])
        launch(box, mask, colour)

    plan._launch.run = run  # type: ignore[method-assign]


def prepared(polls: int) -> tuple[WatchedCommunicator, da.DistArray, da.DistArray, int]:
    """Arrays whose deliveries take `polls`, and the number of core tiles."""
    watcher = WatchedCommunicator(polls=polls)
    grid = da.Grid(SHAPE, periodic=True, ranks=(2, 1), comm=watcher)
    u = put(grid, random_values(*SHAPE))
    new = grid.empty_like(u)
    plan, _ = diffuse.prepare([u, new], {"r": 0.1})
    logged(plan, watcher.log)
    return watcher, u, new, len(plan.core)


def units(log: list[str], tiles: int) -> int:
    """What a step took: computing (a block is as much as its tiles) and polls of a wait."""
    return log.count("tile") + log.count("wait") + tiles * log.count("block")


def test_a_step_takes_the_longer_of_computing_and_delivery() -> None:
    tiles = prepared(0)[-1]
    assert tiles >= 4
    for polls in (tiles // 2, tiles, tiles + 5):
        watcher, u, new, _ = prepared(polls)
        watcher.clear()
        diffuse.apply(u, new, r=0.1, overlap=True)
        assert units(watcher.log, tiles) == max(tiles, polls)
        u += 0.0
        watcher.clear()
        diffuse.apply(u, new, r=0.1, overlap=False)
        assert units(watcher.log, tiles) == tiles + polls


def test_the_core_lies_between_begin_and_finish() -> None:
    watcher, u, new, tiles = prepared(3)
    watcher.clear()
    with spans.record() as recording:
        diffuse.apply(u, new, r=0.1, overlap=True)
    edges = watcher.log.count("edge")
    assert watcher.log == ["start", *["tile", "poll"] * tiles, "done", *["edge"] * edges]
    assert edges
    (core,), (rest,) = recording.named("core"), recording.named("remainder")
    assert core.end <= rest.start
    same(new, advanced(diffuse, random_values(*SHAPE), 1, (None, None), r=0.1))


def test_without_overlap_nothing_is_computed_before_the_halo_is_there() -> None:
    watcher, u, new, _ = prepared(3)
    watcher.clear()
    with spans.record() as recording:
        diffuse.apply(u, new, r=0.1, overlap=False)
    assert watcher.log == ["start", "wait", "wait", "wait", "done", "block"]
    assert not recording.named("core")
    same(new, advanced(diffuse, random_values(*SHAPE), 1, (None, None), r=0.1))


def test_late_messages_are_waited_for() -> None:
    watcher, u, new, tiles = prepared(tiles_and_more := 50)
    expected = advanced(diffuse, random_values(*SHAPE), 2, (None, None), r=0.1)
    watcher.clear()
    same(da.iterate(diffuse, u, new, steps=2, r=0.1), expected)
    assert watcher.log.count("poll") + watcher.log.count("wait") == 2 * tiles_and_more
    assert tiles < tiles_and_more


def test_the_way_is_chosen_by_measuring() -> None:
    """Both ways are tried in the first calls, then one is kept; the values stay the same."""
    watcher, u, new, _ = prepared(0)
    plan, _ = diffuse.prepare([u, new], {"r": 0.1})
    used = set()
    for _ in range(12):
        u += 0.0
        watcher.clear()
        diffuse(u, new, r=0.1)
        used.add("tile" in watcher.log)
    assert used == {True, False}
    assert plan._choice.decided in (True, False)
    same(new, advanced(diffuse, random_values(*SHAPE), 1, (None, None), r=0.1))
