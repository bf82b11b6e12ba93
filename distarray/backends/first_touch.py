"""New memory, touched first by the threads that will work on it.

Systems give a page of memory to the thread that first writes to it, from what is near its core.
Kernels divide the first axis into equal parts, one for each thread, and so does this.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import native, threads

#: Bytes of an array from which on its pages are spread.
LEAST_BYTES = 1 << 20

SOURCE = """\
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

int distarray_threads = 1;

/* Writes a zero into each page of zeros; threads share the rows of each component. */
void distarray_touch(char *const *components, int64_t count, int64_t rows, int64_t pitch) {
#ifdef _OPENMP
#pragma omp parallel num_threads(distarray_threads)
  {
    const int64_t number = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t first = rows * number / threads, last = rows * (number + 1) / threads;
    for (int64_t c = 0; c < count; c++)
      for (int64_t byte = first * pitch; byte < last * pitch; byte += 4096)
        ((volatile char *)components[c])[byte] = 0;
  }
#endif
}
"""


def touch(memory: HostArray, components: int) -> None:
    """Spread the pages of memory that is all zeros and new, if there are several threads. Local.

    Parameters
    ----------
    memory : array
        Shape components + shape.
    components : int
        Number of leading axes that are components.
    """
    if memory.nbytes < LEAST_BYTES or memory.ndim <= components or threads.count() == 1:
        return
    function = native.load(SOURCE, "distarray_touch")
    if function is None:
        return
    starts = [memory[place].ctypes.data for place in np.ndindex(memory.shape[:components])]
    table = np.array(starts, np.uint64)
    function(
        ctypes.c_void_p(table.ctypes.data),
        ctypes.c_int64(math.prod(memory.shape[:components])),
        ctypes.c_int64(memory.shape[components]),
        ctypes.c_int64(memory.strides[components]),
    )
