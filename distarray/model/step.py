"""The time of a step. Pure.

    step = call + pack + max(core, exchange) + unpack + remainder + reductions

where devices of their own move messages (`overlap` 1), and core + exchange in place of the larger
where the cores that compute do (`overlap` 0). For each kind of link

    exchange = latency + overhead * messages + bytes / bandwidth,

of which the longer counts: both kinds are under way at once. Packing and unpacking move each byte
of a message once, and each strip of an array in whole lines of memory, at its speed: a face across
the last axis, whose values lie apart, takes many times its bytes. So do copies of a rank from
itself. A reduction takes the latencies of a tree over the ranks of a node and then over nodes
(Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH":
recursive doubling).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from distarray.decomposition import Decomposition
from distarray.model.machine import Machine
from distarray.model.traffic import Loop, Traffic, sampled, traffic


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step of one rank, and what they are made of."""

    call: float
    pack: float
    core: float
    exchange: float
    remainder: float
    reductions: float
    overlap: float

    @property
    def hidden(self) -> float:
        """Seconds of the exchange that pass while the core is computed."""
        return self.overlap * min(self.core, self.exchange)

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        parts = (self.call, self.pack, self.core, self.exchange, self.remainder, self.reductions)
        return sum(parts) - self.hidden


def step_time(loop: Loop, work: Traffic, machine: Machine, size: int) -> StepTime:
    """The time of one rank's step among `size` ranks. Local."""
    speed = machine.speed(work.memory)
    per_cell = loop.bytes_per_cell / (machine.share * speed)
    moved = sum(nbytes for _, nbytes in (*work.sends, *work.receives))
    lines = sum(count * -(-nbytes // machine.line) for count, nbytes in work.strips)
    return StepTime(
        call=machine.call,
        pack=(moved + lines * machine.line) / speed,
        core=work.core * per_cell,
        exchange=max(_exchange(work, machine, kind) for kind in ("intra", "inter")),
        remainder=work.remainder * per_cell,
        reductions=loop.reductions * reduction_time(machine, size),
        overlap=machine.overlap,
    )


def _exchange(work: Traffic, machine: Machine, kind: str) -> float:
    """The time of the messages over one kind of link, in whichever direction has more bytes."""
    link = machine.intra if kind == "intra" else machine.inter
    both = [
        [nbytes for other, nbytes in messages if machine.link(work.rank, other) == kind]
        for messages in (work.sends, work.receives)
    ]
    if not any(both):
        return 0.0
    count = max(map(len, both))
    return link.latency + machine.overhead * count + max(map(sum, both)) / link.bandwidth


def reduction_time(machine: Machine, size: int) -> float:
    """Seconds of a sum of few numbers over all ranks. Local."""
    within = min(size, machine.ranks_per_node)
    nodes = -(-size // machine.ranks_per_node)
    return (
        math.ceil(math.log2(within)) * machine.intra.latency
        + math.ceil(math.log2(nodes)) * machine.inter.latency
    )


def slowest(loop: Loop, decomposition: Decomposition, machine: Machine) -> tuple[Traffic, StepTime]:
    """The rank that takes longest, of all or of a sample, for which the others wait. Local."""
    timed = [
        (work, step_time(loop, work, machine, decomposition.size))
        for work in (traffic(loop, decomposition, r) for r in sampled(decomposition.size))
    ]
    return max(timed, key=lambda pair: pair[1].seconds)
