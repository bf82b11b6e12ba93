"""Coefficients that depend on the time: new values for calls that were prepared with memory for
them. On a device they go through pinned memory, so that a step makes the host wait for nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from distarray.backends.base import Backend


def renewal(backend: Backend, held: Any) -> Callable[[Any], None]:
    """What gives an array of the backend new values, broadcast and cast, by work of the compute
    stream. Local.
    """
    if isinstance(held, np.ndarray):
        return partial(held.__setitem__, Ellipsis)
    return _Upload(backend, held)


class _Upload:
    """Two pieces of pinned memory in turn: the one that is written belongs to the upload before the
    last, which is done by then unless the device is far behind.
    """

    def __init__(self, backend: Backend, held: Any) -> None:
        self._backend, self._held = backend, held
        self._turns = itertools.cycle(
            [
                (backend.pinned(held.nbytes).view(held.dtype).reshape(held.shape), backend.event())
                for _ in range(2)
            ]
        )

    def __call__(self, values: Any) -> None:
        backend = self._backend
        memory, uploaded = next(self._turns)
        uploaded.synchronize()
        backend.host_access(memory, write=True, what="values of a boundary condition")
        memory[...] = np.asarray(values, memory.dtype)
        backend.begin_to_device(memory, self._held, backend.compute)
        backend.compute.record(uploaded)
