"""What the NVIDIA driver says without CuPy: how many GPUs there are, and which one to take.

Nothing here needs an optional package or starts work on a GPU, so that a process may look before it
touches MPI. The driver's library is part of the system; it is loaded by name.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distarray.errors import BackendError
from distarray.launcher import OnNode

LIBRARY = "libcuda.so.1"
#: The oldest CUDA whose wheels are supported.
OLDEST = 12
_NEWEST_EXTRA = 13


@dataclass(frozen=True)
class DriverReport:
    """What the driver reports.

    Attributes
    ----------
    devices : int
    cuda : (int, int)
        The newest CUDA that the driver supports.
    problem : str
        Why no GPU can be used, as a sentence; empty if one can.
    """

    devices: int
    cuda: tuple[int, int]
    problem: str = ""

    @property
    def extra(self) -> str:
        """The extra of this package whose CuPy fits the driver."""
        return f"cuda{min(self.cuda[0], _NEWEST_EXTRA)}"


@functools.cache
def library() -> Any:
    """The driver's library. Raises OSError where there is none. Local."""
    return ctypes.CDLL(LIBRARY)


@functools.cache
def look() -> DriverReport:
    """What there is for this process. Local."""
    try:
        driver = library()
    except OSError as error:
        return _nothing(f"no NVIDIA driver can be loaded ({error})", "install the driver")
    status = driver.cuInit(0)
    if status:
        return _nothing(
            f"the NVIDIA driver offers none ({_status_name(driver, status)}{_visible()})",
            "see what nvidia-smi reports",
        )
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    cuda = (version.value // 1000, version.value % 1000 // 10)
    if cuda[0] < OLDEST:
        return _nothing(
            f"the NVIDIA driver supports CUDA {cuda[0]}.{cuda[1]}, older than {OLDEST}.0",
            "install a newer driver",
        )
    if not count.value:
        return _nothing(f"the NVIDIA driver offers none{_visible()}", "see what nvidia-smi reports")
    return DriverReport(count.value, cuda)


def _nothing(reason: str, cure: str) -> DriverReport:
    return DriverReport(0, (0, 0), f"device='cuda' needs a GPU, and {reason}; {cure} or use 'cpu'.")


def _status_name(driver: Any, status: int) -> str:
    name = ctypes.c_char_p()
    if driver.cuGetErrorName(status, ctypes.byref(name)) or name.value is None:
        return f"error {status}"
    return name.value.decode()


def _visible() -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if chosen is None else f", CUDA_VISIBLE_DEVICES={chosen!r}"


def identity(index: int) -> str:
    """The name of a GPU, or of the part of one that this process sees, in all the world. Local."""
    driver, device = library(), ctypes.c_int()
    name = (ctypes.c_ubyte * 16)()
    # The second form tells the parts of a divided GPU apart; drivers for CUDA 11.4 and newer.
    if driver.cuDeviceGet(ctypes.byref(device), index) or driver.cuDeviceGetUuid_v2(name, device):
        raise BackendError(
            f"The NVIDIA driver does not name GPU {index}; see what nvidia-smi says."
        )
    return bytes(name).hex()


@dataclass(frozen=True)
class GpuChoice:
    """The GPU of this process, and what is to be said about it, if anything."""

    index: int
    warning: str = ""


def choose(
    count: int, ranks: OnNode | None, environment: Mapping[str, str] = os.environ
) -> GpuChoice:
    """The GPU that goes to a rank of a node with `count` visible ones: in turn. Local."""
    if ranks is None:
        return GpuChoice(0)
    number = max(ranks.size, ranks.rank + 1)
    if number <= count:
        return GpuChoice(ranks.rank % count)
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").strip(", ")
    if count == 1 and visible and "," not in visible:
        return GpuChoice(
            0,
            f"Each rank sees one GPU only (CUDA_VISIBLE_DEVICES={visible}): ranks of a node share "
            "it, or have one each that cannot reach the others directly. Let all ranks see all "
            "GPUs of their node, for example by srun --gpu-bind=none.",
        )
    return GpuChoice(
        ranks.rank % count,
        f"{number} or more ranks of a node share {count} GPU{'s' * (count > 1)} and take turns on "
        "them; start one rank for each GPU.",
    )
