"""What processor this is, as far as the system says."""

from __future__ import annotations

import contextlib
import functools
import platform
from pathlib import Path


@functools.cache
def description() -> str:
    """What the compiler's -march=native depends on: the processor's model and features. Local."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
        kept = ("model", "vendor", "flags", "Features", "CPU ")
        return "\n".join(line for line in lines if line.startswith(kept))
    return f"{platform.machine()} {platform.processor()}"


@functools.cache
def model() -> str:
    """The processor's name. Local."""
    for line in description().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return f"{platform.machine()} {platform.processor()}"


@functools.cache
def fills_lines() -> bool:
    """Whether the processor has vectors as wide as a cache line: AVX-512, whatever width a compiler
    prefers. Local.
    """
    return "avx512f" in description()
