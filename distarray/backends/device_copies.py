"""Many strided copies by one launch of a kernel.

A copy is a row of a table in device memory: four loops around an element of 1 to 16 bytes. Threads
count its elements along the packed side, the one without gaps, so that neighbouring threads move
neighbouring bytes there whichever axis a face is normal to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distarray.arraylike import HostArray
from distarray.backends.base import BoxCopy, CopyList, Stream
from distarray.backends.driver import Access, KernelText, Parameters
from distarray.errors import BackendError

if TYPE_CHECKING:
    from distarray.backends.accelerator import AcceleratorBackend
    from distarray.backends.device_array import DeviceArray

THREADS, PER_THREAD = 256, 4
_LOOPS = 4
_SIZES = (16, 8, 4, 2, 1)
#: Elements of one row of the table; the kernel counts them in 32 bits.
_MOST = 2**31 - 1
#: Effort spent on finding out whether two strided arrays overlap.
_OVERLAP_WORK = 1000

TEXT = """\
struct copy {
  const char *source;
  char *target;
  long long s[4], t[4];  /* bytes between neighbours, outermost loop first */
  unsigned n[4], magic[4], shift[4];  /* extents; quotients by them as product and shift */
  unsigned count, first, size, unused;  /* elements, first block, bytes of an element */
};

struct alignas(16) sixteen { unsigned long long low, high; };

template <typename T> static __device__ __forceinline__ void
move(const struct copy &c, unsigned first)
{
  T values[PER_THREAD];
  char *places[PER_THREAD];
#pragma unroll
  for (int u = 0; u < PER_THREAD; u++) {
    const unsigned number = first + u * THREADS;
    unsigned e = number < c.count ? number : c.count - 1;  /* no branch before the loads */
    const char *source = c.source;
    char *target = c.target;
#pragma unroll
    for (int loop = 3; loop > 0; loop--) {
      const unsigned high = (unsigned)(((unsigned long long)c.magic[loop] * e) >> 32);
      const unsigned quotient = (high + e) >> c.shift[loop];
      const long long index = e - quotient * c.n[loop];
      source += index * c.s[loop];
      target += index * c.t[loop];
      e = quotient;
    }
    values[u] = *(const T *)(source + (long long)e * c.s[0]);
    places[u] = target + (long long)e * c.t[0];
  }
#pragma unroll
  for (int u = 0; u < PER_THREAD; u++)
    if (first + u * THREADS < c.count) *(T *)places[u] = values[u];
}

/* owners: the copy to which each block belongs */
extern "C" __global__ void
distarray_copies(const struct copy *__restrict__ copies, const int *__restrict__ owners)
{
  const struct copy c = copies[owners[blockIdx.x]];  /* in registers, for all elements */
  const unsigned first = (blockIdx.x - c.first) * (PER_THREAD * THREADS) + threadIdx.x;
  switch (c.size) {
  case 1: move<unsigned char>(c, first); break;
  case 2: move<unsigned short>(c, first); break;
  case 4: move<unsigned int>(c, first); break;
  case 8: move<unsigned long long>(c, first); break;
  default: move<struct sixteen>(c, first);
  }
}
""".replace("PER_THREAD", str(PER_THREAD)).replace("THREADS", str(THREADS))

KERNEL = KernelText(TEXT, "distarray_copies", ("const struct copy *", "const int *"))

ROW = np.dtype(
    [("source", "u8"), ("target", "u8"), ("s", "i8", _LOOPS), ("t", "i8", _LOOPS)]
    + [(name, "u4", _LOOPS) for name in ("n", "magic", "shift")]
    + [(name, "u4") for name in ("count", "first", "size", "unused")]
)


def prepare(backend: AcceleratorBackend, copies: Sequence[BoxCopy]) -> CopyList:
    """Copies carried out as if in order: by one launch, unless one depends on another. Local.

    Raises
    ------
    BackendError
        Source and target of a copy differ in shape or dtype, or overlap.
    """
    for copy in copies:
        copy.require_alike()
        _require_apart(copy)
    kept = [copy for copy in copies if copy.source.size]
    return DeviceCopies(backend, _independent_groups(kept))


class DeviceCopies:
    """Prepared copies; a group is launched at once, and the groups in order."""

    def __init__(self, backend: AcceleratorBackend, groups: Sequence[Sequence[BoxCopy]]) -> None:
        self._compute = backend.compute
        make = _Launch if backend.driver.compiles else _Calls
        self._groups = [make(backend, group) for group in groups]

    def __call__(self, stream: Stream | None = None) -> None:
        for group in self._groups:
            group.give(self._compute if stream is None else stream)


class _Launch:
    """Copies that do not depend on each other, by the kernel.

    Each stream that is given them has a table of its own, uploaded by itself: so no stream has to
    wait for another because of the tables alone.
    """

    def __init__(self, backend: AcceleratorBackend, copies: Sequence[BoxCopy]) -> None:
        self._backend, self._driver = backend, backend.driver
        self._function = backend.driver.load(KERNEL)
        self._rows, self._owners = table(copies)
        self._grid = (len(self._owners), 1, 1)
        self._accesses = list(_accesses(copies))
        self._uploaded: dict[int, tuple[Parameters, list[Access]]] = {}
        self._upload(backend.compute)

    def give(self, stream: Stream) -> None:
        found = self._uploaded.get(id(stream)) or self._upload(stream)
        parameters, accesses = found
        self._driver.launch(
            self._function, self._grid, (THREADS, 1, 1), parameters, stream, accesses, "copies"
        )

    def _upload(self, stream: Stream) -> tuple[Parameters, list[Access]]:
        pooled = stream is self._backend.compute  # to which the pool's memory belongs
        tables = []
        for values in (self._rows.view(np.uint8), self._owners):
            allocation = self._driver.allocate(values.nbytes, pooled=pooled)
            place = Access(allocation, allocation.address, (values.nbytes,), (1,), 1, True)
            self._driver.to_device(values, place, stream, pinned=False)
            tables.append(replace(place, write=False))
        parameters = Parameters([np.array([place.address], np.uint64) for place in tables])
        self._uploaded[id(stream)] = parameters, [*tables, *self._accesses]
        return self._uploaded[id(stream)]


class _Calls:
    """The same by NumPy, for simulated devices without a compiler."""

    def __init__(self, backend: AcceleratorBackend, copies: Sequence[BoxCopy]) -> None:
        self._driver = backend.driver
        self._pairs = [(copy.target.shadow, copy.source.shadow) for copy in copies]
        self._accesses = list(_accesses(copies))

    def give(self, stream: Stream) -> None:
        self._driver.call(self._copy, stream, self._accesses, "copies")

    def _copy(self) -> None:
        for target, source in self._pairs:
            np.copyto(target, source)


def _accesses(copies: Sequence[BoxCopy]) -> Iterator[Access]:
    for copy in copies:
        yield copy.source.access(False)
        yield copy.target.access(True)


def _require_apart(copy: BoxCopy) -> None:
    if overlap(copy.source.shadow, copy.target.shadow):
        raise BackendError(
            f"A copy of shape {copy.source.shape} goes into the memory that it reads; copy by way "
            "of another array."
        )


# ---- order


def _independent_groups(copies: Sequence[BoxCopy]) -> list[list[BoxCopy]]:
    """The copies in order, cut wherever one touches what an earlier one of its group writes or
    writes what it reads.
    """
    groups: list[list[BoxCopy]] = []
    begin = 0
    for number, (copy, before) in enumerate(zip(copies, _depends_on(copies), strict=True)):
        if not groups or before >= begin:
            groups.append([])
            begin = number
        groups[-1].append(copy)
    return groups


def _depends_on(copies: Sequence[BoxCopy]) -> list[int]:
    """For each copy the latest before it that it depends on, -1 for none.

    Sides are visited by their first bytes. So only those are compared whose bytes reach into each
    other; of the others most of a long list consists.
    """
    sides = [
        _Side(array, number, write)
        for number, copy in enumerate(copies)
        for array, write in ((copy.source, False), (copy.target, True))
    ]
    sides.sort(key=lambda side: side.first)
    found = [-1] * len(copies)
    reads: list[_Side] = []
    writes: list[_Side] = []
    for side in sides:
        writes = [other for other in writes if other.stop > side.first]
        if side.write:
            reads = [other for other in reads if other.stop > side.first]
        for other in (*writes, *reads) if side.write else writes:
            first, last = sorted((side.number, other.number))
            if first > found[last] and first != last and overlap(side.shadow, other.shadow):
                found[last] = first
        (writes if side.write else reads).append(side)
    return found


class _Side:
    """One side of a copy, with the range of bytes around it."""

    __slots__ = ("first", "number", "shadow", "stop", "write")

    def __init__(self, array: DeviceArray, number: int, write: bool) -> None:
        self.number, self.write, self.shadow = number, write, array.shadow
        self.first, self.stop = np.lib.array_utils.byte_bounds(array.shadow)


def overlap(a: HostArray, b: HostArray) -> bool:
    """Whether two arrays have bytes in common, as far as little effort tells. Local."""
    try:
        # NumPy's stubs know only two of the values that max_work may have.
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


# ---- the table


def table(copies: Sequence[BoxCopy]) -> tuple[HostArray, HostArray]:
    """Rows of the kernel's table, and the number of the row of each block. Local."""
    found = [row for copy in copies for row in _rows(copy)]
    rows = np.zeros(len(found), ROW)
    blocks: list[int] = []
    first = 0
    for row, (source, target, size, loops) in zip(rows, found, strict=True):
        row["source"], row["target"], row["size"] = source, target, size
        row["n"], row["s"], row["t"] = np.array(loops, np.int64).T
        row["magic"], row["shift"] = zip(*(reciprocal(n) for n, _, _ in loops), strict=True)
        count = int(np.prod([n for n, _, _ in loops], dtype=np.int64))
        row["count"], row["first"] = count, first
        blocks.append(-(-count // (THREADS * PER_THREAD)))
        first += blocks[-1]
    return rows, np.repeat(np.arange(len(rows), dtype=np.int32), blocks)


Loop = tuple[int, int, int]  # extent, bytes between neighbours of the source and of the target


def _rows(copy: BoxCopy) -> Iterator[tuple[int, int, int, list[Loop]]]:
    """Addresses, bytes of an element and the loops, outermost first; further loops written out."""
    size, loops = _loops(copy)
    outer, inner = loops[:-_LOOPS], loops[-_LOOPS:]
    inner = [(1, 0, 0)] * (_LOOPS - len(inner)) + inner
    for index in itertools.product(*(range(n) for n, _, _ in outer)):
        s = sum(i * loop[1] for i, loop in zip(index, outer, strict=True))
        t = sum(i * loop[2] for i, loop in zip(index, outer, strict=True))
        yield from _countable(copy.source.address + s, copy.target.address + t, size, inner)


def _countable(
    source: int, target: int, size: int, loops: list[Loop]
) -> Iterator[tuple[int, int, int, list[Loop]]]:
    """A row, or several if it has too many elements to count: parts of its longest loop."""
    if np.prod([n for n, _, _ in loops], dtype=object) <= _MOST:
        yield source, target, size, loops
        return
    place = max(range(_LOOPS), key=lambda place: loops[place][0])
    n, s, t = loops[place]
    for first, extent in ((0, n // 2), (n // 2, n - n // 2)):
        part = [*loops[:place], (extent, s, t), *loops[place + 1 :]]
        yield from _countable(source + first * s, target + first * t, size, part)


def _loops(copy: BoxCopy) -> tuple[int, list[Loop]]:
    """Bytes of an element and the loops around it, outermost first; axes that run on in both
    arrays are joined.
    """
    source, target = copy.source, copy.target
    packed = source if source.contiguous and not target.contiguous else target
    run = source.itemsize
    loops: list[Loop] = []
    for axis in sorted(range(source.ndim), key=lambda axis: (abs(packed.strides[axis]), -axis)):
        n, s, t = source.shape[axis], source.strides[axis], target.strides[axis]
        if n == 1:
            continue
        if not loops and s == t == run:
            run *= n
        elif loops and (s, t) == (loops[-1][0] * loops[-1][1], loops[-1][0] * loops[-1][2]):
            loops[-1] = (loops[-1][0] * n, *loops[-1][1:])
        else:
            loops.append((n, s, t))
    steps = (run, source.address, target.address, *(x for _, s, t in loops for x in (s, t)))
    size = next(size for size in _SIZES if all(step % size == 0 for step in steps))
    if run > size:
        loops.insert(0, (run // size, size, size))
    return size, loops[::-1]


def reciprocal(n: int) -> tuple[int, int]:
    """Factor and shift: e // n == ((factor * e >> 32) + e) >> shift for all e below 2**31."""
    shift = (n - 1).bit_length()
    return (2**32 * (2**shift - n)) // n + 1, shift
