"""NVIDIA GPUs, by CuPy: streams, memory, transfers, compiled kernels, graphs and NCCL.

CuPy is imported here and nowhere else, inside functions. Nothing of its arrays and kernels is used,
only its calls of the CUDA libraries, and its memory pool, which a user's own CuPy code shares.

Streams. `compute` is a normal stream: CUDA orders it with the legacy default stream, on which a
user's CuPy code works. It does not with the default stream of each thread, which CuPy takes where
CUPY_CUDA_PER_THREAD_DEFAULT_STREAM is set, nor with streams made by `non_blocking=True`: work there
and the library's run in any order unless one waits for the other. `communication` is such a stream
itself, and has the highest priority, so that packing does not wait behind a long kernel.

Memory. Arrays come from the pool, taken while `compute` is CuPy's current stream: what is freed
there is given only to those who allocate for `compute` as well. That is safe without any waiting if

* memory is used by `compute` first, or by another stream after an event that `compute` recorded
  after the allocation: then the use comes after all that `compute` did with it for its former
  owner; and
* who gives `communication` work on an array holds a reference to it until `compute` was told to
  wait for that work, as an exchange does between begin and finish: then it comes after what
  `communication` did with it, too.

Buffers for messages come from plain cudaMalloc, since MPI and NCCL register the memory that they
are handed, and must not meet it again in another's hands. They and pinned memory are freed when
memory is asked for next, after all work of the device is done.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distarray import spans
from distarray.arraylike import HostArray
from distarray.backends import cuda_memory as memory
from distarray.backends import nvidia, nvrtc
from distarray.backends.base import Event, Graph, Stream
from distarray.backends.cuda_nccl import NcclBinding
from distarray.backends.cuda_streams import CudaEvent, CudaGraph, CudaStream, Gpu
from distarray.backends.driver import Access, Allocation, Extents, KernelText, Parameters
from distarray.errors import BackendError
from distarray.launcher import launched, on_node

#: The first CuPy with priorities of streams, and with wheels that bring the CUDA libraries.
OLDEST_CUPY = 14
#: Lower numbers come first; CUDA takes the highest priority that it has for any number beyond it.
_HIGHEST_PRIORITY = -1000
_ALIGNMENT = 512
#: Where CuPy is told to take default streams that `compute` is not ordered with.
_OWN_DEFAULTS = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"


@functools.cache
def available() -> tuple[bool, str]:
    """Whether a GPU can be used by this process, and if not, why, as a sentence. Local.

    CuPy is imported only where there is a driver with a GPU.
    """
    machine = nvidia.look()
    problem = machine.problem or _cupy_problem(machine)
    return not problem, problem


def _cupy_problem(machine: nvidia.DriverReport) -> str:
    extra = machine.extra
    install = f"install the extra {extra} (in a clone: pip install '.[{extra}]')"
    cuda = "{}.{}".format(*machine.cuda)
    if importlib.util.find_spec("cupy") is None:
        return (
            f"device='cuda' needs CuPy, which is not installed; {install}; the driver is for CUDA "
            f"{cuda}."
        )
    try:
        import cupy
    except Exception as error:  # whatever an import may raise
        return f"device='cuda' needs CuPy, which cannot be imported ({error}); {install}."
    if int(cupy.__version__.partition(".")[0]) < OLDEST_CUPY:
        return (
            f"device='cuda' needs CuPy {OLDEST_CUPY} or newer, and this is {cupy.__version__}; "
            f"{install}."
        )
    try:
        built = cupy.cuda.runtime.runtimeGetVersion() // 1000
        if built > machine.cuda[0]:
            return (
                f"device='cuda' needs a driver for CUDA {built}, for which the installed CuPy is "
                f"made, and this one is for CUDA {cuda}; {install} instead of it."
            )
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # a library that is missing raises what it likes
        return f"device='cuda' needs NVRTC, which cannot be loaded ({error}); {install}."
    return ""


@functools.cache
def driver() -> CudaDriver:
    """The GPU of this process, by its rank on the node; call it before MPI is touched. Local.

    Raises
    ------
    BackendError
        No GPU can be used; the message says what is missing and how to install it.
    """
    works, problem = available()
    if not works:
        raise BackendError(problem)
    choice = nvidia.choose(nvidia.look().devices, on_node())
    process = launched()
    if process is None or process.rank == 0:
        for text in (choice.warning, _unordered()):
            if text:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
    made = CudaDriver(choice.index)
    spans.show_ranges(_ranges())
    return made


def _ranges() -> spans.Ranges | None:
    """What shows work as ranges of NVTX, if CuPy is built with it."""
    from cupy.cuda import nvtx

    if not nvtx.available:
        return None

    def start(name: str) -> int:
        return int(nvtx.RangeStart(name, -1))  # in no colour of its own

    return spans.Ranges(nvtx.RangePush, nvtx.RangePop, start, nvtx.RangeEnd)


def _unordered() -> str:
    """What is to be said of default streams, if anything."""
    # As CuPy reads it.
    value = os.environ.get(_OWN_DEFAULTS, "0")
    if not value.isdigit() or not int(value):
        return ""
    return (
        f"{_OWN_DEFAULTS}={value} lets CuPy work in streams that are not ordered with this "
        "library's; wait for the device between its work and yours, or unset the variable."
    )


class CudaDriver:
    """One GPU; see `driver.Driver`.

    Attributes
    ----------
    index : int
        As CUDA counts the visible GPUs.
    identity : str
        Of the GPU, unlike every other's.
    """

    name = "cuda"
    compiles = True

    def __init__(self, index: int) -> None:
        import cupy

        cuda = cupy.cuda
        self._cupy, self._cuda, self._runtime = cupy, cuda, cuda.runtime
        self.index = index
        self.identity = nvidia.identity(index)
        self._gpu = Gpu(cuda, index)
        try:
            self._runtime.setDevice(index)
            self._runtime.memGetInfo()  # makes the context, which launches need
            self._device = cuda.Device(index)
            self._capability = int(self._device.compute_capability)
            self._compute = CudaStream(self._gpu, "compute", cuda.Stream())
            urgent = cuda.Stream(non_blocking=True, priority=_HIGHEST_PRIORITY)
        except RuntimeError as error:
            raise self._gpu.failure("its start", error) from error
        self.compute: Stream = self._compute
        self.communication: Stream = CudaStream(self._gpu, "communication", urgent)
        self._launch = cuda.driver.launchKernel
        self._modules: dict[tuple[str, bool], int] = {}
        self._functions: dict[KernelText, int] = {}
        self._capturing = False
        self._captured: list[Any] = []  # memory that captured work uses
        self._retired = memory.Retired(self._gpu)
        self._uploads = memory.Uploads(self._gpu, self._retired)

    def event(self) -> Event:
        return CudaEvent(self._gpu)

    def allocate(self, nbytes: int, *, pooled: bool = True) -> Allocation:
        """Device memory without values; see the module's docstring. Local."""
        size = max(nbytes, _ALIGNMENT)
        with self._device:  # the pool has memory of the current device
            try:
                return self._pooled(size, nbytes) if pooled else self._plain(size, nbytes)
            except (MemoryError, self._runtime.CUDARuntimeError) as error:
                free, total = self._runtime.memGetInfo()
                raise BackendError(
                    f"{self._gpu.name} has no room for {nbytes} bytes ({free} of {total} are "
                    f"free: {error}); use more GPUs or a smaller grid."
                ) from error

    def _pooled(self, size: int, nbytes: int) -> Allocation:
        with self._compute.cupy:
            try:
                found = self._cuda.alloc(size)
            except MemoryError:
                self._free_retired()
                found = self._cuda.alloc(size)
            return memory.Pooled(found, nbytes)

    def _plain(self, size: int, nbytes: int) -> Allocation:
        self._free_retired()
        try:
            address = self._runtime.malloc(size)
        except self._runtime.CUDARuntimeError:
            # What the pool holds without use may be enough.
            self._cupy.get_default_memory_pool().free_all_blocks()
            address = self._runtime.malloc(size)
        return memory.Plain(address, nbytes, self._retired)

    def _free_retired(self) -> None:
        """Free memory that nobody holds, but not while capturing: it takes an idle device."""
        if not self._capturing:
            self._retired.free()

    def adopt(self, values: Any, described: Mapping[str, Any]) -> Allocation:
        """See `Driver.adopt`. BackendError for memory of another GPU. Local."""
        address = described["data"][0]
        if address:
            found = self._runtime.pointerGetAttributes(address).device
            if found != self.index:
                raise BackendError(
                    f"An array of GPU {found} was given to {self._gpu.name}; copy it there first."
                )
        return memory.Foreign(self._gpu, values, described, self._compute)

    def pinned(self, nbytes: int) -> HostArray:
        """Page-locked host memory, kept until transfers from and to it are done. Local."""
        self._free_retired()
        return memory.pinned(self._gpu, nbytes, self._retired)

    def fill(self, access: Access, byte: int, stream: Any) -> None:
        nbytes = memory.nbytes_of(access)
        if nbytes:
            self._keep(access)
            try:
                self._runtime.memsetAsync(access.address, byte, nbytes, stream.pointer)
            except RuntimeError as error:
                raise self._gpu.failure(f"filling {nbytes} bytes", error) from error

    def to_device(self, source: HostArray, target: Access, stream: Any, *, pinned: bool) -> None:
        """See `Driver.to_device`. Small uploads from any memory do not keep the host waiting."""
        if not source.nbytes:
            return
        if not pinned:
            self._refuse_capture("an upload of values that may change")
            if source.nbytes <= memory.SLOT_BYTES:
                self._uploads.give(source, target.address, stream)
                return
        self._keep(source, target)
        self._copy(target.address, memory.address_of(source), source.nbytes, memory.UP, stream)
        if not pinned:
            # Whether CUDA has read pageable memory by now depends on the machine.
            stream.synchronize()

    def to_host(self, source: Access, target: HostArray, stream: Any, *, pinned: bool) -> None:
        if not target.nbytes:
            return
        if not pinned:
            self._refuse_capture("a download that the host waits for")
        self._keep(source, target)
        self._copy(memory.address_of(target), source.address, target.nbytes, memory.DOWN, stream)
        if not pinned:
            stream.synchronize()

    def _copy(self, target: int, source: int, nbytes: int, kind: str, stream: Any) -> None:
        memory.copy(self._gpu, target, source, nbytes, kind=kind, stream=stream)

    def _keep(self, *memory: Any) -> None:
        """Let a graph that is being captured hold what it uses."""
        if self._capturing:
            self._captured += memory

    def _refuse_capture(self, what: str) -> None:
        if self._capturing:
            raise BackendError(f"Captured work cannot hold {what}; do it before the capture.")

    def load(self, kernel: KernelText) -> Any:
        """The handle of the function; its module stays loaded. Local."""
        found = self._functions.get(kernel)
        if found is None:
            try:
                module = self._module(kernel)
                found = self._cuda.driver.moduleGetFunction(module, kernel.symbol)
            except RuntimeError as error:
                raise self._gpu.failure(f"loading kernel {kernel.symbol}", error) from error
            self._functions[kernel] = found
        return found

    def _module(self, kernel: KernelText) -> int:
        """The text's module, which may hold other functions too."""
        key = (kernel.text, kernel.fast)
        if key not in self._modules:
            code = nvrtc.machine_code(self._cuda.nvrtc, kernel, self._capability)
            self._modules[key] = self._cuda.driver.moduleLoadData(code)
        return self._modules[key]

    def launch(  # noqa: PLR0917 -- of the protocol
        self,
        function: Any,
        grid: Extents,
        block: Extents,
        parameters: Parameters,
        stream: Any,
        accesses: Sequence[Access],
        name: str,
    ) -> None:
        if self._capturing:
            self._captured += accesses
        try:
            self._launch(function, *grid, *block, 0, stream.pointer, parameters.pointer, 0)
        except RuntimeError as error:
            raise self._gpu.failure(
                f"launching {name} (grid {grid}, block {block})", error
            ) from error

    def call(
        self, function: Callable[[], None], stream: Any, accesses: Sequence[Access], name: str
    ) -> None:
        raise BackendError(f"A GPU cannot run the Python function {name}; give it a kernel.")

    def host_access(self, values: Any, *, write: bool, what: str) -> None:
        return None

    def message_memory(self, access: Access) -> Any:
        return memory.MessageMemory(access)

    def begin_capture(self) -> bool:
        """Keep what is given to `compute`, and to streams that wait for its events. Local.

        The host must not wait for either, nor upload or download, until the capture ends.

        Raises
        ------
        BackendError
            Work is being captured already.
        """
        if self._capturing:
            raise BackendError("Work is captured already; end that capture first.")
        try:
            self._compute.cupy.begin_capture()
        except RuntimeError:
            return False
        self._capturing = True
        return True

    def end_capture(self) -> Graph:
        """The work kept since `begin_capture`, with the memory that it uses. Local."""
        if not self._capturing:
            raise BackendError("No work is captured; begin a capture first.")
        self._capturing = False
        captured, self._captured = self._captured, []
        try:
            return CudaGraph(self._gpu, self._compute.cupy.end_capture(), captured)
        except RuntimeError as error:
            raise self._gpu.failure("capturing work", error) from error

    def nccl_binding(self) -> NcclBinding:
        """NCCL for this GPU; see `comm.nccl.Binding`. Local.

        Raises
        ------
        BackendError
            The library is not installed.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error below says it in one sentence
            from cupy.cuda import nccl
        if not nccl.available:
            major = self._runtime.runtimeGetVersion() // 1000
            raise BackendError(
                f"NCCL cannot be loaded; pip install nvidia-nccl-cu{major}, or use another "
                "transport."
            )
        return NcclBinding(nccl, self.identity, self._runtime)
