"""The CPU: NumPy arrays as memory, compiled C as kernels, plain NumPy where nothing compiles.

What compiles is imported when something is first compiled, not with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends import processor, threads
from distarray.backends.base import BoxCopy, CopyList, Event, Graph, Stream
from distarray.backends.recycling import LEAST_BYTES, RECYCLING
from distarray.errors import BackendError

if TYPE_CHECKING:
    from distarray.stencil.expression import Program
    from distarray.stencil.launch import ArrayView, BoundLaunch, LaunchGeometry


LINE = 64  # bytes of a cache line
WAY = 4096  # bytes after which addresses share a set of the first-level cache

#: Lines between the starts of successive allocations, modulo a page: odd, so that arrays take all
#: positions in turn.
_STAGGER = 27
#: Cache lines in a golden share of a page.
_GOLDEN = 25
_allocations = itertools.count()


class _Done:
    """An event of the CPU, whose work is done when it is given."""

    def synchronize(self) -> None:
        return None

    def done(self) -> bool:
        return True


class _Immediate:
    """A stream of the CPU: the calling thread."""

    name = "host"

    def record(self, event: Event) -> None:
        return None

    def wait(self, event: Event) -> None:
        return None

    def synchronize(self) -> None:
        return None


_DONE = _Done()
_IMMEDIATE = _Immediate()


class CpuBackend:
    """Memory and kernels of this process's CPU; all instances are alike."""

    name = "cpu"
    host = True
    compute: Stream = _IMMEDIATE
    communication: Stream = _IMMEDIATE

    def event(self) -> Event:
        return _DONE

    def allocate(
        self,
        components: tuple[int, ...],
        shape: tuple[int, ...],
        halo: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        again: bool = False,
    ) -> HostArray:
        """Zeroed memory for one block, shape components + shape; see `Backend.allocate`. Local.

        The owned part starts a cache line: loads and stores that straddle lines cost more than the
        third line a row that copies of a periodic face along the last axis then touch.
        """
        dtype = np.dtype(dtype)
        if again and math.prod(components + shape) * dtype.itemsize >= LEAST_BYTES:
            key = components, shape, halo, dtype
            memory, new = RECYCLING.take(key, lambda: self.allocate(*key))
            if not new:
                _clear_halo(memory, halo)
            return memory
        strides = padded_strides(components, shape, dtype.itemsize)
        full = components + shape
        span = (
            sum((n - 1) * s for n, s in zip(full, strides, strict=True)) + dtype.itemsize
            if math.prod(full)
            else 0
        )
        raw: HostArray = np.zeros(span + 2 * LINE + WAY, np.uint8)
        place = (next(_allocations) * _STAGGER * LINE) % WAY
        if shape:
            place += -halo[-1] * dtype.itemsize % LINE
        offset = place + -raw.ctypes.data % LINE
        memory = np.ndarray(full, dtype, buffer=raw, offset=offset, strides=strides)
        if threads.count() > 1:
            from distarray.backends.first_touch import touch

            touch(memory, len(components))
        return memory

    def empty(self, shape: tuple[int, ...], dtype: Any) -> HostArray:
        return np.empty(shape, dtype)

    def buffer(self, nbytes: int) -> HostArray:
        """A contiguous byte buffer that starts a cache line. Local."""
        raw: HostArray = np.zeros(nbytes + LINE, np.uint8)
        offset = -raw.ctypes.data % LINE
        return raw[offset : offset + nbytes]

    def pinned(self, nbytes: int) -> HostArray:
        return self.buffer(nbytes)

    def prepare_copies(self, copies: Sequence[BoxCopy]) -> CopyList:
        """Copies carried out as if in order by one call; see `copies.prepare`. Local."""
        from distarray.backends.copies import prepare

        return prepare(copies)

    def prepare_map(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        target: HostArray,
        where: Any = None,
    ) -> Callable[[], None]:
        """The NumPy call itself; see `Backend.prepare_map`. Local."""
        if function is np.copyto:
            (source,) = operands
            return partial(np.copyto, target, source, where=True if where is None else where)
        if where is None:
            return partial(function, *operands, out=target)
        return partial(function, *operands, out=target, where=where)

    def to_host(self, values: Any) -> HostArray:
        return np.asarray(values)

    def asarray(self, values: HostArray) -> HostArray:
        return np.asarray(values)

    def begin_to_host(self, source: HostArray, target: HostArray, stream: Stream) -> None:
        target[...] = source.reshape(-1).view(np.uint8)

    def begin_to_device(self, source: HostArray, target: HostArray, stream: Stream) -> None:
        target.reshape(-1).view(np.uint8)[...] = source

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        return None

    def message_memory(self, buffer: HostArray) -> HostArray:
        return buffer

    def bind(
        self, program: Program, arrays: Sequence[ArrayView], geometry: LaunchGeometry
    ) -> BoundLaunch:
        """As compiled C, or as NumPy where nothing compiles. Local."""
        from distarray.stencil.compile import bind_on_host

        return bind_on_host(program, arrays, geometry, self)

    def begin_capture(self) -> bool:
        return False

    def end_capture(self) -> Graph:
        raise BackendError("The CPU captures no work; run the calls again instead.")

    def load(self, source: str, symbol: str, *, fast: bool = False) -> Any:
        """A compiled C function, or None where nothing compiles. Local."""
        from distarray.backends import native

        return native.load(source, symbol, fast=fast)


def _clear_halo(memory: HostArray, halo: Sequence[int]) -> None:
    """Set what is not owned to zero."""
    for axis, width in enumerate(reversed(halo)):
        after: tuple[slice, ...] = (slice(None),) * axis
        for side in (slice(0, width), slice(memory.shape[-1 - axis] - width, None)):
            memory[(..., side, *after)] = 0


def padded_strides(
    components: tuple[int, ...], shape: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Bytes between neighbours along each axis of components + shape.

    Where the processor has vectors as wide as cache lines, rows fill whole lines, an odd number of
    them, which was measured to be faster there. Elsewhere they follow each other: on a processor of
    four numbers a vector rows that all begin a line took longer (the rows `wave` and `heat` of
    `python -m distarray bench`: 52 and 31.9 ms a step beside 41 and 30.4), as the loads of a point
    with many neighbours all reach the next line at once. Planes and components are kept from
    starting at the same position modulo a page, where a store delays the loads of another plane and
    few sets hold them all. Of components there may be many: they spread over all of a page.
    """
    full = components + shape
    strides = [itemsize]
    for position, extent in enumerate(reversed(full[1:])):
        pitch = strides[-1] * extent
        if position == 0:
            strides.append(_odd_lines(pitch) if processor.fills_lines() else _off_sets(pitch))
        elif position < len(shape) - 1:
            strides.append(_off_page(pitch))
        else:
            strides.append(_spread(pitch))
    return tuple(reversed(strides)) if full else ()


def _odd_lines(nbytes: int) -> int:
    lines = -(-nbytes // LINE)
    return LINE * (lines + 1 - lines % 2 if lines > 4 else max(lines, 1))


def _off_sets(nbytes: int) -> int:
    """The next size that is no multiple of an eighth of a page, after which few rows share a set of
    the cache.
    """
    return nbytes + LINE if nbytes % (WAY // 8) == 0 else nbytes


def _spread(nbytes: int) -> int:
    """The next size by whose multiples places in a page differ, whatever their number: a golden
    share of a page beyond whole pages. Small components stay as they are.
    """
    return nbytes if nbytes < 4 * WAY else nbytes + (_GOLDEN * LINE - nbytes) % WAY


def _off_page(nbytes: int) -> int:
    """The next size that is not near a multiple of a page; small planes stay as they are."""
    beyond, quarter = nbytes % WAY, WAY // 4
    if nbytes < 4 * WAY or quarter <= beyond <= WAY - quarter:
        return nbytes
    return nbytes - beyond + quarter + (WAY if beyond > quarter else 0)
