"""What the model knows of a machine. Pure.

The two machines with names hold what vendors publish, and assumptions where they publish nothing.

`h100-ndr`, eight GPUs a node, as in NVIDIA's DGX H100 (datasheets of the DGX H100 and the H100):
HBM3 of 3.35 TB/s; NVLink 4 with 900 GB/s a GPU, both directions together, hence 450 GB/s each way;
one ConnectX-7 for InfiniBand NDR a GPU, 400 Gb/s, hence 50 GB/s each way.

`a100-slingshot11`, four GPUs a node, as in NERSC's Perlmutter ("Perlmutter architecture",
docs.nersc.gov; A100 datasheet, 40 GB): HBM2 of 1.555 TB/s; four links of NVLink 3 between each pair
of GPUs, 25 GB/s each way and link, hence 100 GB/s; one HPE Slingshot-11 adapter a GPU, 200 Gb/s,
hence 25 GB/s each way. Its switches take 350 ns, of which a way has at most three between switches
(De Sensi et al. 2020, "An in-depth analysis of the Slingshot interconnect").

Memory is read and written in sectors of 32 bytes. Assumed for both: a kernel has 80 % of the
memory's speed; a message between GPUs, with the software that starts it, takes 4 us in a node and 6
us between nodes, and the host 1 us to start it; the kernels of a step take 10 us to launch; all of
the exchange can be hidden behind the core.
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from distarray.errors import FileError


@dataclass(frozen=True)
class Link:
    """The way between two ranks.

    Attributes
    ----------
    latency : float
        Seconds from the start of an exchange to its end, without its bytes.
    bandwidth : float
        Bytes per second that a rank sends while it receives as many.
    """

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Machine:
    """The inputs of the model.

    Attributes
    ----------
    name : str
    memory : tuple of (bytes, bytes per second)
        Speed of a rank's memory, read and written, where it works on so many bytes; between these
        it is interpolated in the logarithm, and constant beyond.
    share : float
        Of that speed, which kernels have.
    intra, inter : Link
        Between ranks of one node, and of two.
    ranks_per_node : int
    overhead : float
        Seconds that the host takes for each message.
    call : float
        Seconds of a step on a block of no cells.
    line : int
        Bytes that memory moves at least, for one value too: of a cache line, or a sector.
    overlap : float
        Share of the exchange that can pass while the core is computed: 1 where devices of their own
        move the bytes, 0 where the cores that compute do.
    """

    name: str
    memory: tuple[tuple[float, float], ...]
    share: float
    intra: Link
    inter: Link
    ranks_per_node: int
    overhead: float
    call: float
    line: int
    overlap: float

    def speed(self, nbytes: float) -> float:
        """Bytes per second of memory in which so many bytes are worked on."""
        low = self.memory[0]
        if nbytes <= low[0]:
            return low[1]
        for (a, slow), (b, fast) in pairwise(self.memory):
            if nbytes <= b:
                return slow + (fast - slow) * math.log(nbytes / a) / math.log(b / a)
        return self.memory[-1][1]

    def link(self, rank: int, other: int) -> str:
        """Which of its links joins two ranks: "intra" or "inter"."""
        return "intra" if rank // self.ranks_per_node == other // self.ranks_per_node else "inter"

    def as_dict(self) -> dict[str, Any]:
        """The inputs as plain values, for JSON."""
        return asdict(self)


def _gpu(name: str, memory: float, links: tuple[float, float], ranks_per_node: int) -> Machine:
    """A machine of GPUs, with what the docstring above assumes."""
    within, between = links
    return Machine(
        name, ((0.0, memory),), 0.8, Link(4e-6, within), Link(6e-6, between), ranks_per_node,
        overhead=1e-6, call=10e-6, line=32, overlap=1.0,
    )  # fmt: skip


#: Machines by name.
NAMED = {
    one.name: one
    for one in (
        _gpu("h100-ndr", 3.35e12, (450e9, 50e9), 8),
        _gpu("a100-slingshot11", 1.555e12, (100e9, 25e9), 4),
    )
}


def machine_of(name: str) -> Machine:
    """The machine of that name, or of a JSON file that holds the attributes. Local.

    Raises
    ------
    FileError
        Neither a name nor such a file.
    """
    if name in NAMED:
        return NAMED[name]
    try:
        return _checked(json.loads(Path(name).read_text(encoding="utf-8")))
    except OSError as error:
        raise FileError(
            f"The machine {name!r} is unknown and no file ({error.strerror}); give "
            f"{', '.join(NAMED)} or the path of a JSON file."
        ) from None
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"The file {name!r} describes no machine ({error}); write one with --validate --json "
            "FILE and change it."
        ) from None


def _checked(given: Any) -> Machine:
    found = _object(given, "it")
    found = _object(found.get("machine", found), "machine")
    intra, inter = (
        Link(*(_number(_object(_of(found, name), name), what) for what in ("latency", "bandwidth")))
        for name in ("intra", "inter")
    )
    memory = _sizes(_of(found, "memory"))
    if not isinstance(_of(found, "name"), str):
        raise ValueError("name must be a text")
    machine = Machine(
        name=found["name"],
        memory=memory,
        share=_number(found, "share"),
        intra=intra,
        inter=inter,
        ranks_per_node=_whole(found, "ranks_per_node"),
        overhead=_number(found, "overhead"),
        call=_number(found, "call"),
        line=_whole(found, "line"),
        overlap=_number(found, "overlap"),
    )
    speeds = [speed for _, speed in memory] + [intra.bandwidth, inter.bandwidth]
    times = [machine.overhead, machine.call, machine.overlap, intra.latency, inter.latency]
    if (
        not memory
        or min(speeds) <= 0
        or min(times) < 0
        or min(machine.ranks_per_node, machine.line) < 1
    ):
        raise ValueError("speeds must be above 0, times not below 0")
    if machine.share <= 0 or machine.overlap > 1 or any(a[0] >= b[0] for a, b in pairwise(memory)):
        raise ValueError("share must be above 0, overlap at most 1, sizes of memory must increase")
    if len(memory) > 1 and memory[0][0] <= 0:
        raise ValueError("sizes of memory must be above 0 where there are several")
    return machine


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object of names and values")
    return value


def _of(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise ValueError(f"{name} is missing")
    return found[name]


def _sizes(value: Any) -> tuple[tuple[float, float], ...]:
    pairs = value if isinstance(value, list) else [value]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("memory must be a list of pairs of bytes and bytes per second")
    return tuple((_finite(size, "memory"), _finite(speed, "memory")) for size, speed in pairs)


def _number(found: dict[str, Any], name: str) -> float:
    return _finite(_of(found, name), name)


def _finite(value: Any, name: str) -> float:
    with contextlib.suppress(OverflowError):
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise ValueError(f"{name} must be a finite number")


def _whole(found: dict[str, Any], name: str) -> int:
    value = _number(found, name)
    if value != int(value):
        raise ValueError(f"{name} must be a whole number")
    return int(value)
