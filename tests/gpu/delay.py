"""Work that takes a GPU a given time and does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.backends.driver import KernelText, Parameters

_NANOSECONDS_OF_MILLISECOND = 1_000_000

DELAY = KernelText(
    """\
extern "C" __global__ void delay(const long long nanoseconds) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < (unsigned long long)nanoseconds);
}
""",
    "delay",
    ("long long",),
)


def delay(backend: Any, *, milliseconds: float) -> None:
    """Keep the compute stream of a CUDA backend busy."""
    nanoseconds = np.array([milliseconds * _NANOSECONDS_OF_MILLISECOND], np.int64)
    driver = backend.driver
    function = driver.load(DELAY)
    driver.launch(
        function, (1, 1, 1), (1, 1, 1), Parameters([nanoseconds]), backend.compute, (), "delay"
    )
