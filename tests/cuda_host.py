"""CUDA text of kernels run on NumPy arrays, as the simulated device runs it but at once."""

from __future__ import annotations

import ctypes

import numpy as np

from distarray.backends.driver import KernelText
from distarray.backends.simulated import host_cuda
from distarray.stencil import cuda, memory
from distarray.stencil.accumulators import joined
from distarray.stencil.compile import _aliased
from distarray.stencil.cuda import packing


class HostLaunch:
    """A `BoundLaunch` of CUDA text on NumPy arrays."""

    def __init__(self, program, arrays, geometry, *, wide=False, strided=None):
        if strided is None:
            strided = any(v.memory.strides[-1] != v.memory.itemsize for v in arrays)
        self.program, self.geometry = program, geometry
        self.code = cuda.generate(
            program, aliased=_aliased(program, arrays), wide=wide, strided=strided
        )
        self._tables = [memory.TableValues(t, arrays, geometry) for t in self.code.tables]
        addresses = [
            view.memory.ctypes.data + memory.origin(program, number, view, geometry)
            for number, view in enumerate(arrays)
        ]
        addresses += [table.values.ctypes.data + table.origin for table in self._tables]
        self._pointers = [np.array([address % 2**64], np.uint64) for address in addresses]
        self._scalars = np.zeros(max(16, memory.scalar_format(program).size), np.uint8)
        self._layout = np.array([*memory.strides(arrays, last=strided), 0], np.int64)
        self._arrays = arrays
        self.reset_reductions()

    def set_scalars(self, values):
        flat = memory.flat_scalars(self.program, values)
        memory.scalar_format(self.program).pack_into(self._scalars, 0, *flat)

    def run(self, box, mask=-1, colour=0):
        self.run_boxes([(box, mask)], colour)

    def run_boxes(self, boxes, colour=0):
        for launch in packing.launches(self.code, boxes, self.geometry.start, colour):
            self._run(launch)

    def reset_reductions(self):
        parts = [a.cleared().view(np.int64) for a in self.code.accumulators]
        self._results = np.concatenate([*parts, np.zeros(0, np.int64)])

    def partials(self):
        results, place = [], 0
        for a in self.code.accumulators:
            results.append(self._results[place : place + a.length].view(a.dtype).copy())
            place += a.length
        return joined(self.code.accumulators, results)

    def _run(self, launch):
        if launch.kernel is self.code.combine:
            values = [_address(self._scratch), _address(self._results), launch.values]
        else:
            self._scratch = np.full(max(launch.scratch, 1), -1, np.int64)
            values = [*self._pointers, _address(self._scalars), self._layout, launch.values]
            if self.code.combine is not None:
                values.append(_address(self._scratch))
        if self.code.combine is not None and launch.kernel is self.code.combine:
            assert launch.scratch <= self._scratch.size
        parameters = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        kernel = launch.kernel
        text = KernelText(kernel.text, kernel.symbol, kernel.parameters, kernel.fast)
        host_cuda.load(text)(launch.grid, launch.block, parameters)


def _address(array):
    return np.array([array.ctypes.data], np.uint64)
