"""Vector clocks: how much of each stream's work is known to come before something. Pure."""

from __future__ import annotations

#: For each stream, the number of its pieces of work that come before, in order of the streams.
Clock = tuple[int, ...]


def joined(first: Clock, second: Clock) -> Clock:
    """What is known when both are."""
    return tuple(map(max, first, second))


def with_count(clock: Clock, lane: int, count: int) -> Clock:
    """The clock with another count for one stream."""
    return (*clock[:lane], count, *clock[lane + 1 :])
