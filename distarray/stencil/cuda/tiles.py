"""How the points of boxes are dealt out to blocks of threads: the same structures as CUDA text and
as NumPy dtypes. Pure.

A tile is what one block of threads computes of a box. Its threads lie side by side along the last
axis, 2**shift of them, so that neighbouring threads read neighbouring elements, then along the axis
before. Each thread goes some steps along axis 0; where that is one of those two axes, a step leaps
over the threads. Tiles are numbered through all boxes of a launch, along the last axis first.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

#: Threads of a block, and its base-2 logarithm.
LOG_THREADS = 8
THREADS = 1 << LOG_THREADS
#: Boxes of one launch.
MOST_BOXES = 32


def structures(ndim: int, layout: list[str]) -> str:
    """What the kernel is handed by value."""
    strides = f"int64_t {', '.join(layout)};" if layout else "int64_t none;"
    return f"""\
struct layout {{ {strides} }};
struct box {{
  int64_t mask;
  index_t begin[{ndim}], end[{ndim}], first;
  unsigned first_tile;
  int shift;
}};
struct launch {{
  int64_t start[{ndim}];
  index_t steps;
  int parity, count;
  unsigned tiles;
  struct box boxes[{MOST_BOXES}];
}};"""


@functools.cache
def launch_dtype(ndim: int, wide: bool) -> np.dtype[Any]:
    """`struct launch`.

    Attributes of a box: `first` is the position along the last axis where its tiles begin, at or
    below its beginning (half the position for two colours). `parity` is that of the indices of a
    colour less that of `start`.
    """
    index = np.int64 if wide else np.int32
    box = np.dtype(
        [
            ("mask", np.int64),
            ("begin", index, (ndim,)),
            ("end", index, (ndim,)),
            ("first", index),
            ("first_tile", np.uint32),
            ("shift", np.int32),
        ],
        align=True,
    )
    return np.dtype(
        [
            ("start", np.int64, (ndim,)),
            ("steps", index),
            ("parity", np.int32),
            ("count", np.int32),
            ("tiles", np.uint32),
            ("boxes", box, (MOST_BOXES,)),
        ],
        align=True,
    )
