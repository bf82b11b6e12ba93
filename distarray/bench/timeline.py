"""What it costs to be watched: steps of the heat equation while events are recorded, beside the
same steps while nobody asks for them; and one piece of work that is only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from distarray import spans
from distarray.bench.heat import fields, stepped
from distarray.bench.table import Row
from distarray.bench.timing import Sizes, in_turn
from distarray.comm import Communicator

#: Largest ratio of steps that are recorded to steps that are not, and the longest time that it may
#: take to count a piece of work.
GATE, COUNTING_GATE = 1.03, 0.5e-6
_BYTES = 16
_CALLS = 1000
_REPEAT = 4


def rows(communicator: Communicator, sizes: Sizes) -> Iterator[Row]:
    """Two cubes in all, and one piece of work. Collective."""
    for n in (sizes.cells // 4, sizes.cells // 2):
        act = stepped(fields((n, n, n), communicator), sizes.steps, 1)
        acts = {"off": act, "on": _recorded(act)}
        # Short beside a slice of the processor's time: repeated, so that the median says something.
        found = in_turn(communicator, _REPEAT * sizes.repeat, acts)
        on, off = (found[name] / sizes.steps for name in ("on", "off"))
        what = f"heat {n}^3, a step, timeline on, off"
        yield Row("timeline", what, communicator.size, on, off, GATE, _BYTES * n**3)
    pair = in_turn(communicator, _REPEAT * sizes.repeat, {"pair": _counted})["pair"] / _CALLS
    yield Row("timeline", "a piece of work, counted", communicator.size, pair, gate=COUNTING_GATE)


def _recorded(act: Callable[[], object]) -> Callable[[], None]:
    def recorded() -> None:
        with spans.record():
            act()

    return recorded


def _counted() -> None:
    work = spans.tally("bench")
    for _ in range(_CALLS):
        spans.leave(work, spans.enter(work))
